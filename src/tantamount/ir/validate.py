"""The structure of a graph: names, references, outputs. Types are checked in ``ops.check``."""

from __future__ import annotations

from tantamount.errors import UserError
from tantamount.ir.graph import Graph, Node, references

__all__ = ["check_structure", "node_place"]


def node_place(path: str, node: Node) -> str:
    """``file: node add_1 (model.py:12)``."""
    return f"{path}: node {node.name}" + (f" ({node.source})" if node.source else "")


def check_structure(graph: Graph) -> None:
    """Raise :class:`UserError` unless node names are distinct, every reference points backwards, and the outputs are
    nodes of the graph with distinct names."""
    position: dict[str, int] = {}
    for number, node in enumerate(graph.nodes):
        if node.name in position:
            raise UserError(
                "graph-duplicate-node",
                place=node_place(graph.path, node),
                found=f"nodes {position[node.name]} and {number} with the same name",
                needed="a name of its own for every node",
            )
        position[node.name] = number
    for number, node in enumerate(graph.nodes):
        for name in references(node):
            if position.get(name, number) >= number:
                raise _bad_reference(graph.path, node, name, position)
    names: set[str] = set()
    for output in graph.outputs:
        if output.node not in position:
            raise UserError(
                "graph-unknown-output",
                place=f"{graph.path}: output {output.name}",
                found=f"node {output.node!r}, which the graph does not have",
                needed="the name of a node",
            )
        if output.name in names:
            raise UserError(
                "graph-duplicate-output",
                place=f"{graph.path}: output {output.name}",
                found="two outputs of that name",
                needed="a name of its own for every output",
            )
        names.add(output.name)


def _bad_reference(path: str, node: Node, name: str, position: dict[str, int]) -> UserError:
    if name not in position:
        return UserError(
            "graph-unknown-node",
            place=node_place(path, node),
            found=f"a reference to {name!r}, which is no node of the graph",
            needed="the name of an earlier node",
        )
    return UserError(
        "graph-node-order",
        place=node_place(path, node),
        found=f"a reference to {name!r}, which comes later" if name != node.name else "a reference to itself",
        needed="nodes in execution order, each using earlier ones only",
        hint="a cycle, or nodes that were reordered after capture",
    )
