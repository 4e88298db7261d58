"""Assertions of a program about its numbers and tensors: it stops where one does not hold.

They are obligations of an implementation, as divisors of whole numbers are. Where a specification stops, nothing is
claimed.
"""

from __future__ import annotations

from tantamount.ir.types import DType, Kind
from tantamount.ops.algebra import Tensor
from tantamount.ops.builder import Builder, ShapeProblem
from tantamount.ops.definitions.numbers import number_of, stop_unless
from tantamount.ops.table import ASSERTIONS, Integers, Layout, Operand, operator


@operator("aten._assert_scalar.default", category=ASSERTIONS)
def assert_scalar(b: Builder, self: Operand, assert_msg: str) -> None:
    """no value: the program stops where self is 0"""
    _stop_at_zero(b, number_of(b, self))


@operator("aten._assert_async.default", category=ASSERTIONS)
def assert_async(b: Builder, self: Tensor) -> None:
    """no value: the program stops where self is 0"""
    _stop_at_zero(b, self)


@operator("aten._assert_async.msg", category=ASSERTIONS)
def assert_async_message(b: Builder, self: Tensor, assert_msg: str) -> None:
    """no value: the program stops where self is 0"""
    _stop_at_zero(b, self)


def _stop_at_zero(b: Builder, x: Tensor) -> None:
    if any(size != 1 for size in x.shape):
        raise ShapeProblem(f"the assertion that {x.type} is true, which is not one element")
    stop_unless(b, x)


@operator("aten.sym_constrain_range.default", category=ASSERTIONS)
def sym_constrain_range(b: Builder, size: Operand, *, min: int | None = None, max: int | None = None) -> None:
    """no value: the program stops where size < min or max < size"""
    _stop_outside(b, size, min, max)


@operator("aten.sym_constrain_range_for_size.default", category=ASSERTIONS)
def sym_constrain_range_for_size(b: Builder, size: Operand, *, min: int | None = None, max: int | None = None) -> None:
    """no value: the program stops where size < min (0 without one) or max < size"""
    _stop_outside(b, size, *_of_size(min, max))


def _of_size(low: int | None, high: int | None) -> tuple[int, int | None]:
    if high is not None and high <= 2:
        raise ShapeProblem(f"a largest size of {high}, which is not above 2")
    return 0 if low is None else low, high


def _stop_outside(b: Builder, size: Operand, low: int | None, high: int | None) -> None:
    number = number_of(b, size)
    if number.dtype.kind is Kind.FLOAT:
        raise ShapeProblem(f"the range of a size of type {number.type}")
    if low is not None and high is not None and low > high:
        raise ShapeProblem(f"a range of sizes from {low} to {high}")
    if low is not None:
        _stop_at_zero(b, b.not_(b.less(number, low)))
    if high is not None:
        _stop_at_zero(b, b.not_(b.less(high, number)))


@operator("aten._functional_assert_scalar.default", category=ASSERTIONS)
def functional_assert_scalar(b: Builder, self: Operand, assert_msg: str, dep_token: Tensor) -> Tensor:
    """dep_token: the program stops where self is 0"""
    _stop_at_zero(b, number_of(b, self))
    return dep_token


@operator("aten._functional_assert_async.msg", category=ASSERTIONS)
def functional_assert_async(b: Builder, self: Tensor, assert_msg: str, dep_token: Tensor) -> Tensor:
    """dep_token: the program stops where self is 0"""
    _stop_at_zero(b, self)
    return dep_token


@operator("aten._functional_sym_constrain_range.default", category=ASSERTIONS)
def functional_sym_constrain_range(
    b: Builder, size: Operand, min: int | None, max: int | None, dep_token: Tensor
) -> Tensor:
    """dep_token: the program stops where size < min or max < size"""
    _stop_outside(b, size, min, max)
    return dep_token


@operator("aten._functional_sym_constrain_range_for_size.default", category=ASSERTIONS)
def functional_sym_constrain_range_for_size(
    b: Builder, size: Operand, min: int | None, max: int | None, dep_token: Tensor
) -> Tensor:
    """dep_token: the program stops where size < min (0 without one) or max < size"""
    _stop_outside(b, size, *_of_size(min, max))
    return dep_token


@operator("aten._assert_tensor_metadata.default", category=ASSERTIONS)
def assert_tensor_metadata(
    b: Builder,
    a: Tensor,
    size: Integers | None = None,
    stride: Integers | None = None,
    dtype: DType | None = None,
    *,
    device: Layout = None,
    layout: Layout = None,
) -> None:
    """no value: a has that size and dtype; strides do not matter"""
    if (dtype is not None and dtype is not a.dtype) or (size is not None and size != a.shape):
        raise ShapeProblem(f"the assertion that {a.type} has size {size} and dtype {dtype}")
    if stride is not None and len(stride) != a.rank:
        raise ShapeProblem(f"{len(stride)} strides of {a.type}")
