"""Quantisation: products of int8 in int32, and the operators that PyTorch's exported quantised programs have."""

from __future__ import annotations

from tantamount.ir.types import DType, Kind
from tantamount.ops.algebra import Scalar, Tensor
from tantamount.ops.builder import Builder, ShapeProblem
from tantamount.ops.definitions.elementwise import rounded
from tantamount.ops.doubts import doubtful
from tantamount.ops.table import Operand, operator

_QUANTISED = "quantised"


@operator("aten._int_mm.default", category=_QUANTISED)
def int_mm(b: Builder, self: Tensor, mat2: Tensor) -> Tensor:
    """the matrix product of int8, added up in int32"""
    if self.dtype is not DType.INT8 or mat2.dtype is not DType.INT8 or self.rank != 2 or mat2.rank != 2:
        raise ShapeProblem(f"a product in int32 of {self.type} and {mat2.type}")
    return b.contract("ik,kj->ij", b.cast(self, DType.INT32), b.cast(mat2, DType.INT32))


def _quantised(b: Builder, x: Tensor, scale: Operand, zero: Operand, low: Scalar, high: Scalar, dtype: DType) -> Tensor:
    if x.dtype not in (DType.FLOAT16, DType.BFLOAT16, DType.FLOAT32) or dtype.kind is not Kind.INT:
        raise ShapeProblem(f"{x.type} quantised to {dtype}")
    least, greatest = dtype.bounds
    if not (isinstance(low, int) and isinstance(high, int) and least <= low <= high <= greatest):
        raise ShapeProblem(f"numbers from {low} to {high} in {dtype}")
    steps = b.add(rounded(b, b.div(b.cast(x, DType.FLOAT32), scale)), zero)
    return b.cast(b.minimum(b.maximum(steps, low), high), dtype)


def _restored(
    b: Builder, x: Tensor, scale: Operand, zero: Operand | None, dtype: DType, out_dtype: DType | None
) -> Tensor:
    out = out_dtype or DType.FLOAT32
    if x.dtype is not dtype or not out.is_float:
        raise ShapeProblem(f"{x.type} taken as {dtype} restored to {out}")
    number = b.cast(x, out)
    return b.mul(number if zero is None else b.sub(number, zero), scale)


def _channels(b: Builder, x: Tensor, of: Tensor, axis: int) -> Tensor:
    """One number per index of an axis, in a shape that broadcasts."""
    k = b.dim(x, axis)
    if of.shape != (x.shape[k],):
        raise ShapeProblem(f"{of.type} for dimension {axis} of {x.type}")
    return b.reshape(of, [size if j == k else 1 for j, size in enumerate(x.shape)])


@operator(
    "quantized_decomposed.quantize_per_tensor.default",
    "quantized_decomposed.quantize_per_tensor.tensor",
    category=_QUANTISED,
)
def quantize_per_tensor(
    b: Builder, input: Tensor, scale: Operand, zero_point: Operand, quant_min: int, quant_max: int, dtype: DType
) -> Tensor:
    """min(max(round(input / scale) + zero_point, quant_min), quant_max)"""
    return _quantised(b, input, scale, zero_point, quant_min, quant_max, dtype)


@operator(
    "quantized_decomposed.dequantize_per_tensor.default",
    "quantized_decomposed.dequantize_per_tensor.tensor",
    category=_QUANTISED,
)
def dequantize_per_tensor(
    b: Builder,
    input: Tensor,
    scale: Operand,
    zero_point: Operand,
    quant_min: int,
    quant_max: int,
    dtype: DType,
    *,
    out_dtype: DType | None = None,
) -> Tensor:
    """(input - zero_point) * scale; quant_min and quant_max are for whoever matches patterns"""
    return b.cast(_restored(b, input, scale, zero_point, dtype, out_dtype), out_dtype or DType.FLOAT32)


@operator("quantized_decomposed.quantize_per_channel.default", category=_QUANTISED)
def quantize_per_channel(
    b: Builder,
    input: Tensor,
    scales: Tensor,
    zero_points: Tensor,
    axis: int,
    quant_min: int,
    quant_max: int,
    dtype: DType,
) -> Tensor:
    """quantize_per_tensor with one scale and zero point for every index of axis"""
    scale, zero = (_channels(b, input, x, axis) for x in (scales, zero_points))
    return _quantised(b, input, scale, zero, quant_min, quant_max, dtype)


@operator("quantized_decomposed.dequantize_per_channel.default", category=_QUANTISED)
def dequantize_per_channel(
    b: Builder,
    input: Tensor,
    scales: Tensor,
    zero_points: Tensor | None,
    axis: int,
    quant_min: int,
    quant_max: int,
    dtype: DType,
    *,
    out_dtype: DType | None = None,
) -> Tensor:
    """(input - zero_points) * scales, one of each for every index of axis"""
    # zero points are subtracted in the type that they and the input have in common: in int8 that wraps around
    scale = _channels(b, input, scales, axis)
    x = input if zero_points is None else b.sub(input, _channels(b, input, zero_points, axis))
    out = out_dtype or DType.FLOAT32
    if input.dtype is not dtype or not scales.dtype.is_float or not out.is_float:
        raise ShapeProblem(f"{input.type} taken as {dtype} restored to {out} by {scales.type}")
    return b.cast(b.mul(x, scale), out)


# ---------------------------------------------------------------------------------------------- rounding in training
@operator("aten.fake_quantize_per_tensor_affine_cachemask.default", category=_QUANTISED)
@doubtful("infinities become integers first")
def fake_quantize_per_tensor(
    b: Builder, self: Tensor, scale: float, zero_point: int, quant_min: int, quant_max: int
) -> tuple[Tensor, Tensor]:
    """(min(max(r, quant_min), quant_max) - zero_point) * scale, r = round(self / scale) + zero_point; r in range"""
    if not self.dtype.is_float or not quant_min <= quant_max:
        raise ShapeProblem(f"{self.type} rounded to numbers from {quant_min} to {quant_max}")
    steps = b.add(rounded(b, b.div(self, scale)), zero_point)
    kept = b.not_(b.or_(b.less(steps, quant_min), b.less(quant_max, steps)))
    return b.mul(b.sub(b.minimum(b.maximum(steps, quant_min), quant_max), zero_point), scale), kept
