"""Cases cut out of graphs: connected, typed, at other sizes, with values that can be compared."""

from __future__ import annotations

import ast

import numpy as np
import pytest

from tantamount.errors import UserError
from tantamount.fuzz.backends import backends
from tantamount.fuzz.backends.base import policy_of
from tantamount.fuzz.draft import Policy
from tantamount.fuzz.models import Models
from tantamount.fuzz.plain import plain_calls
from tantamount.ir.graph import Graph
from tantamount.ir.text import parse_graph
from tantamount.ops.check import check_graph
from tantamount.semantics.exact import plain

MODEL = """tantamount graph 1
%model.x: float32[2, 8, 24] = input
%model.w: float32[24, 48] = input
%b: float32[48] = input
%v: float32[16, 24] = aten.view.default(%model.x, [16, -1])
%t: float32[48, 24] = aten.t.default(%model.w)
%t_1: float32[24, 48] = aten.t.default(%t)
%mm: float32[16, 48] = aten.mm.default(%v, %t_1)
%u: float32[2, 8, 48] = aten._unsafe_view.default(%mm, [2, 8, 48])
%a: float32[2, 8, 48] = aten.add.Tensor(%u, %b)
%c: float32[2, 8, 48] = aten.clone.default(%a)
%r: float32[2, 8, 48] = aten.relu.default(%c)
%s: float32[2, 8, 24] = aten.slice.Tensor(%r, -1, -24, 9223372036854775807)
%y: float32[2, 8, 24] = aten.sub.Tensor(%model.x, %s)
%m: float32[2, 8, 1] = aten.amax.default(%y, [-1], True)
output y = %y
output m = %m
"""


@pytest.fixture(scope="module")
def model() -> Graph:
    return parse_graph(MODEL, "model")


def test_captured_calls_are_said_in_the_words_of_samplers(model: Graph) -> None:
    graph = plain_calls(model)
    check_graph(graph, None)
    calls = {node.name: node for node in graph.nodes if node.op == "call"}
    assert "c" not in calls  # a copy
    assert calls["v"].target == "aten.reshape.default"
    assert calls["v"].args[1] == (16, 24)
    assert calls["s"].args[1:] == (2, 24, 48, 1)
    assert calls["m"].args[1:] == ((2,), True)


@pytest.mark.parametrize("backend", ["eager", "ort", "tensorflow"])
def test_parts_are_programs_at_other_sizes(model: Graph, backend: str) -> None:
    models = Models([model], policy_of([backends()[backend]]))
    sizes: set[int] = set()
    for index in range(12):
        sample = models.sample(5, index)
        check_graph(sample.graph, None)
        ast.parse(backends()[backend].emit(sample.graph))
        sizes.update(size for node in sample.graph.nodes if node.type for size in node.type.shape)
        for output in sample.graph.outputs:
            assert np.isfinite(plain(sample.values[output.node]).astype(np.float64)).all()
    assert sizes - {1, 2, 8, 16, 24, 48}
    again = Models([model], policy_of([backends()[backend]])).sample(5, 3)
    assert again.graph == models.sample(5, 3).graph


def test_a_graph_without_what_the_policy_has_is_refused(model: Graph) -> None:
    with pytest.raises(UserError, match="no operator that the backends have"):
        Models([model], Policy(targets=frozenset({"aten.cos.default"})))
