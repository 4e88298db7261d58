"""The messages of an ONNX model as plain data: what the reader needs of them, with everything else refused by name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Union

from tantamount.capture.fields import Place, shown
from tantamount.capture.onnx.tensors import DTYPES, TensorData, tensor_data
from tantamount.capture.onnx.wire import Message, message
from tantamount.ir.types import DType, TensorType

__all__ = ["Attribute", "Model", "Operation", "Value", "model_of"]

_OLDEST, _NEWEST = 13, 23  # versions of the operators
_STANDARD = ("", "ai.onnx")

# fields by number: those read, and those that say nothing of what is computed
_MODEL = frozenset({1, 2, 3, 4, 5, 6, 7, 8, 14, 25})
_GRAPH = frozenset({1, 2, 5, 10, 11, 12, 13, 16})
_NODE = frozenset({1, 2, 3, 4, 5, 6, 7, 8, 9})
_ATTRIBUTE = frozenset({1, 2, 3, 4, 5, 7, 8, 9, 13, 20})
_VALUE = frozenset({1, 2, 3, 4})

Attribute = Union[int, float, str, TensorData, tuple[int, ...], tuple[float, ...], tuple[str, ...]]


@dataclass(frozen=True)
class Value:
    """A named input, with its type."""

    name: str
    type: TensorType


@dataclass(frozen=True)
class Operation:
    """A node: its operator, the names of what it reads (empty: nothing there) and makes, and its attributes."""

    op: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, Attribute]
    place: Place


@dataclass(frozen=True)
class Model:
    """The main graph: ``constants`` are its initialisers by name."""

    opset: int
    producer: str
    inputs: tuple[Value, ...]
    outputs: tuple[str, ...]
    constants: Mapping[str, TensorData]
    operations: tuple[Operation, ...]


def model_of(data: bytes, place: Place) -> Model:
    """The model in the bytes of a file. Raises :class:`UserError` for what is broken, too large or not supported."""
    whole = message(data, place)
    whole.check(_MODEL)
    graph = whole.one(7, "graph")
    if graph is None or not whole.integer(1):
        raise place.wrong("no graph", "a model that ONNX wrote", code="onnx-data")
    opset = _opset(whole, place)
    graph.check(_GRAPH)
    place.limits.check("nodes", len(graph.values.get(1, ())), place.text, "nodes")
    functions = {f"{one.text(10)}.{one.text(1)}" for one in whole.messages(25, "function")}
    constants: dict[str, TensorData] = {}
    for one in graph.messages(5, "initializer"):
        tensor = tensor_data(one)
        constants[_name(tensor.name, one.place)] = tensor
    return Model(
        opset,
        whole.text(2),
        tuple(_value(one) for one in graph.messages(11, "input")),
        tuple(_name(one.text(1), one.place) for one in graph.messages(12, "output")),
        constants,
        tuple(_operation(one, functions) for one in graph.messages(1, "node")),
    )


def _opset(whole: Message, place: Place) -> int:
    for one in whole.messages(8, "opset_import"):
        version = one.integer(2)
        if one.text(1) in _STANDARD:
            if not _OLDEST <= version <= _NEWEST:
                raise place.wrong(
                    f"operators of version {version}", f"versions {_OLDEST} to {_NEWEST}", code="onnx-version",
                    hint="export with opset_version=18, or convert with onnx.version_converter",
                )  # fmt: skip
            return version
    raise place.wrong("no version of the operators", "opset_import of the standard domain", code="onnx-version")


def _name(text: str, place: Place) -> str:
    return place.name(text, "the name of a value")


def _value(one: Message) -> Value:
    one.check(_VALUE)
    name = _name(one.text(1), one.place)
    place = one.place.at(name)
    kind = one.one(2, "type")
    tensor = None if kind is None else kind.one(1, "tensor")
    if kind is None or tensor is None:
        raise place.wrong("a value that is no tensor", "a tensor", code="onnx-type")
    dtype = dtype_of(tensor.integer(1), place)
    shape = tensor.one(2, "shape")
    if shape is None:
        raise place.wrong("no shape", "the sizes of an input", code="onnx-type")
    sizes: list[int] = []
    dimensions = shape.messages(1, "dim")
    place.limits.check("dimensions", len(dimensions), place.text, "dimensions")
    for dimension in dimensions:
        if 1 not in dimension.values:
            raise place.wrong(
                f"a size called {shown(dimension.text(2))}", "sizes that are numbers", code="onnx-type",
                hint="export with fixed sizes (no dynamic axes)",
            )  # fmt: skip
        size = dimension.integer(1)
        if size < 0:
            raise place.wrong(str(size), "a size from 0 on", code="onnx-type")
        place.limits.check("dimension_size", size, place.text, "elements along one dimension")
        sizes.append(size)
    return Value(name, TensorType(tuple(sizes), dtype))


def dtype_of(number: int, place: Place) -> DType:
    """The element type of a number. Raises :class:`UserError`."""
    found = DTYPES.get(number)
    if found is None:
        known = ", ".join(str(dtype) for dtype in DTYPES.values())
        raise place.wrong(f"the element type {number}", f"one of {known}", code="onnx-type")
    return found


def _operation(one: Message, functions: set[str]) -> Operation:
    one.check(_NODE)
    op, domain = one.text(4), one.text(7)
    outputs = one.texts(2)
    place = one.place.at(f"{shown(outputs[0]) if outputs else '?'} ({shown(op)})")
    if domain not in _STANDARD or f"{domain}.{op}" in functions or one.text(8):
        raise place.wrong(
            shown(f"{domain}.{op}" if domain else op), "standard operators", code="onnx-operator",
            hint="functions of a model and operators of other domains are not supported: export without them",
        )  # fmt: skip
    attributes: dict[str, Attribute] = {}
    for attribute in one.messages(5, "attribute"):
        name = _name(attribute.text(1), attribute.place)
        attributes[name] = _attribute(attribute, place.at(f"attribute {name}"))
    for name in (*one.texts(1), *outputs):
        if name:
            _name(name, place)
    return Operation(op, tuple(one.texts(1)), tuple(outputs), attributes, place)


def _attribute(one: Message, place: Place) -> Attribute:
    if set(one.values) - _ATTRIBUTE:
        raise place.wrong("a graph, or a reference", "numbers, texts or a tensor", code="onnx-attribute")
    kind = one.integer(20)
    found: Attribute | None = None
    if kind == 1:
        numbers = one.floats(2)
        found = numbers[-1] if numbers else 0.0
    elif kind == 2:
        found = one.integer(3)
    elif kind == 3:
        found = one.text(4)
    elif kind == 4 and (tensor := one.one(5, "tensor")) is not None:
        found = tensor_data(tensor)
    elif kind == 6:
        found = tuple(one.floats(7))
    elif kind == 7:
        found = tuple(one.integers(8))
    elif kind == 8:
        found = tuple(one.texts(9))
    if found is None:
        raise place.wrong(f"an attribute of kind {kind}", "numbers, texts or a tensor", code="onnx-attribute")
    return found
