"""Convolutions, transposed ones, and their gradients: one trilinear form.

Along one spatial dimension, element ``k`` of the kernel joins place ``f`` of the fine side to place ``c`` of the coarse
side where ``f = c * stride + k * dilation - padding``. With T = 1 where that holds and 0 elsewhere,

    S(F, C, W) = sum over n, g, p, q, f, c, k of F[n, g, p, f] C[n, g, q, c] W[g, q, p, k] T[f, c, k]

is the pairing of a convolution's result with its gradient (Dumoulin and Visin, *A guide to convolution arithmetic for
deep learning*, 2016, for the arithmetic of sizes). A convolution is what multiplies C in it, with F its input; a
transposed one what multiplies F; the gradient with respect to each operand is what multiplies that operand. Padding is
the places that T joins to nothing: no zeros are written.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tantamount.ir.types import DType
from tantamount.ops.algebra import Tensor
from tantamount.ops.builder import Builder, ShapeProblem
from tantamount.ops.definitions.in_place import require_float
from tantamount.ops.doubts import doubted
from tantamount.ops.table import Booleans, Integers, Layout, operator

__all__ = ["COARSE", "FINE", "KERNEL", "convolved", "joined", "per_dimension"]

_CONVOLUTION = "convolution"
FINE, COARSE, KERNEL = "xyz", "uvw", "hij"  # the labels of spatial dimensions


def per_dimension(values: Sequence[int], count: int, name: str, least: int) -> tuple[int, ...]:
    """One number per spatial dimension; a single one is for all of them."""
    if len(values) not in (1, count) or min(values) < least:
        raise ShapeProblem(f"{name} {list(values)} for {count} spatial dimensions")
    return tuple(values) * (count if len(values) == 1 else 1)


def joined(
    b: Builder, fine: int, coarse: int, kernel: int, stride: int, padding: int, dilation: int, dtype: DType
) -> Tensor:
    """``T[f, c, k] = 1 where f = c * stride + k * dilation - padding, else 0``, of shape (fine, coarse, kernel)."""
    place = b.add(_times(b, b.unsqueeze(b.iota(coarse), 1), stride), _times(b, b.iota(kernel), dilation))
    own = b.reshape(b.add(b.iota(fine), padding) if padding else b.iota(fine), (fine, 1, 1))
    return b.cast(b.equal(own, place), dtype)


def _times(b: Builder, x: Tensor, factor: int) -> Tensor:
    return x if factor == 1 else b.mul(x, factor)


@dataclass(frozen=True)
class _Windows:
    """The attributes of a convolution, one number per spatial dimension; ``padding`` before the first element."""

    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]
    groups: int

    def product(
        self, b: Builder, fine: Tensor | Integers, coarse: Tensor | Integers, weight: Tensor | Integers
    ) -> Tensor:
        """The derivative of S with respect to the one operand of which only the shape is given, which is the result's:
        the product of the other two, summed over their positions."""
        count = len(self.stride)
        operands = (fine, coarse, weight)
        shapes = [x.shape if isinstance(x, Tensor) else x for x in operands]
        operands = tuple(
            doubted(b, x) if isinstance(x, Tensor) else x for x in operands
        )  # of padding kernels may read 0
        given = [x for x in operands if isinstance(x, Tensor)]
        labels = ["np" + FINE[:count], "nq" + COARSE[:count], "qp" + KERNEL[:count]]
        split = shapes
        if self.groups > 1:  # otherwise every product is one of matrices, for which NumPy is fast
            g, (fines, coarses, weights) = self.groups, shapes
            labels = ["ng" + labels[0][1:], "ng" + labels[1][1:], "g" + labels[2]]
            split = [
                (fines[0], g, fines[1] // g, *fines[2:]),
                (coarses[0], g, coarses[1] // g, *coarses[2:]),
                (g, weights[0] // g, *weights[1:]),
            ]
        dtype = given[0].dtype
        if any(x.dtype is not dtype for x in given):
            raise ShapeProblem("a convolution of different types: " + ", ".join(str(x.type) for x in given))
        xs = [b.reshape(x, shape) for x, shape in zip(operands, split, strict=True) if isinstance(x, Tensor)]
        terms = [term for x, term in zip(operands, labels, strict=True) if isinstance(x, Tensor)]
        (wanted,) = (k for k, x in enumerate(operands) if not isinstance(x, Tensor))
        for k in range(count):
            sizes = (shapes[0][2 + k], shapes[1][2 + k], shapes[2][2 + k])
            xs.append(joined(b, *sizes, self.stride[k], self.padding[k], self.dilation[k], dtype))
            terms.append(FINE[k] + COARSE[k] + KERNEL[k])
        out = b.contract(f"{','.join(terms)}->{labels[wanted]}", *xs, choices=count)
        return b.reshape(out, shapes[wanted])


def _windows(
    x: Tensor, weight: Tensor, stride: Integers, padding: Integers, dilation: Integers, groups: int, transposed: bool
) -> _Windows:
    """Checked attributes of a convolution of x."""
    count = require_float(weight).rank - 2
    if require_float(x).rank != weight.rank or not 1 <= count <= 3:
        raise ShapeProblem(f"a convolution of {x.type} with {weight.type}")
    if groups < 1 or weight.shape[0] % groups or x.shape[1] % groups:
        raise ShapeProblem(f"{groups} groups of the channels of {x.type} and {weight.type}")
    if x.shape[1] != (weight.shape[0] if transposed else weight.shape[1] * groups) or 0 in weight.shape:
        raise ShapeProblem(f"{x.shape[1]} channels of {x.type} for {weight.type} in {groups} groups")
    return _Windows(
        per_dimension(stride, count, "stride", 1),
        per_dimension(padding, count, "padding", 0),
        per_dimension(dilation, count, "dilation", 1),
        groups,
    )


def _result(
    x: Tensor, weight: Tensor, windows: _Windows, behind: Integers, transposed: bool, output_padding: Integers
) -> tuple[int, ...]:
    """The shape of the result; ``behind`` is the padding after the last element."""
    count = len(windows.stride)
    extra = per_dimension(output_padding, count, "output_padding", 0) if output_padding else (0,) * count
    sizes: list[int] = []
    for k in range(count):
        size, stride, dilation = x.shape[2 + k], windows.stride[k], windows.dilation[k]
        reach = dilation * (weight.shape[2 + k] - 1) - windows.padding[k] - behind[k]
        if transposed:
            if extra[k] >= max(stride, dilation):
                raise ShapeProblem(f"output_padding {list(extra)} with stride {stride} and dilation {dilation}")
            sizes.append((size - 1) * stride + reach + extra[k] + 1)
        else:  # PyTorch ignores output_padding here
            sizes.append((size - 1 - reach) // stride + 1 if size > reach else 0)
    if min((*sizes, *x.shape[1:])) < 1:
        raise ShapeProblem(f"a convolution of {x.type} with {weight.type} that leaves no elements")
    channels = weight.shape[1] * windows.groups if transposed else weight.shape[0]
    return (x.shape[0], channels, *sizes)


def convolved(
    b: Builder,
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: Integers,
    padding: Integers,
    dilation: Integers,
    groups: int,
    transposed: bool = False,
    output_padding: Integers = (),
    behind: Integers | None = None,
) -> Tensor:
    """The convolution of x (samples, channels, sizes...) with weight, plus bias per channel."""
    windows = _windows(x, weight, stride, padding, dilation, groups, transposed)
    shape = _result(x, weight, windows, windows.padding if behind is None else behind, transposed, output_padding)
    out = windows.product(b, shape, x, weight) if transposed else windows.product(b, x, shape, weight)
    if bias is None:
        return out
    if bias.shape != shape[1:2] or bias.dtype is not out.dtype:
        raise ShapeProblem(f"a bias {bias.type} for {out.type}")
    return b.add(out, b.reshape(bias, (-1, *(1 for _ in windows.stride))))


# ---------------------------------------------------------------------------------------------- the general operator
@operator("aten.convolution.default", category=_CONVOLUTION)
def convolution(
    b: Builder,
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: Integers,
    padding: Integers,
    dilation: Integers,
    transposed: bool,
    output_padding: Integers,
    groups: int,
) -> Tensor:
    """y[n, q, c] = bias[q] + sum input[n, p, c * stride + k * dilation - padding] * weight[q, p, k], within groups

    Beyond the borders input is 0. Transposed: y[n, p, c * stride + k * dilation - padding] sums
    input[n, q, c] * weight[q, p, k], and output_padding is added to the result's size at the end.
    """
    given = (stride, padding, dilation, groups, transposed, output_padding)
    return convolved(b, input, weight, bias, *given)


@operator("aten._convolution.default", category=_CONVOLUTION)
def convolution_with_settings(
    b: Builder,
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: Integers,
    padding: Integers,
    dilation: Integers,
    transposed: bool,
    output_padding: Integers,
    groups: int,
    benchmark: Layout,
    deterministic: Layout,
    cudnn_enabled: Layout,
    allow_tf32: Layout,
) -> Tensor:
    """as convolution"""
    given = (stride, padding, dilation, groups, transposed, output_padding)
    return convolved(b, input, weight, bias, *given)


@operator("aten._convolution.deprecated", category=_CONVOLUTION)
def convolution_deprecated(
    b: Builder,
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: Integers,
    padding: Integers,
    dilation: Integers,
    transposed: bool,
    output_padding: Integers,
    groups: int,
    benchmark: Layout,
    deterministic: Layout,
    cudnn_enabled: Layout,
) -> Tensor:
    """as convolution"""
    given = (stride, padding, dilation, groups, transposed, output_padding)
    return convolved(b, input, weight, bias, *given)


# ---------------------------------------------------------------------------------------------- by spatial dimensions
def _batched(b: Builder, x: Tensor, count: int) -> Tensor:
    """x with a dimension of samples."""
    if x.rank not in (count + 1, count + 2):
        raise ShapeProblem(f"a convolution over {count} dimensions of {x.type}")
    return b.unsqueeze(x, 0) if x.rank == count + 1 else x


def _over(count: int) -> None:
    """Register the convolutions over ``count`` spatial dimensions, whose input may lack the dimension of samples."""

    @operator(f"aten.conv{count}d.default", category=_CONVOLUTION)
    def _conv(  # pyright: ignore[reportUnusedFunction]
        b: Builder,
        input: Tensor,
        weight: Tensor,
        bias: Tensor | None = None,
        stride: Integers = (1,),
        padding: Integers = (0,),
        dilation: Integers = (1,),
        groups: int = 1,
    ) -> Tensor:
        """y[n, q, c] = bias[q] + sum input[n, p, c * stride + k * dilation - padding] * weight[q, p, k]"""
        out = convolved(b, _batched(b, input, count), weight, bias, stride, padding, dilation, groups)
        return out if input.rank == out.rank else b.squeeze(out, (0,))

    @operator(f"aten.conv{count}d.padding", category=_CONVOLUTION)
    def _conv_padding(  # pyright: ignore[reportUnusedFunction]
        b: Builder,
        input: Tensor,
        weight: Tensor,
        bias: Tensor | None = None,
        stride: Integers = (1,),
        padding: str = "valid",
        dilation: Integers = (1,),
        groups: int = 1,
    ) -> Tensor:
        """as without a word for padding: "valid" is none, "same" as much as keeps the sizes, more of it at the end"""
        if padding not in ("valid", "same"):
            raise ShapeProblem(f"padding {padding!r}")
        before = behind = (0,) * count
        if padding == "same":
            if any(size != 1 for size in stride):
                raise ShapeProblem(f"padding 'same' with stride {list(stride)}")
            steps = per_dimension(dilation, count, "dilation", 1)
            if weight.rank != count + 2:
                raise ShapeProblem(f"weights {weight.type} of a convolution over {count} dimensions")
            total = [step * (size - 1) for step, size in zip(steps, weight.shape[2:], strict=True)]
            before = tuple(size // 2 for size in total)
            behind = tuple(size - half for size, half in zip(total, before, strict=True))
        x = _batched(b, input, count)
        out = convolved(b, x, weight, bias, stride, before, dilation, groups, behind=behind)
        return out if input.rank == out.rank else b.squeeze(out, (0,))

    @operator(f"aten.conv_transpose{count}d.{'default' if count == 1 else 'input'}", category=_CONVOLUTION)
    def _conv_transpose(  # pyright: ignore[reportUnusedFunction]
        b: Builder,
        input: Tensor,
        weight: Tensor,
        bias: Tensor | None = None,
        stride: Integers = (1,),
        padding: Integers = (0,),
        output_padding: Integers = (0,),
        groups: int = 1,
        dilation: Integers = (1,),
    ) -> Tensor:
        """y[n, p, c * stride + k * dilation - padding] sums input[n, q, c] * weight[q, p, k], plus bias[p]"""
        given = (stride, padding, dilation, groups, True, output_padding)
        out = convolved(b, _batched(b, input, count), weight, bias, *given)
        return out if input.rank == out.rank else b.squeeze(out, (0,))


for _count in (1, 2, 3):
    _over(_count)


# ---------------------------------------------------------------------------------------------- gradients
@operator("aten.convolution_backward.default", category="backward")
def convolution_backward(
    b: Builder,
    grad_output: Tensor,
    input: Tensor,
    weight: Tensor,
    bias_sizes: Integers | None,
    stride: Integers,
    padding: Integers,
    dilation: Integers,
    transposed: bool,
    output_padding: Integers,
    groups: int,
    output_mask: Booleans,
) -> tuple[Tensor | None, ...]:
    """gradients of a convolution: of input, of weight, of bias, as far as output_mask wants them"""
    windows = _windows(input, weight, stride, padding, dilation, groups, transposed)
    shape = _result(input, weight, windows, windows.padding, transposed, output_padding)
    if grad_output.shape != shape:
        raise ShapeProblem(f"a gradient {grad_output.type} where the result has the shape {list(shape)}")
    if len(output_mask) != 3:
        raise ShapeProblem(f"an output_mask of {len(output_mask)} entries where 3 are needed")
    if bias_sizes is not None and bias_sizes not in ((), shape[1:2], (0,)):
        raise ShapeProblem(f"bias_sizes {list(bias_sizes)} for {shape[1]} channels")
    fine, coarse = (grad_output, input) if transposed else (input, grad_output)
    of_input = of_weight = of_bias = None
    if output_mask[0]:
        others = (input.shape, grad_output) if not transposed else (grad_output, input.shape)
        of_input = windows.product(b, *others, weight)
    if output_mask[1]:
        of_weight = windows.product(b, fine, coarse, weight.shape)
    if output_mask[2]:
        of_bias = b.sum(grad_output, tuple(k for k in range(grad_output.rank) if k != 1))
    return of_input, of_weight, of_bias
