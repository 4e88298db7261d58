"""Numbers from the bytes of a tensor in a file, little end first."""

from __future__ import annotations

import numpy as np

from tantamount.capture.fields import Place
from tantamount.ir.types import DType, Kind
from tantamount.semantics.reference import Array

__all__ = ["numbers_of", "whole_numbers"]

_SIZES = (8, 16, 32, 64)


def numbers_of(data: bytes, dtype: DType, place: Place, code: str) -> Array:
    """The numbers, flat: float64 or complex128 of real and complex types, whole numbers and booleans as they are.
    Raises :class:`UserError` with ``code`` for bytes that are no such numbers."""
    parts = 2 if dtype.kind is Kind.COMPLEX else 1
    size = dtype.bits // 8
    if len(data) % size:
        raise place.wrong(f"{len(data)} bytes", f"elements of {size} bytes", code=code)
    if dtype is DType.BFLOAT16:
        wide = np.frombuffer(data, dtype="<u2").astype(np.uint32) << 16
        return wide.view(np.float32).astype(np.float64)
    if dtype.kind is Kind.COMPLEX or dtype in (DType.FLOAT16, DType.FLOAT32, DType.FLOAT64):
        found = np.frombuffer(data, dtype=f"<f{size // parts}").astype(np.float64)
        return found.view(np.complex128) if parts == 2 else found
    if dtype.is_float or dtype.bits not in _SIZES:
        raise place.wrong(f"recorded numbers of {dtype}", "numbers of 16, 32 or 64 bits, or whole ones", code=code)
    kind = "u" if dtype is DType.BOOL or dtype.label.startswith("u") else "i"
    return whole_numbers(np.frombuffer(data, dtype=f"<{kind}{size}"), dtype, place, code)


def whole_numbers(numbers: Array, dtype: DType, place: Place, code: str) -> Array:
    """Whole numbers that their type holds. Raises :class:`UserError` with ``code`` for others."""
    low, high = dtype.bounds
    if numbers.size and not (low <= numbers.min() and numbers.max() <= high):
        raise place.wrong(f"numbers that {dtype} does not hold", f"{low} to {high}", code=code)
    return numbers.astype(bool) if dtype is DType.BOOL else numbers.astype(np.uint64 if high >= 1 << 63 else np.int64)
