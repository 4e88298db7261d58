"""Normalisation layers."""

from __future__ import annotations

from fractions import Fraction
from math import prod

from tantamount.ir.types import DType
from tantamount.ops.algebra import Doubt, Tensor
from tantamount.ops.builder import Builder, ShapeProblem
from tantamount.ops.definitions.in_place import require_float
from tantamount.ops.definitions.reduction import variance_of
from tantamount.ops.doubts import doubtful
from tantamount.ops.table import Integers, Layout, operator

__all__ = ["OF_SCALES", "accumulator", "layer_norm_of", "rms_norm_of", "trailing"]

OF_SCALES = "kernels scale and shift at once: what is infinite may be another infinity, or NaN"
_NORM = "norm"
_EPSILON = {DType.FLOAT64: Fraction(1, 2**52), DType.FLOAT32: Fraction(1, 2**23)}


def trailing(x: Tensor, normalized_shape: Integers) -> tuple[int, ...]:
    """The last dimensions, which must have the sizes ``normalized_shape``."""
    count = len(normalized_shape)
    if not count or count > x.rank or x.shape[x.rank - count :] != normalized_shape:
        raise ShapeProblem(f"normalisation over the last dimensions {list(normalized_shape)} of {x.type}")
    return tuple(range(x.rank - count, x.rank))


def accumulator(dtype: DType) -> DType:
    """The type of statistics of half-precision tensors: float32, as on accelerators (``statistics`` of the operator:
    on a CPU they have the tensor's own)."""
    return DType.FLOAT32 if dtype.bits < 32 else dtype


def _affine(
    b: Builder, x: Tensor, weight: Tensor | None, bias: Tensor | None, shape: tuple[int, ...], dtype: DType
) -> Tensor:
    for parameter in (weight, bias):
        if parameter is not None and parameter.shape != shape:
            raise ShapeProblem(f"a parameter {parameter.type} where the shape {list(shape)} is needed")
    if weight is not None:
        x = b.mul(x, weight)
    if bias is not None:
        x = b.add(x, bias)
    return b.cast(x, dtype)


def layer_norm_of(
    b: Builder, x: Tensor, normalized_shape: Integers, weight: Tensor | None, bias: Tensor | None, eps: float
) -> tuple[Tensor, Tensor, Tensor]:
    """``(x - mean) * rstd * weight + bias``, mean, and ``rstd = (variance + eps)^(-1/2)`` (normalised sizes 1)."""
    dims = trailing(require_float(x), normalized_shape)
    wide = b.cast(x, accumulator(x.dtype))
    variance, mean = variance_of(b, wide, dims, 0, keepdim=True)
    rstd = b.rsqrt(b.add(variance, eps))
    return _affine(b, b.mul(b.sub(wide, mean), rstd), weight, bias, normalized_shape, x.dtype), mean, rstd


@operator("aten.native_layer_norm.default", category=_NORM, statistics=(1, 2))
@doubtful(OF_SCALES, Doubt.WHICH)
def native_layer_norm(
    b: Builder, input: Tensor, normalized_shape: Integers, weight: Tensor | None, bias: Tensor | None, eps: float
) -> tuple[Tensor, Tensor, Tensor]:
    """(input - mean) / sqrt(variance + eps) * weight + bias; the mean; 1 / sqrt(variance + eps)"""
    return layer_norm_of(b, input, normalized_shape, weight, bias, eps)


@operator("aten.layer_norm.default", category=_NORM)
def layer_norm(
    b: Builder,
    input: Tensor,
    normalized_shape: Integers,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-05,
    cudnn_enable: Layout = True,
) -> Tensor:
    """(input - mean) / sqrt(variance + eps) * weight + bias"""
    return layer_norm_of(b, input, normalized_shape, weight, bias, eps)[0]


def rms_norm_of(
    b: Builder, x: Tensor, normalized_shape: Integers, weight: Tensor | None, eps: Tensor | float | None
) -> tuple[Tensor, Tensor]:
    """``x * rrms * weight`` and ``rrms = (mean(x^2) + eps)^(-1/2)``; without an eps that of the type."""
    dims = trailing(require_float(x), normalized_shape)
    wide = b.cast(x, accumulator(x.dtype))
    small = _EPSILON.get(x.dtype) if eps is None else eps
    if small is None:
        raise ShapeProblem(f"rms_norm of {x.type} without an eps")
    rrms = b.rsqrt(b.add(b.mean(b.power(wide, 2), dims, keepdim=True), small))
    return _affine(b, b.mul(wide, rrms), weight, None, normalized_shape, x.dtype), rrms


@operator("aten.rms_norm.default", category=_NORM)
def rms_norm(
    b: Builder, input: Tensor, normalized_shape: Integers, weight: Tensor | None = None, eps: float | None = None
) -> Tensor:
    """input / sqrt(mean(input^2) + eps) * weight"""
    return rms_norm_of(b, input, normalized_shape, weight, eps)[0]


@operator("aten._fused_rms_norm.default", category=_NORM)
def fused_rms_norm(
    b: Builder, input: Tensor, normalized_shape: Integers, weight: Tensor | None, eps: float | None
) -> tuple[Tensor, Tensor]:
    """input / sqrt(mean(input^2) + eps) * weight; 1 / sqrt(mean(input^2) + eps)"""
    return rms_norm_of(b, input, normalized_shape, weight, eps)


def _group_norm(
    b: Builder, x: Tensor, weight: Tensor | None, bias: Tensor | None, groups: int, eps: float
) -> tuple[Tensor, Tensor, Tensor]:
    if require_float(x).rank < 2 or groups < 1 or x.shape[1] % groups:
        raise ShapeProblem(f"{groups} groups of the channels of {x.type}")
    samples, channels, *rest = x.shape
    wide = b.cast(x, accumulator(x.dtype))
    rows = b.reshape(wide, (samples, groups, channels // groups * prod(rest)))
    variance, mean = variance_of(b, rows, (2,), 0, keepdim=True)
    rstd = b.rsqrt(b.add(variance, eps))
    normal = b.reshape(b.mul(b.sub(rows, mean), rstd), x.shape)
    per_channel = (channels, *[1] * len(rest))

    def spread(parameter: Tensor | None) -> Tensor | None:
        if parameter is None:
            return None
        if parameter.shape != (channels,):
            raise ShapeProblem(f"a parameter {parameter.type} for {channels} channels")
        return b.reshape(parameter, per_channel)

    out = _affine(b, normal, spread(weight), spread(bias), per_channel, x.dtype)
    return out, b.squeeze(mean, (2,)), b.squeeze(rstd, (2,))


@operator("aten.group_norm.default", category=_NORM)
@doubtful(OF_SCALES, Doubt.WHICH)
def group_norm(
    b: Builder,
    input: Tensor,
    num_groups: int,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-05,
    cudnn_enabled: Layout = True,
) -> Tensor:
    """(input - mean) / sqrt(variance + eps) * weight + bias, per sample and group of channels"""
    return _group_norm(b, input, weight, bias, num_groups, eps)[0]


@operator("aten.native_group_norm.default", category=_NORM, statistics=(1, 2))
@doubtful(OF_SCALES, Doubt.WHICH)
def native_group_norm(
    b: Builder,
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    N: int,
    C: int,
    HxW: int,
    group: int,
    eps: float,
) -> tuple[Tensor, Tensor, Tensor]:
    """(input - mean) * rstd * weight + bias, per sample and group; the means; rstd = 1 / sqrt(variance + eps)"""
    if input.rank < 2 or input.shape[:2] != (N, C) or prod(input.shape[2:]) != HxW:
        raise ShapeProblem(f"{N} samples, {C} channels of {HxW} elements in {input.type}")
    return _group_norm(b, input, weight, bias, group, eps)


def _norms_beside(b: Builder, x: Tensor, like: Tensor, dim: int) -> tuple[int, ...]:
    """The dimensions of x other than ``dim``; ``like`` has size 1 along them."""
    kept = b.dim(x, dim)
    others = tuple(k for k in range(x.rank) if k != kept)
    if like.shape != tuple(1 if k in others else size for k, size in enumerate(x.shape)):
        raise ShapeProblem(f"norms {like.type} of {x.type} along all dimensions but {dim}")
    return others


@operator("aten._weight_norm_interface.default", category=_NORM, statistics=(1,))
def weight_norm(b: Builder, v: Tensor, g: Tensor, dim: int = 0) -> tuple[Tensor, Tensor]:
    """v * (g / norm); norm is the root of the sum of squares of v over all dimensions but dim"""
    others = _norms_beside(b, v, g, dim)
    norm = b.sqrt(b.sum(b.mul(v, v), others, keepdim=True)) if others else b.function("abs", v)
    return b.mul(v, b.div(g, norm)), norm


@operator("aten._weight_norm_interface_backward.default", category=_NORM)
@doubtful(OF_SCALES, Doubt.WHICH)
def weight_norm_backward(
    b: Builder, grad_w: Tensor, saved_v: Tensor, saved_g: Tensor, saved_norms: Tensor, dim: int
) -> tuple[Tensor, Tensor]:
    """the gradients of v and g: g / norm * (grad_w - v * s / norm^2) and s / norm, s the sum of grad_w * v"""
    others = _norms_beside(b, saved_v, saved_g, dim)
    product = b.mul(grad_w, saved_v)
    total = b.sum(product, others, keepdim=True) if others else product
    along = b.mul(saved_v, b.div(total, b.mul(saved_norms, saved_norms)))
    return b.mul(b.div(saved_g, saved_norms), b.sub(grad_w, along)), b.div(total, saved_norms)
