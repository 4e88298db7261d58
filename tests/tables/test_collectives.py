"""The definitions of collectives on stacked members, against the sentence that says what each rank gets."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tantamount.errors import UserError
from tantamount.ir.types import DType
from tantamount.ops.algebra import Tensor
from tantamount.ops.builder import Builder, ShapeProblem
from tantamount.ops.execute import apply
from tantamount.ops.table import lookup, table
from tantamount.semantics.reference import Reference

MEMBERS = 3


def stacked(*shape: int, dtype: DType = DType.FLOAT32) -> Tensor:
    """One tensor of that shape per member."""
    count = MEMBERS * int(np.prod(shape))
    value = np.arange(count).reshape(MEMBERS, *shape) * (1 if dtype is DType.INT64 else 0.5)
    return Tensor(value.shape, dtype, value)


def results(name: str, x: Tensor, *attributes: Any) -> Any:
    row = table()[f"_c10d_functional.{name}.default"]
    y = row.define(Builder(Reference(), "node"), x, *attributes, "group")
    assert y.dtype is x.dtype
    assert y.value.shape == y.shape
    return y.value


REDUCTIONS = [("sum", np.sum), ("avg", np.mean), ("max", np.max), ("min", np.min)]


@pytest.mark.parametrize(("name", "reduce"), REDUCTIONS)
def test_all_reduce(name: str, reduce: Any) -> None:
    x = stacked(2, 4)
    for target in ("all_reduce", "all_reduce_"):
        np.testing.assert_allclose(results(target, x, name), [reduce(x.value, axis=0)] * MEMBERS)


def test_all_reduce_of_integers() -> None:
    x = stacked(4, dtype=DType.INT64)
    np.testing.assert_array_equal(results("all_reduce", x, "sum"), [x.value.sum(0)] * MEMBERS)


@pytest.mark.parametrize(("name", "reduce"), REDUCTIONS)
def test_reduce_scatter(name: str, reduce: Any) -> None:
    x = stacked(6, 2)
    expected = np.split(reduce(x.value, axis=0), MEMBERS)
    np.testing.assert_allclose(results("reduce_scatter_tensor", x, name, MEMBERS), expected)


def test_all_gather() -> None:
    x = stacked(2, 4)
    expected = [np.concatenate(list(x.value))] * MEMBERS
    np.testing.assert_array_equal(results("all_gather_into_tensor", x, MEMBERS), expected)


@pytest.mark.parametrize("sizes", [(), (2, 2, 2)])
def test_all_to_all(sizes: tuple[int, ...]) -> None:
    x = stacked(6, 2)
    expected = [np.concatenate([np.split(part, MEMBERS)[rank] for part in x.value]) for rank in range(MEMBERS)]
    np.testing.assert_array_equal(results("all_to_all_single", x, sizes, sizes), expected)


@pytest.mark.parametrize("kind", ["all_reduce", "all_gather_into_tensor", "reduce_scatter_tensor"])
def test_coalesced_are_those_of_each_tensor(kind: str) -> None:
    attributes: Any = {"all_reduce": ("sum",), "all_gather_into_tensor": (MEMBERS,)}.get(kind, ("sum", MEMBERS))
    xs = (stacked(6, 2), stacked(3))
    row = table()[f"_c10d_functional.{kind}_coalesced.default"]
    found = row.define(Builder(Reference(), "node"), xs, *attributes, "group")
    for x, y in zip(xs, found, strict=True):
        np.testing.assert_array_equal(y.value, results(kind, x, *attributes))


def test_broadcast() -> None:
    x = stacked(2)
    for target in ("broadcast", "broadcast_"):
        np.testing.assert_array_equal(results(target, x, 1), [x.value[1]] * MEMBERS)


@pytest.mark.parametrize(
    ("name", "x", "attributes", "because"),
    [
        ("all_reduce", stacked(2), ("product",), "reduction 'product'"),
        ("all_reduce", stacked(2, dtype=DType.INT64), ("avg",), "average of int64"),
        ("all_gather_into_tensor", stacked(2), (2,), "group_size 2 for a group of 3"),
        ("all_gather_into_tensor", stacked(), (3,), "without dimensions"),
        ("reduce_scatter_tensor", stacked(4), ("sum", 3), "size 4 scattered to 3"),
        ("reduce_scatter_tensor", stacked(6), ("sum", 4), "group_size 4"),
        ("all_to_all_single", stacked(6), ((2, 2, 2), (1, 2, 2)), "split sizes"),
        ("all_to_all_single", stacked(6), ((3, 3), ()), "for 3 ranks"),
        ("all_to_all_single", stacked(4), ((), ()), "exchanged between 3"),
        ("broadcast", stacked(2), (3,), "source 3"),
    ],
)
def test_refused(name: str, x: Tensor, attributes: tuple[Any, ...], because: str) -> None:
    with pytest.raises(ShapeProblem, match=because):
        results(name, x, *attributes)


def test_in_a_graph_of_one_rank_the_group_is_that_rank() -> None:
    x = Tensor((2, 4), DType.FLOAT32, np.ones((2, 4)))
    target = "_c10d_functional.all_gather_into_tensor.default"
    y: Any = apply(lookup(target, ""), target, (x, 1, "0"), {}, Builder(Reference(), "node"), "node")
    np.testing.assert_array_equal(y.value, x.value)
    with pytest.raises(UserError, match="group_size 2"):
        apply(lookup(target, ""), target, (x, 2, "0"), {}, Builder(Reference(), "node"), "node")
