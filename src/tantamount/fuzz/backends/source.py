"""The parts that emitters share: constants and numbers as source, names, the parts of a program."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tantamount.errors import Unsupported
from tantamount.ir.graph import Argument, Constant, Graph, Node, Ref
from tantamount.ir.types import DType, TensorType

__all__ = [
    "Dialect",
    "array_source",
    "constants_of",
    "dtype_in",
    "numbers",
    "numpy_name",
    "operand_types",
    "reference",
    "types_of",
    "wrapped_lines",
]


def numpy_name(dtype: DType) -> str:
    """NumPy's name of an element type; bfloat16 is written in float32."""
    return {DType.BOOL: "np.bool_", DType.BFLOAT16: "np.float32"}.get(dtype, f"np.{dtype.label}")


def array_source(data: Sequence[Any], type_: TensorType) -> str:
    """An expression of a NumPy array; one number for all elements is written once."""
    shape = tuple(type_.shape)
    if len(data) > 4 and all(repr(item) == repr(data[0]) for item in data):
        return f"np.full({shape}, {data[0]!r}, {numpy_name(type_.dtype)})"
    text = ", ".join(_number(item) for item in data)
    return f"np.array([{text}], {numpy_name(type_.dtype)}).reshape({shape})"


def _number(item: Any) -> str:
    if isinstance(item, float) and item.is_integer() and abs(item) < 1 << 53:
        return f"{int(item)}."
    return repr(item)


def types_of(graph: Graph) -> dict[str, TensorType]:
    """The type of every node with one result."""
    return {node.name: node.type for node in graph.nodes if node.type is not None}


def reference(argument: Argument) -> str:
    """The name of the node that an operand is. Raises :class:`Unsupported` for a number."""
    if not isinstance(argument, Ref):
        raise Unsupported(f"the operand {argument!r}")
    return argument.name


def operand_types(node: Node, types: dict[str, TensorType]) -> list[TensorType]:
    """The types of a node's operands, in order."""
    return [types[item.name] for item in node.args if isinstance(item, Ref) and item.name in types]


def dtype_in(node: Node, types: dict[str, TensorType]) -> DType:
    """The element type of a node's first operand, or of its result."""
    found = operand_types(node, types)
    if found:
        return found[0].dtype
    return node.type.dtype if node.type is not None else DType.FLOAT32


def constants_of(graph: Graph) -> dict[str, Constant]:
    """The recorded constants that a graph uses, by the names of their nodes."""
    return {node.name: graph.constants[node.target] for node in graph.nodes if node.op == "constant"}


def wrapped_lines(constant: Constant) -> str:
    """The source of a recorded constant."""
    return array_source(constant.data, constant.type)


def numbers(argument: Argument) -> list[int]:
    """The integers of an argument that is a list of them."""
    return [item for item in argument if isinstance(item, int)] if isinstance(argument, tuple) else []


Special = Callable[[Node, "list[str]", "dict[str, TensorType]"], str]


@dataclass(frozen=True)
class Dialect:
    """A library whose programs are Python functions, an expression for every node. ``simple``: expressions by operator,
    with the arguments as {0}, {1}, ...; ``special``: functions that make them, of the node, its arguments as source and
    the types of all nodes. ``tensor`` makes a tensor of a NumPy array, ``dtype`` names an element type."""

    imports: tuple[str, ...]
    tensor: str
    bfloat16: str
    dtype: Callable[[DType], str]
    simple: Mapping[str, str]
    special: Mapping[str, Special]

    @property
    def targets(self) -> frozenset[str]:
        """The operators that can be said."""
        return frozenset({f"aten.{name}" for name in (*self.simple, *self.special)} | {"getitem"})

    def module(self, graph: Graph) -> str:
        """A module with a function ``program`` of the inputs, which returns a tuple of the outputs. Raises
        :class:`Unsupported` for what cannot be said."""
        types = types_of(graph)
        lines = [*self.imports, ""]
        for name, constant in constants_of(graph).items():
            form = self.bfloat16 if constant.type.dtype is DType.BFLOAT16 else self.tensor
            lines.append(f"{name} = {form.format(wrapped_lines(constant))}")
        lines += ["", "", f"def program({', '.join(node.name for node in graph.inputs)}):"]
        for node in graph.nodes:
            if node.op == "call":
                comment = f"  # {node.type}" if node.type is not None else ""
                lines.append(f"    {node.name} = {self._call(node, types)}{comment}")
        lines.append(f"    return ({', '.join(output.node for output in graph.outputs)},)")
        return "\n".join(lines) + "\n"

    def argument(self, item: Argument) -> str:
        """An argument as source."""
        if isinstance(item, Ref):
            return item.name
        if isinstance(item, DType):
            return self.dtype(item)
        if isinstance(item, tuple):
            return f"({', '.join(self.argument(entry) for entry in item)},)" if item else "()"
        return repr(item)

    def _call(self, node: Node, types: dict[str, TensorType]) -> str:
        args = [self.argument(item) for item in node.args]
        if node.target == "getitem":
            return f"{args[0]}[{args[1]}]"
        name = node.target.removeprefix("aten.")
        if name in self.simple:
            return self.simple[name].format(*args, "None")
        if name not in self.special:
            raise Unsupported(f"operator {node.target}")
        return self.special[name](node, args, types)
