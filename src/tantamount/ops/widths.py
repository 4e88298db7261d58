"""The integer types of 32 and 64 bits that programs compute in: that these do not overflow is assumed, type by type."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tantamount.ir.graph import Graph, Node, Ref, references
from tantamount.ir.job import Job
from tantamount.ir.types import DType
from tantamount.ops.algebra import Tensor
from tantamount.ops.calls import operator_of
from tantamount.ops.check import check_graph

__all__ = ["WIDE", "assumed_sentences"]

WIDE = (DType.INT32, DType.UINT32, DType.INT64, DType.UINT64)
"""Types whose arithmetic is that of all integers, in a proof."""
_MOVING = frozenset({"movement", "joining", "creation"})  # categories whose results are elements of the operands


def assumed_sentences(job: Job) -> tuple[str, ...]:
    """One sentence for each type of ``WIDE`` that a node of the programs may compute a new number in."""
    sizes = {name: job.mesh.group_size(name) for name in job.mesh.groups}
    found = _computed_in(job.specification, None).union(*(_computed_in(graph, sizes) for graph in job.programs))
    return tuple(f"{dtype.label} does not overflow" for dtype in WIDE if dtype in found)


def _computed_in(graph: Graph, groups: Mapping[str, int] | None) -> set[DType]:
    """The types in which the calls of a graph compute; that of positions, where data decide what a result is."""
    in_parts = {node.args[0].name for node in graph.nodes if node.target == "getitem" and isinstance(node.args[0], Ref)}
    calls = [node for node in graph.nodes if node.op == "call"]
    if all(node.type is not None or node.name in in_parts for node in calls):
        typed = graph
    else:  # a file may leave types out
        known = check_graph(graph, groups)
        types = {name: value.type for name, value in known.items() if isinstance(value, Tensor)}
        typed = replace(graph, nodes=tuple(replace(node, type=types.get(node.name, node.type)) for node in graph.nodes))
    found = {node.type.dtype for node in typed.nodes if node.op == "call" and node.type and not _moves(typed, node)}
    unknown = any(node.op == "call" and node.type is None and node.name not in in_parts for node in typed.nodes)
    return found | {DType.INT64} if unknown else found


def _moves(graph: Graph, node: Node) -> bool:
    """True if every element of the result is one of the operands', of the same type, or a number that is written in
    the program."""
    if node.target == "getitem":
        return False
    if operator_of(graph, node).category not in _MOVING:
        return False
    types = [graph.by_name[name].type for name in references(node)]
    return node.type is not None and all(found is not None and found.dtype is node.type.dtype for found in types)
