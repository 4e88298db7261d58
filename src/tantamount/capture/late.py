"""The tensors that depend on given inputs where ranks run different programs: within a program, and from rank to rank.

A collective passes on what any of its members put in. Its calls are told apart by their number on a rank, groups by
the axes along which their members differ: calls of other groups along the same axes count as one with them, which can
only make more depend on an input. All messages along the same axes count as one.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from tantamount.ir.graph import Graph, Node, references
from tantamount.ir.mesh import Mesh
from tantamount.ops.calls import operator_of

__all__ = ["calls_of", "group_axes", "late", "reached"]

_Call = tuple[object, int]  # a group, and the number of a call of it; -1 for all its messages


def late(graphs: Sequence[Graph], inputs: Collection[str], mesh: Mesh | None = None) -> list[set[str]]:
    """The names of the nodes of every graph that depend on inputs of these names, here or on another rank. ``mesh``
    says what groups there are, whatever they are called."""
    return reached(graphs, lambda _, node: node.op == "input" and node.name in inputs, mesh)


def reached(
    graphs: Sequence[Graph],
    begins: Callable[[int, Node], bool],
    mesh: Mesh | None = None,
    ends: Callable[[int, Node], bool] | None = None,
) -> list[set[str]]:
    """The names of the nodes of every graph that depend on one that ``begins(graph's number, node)``, here or on
    another rank; what ``ends`` depends on nothing."""
    passed = set[_Call]()
    groups = {} if mesh is None else _groups(mesh)
    while True:
        before = len(passed)
        found: list[set[str]] = []
        for number, graph in enumerate(graphs):
            names, counts = set[str](), dict[object, int]()
            for node in graph.nodes:
                known = begins(number, node) or not names.isdisjoint(references(node))
                call = _call(graph, node, counts, groups)
                if ends is not None and ends(number, node):
                    continue
                if call is not None and known:
                    passed.add(call)
                if known or call in passed:
                    names.add(node.name)
            found.append(names)
        if len(passed) == before:
            return found


def calls_of(graph: Graph, mesh: Mesh) -> dict[str, object]:
    """The exchanges of a program with other ranks by the names of their nodes; of those that meet, equal ones."""
    counts: dict[object, int] = {}
    found = {node.name: _call(graph, node, counts, _groups(mesh)) for node in graph.nodes}
    return {name: call for name, call in found.items() if call is not None}


def _groups(mesh: Mesh) -> dict[str, object]:
    """The long axes of every group: groups with the same ones have the same members."""
    return {name: frozenset(axis for axis in axes if mesh.axes[axis] > 1) for name, axes in mesh.groups.items()}


def group_axes(graph: Graph, node: Node, mesh: Mesh) -> frozenset[str]:
    """The long axes along which a node exchanges something with other ranks; all that there are for a group of which
    the mesh knows nothing; none for a node that exchanges nothing."""
    name = _group(graph, node)
    if name is None:
        return frozenset()
    axes = mesh.groups.get(name, mesh.names) if isinstance(name, str) else mesh.names
    return frozenset(axis for axis in axes if mesh.axes[axis] > 1)


def _group(graph: Graph, node: Node) -> object | None:
    """The group with which a node exchanges something as the program calls it, ``None`` without one."""
    if node.op != "call" or node.target == "getitem":
        return None
    row = operator_of(graph, node)
    if row.group_parameter is None:
        return None
    return row.signature.bind_partial(*node.args, **node.kwargs).arguments.get(row.group_parameter, False)


def _call(graph: Graph, node: Node, counts: dict[object, int], groups: Mapping[str, object]) -> _Call | None:
    """The exchange of a node with other ranks, ``None`` without one; ``counts`` are the calls of every group so far."""
    name = _group(graph, node)
    if name is None:
        return None
    group = groups.get(name, name) if isinstance(name, str) else name
    if operator_of(graph, node).peer_parameter is not None:
        return group, -1
    counts[group] = counts.get(group, -1) + 1
    return group, counts[group]
