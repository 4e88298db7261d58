"""Operators without a counterpart in ``torch.ops``: arithmetic of numbers as exporters record it, and Sinkhorn."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
import pytest

from tantamount.errors import DataDependent, UserError
from tantamount.ir.graph import Graph, Node, Output, Ref
from tantamount.ir.types import DType, TensorType
from tantamount.ops.algebra import Tensor, TypesOnly, Unsized
from tantamount.ops.builder import Builder
from tantamount.ops.execute import apply, run
from tantamount.ops.table import lookup, table
from tantamount.semantics.reference import Reference


def result(target: str, *args: Any) -> Any:
    """The value of one call on numbers, each of them as a plain one and as one taken out of a tensor."""
    builder = Builder(Reference(), "node", DType.FLOAT64)

    def both(weak: bool) -> Any:
        given = tuple(builder.number(x) if weak and not isinstance(x, tuple) else x for x in args)
        return apply(lookup(target, ""), target, given, {}, builder, "test")

    found = [both(False), both(True)]
    assert all(x.weak and not x.shape for x in found)
    assert found[0].type == found[1].type
    assert found[0].value == found[1].value
    return builder.concrete(found[0])


BINARY = {
    "add": operator.add, "sub": operator.sub, "mul": operator.mul, "truediv": operator.truediv,
    "floordiv": operator.floordiv, "mod": operator.mod, "eq": operator.eq, "ne": operator.ne,
    "lt": operator.lt, "gt": operator.gt, "le": operator.le, "ge": operator.ge,
}  # fmt: skip


@pytest.mark.parametrize("name", BINARY)
@pytest.mark.parametrize(("a", "c"), [(7, 2), (-7, 2), (7, -2), (2, 2), (2.5, 2), (-7, 2.5)])
def test_arithmetic_is_that_of_python(name: str, a: float, c: float) -> None:
    found, wanted = result(f"operator.{name}", a, c), BINARY[name](a, c)
    assert found == pytest.approx(wanted)
    assert type(found) is type(wanted)


def test_other_functions_of_numbers() -> None:
    assert result("operator.neg", 3) == -3
    assert [result("torch.sym_max", 3, 5), result("torch.sym_min", 3, 5)] == [5, 3]
    assert [result("torch.sym_float", 3), result("torch.sym_int", -2.5)] == [3.0, -2]
    assert [result("operator.and_", True, False), result("operator.or_", True, False)] == [False, True]
    assert result("torch.sym_not", True) is False
    assert result("torch.sym_sum", (1, 2, 3)) == 6
    tested = {f"operator.{name}" for name in (*BINARY, "neg", "and_", "or_")}
    tested |= {f"torch.sym_{name}" for name in ("max", "min", "float", "int", "not", "sum")}
    assert tested == {name for name in table() if name.startswith(("operator.", "torch."))}


def test_a_computed_size_is_known_in_an_execution_only() -> None:
    nodes = (
        Node("x", "input", "x", type=TensorType((6,), DType.FLOAT32)),
        Node("n", "call", "aten.sym_size.int", (Ref("x"), 0)),
        Node("half", "call", "operator.floordiv", (Ref("n"), 2)),
        Node("y", "call", "aten.view.default", (Ref("x"), (Ref("half"), 2))),
        Node("z", "call", "aten.view.default", (Ref("x"), (Ref("half"), 2)), type=TensorType((3, 2), DType.FLOAT32)),
    )
    graph = Graph(nodes, (Output("y", "y"),))
    types = run(graph, TypesOnly(), {"x": Tensor((6,), DType.FLOAT32, None)})
    assert isinstance(types["y"], Unsized)
    assert isinstance(types["z"], Tensor)  # the recorded type is all that is known
    assert types["z"].shape == (3, 2)
    values = run(graph, Reference(), {"x": Tensor((6,), DType.FLOAT32, np.arange(6.0))})
    assert isinstance(values["y"], Tensor)
    assert values["y"].value.tolist() == [[0, 1], [2, 3], [4, 5]]
    with pytest.raises(DataDependent, match="depends on data"):
        Builder(TypesOnly()).concrete(Tensor((), DType.INT64, None))


def test_a_computed_number_of_the_wrong_kind_is_refused() -> None:
    nodes = (
        Node("x", "input", "x", type=TensorType((6,), DType.FLOAT32)),
        Node("n", "call", "operator.truediv", (6, 2)),
        Node("y", "call", "aten.view.default", (Ref("x"), (Ref("n"), 2))),
    )
    with pytest.raises(UserError, match="a list of integers"):
        run(Graph(nodes, ()), Reference(), {"x": Tensor((6,), DType.FLOAT32, np.arange(6.0))})


def test_sinkhorn() -> None:
    """Equal sums of rows and of columns, and the same whatever factor a row or a column had before."""
    builder = Builder(Reference(), "node", DType.FLOAT64)
    cost = np.random.default_rng(0).standard_normal((6, 4))

    def scaled(array: Any, *rest: Any) -> Any:
        x = Tensor(array.shape, DType.FLOAT64, array)
        name = "megatron.sinkhorn.default"
        out: Any = apply(lookup(name, ""), name, (x, *rest), {}, builder, "test")
        return out.value

    found = scaled(cost, 1e-5)
    np.testing.assert_allclose(found.sum(0), np.full(4, 1 / 4), rtol=1e-3)
    np.testing.assert_allclose(found.sum(1), np.full(6, 1 / 6), rtol=1e-3)
    moved = cost + np.arange(6.0)[:, np.newaxis] / 4 + np.arange(4.0) / 4
    np.testing.assert_allclose(scaled(moved, 1e-5), found, rtol=1e-3)
    np.testing.assert_allclose(scaled(cost), found, rtol=1e-2)
