"""Microbatches as a mesh axis: a program that does the same with every block of its batch, as one that does it once.

If every copy does what the first one does (:mod:`tantamount.proof.copies`), ranks along a new mesh axis can each do one
of them. Where copies come together, a sum of one tensor of each is a reduction over the axis, and a concatenation
gathers along it. Anything else that meets is no case for this, and the program stays what it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from tantamount.errors import TantamountError
from tantamount.ir.graph import Graph, Node, Output, Ref, reading, references
from tantamount.ir.job import Job
from tantamount.ir.mesh import Mesh
from tantamount.ir.relation import (
    Expectation,
    Expression,
    InputRelation,
    RankTensor,
    Replicate,
    Shard,
    rank_tensors,
    with_tensors,
)
from tantamount.ir.types import TensorType
from tantamount.ops.classes import rank_classes
from tantamount.ops.relations import even
from tantamount.proof.copies import ADD, JOINS, SUM, Copies, NotAlike, blocks
from tantamount.proof.outputs import output_node, show
from tantamount.proof.simpler import Simpler

__all__ = ["AXIS", "Folding", "as_ranks", "copies_of"]

AXIS = "microbatch"
_REDUCE = "_c10d_functional.all_reduce.default"
_GATHER = "_c10d_functional.all_gather_into_tensor.default"
_UNSQUEEZE = "aten.unsqueeze.default"


def copies_of(job: Job) -> Copies | None:
    """The copies of the one program of a job's ranks; ``None`` where there are none that are alike and come together
    before all that the job asks about."""
    graphs = job.programs
    if job.at is not None or any(graph.groups or graph.sizes.symbols for graph in graphs):
        return None
    if len(graphs) > 1 and len(rank_classes(job.implementation, job.mesh)) > 1:
        return None
    found = blocks(graphs)
    if not found:
        return None
    for count in sorted({block.count for block in found.values()}, reverse=True):
        mine = {name: block for name, block in found.items() if block.count == count}
        try:
            copies = Copies(graphs, mine, count).find()
            for name in _asked(job):
                copies.ask(name)
        except (NotAlike, TantamountError):
            continue
        return copies
    return None


def as_ranks(job: Job) -> Simpler | None:
    """The job with microbatches as the last axis of its mesh; ``None`` where there are none that are alike."""
    copies = copies_of(job)
    try:
        return None if copies is None else Folding(job, copies).simpler()
    except (NotAlike, TantamountError):
        return None


def _asked(job: Job) -> set[str]:
    """The nodes that the job asks about. Raises :class:`NotAlike` where it leaves that open."""
    found: set[str] = set()
    for asked in job.outputs.values():
        if asked.infer or asked.problem:
            raise NotAlike
        terms = {term.name for pair in asked.equal for side in pair for term in rank_tensors(side)} | {
            term.name for term in _terms(asked)
        }
        if asked.placements is not None:
            terms.add(asked.name)
        found.update(output_node(job, 0, term or asked.name) for term in terms)
    return found


@dataclass
class Folding:
    """A job whose microbatches become a mesh axis."""

    job: Job
    copies: Copies

    def simpler(self) -> Simpler:
        """Raises :class:`NotAlike` where the copies cannot be ranks."""
        graphs = {id(graph): self.folded(graph) for graph in self.copies.graphs}
        return self._job(graphs)

    # -- the folded program
    def folded(self, graph: Graph) -> Graph:
        """The program of all ranks along the new axis."""
        kept = self.copies.kept()
        nodes: list[Node] = []
        instead = {name: block.input for name, block in self.copies.blocks.items()}
        after: dict[str, list[str]] = {}  # sums by what is summed last in the first copy: in the same layer
        position = {node.name: k for k, node in enumerate(graph.nodes)}
        for name in self.copies.needed:
            mine, others = self.copies.summands(name)
            after.setdefault(max((*mine, *others), key=position.__getitem__), []).append(name)
        inputs = {block.input: block for block in self.copies.blocks.values()}
        for node in graph.nodes:
            if node.op == "input" and node.name in inputs and node.type is not None:
                block = inputs[node.name]
                nodes.append(replace(node, type=TensorType(block.part_of(node.type.shape), node.type.dtype)))
            elif node.name not in kept or self.copies.label[node.name] == SUM:
                continue
            elif node.name in self.copies.joined:
                nodes += self._gathering(node)
            else:
                nodes.append(reading(node, instead))
            for name in after.get(node.name, ()):
                nodes += self._reduction(graph.by_name[name])
        if len({node.name for node in nodes}) < len(nodes):
            raise NotAlike  # a node is called as one that is made here
        outputs = tuple(
            Output(o.name, o.node) for o in graph.outputs if o.node in kept and self.copies.label[o.node] < 0
        )
        return replace(graph, nodes=tuple(nodes), outputs=outputs)

    def _reduction(self, node: Node) -> list[Node]:
        """The sum over all copies: of the first copy's summands, then over the ranks, then with what all share."""
        mine, others = self.copies.summands(node.name)
        if self.copies.blocks.keys() & {*mine}:
            raise NotAlike
        nodes: list[Node] = []
        total = mine[0]
        for k, more in enumerate(mine[1:]):
            nodes.append(Node(f"{node.name}+{k}", "call", ADD, (Ref(total), Ref(more)), type=node.type))
            total = nodes[-1].name
        name = f"{node.name}+all" if others else node.name
        nodes.append(Node(name, "call", _REDUCE, (Ref(total), "sum", AXIS), type=node.type, source=node.source))
        for k, more in enumerate(others):
            made = node.name if k == len(others) - 1 else f"{node.name}+and{k}"
            nodes.append(Node(made, "call", ADD, (Ref(name), Ref(more)), type=node.type, source=node.source))
            name = made
        return nodes

    def _gathering(self, node: Node) -> list[Node]:
        """One tensor of each copy, one after the other."""
        first = self.copies.graph.by_name[next(iter(references(node)))]
        if first.type is None:
            raise NotAlike
        held, nodes = first.name, list[Node]()
        if JOINS[node.target]:
            held = f"{node.name}+one"
            type_ = TensorType((1, *first.type.shape), first.type.dtype)
            nodes.append(Node(held, "call", _UNSQUEEZE, (Ref(first.name), 0), type=type_))
        if first.name in self.copies.blocks:
            raise NotAlike
        args = (Ref(held), self.copies.count, AXIS)
        return [*nodes, Node(node.name, "call", _GATHER, args, type=node.type, source=node.source)]

    def _job(self, graphs: Mapping[int, Graph]) -> Simpler:
        job = self.job
        if AXIS in job.mesh.axes or AXIS in job.mesh.groups:
            raise NotAlike
        mesh, at = self.mesh, self.position
        batch = {block.input: block for block in self.copies.blocks.values()}
        inputs: dict[str, InputRelation] = {}
        halved: set[str] = set()
        for name, relation in job.inputs.items():
            block = batch.get(relation.name)
            if relation.placements is not None:
                more = Replicate() if block is None else Shard(block.dim)
                placements = (*relation.placements[:at], more, *relation.placements[at:])
                whole = job.specification.by_name[name].type
                if block is not None:
                    if whole is None or relation.name in halved or not even(whole.shape, placements, mesh.sizes):
                        raise NotAlike
                    halved.add(relation.name)
                inputs[name] = replace(relation, placements=placements, text=show(placements))
                continue
            terms = {term.name or relation.name for term in _terms(relation)}
            if relation.expression is None or terms & batch.keys():
                raise NotAlike
            expression = with_tensors(relation.expression, self._first)
            inputs[name] = replace(relation, expression=expression, equal=self._equal(relation), text=str(expression))
        if halved != {*batch}:
            raise NotAlike
        outputs: dict[str, Expectation] = {}
        for name, asked in job.outputs.items():
            equal = tuple((with_tensors(a, self._first), with_tensors(b, self._first)) for a, b in asked.equal)
            if asked.placements is not None:
                placements = (*asked.placements[:at], Replicate(), *asked.placements[at:])
                outputs[name] = replace(asked, placements=placements, equal=equal)
            elif asked.expression is not None:
                expression = with_tensors(asked.expression, self._first)
                outputs[name] = replace(asked, expression=expression, equal=equal)
        implementation = tuple(graphs[id(job.implementation[self._where(k)[0]])] for k in range(mesh.world_size))
        simple = replace(job, implementation=implementation, mesh=mesh, inputs=inputs, outputs=outputs, record=None)

        def origin(rank: int, name: str) -> tuple[int, str] | None:
            label = self.copies.label.get(name)
            if label is None:  # an input of the batch, or made here
                return None
            held, copy = self._where(rank)
            found = name if label < 0 else self.copies.nodes[copy].get(self.copies.number[name])
            return None if found is None else (held, found)

        def alike(name: str) -> bool:
            return self.copies.label.get(name, 0) < 0

        return Simpler(job, simple, origin, alike, lambda place: place, at)

    # -- ranks
    @cached_property
    def position(self) -> int:
        """The position of the new mesh axis: behind those that the batch lies on, as its rows are cut, and before those
        that heads and channels lie on."""
        batch = {block.input: block.dim for block in self.copies.blocks.values()}
        found = 0
        for relation in self.job.inputs.values():
            for k, placement in enumerate(relation.placements or ()):
                if relation.name in batch and placement == Shard(batch[relation.name]):
                    found = max(found, k + 1)
        return found

    @cached_property
    def mesh(self) -> Mesh:
        """The mesh with the new axis."""
        axes = [*self.job.mesh.axes.items()]
        axes.insert(self.position, (AXIS, self.copies.count))
        return Mesh(dict(axes), {**self.job.mesh.groups, AXIS: (AXIS,)})

    def _where(self, rank: int) -> tuple[int, int]:
        """The rank of the job that a rank of the new mesh is, and which copy."""
        at = self.mesh.coordinates(rank)
        k = self.position
        return self.job.mesh.rank((*at[:k], *at[k + 1 :])), at[k]

    def _rank(self, rank: int, copy: int) -> int:
        at = self.job.mesh.coordinates(rank)
        return self.mesh.rank((*at[: self.position], copy, *at[self.position :]))

    def _first(self, term: RankTensor) -> RankTensor:
        """The tensor, on the rank that does the first copy."""
        return RankTensor(self._rank(term.rank, 0), term.name)

    def _equal(self, relation: InputRelation) -> tuple[tuple[Expression, Expression], ...]:
        """The equalities of a relation, and that all ranks along the new axis have the same."""
        equal: list[tuple[Expression, Expression]] = [
            (with_tensors(a, self._first), with_tensors(b, self._first)) for a, b in relation.equal
        ]
        sides = [t for pair in relation.equal for side in pair for t in rank_tensors(side)]
        terms = {(t.rank, t.name): t for t in (*_terms(relation), *sides)}
        for term in terms.values():
            ranks = [self._rank(term.rank, copy) for copy in range(self.copies.count)]
            equal += [(RankTensor(ranks[0], term.name), RankTensor(k, term.name)) for k in ranks[1:]]
        return tuple(equal)


def _terms(relation: InputRelation | Expectation) -> list[RankTensor]:
    return [] if relation.expression is None else [*rank_tensors(relation.expression)]
