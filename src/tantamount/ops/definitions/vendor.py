"""Operators of other libraries than PyTorch."""

from __future__ import annotations

from tantamount.ops.algebra import Tensor
from tantamount.ops.builder import Builder, ShapeProblem
from tantamount.ops.definitions.backward import layer_norm_gradients
from tantamount.ops.definitions.norm import layer_norm_of, trailing
from tantamount.ops.table import Integers, operator

_VENDOR = "vendor"


@operator("apex.fused_layer_norm_affine_fwd.default", category=_VENDOR)
def apex_layer_norm(
    b: Builder, input: Tensor, weight: Tensor, bias: Tensor, normalized_shape: Integers, eps: float
) -> tuple[Tensor, Tensor, Tensor]:
    """(input - mean) / sqrt(variance + eps) * weight + bias; the means and 1 / sqrt(variance + eps), one per row"""
    out, mean, rstd = layer_norm_of(b, input, normalized_shape, weight, bias, eps)
    return out, b.reshape(mean, (-1,)), b.reshape(rstd, (-1,))


@operator("apex.fused_layer_norm_affine_bwd.default", category=_VENDOR)
def apex_layer_norm_backward(
    b: Builder,
    grad_output: Tensor,
    mean: Tensor,
    invvar: Tensor,
    input: Tensor,
    normalized_shape: Integers,
    weight: Tensor,
    bias: Tensor,
    eps: float,
) -> tuple[Tensor, Tensor, Tensor]:
    """gradients of layer norm: of input, of weight, of bias (from the saved mean and 1 / sqrt(variance + eps))"""
    dims = trailing(input, normalized_shape)
    rows = (*input.shape[: dims[0]], *[1] * len(dims))
    if weight.shape != bias.shape or eps <= 0:
        raise ShapeProblem(f"a layer norm by {weight.type} and {bias.type} with eps = {eps}")
    gradients = layer_norm_gradients(
        b, grad_output, input, normalized_shape, b.reshape(mean, rows), b.reshape(invvar, rows), weight
    )
    types = (input.dtype, weight.dtype, bias.dtype)
    of_input, of_weight, of_bias = (b.cast(gradient, dtype) for gradient, dtype in zip(gradients, types, strict=True))
    return of_input, of_weight, of_bias


@operator("tg.log_tensor.default", category=_VENDOR)
def log_tensor(b: Builder, tensor: Tensor, name: str) -> Tensor:
    """tensor; the name only marks it"""
    return tensor


@operator("tg.inplace_log_tensor.default", category=_VENDOR, mutates=("t",))
def inplace_log_tensor(b: Builder, t: Tensor, s: str) -> Tensor:
    """t; the name only marks it"""
    return t
