"""An ONNX model becoming a graph: its inputs, its recorded numbers, and for every node what its row makes of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Union

import numpy as np

from tantamount.capture.fields import Place, nearest, shown
from tantamount.capture.onnx.given import Given, Known, Result
from tantamount.capture.onnx.model import Attribute, Model, Operation, model_of
from tantamount.capture.onnx.rows import ROWS
from tantamount.capture.onnx.tensors import TensorData
from tantamount.errors import TantamountError, Unsupported, UserError
from tantamount.ir.graph import Argument, Constant, Graph, Node, Output, Ref
from tantamount.ir.types import DType, TensorType
from tantamount.ir.validate import check_structure
from tantamount.limits import Limits
from tantamount.ops.algebra import Tensor, TypesOnly
from tantamount.ops.builder import Builder
from tantamount.ops.execute import Environment, recorded_constant, run_node
from tantamount.ops.execute import Result as Evaluated
from tantamount.semantics.reference import Array, Reference

__all__ = ["parse_onnx"]

_KNOWN = 1 << 12  # elements of a tensor whose numbers are followed: shapes, scalars, indices


def parse_onnx(text: str, path: str, limits: Limits) -> Graph:
    """The graph of a model; ``text`` has one character for every byte. Raises :class:`UserError` with the node of what
    is wrong, or is not supported."""
    place = Place("graph", path, limits)
    model = model_of(text.encode("latin-1"), place)
    return _Translator(model, place).graph(path)


@dataclass
class _Translator:
    """A model on its way to a graph: the nodes so far, and what every name of the model stands for."""

    model: Model
    place: Place
    nodes: list[Node] = field(default_factory=list[Node])
    constants: dict[str, Constant] = field(default_factory=dict[str, Constant])
    values: dict[str, Known] = field(default_factory=dict[str, Known])
    types: Environment = field(default_factory=dict[str, Evaluated])
    parts: dict[str, Known] = field(default_factory=dict[str, Known])  # what nodes stand for, by their names

    def graph(self, path: str) -> Graph:
        """The whole program."""
        for one in self.model.inputs:
            self._new(one.name, self.place.at(one.name))
            self.nodes.append(Node(one.name, "input", one.name, type=one.type))
            self.types[one.name] = Tensor(one.type.shape, one.type.dtype, None)
            self.values[one.name] = self.parts[one.name] = Known(one.name, one.type, None)
        given = {one.name for one in self.model.inputs}
        for name, data in self.model.constants.items():
            if name not in given:  # else the number is a default of an input
                self._new(name, self.place.at(name))
                self.values[name] = self.constant(name, data)
        for operation in self.model.operations:
            self._operation(operation)
        outputs = tuple(Output(name, self._value(name, self.place.at("output")).node) for name in self.model.outputs)
        if not outputs:
            raise self.place.wrong("no output", "a graph with outputs", code="no-outputs")
        origin = f"ONNX, opset {self.model.opset}" + (f", by {self.model.producer}" if self.model.producer else "")
        graph = Graph(tuple(self.nodes), outputs, self.constants, origin=origin, path=path)
        check_structure(graph)
        return graph

    def _new(self, name: str, place: Place) -> None:
        if name in self.values:
            raise place.wrong(f"the name {shown(name)} a second time", "one value for every name", code="onnx-data")

    def _value(self, name: str, place: Place) -> Known:
        found = self.values.get(name)
        if found is None:
            raise place.wrong(
                f"{shown(name)}, which nothing before it makes", "inputs, initialisers and results of nodes before",
                code="onnx-data", hint=nearest(name, self.values),
            )  # fmt: skip
        return found

    def _operation(self, operation: Operation) -> None:
        row = ROWS.get(operation.op)
        if row is None:
            raise operation.place.wrong(
                shown(operation.op), "an operator that is read (docs/onnx.md)", code="onnx-operator",
                hint=nearest(operation.op, ROWS),
            )  # fmt: skip
        given = tuple(self._value(name, operation.place) if name else None for name in operation.inputs)
        for name in operation.outputs:
            if name:
                self._new(name, operation.place)
        step = _Step(self, operation, given)
        results = row(step)
        step.finish()
        wanted = [k for k, name in enumerate(operation.outputs) if name]
        if wanted and wanted[-1] >= len(results):
            raise operation.place.wrong(
                f"the output {wanted[-1]}", f"outputs 0 to {len(results) - 1}", code="onnx-operands",
                hint="an output that is not computed here: export for inference",
            )  # fmt: skip
        for k in wanted:
            self.values[operation.outputs[k]] = results[k]

    def constant(self, name: str, data: TensorData) -> Known:
        """A recorded tensor as a node of that name."""
        numbers: Sequence[Union[bool, int, float]] = data.values.reshape(-1).tolist()
        self.constants[name] = Constant(data.type, tuple(numbers))
        self.nodes.append(Node(name, "constant", name, type=data.type))
        self.types[name] = Tensor(data.type.shape, data.type.dtype, None)
        found = Known(name, data.type, data.values if data.values.size <= _KNOWN else None)
        self.parts[name] = found
        return found

    def call(
        self, name: str, target: str, args: tuple[Argument, ...], kwargs: Mapping[str, Argument], place: Place
    ) -> Result:
        """A new node, with the type that its operator gives it; its values, where those of its operands are known."""
        node = Node(name, "call", target, args, kwargs)
        stub = Graph((), (), self.constants, path=self.place.key)
        try:
            found = run_node(stub, node, Builder(TypesOnly(None), name), self.types, recorded_constant, None)
        except (UserError, Unsupported) as problem:
            said = problem.found if isinstance(problem, UserError) else problem.reason
            raise place.wrong(said, f"operands that {target} takes", code="onnx-operands") from None
        self.types[name] = found
        if isinstance(found, tuple):
            self.nodes.append(node)
            return [self._part(name, k, one) for k, one in enumerate(found) if isinstance(one, Tensor)]
        if not isinstance(found, Tensor):
            raise place.wrong("a size that data decide", "sizes that are known", code="onnx-type")
        self.nodes.append(Node(name, "call", target, args, kwargs, found.type))
        return [Known(name, found.type, self._followed(stub, node, found))]

    def _part(self, name: str, k: int, found: Tensor) -> Known:
        part = Node(f"{name} {k}", "call", "getitem", (Ref(name), k), {}, found.type)
        self.nodes.append(part)
        self.types[part.name] = found
        return Known(part.name, found.type, None)

    def _followed(self, stub: Graph, node: Node, found: Tensor) -> Array | None:
        """The whole numbers of a node that are known while reading: shapes, mostly."""
        names = [one.name for one in _refs((*node.args, *node.kwargs.values()))]
        if not found.dtype.is_integral or any(type(size) is not int for size in found.shape):
            return None
        if int(np.prod([1, *found.shape])) > _KNOWN:
            return None
        environment: Environment = {}
        for name in names:
            value = self.parts.get(name)
            if value is None or value.known is None:
                return None
            environment[name] = Tensor(value.type.shape, value.type.dtype, value.known)
        try:
            result = run_node(stub, node, Builder(Reference(), node.name), environment, recorded_constant, None)
        except TantamountError:
            return None
        return np.asarray(result.value) if isinstance(result, Tensor) else None


def _refs(arguments: Sequence[Argument]) -> list[Ref]:
    out: list[Ref] = []
    for argument in arguments:
        if isinstance(argument, Ref):
            out.append(argument)
        elif isinstance(argument, tuple):
            out += _refs(argument)
    return out


@dataclass
class _Step(Given):
    """One node of the model on its way, as its row sees it."""

    translator: _Translator
    operation: Operation
    operands: tuple[Known | None, ...]
    consumed: set[str] = field(default_factory=set[str])
    made: int = 0

    @property
    def place(self) -> Place:
        return self.operation.place

    @property
    def opset(self) -> int:
        return self.translator.model.opset

    @property
    def results(self) -> int:
        return len(self.operation.outputs)

    def attribute(self, name: str) -> Attribute | None:
        self.consumed.add(name)
        return self.operation.attributes.get(name)

    def finish(self) -> None:
        """Raise :class:`UserError` for an attribute that nobody asked for."""
        left = sorted(self.operation.attributes.keys() - self.consumed)
        if left:
            raise self.place.wrong(
                f"the attribute {shown(left[0])}", f"attributes that {self.operation.op} has here",
                code="onnx-attribute", hint=nearest(left[0], self.consumed),
            )  # fmt: skip

    def emit(self, target: str, *args: object, **kwargs: object) -> Known:
        return self.several(target, *args, **kwargs)[0]

    def several(self, target: str, *args: object, **kwargs: object) -> Result:
        first = next((name for name in self.operation.outputs if name), self.operation.op)
        name = first if not self.made else f"{first} part {self.made}"
        self.made += 1
        given = tuple(_argument(one) for one in args)
        keywords = {key: _argument(value) for key, value in kwargs.items()}
        found = self.translator.call(name, target, given, keywords, self.place)
        for one in found:
            self.translator.parts[one.node] = one
        return found

    def recorded(self, values: Array, dtype: DType) -> Known:
        first = next((name for name in self.operation.outputs if name), self.operation.op)
        name = first if not self.made else f"{first} part {self.made}"
        self.made += 1
        data = TensorData(name, TensorType(values.shape, dtype), values)
        return self.translator.constant(name, data)


def _argument(value: object) -> Argument:
    if isinstance(value, Known):
        return Ref(value.node)
    if isinstance(value, (list, tuple)):
        return tuple(_argument(one) for one in value)  # type: ignore[arg-type]
    return value  # type: ignore[return-value]
