"""Losses. `reduction`: 0 none, 1 mean, 2 sum."""

from __future__ import annotations

from fractions import Fraction
from math import prod

from tantamount.ir.types import Kind
from tantamount.ops.algebra import Tensor
from tantamount.ops.builder import Builder, ShapeProblem, exact
from tantamount.ops.definitions.activation import log_softmax_of
from tantamount.ops.definitions.in_place import require_float
from tantamount.ops.definitions.reduction import take_along
from tantamount.ops.table import operator

__all__ = ["class_dimension"]

_LOSS = "loss"
_LEAST_SPREAD = Fraction(9.999999960041972e-13)  # 1e-12 as a number of 32 bits, which is what kernels of all types have


def _reduced(b: Builder, losses: Tensor, reduction: int) -> Tensor:
    if reduction == 0:
        return losses
    if reduction == 1:
        return b.mean(losses)
    if reduction == 2:
        return b.sum(losses)
    raise ShapeProblem(f"reduction {reduction}")


# ---------------------------------------------------------------------------------------------- class indices
def class_dimension(x: Tensor, target: Tensor) -> int:
    """The dimension of the classes in x, of shape ``(classes,)`` or ``(samples, classes, ...)``, for class indices."""
    k = 1 if x.rank > 1 else 0
    if not x.rank or target.shape != x.shape[:k] + x.shape[k + 1 :] or target.dtype.kind is not Kind.INT:
        raise ShapeProblem(f"class indices {target.type} for {x.type}")
    return k


def _class_weights(b: Builder, x: Tensor, k: int, weight: Tensor | None) -> Tensor | None:
    """The weights of the classes, in a shape that broadcasts to x."""
    if weight is None:
        return None
    if weight.shape != (x.shape[k],) or weight.dtype is not x.dtype:
        raise ShapeProblem(f"class weights {weight.type} for {x.type}")
    return b.reshape(weight, [x.shape[k] if j == k else 1 for j in range(x.rank)])


def _nll(b: Builder, x: Tensor, target: Tensor, weight: Tensor | None, ignore_index: int) -> tuple[Tensor, Tensor]:
    """``-weight[target] x[target]`` and ``weight[target]`` for every sample, both 0 where the target is ignored."""
    k = class_dimension(require_float(x), target)
    _class_weights(b, x, k, weight)
    counted = b.not_(b.equal(target, ignore_index))
    target = b.where(counted, target, b.number(0, target.dtype))  # any index in range: its loss is not counted
    loss = b.neg(b.squeeze(take_along(b, x, k, b.unsqueeze(target, k)), (k,)))
    if weight is None:
        return b.where(counted, loss, b.number(0, x.dtype)), b.cast(counted, x.dtype)
    share = b.gather(weight, [target])
    return b.where(counted, b.mul(loss, share), b.number(0, x.dtype)), b.where(counted, share, b.number(0, x.dtype))


def _nll_reduced(b: Builder, losses: Tensor, shares: Tensor, reduction: int) -> Tensor:
    if reduction == 1:
        return b.div(b.sum(losses), b.sum(shares))
    return _reduced(b, losses, reduction)


@operator("aten.nll_loss.default", "aten.nll_loss_nd.default", category=_LOSS)
def nll_loss(
    b: Builder, self: Tensor, target: Tensor, weight: Tensor | None = None, reduction: int = 1, ignore_index: int = -100
) -> Tensor:
    """-weight[target] self[target]; the mean is weighted; ignored targets count nothing"""
    return _nll_reduced(b, *_nll(b, self, target, weight, ignore_index), reduction)


@operator("aten.nll_loss_forward.default", "aten.nll_loss2d_forward.default", category=_LOSS)
def nll_loss_forward(
    b: Builder, self: Tensor, target: Tensor, weight: Tensor | None, reduction: int, ignore_index: int
) -> tuple[Tensor, Tensor]:
    """-weight[target] self[target]; the sum of weight[target] that the mean divides by"""
    losses, shares = _nll(b, self, target, weight, ignore_index)
    unreduced = reduction == 0 and self.rank > 1
    total = b.full((), 0, self.dtype) if unreduced else b.sum(shares)
    return _nll_reduced(b, losses, shares, reduction), total


@operator("aten.cross_entropy_loss.default", category=_LOSS)
def cross_entropy_loss(
    b: Builder,
    self: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    reduction: int = 1,
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
) -> Tensor:
    """-weight[target] x[target], or -sum_c weight[c] target[c] x[c] for probabilities, where x = log_softmax(self)"""
    k = 1 if self.rank > 1 else 0
    smoothing = Fraction(exact(label_smoothing))
    if not self.rank or not 0 <= smoothing <= 1:
        raise ShapeProblem(f"a cross entropy of {self.type} with label_smoothing {label_smoothing}")
    logs = log_softmax_of(b, self, k)
    weights = _class_weights(b, self, k, weight)
    classes = self.shape[k]
    if target.dtype.is_float:
        return _soft_cross_entropy(b, logs, target, weights, k, reduction, smoothing)
    losses, shares = _nll(b, logs, target, weight, ignore_index)
    if not smoothing:
        return _nll_reduced(b, losses, shares, reduction)
    spread = b.neg(b.sum(logs if weights is None else b.mul(logs, weights), (k,)))
    counted = b.not_(b.equal(target, ignore_index))
    spread = b.where(counted, spread, b.number(0, logs.dtype))
    mixed = b.add(b.mul(losses, 1 - smoothing), b.mul(spread, smoothing / classes))
    return _nll_reduced(b, mixed, shares, reduction)


def _soft_cross_entropy(
    b: Builder, logs: Tensor, target: Tensor, weights: Tensor | None, k: int, reduction: int, smoothing: Fraction
) -> Tensor:
    if target.shape != logs.shape:
        raise ShapeProblem(f"class probabilities {target.type} for {logs.type}")
    classes = logs.shape[k]
    if smoothing:
        target = b.add(b.mul(target, 1 - smoothing), smoothing / classes)
    product = b.mul(logs, target)
    losses = b.neg(b.sum(product if weights is None else b.mul(product, weights), (k,)))
    if reduction == 1:
        return b.over(b.sum(losses), max(1, prod(logs.shape) // classes))
    return _reduced(b, losses, reduction)


# ---------------------------------------------------------------------------------------------- differences
def _difference(b: Builder, x: Tensor, y: Tensor) -> Tensor:
    return require_float(b.sub(x, y))


@operator("aten.mse_loss.default", category=_LOSS)
def mse_loss(b: Builder, self: Tensor, target: Tensor, reduction: int = 1) -> Tensor:
    """(self - target)^2"""
    return _reduced(b, b.power(_difference(b, self, target), 2), reduction)


@operator("aten.mse_loss_backward.default", category=_LOSS)
def mse_loss_backward(b: Builder, grad_output: Tensor, self: Tensor, target: Tensor, reduction: int) -> Tensor:
    """2 grad_output (self - target), divided by the number of elements for the mean"""
    if reduction not in (0, 1, 2):
        raise ShapeProblem(f"reduction {reduction}")
    difference = _difference(b, self, target)
    twice = b.mul(b.mul(difference, grad_output), 2)
    return b.over(twice, max(1, prod(difference.shape))) if reduction == 1 else twice


@operator("aten.l1_loss.default", category=_LOSS)
def l1_loss(b: Builder, self: Tensor, target: Tensor, reduction: int = 1) -> Tensor:
    """|self - target|"""
    return _reduced(b, b.function("abs", _difference(b, self, target)), reduction)


@operator("aten.smooth_l1_loss.default", category=_LOSS)
def smooth_l1_loss(b: Builder, self: Tensor, target: Tensor, reduction: int = 1, beta: float = 1.0) -> Tensor:
    """d^2 / (2 beta) where d = |self - target| < beta, else d - beta/2"""
    width = Fraction(exact(beta))
    if width <= 0:
        raise ShapeProblem(f"beta = {beta}")
    d = b.function("abs", _difference(b, self, target))
    near = b.mul(b.power(d, 2), 1 / (2 * width))
    return _reduced(b, b.where(b.less(d, width), near, b.sub(d, width / 2)), reduction)


def _shared(b: Builder, gradient: Tensor, slope: Tensor, reduction: int) -> Tensor:
    """The gradient of a loss with respect to its elements, given the slopes at these."""
    if reduction not in (0, 1, 2):
        raise ShapeProblem(f"reduction {reduction}")
    whole = b.mul(slope, gradient)
    return b.over(whole, max(1, prod(slope.shape))) if reduction == 1 else whole


def _positive(value: float, name: str) -> Fraction:
    width = Fraction(exact(value))
    if width <= 0:
        raise ShapeProblem(f"{name} = {value}")
    return width


def _clamped(b: Builder, x: Tensor, y: Tensor, width: Fraction) -> Tensor:
    """clamp(x - y, -width, width)"""
    d = _difference(b, x, y)
    return b.maximum(b.minimum(d, b.number(width, d.dtype)), b.number(-width, d.dtype))


@operator("aten.smooth_l1_loss_backward.default", category=_LOSS)
def smooth_l1_loss_backward(
    b: Builder, grad_output: Tensor, self: Tensor, target: Tensor, reduction: int, beta: float
) -> Tensor:
    """grad_output clamp(self - target, -beta, beta) / beta, divided by the number of elements for the mean"""
    width = _positive(beta, "beta")
    return _shared(b, grad_output, b.mul(_clamped(b, self, target, width), 1 / width), reduction)


@operator("aten.huber_loss.default", category=_LOSS)
def huber_loss(b: Builder, self: Tensor, target: Tensor, reduction: int = 1, delta: float = 1.0) -> Tensor:
    """d^2 / 2 where d = |self - target| <= delta, else delta (d - delta/2)"""
    width = _positive(delta, "delta")
    d = b.function("abs", _difference(b, self, target))
    far = b.mul(b.sub(d, width / 2), width)
    return _reduced(b, b.where(b.less(width, d), far, b.mul(b.power(d, 2), Fraction(1, 2))), reduction)


@operator("aten.huber_loss_backward.default", category=_LOSS)
def huber_loss_backward(
    b: Builder, grad_output: Tensor, self: Tensor, target: Tensor, reduction: int, delta: float
) -> Tensor:
    """grad_output clamp(self - target, -delta, delta), divided by the number of elements for the mean"""
    width = _positive(delta, "delta")
    return _shared(b, grad_output, _clamped(b, self, target, width), reduction)


@operator("aten.binary_cross_entropy.default", category=_LOSS)
def binary_cross_entropy(
    b: Builder, self: Tensor, target: Tensor, weight: Tensor | None = None, reduction: int = 1
) -> Tensor:
    """-target max(log(self), -100) - (1 - target) max(log(1 - self), -100), times weight"""
    x = require_float(self)
    if target.shape != x.shape:
        raise ShapeProblem(f"targets {target.type} for {x.type}")
    least = b.number(-100, x.dtype)
    hit, missed = (b.maximum(b.log(y), least) for y in (x, b.sub(b.number(1, x.dtype), x)))
    losses = b.neg(b.add(b.mul(target, hit), b.mul(b.sub(b.number(1, x.dtype), target), missed)))
    return _reduced(b, losses if weight is None else b.mul(losses, weight), reduction)


@operator("aten.binary_cross_entropy_backward.default", category=_LOSS)
def binary_cross_entropy_backward(
    b: Builder, grad_output: Tensor, self: Tensor, target: Tensor, weight: Tensor | None = None, reduction: int = 1
) -> Tensor:
    """grad_output (self - target) / max(self (1 - self), 1e-12), times weight; divided by their number for the mean"""
    x = require_float(self)
    spread = b.maximum(b.mul(x, b.sub(b.number(1, x.dtype), x)), b.number(_LEAST_SPREAD, x.dtype))
    slope = b.div(_difference(b, x, target), spread)
    return _shared(b, grad_output, slope if weight is None else b.mul(slope, weight), reduction)


@operator("aten.binary_cross_entropy_with_logits.default", category=_LOSS)
def binary_cross_entropy_with_logits(
    b: Builder,
    self: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    pos_weight: Tensor | None = None,
    reduction: int = 1,
) -> Tensor:
    """(1 - target) self + (1 + (pos_weight - 1) target) log(1 + exp(-self)), times weight"""
    x = require_float(self)
    if target.shape != x.shape:
        raise ShapeProblem(f"targets {target.type} for {x.type}")
    surprise = b.log(b.add(b.exp(b.neg(x)), 1))
    if pos_weight is not None:
        surprise = b.mul(surprise, b.add(b.mul(b.sub(pos_weight, 1), target), 1))
    loss = b.add(b.mul(b.sub(1, target), x), surprise)
    return _reduced(b, loss if weight is None else b.mul(loss, weight), reduction)
