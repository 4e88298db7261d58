"""The type check of whole graphs: what it returns, and what it says when a type rule itself fails."""

from __future__ import annotations

from typing import Any

import pytest

from tantamount.errors import InternalError, UserError
from tantamount.ir.graph import Graph, Node, Output, Ref, Source
from tantamount.ir.types import DType, TensorType
from tantamount.ops import check
from tantamount.ops.algebra import Tensor

X = Node("x", "input", "x", type=TensorType((2, 3), DType.FLOAT32))
SUM = Node("s", "call", "aten.sum.dim_IntList", (Ref("x"), (1,)), source=Source("m.py", 3))
GRAPH = Graph((X, SUM), (Output("s", "s"),), path="g.json")


def test_types_of_every_node() -> None:
    types = check.check_graph(GRAPH, None)
    found = types["s"]
    assert isinstance(found, Tensor)
    assert found.type == TensorType((2,), DType.FLOAT32)


def test_input_without_a_type() -> None:
    with pytest.raises(UserError) as caught:
        check.check_graph(Graph((Node("x", "input", "x"),), (), path="g.json"), None)
    assert (caught.value.code, caught.value.place) == ("graph-input-type", "g.json: node x")


def _failing(monkeypatch: pytest.MonkeyPatch, problem: Exception) -> None:
    def run(*_: Any, **__: Any) -> None:
        raise problem

    monkeypatch.setattr(check, "run", run)


def test_a_type_rule_that_fails_names_its_node(monkeypatch: pytest.MonkeyPatch) -> None:
    _failing(monkeypatch, ZeroDivisionError("oops"))
    with pytest.raises(InternalError) as caught:
        check.check_graph(GRAPH, None)
    assert "g.json: node s (m.py:3): aten.sum.dim_IntList" in str(caught.value)
    assert "ZeroDivisionError('oops')" in str(caught.value)


def test_a_machine_without_memory_is_not_the_graph_s_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    _failing(monkeypatch, MemoryError())
    with pytest.raises(MemoryError):
        check.check_graph(GRAPH, None)
