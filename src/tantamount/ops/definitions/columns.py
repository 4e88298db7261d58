"""Windows of images as columns of a matrix, and columns added back into images."""

from __future__ import annotations

from tantamount.ops.algebra import Tensor
from tantamount.ops.builder import Builder, ShapeProblem
from tantamount.ops.definitions.convolution import per_dimension
from tantamount.ops.definitions.in_place import require_float
from tantamount.ops.definitions.joining import constant_pad_nd
from tantamount.ops.definitions.windows import Line
from tantamount.ops.table import Integers, operator

_CONVOLUTION = "convolution"


def _places(b: Builder, line: Line) -> Tensor:
    """The place among the padded elements of every element of every window, (kernel, count)."""
    return b.add(b.unsqueeze(b.mul(b.iota(line.kernel), line.dilation), 1), b.mul(b.iota(line.count), line.stride))


def _lines(
    sizes: Integers, kernel_size: Integers, dilation: Integers, padding: Integers, stride: Integers
) -> tuple[Line, Line]:
    """The windows along the two dimensions of an image. Raises :class:`ShapeProblem` where there is none."""
    kernels = per_dimension(kernel_size, 2, "kernel_size", 1)
    strides = per_dimension(stride, 2, "stride", 1)
    paddings = per_dimension(padding, 2, "padding", 0)
    reaches = per_dimension(dilation, 2, "dilation", 1)
    lines: list[Line] = []
    for size, kernel, step, pad, reach in zip(sizes, kernels, strides, paddings, reaches, strict=True):
        count = (size + 2 * pad - reach * (kernel - 1) - 1) // step + 1
        if count < 1:
            raise ShapeProblem(f"windows of {kernel} elements of {size}, padded by {pad}")
        lines.append(Line(size, count, kernel, step, pad, reach))
    return lines[0], lines[1]


@operator("aten.im2col.default", category=_CONVOLUTION)
def im2col(
    b: Builder, self: Tensor, kernel_size: Integers, dilation: Integers, padding: Integers, stride: Integers
) -> Tensor:
    """y[n, (c, i, j), (h, w)] = self[n, c, h * stride + i * dilation - padding, the same of w and j], or 0"""
    x = b.unsqueeze(self, 0) if require_float(self).rank == 3 else self
    if x.rank != 4:
        raise ShapeProblem(f"{self.type} where images are needed")
    n, c = x.shape[:2]
    rows, columns = _lines(x.shape[2:], kernel_size, dilation, padding, stride)
    padded = constant_pad_nd(b, x, (columns.padding, columns.padding, rows.padding, rows.padding))
    found = b.gather(padded, [None, None, _places(b, rows), None])  # [i, h, n, c, x]
    found = b.gather(found, [None, None, None, None, _places(b, columns)])  # [j, w, i, h, n, c]
    flat = b.reshape(
        b.permute(found, [4, 5, 2, 0, 3, 1]), (n, c * rows.kernel * columns.kernel, rows.count * columns.count)
    )
    return flat if x is self else b.squeeze(flat, [0])


@operator("aten.col2im.default", category=_CONVOLUTION)
def col2im(
    b: Builder,
    self: Tensor,
    output_size: Integers,
    kernel_size: Integers,
    dilation: Integers,
    padding: Integers,
    stride: Integers,
) -> Tensor:
    """y[n, c, y, x] = the sum of self[n, (c, i, j), (h, w)] over the windows (h, w) whose element (i, j) is there"""
    x = b.unsqueeze(self, 0) if require_float(self).rank == 2 else self
    if x.rank != 3 or len(output_size) != 2:
        raise ShapeProblem(f"{self.type} where columns of images of {list(output_size)} are needed")
    rows, columns = _lines(output_size, kernel_size, dilation, padding, stride)
    places = rows.kernel * columns.kernel
    if x.shape[1] % places or x.shape[2] != rows.count * columns.count:
        raise ShapeProblem(f"{self.type} for {rows.count} x {columns.count} windows of {places} elements")
    parts = (x.shape[0], x.shape[1] // places, rows.kernel, columns.kernel, rows.count, columns.count)
    guards = rows.joined(b, x.dtype), columns.joined(b, x.dtype)
    found = b.contract("ncijhw,yhi,xwj->ncyx", b.reshape(x, parts), *guards, choices=2)
    return found if x is self else b.squeeze(found, [0])
