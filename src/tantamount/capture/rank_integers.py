"""Numbers that follow from the number of the rank alone, written out: one graph per rank.

A program that all ranks run computes where its part begins from ``partition-id``, with divisions and remainders that
say nothing to the calculus. For each rank these are numbers, and a window at a known place is a matter of layout.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import prod

from tantamount.ir.graph import Argument, Constant, Graph, Node, Ref, references
from tantamount.ir.mesh import Mesh
from tantamount.ir.types import Kind
from tantamount.semantics.interpret import Evaluation, interpret_ranks
from tantamount.semantics.reference import Array

__all__ = ["with_rank_integers"]

_NUMBER = "hlo.partition-id"
_LARGEST = 1 << 16  # elements of a tensor that is written out
_WHOLE = (Kind.INT, Kind.BOOL)


def with_rank_integers(graph: Graph, mesh: Mesh) -> tuple[Graph, ...]:
    """One graph per rank: integers and booleans that follow from the rank's number and constants are constants. They
    are computed by executing that part of the program, on all ranks together."""
    closed: dict[str, Node] = {}  # what follows from constants and the number
    numbered: set[str] = set()  # what the number has a part in
    for node in graph.nodes:
        read = set(references(node))
        known = read <= closed.keys() if node.op == "call" else node.target in graph.constants
        if not known or node.type is None or prod(node.type.shape) > _LARGEST:
            continue
        closed[node.name] = node
        if node.target == _NUMBER or read & numbered:
            numbered.add(node.name)
    folded = {name for name in numbered if (type_ := closed[name].type) is not None and type_.dtype.kind in _WHOLE}
    if not folded:
        return (graph,) * mesh.world_size
    part = replace(graph, nodes=tuple(closed.values()), outputs=())
    nothing: Mapping[str, Array] = {}
    found = interpret_ranks([part] * mesh.world_size, mesh, [nothing] * mesh.world_size)
    return tuple(_written_out(graph, folded, values) for values in found)


def _written_out(graph: Graph, folded: set[str], values: Evaluation) -> Graph:
    nodes: list[Node] = []
    constants = dict(graph.constants)
    for node in graph.nodes:
        if node.name not in folded or node.type is None:
            nodes.append(_update_at(node, values))
            continue
        data = tuple(values.array(node.name).reshape(-1).tolist())
        if len(set(data)) == 1:
            kwargs: dict[str, Argument] = {"shape": node.type.shape, "dtype": node.type.dtype}
            nodes.append(Node(node.name, "call", "hlo.constant", (data[0],), kwargs, node.type, node.source))
        else:
            nodes.append(Node(node.name, "constant", node.name, (), {}, node.type, node.source))
            constants[node.name] = Constant(node.type, data)
    return replace(graph, nodes=_needed(nodes, graph), constants=constants)


def _update_at(node: Node, values: Evaluation) -> Node:
    """``dynamic-update-slice`` with its place as a number, if it is known."""
    if node.target != "hlo.dynamic-update-slice":
        return node
    *tensors, starts = node.args
    names = [start.name for start in starts if isinstance(start, Ref)] if isinstance(starts, tuple) else []
    if not all(name in values for name in names):
        return node
    places = tuple(int(values.array(name)) for name in names)
    return replace(node, target="hlo.update-slice-at", args=tuple(tensors), kwargs={"start_indices": places})


def _needed(nodes: Sequence[Node], graph: Graph) -> tuple[Node, ...]:
    """Without those that nothing reads any more."""
    read = {output.node for output in graph.outputs}
    kept: list[Node] = []
    for node in reversed(nodes):
        if node.name in read or node.op == "input":
            kept.append(node)
            read |= set(references(node))
    return tuple(reversed(kept))
