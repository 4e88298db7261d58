"""Normalisation per channel over samples, and the gradients of normalisations per channel or group of channels."""

from __future__ import annotations

from fractions import Fraction
from math import prod

from tantamount.ops.algebra import Doubt, Tensor
from tantamount.ops.builder import Builder, ShapeProblem, exact
from tantamount.ops.definitions.in_place import require_float
from tantamount.ops.definitions.norm import OF_SCALES, accumulator
from tantamount.ops.definitions.reduction import variance_of
from tantamount.ops.doubts import doubtful
from tantamount.ops.table import Booleans, Layout, operator

_NORM, _BACKWARD = "norm", "backward"


def _per_channel(b: Builder, x: Tensor, channels: int, rank: int) -> Tensor:
    """One number per channel, as it broadcasts to ``rank`` dimensions, the channels the second of them."""
    if x.shape != (channels,):
        raise ShapeProblem(f"{x.type} for {channels} channels")
    return b.reshape(x, (channels, *(1 for _ in range(rank - 2))))


def _others(x: Tensor) -> tuple[int, ...]:
    if require_float(x).rank < 2 or 0 in x.shape:
        raise ShapeProblem(f"a norm per channel of {x.type}")
    return tuple(k for k in range(x.rank) if k != 1)


# ---------------------------------------------------------------------------------------------- batch norm
def _batch_norm(
    b: Builder,
    x: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running: tuple[Tensor | None, Tensor | None],
    training: bool,
    momentum: float,
    eps: float,
) -> tuple[Tensor, ...]:
    """The normalised tensor; the mean and one over the deviation that were used (empty where they were given); the
    new running mean and variance, if there are any."""
    dims = _others(x)
    channels = x.shape[1]
    wide = b.cast(x, accumulator(x.dtype))
    new: tuple[Tensor, ...] = ()
    if training:
        count = prod(x.shape[k] for k in dims)
        variance, mean = variance_of(b, wide, dims, 0, keepdim=False)
        rstd = b.rsqrt(b.add(variance, eps))
        saved = (mean, rstd)
        if running[0] is not None and running[1] is not None:
            if count < 2:
                raise ShapeProblem(f"a running variance of one element per channel of {x.type}")
            fresh = (mean, b.mul(variance, Fraction(count, count - 1)))
            share = exact(momentum)
            new = tuple(
                b.cast(b.add(b.mul(old, 1 - share), b.mul(value, share)), old.dtype)
                for old, value in zip(running, fresh, strict=True)
                if old is not None
            )
    else:
        if running[0] is None or running[1] is None:
            raise ShapeProblem("a batch norm with neither training nor running statistics")
        mean, variance = (b.cast(y, wide.dtype) for y in running if y is not None)
        rstd = b.rsqrt(b.add(variance, eps))
        saved = (b.full((0,), 0, wide.dtype), b.full((0,), 0, wide.dtype))
        new = tuple(y for y in running if y is not None)
    out = b.mul(b.sub(wide, _per_channel(b, mean, channels, x.rank)), _per_channel(b, rstd, channels, x.rank))
    if weight is not None:
        out = b.mul(out, _per_channel(b, weight, channels, x.rank))
    if bias is not None:
        out = b.add(out, _per_channel(b, bias, channels, x.rank))
    return (b.cast(out, x.dtype), *saved, *new)


def _unwritten(training: bool, *running: Tensor | None) -> None:
    """In training these operators overwrite running statistics, which their schema does not say: refused."""
    if training and any(x is not None for x in running):
        raise ShapeProblem("running statistics, which this operator overwrites in training")


@operator("aten.native_batch_norm.default", category=_NORM, statistics=(1, 2))
@doubtful(OF_SCALES, Doubt.WHICH)
def native_batch_norm(
    b: Builder,
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    training: bool,
    momentum: float,
    eps: float,
) -> tuple[Tensor, ...]:
    """(input - mean) * rstd * weight + bias per channel; the mean; rstd = 1 / sqrt(variance + eps)

    In training mean and variance are those of the input, else the running ones; then the other results are empty.
    """
    _unwritten(training, running_mean, running_var)
    return _batch_norm(b, input, weight, bias, (running_mean, running_var), training, momentum, eps)[:3]


@operator("aten.batch_norm.default", category=_NORM)
@doubtful(OF_SCALES, Doubt.WHICH)
def batch_norm(
    b: Builder,
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    training: bool,
    momentum: float,
    eps: float,
    cudnn_enabled: Layout,
) -> Tensor:
    """(input - mean) / sqrt(variance + eps) * weight + bias per channel; in training those of the input"""
    _unwritten(training, running_mean, running_var)
    return _batch_norm(b, input, weight, bias, (running_mean, running_var), training, momentum, eps)[0]


@operator("aten._native_batch_norm_legit.no_stats", category=_NORM, statistics=(1, 2))
@doubtful(OF_SCALES, Doubt.WHICH)
def batch_norm_without_statistics(
    b: Builder,
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    training: bool,
    momentum: float,
    eps: float,
) -> tuple[Tensor, ...]:
    """as native_batch_norm without running statistics, in training (otherwise it is refused)"""
    return _batch_norm(b, input, weight, bias, (None, None), training, momentum, eps)[:3]


@operator("aten._native_batch_norm_legit_no_training.default", category=_NORM, statistics=(1, 2))
@doubtful(OF_SCALES, Doubt.WHICH)
def batch_norm_no_training(
    b: Builder,
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor,
    running_var: Tensor,
    momentum: float,
    eps: float,
) -> tuple[Tensor, ...]:
    """(input - running_mean) / sqrt(running_var + eps) * weight + bias per channel; two empty tensors"""
    return _batch_norm(b, input, weight, bias, (running_mean, running_var), False, momentum, eps)[:3]


@operator("aten._native_batch_norm_legit_functional.default", category=_NORM, statistics=(1, 2))
@doubtful(OF_SCALES, Doubt.WHICH)
def batch_norm_functional(
    b: Builder,
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor,
    running_var: Tensor,
    training: bool,
    momentum: float,
    eps: float,
) -> tuple[Tensor, ...]:
    """as native_batch_norm, and the new running statistics

    They are (1 - momentum) * running + momentum * own, the own variance with n - 1; not in training the old ones.
    """
    return _batch_norm(b, input, weight, bias, (running_mean, running_var), training, momentum, eps)


def _wanted(output_mask: Booleans, *gradients: Tensor | None) -> tuple[Tensor | None, ...]:
    if len(output_mask) != len(gradients):
        raise ShapeProblem(f"an output_mask of {len(output_mask)} entries where {len(gradients)} are needed")
    return tuple(x if wanted else None for x, wanted in zip(gradients, output_mask, strict=True))


@operator("aten.native_batch_norm_backward.default", category=_BACKWARD)
@doubtful(OF_SCALES, Doubt.WHICH)
def native_batch_norm_backward(
    b: Builder,
    grad_out: Tensor,
    input: Tensor,
    weight: Tensor | None,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    save_mean: Tensor | None,
    save_invstd: Tensor | None,
    train: bool,
    eps: float,
    output_mask: Booleans,
) -> tuple[Tensor | None, ...]:
    """gradients of batch norm: of input, of weight, of bias, as far as output_mask wants them

    In training mean and rstd are the saved ones, else follow from the running statistics, which are constants.
    """
    dims = _others(input)
    if grad_out.shape != input.shape:
        raise ShapeProblem(f"a gradient {grad_out.type} of a batch norm of {input.type}")
    dtype = accumulator(input.dtype)
    mean, spread = (save_mean, save_invstd) if train else (running_mean, running_var)
    if mean is None or spread is None:
        raise ShapeProblem(f"the gradient of a batch norm without {'saved' if train else 'running'} statistics")

    def own(x: Tensor) -> Tensor:
        return _per_channel(b, b.cast(x, dtype), input.shape[1], input.rank)

    rstd = own(spread) if train else b.rsqrt(b.add(own(spread), eps))
    gradient = b.cast(grad_out, dtype)
    normal = b.mul(b.sub(b.cast(input, dtype), own(mean)), rstd)
    slope = gradient
    if train:
        slope = b.sub(slope, b.mean(gradient, dims, keepdim=True))
        slope = b.sub(slope, b.mul(normal, b.mean(b.mul(gradient, normal), dims, keepdim=True)))
    slope = b.mul(slope, rstd)
    if weight is not None:
        slope = b.mul(slope, own(weight))
    kind = dtype if weight is None else weight.dtype
    of_weight, of_bias = b.sum(b.mul(gradient, normal), dims), b.sum(gradient, dims)
    return _wanted(output_mask, b.cast(slope, input.dtype), b.cast(of_weight, kind), b.cast(of_bias, kind))


# ---------------------------------------------------------------------------------------------- group norm
@operator("aten.native_group_norm_backward.default", category=_BACKWARD)
@doubtful(OF_SCALES, Doubt.WHICH)
def native_group_norm_backward(
    b: Builder,
    grad_out: Tensor,
    input: Tensor,
    mean: Tensor,
    rstd: Tensor,
    weight: Tensor | None,
    N: int,
    C: int,
    HxW: int,
    group: int,
    output_mask: Booleans,
) -> tuple[Tensor | None, ...]:
    """gradients of group norm: of input, of weight, of bias, as far as output_mask wants them"""
    if require_float(input).rank < 2 or input.shape[:2] != (N, C) or prod(input.shape[2:]) != HxW:
        raise ShapeProblem(f"{N} samples, {C} channels of {HxW} elements in {input.type}")
    if group < 1 or C % group or grad_out.shape != input.shape or not mean.shape == rstd.shape == (N, group):
        raise ShapeProblem(f"a gradient {grad_out.type} of a norm in {group} groups of {input.type} with {mean.type}")
    dtype = accumulator(input.dtype)
    rows = (N, group, C // group, HxW)

    def split(x: Tensor, *shape: int) -> Tensor:
        return b.reshape(b.cast(x, dtype), shape)

    scale = split(rstd, N, group, 1, 1)
    gradient = split(grad_out, *rows)
    normal = b.mul(b.sub(split(input, *rows), split(mean, N, group, 1, 1)), scale)
    slope = gradient
    if weight is not None:
        if weight.shape != (C,):
            raise ShapeProblem(f"a weight {weight.type} for {C} channels")
        slope = b.mul(slope, split(weight, group, C // group, 1))
    inner = b.sub(slope, b.mean(slope, (2, 3), keepdim=True))
    inner = b.sub(inner, b.mul(normal, b.mean(b.mul(slope, normal), (2, 3), keepdim=True)))
    of_input = b.cast(b.reshape(b.mul(inner, scale), input.shape), input.dtype)
    if weight is None:
        return _wanted(output_mask, of_input, None, None)
    of_weight = b.cast(b.reshape(b.sum(b.mul(gradient, normal), (0, 3)), (C,)), weight.dtype)
    of_bias = b.cast(b.reshape(b.sum(gradient, (0, 3)), (C,)), weight.dtype)
    return _wanted(output_mask, of_input, of_weight, of_bias)
