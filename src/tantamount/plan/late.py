"""The tensors that depend on given inputs where ranks run different programs: within a program, and from rank to rank.

A collective passes on what any of its members put in. Its calls are told apart by their number on a rank, groups by
the axes along which their members differ: calls of other groups along the same axes count as one with them, which can
only make more depend on an input. All messages along the same axes count as one.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from tantamount.ir.graph import Graph, Node, references
from tantamount.ir.mesh import Mesh
from tantamount.ops.calls import operator_of

__all__ = ["late"]

_Call = tuple[object, int]  # a group, and the number of a call of it; -1 for all its messages


def late(graphs: Sequence[Graph], inputs: Collection[str], mesh: Mesh | None = None) -> list[set[str]]:
    """The names of the nodes of every graph that depend on inputs of these names, here or on another rank. ``mesh``
    says what groups there are, whatever they are called."""
    passed = set[_Call]()
    groups: dict[str, object] = {}
    if mesh is not None:
        for name, axes in mesh.groups.items():
            groups[name] = frozenset(axis for axis in axes if mesh.axes[axis] > 1)
    while True:
        before = len(passed)
        found = [_late(graph, inputs, passed, groups) for graph in graphs]
        if len(passed) == before:
            return found


def _late(graph: Graph, inputs: Collection[str], passed: set[_Call], groups: Mapping[str, object]) -> set[str]:
    """The same of one graph, where what is ``passed`` on depends on them as well; calls that pass them on are added."""
    found = set[str]()
    counts: dict[object, int] = {}
    for node in graph.nodes:
        known = node.op == "input" and node.name in inputs
        known = known or not found.isdisjoint(references(node))
        call = _call(graph, node, counts, groups)
        if call is not None and known:
            passed.add(call)
        if known or call in passed:
            found.add(node.name)
    return found


def _call(graph: Graph, node: Node, counts: dict[object, int], groups: Mapping[str, object]) -> _Call | None:
    """The exchange of a node with other ranks, ``None`` without one; ``counts`` are the calls of every group so far."""
    if node.op != "call" or node.target == "getitem":
        return None
    row = operator_of(graph, node)
    if row.group_parameter is None:
        return None
    arguments = row.signature.bind_partial(*node.args, **node.kwargs).arguments
    name = arguments.get(row.group_parameter)
    group = groups.get(name, name) if isinstance(name, str) else name
    if row.peer_parameter is not None:
        return group, -1
    counts[group] = counts.get(group, -1) + 1
    return group, counts[group]
