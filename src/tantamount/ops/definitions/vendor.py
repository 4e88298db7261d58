"""Operators of other libraries than PyTorch."""

from __future__ import annotations

from tantamount.ops.algebra import Tensor
from tantamount.ops.builder import Builder, ShapeProblem
from tantamount.ops.definitions.norm import layer_norm_of, trailing
from tantamount.ops.table import Integers, operator

_VENDOR = "vendor"


@operator("apex.fused_layer_norm_affine_fwd.default", category=_VENDOR)
def apex_layer_norm(
    b: Builder, input: Tensor, weight: Tensor, bias: Tensor, normalized_shape: Integers, eps: float  # noqa: A002
) -> tuple[Tensor, Tensor, Tensor]:
    """(input - mean) / sqrt(variance + eps) * weight + bias; the means and 1 / sqrt(variance + eps), one per row"""
    out, mean, rstd = layer_norm_of(b, input, normalized_shape, weight, bias, eps)
    return out, b.reshape(mean, (-1,)), b.reshape(rstd, (-1,))


@operator("apex.fused_layer_norm_affine_bwd.default", category=_VENDOR)
def apex_layer_norm_backward(
    b: Builder, grad_output: Tensor, mean: Tensor, invvar: Tensor, input: Tensor, normalized_shape: Integers, weight: Tensor,  # noqa: A002
    bias: Tensor, eps: float,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """gradients of layer norm: of input, of weight, of bias (from the saved mean and 1 / sqrt(variance + eps))"""
    dims = trailing(input, normalized_shape)
    rows = (*input.shape[: dims[0]], *[1] * len(dims))
    if weight.shape != normalized_shape or bias.shape != normalized_shape or grad_output.shape != input.shape or eps <= 0:
        raise ShapeProblem(f"gradients {grad_output.type} of a layer norm of {input.type} by {weight.type} and {bias.type}")
    centre, scale = b.reshape(mean, rows), b.reshape(invvar, rows)
    gradient = b.cast(grad_output, mean.dtype)
    normal = b.mul(b.sub(b.cast(input, mean.dtype), centre), scale)
    slope = b.mul(gradient, b.cast(weight, mean.dtype))
    along = b.mean(b.mul(slope, normal), dims, keepdim=True)
    inner = b.sub(b.sub(slope, b.mean(slope, dims, keepdim=True)), b.mul(normal, along))
    outer = tuple(range(dims[0]))
    of_weight = b.mul(gradient, normal)
    of_bias = gradient
    if outer:
        of_weight, of_bias = b.sum(of_weight, outer), b.sum(of_bias, outer)
    return b.cast(b.mul(inner, scale), input.dtype), b.cast(of_weight, weight.dtype), b.cast(of_bias, bias.dtype)


@operator("tg.log_tensor.default", category=_VENDOR)
def log_tensor(b: Builder, tensor: Tensor, name: str) -> Tensor:
    """tensor; the name only marks it"""
    return tensor
