"""What every ONNX operator is in operators of the table: a function from a node to its results.

A row asks for every attribute that it understands; one that nobody asked for is refused afterwards. Numbers that decide
shapes (axes, sizes, pads) must be known while reading.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from tantamount.capture.fields import Place, shown
from tantamount.capture.onnx.model import Attribute, dtype_of
from tantamount.capture.onnx.tensors import TensorData
from tantamount.ir.types import DType, TensorType
from tantamount.semantics.reference import Array

__all__ = ["ROWS", "Given", "Known", "Result", "row"]


@dataclass(frozen=True)
class Known:
    """A value: the node that has it, its type, and its numbers where they are known while reading."""

    node: str
    type: TensorType
    known: Array | None

    @property
    def shape(self) -> tuple[int, ...]:
        return self.type.shape

    @property
    def rank(self) -> int:
        return len(self.type.shape)

    @property
    def dtype(self) -> DType:
        return self.type.dtype


Result = list[Known]


class Given(Protocol):
    """One node, as its row sees it."""

    operands: tuple[Known | None, ...]

    @property
    def place(self) -> Place: ...
    @property
    def opset(self) -> int: ...
    @property
    def results(self) -> int: ...
    @abstractmethod
    def attribute(self, name: str) -> Attribute | None: ...
    @abstractmethod
    def emit(self, target: str, *args: object, **kwargs: object) -> Known: ...
    @abstractmethod
    def several(self, target: str, *args: object, **kwargs: object) -> Result: ...
    @abstractmethod
    def recorded(self, values: Array, dtype: DType) -> Known: ...

    # -- operands
    def x(self, k: int) -> Known:
        """The k-th operand."""
        found = self.optional(k)
        if found is None:
            raise self.place.wrong(f"no operand {k}", "an operand", code="onnx-operands")
        return found

    def optional(self, k: int) -> Known | None:
        """The k-th operand, if there is one."""
        return self.operands[k] if k < len(self.operands) else None

    def most(self, count: int) -> None:
        """Raise :class:`UserError` for more operands."""
        if len(self.operands) > count:
            raise self.place.wrong(f"{len(self.operands)} operands", f"at most {count}", code="onnx-operands")

    def numbers(self, k: int) -> list[int]:
        """The whole numbers of an operand that must be known."""
        found = self.x(k)
        if found.known is None or not found.dtype.is_integral:
            raise self.place.wrong(
                f"the operand {k} ({found.node}), which is computed", "whole numbers that are known while reading",
                code="onnx-operands", hint="export with fixed sizes",
            )  # fmt: skip
        return [int(value) for value in found.known.reshape(-1).tolist()]

    def number(self, k: int) -> float | int | bool | None:
        """The one number that an operand is, if it is known."""
        found = self.optional(k)
        if found is None or found.known is None or found.known.size != 1:
            return None
        return found.known.reshape(-1).tolist()[0]

    # -- attributes
    def integer(self, name: str, default: int) -> int:
        """An attribute that is a whole number."""
        found = self.attribute(name)
        if found is None:
            return default
        if not isinstance(found, int):
            raise self._attribute(name, found, "a whole number")
        return found

    def real(self, name: str, default: float) -> float:
        """An attribute that is a number (of 32 bits)."""
        found = self.attribute(name)
        if found is None:
            return float(np.float32(default))
        if not isinstance(found, float):
            raise self._attribute(name, found, "a number")
        return found

    def text(self, name: str, default: str) -> str:
        """An attribute that is a text."""
        found = self.attribute(name)
        if found is None:
            return default
        if not isinstance(found, str):
            raise self._attribute(name, found, "a text")
        return found

    def integers(self, name: str) -> list[int] | None:
        """An attribute that is a list of whole numbers."""
        found = self.attribute(name)
        if found is None:
            return None
        if not isinstance(found, tuple) or not all(isinstance(one, int) for one in found):
            raise self._attribute(name, found, "whole numbers")
        return [int(one) for one in found]

    def only(self, name: str, *allowed: object) -> None:
        """Raise :class:`UserError` unless the attribute is missing or has a value that is supported."""
        found = self.attribute(name)
        if found is not None and found not in allowed:
            raise self._attribute(name, found, " or ".join(map(str, allowed)))

    def _attribute(self, name: str, found: object, needed: str) -> Exception:
        return self.place.at(f"attribute {name}").wrong(shown(found), needed, code="onnx-attribute")

    def axis(self, value: int, rank: int) -> int:
        """An axis counted from 0."""
        if not -rank <= value < rank:
            raise self.place.wrong(f"the axis {value}", f"one of {rank}", code="onnx-operands")
        return value % rank

    def alike(self) -> list[Known]:
        """The operands, which must have one element type."""
        found = [self.x(k) for k in range(len(self.operands))]
        if not found or any(one.dtype is not found[0].dtype for one in found):
            types = ", ".join(str(one.type) for one in found) or "none"
            raise self.place.wrong(f"operands {types}", "operands of one element type", code="onnx-operands")
        return found


Row = Callable[[Given], Result]
ROWS: dict[str, Row] = {}


def row(*names: str) -> Callable[[Row], Row]:
    """Register the row of some operators."""

    def register(function: Row) -> Row:
        for name in names:
            ROWS[name] = function
        return function

    return register


# ------------------------------------------------------------------------------------------------ element by element
_UNARY = {
    "Neg": "neg", "Abs": "abs", "Sqrt": "sqrt", "Exp": "exp", "Log": "log", "Erf": "erf", "Tanh": "tanh",
    "Sigmoid": "sigmoid", "Relu": "relu", "Sin": "sin", "Cos": "cos", "Tan": "tan", "Asin": "asin", "Acos": "acos",
    "Atan": "atan", "Sinh": "sinh", "Cosh": "cosh", "Asinh": "asinh", "Acosh": "acosh", "Atanh": "atanh",
    "Floor": "floor", "Ceil": "ceil", "Round": "round", "Sign": "sign", "Reciprocal": "reciprocal",
    "Not": "logical_not", "BitwiseNot": "bitwise_not", "IsNaN": "isnan",
}  # fmt: skip
_BINARY = {
    "Add": "add.Tensor", "Sub": "sub.Tensor", "Mul": "mul.Tensor", "Equal": "eq.Tensor", "Less": "lt.Tensor",
    "LessOrEqual": "le.Tensor", "Greater": "gt.Tensor", "GreaterOrEqual": "ge.Tensor", "And": "logical_and.default",
    "Or": "logical_or.default", "Xor": "logical_xor.default", "BitwiseAnd": "bitwise_and.Tensor",
    "BitwiseOr": "bitwise_or.Tensor", "BitwiseXor": "bitwise_xor.Tensor",
}  # fmt: skip


def _simple(target: str, count: int) -> Row:
    def function(step: Given) -> Result:
        step.most(count)
        operands = step.alike()
        if len(operands) != count:
            raise step.place.wrong(f"{len(operands)} operands", str(count), code="onnx-operands")
        return [step.emit(target, *operands)]

    return function


ROWS.update({name: _simple(f"aten.{target}.default", 1) for name, target in _UNARY.items()})
ROWS.update({name: _simple(f"aten.{target}", 2) for name, target in _BINARY.items()})


@row("Div")
def _div(step: Given) -> Result:
    step.most(2)
    x, y = step.alike()
    if x.dtype.is_float:
        return [step.emit("aten.div.Tensor", x, y)]
    return [step.emit("aten.div.Tensor_mode", x, y, rounding_mode="trunc")]


@row("Pow")
def _pow(step: Given) -> Result:
    step.most(2)
    x, exponent = step.x(0), step.number(1)
    if exponent is not None and x.dtype.is_float and step.x(1).rank <= x.rank:
        whole = float(exponent).is_integer()
        return [step.emit("aten.pow.Tensor_Scalar", x, int(exponent) if whole else float(exponent))]
    return [step.emit("aten.pow.Tensor_Tensor", *step.alike())]


@row("Mod")
def _mod(step: Given) -> Result:
    step.most(2)
    target = "aten.fmod.Tensor" if step.integer("fmod", 0) else "aten.remainder.Tensor"
    return [step.emit(target, *step.alike())]


def _folded(target: str, mean: bool = False) -> Row:
    def function(step: Given) -> Result:
        found, *others = step.alike()
        for other in others:
            found = step.emit(target, found, other)
        return [step.emit("aten.div.Tensor", found, len(others) + 1)] if mean else [found]

    return function


ROWS["Sum"], ROWS["Mean"] = _folded("aten.add.Tensor"), _folded("aten.add.Tensor", mean=True)
ROWS["Min"], ROWS["Max"] = _folded("aten.minimum.default"), _folded("aten.maximum.default")


@row("Clip")
def _clip(step: Given) -> Result:
    step.most(3)
    x, low, high = step.x(0), step.optional(1), step.optional(2)
    found = x
    if low is not None:
        found = step.emit("aten.maximum.default", found, low)
    return [found if high is None else step.emit("aten.minimum.default", found, high)]


@row("Softplus")
def _softplus(step: Given) -> Result:
    return [step.emit("aten.log1p.default", step.emit("aten.exp.default", step.x(0)))]


@row("Softsign")
def _softsign(step: Given) -> Result:
    below = step.emit("aten.add.Tensor", step.emit("aten.abs.default", step.x(0)), 1)
    return [step.emit("aten.div.Tensor", step.x(0), below)]


@row("LeakyRelu")
def _leaky(step: Given) -> Result:
    return [step.emit("aten.leaky_relu.default", step.x(0), step.real("alpha", 0.01))]


@row("Elu")
def _elu(step: Given) -> Result:
    return [step.emit("aten.elu.default", step.x(0), step.real("alpha", 1.0))]


@row("PRelu")
def _prelu(step: Given) -> Result:
    x, slope = step.alike()
    return [step.emit("aten.where.self", step.emit("aten.lt.Scalar", x, 0), step.emit("aten.mul.Tensor", x, slope), x)]


@row("HardSigmoid")
def _hard_sigmoid(step: Given) -> Result:
    scaled = step.emit("aten.mul.Tensor", step.x(0), step.real("alpha", 0.2))
    return [step.emit("aten.clamp.default", step.emit("aten.add.Tensor", scaled, step.real("beta", 0.5)), 0, 1)]


@row("HardSwish")
def _hard_swish(step: Given) -> Result:
    return [step.emit("aten.hardswish.default", step.x(0))]


@row("Gelu")
def _gelu(step: Given) -> Result:
    return [step.emit("aten.gelu.default", step.x(0), approximate=step.text("approximate", "none"))]


@row("IsInf")
def _isinf(step: Given) -> Result:
    step.only("detect_positive", 1)
    step.only("detect_negative", 1)
    return [step.emit("aten.isinf.default", step.x(0))]


@row("Where")
def _where(step: Given) -> Result:
    step.most(3)
    if step.x(1).dtype is not step.x(2).dtype:
        raise step.place.wrong(f"{step.x(1).type} and {step.x(2).type}", "one element type", code="onnx-operands")
    return [step.emit("aten.where.self", step.x(0), step.x(1), step.x(2))]


@row("Identity")
def _identity(step: Given) -> Result:
    step.most(1)
    return [step.x(0)]


@row("Dropout")
def _dropout(step: Given) -> Result:
    step.most(3)
    step.attribute("seed")
    if step.optional(2) is not None and step.number(2) is not False:
        raise step.place.wrong("dropout in training", "training_mode = false", code="onnx-operands")
    return [step.x(0)]


@row("Cast")
def _cast(step: Given) -> Result:
    step.only("saturate", 1)
    return [_as(step, step.x(0), dtype_of(step.integer("to", 0), step.place))]


@row("CastLike")
def _cast_like(step: Given) -> Result:
    step.only("saturate", 1)
    return [_as(step, step.x(0), step.x(1).dtype)]


def _as(step: Given, x: Known, dtype: DType) -> Known:
    return x if x.dtype is dtype else step.emit("aten._to_copy.default", x, dtype=dtype)


# ------------------------------------------------------------------------------------------------ sources
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
        places = range(size)[slice(start, None if stride < 0 and end < -size else end, stride)]
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
    """Indices counted from the end as those from the front."""
    if index.known is not None and bool((index.known >= 0).all()):
        return index
    shifted = step.emit("aten.add.Tensor", index, size)
    return step.emit("aten.where.self", step.emit("aten.lt.Scalar", index, 0), shifted, index)


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
    wide = step.emit("aten.unsqueeze.default", _counted(step, index, depth), axis)
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


# ------------------------------------------------------------------------------------------------ sums and products
def _reduced(target: str, before: str = "", *more: object) -> Row:
    """A reduction by an operator with axes and ``keepdim`` behind ``more``; ``before``: what is applied to x first."""

    def function(step: Given) -> Result:
        step.most(2)
        x = step.x(0)
        keep, empty = bool(step.integer("keepdims", 1)), step.integer("noop_with_empty_axes", 0)
        given = step.integers("axes")
        if step.optional(1) is not None:
            given = step.numbers(1)
        if not given and empty:
            if before:
                raise step.place.wrong("no axes", "axes", code="onnx-operands")
            return [x]
        axes = [step.axis(a, x.rank) for a in given] if given else list(range(x.rank))
        if before == "square":
            x = step.emit("aten.mul.Tensor", x, x)
        elif before:
            x = step.emit(before, x)
        found = step.emit(target, x, *more, axes, keep)
        return [_as(step, found, step.x(0).dtype)]

    return function


ROWS.update(
    {
        "ReduceSum": _reduced("aten.sum.dim_IntList"),
        "ReduceMean": _reduced("aten.mean.dim"),
        "ReduceMax": _reduced("aten.amax.default"),
        "ReduceMin": _reduced("aten.amin.default"),
        "ReduceL1": _reduced("aten.sum.dim_IntList", "aten.abs.default"),
        "ReduceSumSquare": _reduced("aten.sum.dim_IntList", "square"),
        "ReduceLogSumExp": _reduced("aten.logsumexp.default"),
        "ReduceL2": _reduced("aten.linalg_vector_norm.default", "", 2),
    }
)


@row("CumSum")
def _cumsum(step: Given) -> Result:
    step.most(2)
    x = step.x(0)
    axis = step.axis(step.numbers(1)[0], x.rank)
    exclusive, reverse = step.integer("exclusive", 0), step.integer("reverse", 0)
    given = step.emit("aten.flip.default", x, [axis]) if reverse else x
    found = _as(step, step.emit("aten.cumsum.default", given, axis), x.dtype)
    if exclusive:
        found = step.emit("aten.sub.Tensor", found, given)
    return [step.emit("aten.flip.default", found, [axis]) if reverse else found]


@row("MatMul")
def _matmul(step: Given) -> Result:
    step.most(2)
    return [step.emit("aten.matmul.default", *step.alike())]


@row("Gemm")
def _gemm(step: Given) -> Result:
    step.most(3)
    a, b = step.x(0), step.x(1)
    alpha, beta = step.real("alpha", 1.0), step.real("beta", 1.0)
    a = step.emit("aten.t.default", a) if step.integer("transA", 0) else a
    b = step.emit("aten.t.default", b) if step.integer("transB", 0) else b
    found = step.emit("aten.mm.default", a, b)
    found = found if alpha == 1 else step.emit("aten.mul.Tensor", found, alpha)
    c = step.optional(2)
    if c is None:
        return [found]
    c = c if beta == 1 else step.emit("aten.mul.Tensor", c, beta)
    return [step.emit("aten.add.Tensor", found, c)]


@row("Einsum")
def _einsum(step: Given) -> Result:
    return [step.emit("aten.einsum.default", step.text("equation", ""), step.alike())]


# ------------------------------------------------------------------------------------------------ networks
@row("Softmax")
def _softmax(step: Given) -> Result:
    return [step.emit("aten._softmax.default", step.x(0), step.integer("axis", -1), False)]


@row("LogSoftmax")
def _log_softmax(step: Given) -> Result:
    return [step.emit("aten._log_softmax.default", step.x(0), step.integer("axis", -1), False)]


@row("LayerNormalization")
def _layer_norm(step: Given) -> Result:
    step.most(3)
    step.only("stash_type", 1)
    x, scale, bias = step.x(0), step.x(1), step.optional(2)
    axis = step.axis(step.integer("axis", -1), x.rank)
    row_, epsilon = list(x.shape[axis:]), step.real("epsilon", 1e-5)
    return [step.emit("aten.layer_norm.default", x, row_, *_spread(step, row_, scale, bias), epsilon)]


@row("RMSNormalization")
def _rms_norm(step: Given) -> Result:
    step.most(2)
    step.only("stash_type", 1)
    x, scale = step.x(0), step.x(1)
    axis = step.axis(step.integer("axis", -1), x.rank)
    row_, epsilon = list(x.shape[axis:]), step.real("epsilon", 1e-5)
    return [step.emit("aten.rms_norm.default", x, row_, *_spread(step, row_, scale), epsilon)]


def _spread(step: Given, shape: list[int], *given: Known | None) -> list[Known | None]:
    """Scales and shifts of a norm, of its shape."""
    return [
        one if one is None or list(one.shape) == shape else step.emit("aten.expand.default", one, shape)
        for one in given
    ]  # fmt: skip


@row("BatchNormalization")
def _batch_norm(step: Given) -> Result:
    step.most(5)
    step.only("training_mode", 0)
    step.attribute("momentum")
    epsilon = step.real("epsilon", 1e-5)
    return [step.emit("aten.batch_norm.default", *(step.x(k) for k in range(5)), False, 0.1, epsilon, False)]


@row("InstanceNormalization")
def _instance_norm(step: Given) -> Result:
    step.most(3)
    x = step.x(0)
    epsilon = step.real("epsilon", 1e-5)
    return [step.emit("aten.group_norm.default", x, x.shape[1], step.x(1), step.x(2), epsilon, False)]


@row("GroupNormalization")
def _group_norm(step: Given) -> Result:
    step.most(3)
    step.only("stash_type", 1)
    x, groups = step.x(0), step.integer("num_groups", 0)
    if step.opset < 21 or x.shape[1] != step.x(1).shape[0]:
        raise step.place.wrong(
            f"a scale for every group (opset {step.opset})",
            "a scale for every channel (opset 21)",
            code="onnx-operands",
        )
    epsilon = step.real("epsilon", 1e-5)
    return [step.emit("aten.group_norm.default", x, groups, step.x(1), step.x(2), epsilon, False)]


def _padded(step: Given, x: Known, pads: Sequence[int], value: float) -> tuple[Known, list[int]]:
    """The operand and the same padding on both sides; what is not symmetric is padded first."""
    half = len(pads) // 2
    if list(pads[:half]) == list(pads[half:]):
        return x, list(pads[:half])
    widths = [w for k in reversed(range(half)) for w in (pads[k], pads[k + half])]
    return step.emit("aten.constant_pad_nd.default", x, widths, value), [0] * half


@row("Conv")
def _conv(step: Given) -> Result:
    step.most(3)
    x, w, bias = step.x(0), step.x(1), step.optional(2)
    spatial = x.rank - 2
    step.only("auto_pad", "NOTSET", "VALID")
    kernel = step.integers("kernel_shape")
    if kernel is not None and kernel != list(w.shape[2:]):
        raise step.place.wrong(
            f"kernel_shape {kernel}", f"that of the weight, {list(w.shape[2:])}", code="onnx-attribute"
        )
    strides, dilations = step.integers("strides") or [1] * spatial, step.integers("dilations") or [1] * spatial
    pads, group = step.integers("pads") or [0] * 2 * spatial, step.integer("group", 1)
    x, padding = _padded(step, x, pads, 0)
    rest = (strides, padding, dilations, False, [0] * spatial, group)
    return [step.emit("aten.convolution.default", x, w, bias, *rest)]


def _pooled(name: str) -> Row:
    def function(step: Given) -> Result:
        x = step.x(0)
        spatial = x.rank - 2
        step.only("auto_pad", "NOTSET", "VALID")
        step.only("ceil_mode", 0)
        step.only("storage_order", 0)
        size = step.integers("kernel_shape") or []
        strides, pads = step.integers("strides") or [1] * spatial, step.integers("pads") or [0] * 2 * spatial
        dilations = step.integers("dilations") or [1] * spatial
        if spatial != 2 or pads[:2] != pads[2:] or len(size) != 2 or (name == "avg" and dilations != [1, 1]):
            raise step.place.wrong(f"{spatial} dimensions, pads {pads}", "two, padded alike", code="onnx-attribute")
        if name == "max":
            return [step.emit("aten.max_pool2d.default", x, size, strides, pads[:2], dilations)]
        counted = bool(step.integer("count_include_pad", 0))
        return [step.emit("aten.avg_pool2d.default", x, size, strides, pads[:2], False, counted)]

    return function


ROWS["MaxPool"], ROWS["AveragePool"] = _pooled("max"), _pooled("avg")


@row("GlobalAveragePool")
def _global_average(step: Given) -> Result:
    return [step.emit("aten.mean.dim", step.x(0), list(range(2, step.x(0).rank)), True)]


@row("GlobalMaxPool")
def _global_maximum(step: Given) -> Result:
    return [step.emit("aten.amax.default", step.x(0), list(range(2, step.x(0).rank)), True)]
