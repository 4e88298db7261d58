"""Process groups of ranks that run one program."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from tantamount.ir.graph import Argument, Graph, Node
from tantamount.ir.mesh import Mesh
from tantamount.ops.calls import operator_of

__all__ = ["with_one_name_per_group"]


def with_one_name_per_group(graphs: Sequence[Graph], mesh: Mesh) -> tuple[Graph, ...]:
    """The graphs with every process group called by the first name among those that span the same mesh axes.

    Frameworks number their groups, so that the same collective names group "1" on rank 0 and "3" on rank 1. Which
    ranks take part, and in which order, depends on the axes alone, and collectives are matched by members. Ranks that
    share a graph still do."""
    first: dict[tuple[str, ...], str] = {}
    names = {name: first.setdefault(axes, name) for name, axes in mesh.groups.items()}
    if all(name == other for name, other in names.items()):
        return tuple(graphs)
    renamed = {key: _renamed(graph, names) for key, graph in {id(graph): graph for graph in graphs}.items()}
    return tuple(renamed[id(graph)] for graph in graphs)


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
