"""Quantisation by vLLM's kernels: floats to int8, with one scale for all or one for each row; and products with weights
of four bits.

Rounding to int8 is that of the kernels for CPUs: to the nearest whole number, halves to the even one, after the zero
point was added, and cut off at -128 and 127. A row whose scale is 0 has no value: the kernels divide by it.
"""

from __future__ import annotations

from math import prod

from tantamount.ir.types import DType
from tantamount.ops.algebra import Tensor
from tantamount.ops.builder import Builder, ShapeProblem
from tantamount.ops.definitions.elementwise import rounded
from tantamount.ops.definitions.functions import bitwise_right_shift
from tantamount.ops.definitions.logic import bitwise_and
from tantamount.ops.doubts import doubtful
from tantamount.ops.table import operator

_VENDOR = "vendor"
_LEAST, _GREATEST = DType.INT8.bounds
_CODES = 8  # of four bits, that one integer holds, the first in its lowest bits
_COLUMNS = 16  # of a weight, that lie next to each other
_MULTIPLE = 32  # of rows and columns: the kernel stops at others
_MIDDLE = 8  # what is subtracted from codes that have no zero points
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


# ---------------------------------------------------------------------------------------------- weights of four bits
def _codes(b: Builder, held: Tensor) -> Tensor:
    """The codes that integers hold, in one more dimension."""
    return b.stack([bitwise_and(b, bitwise_right_shift(b, held, 4 * k), 15) for k in range(_CODES)], -1)


@operator("_C.cpu_gemm_wna16.default", category=_VENDOR, mutates=("output",))
def cpu_gemm_wna16(
    b: Builder,
    input: Tensor,
    q_weight: Tensor,
    output: Tensor,
    scales: Tensor,
    zeros: Tensor | None,
    bias: Tensor | None,
    pack_factor: int,
    isa_hint: str,
) -> Tensor:
    """output := input W + bias, W[k, n] = (codes[k, n] - zeros[g, n]) scales[g, n], where row k is of group g

    Codes have four bits, eight in an integer: ``q_weight[c, 2 k + h]`` has those of row ``k`` and columns
    ``16 c + 8 h`` and on, ``zeros[g, c]`` those of columns ``8 c`` and on. Without zeros, 8 is subtracted."""
    if isa_hint != "vec":
        raise ShapeProblem(f"the kernel for isa_hint={isa_hint!r}; only that for 'vec' is known")
    rows = input.shape[-1] if input.rank == 2 else 0
    groups, columns = scales.shape if scales.rank == 2 else (0, 0)
    floats = [one for one in (input, output, scales, bias) if one is not None]
    fits = (
        pack_factor == _CODES
        and rows * columns * groups > 0
        and (rows % _MULTIPLE, columns % _MULTIPLE, rows % groups, (rows // groups) % 2) == (0, 0, 0, 0)
        and q_weight.shape == (columns // _COLUMNS, rows * _COLUMNS // _CODES)
        and (zeros is None or zeros.shape == (groups, columns // _CODES))
        and (bias is None or bias.shape == (columns,))
        and output.shape == (input.shape[0], columns)
    )
    if not fits:
        shapes = ", ".join(str(one.type) for one in (input, q_weight, scales, zeros, bias) if one is not None)
        raise ShapeProblem(f"a product with weights of four bits, {_CODES} in an integer: {shapes}")
    if any(one.dtype is not input.dtype for one in floats) or input.dtype not in (DType.BFLOAT16, DType.FLOAT16):
        raise ShapeProblem(f"{', '.join(str(one.type) for one in floats)}; the kernel takes bfloat16 or float16")
    if any(one is not None and one.dtype is not DType.INT32 for one in (q_weight, zeros)):
        raise ShapeProblem("codes that are not in integers of 32 bits")
    codes = b.reshape(_codes(b, q_weight), (columns // _COLUMNS, rows, _COLUMNS))
    codes = b.reshape(b.permute(codes, (1, 0, 2)), (groups, rows // groups, columns))
    shift = b.number(_MIDDLE, codes.dtype) if zeros is None else b.reshape(_codes(b, zeros), (groups, 1, columns))
    weight = b.mul(b.cast(b.sub(codes, shift), scales.dtype), b.reshape(scales, (groups, 1, columns)))
    found = b.contract("mk,kn->mn", input, b.reshape(weight, (rows, columns)))
    return found if bias is None else b.add(found, bias)
