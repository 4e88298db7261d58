"""HLO's convolution, and its bit shifts."""

from __future__ import annotations

from tantamount.ir.types import DType, Kind
from tantamount.ops.algebra import Tensor
from tantamount.ops.builder import Builder, ShapeProblem
from tantamount.ops.definitions import functions
from tantamount.ops.definitions.convolution import convolved
from tantamount.ops.definitions.in_place import require_float
from tantamount.ops.table import Integers, operator

__all__: list[str] = []

_HLO = "hlo"


@operator("hlo.convolution", category=_HLO)
def convolution(
    b: Builder, lhs: Tensor, rhs: Tensor, *, stride: Integers, low: Integers, high: Integers, dilation: Integers,
    groups: int, dtype: DType,
) -> Tensor:  # fmt: skip
    """y[n, q, c] = sum lhs[n, p, c * stride + k * dilation - low] * rhs[q, p, k], within groups; beyond it lhs is 0"""
    if require_float(lhs).dtype is not require_float(rhs).dtype or not dtype.is_float:
        raise ShapeProblem(f"a convolution of {lhs.type} with {rhs.type} as {dtype}")
    if min((*low, *high), default=0) < 0:
        raise ShapeProblem(f"padding {list(low)}, {list(high)}")
    return b.cast(convolved(b, lhs, rhs, None, stride, low, dilation, groups, behind=high), dtype)


def _inside(b: Builder, lhs: Tensor, rhs: Tensor) -> Tensor:
    """Booleans: a number of places is at least 0, and less than there are bits."""
    if lhs.type != rhs.type or lhs.dtype.kind is not Kind.INT:
        raise ShapeProblem(f"a shift of {lhs.type} by {rhs.type}")
    return b.and_(b.not_(b.less(rhs, 0)), b.less(rhs, lhs.dtype.bits))


def _signed(x: Tensor) -> bool:
    return not x.dtype.label.startswith("u")


@operator("hlo.shift-left", category=_HLO)
def shift_left(b: Builder, lhs: Tensor, rhs: Tensor) -> Tensor:
    """lhs * 2^rhs; 0 where rhs is negative, or as many places as there are bits"""
    inside, none = _inside(b, lhs, rhs), b.full(lhs.shape, 0, lhs.dtype)
    return b.where(inside, functions.bitwise_left_shift(b, lhs, b.where(inside, rhs, none)), none)


@operator("hlo.shift-right-arithmetic", category=_HLO)
def shift_right_arithmetic(b: Builder, lhs: Tensor, rhs: Tensor) -> Tensor:
    """floor(lhs / 2^rhs); -1 or 0 where rhs is negative, or as many places as there are bits"""
    inside, none = b.and_(_inside(b, lhs, rhs), b.less(rhs, lhs.dtype.bits - 1)), b.full(lhs.shape, 0, lhs.dtype)
    if not _signed(lhs):
        raise ShapeProblem(f"an arithmetic shift of {lhs.type}")
    moved = functions.bitwise_right_shift(b, lhs, b.where(inside, rhs, none))
    sign = b.where(b.less(lhs, 0), b.full(lhs.shape, -1, lhs.dtype), none)
    return b.where(inside, moved, sign)


@operator("hlo.shift-right-logical", category=_HLO)
def shift_right_logical(b: Builder, lhs: Tensor, rhs: Tensor) -> Tensor:
    """floor(lhs / 2^rhs), of the bits as a number without a sign; 0 where rhs is negative, or as many places as bits"""
    inside, none = _inside(b, lhs, rhs), b.full(lhs.shape, 0, lhs.dtype)
    places, x = b.where(inside, rhs, none), lhs
    if _signed(lhs):
        if lhs.dtype.bits > 32:
            raise ShapeProblem(f"a logical shift of {lhs.type}")
        x, places = b.cast(lhs, DType.INT64), b.cast(places, DType.INT64)
        x = b.where(b.less(x, 0), b.add(x, 1 << lhs.dtype.bits), x)
    moved = b.cast(functions.bitwise_right_shift(b, x, places), lhs.dtype)
    return b.where(inside, b.where(b.equal(rhs, 0), lhs, moved), none)
