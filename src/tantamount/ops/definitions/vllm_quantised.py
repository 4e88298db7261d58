"""Quantisation by vLLM's kernels: floats to int8, with one scale for all or one for each row.

Rounding is that of the kernels for CPUs: to the nearest whole number, halves to the even one, after the zero point was
added, and cut off at -128 and 127. A row whose scale is 0 has no value: the kernels divide by it.
"""

from __future__ import annotations

from math import prod

from tantamount.ir.types import DType
from tantamount.ops.algebra import Tensor
from tantamount.ops.builder import Builder, ShapeProblem
from tantamount.ops.definitions.elementwise import rounded
from tantamount.ops.doubts import doubtful
from tantamount.ops.table import operator

_VENDOR = "vendor"
_LEAST, _GREATEST = DType.INT8.bounds
_WHY = "infinities become integers, and a NaN becomes 0"


def _operands(out: Tensor, input: Tensor) -> None:
    if out.dtype is not DType.INT8 or not input.dtype.is_float or out.shape != input.shape or not input.rank:
        raise ShapeProblem(f"{input.type} quantised to {out.type}")


def _steps(b: Builder, x: Tensor, scale: Tensor, zero: Tensor | None) -> Tensor:
    """``min(max(round(x / scale + zero), -128), 127)``"""
    steps = b.div(x, scale)
    if zero is not None:
        steps = b.add(steps, b.cast(zero, steps.dtype))
    return b.cast(b.minimum(b.maximum(rounded(b, steps), _LEAST), _GREATEST), DType.INT8)


@operator("_C.static_scaled_int8_quant.default", category=_VENDOR, mutates=("out",))
@doubtful(_WHY)
def static_scaled_int8_quant(b: Builder, out: Tensor, input: Tensor, scale: Tensor, azp: Tensor | None) -> Tensor:
    """out := min(max(round(input / scale + azp), -128), 127), halves to the even number; azp is 0 if there is none"""
    _operands(out, input)
    for one, dtype in ((scale, DType.FLOAT32), (azp, DType.INT32)):
        if one is not None and (one.dtype is not dtype or any(size != 1 for size in one.shape)):
            raise ShapeProblem(f"{one.type} where one {dtype} is needed")
    x = b.cast(input, DType.FLOAT32)
    return _steps(b, x, b.reshape(scale, ()), None if azp is None else b.reshape(azp, ()))


@operator("_C.dynamic_scaled_int8_quant.default", category=_VENDOR, mutates=("out", "scale", "azp"))
@doubtful(_WHY)
def dynamic_scaled_int8_quant(
    b: Builder, out: Tensor, input: Tensor, scale: Tensor, azp: Tensor | None
) -> tuple[Tensor, Tensor, Tensor | None]:
    """scale := max |input| / 127 of each row and out := min(max(round(input / scale), -128), 127)

    With an azp scale := (max - min) / 255, azp := round(-128 - min / scale), and
    out := min(max(round(input / scale + azp), -128), 127)."""
    _operands(out, input)
    count = prod(input.shape[:-1])
    for one, dtype in ((scale, DType.FLOAT32), (azp, DType.INT32)):
        if one is not None and (one.dtype is not dtype or one.shape != (count, 1)):
            raise ShapeProblem(f"{one.type} where one {dtype} for each of {count} rows is needed")
    x = b.reshape(b.cast(input, DType.FLOAT32), (count, input.shape[-1]))
    top, bottom = b.amax(x, (-1,), keepdim=True), b.amin(x, (-1,), keepdim=True)
    if azp is None:
        new = b.over(b.maximum(top, b.neg(bottom)), _GREATEST)
        return b.reshape(_steps(b, x, new, None), input.shape), new, None
    new = b.over(b.sub(top, bottom), _GREATEST - _LEAST)
    zero = b.cast(rounded(b, b.sub(b.number(_LEAST, x.dtype), b.div(bottom, new))), DType.INT32)
    return b.reshape(_steps(b, x, new, zero), input.shape), new, zero
