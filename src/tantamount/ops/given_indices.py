"""Indices that a program is given: token numbers, labels, positions. Nobody counts those from the end."""

from __future__ import annotations

from collections.abc import Mapping

from tantamount.ir.graph import Graph, Node, references
from tantamount.ir.types import DType

__all__ = ["COUNTED", "given_indices"]

_OVERLOADS = (
    "index.Tensor", "_unsafe_index.Tensor", "index_put.default", "index_put_.default", "_unsafe_index_put.default",
    "index_fill.int_Scalar", "index_fill.int_Tensor", "index_fill_.int_Scalar", "index_fill_.int_Tensor",
)  # fmt: skip
COUNTED = frozenset(f"aten.{name}" for name in _OVERLOADS)
"""Operators that count negative indices from the end."""

_MOVES = {
    "view", "reshape", "_unsafe_view", "unsqueeze", "squeeze", "slice", "select", "transpose", "permute", "t", "expand",
    "flatten", "clone", "contiguous", "alias", "detach", "_to_copy", "to", "split", "split_with_sizes", "chunk",
    "unbind", "repeat",
}  # fmt: skip


def given_indices(graph: Graph, node: Node, environment: Mapping[str, object]) -> frozenset[int]:
    """The ``id`` of each value in ``environment`` that ``node`` reads and whose elements are those of an input of the
    graph: in another layout, and in another type of 32 or 64 bits, perhaps."""
    return frozenset(id(environment[name]) for name in references(node) if _given(graph, name))


def _given(graph: Graph, name: str) -> bool:
    while True:
        node = graph.by_name[name]
        if node.type is not None and node.type.dtype not in (DType.INT32, DType.INT64):
            return False
        if node.op == "input":
            return True
        read = next(iter(references(node)), None)
        if node.op != "call" or read is None or (node.target != "getitem" and _name(node.target) not in _MOVES):
            return False
        name = read


def _name(target: str) -> str:
    parts = target.split(".")
    return parts[1] if len(parts) > 1 and parts[0] == "aten" else ""
