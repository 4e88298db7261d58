"""Dtype promotion as PyTorch does it: kind first, width within a kind; dimensions before scalars before numbers."""

from __future__ import annotations

from collections.abc import Sequence

from tantamount.ir.types import DType, Kind
from tantamount.ops.algebra import Tensor

__all__ = ["promote", "widen"]

_DEFAULT = {Kind.BOOL: DType.BOOL, Kind.INT: DType.INT64, Kind.COMPLEX: DType.COMPLEX64}
_UNSIGNED = (DType.UINT8, DType.UINT16, DType.UINT32, DType.UINT64)


def widen(a: DType, b: DType) -> DType:
    """The smallest type that holds both."""
    if a is b:
        return a
    if a.kind is not b.kind:
        low, high = (a, b) if a.kind.value < b.kind.value else (b, a)
        return DType.COMPLEX128 if low is DType.FLOAT64 and high.kind is Kind.COMPLEX else high
    if a.bits == b.bits and a.kind is Kind.FLOAT:  # float16 with bfloat16
        return DType.FLOAT32
    if (a in _UNSIGNED) != (b in _UNSIGNED):
        unsigned, signed = (a, b) if a in _UNSIGNED else (b, a)
        if signed.bits <= unsigned.bits:
            return {8: DType.INT16, 16: DType.INT32}.get(unsigned.bits, DType.INT64)
        return signed
    return a if a.bits > b.bits else b


def _complex(dtype: DType) -> DType:
    """The complex type with parts of that float type."""
    return DType.COMPLEX128 if dtype is DType.FLOAT64 else DType.COMPLEX64


def promote(xs: Sequence[Tensor], default: DType = DType.FLOAT32) -> DType:
    """The common type of operands: a lower class (0-d tensors, then numbers) counts only where its kind is higher.
    ``default`` is the float type that float numbers have."""
    first = xs[0].dtype if xs else default
    if all(x.dtype is first and not x.weak for x in xs):
        return first
    result: DType | None = None
    for members in (
        [x.dtype for x in xs if x.shape and not x.weak],
        [x.dtype for x in xs if not x.shape and not x.weak],
        [_DEFAULT.get(x.dtype.kind, default) for x in xs if x.weak],
    ):
        if not members:
            continue
        common = members[0]
        for dtype in members[1:]:
            common = widen(common, dtype)
        if result is None:
            result = common
        elif common.kind.value > result.kind.value:
            result = _complex(result) if common.kind is Kind.COMPLEX and result.is_float else common
    if result is None:  # pyright: ignore[reportUnnecessaryComparison]
        raise ValueError("promotion of no operands")
    return result
