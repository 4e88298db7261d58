"""Pooling: the average or the greatest element of every window, and the gradients."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from tantamount.ir.types import DType
from tantamount.ops.algebra import PerRank, Tensor
from tantamount.ops.builder import Builder, ShapeProblem, exact
from tantamount.ops.definitions.convolution import COARSE, FINE, KERNEL, per_dimension
from tantamount.ops.definitions.in_place import require_float
from tantamount.ops.definitions.reduction import CHOICE, chosen_order, take_along
from tantamount.ops.definitions.windows import Line
from tantamount.ops.table import Integers, Scalars, operator

_CONVOLUTION, _BACKWARD = "convolution", "backward"
_LEAD = "abc"


def _lines(
    x: Tensor,
    count: int,
    kernel_size: Integers,
    stride: Integers,
    padding: Integers,
    dilation: Integers,
    ceil_mode: bool,
) -> list[Line]:
    """The windows along each of the last ``count`` dimensions of x."""
    if require_float(x).rank not in (count + 1, count + 2):
        raise ShapeProblem(f"pooling over {count} dimensions of {x.type}")
    kernels = per_dimension(kernel_size, count, "kernel_size", 1)
    strides = per_dimension(stride, count, "stride", 1) if stride else kernels
    paddings = per_dimension(padding, count, "padding", 0)
    dilations = per_dimension(dilation, count, "dilation", 1)
    lines: list[Line] = []
    for size, kernel, step, pad, reach in zip(x.shape[-count:], kernels, strides, paddings, dilations, strict=True):
        if pad * 2 > kernel:
            raise ShapeProblem(f"padding {pad} of more than half a window of {kernel}")
        left = size + 2 * pad - reach * (kernel - 1) - 1
        windows = (left + (step - 1 if ceil_mode else 0)) // step + 1
        if ceil_mode and (windows - 1) * step >= size + pad:  # every window starts inside, or in the padding before
            windows -= 1
        if left < 0 or windows < 1:
            raise ShapeProblem(f"windows of {kernel} elements, {reach} apart, among {size}")
        lines.append(Line(size, windows, kernel, step, pad, reach))
    return lines


def _terms(b: Builder, lines: Sequence[Line], dtype: DType) -> tuple[str, list[Tensor]]:
    """The terms that join elements to windows: the labels, with a comma before each, and the operands of a
    contraction."""
    labels = "".join(f",{FINE[k]}{COARSE[k]}{KERNEL[k]}" for k in range(len(lines)))
    return labels, [line.joined(b, dtype) for line in lines]


# ---------------------------------------------------------------------------------------------- averages
def _divided(
    b: Builder, x: Tensor, lines: Sequence[Line], count_include_pad: bool, divisor_override: int | None
) -> Tensor:
    """x, an element per window, over the number of elements of the window."""
    if divisor_override is not None:
        if not divisor_override:
            raise ShapeProblem("divisor_override = 0")
        return b.mul(x, Fraction(1, divisor_override))
    for k, line in enumerate(reversed(lines)):
        weights = line.weights(b, count_include_pad, x.dtype)
        x = b.mul(x, b.reshape(weights, (line.count, *(1 for _ in range(k)))))
    return x


def _averages(
    b: Builder,
    x: Tensor,
    count: int,
    kernel_size: Integers,
    stride: Integers,
    padding: Integers,
    ceil_mode: bool,
    count_include_pad: bool,
    divisor_override: int | None,
) -> Tensor:
    lines = _lines(x, count, kernel_size, stride, padding, (1,), ceil_mode)
    lead = _LEAD[: x.rank - count]
    labels, guards = _terms(b, lines, x.dtype)
    equation = f"{lead}{FINE[:count]}{labels}->{lead}{COARSE[:count]}"
    sums = b.contract(equation, x, *guards, choices=len(guards))
    return _divided(b, sums, lines, count_include_pad, divisor_override)


@operator("aten.avg_pool1d.default", category=_CONVOLUTION)
def avg_pool1d(
    b: Builder,
    self: Tensor,
    kernel_size: Integers,
    stride: Integers = (),
    padding: Integers = (0,),
    ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> Tensor:
    """the mean of every window of self; in the padding self is 0"""
    return _averages(b, self, 1, kernel_size, stride, padding, ceil_mode, count_include_pad, None)


@operator("aten.avg_pool2d.default", category=_CONVOLUTION)
def avg_pool2d(
    b: Builder,
    self: Tensor,
    kernel_size: Integers,
    stride: Integers = (),
    padding: Integers = (0,),
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Tensor:
    """the mean of every window of self; in the padding self is 0"""
    return _averages(b, self, 2, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)


@operator("aten.avg_pool3d.default", category=_CONVOLUTION)
def avg_pool3d(
    b: Builder,
    self: Tensor,
    kernel_size: Integers,
    stride: Integers = (),
    padding: Integers = (0,),
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Tensor:
    """the mean of every window of self; in the padding self is 0"""
    return _averages(b, self, 3, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)


@operator("aten.avg_pool2d_backward.default", category=_BACKWARD)
def avg_pool2d_backward(
    b: Builder,
    grad_output: Tensor,
    self: Tensor,
    kernel_size: Integers,
    stride: Integers,
    padding: Integers,
    ceil_mode: bool,
    count_include_pad: bool,
    divisor_override: int | None,
) -> Tensor:
    """every element's gradients over the numbers of elements of its windows, summed"""
    lines = _lines(self, 2, kernel_size, stride, padding, (1,), ceil_mode)
    _require_windows(grad_output, self, lines)
    lead = _LEAD[: self.rank - 2]
    labels, guards = _terms(b, lines, grad_output.dtype)
    shares = _divided(b, grad_output, lines, count_include_pad, divisor_override)
    equation = f"{lead}{COARSE[:2]}{labels}->{lead}{FINE[:2]}"
    return b.contract(equation, shares, *guards, choices=len(guards))


def _require_windows(x: Tensor, self: Tensor, lines: Sequence[Line]) -> None:
    """x must have an element per window."""
    if x.shape != (*self.shape[: -len(lines)], *(line.count for line in lines)):
        raise ShapeProblem(f"{x.type} for the windows of {self.type}")


def _blocks(x: Tensor, output_size: Integers) -> list[int]:
    """The sizes of x with each pooled dimension as (windows, elements of each)."""
    count = len(output_size)
    if require_float(x).rank not in (count + 1, count + 2):
        raise ShapeProblem(f"pooling over {count} dimensions of {x.type}")
    found = [*x.shape[:-count]]
    for size, windows in zip(x.shape[-count:], output_size, strict=True):
        if windows < 1 or size % windows or not size:
            raise ShapeProblem(f"adaptive pooling of {size} elements to {windows}, which is no divisor")
        found += [windows, size // windows]
    return found


def _adaptive(b: Builder, x: Tensor, output_size: Integers, count: int) -> Tensor:
    if len(output_size) != count:
        raise ShapeProblem(f"an output_size {list(output_size)} for {count} dimensions")
    blocks = _blocks(x, output_size)
    return b.mean(b.reshape(x, blocks), tuple(range(len(blocks) - 2 * count + 1, len(blocks), 2)))


@operator("aten._adaptive_avg_pool2d.default", "aten.adaptive_avg_pool2d.default", category=_CONVOLUTION)
def adaptive_avg_pool2d(b: Builder, self: Tensor, output_size: Integers) -> Tensor:
    """the means of output_size equal blocks, which must divide the sizes"""
    return _adaptive(b, self, output_size, 2)


@operator("aten.adaptive_avg_pool1d.default", category=_CONVOLUTION)
def adaptive_avg_pool1d(b: Builder, self: Tensor, output_size: Integers) -> Tensor:
    """the means of output_size equal blocks, which must divide the size"""
    return _adaptive(b, self, output_size, 1)


@operator("aten._adaptive_avg_pool2d_backward.default", category=_BACKWARD)
def adaptive_avg_pool2d_backward(b: Builder, grad_output: Tensor, self: Tensor) -> Tensor:
    """the gradient of an element's block, over the number of its elements"""
    blocks = _blocks(self, grad_output.shape[-2:])
    if grad_output.rank != self.rank or grad_output.shape[:-2] != self.shape[:-2]:
        raise ShapeProblem(f"a gradient {grad_output.type} of the pooling of {self.type}")
    spread = b.expand(b.reshape(grad_output, [*blocks[:-3], 1, blocks[-2], 1]), blocks)
    return b.reshape(b.mul(spread, Fraction(1, blocks[-3] * blocks[-1])), self.shape)


# ---------------------------------------------------------------------------------------------- maxima
def _maxima(
    b: Builder,
    x: Tensor,
    kernel_size: Integers,
    stride: Integers,
    padding: Integers,
    dilation: Integers,
    ceil_mode: bool,
) -> tuple[Tensor, Tensor]:
    """The greatest element of every window, and its place among the elements of the last two dimensions, in rows. Which
    of several places, PyTorch does not promise, but one of the tensor."""
    lines = _lines(x, 2, kernel_size, stride, padding, dilation, ceil_mode)
    rows, columns = (line.places(b) for line in lines)
    own = (b.reshape(rows, (lines[0].count, 1, lines[0].kernel, 1)), b.reshape(columns, (lines[1].count, 1, -1)))
    windows = _windows(b, x, lines)
    places = b.expand(b.add(b.mul(own[0], lines[1].size), own[1]), windows.shape)
    kernel = (lines[0].kernel, lines[1].kernel)
    flat = (*windows.shape[:-2], kernel[0] * kernel[1])
    best = chosen_order(b, b.reshape(windows, flat), -1, True, 1, "max_pool2d", *kernel)
    found = take_along(b, b.reshape(places, flat), -1, best)
    if any(line.leaves for line in lines):  # of a window of -inf, no place in the padding
        inside = b.and_(
            *(b.expand(line.inside(b, place), windows.shape) for line, place in zip(lines, own, strict=True))
        )
        chosen = take_along(b, b.cast(b.reshape(inside, flat), DType.INT64), -1, best)
        down, right = (line.first(b) for line in lines)
        first = b.unsqueeze(b.add(b.unsqueeze(b.mul(down, lines[1].size), 1), right), -1)
        found = b.where(b.cast(chosen, DType.BOOL), found, first)
    return b.amax(windows, (-2, -1)), b.squeeze(found, (-1,))


def _windows(b: Builder, x: Tensor, lines: Sequence[Line]) -> Tensor:
    """The elements of every window in two dimensions more, -inf beyond the borders."""
    for k, line in enumerate(lines, x.rank - len(lines)):
        reach = (line.count - 1) * line.stride + (line.kernel - 1) * line.dilation + 1
        x = b.pad(x, k, line.padding, reach - line.size - line.padding, -b.infinity)
        steps = range(0, line.kernel * line.dilation, line.dilation)
        parts = [b.slice(x, k, at, at + (line.count - 1) * line.stride + 1, line.stride) for at in steps]
        x = b.stack(parts, -1)
    return x


@operator("aten.max_pool2d_with_indices.default", category=_CONVOLUTION, assumes=(CHOICE,))
def max_pool2d_with_indices(
    b: Builder,
    self: Tensor,
    kernel_size: Integers,
    stride: Integers = (),
    padding: Integers = (0,),
    dilation: Integers = (1,),
    ceil_mode: bool = False,
) -> tuple[Tensor, Tensor]:
    """the greatest element of every window, and its place, row * columns + column"""
    return _maxima(b, self, kernel_size, stride, padding, dilation, ceil_mode)


@operator("aten.max_pool2d.default", category=_CONVOLUTION)
def max_pool2d(
    b: Builder,
    self: Tensor,
    kernel_size: Integers,
    stride: Integers = (),
    padding: Integers = (0,),
    dilation: Integers = (1,),
    ceil_mode: bool = False,
) -> Tensor:
    """the greatest element of every window"""
    return _maxima(b, self, kernel_size, stride, padding, dilation, ceil_mode)[0]


@operator("aten.max_pool2d_with_indices_backward.default", category=_BACKWARD)
def max_pool2d_with_indices_backward(
    b: Builder,
    grad_output: Tensor,
    self: Tensor,
    kernel_size: Integers,
    stride: Integers,
    padding: Integers,
    dilation: Integers,
    ceil_mode: bool,
    indices: Tensor,
) -> Tensor:
    """y[..., i] = sum of grad_output[..., w] over the windows w with indices[..., w] = i"""
    lines = _lines(self, 2, kernel_size, stride, padding, dilation, ceil_mode)
    _require_windows(grad_output, self, lines)
    _require_windows(indices, self, lines)
    lead, windows = self.shape[:-2], lines[0].count * lines[1].count
    where = b.reshape(indices, (*lead, windows))
    others = [b.reshape(b.iota(size), (size, *(1 for _ in range(len(lead) - k)))) for k, size in enumerate(lead)]
    zeros = b.full((*lead, lines[0].size * lines[1].size), 0, grad_output.dtype)
    return b.reshape(b.scatter(zeros, [*others, where], b.reshape(grad_output, where.shape), True), self.shape)


# ---------------------------------------------------------------------------------------------- enlargement
def _enlarged(b: Builder, x: Tensor, output_size: Integers, scales: Sequence[float | None]) -> Tensor:
    """Every element of the last dimensions of x as a block of equal ones, ``output_size`` in all."""
    count = len(output_size)
    if x.rank != count + 2 or len(scales) != count or not all(x.shape):
        raise ShapeProblem(f"{x.type} enlarged to {list(output_size)}")
    wide, blocks = [*x.shape[:2]], [*x.shape[:2]]
    for size, wanted, scale in zip(x.shape[2:], output_size, scales, strict=True):
        if wanted < 1 or wanted % size or (scale is not None and exact(scale) * size != wanted):
            raise ShapeProblem(f"{size} elements enlarged to {wanted} by {scale}, which is no whole multiple")
        wide += [size, wanted // size]
        blocks += [size, 1]
    return b.reshape(b.expand(b.reshape(x, blocks), wide), (*x.shape[:2], *output_size))


@operator("aten.upsample_nearest2d.default", category=_CONVOLUTION)
def upsample_nearest2d(
    b: Builder, self: Tensor, output_size: Integers, scales_h: float | None = None, scales_w: float | None = None
) -> Tensor:
    """y[..., i, j] = self[..., i // a, j // b], for whole multiples a and b of the sizes only"""
    return _enlarged(b, self, output_size, (scales_h, scales_w))


@operator("aten.upsample_nearest2d.vec", category=_CONVOLUTION)
def upsample_nearest2d_vec(
    b: Builder, input: Tensor, output_size: Integers | None, scale_factors: Scalars | None
) -> Tensor:
    """y[..., i, j] = input[..., i // a, j // b], for whole multiples a and b of the sizes only"""
    if (output_size is None) == (scale_factors is None):
        raise ShapeProblem("both or neither of output_size and scale_factors")
    if output_size is not None:
        return _enlarged(b, input, output_size, (None, None))
    factors = [exact(x) for x in scale_factors or () if not isinstance(x, PerRank)]
    if len(factors) != 2 or any(isinstance(x, float) or x < 1 or x != int(x) for x in factors):
        raise ShapeProblem(f"scale_factors {list(scale_factors or ())}, which are not two whole numbers")
    if input.rank != 4:
        raise ShapeProblem(f"{input.type} enlarged by {list(scale_factors or ())}")
    sizes = tuple(size * int(x) for size, x in zip(input.shape[-2:], factors, strict=True))
    return _enlarged(b, input, sizes, (None, None))
