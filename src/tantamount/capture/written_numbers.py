"""Numbers in arithmetic of 32 bits, as somebody wrote them."""

from __future__ import annotations

import struct
from math import isfinite

__all__ = ["as_written"]

# Operators whose number is rounded to 32 bits before anything is done with it, where the result has 32 bits or fewer.
_ARITHMETIC = {
    f"aten.{name}.{kind}" for name in ("add", "sub", "rsub", "mul", "div") for kind in ("Scalar", "Tensor")
}  # fmt: skip
_NARROW = ("float32", "bfloat16", "float16")


def as_written(value: float, target: str, dtype: str) -> float:
    """A number that an operator with a result of that type takes, and that is the 32-bit rounding of a decimal of up to
    seven digits, as that decimal; any other as it is.

    PyTorch's kernels round such numbers where they are composed in C++ (the epsilon of a norm is 9.999999747378752e-06
    there), and not where Python composes them, as for DTensors. In arithmetic of 32 bits both are one number."""
    if target not in _ARITHMETIC or dtype not in _NARROW:
        return value
    if not isfinite(value) or not 1e-30 < abs(value) < 1e30 or _in_32_bits(value) != value:
        return value
    decimals = (float(f"{value:.{digits}g}") for digits in range(1, 8))
    return next((decimal for decimal in decimals if _in_32_bits(decimal) == value), value)


def _in_32_bits(value: float) -> float:
    return struct.unpack("f", struct.pack("f", value))[0]
