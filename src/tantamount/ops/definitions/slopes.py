"""Gradients of pointwise functions. At a kink they are what PyTorch takes."""

from __future__ import annotations

from fractions import Fraction

from tantamount.ops.algebra import Scalar, Tensor
from tantamount.ops.builder import Builder, ShapeProblem
from tantamount.ops.definitions.activation import logistic
from tantamount.ops.definitions.in_place import require_float
from tantamount.ops.table import operator

_BACKWARD = "backward"


def _inside(b: Builder, x: Tensor, low: Scalar, high: Scalar) -> Tensor:
    """``low < x < high``"""
    return b.and_(b.less(b.number(low, x.dtype), x), b.less(x, b.number(high, x.dtype)))


@operator("aten.hardtanh_backward.default", category=_BACKWARD)
def hardtanh_backward(b: Builder, grad_output: Tensor, self: Tensor, min_val: Scalar, max_val: Scalar) -> Tensor:
    """grad_output where min_val < self < max_val, else 0"""
    inside = _inside(b, require_float(self), min_val, max_val)
    return b.where(inside, grad_output, b.number(0, grad_output.dtype))


@operator("aten.hardsigmoid_backward.default", category=_BACKWARD)
def hardsigmoid_backward(b: Builder, grad_output: Tensor, self: Tensor) -> Tensor:
    """grad_output / 6 where -3 < self < 3, else 0"""
    inside = _inside(b, require_float(self), -3, 3)
    return b.where(inside, b.mul(grad_output, Fraction(1, 6)), b.number(0, grad_output.dtype))


@operator("aten.hardswish_backward.default", category=_BACKWARD)
def hardswish_backward(b: Builder, grad_output: Tensor, self: Tensor) -> Tensor:
    """0 where self <= -3, grad_output where self >= 3, grad_output * (self / 3 + 1/2) between"""
    x = require_float(self)
    between = b.mul(grad_output, b.add(b.mul(x, Fraction(1, 3)), Fraction(1, 2)))
    above = b.where(b.less(x, b.number(3, x.dtype)), between, grad_output)
    return b.where(b.less(b.number(-3, x.dtype), x), above, b.number(0, grad_output.dtype))


@operator("aten.leaky_relu_backward.default", category=_BACKWARD)
def leaky_relu_backward(
    b: Builder, grad_output: Tensor, self: Tensor, negative_slope: float, self_is_result: bool
) -> Tensor:
    """grad_output where self > 0, else negative_slope * grad_output; self may be the result if the slope is positive"""
    if self_is_result and negative_slope < 0:
        raise ShapeProblem(f"the gradient of a leaky_relu with negative_slope {negative_slope} from its result")
    x = require_float(self)
    return b.where(b.less(b.number(0, x.dtype), x), grad_output, b.mul(grad_output, b.number(negative_slope, x.dtype)))


@operator("aten.elu_backward.default", category=_BACKWARD)
def elu_backward(
    b: Builder,
    grad_output: Tensor,
    alpha: Scalar,
    scale: Scalar,
    input_scale: Scalar,
    is_result: bool,
    self_or_result: Tensor,
) -> Tensor:
    """scale * grad_output where x > 0, else input_scale * alpha * scale * exp(input_scale * x) * grad_output

    x is self_or_result; where that is the result y, alpha * scale * exp(input_scale * x) is y + alpha * scale.
    """
    x = require_float(self_or_result)
    inner, outer = b.number(input_scale, x.dtype), b.number(scale, x.dtype)
    factor = b.mul(b.number(alpha, x.dtype), outer)
    value = b.add(x, factor) if is_result else b.mul(factor, b.exp(b.mul(x, inner)))
    below = b.mul(grad_output, b.mul(value, inner))
    return b.where(b.less(b.number(0, x.dtype), x), b.mul(grad_output, outer), below)


@operator("aten.softplus_backward.default", category=_BACKWARD)
def softplus_backward(b: Builder, grad_output: Tensor, self: Tensor, beta: Scalar, threshold: Scalar) -> Tensor:
    """grad_output where beta * self > threshold, else grad_output / (1 + exp(-beta * self))"""
    x = require_float(self)
    scaled = b.mul(x, b.number(beta, x.dtype))
    steep = b.less(b.number(threshold, x.dtype), scaled)
    return b.where(steep, grad_output, b.mul(grad_output, logistic(b, scaled)))


@operator("aten.log_sigmoid_backward.default", category=_BACKWARD)
def log_sigmoid_backward(b: Builder, grad_output: Tensor, self: Tensor, buffer: Tensor) -> Tensor:
    """grad_output * (1 - z / (1 + z)) where self < 0, else grad_output * z / (1 + z), where z = exp(-|self|)

    z is the buffer that the forward operator returned, unless that is empty, as on accelerators.
    """
    x = require_float(self)
    if buffer.shape not in (x.shape, (0,)):
        raise ShapeProblem(f"a buffer {buffer.type} of a log_sigmoid of {x.type}")
    decay = buffer if buffer.shape == x.shape else b.exp(b.neg(b.function("abs", x)))
    share = b.div(decay, b.add(decay, 1))
    return b.mul(grad_output, b.where(b.less(x, 0), b.sub(1, share), share))
