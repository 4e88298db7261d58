"""What a graph costs and which integers fit its inputs, found without executing it."""

from __future__ import annotations

import pytest

from tantamount.errors import UserError
from tantamount.ir.graph import Argument, Graph, Node, Output, Ref
from tantamount.ir.types import DType, TensorType
from tantamount.semantics.survey import elements, index_bounds, survey


def given(name: str, *shape: int, dtype: DType = DType.FLOAT32) -> Node:
    return Node(name, "input", name, type=TensorType(shape, dtype))


def call(name: str, target: str, *args: Argument) -> Node:
    return Node(name, "call", f"aten.{target}", args)


def graph(*nodes: Node) -> Graph:
    return Graph(nodes, (Output("out", nodes[-1].name),))


W = given("w", 50, 4)
I = given("i", 3, dtype=DType.INT64)


def test_sizes() -> None:
    product = graph(given("x", 2, 30), given("y", 30, 5), call("z", "mm.default", Ref("x"), Ref("y")))
    assert elements(product) == (60 + 150 + 10, 150)
    assert survey(product).work >= 2 * 30 * 5


def test_intermediates_of_definitions_count() -> None:
    """Attention's scores are larger than anything that a node of the graph holds."""
    q = given("q", 1, 1, 100, 2)
    attention = call("a", "scaled_dot_product_attention.default", Ref("q"), Ref("q"), Ref("q"))
    assert elements(graph(q, attention)) == (400, 100 * 100)


def test_huge_graphs_cost_nothing() -> None:
    assert elements(graph(given("x", 10**6, 10**6), call("y", "exp.default", Ref("x"))))[1] == 10**12


@pytest.mark.parametrize(
    ("calls", "bound"),
    [
        ([], 50),
        ([call("k", "view.default", Ref("i"), (3, 1))], 50),
        ([call("k", "_to_copy.default", Ref("i"))], 50),
        ([call("k", "sub.Tensor", Ref("i"), 10)], 60),
        ([call("k", "add.Tensor", Ref("i"), 2)], 48),
        (
            [
                call("low", "lt.Scalar", Ref("i"), 50),
                call("moved", "sub.Tensor", Ref("i"), 50),
                call("zero", "full.default", (3,), 0),
                call("k", "where.self", Ref("low"), Ref("zero"), Ref("moved")),
            ],
            100,
        ),
    ],
)
def test_the_bound_of_an_index(calls: list[Node], bound: int) -> None:
    last = calls[-1].name if calls else "i"
    assert index_bounds(graph(W, I, *calls, call("e", "embedding.default", Ref("w"), Ref(last)))) == {"i": bound}


def test_the_tightest_of_two_uses() -> None:
    small = given("v", 7, 4)
    uses = [call(name, "embedding.default", Ref(name[0]), Ref("i")) for name in ("w1", "v1")]
    assert index_bounds(graph(W, small, I, *uses)) == {"i": 7}


def test_wrapped_indices() -> None:
    """Negative indices are allowed there; the bound is the size."""
    assert index_bounds(graph(W, I, call("e", "index.Tensor", Ref("w"), (Ref("i"),)))) == {"i": 50}


def test_integers_that_index_nothing() -> None:
    assert index_bounds(graph(I, call("s", "sum.default", Ref("i")))) == {}


def test_inputs_need_types() -> None:
    with pytest.raises(UserError) as caught:
        survey(graph(Node("x", "input", "x")))
    assert caught.value.code == "input-type"
