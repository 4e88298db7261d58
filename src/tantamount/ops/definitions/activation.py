"""Activation functions and softmax."""

from __future__ import annotations

from fractions import Fraction

from tantamount.ir.types import DType
from tantamount.ops.algebra import Scalar, Tensor
from tantamount.ops.builder import Builder, ShapeProblem
from tantamount.ops.definitions.in_place import overwriting, require_float
from tantamount.ops.table import operator

__all__ = ["gelu_of", "log_softmax_of", "logistic", "safe_softmax_of", "softmax_of"]

_ACTIVATION = "activation"


# ---------------------------------------------------------------------------------------------- rectifiers
@overwriting("aten.relu_.default", category=_ACTIVATION)
@operator("aten.relu.default", category=_ACTIVATION)
def relu(b: Builder, self: Tensor) -> Tensor:
    """max(self, 0)"""
    if self.dtype is DType.BOOL:
        raise ShapeProblem("an operand of type bool where a number is needed")
    return b.maximum(self, 0)


@operator("aten.relu6.default", category=_ACTIVATION)
def relu6(b: Builder, self: Tensor) -> Tensor:
    """min(max(self, 0), 6)"""
    return b.minimum(b.maximum(require_float(self), 0), 6)


@operator("aten.leaky_relu.default", category=_ACTIVATION)
def leaky_relu(b: Builder, self: Tensor, negative_slope: Scalar = 0.01) -> Tensor:
    """self where self > 0, else negative_slope * self"""
    x = require_float(self)
    return b.where(b.less(0, x), x, b.mul(x, b.number(negative_slope, x.dtype)))


@operator("aten.elu.default", category=_ACTIVATION)
def elu(b: Builder, self: Tensor, alpha: Scalar = 1, scale: Scalar = 1, input_scale: Scalar = 1) -> Tensor:
    """scale * self where self > 0, else scale * alpha * (exp(input_scale * self) - 1)"""
    x = require_float(self)
    factor = b.mul(b.number(alpha, x.dtype), b.number(scale, x.dtype))
    below = b.mul(b.sub(b.exp(b.mul(x, b.number(input_scale, x.dtype))), 1), factor)
    return b.where(b.less(0, x), b.mul(x, b.number(scale, x.dtype)), below)


@operator("aten.hardtanh.default", category=_ACTIVATION)
def hardtanh(b: Builder, self: Tensor, min_val: Scalar = -1, max_val: Scalar = 1) -> Tensor:
    """min(max(self, min_val), max_val)"""
    x = require_float(self)
    return b.minimum(b.maximum(x, b.number(min_val, x.dtype)), b.number(max_val, x.dtype))


def _hard_gate(b: Builder, x: Tensor) -> Tensor:
    return b.mul(b.minimum(b.maximum(b.add(x, 3), 0), 6), Fraction(1, 6))


@operator("aten.hardsigmoid.default", category=_ACTIVATION)
def hardsigmoid(b: Builder, self: Tensor) -> Tensor:
    """min(max(self + 3, 0), 6) / 6"""
    return _hard_gate(b, require_float(self))


@operator("aten.hardswish.default", category=_ACTIVATION)
def hardswish(b: Builder, self: Tensor) -> Tensor:
    """self * min(max(self + 3, 0), 6) / 6"""
    return b.mul(require_float(self), _hard_gate(b, self))


# ---------------------------------------------------------------------------------------------- smooth
def logistic(b: Builder, x: Tensor) -> Tensor:
    """``(1 + exp(-x)) ** -1``, the type of x kept."""
    return b.power(b.add(b.exp(b.neg(x)), 1), -1)


@overwriting("aten.sigmoid_.default", category=_ACTIVATION)
@operator("aten.sigmoid.default", category=_ACTIVATION)
def sigmoid(b: Builder, self: Tensor) -> Tensor:
    """1 / (1 + exp(-self))"""
    return logistic(b, b.floating(self))


@operator("aten.log_sigmoid.default", category=_ACTIVATION)
def log_sigmoid(b: Builder, self: Tensor) -> Tensor:
    """-log(1 + exp(-self))"""
    return b.neg(b.log(b.add(b.exp(b.neg(require_float(self))), 1)))


@overwriting("aten.tanh_.default", category=_ACTIVATION)
@operator("aten.tanh.default", category=_ACTIVATION)
def tanh(b: Builder, self: Tensor) -> Tensor:
    """tanh(self)"""
    return b.function("tanh", self)


@overwriting("aten.silu_.default", category=_ACTIVATION)
@operator("aten.silu.default", category=_ACTIVATION)
def silu(b: Builder, self: Tensor) -> Tensor:
    """self / (1 + exp(-self))"""
    return b.mul(require_float(self), logistic(b, self))


def gelu_of(b: Builder, x: Tensor, approximate: str) -> tuple[Tensor, Tensor]:
    """gelu's two factors ``x/2`` and ``1 + erf(x 2^(-1/2))``, or ``1 + tanh((2/pi)^(1/2) (x + 0.044715 x^3))``."""
    half = b.mul(x, Fraction(1, 2))
    if approximate == "none":
        return half, b.add(b.function("erf", b.mul(x, b.power(b.number(2, x.dtype), Fraction(-1, 2)))), 1)
    if approximate == "tanh":
        cubic = b.add(x, b.mul(b.power(x, 3), Fraction(44715, 1000000)))
        return half, b.add(b.function("tanh", b.mul(cubic, root_of_two_over_pi(b, x.dtype))), 1)
    raise ShapeProblem(f"approximate = {approximate!r}")


def root_of_two_over_pi(b: Builder, dtype: DType) -> Tensor:
    """``(2/pi)^(1/2)``, which is written in one way, that of literals as well (``comparison.rounded_constants``)."""
    return b.power(b.function("pi_times", b.number(Fraction(1, 2), dtype)), Fraction(-1, 2))


@operator("aten.gelu.default", category=_ACTIVATION)
def gelu(b: Builder, self: Tensor, *, approximate: str = "none") -> Tensor:
    """x/2 * (1 + erf(x / sqrt 2)), or x/2 * (1 + tanh(sqrt(2/pi) * (x + 0.044715 x^3))), where x = self"""
    return b.mul(*gelu_of(b, require_float(self), approximate))


@operator("aten.softplus.default", category=_ACTIVATION)
def softplus(b: Builder, self: Tensor, beta: Scalar = 1, threshold: Scalar = 20) -> Tensor:
    """self where beta * self > threshold, else log(1 + exp(beta * self)) / beta"""
    x = require_float(self)
    slope = b.number(beta, x.dtype)
    scaled = b.mul(x, slope)
    smooth = b.div(b.log(b.add(b.exp(scaled), 1)), slope)
    return b.where(b.less(b.number(threshold, x.dtype), scaled), x, smooth)


@operator("aten.mish.default", category=_ACTIVATION)
def mish(b: Builder, self: Tensor) -> Tensor:
    """self * tanh(log(1 + exp(self)))"""
    return b.mul(require_float(self), b.function("tanh", b.log(b.add(b.exp(self), 1))))


@operator("aten.glu.default", category=_ACTIVATION)
def glu(b: Builder, self: Tensor, dim: int = -1) -> Tensor:
    """a / (1 + exp(-g)), where a and g are the halves of self along dim"""
    k = b.dim(require_float(self), dim)
    if not self.rank or self.shape[k] % 2:
        raise ShapeProblem(f"halves of {self.type} along dimension {dim}")
    half = self.shape[k] // 2
    a, gate = b.split(self, (half, half), k)
    return b.mul(a, logistic(b, gate))


# ---------------------------------------------------------------------------------------------- softmax
def _shifted(b: Builder, x: Tensor, dim: int) -> tuple[Tensor, Tensor]:
    """``x - max(x)`` along ``dim`` and the sum of its exponentials."""
    dims = (b.dim(x, dim),)
    shifted = b.sub(x, b.amax(x, dims, keepdim=True))
    return shifted, b.sum(b.exp(shifted), dims, keepdim=True)


def softmax_of(b: Builder, x: Tensor, dim: int) -> Tensor:
    """``exp(x) / sum(exp(x))`` along ``dim``, the maximum subtracted first. Undefined on a row that is all -inf."""
    shifted, total = _shifted(b, require_float(x), dim)
    return b.div(b.exp(shifted), total)


def safe_softmax_of(b: Builder, x: Tensor, dim: int) -> Tensor:
    """:func:`softmax_of`, and 0 on a row that is all -inf."""
    weights = softmax_of(b, x, dim)
    masked = b.equal(b.amax(x, (b.dim(x, dim),), keepdim=True), -b.infinity)
    return b.where(b.expand(masked, x.shape), b.number(0, weights.dtype), weights)


def log_softmax_of(b: Builder, x: Tensor, dim: int) -> Tensor:
    """``x - log(sum(exp(x)))`` along ``dim``, with the maximum subtracted first."""
    shifted, total = _shifted(b, require_float(x), dim)
    return b.sub(shifted, b.log(total))


def _half_to_float(b: Builder, x: Tensor, half_to_float: bool) -> Tensor:
    if half_to_float and x.dtype is not DType.FLOAT16 and x.dtype is not DType.BFLOAT16:
        raise ShapeProblem(f"half_to_float for {x.type}")
    return b.cast(x, DType.FLOAT32) if half_to_float else x


@operator("aten.softmax.int", category=_ACTIVATION)
def softmax(b: Builder, self: Tensor, dim: int, dtype: DType | None = None) -> Tensor:
    """exp(self) / sum(exp(self)) along dim; undefined on a row that is all -inf"""
    return softmax_of(b, b.cast(self, dtype or self.dtype), dim)


@operator("aten._safe_softmax.default", category=_ACTIVATION)
def safe_softmax(b: Builder, self: Tensor, dim: int, dtype: DType | None = None) -> Tensor:
    """exp(self) / sum(exp(self)) along dim; 0 on a row that is all -inf"""
    return safe_softmax_of(b, b.cast(self, dtype or self.dtype), dim)


@operator("aten._softmax.default", category=_ACTIVATION)
def softmax_kernel(b: Builder, self: Tensor, dim: int, half_to_float: bool) -> Tensor:
    """exp(self) / sum(exp(self)) along dim"""
    return softmax_of(b, _half_to_float(b, self, half_to_float), dim)


@operator("aten.log_softmax.int", category=_ACTIVATION)
def log_softmax(b: Builder, self: Tensor, dim: int, dtype: DType | None = None) -> Tensor:
    """self - log(sum(exp(self))) along dim"""
    return log_softmax_of(b, b.cast(self, dtype or self.dtype), dim)


@operator("aten._log_softmax.default", category=_ACTIVATION)
def log_softmax_kernel(b: Builder, self: Tensor, dim: int, half_to_float: bool) -> Tensor:
    """self - log(sum(exp(self))) along dim"""
    return log_softmax_of(b, _half_to_float(b, self, half_to_float), dim)
