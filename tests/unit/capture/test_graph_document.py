"""A graph written as a document and read again is the same graph."""

from __future__ import annotations

import json
from math import inf

import pytest

from support.jobs import graph_of
from tantamount.capture.fx_json import parse_graph
from tantamount.capture.graph_document import graph_document
from tantamount.ir.graph import Constant, Device, Graph, Node, Output, Ref, Setting, Source
from tantamount.ir.types import DType, TensorType
from tantamount.limits import Limits

PAIR = TensorType((2,), DType.FLOAT32)
X = Node("x", "input", "x", type=PAIR)


def again(graph: Graph) -> Graph:
    return parse_graph(json.dumps(graph_document(graph)), graph.path, Limits())


def test_small_program() -> None:
    graph = graph_of("x: float32[2, 3]\ny = aten.sum.dim_IntList(x, [1], True)\n-> y")
    assert again(graph) == graph


@pytest.mark.parametrize(
    "argument",
    [
        True, 1, 1.5, -0.0, inf, -inf, 1 + 2j, complex(inf, 0), "text", None, DType.BFLOAT16, Device("cpu"),
        Setting("strided"), Ref("x"), (1, (Ref("x"), None), ()),
    ],
    ids=str,
)  # fmt: skip
def test_arguments_keep_their_type(argument: object) -> None:
    node = Node("y", "call", "any.operator", (argument,), {"key": argument}, PAIR)  # type: ignore[arg-type]
    (_, found) = again(Graph((X, node), (Output("y", "y"),))).nodes
    assert repr(found.args) == repr(node.args)
    assert repr(found.kwargs["key"]) == repr(argument)


@pytest.mark.parametrize(
    "source",
    [
        None,
        Source("a/b.py", 3, "f", "x = y | z"),
        Source("b.py", 1),
        Source("", 0, "", "op name"),
        Source("c.py", 2, "", "x"),
    ],
)
def test_sources(source: Source | None) -> None:
    graph = Graph((Node("x", "input", "x", type=PAIR, source=source),), (Output("y", "x"),), rank=3, origin="here")
    assert again(graph) == graph


@pytest.mark.parametrize(
    ("dtype", "data"),
    [
        (DType.FLOAT32, (1.5, -inf)),
        (DType.INT64, (2**62, -1)),
        (DType.BOOL, (True, False)),
        (DType.COMPLEX64, (1 + 2j, complex(0, inf))),
    ],
)
def test_constants(dtype: DType, data: tuple[complex, ...]) -> None:
    constant = Constant(TensorType((2,), dtype), data)
    graph = Graph((Node("c", "constant", "c", type=constant.type),), (Output("y", "c"),), {"c": constant})
    assert again(graph) == graph
