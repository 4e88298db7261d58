"""ONNX operators that make tensors, move their elements, or choose among them."""

from __future__ import annotations

import numpy as np

from tantamount.capture.fields import shown
from tantamount.capture.onnx.given import ROWS, Given, Known, Result, Row, row
from tantamount.capture.onnx.tensors import TensorData
from tantamount.ir.types import DType

__all__ = ["ROWS"]


@row("Constant")
def _constant(step: Given) -> Result:
    step.most(0)
    tensor = step.attribute("value")
    if isinstance(tensor, TensorData):
        return [step.recorded(tensor.values, tensor.type.dtype)]
    for name, dtype in (("value_float", DType.FLOAT32), ("value_int", DType.INT64),
                        ("value_floats", DType.FLOAT32), ("value_ints", DType.INT64)):  # fmt: skip
        found = step.attribute(name)
        if isinstance(found, (int, float, tuple)):
            kind = np.float64 if dtype is DType.FLOAT32 else np.int64
            return [step.recorded(np.array(found, dtype=kind), dtype)]
    raise step.place.wrong(
        "no value that is a tensor of numbers", "value, value_float, value_int", code="onnx-attribute"
    )


@row("ConstantOfShape")
def _constant_of_shape(step: Given) -> Result:
    step.most(1)
    value = step.attribute("value")
    shape = step.numbers(0)
    if value is None:
        return [step.emit("aten.full.default", shape, 0.0, dtype=DType.FLOAT32)]
    if not isinstance(value, TensorData) or value.values.size != 1:
        raise step.place.wrong(shown(value), "a tensor of one number", code="onnx-attribute")
    return [step.emit("aten.full.default", shape, value.values.reshape(-1).tolist()[0], dtype=value.type.dtype)]


@row("Shape")
def _shape(step: Given) -> Result:
    step.most(1)
    x = step.x(0)
    start, end = step.integer("start", 0), step.integer("end", x.rank)
    return [step.recorded(np.array(x.shape[slice(start, end)], dtype=np.int64), DType.INT64)]


@row("Size")
def _size(step: Given) -> Result:
    step.most(1)
    return [step.recorded(np.array(int(np.prod([1, *step.x(0).shape])), dtype=np.int64), DType.INT64)]


@row("Range")
def _range(step: Given) -> Result:
    step.most(3)
    ends = [step.number(k) for k in range(3)]
    if any(end is None for end in ends):
        raise step.place.wrong("ends that are computed", "numbers that are known while reading", code="onnx-operands")
    return [step.emit("aten.arange.start_step", *ends, dtype=step.alike()[0].dtype)]


# ------------------------------------------------------------------------------------------------ layout
@row("Transpose")
def _transpose(step: Given) -> Result:
    step.most(1)
    x = step.x(0)
    return [step.emit("aten.permute.default", x, step.integers("perm") or list(reversed(range(x.rank))))]


@row("Reshape")
def _reshape(step: Given) -> Result:
    step.most(2)
    x, sizes = step.x(0), step.numbers(1)
    if not step.integer("allowzero", 0):
        if any(size == 0 and k >= x.rank for k, size in enumerate(sizes)):
            raise step.place.wrong(f"the shape {sizes}", "zeros that copy a size", code="onnx-operands")
        sizes = [x.shape[k] if size == 0 else size for k, size in enumerate(sizes)]
    return [step.emit("aten.reshape.default", x, sizes)]


@row("Flatten")
def _flatten(step: Given) -> Result:
    x = step.x(0)
    axis = step.integer("axis", 1)
    at = axis + x.rank if axis < 0 else axis
    if not 0 <= at <= x.rank:
        raise step.place.wrong(f"the axis {axis}", f"0 to {x.rank}", code="onnx-operands")
    return [step.emit("aten.reshape.default", x, [int(np.prod([1, *x.shape[:at]])), int(np.prod([1, *x.shape[at:]]))])]


@row("Squeeze")
def _squeeze(step: Given) -> Result:
    step.most(2)
    x = step.x(0)
    axes = [step.axis(a, x.rank) for a in step.numbers(1)] if step.optional(1) is not None else None
    axes = [k for k, size in enumerate(x.shape) if size == 1] if axes is None else axes
    if any(x.shape[a] != 1 for a in axes):
        raise step.place.wrong(f"axes {axes} of {x.type}", "axes of size 1", code="onnx-operands")
    return [step.emit("aten.reshape.default", x, [size for k, size in enumerate(x.shape) if k not in axes])]


@row("Unsqueeze")
def _unsqueeze(step: Given) -> Result:
    step.most(2)
    x, given = step.x(0), step.numbers(1)
    rank = x.rank + len(given)
    axes = sorted(step.axis(a, rank) for a in given)
    if len(set(axes)) != len(axes):
        raise step.place.wrong(f"axes {given}", "axes that differ", code="onnx-operands")
    sizes = iter(x.shape)
    return [step.emit("aten.reshape.default", x, [1 if k in axes else next(sizes) for k in range(rank)])]


@row("Concat")
def _concat(step: Given) -> Result:
    parts = step.alike()
    axis = step.attribute("axis")
    if not isinstance(axis, int):
        raise step.place.wrong("no axis", "the attribute axis", code="onnx-attribute")
    return [step.emit("aten.cat.default", parts, step.axis(axis, parts[0].rank))]


@row("Split")
def _split(step: Given) -> Result:
    step.most(2)
    x = step.x(0)
    axis, count = step.axis(step.integer("axis", 0), x.rank), step.integer("num_outputs", step.results)
    if step.optional(1) is not None:
        sizes = step.numbers(1)
    else:
        each = -(-x.shape[axis] // max(count, 1))
        sizes = [each] * (count - 1) + [x.shape[axis] - each * (count - 1)]
    if sum(sizes) != x.shape[axis] or any(size < 0 for size in sizes):
        raise step.place.wrong(f"parts of {sizes}", f"parts of {x.shape[axis]}", code="onnx-operands")
    return step.several("aten.split_with_sizes.default", x, sizes, axis)


@row("Slice")
def _slice(step: Given) -> Result:
    step.most(5)
    x, starts, ends = step.x(0), step.numbers(1), step.numbers(2)
    axes = step.numbers(3) if step.optional(3) is not None else list(range(len(starts)))
    steps = step.numbers(4) if step.optional(4) is not None else [1] * len(starts)
    if not len(starts) == len(ends) == len(axes) == len(steps) or 0 in steps:
        raise step.place.wrong(
            f"{starts}, {ends}, {axes}, {steps}", "as many of each, steps not 0", code="onnx-operands"
        )
    for start, end, given, stride in zip(starts, ends, axes, steps, strict=True):
        axis = step.axis(given, x.rank)
        size = x.shape[axis]
        if stride < 0 and end > size:  # ONNX Runtime takes the greatest number for the end that is in front
            raise step.place.wrong(f"the end {end} with the step {stride}", f"{size} at most", code="onnx-operands")
        begin = max(start, -size) if stride < 0 else start  # backwards, what is in front of all is the first
        places = range(size)[slice(begin, None if stride < 0 and end < -size else end, stride)]
        if not places:
            x = step.emit("aten.slice.Tensor", x, axis, 0, 0, 1)
        elif stride > 0:
            x = step.emit("aten.slice.Tensor", x, axis, places[0], places[-1] + 1, stride)
        else:
            x = step.emit("aten.slice.Tensor", x, axis, places[-1], places[0] + 1, -stride)
            x = step.emit("aten.flip.default", x, [axis])
    return [x]


@row("Expand")
def _expand(step: Given) -> Result:
    step.most(2)
    x = step.x(0)
    try:
        shape = np.broadcast_shapes(x.shape, tuple(step.numbers(1)))
    except ValueError:
        raise step.place.wrong(
            f"{x.type} to {step.numbers(1)}", "shapes that broadcast", code="onnx-operands"
        ) from None
    return [step.emit("aten.expand.default", x, list(shape))]


@row("Tile")
def _tile(step: Given) -> Result:
    step.most(2)
    return [step.emit("aten.repeat.default", step.x(0), step.numbers(1))]


@row("Pad")
def _pad(step: Given) -> Result:
    step.most(4)
    step.only("mode", "constant")
    x, pads = step.x(0), step.numbers(1)
    axes = [step.axis(a, x.rank) for a in step.numbers(3)] if step.optional(3) is not None else list(range(x.rank))
    value = 0 if step.optional(2) is None else step.number(2)
    if len(pads) != 2 * len(axes) or value is None:
        raise step.place.wrong(f"pads {pads}", "two for every axis, and a known number", code="onnx-operands")
    widths = [0] * (2 * x.rank)
    for k, axis in enumerate(axes):
        widths[2 * (x.rank - 1 - axis)] = pads[k]
        widths[2 * (x.rank - 1 - axis) + 1] = pads[k + len(axes)]
    return [step.emit("aten.constant_pad_nd.default", x, widths, value)]


@row("Trilu")
def _trilu(step: Given) -> Result:
    step.most(2)
    k = 0 if step.optional(1) is None else step.numbers(1)[0]
    return [step.emit("aten.triu.default" if step.integer("upper", 1) else "aten.tril.default", step.x(0), k)]


# ------------------------------------------------------------------------------------------------ indexing
def _counted(step: Given, index: Known, size: int) -> Known:
    """Indices counted from the front: those that are known. Others are taken to be in range, as those of PyTorch are
    (the assumption ``index-range``)."""
    if index.known is None or bool((index.known >= 0).all()):
        return index
    return step.recorded(np.where(index.known < 0, index.known + size, index.known), index.dtype)


@row("Gather")
def _gather(step: Given) -> Result:
    step.most(2)
    x, index = step.x(0), step.x(1)
    axis = step.axis(step.integer("axis", 0), x.rank)
    place = step.number(1)
    if not index.rank and place is not None:
        return [step.emit("aten.select.int", x, axis, int(place))]
    return [step.emit("aten.index.Tensor", x, [*(None for _ in range(axis)), _counted(step, index, x.shape[axis])])]


@row("GatherElements")
def _gather_elements(step: Given) -> Result:
    step.most(2)
    x = step.x(0)
    axis = step.axis(step.integer("axis", 0), x.rank)
    return [step.emit("aten.gather.default", x, axis, _counted(step, step.x(1), x.shape[axis]))]


@row("OneHot")
def _one_hot(step: Given) -> Result:
    step.most(3)
    index, depth, values = step.x(0), step.numbers(1)[0], step.x(2)
    axis = step.axis(step.integer("axis", -1), index.rank + 1)
    shifted = step.emit("aten.add.Tensor", index, depth)  # an index from -depth on counts from the end
    index = step.emit("aten.where.self", step.emit("aten.lt.Scalar", index, 0), shifted, index)
    wide = step.emit("aten.unsqueeze.default", index, axis)
    row_ = step.emit("aten.arange.default", depth)
    across = step.emit("aten.reshape.default", row_, [depth if k == axis else 1 for k in range(index.rank + 1)])
    hot = step.emit("aten.eq.Tensor", wide, across)
    off, on = (step.emit("aten.select.int", values, 0, k) for k in range(2))
    return [step.emit("aten.where.self", hot, on, off)]


@row("TopK")
def _topk(step: Given) -> Result:
    step.most(2)
    x = step.x(0)
    axis = step.axis(step.integer("axis", -1), x.rank)
    largest, ordered = bool(step.integer("largest", 1)), bool(step.integer("sorted", 1))
    return step.several("aten.topk.default", x, step.numbers(1)[0], axis, largest, ordered)


def _extremum(target: str) -> Row:
    def function(step: Given) -> Result:
        step.only("select_last_index", 0)
        x = step.x(0)
        axis = step.axis(step.integer("axis", 0), x.rank)
        return [step.emit(target, x, axis, bool(step.integer("keepdims", 1)))]

    return function


ROWS["ArgMax"], ROWS["ArgMin"] = _extremum("aten.argmax.default"), _extremum("aten.argmin.default")
