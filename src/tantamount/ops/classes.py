"""Classes of ranks that run one program, so that they can be run as one, and the mesh axes that are folded for it.

A mesh axis is folded if no program depends on the coordinate along it, up to numbers. Ranks that differ in folded axes
only are a class: they are run together, with the folded axes as axes of every value. If all axes are folded, there is
one class; if none is, every rank is a class of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

from tantamount.ir.graph import Argument, Graph, Node
from tantamount.ir.mesh import Mesh
from tantamount.ops.algebra import PerRank
from tantamount.ops.calls import operator_of
from tantamount.ops.table import Operator

__all__ = ["RankClass", "differs", "merged", "rank_classes", "same_argument"]


@dataclass(frozen=True)
class RankClass:
    """Ranks that run one program. ``mesh`` has the folded axes, and of every process group the folded axes that it
    spans; ``ranks`` are in the order of that mesh. The first of them leads: it stands for all where they are alike."""

    ranks: tuple[int, ...]
    mesh: Mesh

    @property
    def leader(self) -> int:
        return self.ranks[0]


def rank_classes(
    graphs: Sequence[Graph], mesh: Mesh, fold: bool = True, exactly: bool = False
) -> tuple[RankClass, ...]:
    """The classes of all ranks, ordered by their leaders. ``fold``: whether axes may be folded at all; ``exactly``: if
    they are, only where all ranks have one graph, so that numbers are the same, too.

    An axis is folded if ranks that differ along it alone run programs of the same nodes, operators, types, references
    and collectives, exchange messages with ranks at their own coordinate along it, and all with ranks at the same
    coordinates along the axes that are not folded. So whatever a class sends goes, coordinate by coordinate, to one
    other class."""
    folded = _folded(graphs, mesh, exactly) if fold else frozenset[int]()
    names = [axis for k, axis in enumerate(mesh.names) if k in folded]
    inside = Mesh(
        {axis: mesh.axes[axis] for axis in names},
        {group: tuple(axis for axis in axes if axis in names) for group, axes in mesh.groups.items()},
    )
    if len(names) == len(mesh.names):
        return (RankClass(tuple(range(len(graphs))), inside),)
    leaders = product(*(range(1 if k in folded else size) for k, size in enumerate(mesh.sizes)))
    steps = [*product(*(range(size if k in folded else 1) for k, size in enumerate(mesh.sizes)))]
    return tuple(
        RankClass(tuple(mesh.rank(tuple(map(sum, zip(at, step, strict=True)))) for step in steps), inside)
        for at in leaders
    )


def _folded(graphs: Sequence[Graph], mesh: Mesh, exactly: bool) -> frozenset[int]:
    """The positions of the mesh axes that are folded."""
    if all(graph is graphs[0] for graph in graphs) and not any(True for _ in _posts(_said(graphs[0]))):
        return frozenset(range(len(mesh.sizes)))  # one program, and nobody speaks to a single rank
    coordinates = [mesh.coordinates(rank) for rank in range(len(graphs))]
    programs = [*map(id, graphs)] if exactly else _numbered(graphs)
    said = {key: _said(graph) for key, graph in {id(graph): graph for graph in graphs}.items()}
    peers: list[list[tuple[int, ...]]] = []
    apart = set[int]()  # positions of axes that are not folded
    for rank, graph in enumerate(graphs):
        found: list[tuple[int, ...]] = []
        for group, position in _posts(said[id(graph)]):
            members = mesh.members(group, rank) if group in mesh.groups else ()
            if not 0 <= position < len(members):  # an error, which is found where messages are matched
                return frozenset()
            found.append(coordinates[members[position]])
            apart.update(k for k, at in enumerate(found[-1]) if at != coordinates[rank][k])
        peers.append(found)
    if not any(map(any, peers)) and len(set(programs)) == 1:
        return frozenset(range(len(mesh.sizes)))  # one program, and nobody speaks to a single rank
    unlike = [
        set(mesh.group_positions(group))
        for group in {group for calls in said.values() for row, group, _ in calls if row.apart is not None}
        if group in mesh.groups
    ]  # what their members say may be unlike: they are inside classes, or between single ranks
    while True:
        seen = [[[at[k] for k in sorted(apart)] for at in found] for found in peers]
        keys = [*zip(programs, seen, strict=True)]
        more = {k for k in range(len(mesh.sizes)) if k not in apart and _varies(keys, coordinates, mesh, k)}
        for positions in unlike:
            if positions & (apart | more):
                more |= positions - apart
        if not more:
            return frozenset(range(len(mesh.sizes))) - apart
        apart |= more


def _varies(keys: Sequence[object], coordinates: Sequence[tuple[int, ...]], mesh: Mesh, axis: int) -> bool:
    """True if some rank has another key than the rank at coordinate 0 of one axis and the same of the others."""
    first = (mesh.rank((*at[:axis], 0, *at[axis + 1 :])) for at in coordinates)
    return any(key != keys[rank] for key, rank in zip(keys, first, strict=True))


def _numbered(graphs: Sequence[Graph]) -> list[int]:
    """A number for every graph, equal where graphs are isomorphic."""
    first: list[Graph] = []
    known: dict[int, int] = {}
    for graph in graphs:
        if id(graph) not in known:
            found = next((k for k, other in enumerate(first) if _isomorphic(other, graph)), len(first))
            if found == len(first):
                first.append(graph)
            known[id(graph)] = found
    return [known[id(graph)] for graph in graphs]


def _isomorphic(first: Graph, other: Graph) -> bool:
    """True if two graphs are one program up to numbers: the same nodes, operators, types and references. Of what is
    said to other ranks only the peers of messages may differ."""
    if len(other.nodes) != len(first.nodes) or other.outputs != first.outputs:
        return False
    return all(_alike(first, a, b) for a, b in zip(first.nodes, other.nodes, strict=True))


def _alike(graph: Graph, a: Node, b: Node) -> bool:
    if (a.name, a.op, a.target, a.type) != (b.name, b.op, b.target, b.type) or a.kwargs.keys() != b.kwargs.keys():
        return False
    if len(a.args) != len(b.args):
        return False
    pairs = [*enumerate(zip(a.args, b.args, strict=True)), *((key, (a.kwargs[key], b.kwargs[key])) for key in a.kwargs)]
    unequal = [(key, x, y) for key, (x, y) in pairs if not same_argument(x, y)]
    if not unequal:
        return True
    row = _communication(graph, a)
    if row is not None:
        names = list(row.signature.parameters)
        if any(row.peer_parameter != (names[key] if isinstance(key, int) else key) for key, _, _ in unequal):
            return False
    return all(_same_shape(x, y) for _, x, y in unequal)


def _same_shape(a: Argument, b: Argument) -> bool:
    """Equal up to numbers."""
    if isinstance(a, tuple):
        return isinstance(b, tuple) and len(a) == len(b) and all(map(_same_shape, a, b))
    if isinstance(a, (int, float)) and isinstance(b, (int, float)):
        return type(a) is type(b)
    return type(a) is type(b) and a == b


def same_argument(a: Argument, b: Argument) -> bool:
    """Exactly equal: 1, 1.0 and True are three values."""
    if isinstance(a, tuple):
        return isinstance(b, tuple) and len(a) == len(b) and all(map(same_argument, a, b))
    return type(a) is type(b) and a == b


def differs(node: Node, graphs: Sequence[Graph]) -> bool:
    """True if ranks with these graphs have other attributes of a node, another constant, or no such node at all."""
    for other in graphs[1:]:
        first = graphs[0]
        if other is first:
            continue
        peer = other.by_name.get(node.name)
        if peer is None or (peer.op, peer.target, peer.kwargs.keys()) != (node.op, node.target, node.kwargs.keys()):
            return True
        if not same_argument(node.args, peer.args):
            return True
        if not all(same_argument(node.kwargs[key], peer.kwargs[key]) for key in node.kwargs):
            return True
        if node.op == "constant" and other.constants.get(node.target) != first.constants.get(node.target):
            return True
    return False


class _Missing(Exception):
    """A number that differs by rank, and is no operand."""


def merged(node: Node, nodes: Sequence[Node], graph: Graph) -> Node | None:
    """The node with numbers that differ by rank as :class:`PerRank`, if the definition takes them all as operands."""
    if node.op != "call" or node.target == "getitem":
        return None
    row = operator_of(graph, node)
    names = list(row.signature.parameters)

    def per_rank(values: Sequence[Argument], kind: str) -> Any:
        if all(same_argument(values[0], v) for v in values):
            return values[0]
        if kind.rstrip("?") in ("Operand", "Scalar") and all(isinstance(v, (int, float)) for v in values):
            return PerRank(tuple(v for v in values if isinstance(v, (int, float))))
        raise _Missing

    try:
        args = tuple(
            per_rank([n.args[k] for n in nodes], row.parameters[names[k]].kind if k < len(names) else "")
            for k in range(len(node.args))
        )
        kwargs = {
            key: per_rank([n.kwargs[key] for n in nodes], row.parameters[key].kind if key in row.parameters else "")
            for key in node.kwargs
        }
    except _Missing:
        return None
    return replace(node, args=args, kwargs=kwargs)


def _communication(graph: Graph, node: Node) -> Operator | None:
    """The operator of a node that concerns other ranks."""
    if node.op != "call" or node.target == "getitem":
        return None
    row = operator_of(graph, node)
    return row if row.group_parameter is not None else None


def _said(graph: Graph) -> list[tuple[Operator, str, tuple[int, ...]]]:
    """The operators that concern other ranks, with their groups and the positions of the peers of messages; without
    calls that do not fit, which are refused where they are run."""
    found: list[tuple[Operator, str, tuple[int, ...]]] = []
    for node in graph.nodes:
        row = _communication(graph, node)
        if row is None:
            continue
        try:
            arguments: dict[str, Any] = row.signature.bind(*node.args, **node.kwargs).arguments
        except TypeError:
            continue
        peers: int | tuple[int, ...] = arguments.get(row.peer_parameter or "", ())
        group: str = arguments.get(row.group_parameter or "", "")
        found.append((row, group, peers if isinstance(peers, tuple) else (peers,)))
    return found


def _posts(said: Sequence[tuple[Operator, str, tuple[int, ...]]]) -> Iterator[tuple[str, int]]:
    """The group and the position of every peer of a message, in order."""
    for _, group, peers in said:
        for peer in peers:
            yield group, peer
