"""Gradients to which only a rank's own rows contribute, as a change of the specification: for backward passes that
never compute what they leave out, so that no node of theirs is a part of anything.

Ranks along an axis have parts of a sequence, and the gradients ``d`` that come back are cut along it: let ``d(k)`` be
``d`` with zeros but for the part of coordinate ``k``. A tensor ``X`` of the specification is a function of ``d``,
linear if it is a gradient: ``X(d)`` is the sum of all ``X(d(k))``, of which coordinate ``k`` contributes one. In the
place of ``X`` comes what ranks have that leave out what others contribute: the parts ``k`` of ``X(d(k))``, one after
the other.
Nothing else of the specification changes; the implementation stays what it is, and all that is proved of it is proved
against that. So what is claimed does not rest on how ranks compute it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace

from tantamount.capture.strict import NotThat
from tantamount.ir.graph import Argument, Graph, Node, Ref, reading, references
from tantamount.ir.job import Job
from tantamount.ir.relation import Shard
from tantamount.ir.types import TensorType
from tantamount.ops.calls import operator_of
from tantamount.sizes.symbolic import is_size

__all__ = ["own_job"]


def own_job(job: Job, tensors: Mapping[str, int], axis: str, gradients: Collection[str]) -> Job:
    """The job whose specification has the ranks' own contributions in the place of ``tensors``, of which ranks along
    ``axis`` have equal parts of the dimension that is given. ``gradients`` are its inputs that come back. Raises
    :class:`NotThat`."""
    graph = job.specification
    masks = {name: _cut(job, name, axis) for name in gradients}
    if not masks:
        raise NotThat("a tensor of a part to which no gradients come")
    late = set(masks)
    for node in graph.nodes:
        if not late.isdisjoint(references(node)):
            late.add(node.name)
    cones: dict[str, set[str]] = {}
    for name, dim in tensors.items():
        node = graph.by_name.get(name)
        if node is None or node.op == "input":
            raise NotThat(f"{name}, which no operator of {graph.path} gives")
        if name not in late:
            raise NotThat(f"{name}, which no gradient that comes back has a part in")
        _part(node, dim, job.mesh.axes[axis])
        cones[name] = _before(graph, name) & late
    for name, cone in cones.items():
        also = sorted(cone & cones.keys() - {name})
        if also:
            raise NotThat(f"{name}, which depends on {also[0]}, another one that is declared")
    copies = _Copies(graph, masks, {node.name for node in graph.nodes}, job.mesh.axes[axis], axis)
    nodes: list[Node] = []
    for node in graph.nodes:
        if node.name in cones:
            nodes += copies.own(node, tensors[node.name], cones[node.name])
        else:
            nodes.append(node)
    return replace(job, specification=replace(graph, nodes=tuple(nodes)), counted=job.counted | {axis})


def _cut(job: Job, name: str, axis: str) -> int:
    """The dimension of a gradient along which ranks of the axis have equal parts, each in one piece."""
    node, placements = job.specification.by_name[name], job.inputs[name].placements
    own = None if placements is None else placements[job.mesh.names.index(axis)]
    if placements is None or not isinstance(own, Shard):
        raise NotThat(f"a tensor of a part whose gradient {name} is not cut along {axis}")
    outer = zip(job.mesh.names[: job.mesh.names.index(axis)], placements, strict=False)
    before = [one for one, other in outer if other == own and job.mesh.axes[one] > 1]
    if before:
        raise NotThat(
            f"a tensor of a part whose gradient {name} {before[0]} cuts before {axis} does, along dimension {own.dim}"
        )
    _part(node, own.dim, job.mesh.axes[axis])
    return own.dim


def _part(node: Node, dim: int, count: int) -> tuple[TensorType, int]:
    """The type of a node, and the length of one of ``count`` equal parts."""
    type_ = node.type
    if type_ is None:
        raise NotThat(f"{node.name}, of whose type the file says nothing")
    if not 0 <= dim < len(type_.shape):
        raise NotThat(f"{node.name}, {type_}, which has no dimension {dim}")
    if any(is_size(size) for size in type_.shape):
        raise NotThat(f"{node.name}, {type_}, whose size is a symbol")
    length, rest = divmod(type_.shape[dim], count)
    if rest or not length:
        raise NotThat(f"{node.name}, {type_}, which has no {count} equal parts along dimension {dim}")
    return type_, length


def _before(graph: Graph, name: str) -> set[str]:
    """The names of a node and of all that it is computed from."""
    found, pending = set[str](), [name]
    while pending:
        one = pending.pop()
        if one not in found:
            found.add(one)
            pending += references(graph.by_name[one])
    return found


@dataclass
class _Copies:
    """Copies of what is computed of the gradients, one for each coordinate: every node once."""

    graph: Graph
    cuts: Mapping[str, int]
    taken: set[str]
    count: int
    axis: str
    known: list[dict[str, str]] = field(init=False)
    cut: dict[str, tuple[list[Ref], Ref]] = field(default_factory=dict[str, tuple[list[Ref], Ref]])

    def __post_init__(self) -> None:
        self.known = [{} for _ in range(self.count)]

    def own(self, node: Node, dim: int, cone: Collection[str]) -> Iterator[Node]:
        """The nodes that give the parts of a tensor to which the coordinates themselves contribute, as that tensor;
        ``cone``: the nodes that it depends on and that depend on the gradients."""
        parts: list[Argument] = []
        for number, names in enumerate(self.known):
            for one in self.graph.nodes:
                if one.name not in cone or one.name in names:
                    continue
                if one.op == "input":
                    yield from self._masked(one, number, names)
                    continue
                if one.target != "getitem" and operator_of(self.graph, one).facts.random:
                    raise NotThat(f"{node.name}, which {one.name}, {one.target}, computes, and not the same twice")
                names[one.name] = self._name(f"{one.name}.{self.axis}{number}")
                yield replace(reading(one, names), name=names[one.name])
            split, *pieces = self._split(replace(node, name=names[node.name]), dim)
            parts.append(Ref(pieces[number].name))
            yield from (split, pieces[number])
        yield Node(node.name, "call", "aten.cat.default", (tuple(parts), dim), {}, node.type, node.source)

    def _masked(self, node: Node, number: int, names: dict[str, str]) -> Iterator[Node]:
        """A gradient with zeros but for the part of one coordinate."""
        dim = self.cuts[node.name]
        if node.name not in self.cut:
            split, *pieces = self._split(node, dim)
            zero = Node(
                self._name(f"{node.name}.zero"), "call", "aten.zeros_like.default", (Ref(pieces[0].name),),
                type=pieces[0].type, source=node.source,
            )  # fmt: skip
            self.cut[node.name] = [Ref(piece.name) for piece in pieces], Ref(zero.name)
            yield from (split, *pieces, zero)
        own, none = self.cut[node.name]
        parts: tuple[Argument, ...] = tuple(one if k == number else none for k, one in enumerate(own))
        names[node.name] = self._name(f"{node.name}.{self.axis}{number}")
        yield Node(names[node.name], "call", "aten.cat.default", (parts, dim), {}, node.type, node.source)

    def _split(self, node: Node, dim: int) -> Iterator[Node]:
        """The equal parts of a tensor, after the node that makes them all: where sizes are made smaller, no part may
        become longer than another one, or begin elsewhere."""
        type_, length = _part(node, dim, self.count)
        shape = (*type_.shape[:dim], length, *type_.shape[dim + 1 :])
        split = Node(self._name(f"{node.name}.split"), "call", "aten.split.Tensor", (Ref(node.name), length, dim))
        yield replace(split, source=node.source)
        for number in range(self.count):
            name = self._name(f"{node.name}.part{number}")
            yield Node(name, "call", "getitem", (Ref(split.name), number), {}, replace(type_, shape=shape), node.source)

    def _name(self, made: str) -> str:
        while made in self.taken:
            made += "_"
        self.taken.add(made)
        return made
