"""Samples of convolutions and their gradients."""

from __future__ import annotations

from tantamount.samples.operators.calls import F64, Operand, Sample, call, f

__all__ = ["SAMPLES"]

_ALL = (True, True, True)
_CALLS: list[tuple[object, ...]] = [
    # input, weight, bias, stride, padding, dilation, transposed, output_padding, groups; gradient
    (f(2, 4, 7), f(6, 4, 3), None, (1,), (0,), (1,), False, (0,), 1, f(2, 6, 5)),
    (f(2, 4, 9), f(6, 2, 3), f(6), (2,), (3,), (2,), False, (0,), 2, f(2, 6, 6)),
    (f(2, 4, 7, 6), f(6, 4, 3, 2), f(6), (1, 2), (1, 0), (2, 1), False, (0, 0), 1, f(2, 6, 5, 3)),
    (f(1, 4, 6, 6), f(8, 1, 3, 3), None, (1, 1), (1, 1), (1, 1), False, (0, 0), 4, f(1, 8, 6, 6)),
    (f(1, 3, 6, 6), f(2, 3, 3, 3), f(2), (2,), (1,), (1,), False, (0,), 1, f(1, 2, 3, 3)),
    (f(1, 2, 3, 4, 5), f(2, 2, 2, 3, 2), f(2), (1, 2, 1), (0, 1, 1), (1, 1, 2), False, (0, 0, 0), 1, f(1, 2, 2, 2, 5)),
    (f(2, 4, 5), f(4, 3, 3), f(6), (2,), (1,), (1,), True, (1,), 2, f(2, 6, 10)),
    (f(2, 4, 3, 4), f(4, 3, 3, 2), f(3), (2, 1), (1, 0), (1, 2), True, (0, 1), 1, f(2, 3, 5, 7)),
    (f(1, 2, 2, 3, 2), f(2, 3, 2, 2, 2), None, (2, 1, 1), (0, 1, 0), (1, 1, 1), True, (1, 0, 0), 1, f(1, 3, 5, 2, 3)),
]


def _gradient(row: tuple[object, ...], mask: tuple[bool, bool, bool]) -> Sample:
    x, weight, bias, *rest, gradient = row
    sizes = bias.shape if isinstance(bias, Operand) else None
    return call("convolution_backward.default", gradient, x, weight, sizes, *rest, mask)


SAMPLES: tuple[Sample, ...] = (
    *[call("convolution.default", *row[:-1]) for row in _CALLS],
    *[call("_convolution.default", *row[:-1], False, False, True, True) for row in _CALLS[1:8:3]],
    *[call("_convolution.deprecated", *row[:-1], False, False, True) for row in _CALLS[1:8:3]],
    *[_gradient(row, _ALL) for row in _CALLS],
    *[_gradient(_CALLS[1], mask) for mask in ((True, False, False), (False, True, True))],
    call("conv1d.default", f(2, 4, 7), f(6, 4, 3)),
    call("conv1d.default", f(4, 7), f(6, 2, 3), f(6), (2,), (1,), (2,), 2),
    call("conv2d.default", f(2, 4, 7, 6), f(6, 4, 3, 2)),
    call("conv2d.default", f(1, 4, 7, 6, dtype=F64), f(6, 2, 3, 2, dtype=F64), None, (2, 1), (1, 2), (1, 2), 2),
    call("conv2d.default", f(4, 7, 6), f(6, 4, 3, 2), f(6), (2,), (1,)),
    call("conv3d.default", f(1, 2, 3, 4, 5), f(2, 2, 2, 3, 2)),
    call("conv3d.default", f(2, 3, 4, 5), f(2, 1, 2, 3, 2), f(2), (1, 2, 1), (0, 1, 1), (1, 1, 2), 2),
    *[
        call(f"conv{count}d.padding", f(2, 4, *sizes), f(6, 2, *kernel), bias, (stride,), padding, (dilation,), 2)
        for count, sizes, kernel in ((1, (7,), (4,)), (2, (6, 7), (3, 2)), (3, (5, 4, 6), (2, 3, 1)))
        for bias, padding, stride, dilation in ((f(6), "same", 1, 2), (None, "valid", 2, 1))
    ],
    call("conv1d.padding", f(2, 4, 7), f(6, 4, 3)),
    call("conv_transpose1d.default", f(2, 4, 5), f(4, 3, 3)),
    call("conv_transpose1d.default", f(4, 5), f(4, 3, 3), f(6), (2,), (1,), (1,), 2, (2,)),
    call("conv_transpose2d.input", f(2, 4, 3, 4), f(4, 3, 3, 2)),
    call("conv_transpose2d.input", f(2, 4, 3, 4), f(4, 3, 3, 2), f(6), (2, 1), (1, 0), (1, 0), 2, (1, 2)),
    call("conv_transpose3d.input", f(1, 2, 2, 3, 2), f(2, 3, 2, 2, 2)),
    call("conv_transpose3d.input", f(1, 2, 2, 3, 2), f(2, 3, 2, 2, 2), f(6), (2,), (1,), (1, 0, 0), 2, (1, 2, 1)),
)
