"""Operators of apex, and of loggers."""

from __future__ import annotations

from tantamount.ops.algebra import Tensor
from tantamount.ops.builder import Builder, ShapeProblem
from tantamount.ops.definitions.backward import fused_rms_norm_backward, layer_norm_gradients
from tantamount.ops.definitions.norm import layer_norm_of, rms_norm_of, trailing
from tantamount.ops.table import Integers, operator

_VENDOR = "vendor"


# ---------------------------------------------------------------------------------------------- norms of apex
# ``memory_efficient`` changes what is saved for the gradient (the output in place of the input), not what is computed.
@operator("apex.fused_layer_norm_affine_fwd.default", category=_VENDOR)
def apex_layer_norm(
    b: Builder,
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    normalized_shape: Integers,
    eps: float,
    memory_efficient: bool = False,
) -> tuple[Tensor, Tensor, Tensor]:
    """(input - mean) / sqrt(variance + eps) * weight + bias; the means and 1 / sqrt(variance + eps), one per row"""
    out, mean, rstd = layer_norm_of(b, input, normalized_shape, weight, bias, eps)
    return out, b.reshape(mean, (-1,)), b.reshape(rstd, (-1,))


@operator("apex.fused_layer_norm_fwd.default", category=_VENDOR)
def apex_layer_norm_alone(
    b: Builder, input: Tensor, normalized_shape: Integers, eps: float, memory_efficient: bool = False
) -> tuple[Tensor, Tensor, Tensor]:
    """(input - mean) / sqrt(variance + eps); the means and 1 / sqrt(variance + eps), one per row"""
    return apex_layer_norm(b, input, None, None, normalized_shape, eps, memory_efficient)


def _rows(x: Tensor, normalized_shape: Integers, eps: float, memory_efficient: bool) -> Integers:
    """The shape of statistics that broadcast."""
    dims = trailing(x, normalized_shape)
    if memory_efficient or eps <= 0:
        saved = "that saved its output" if memory_efficient else f"with eps = {eps}"
        raise ShapeProblem(f"the gradient of a norm {saved}")
    return (*x.shape[: dims[0]], *[1] * len(dims))


@operator("apex.fused_layer_norm_affine_bwd.default", category=_VENDOR)
def apex_layer_norm_backward(
    b: Builder,
    grad_output: Tensor,
    mean: Tensor,
    invvar: Tensor,
    input_or_output: Tensor,
    normalized_shape: Integers,
    weight: Tensor,
    bias: Tensor,
    eps: float,
    memory_efficient: bool = False,
) -> tuple[Tensor, Tensor, Tensor]:
    """gradients of layer norm: of input, of weight, of bias (from the saved mean and 1 / sqrt(variance + eps))"""
    x = input_or_output
    rows = _rows(x, normalized_shape, eps, memory_efficient)
    if weight.shape != bias.shape:
        raise ShapeProblem(f"a layer norm by {weight.type} and {bias.type}")
    gradients = layer_norm_gradients(
        b, grad_output, x, normalized_shape, b.reshape(mean, rows), b.reshape(invvar, rows), weight
    )
    types = (x.dtype, weight.dtype, bias.dtype)
    of_input, of_weight, of_bias = (b.cast(gradient, dtype) for gradient, dtype in zip(gradients, types, strict=True))
    return of_input, of_weight, of_bias


@operator("apex.fused_layer_norm_bwd.default", category=_VENDOR)
def apex_layer_norm_alone_backward(
    b: Builder,
    grad_output: Tensor,
    mean: Tensor,
    invvar: Tensor,
    input_or_output: Tensor,
    normalized_shape: Integers,
    eps: float,
    memory_efficient: bool = False,
) -> Tensor:
    """the gradient of layer norm without weights, of its input"""
    x = input_or_output
    rows = _rows(x, normalized_shape, eps, memory_efficient)
    statistics = b.reshape(mean, rows), b.reshape(invvar, rows)
    return b.cast(layer_norm_gradients(b, grad_output, x, normalized_shape, *statistics, None)[0], x.dtype)


@operator("apex.fused_rms_norm_affine_fwd.default", category=_VENDOR)
def apex_rms_norm(
    b: Builder,
    input: Tensor,
    weight: Tensor | None,
    normalized_shape: Integers,
    eps: float,
    memory_efficient: bool = False,
) -> tuple[Tensor, Tensor]:
    """input / sqrt(mean(input^2) + eps) * weight; 1 / sqrt(mean(input^2) + eps), one per row"""
    out, rstd = rms_norm_of(b, input, normalized_shape, weight, eps)
    return out, b.reshape(rstd, (-1,))


@operator("apex.fused_rms_norm_fwd.default", category=_VENDOR)
def apex_rms_norm_alone(
    b: Builder, input: Tensor, normalized_shape: Integers, eps: float, memory_efficient: bool = False
) -> tuple[Tensor, Tensor]:
    """input / sqrt(mean(input^2) + eps); 1 / sqrt(mean(input^2) + eps), one per row"""
    return apex_rms_norm(b, input, None, normalized_shape, eps, memory_efficient)


@operator("apex.fused_rms_norm_affine_bwd.default", category=_VENDOR)
def apex_rms_norm_backward(
    b: Builder,
    grad_output: Tensor,
    invvar: Tensor,
    input_or_output: Tensor,
    normalized_shape: Integers,
    weight: Tensor,
    eps: float,
    memory_efficient: bool = False,
) -> tuple[Tensor, Tensor]:
    """gradients of rms norm: of input, of weight (from the saved 1 / sqrt(mean(input^2) + eps))"""
    rows = _rows(input_or_output, normalized_shape, eps, memory_efficient)
    rstd = b.reshape(invvar, rows)
    return fused_rms_norm_backward(b, grad_output, input_or_output, normalized_shape, rstd, weight, (True, True))


@operator("apex.fused_rms_norm_bwd.default", category=_VENDOR)
def apex_rms_norm_alone_backward(
    b: Builder,
    grad_output: Tensor,
    invvar: Tensor,
    input_or_output: Tensor,
    normalized_shape: Integers,
    eps: float,
    memory_efficient: bool = False,
) -> Tensor:
    """the gradient of rms norm without a weight, of its input"""
    rows = _rows(input_or_output, normalized_shape, eps, memory_efficient)
    rstd = b.reshape(invvar, rows)
    return fused_rms_norm_backward(b, grad_output, input_or_output, normalized_shape, rstd, None, (True, False))[0]


# ---------------------------------------------------------------------------------------------- logging
@operator("tg.log_tensor.default", category=_VENDOR)
def log_tensor(b: Builder, tensor: Tensor, name: str) -> Tensor:
    """tensor; the name only marks it"""
    return tensor


@operator("tg.inplace_log_tensor.default", category=_VENDOR, mutates=("t",))
def inplace_log_tensor(b: Builder, t: Tensor, s: str) -> Tensor:
    """t; the name only marks it"""
    return t
