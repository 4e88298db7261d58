"""Facts of calls and operators that follow from their definitions: examples of every fact, and of what is not one."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from tantamount.ir.graph import CustomOperator, Graph, Node, Ref
from tantamount.ir.types import DType
from tantamount.ops.algebra import Tensor
from tantamount.ops.calls import facts_of
from tantamount.ops.custom import custom_operator
from tantamount.ops.facts import NOTHING, Facts, told
from tantamount.ops.table import Operator, lookup


def tensor(*shape: int, dtype: DType = DType.FLOAT32, value: Any = None) -> Tensor:
    return Tensor(shape, dtype, value)


def facts(target: str, *args: Any, operators: Any = (), groups: Any = None) -> Facts:
    """Of a call on tensors, which are named a, b, ... in order."""
    names = iter("abcdef")
    types: dict[str, Tensor] = {}

    def ref(item: Any) -> Any:
        if isinstance(item, Tensor):
            name = next(names)
            types[name] = item
            return Ref(name)
        return tuple(map(ref, item)) if isinstance(item, tuple) else item

    node = Node("y", "call", target, tuple(map(ref, args)))
    inputs = [Node(name, "input", name) for name in types]
    graph = Graph((*inputs, node), (), operators={operator.name: operator for operator in operators})
    return facts_of(graph, node, types.get, groups)


X, Y, V, W = tensor(4, 6), tensor(4, 6), tensor(6), tensor(6, 8)
I = tensor(4, dtype=DType.INT64)


@pytest.mark.parametrize(
    ("target", "args", "linear"),
    [
        ("aten.add.Tensor", (X, Y), ["ab"]),
        ("aten.mul.Tensor", (X, Y), ["a", "b"]),
        ("aten.mm.default", (X, W), ["a", "b"]),
        ("aten.addmm.default", (tensor(8), X, W), ["ab", "ac"]),
        ("aten.cat.default", ((X, Y), 0), ["ab"]),
        ("aten.embedding.default", (W, I), ["a"]),
        ("aten.sum.dim_IntList", (X, (1,)), ["a"]),
        ("aten.div.Tensor", (X, Y), ["a"]),
        ("aten.relu.default", (X,), []),
        ("aten.add.Tensor", (X, 1), []),
        ("aten.amax.default", (X, (1,)), []),
        ("aten.softmax.int", (X, 1), []),
        ("hlo.multiply", (X, Y), ["a", "b"]),
        ("hlo.subtract", (X, Y), ["ab"]),
    ],
)
def test_linear(target: str, args: tuple[Any, ...], linear: list[str]) -> None:
    assert {"".join(sorted(names)) for names in facts(target, *args).linear} == set(linear)


def test_what_cancels_in_another_order_is_not_zero() -> None:
    """``x - x^T`` is linear in x and neither zero nor a constant."""
    minus = CustomOperator("my.minus", "x", "x - transpose(x, 0, 1)")
    found = facts("my.minus", tensor(4, 4), operators=(minus,))
    assert (found.linear, found.factory, found.elementwise) == ((frozenset("a"),), False, False)
    assert facts("my.minus", tensor(4, 4), operators=(CustomOperator("my.minus", "x", "x - x"),)).factory


@pytest.mark.parametrize(
    ("target", "args", "is_piece", "is_view", "chooses"),
    [
        ("aten.slice.Tensor", (X, 1, 0, 3), True, False, True),
        ("aten.slice.Tensor", (X, 1, 0, 6), False, True, False),
        ("aten.select.int", (X, 0, 1), True, False, True),
        ("aten.split.Tensor", (X, 3, 1), True, False, True),
        ("aten.view.default", (X, (6, 4)), False, True, False),
        ("aten.transpose.int", (X, 0, 1), False, True, False),
        ("aten.expand.default", (V, (4, 6)), False, True, False),
        ("aten.flip.default", (X, (0,)), False, False, True),
        ("aten.cat.default", ((X, Y), 0), False, False, True),
        ("aten.index_select.default", (X, 0, I), False, False, True),
        ("aten.tril.default", (X,), False, False, True),
        ("hlo.dynamic-slice", (X, tensor(dtype=DType.INT64), tensor(dtype=DType.INT64)), False, False, False),
        ("aten.relu.default", (X,), False, False, False),
        ("aten.index_add.default", (X, 0, I, Y), False, False, False),
    ],
)
def test_layout(target: str, args: tuple[Any, ...], is_piece: bool, is_view: bool, chooses: bool) -> None:
    found = facts(target, *args)
    assert (found.piece, found.view, found.chooses) == (is_piece, is_view, chooses)


def test_scales_and_sums() -> None:
    assert facts("aten.div.Tensor", X, 4).scale == Fraction(1, 4)
    assert facts("hlo.multiply", X, tensor(4, 6, value=3)).scale == 3
    assert facts("aten.add.Tensor", X, Y).adds
    assert facts("hlo.add", X, Y).combination == {"a": 1, "b": 1}
    assert facts("aten.rsub.Scalar", X, 2).combination == {"a": -1, "": 2}
    assert facts("aten.addmm.default", tensor(8), X, W).sums
    assert not facts("aten.mm.default", X, W).sums
    assert facts("aten.mul.Tensor", X, Y).scale is None


@pytest.mark.parametrize(
    ("target", "args", "reduction"),
    [
        ("aten.sum.default", (X,), "sum"), ("aten.mean.dim", (X, (0,)), "mean"), ("aten.amax.default", (X,), "max"),
        ("aten.amin.default", (X,), "min"), ("aten.mse_loss.default", (X, Y), "mean"),
        ("aten.linalg_vector_norm.default", (X,), "norm"), ("aten.mm.default", (X, W), ""),
        ("aten.softmax.int", (X, 1), ""),
    ],
)  # fmt: skip
def test_reductions(target: str, args: tuple[Any, ...], reduction: str) -> None:
    assert facts(target, *args).reduction == reduction


@pytest.mark.parametrize("members", [2, 4])
def test_collectives(members: int) -> None:
    groups = {"tp": members}
    assert facts("_c10d_functional.all_reduce.default", X, "sum", "tp", groups=groups).collective == "sum"
    gather = facts("_c10d_functional.all_gather_into_tensor.default", X, members, "tp", groups=groups)
    assert (gather.collective, gather.layout, gather.linear) == ("exchange", True, (frozenset("a"),))
    scatter = facts("_c10d_functional.reduce_scatter_tensor.default", X, "avg", members, "tp", groups=groups)
    assert (scatter.collective, scatter.sums) == ("mean", True)
    assert lookup("_c10d_functional.isend.default", "here").facts == Facts(collective="message")


def test_elements() -> None:
    assert facts("aten.lt.Scalar", X, 2).comparison == "below"
    assert facts("hlo.compare", X, tensor(4, 6, value=2)) == NOTHING  # without a direction
    assert facts("aten.pow.Tensor_Scalar", X, 3).exponent == 3
    assert facts("aten.sigmoid.default", X).monotone == {"a": 1}
    assert facts("aten.rsqrt.default", X).monotone == {"a": -1}
    assert facts("aten.mul.Tensor", X, Y).monotone == {}
    assert facts("aten.zeros_like.default", X).factory
    assert facts("aten.rand_like.default", X).random
    assert not facts("aten.tril.default", X).elementwise  # another function at every place
    assert not facts("aten.add.Tensor", X, tensor(4, 1)).view


def row(operator: CustomOperator) -> Operator:
    return custom_operator(operator)


def test_declared_operators_have_facts() -> None:
    assert told(row(CustomOperator("my.half", "x", "x / 2")).facts) == [
        "elementwise", "linear in x", "scale", "grows with x",
    ]  # fmt: skip
    assert told(row(CustomOperator("my.relu", "x", "clamp(x, 0)")).facts)[-1] == "idempotent"
    assert row(CustomOperator("my.point", "x", labels="... -> ...")).facts.elementwise
    assert told(row(CustomOperator("my.row", "x", labels="n [d] -> n [d]")).facts) == []
    assert facts("my.sum", X, operators=(CustomOperator("my.sum", "x", labels="n +d -> n"),)).reduction == "sum"


def test_operators_have_the_facts_of_ordinary_calls() -> None:
    assert told(lookup("aten.slice.Tensor", "here").facts) == ["piece", "linear in self"]
    assert "commutative" in told(lookup("hlo.add", "here").facts)
    assert told(lookup("vllm.all_reduce.default", "here").facts)[0] == "collective: sum"
    assert lookup("hlo.reduce", "here").facts.reduction == "max or sum"


@pytest.mark.parametrize(
    "call",
    [("aten.add.Tensor", 2), ("aten.addmm.default", 3), ("aten.where.self", 3), ("aten.cat.default", 2)],
    ids=lambda call: call[0],
)
def test_facts_of_a_call_with_other_names_are_those_of_the_call(call: tuple[str, int]) -> None:
    """The names of operands are all that facts of equal calls differ in."""
    target, count = call

    def of(names: str) -> Facts:
        refs = tuple(map(Ref, names))
        types = {name: tensor(4, 4) for name in names}
        if target == "aten.where.self":
            types[names[0]] = tensor(4, 4, dtype=DType.BOOL)
        node = Node("y", "call", target, (refs,) if target == "aten.cat.default" else refs)
        inputs = [Node(name, "input", name) for name in types]
        return facts_of(Graph((*inputs, node), ()), node, types.get)

    first, other = of("abc"[:count]), of("zxy"[:count])
    assert first != NOTHING
    assert first.called(dict(zip("abc", "zxy", strict=True))) == other
    assert first.called({}) == first
