"""Process groups of ranks that run one program."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from tantamount.errors import UserError
from tantamount.ir.graph import Argument, Graph, Node
from tantamount.ir.mesh import Mesh
from tantamount.ops.calls import operator_of

__all__ = ["with_one_name_per_group"]


def with_one_name_per_group(graphs: Sequence[Graph], mesh: Mesh) -> tuple[Graph, ...]:
    """The graphs with every process group called by the first name among those that span the same mesh axes.

    Frameworks number their groups, so that the same collective names group "1" on rank 0 and "3" on rank 1. Which
    ranks take part, and in which order, depends on the axes alone, and collectives are matched by members. Ranks that
    share a graph still do. Raises :class:`UserError` where ranks call the same groups of one set of ranks in different
    orders: there the calls of one group meet, which are not those that come at the same place."""
    first: dict[tuple[str, ...], str] = {}
    names = {name: first.setdefault(axes, name) for name, axes in mesh.groups.items()}
    if all(name == other for name, other in names.items()):
        return tuple(graphs)
    _check_order(graphs, mesh)
    renamed = {key: _renamed(graph, names) for key, graph in {id(graph): graph for graph in graphs}.items()}
    return tuple(renamed[id(graph)] for graph in graphs)


def _check_order(graphs: Sequence[Graph], mesh: Mesh) -> None:
    calls = {key: _calls(graph, mesh) for key, graph in {id(graph): graph for graph in graphs}.items()}
    if all(len({*names}) < 2 for called in calls.values() for names in called.values()):
        return
    met: dict[tuple[int, ...], tuple[int, Sequence[str]]] = {}
    for rank, graph in enumerate(graphs):
        for names in calls[id(graph)].values():
            other, before = met.setdefault(mesh.members(names[0], rank), (rank, names))
            unlike = next((pair for pair in zip(before, names, strict=False) if pair[0] != pair[1]), None)
            if unlike is not None and {*before} == {*names}:
                raise UserError(
                    "collective-mismatch", place=graph.path,
                    found=f"group {unlike[1]!r} on rank {rank} where rank {other} calls {unlike[0]!r}",
                    needed="groups of the same ranks that all of these call in one order",
                )  # fmt: skip


def _calls(graph: Graph, mesh: Mesh) -> dict[tuple[str, ...], list[str]]:
    """The groups that a program calls, in order, by the axes that they span; without messages."""
    found: dict[tuple[str, ...], list[str]] = {}
    for node in graph.nodes:
        row = operator_of(graph, node) if node.op == "call" and node.target != "getitem" else None
        if row is None or row.group_parameter is None or row.peer_parameter is not None:
            continue
        at = list(row.signature.parameters).index(row.group_parameter)
        name = node.kwargs.get(row.group_parameter, node.args[at] if at < len(node.args) else None)
        if isinstance(name, str) and name in mesh.groups:
            found.setdefault(mesh.groups[name], []).append(name)
    return found


def _renamed(graph: Graph, names: Mapping[str, str]) -> Graph:
    def node(old: Node) -> Node:
        row = operator_of(graph, old) if old.op == "call" and old.target != "getitem" else None
        if row is None or row.group_parameter is None:
            return old
        at = list(row.signature.parameters).index(row.group_parameter)
        args = tuple(_name(names, a) if k == at else a for k, a in enumerate(old.args))
        kwargs = {key: _name(names, a) if key == row.group_parameter else a for key, a in old.kwargs.items()}
        return replace(old, args=args, kwargs=kwargs)

    return replace(graph, nodes=tuple(map(node, graph.nodes)))


def _name(names: Mapping[str, str], group: Argument) -> Argument:
    return names.get(group, group) if isinstance(group, str) else group
