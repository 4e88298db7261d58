"""The integer types of 32 and 64 bits that programs compute in: that these do not overflow is assumed, type by type."""

from __future__ import annotations

from tantamount.ir.graph import Graph, Node, references
from tantamount.ir.job import Job
from tantamount.ir.types import DType
from tantamount.ops.calls import operator_of

__all__ = ["WIDE", "assumed_sentences"]

WIDE = (DType.INT32, DType.UINT32, DType.INT64, DType.UINT64)
"""Types whose arithmetic is that of all integers, in a proof."""
_MOVING = frozenset({"movement", "joining", "creation"})  # categories whose results are elements of the operands


def assumed_sentences(job: Job) -> tuple[str, ...]:
    """One sentence for each type of ``WIDE`` that a node of the programs may compute a new number in."""
    found = {
        node.type.dtype
        for graph in (job.specification, *job.programs)
        for node in graph.nodes
        if node.op == "call" and node.type is not None and node.type.dtype in WIDE and not _moves(graph, node)
    }
    return tuple(f"{dtype.label} does not overflow" for dtype in WIDE if dtype in found)


def _moves(graph: Graph, node: Node) -> bool:
    """True if every element of the result is one of the operands', of the same type, or a number that is written in
    the program."""
    if node.target == "getitem":
        return False
    if operator_of(graph, node).category not in _MOVING:
        return False
    types = [graph.by_name[name].type for name in references(node)]
    return node.type is not None and all(found is not None and found.dtype is node.type.dtype for found in types)
