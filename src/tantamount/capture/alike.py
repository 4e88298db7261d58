"""Copies of what ranks have alike, which must stay alike where they compute something approximate.

A proof up to an approximation is about the strict form, in which ranks have what their relations say. What they really
compute may differ from rank to rank: each has the statistic of its own rows, or the mask that its own numbers make.
Where a gradient, a parameter or a norm that they should have alike is made of that by each rank for itself, they have
copies that differ, and the next iteration begins with something else than what it is proved to begin with. What all
gather or add up of it is alike, and so is a statistic of what all have.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from tantamount.capture.late import group_axes, reached
from tantamount.ir.graph import Graph, Node
from tantamount.ir.job import Job
from tantamount.ir.relation import Replicate
from tantamount.ops.calls import operator_of
from tantamount.ops.classes import differs

__all__ = ["ALIKE", "drifting"]

_NAMES = ("all_reduce", "all_reduce_", "all_reduce_coalesced", "all_gather_into_tensor",
          "all_gather_into_tensor_coalesced", "broadcast", "broadcast_")  # fmt: skip
ALIKE = frozenset(f"_c10d_functional.{name}.default" for name in _NAMES)  # of which all ranks of a group get the same


def drifting(job: Job, nodes: Collection[str], axes: Collection[str], wanted: Collection[str]) -> Iterator[str]:
    """Phrases about the outputs, of those that are ``wanted``, that ranks along one of the ``axes`` should have alike
    and that depend on one of the ``nodes``, of which each may have its own."""
    graphs = job.programs
    for position, axis in enumerate(job.mesh.names):
        if axis not in axes or job.mesh.axes[axis] < 2:
            continue
        own = _own(job, position)

        def alike(number: int, node: Node, axis: str = axis) -> bool:
            return node.target in ALIKE and axis in group_axes(graphs[number], node, job.mesh)

        def begins(number: int, node: Node, own: Sequence[set[str]] = own) -> bool:
            return node.name in nodes and node.name in own[number]

        found = reached(graphs, begins, job.mesh, alike)
        for name in wanted:
            expected = job.outputs[name]
            if expected.placements is None or not isinstance(expected.placements[position], Replicate):
                continue
            given = [graph.output_nodes.get(expected.name, expected.name) for graph in graphs]
            if any(node in names for node, names in zip(given, found, strict=True)):
                yield f"something of which ranks along {axis} make {name} each for itself, which they have alike"


def _own(job: Job, position: int) -> list[set[str]]:
    """The nodes of every program that may differ between ranks along an axis: those that depend on what these are given
    different parts of, on what they draw, or on what their programs do in ways of their own."""
    graphs, mesh = job.programs, job.mesh
    axis = mesh.names[position]
    given = {
        relation.name
        for relation in job.inputs.values()
        if relation.placements is None or not isinstance(relation.placements[position], Replicate)
    }
    known = {relation.name for relation in job.inputs.values()}
    peers = list(_peers(job, position))

    def begins(number: int, node: Node) -> bool:
        if node.op == "input":
            return node.name in given or node.name not in known
        drawn = node.op == "call" and node.target != "getitem" and operator_of(graphs[number], node).facts.random
        return drawn or differs(node, (graphs[number], *peers[number]))

    def alike(number: int, node: Node) -> bool:
        return node.target in ALIKE and axis in group_axes(graphs[number], node, mesh)

    return reached(graphs, begins, mesh, alike)


def _peers(job: Job, position: int) -> Iterator[list[Graph]]:
    """For every program the others that ranks run which differ from some of its own ranks along the axis alone."""
    graphs, lines = job.programs, dict[tuple[int, ...], set[int]]()
    for rank, graph in enumerate(job.implementation):
        at = job.mesh.coordinates(rank)
        lines.setdefault((*at[:position], *at[position + 1 :]), set()).add(id(graph))
    for graph in graphs:
        near = set[int]().union(*(line for line in lines.values() if id(graph) in line))
        yield [other for other in graphs if id(other) in near and other is not graph]
