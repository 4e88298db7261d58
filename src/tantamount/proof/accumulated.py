"""Programs that both add up what they make of the blocks of a batch: one block of each, and what comes after.

The specification goes through as many blocks as all ranks of the implementation have microbatches. Block number i is
that of one microbatch on one coordinate of the mesh axes that the batch lies on. If all copies on both sides are alike,
and ranks do not speak along these axes inside of them, the proof of the first pair is, renamed, that of all. It says
which part of which summand a rank has; so the sum over all copies and coordinates of what the ranks have is the
specification's sum, with which the rest of both programs is proved.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod

from tantamount.effort import Effort
from tantamount.errors import TantamountError
from tantamount.ir.graph import Graph, Node, Output, Ref, reading, references
from tantamount.ir.job import Job
from tantamount.ir.mesh import Mesh
from tantamount.ir.relation import InputRelation, Partial, Placement, Replicate, Shard
from tantamount.ir.types import TensorType
from tantamount.ops.calls import operator_of
from tantamount.ops.classes import differs
from tantamount.proof.copies import ADD, AFTER, COMMON, SUM, Copies, NotAlike, blocks
from tantamount.proof.lemmas import InPieces, prove_in_pieces
from tantamount.proof.microbatches import AXIS, Folding, copies_of
from tantamount.proof.outputs import show
from tantamount.proof.places import places_of
from tantamount.proof.proof import Options
from tantamount.proof.simpler import relations_of, told_back
from tantamount.verdict import Assumption, Relation

__all__ = ["prove_accumulated"]

Prove = Callable[[Job, Options], InPieces | None]


def prove_accumulated(job: Job, options: Options, prove: Prove) -> InPieces | None:
    """The proof of a job of one class of ranks, both programs of which add up what they make of blocks; ``None`` where
    there is none of this kind. ``prove`` proves what comes after the blocks."""
    try:
        theirs = copies_of(job)
        ours = None if theirs is None else _copies_of_specification(job)
        if theirs is None or ours is None or ours.joined:
            return None
        return _Accumulated(job, ours, theirs).prove(options, prove)
    except (NotAlike, TantamountError):
        return None


def _copies_of_specification(job: Job) -> Copies | None:
    graph = job.specification
    found = blocks([graph])
    counts = {block.count for block in found.values()}
    if len(counts) != 1:
        return None
    copies = Copies([graph], found, counts.pop()).find()
    for output in graph.outputs:
        if output.name in job.outputs:
            copies.ask(output.node)
    return copies


@dataclass
class _Accumulated:
    """Both programs of a job with their copies."""

    job: Job
    ours: Copies
    theirs: Copies

    def prove(self, options: Options, prove: Prove) -> InPieces | None:
        """The proof of one pair of copies, and of what comes after all. Raises :class:`NotAlike` where a pair is not
        one of blocks of the same rows."""
        axes = self._axes()
        inner = self._one_block(axes)
        leaves = ({*_summands(self.ours)}, {*_summands(self.theirs)})
        first = prove_in_pieces(inner, options, least=0, places=places_of(inner), handed_on=leaves)
        if first is None:
            return None
        fold = Folding(self.job, self.theirs).simpler()
        rest = prove(self._after(fold.job, axes, first, leaves), options)
        if rest is None:
            return None
        after = [found for found in rest.relations if self.ours.label.get(found.tensor, AFTER) < 0]  # no sums of leaves
        outputs, relations, assumptions = told_back([fold], rest.outputs, after, rest.assumptions, options.effort)
        found = {relation.tensor: relation for relation in (*self._told(first, axes, options.effort), *relations)}
        ordered = [found[node.name] for node in self.job.specification.nodes if node.name in found]
        return InPieces(
            outputs,
            tuple(ordered),
            self._assumed(first.assumptions, assumptions),
            first.pieces + rest.pieces,
            (*first.proofs, *rest.proofs),
        )

    def _axes(self) -> list[str]:
        """The mesh axes that the batch lies on, whose coordinates have blocks of their own."""
        job, found = self.job, list[list[str]]()
        mine = {block.input: block for block in self.ours.blocks.values()}
        batch = {block.input: block for block in self.theirs.blocks.values()}
        for name, relation in job.inputs.items():
            if (name in mine) != (relation.name in batch):
                raise NotAlike
            if name not in mine:
                continue
            block = batch.pop(relation.name, None)
            if block is None or relation.placements is None or block.dim != mine[name].dim:
                raise NotAlike
            cut = zip(job.mesh.axes.items(), relation.placements, strict=True)
            found.append([axis for (axis, size), p in cut if size > 1 and p == Shard(block.dim)])
        count = prod(job.mesh.axes[axis] for axis in found[0]) if found else 0
        if batch or any(one != found[0] for one in found) or count * self.theirs.count != self.ours.count:
            raise NotAlike
        return found[0]

    # -- one block
    def _one_block(self, axes: Sequence[str]) -> Job:
        """The job of one block on both sides, on the mesh axes that the batch does not lie on."""
        job = self.job
        names = [axis for axis in job.mesh.names if axis not in axes]
        groups = {name: tuple(axis for axis in held if axis in names) for name, held in job.mesh.groups.items()}
        mesh = Mesh({axis: job.mesh.axes[axis] for axis in names}, groups)
        inside = _inside(self.theirs)
        for name in inside:
            node = self.theirs.graph.by_name[name]
            row = operator_of(self.theirs.graph, node) if node.op == "call" and node.target != "getitem" else None
            if row is not None and row.group_parameter is not None:
                group = row.signature.bind(*node.args, **node.kwargs).arguments.get(row.group_parameter)
                if not isinstance(group, str) or {*job.mesh.groups[group]} & {*axes}:
                    raise NotAlike
        done = {id(graph): _block_of(self.theirs, graph, inside) for graph in self.theirs.graphs}
        implementation: list[Graph] = []
        for rank in range(mesh.world_size):
            held = [job.implementation[k] for k in self._ranks(mesh, axes, rank)]
            for other in {id(graph): graph for graph in held}.values():
                if any(differs(held[0].by_name[name], [held[0], other]) for name in inside):
                    raise NotAlike
            implementation.append(done[id(held[0])])
        ours = _block_of(self.ours, job.specification, _inside(self.ours))
        batch = {block.input for block in self.ours.blocks.values()}
        wanted = {node.name for node in ours.inputs}
        held_names = {node.name for node in implementation[0].inputs}
        inputs: dict[str, InputRelation] = {}
        for name, relation in job.inputs.items():
            if name not in wanted and relation.name not in held_names:
                continue
            if relation.placements is None or name not in wanted or relation.name not in held_names:
                raise NotAlike
            by_axis = dict(zip(job.mesh.names, relation.placements, strict=True))
            if name not in batch and any(not isinstance(by_axis[axis], Replicate) for axis in axes):
                raise NotAlike
            placements = tuple(by_axis[axis] for axis in names)
            inputs[name] = replace(relation, placements=placements, text=show(placements))
        return Job(job.path, ours, tuple(implementation), mesh, inputs, {}, job.assume)

    def _ranks(self, mesh: Mesh, axes: Sequence[str], rank: int) -> list[int]:
        """The ranks of the job at the coordinates of a rank of the smaller mesh, in the order of blocks."""
        at = dict(zip(mesh.names, mesh.coordinates(rank), strict=True))
        whole = self.job.mesh
        part = Mesh({axis: whole.axes[axis] for axis in axes})
        found: list[int] = []
        for k in range(part.world_size):
            here = at | dict(zip(part.names, part.coordinates(k), strict=True))
            found.append(whole.rank(tuple(here[axis] for axis in whole.names)))
        return found

    # -- what comes after
    def _after(
        self, folded: Job, axes: Sequence[str], first: InPieces, leaves: tuple[Collection[str], Collection[str]]
    ) -> Job:
        """The job of what comes after the blocks, in which sums over all of them are inputs of the specification, and
        ranks have summands."""
        job = self.job
        given = {name: first.copies[0].get(name, name) for name in leaves[0]}
        held = {name: first.copies[1].get(name, name) for name in leaves[1]}
        inputs = {
            name: relation
            for name, relation in folded.inputs.items()
            if name not in {block.input for block in self.ours.blocks.values()}
        }
        names = [axis for axis in job.mesh.names if axis not in axes]
        for name in sorted({*held.values()}):
            if name not in first.pairs:
                raise NotAlike
            whole, found = first.pairs[name]
            by_axis: dict[str, Placement] = dict(zip(names, found, strict=True))
            by_axis.update(dict.fromkeys((*axes, AXIS), Partial("sum")))
            placements = tuple(by_axis[axis] for axis in folded.mesh.names)
            if whole in inputs:
                raise NotAlike
            inputs[whole] = InputRelation(name, placements, text=show(placements))
        totals = {*given.values(), *(whole for whole, _ in first.pairs.values() if whole in inputs)}
        specification = self._sums(given, totals)
        batch = {block.input for block in self.theirs.blocks.values()}
        done: dict[int, Graph] = {}
        for graph in folded.implementation:
            if id(graph) not in done:
                done[id(graph)] = self._rest(graph, held, batch)
        implementation = tuple(done[id(graph)] for graph in folded.implementation)
        return replace(folded, specification=specification, implementation=implementation, inputs=inputs)

    def _sums(self, given: Mapping[str, str], totals: Collection[str]) -> Graph:
        """The specification after its blocks."""
        copies, graph = self.ours, self.job.specification
        rest = _outside(copies)
        batch = {block.input for block in copies.blocks.values()}
        nodes = [_as_input(graph.by_name[name]) for name in sorted(totals)]
        for node in graph.nodes:
            if node.op == "input":
                nodes += [] if node.name in batch else [node]
            elif node.name in rest and copies.label[node.name] == SUM:
                mine, others = copies.summands(node.name)
                terms = [*(given[name] for name in mine), *others]
                if len(terms) == 1:
                    terms.append("")
                for k, more in enumerate(terms[1:]):
                    before = terms[0] if k == 0 else f"{node.name}+{k - 1}"
                    name = node.name if k == len(terms) - 2 else f"{node.name}+{k}"
                    nodes.append(
                        Node(
                            name,
                            "call",
                            ADD,
                            (Ref(before), Ref(more) if more else 0),
                            type=node.type,
                            source=node.source,
                        )
                    )
            elif node.name in rest:
                nodes.append(node)
        if len({node.name for node in nodes}) < len(nodes):
            raise NotAlike  # a node is called as one that is made here
        computed = graph.computed.union(totals)
        return replace(graph, nodes=tuple(nodes), outputs=_outputs(graph, nodes), computed=computed)

    def _rest(self, graph: Graph, held: Mapping[str, str], batch: Collection[str]) -> Graph:
        """The program of a rank after its microbatches, where they are ranks."""
        rest = _outside(self.theirs)
        label = self.theirs.label
        nodes = [_as_input(graph.by_name[name]) for name in sorted({*held.values()})]
        for node in graph.nodes:
            mine = label.get(node.name)
            shared = mine == COMMON and node.op != "input" and node.name not in rest
            if node.name in batch or (mine is not None and mine >= 0) or shared:
                continue
            nodes.append(reading(node, held))
        return replace(graph, nodes=tuple(nodes), outputs=_outputs(graph, nodes))

    # -- what is known of all blocks
    def _told(self, first: InPieces, axes: Sequence[str], effort: Effort) -> Iterator[Relation]:
        """The relations of the tensors of all blocks."""
        names = [axis for axis in self.job.mesh.names if axis not in axes]
        mesh = Mesh({axis: self.job.mesh.axes[axis] for axis in names})
        ranks = [self._ranks(mesh, axes, rank) for rank in range(mesh.world_size)]
        ours, theirs = self.ours, self.theirs
        for found, write in relations_of(first.relations, mesh, effort):
            label = ours.label.get(found.tensor)
            if label is None:
                continue
            for i in range(ours.count if label >= 0 else 1):
                at, j = divmod(i, theirs.count)
                tensor = ours.nodes[i].get(ours.number[found.tensor]) if label >= 0 else found.tensor

                def origin(rank: int, name: str, at: int = at, j: int = j) -> tuple[int, str] | None:
                    its = theirs.label.get(name)
                    held = name if its == COMMON else theirs.nodes[j].get(theirs.number.get(name, -1))
                    return None if held is None else (ranks[rank][at], held)

                text = None if tensor is None else write(origin)
                if tensor is not None and text is not None:
                    yield Relation(tensor, text, "", self.job.specification.by_name[tensor].source)

    def _assumed(self, inside: Sequence[Assumption], after: Sequence[Assumption]) -> tuple[Assumption, ...]:
        """The assumptions of one block, of all of them, and of what comes after."""

        def places(name: str) -> list[str]:
            for copies in (self.ours, self.theirs):
                if copies.label.get(name, COMMON) >= 0:
                    number = copies.number[name]
                    return [copy[number] for copy in copies.nodes if number in copy]
            return [name]

        found: dict[tuple[str, str], dict[str, None]] = {}
        for a in inside:
            found.setdefault((a.name, a.text), {}).update((p, None) for name in a.places for p in places(name))
        for a in after:
            found.setdefault((a.name, a.text), {}).update(dict.fromkeys(a.places))
        return tuple(Assumption(name, text, tuple(sites)) for (name, text), sites in found.items())


def _summands(copies: Copies) -> Iterator[str]:
    """The tensors of the first copy that are added up, or put one after the other."""
    for name in copies.needed:
        yield from copies.summands(name)[0]
    for name in copies.joined:
        yield next(iter(references(copies.graph.by_name[name])))


def _inside(copies: Copies) -> set[str]:
    """The nodes of the first copy, with what they read of what all share; without inputs."""
    kept = copies.kept()
    found: set[str] = set()
    users = copies.graph.users
    for node in reversed(copies.graph.nodes):
        label = copies.label.get(node.name)
        if node.op == "input" or node.name not in kept:
            continue
        if label == 0 or (label == COMMON and any(user in found for user in users[node.name])):
            found.add(node.name)
    return found


def _outside(copies: Copies) -> set[str]:
    """The nodes that come after the copies, with what they read of what all share, and what nobody reads."""
    kept = copies.kept()
    found: set[str] = set()
    asked = {output.node for output in copies.graph.outputs}
    users = copies.graph.users
    for node in reversed(copies.graph.nodes):
        label = copies.label.get(node.name)
        if label is None or label >= 0 or node.name not in kept:
            continue
        read = [user for user in users[node.name] if user in found]
        if label in (AFTER, SUM) or read or node.name in asked or not users[node.name]:
            found.add(node.name)
    return found


def _block_of(copies: Copies, graph: Graph, inside: Collection[str]) -> Graph:
    """The program of one block."""
    batch = {block.input: block for block in copies.blocks.values()}
    instead = {name: block.input for name, block in copies.blocks.items()}
    read = {instead.get(name, name) for one in inside for name in references(graph.by_name[one])}
    nodes: list[Node] = []
    for node in graph.nodes:
        if node.op == "input" and node.name in read and node.type is not None:
            block = batch.get(node.name)
            shape = node.type.shape if block is None else block.part_of(node.type.shape)
            nodes.append(replace(node, type=TensorType(shape, node.type.dtype)))
        elif node.name in inside:
            nodes.append(reading(node, instead))
    return replace(graph, nodes=tuple(nodes), outputs=())


def _as_input(node: Node) -> Node:
    if node.type is None:
        raise NotAlike
    return Node(node.name, "input", node.name, type=node.type, source=node.source)


def _outputs(graph: Graph, nodes: Sequence[Node]) -> tuple[Output, ...]:
    here = {node.name for node in nodes}
    return tuple(output for output in graph.outputs if output.node in here)
