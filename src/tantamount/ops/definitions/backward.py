"""Gradients that PyTorch has operators for."""

from __future__ import annotations

from fractions import Fraction

from tantamount.ir.types import DType
from tantamount.ops.algebra import Doubt, Scalar, Tensor
from tantamount.ops.builder import Builder, ShapeProblem
from tantamount.ops.definitions.activation import gelu_of, logistic, root_of_two_over_pi
from tantamount.ops.definitions.complex import conj
from tantamount.ops.definitions.in_place import require_float
from tantamount.ops.definitions.joining import select_scatter, slice_scatter
from tantamount.ops.definitions.loss import class_dimension
from tantamount.ops.definitions.norm import OF_SCALES, accumulator, trailing
from tantamount.ops.doubts import doubtful
from tantamount.ops.table import Booleans, Integers, operator

__all__ = ["layer_norm_gradients"]

_BACKWARD = "backward"


# ---------------------------------------------------------------------------------------------- activations
@operator("aten.threshold_backward.default", category=_BACKWARD)
def threshold_backward(b: Builder, grad_output: Tensor, self: Tensor, threshold: Scalar) -> Tensor:
    """grad_output where self > threshold, else 0"""
    return b.where(b.less(b.number(threshold, self.dtype), self), grad_output, b.number(0, grad_output.dtype))


@operator("aten.sigmoid_backward.default", category=_BACKWARD)
def sigmoid_backward(b: Builder, grad_output: Tensor, output: Tensor) -> Tensor:
    """grad_output * output * (1 - output), of complex numbers the conjugate of output"""
    output = conj(b, output)
    return b.mul(grad_output, b.mul(output, b.sub(1, output)))


@operator("aten.tanh_backward.default", category=_BACKWARD)
def tanh_backward(b: Builder, grad_output: Tensor, output: Tensor) -> Tensor:
    """grad_output * (1 - output^2), of complex numbers the conjugate of output"""
    return b.mul(grad_output, b.sub(1, b.power(conj(b, output), 2)))


@operator("aten.silu_backward.default", category=_BACKWARD)
def silu_backward(b: Builder, grad_output: Tensor, self: Tensor) -> Tensor:
    """grad_output * s * (1 + self * (1 - s)), where s = 1 / (1 + exp(-self))"""
    gate = logistic(b, require_float(self))
    return b.mul(grad_output, b.mul(gate, b.add(b.mul(self, b.sub(1, gate)), 1)))


@operator("aten.gelu_backward.default", category=_BACKWARD)
def gelu_backward(b: Builder, grad_output: Tensor, self: Tensor, *, approximate: str = "none") -> Tensor:
    """grad_output * d gelu(self) / d self"""
    x = require_float(self)
    half, factor = gelu_of(b, x, approximate)
    root = root_of_two_over_pi(b, x.dtype)
    if approximate == "none":  # half * factor' = x/2 (2/pi)^(1/2) exp(-x^2/2)
        second = b.mul(b.mul(half, root), b.exp(b.mul(b.power(x, 2), Fraction(-1, 2))))
    else:  # tanh' = 1 - tanh^2
        tanh = b.sub(factor, 1)
        inner = b.mul(b.add(b.mul(b.power(x, 2), Fraction(3 * 44715, 1000000)), 1), root)
        second = b.mul(b.mul(half, b.sub(1, b.power(tanh, 2))), inner)
    return b.mul(grad_output, b.add(b.mul(factor, Fraction(1, 2)), second))


@operator("aten._softmax_backward_data.default", category=_BACKWARD)
def softmax_backward(b: Builder, grad_output: Tensor, output: Tensor, dim: int, input_dtype: DType) -> Tensor:
    """output * (grad_output - sum(grad_output * output))"""
    weighted = b.mul(grad_output, require_float(output))
    total = b.sum(weighted, (b.dim(output, dim),), keepdim=True)
    return b.cast(b.sub(weighted, b.mul(output, total)), input_dtype)


@operator("aten._log_softmax_backward_data.default", category=_BACKWARD)
def log_softmax_backward(b: Builder, grad_output: Tensor, output: Tensor, dim: int, input_dtype: DType) -> Tensor:
    """grad_output - exp(output) * sum(grad_output)"""
    total = b.sum(require_float(grad_output), (b.dim(output, dim),), keepdim=True)
    return b.cast(b.sub(grad_output, b.mul(b.exp(output), total)), input_dtype)


# ---------------------------------------------------------------------------------------------- norms
def layer_norm_gradients(
    b: Builder,
    grad_output: Tensor,
    x: Tensor,
    normalized_shape: Integers,
    mean: Tensor,
    rstd: Tensor,
    weight: Tensor | None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of layer norm of x (shape of x), of its weight and of its bias (shape ``normalized_shape``), in the
    type of the statistics; mean and rstd have size 1 in the normalised dimensions."""
    dims = trailing(require_float(x), normalized_shape)
    if grad_output.shape != x.shape or (weight is not None and weight.shape != normalized_shape):
        raise ShapeProblem(f"a gradient {grad_output.type} of a layer norm of {x.type}")
    dtype = accumulator(x.dtype)
    gradient = b.cast(grad_output, dtype)
    normal = b.mul(b.sub(b.cast(x, dtype), b.cast(mean, dtype)), b.cast(rstd, dtype))
    slope = gradient if weight is None else b.mul(gradient, b.cast(weight, dtype))
    along = b.mean(b.mul(slope, normal), dims, keepdim=True)
    inner = b.sub(b.sub(slope, b.mean(slope, dims, keepdim=True)), b.mul(normal, along))
    outer = tuple(range(dims[0]))
    of_weight, of_bias = b.mul(gradient, normal), gradient
    if outer:
        of_weight, of_bias = b.sum(of_weight, outer), b.sum(of_bias, outer)
    return b.mul(inner, b.cast(rstd, dtype)), of_weight, of_bias


def _wanted(count: int, output_mask: Booleans) -> Booleans:
    if len(output_mask) != count:
        raise ShapeProblem(f"an output_mask of {len(output_mask)} entries where {count} are needed")
    return output_mask


@operator("aten.native_layer_norm_backward.default", category=_BACKWARD)
@doubtful(OF_SCALES, Doubt.WHICH)
def native_layer_norm_backward(
    b: Builder,
    grad_out: Tensor,
    input: Tensor,
    normalized_shape: Integers,
    mean: Tensor,
    rstd: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    output_mask: Booleans,
) -> tuple[Tensor | None, ...]:
    """gradients of layer norm: of input, of weight, of bias, as far as output_mask wants them"""
    of_input, of_weight, of_bias = layer_norm_gradients(b, grad_out, input, normalized_shape, mean, rstd, weight)
    wanted = _wanted(3, output_mask)
    return (
        b.cast(of_input, input.dtype) if wanted[0] else None,
        b.cast(of_weight, weight.dtype) if wanted[1] and weight is not None else None,
        b.cast(of_bias, bias.dtype) if wanted[2] and bias is not None else None,
    )


@operator("aten._fused_rms_norm_backward.default", category=_BACKWARD)
def fused_rms_norm_backward(
    b: Builder,
    grad_out: Tensor,
    input: Tensor,
    normalized_shape: Integers,
    rstd: Tensor,
    weight: Tensor | None,
    output_mask: Booleans,
) -> tuple[Tensor | None, ...]:
    """gradients of rms_norm: of input and of weight, as far as output_mask wants them"""
    dims = trailing(require_float(input), normalized_shape)
    wanted = _wanted(2, output_mask)
    dtype = accumulator(input.dtype)
    gradient, scale = b.cast(grad_out, dtype), b.cast(rstd, dtype)
    normal = b.mul(b.cast(input, dtype), scale)
    slope = gradient if weight is None else b.mul(gradient, b.cast(weight, dtype))
    along = b.mean(b.mul(slope, normal), dims, keepdim=True)
    of_input = b.mul(b.sub(slope, b.mul(normal, along)), scale)
    outer = tuple(range(dims[0]))
    of_weight = b.mul(gradient, normal)
    of_weight = b.sum(of_weight, outer) if outer else of_weight
    return (
        b.cast(of_input, input.dtype) if wanted[0] else None,
        b.cast(of_weight, weight.dtype) if wanted[1] and weight is not None else None,
    )


# ---------------------------------------------------------------------------------------------- losses and indices
@operator("aten.nll_loss_backward.default", "aten.nll_loss2d_backward.default", category=_BACKWARD)
def nll_loss_backward(
    b: Builder,
    grad_output: Tensor,
    self: Tensor,
    target: Tensor,
    weight: Tensor | None,
    reduction: int,
    ignore_index: int,
    total_weight: Tensor,
) -> Tensor:
    """-grad_output * weight[c] where c = target, not ignored, else 0; divided by total_weight for the mean"""
    k = class_dimension(require_float(self), target)
    classes = b.reshape(b.iota(self.shape[k]), [self.shape[k] if j == k else 1 for j in range(self.rank)])
    hit = b.and_(b.equal(b.unsqueeze(target, k), classes), b.not_(b.equal(b.unsqueeze(target, k), ignore_index)))
    if reduction not in (0, 1, 2):
        raise ShapeProblem(f"reduction {reduction}")
    gradient = b.unsqueeze(grad_output, k) if reduction == 0 and self.rank > 1 else grad_output
    if reduction == 1:
        gradient = b.div(gradient, total_weight)
    out = b.neg(gradient)
    if weight is not None:
        out = b.mul(out, b.reshape(weight, classes.shape))
    return b.expand(b.where(hit, out, b.number(0, self.dtype)), self.shape)


@operator("aten.embedding_dense_backward.default", category=_BACKWARD)
def embedding_dense_backward(
    b: Builder, grad_output: Tensor, indices: Tensor, num_weights: int, padding_idx: int, scale_grad_by_freq: bool
) -> Tensor:
    """y[i] = sum of grad_output[...] where indices[...] = i, 0 for i = padding_idx"""
    if scale_grad_by_freq:
        raise ShapeProblem("scale_grad_by_freq = True")
    if grad_output.shape[:-1] != indices.shape or num_weights < 1:
        raise ShapeProblem(f"a gradient {grad_output.type} of an embedding at {indices.type}")
    gradient = grad_output
    if padding_idx >= 0:
        padding = b.unsqueeze(b.equal(indices, padding_idx), -1)
        gradient = b.where(padding, b.number(0, gradient.dtype), gradient)
    zeros = b.full((num_weights, grad_output.shape[-1]), 0, grad_output.dtype)
    return b.scatter(zeros, [indices, None], gradient, True)


@operator("aten.select_backward.default", category=_BACKWARD)
def select_backward(b: Builder, grad_output: Tensor, input_sizes: Integers, dim: int, index: int) -> Tensor:
    """grad_output at index along dim, else 0"""
    return select_scatter(b, b.full(input_sizes, 0, grad_output.dtype), grad_output, dim, index)


@operator("aten.slice_backward.default", category=_BACKWARD)
def slice_backward(
    b: Builder, grad_output: Tensor, input_sizes: Integers, dim: int, start: int, end: int, step: int
) -> Tensor:
    """grad_output at start:end:step along dim, else 0"""
    return slice_scatter(b, b.full(input_sizes, 0, grad_output.dtype), grad_output, dim, start, end, step)
