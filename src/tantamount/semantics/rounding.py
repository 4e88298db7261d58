"""Numbers as element types hold them: floats rounded to their precision, integers wrapped around to their width."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tantamount.errors import Unsupported
from tantamount.ir.types import DType

__all__ = ["FORMATS", "FloatFormat", "array_type", "rounded", "wrapped"]


@dataclass(frozen=True, slots=True)
class FloatFormat:
    """A binary float type: ``precision`` bits of significand (the hidden one included), the exponent of its smallest
    normal number, its largest number, and the unit roundoff ``2 ** -precision``."""

    precision: int
    least: int
    largest: float

    @property
    def roundoff(self) -> float:
        return 2.0**-self.precision


FORMATS = {
    DType.FLOAT16: FloatFormat(11, -14, 65504.0),
    DType.BFLOAT16: FloatFormat(8, -126, (2 - 2.0**-7) * 2.0**127),
    DType.FLOAT32: FloatFormat(24, -126, float(np.finfo(np.float32).max)),
    DType.FLOAT64: FloatFormat(53, -1022, float(np.finfo(np.float64).max)),
}

_ARRAYS: dict[DType, type[np.generic]] = {
    DType.BOOL: np.bool_, DType.UINT8: np.uint8, DType.INT8: np.int8, DType.INT16: np.int16, DType.INT32: np.int32,
    DType.INT64: np.int64, DType.FLOAT16: np.float16, DType.BFLOAT16: np.float32, DType.FLOAT32: np.float32,
    DType.FLOAT64: np.float64, DType.UINT16: np.uint16, DType.UINT32: np.uint32,
}  # fmt: skip


def array_type(dtype: DType) -> type[np.generic]:
    """NumPy's element type for tensors of a type; bfloat16, which NumPy lacks, is held in float32. Raises
    :class:`Unsupported` for types without one."""
    if dtype not in _ARRAYS:
        raise Unsupported(f"elements of type {dtype}")
    return _ARRAYS[dtype]


def rounded(x: NDArray[Any], dtype: DType) -> NDArray[Any]:
    """float64 numbers rounded to the nearest of a float type, ties to even; what is too large becomes infinite."""
    if dtype is DType.FLOAT64:
        return x
    with np.errstate(all="ignore"):
        if dtype is not DType.BFLOAT16:
            return np.asarray(np.asarray(x, dtype=_ARRAYS[dtype]), dtype=np.float64)
        form = FORMATS[dtype]
        _, exponent = np.frexp(x)
        last = np.maximum(exponent - form.precision, form.least - form.precision + 1)
        near = np.ldexp(np.rint(np.ldexp(x, -last)), last)
        near = np.where(np.abs(near) > form.largest, np.copysign(np.inf, x), near)
        return np.where(np.isfinite(x), near, x)


def wrapped(x: NDArray[Any], dtype: DType) -> NDArray[Any]:
    """Integers (int64, or Python's in an array of objects) modulo ``2 ** bits``, in the range of an integer type."""
    if dtype is DType.UINT64:
        raise Unsupported("elements of type uint64")
    low, high = dtype.bounds
    if x.dtype == object:
        span = high - low + 1
        return np.array([(int(item) - low) % span + low for item in x.flat], dtype=np.int64).reshape(x.shape)
    if dtype is DType.INT64:
        return x
    return np.asarray(np.asarray(x, dtype=_ARRAYS[dtype]), dtype=np.int64)
