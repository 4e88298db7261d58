"""What emitters share: constants and numbers as source, names, the parts of a program."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tantamount.errors import Unsupported
from tantamount.ir.graph import Argument, Constant, Graph, Node, Ref
from tantamount.ir.types import DType, TensorType

__all__ = [
    "array_source",
    "constants_of",
    "dtype_in",
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
