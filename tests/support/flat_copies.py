"""Plans whose copies have degrees of their own as one job: every pipeline on one device, all devices of as many ranks.

Nothing of this is how plans are verified; it is what the composition of their parts is held against.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from support.flat_plans import Program, flat_program
from tantamount.ir.graph import Argument, Graph, Output, Ref
from tantamount.ir.job import Job
from tantamount.ir.mesh import Mesh
from tantamount.ir.relation import (
    Concat,
    Equality,
    Expectation,
    Expression,
    InputRelation,
    RankTensor,
    Replicate,
    Slice,
)
from tantamount.ir.relation_types import box_at
from tantamount.plan.parts import Part, Piece, Plan, Runs

__all__ = ["flat_copies"]

Box = tuple[tuple[int, int], ...]
Holders = list[tuple[Expression, Box]]


def flat_copies(plan: Plan) -> Job:
    """The job of a plan on a mesh of devices and ranks; groups of a stage have all of its ranks, or one of them."""
    assert len(plan.stages) == plan.devices == plan.copies == len(plan.ways)
    flat = _Flat(plan)
    inputs, outputs = dict[str, InputRelation](), dict[str, Expectation]()
    more: list[Output] = []
    specification = flat_program(plan, None)
    for piece in plan.pieces:
        for name in plan.parts[piece.part].data:
            held, equal = _together(list(flat.rows(piece, name)))
            inputs[f"{piece}.{name}"] = InputRelation(f"{piece}.{name}", None, held, equal, "rows")
        for name in plan.parts[piece.part].parameters:
            label = f"{piece}.{name}"
            own = [list(flat.holders(piece, name, label, way)) for way in range(plan.copies)]
            held, equal = _together(own[0])
            shared = tuple(pair for other in own[1:] for pair in _alike(own[0], other))
            inputs[label] = InputRelation(label, None, held, (*equal, *shared), "in all pipelines")
            for way in range(plan.copies):
                made, same = _together(list(flat.holders(piece, name, f"new {label}", way)))
                outputs[f"new {label}, {way}"] = Expectation(f"new {label}", None, made, same, "as it was")
                node = next(output.node for output in specification.outputs if output.name == f"new {label}")
                more.append(Output(f"new {label}, {way}", node))
    for name in plan.symbols:
        inputs[name] = InputRelation(name, (Replicate(), Replicate()))
    mesh = Mesh(
        {"pp": plan.devices, "k": flat.ranks},
        {"pp": ("pp",), "k": ("k",), "alone": (), "world": ("pp", "k")},
    )
    specification = replace(specification, outputs=(*specification.outputs, *more))
    programs = tuple(flat.program(rank) for rank in range(mesh.world_size))
    return Job("flat", specification, programs, mesh, inputs, outputs)


def _together(holders: Holders) -> tuple[Expression, tuple[Equality, ...]]:
    """The whole as what ranks have of it, and those that have the same."""
    first: dict[Box, Expression] = {}
    equal: list[Equality] = []
    for expression, box in holders:
        if box in first:
            equal.append((first[box], expression))
        first.setdefault(box, expression)
    boxes = sorted(first)
    cut = [dim for dim in range(len(boxes[0])) if len({box[dim] for box in boxes}) > 1]
    parts = tuple(first[box] for box in boxes)
    return (Concat(parts, *cut) if cut else parts[0]), tuple(equal)


def _alike(some: Holders, others: Holders) -> Iterator[Equality]:
    """What two pipelines have of one tensor is equal where it is the same part of it."""
    first: dict[Box, Expression] = {}
    for one, box in some:
        first.setdefault(box, one)
    for here, one in first.items():
        for other, there in others:
            both = [(max(a[0], b[0]), min(a[1], b[1])) for a, b in zip(here, there, strict=True)]
            if all(start < stop for start, stop in both):
                cuts = (
                    tuple((start - at[0], stop - at[0], 1) for (start, stop), at in zip(both, box, strict=True))
                    for box in (here, there)
                )
                yield Slice(one, next(cuts)), Slice(other, next(cuts))


@dataclass
class _Flat:
    plan: Plan
    ranks: int = field(init=False)

    def __post_init__(self) -> None:
        part = self.plan.parts[self.plan.pieces[0].part]
        self.ranks = part.job.mesh.world_size // self.plan.microbatches

    def device(self, way: int) -> int:
        return self.plan.schedule.owners[self.plan.schedule.chains[way].stages[0]]

    def holders(self, piece: Piece, name: str, label: str, way: int) -> Iterator[tuple[Expression, Box]]:
        """What the ranks of a pipeline have of a parameter."""
        for k in range(self.ranks):
            yield RankTensor(self.device(way) * self.ranks + k, label), _box(self.plan.ways[way][piece.part], name, k)

    def rows(self, piece: Piece, name: str) -> Iterator[tuple[Expression, Box]]:
        """What the ranks of all pipelines have of the data, those of its own microbatches one after the other."""
        for way, chain in enumerate(self.plan.schedule.chains):
            part = self.plan.ways[way][piece.part]
            for place, microbatch in enumerate(chain.microbatches):
                for k in range(self.ranks):
                    box = _box(part, name, microbatch * self.ranks + k)
                    count = box[0][1] - box[0][0]
                    rest = tuple((0, stop - start, 1) for start, stop in box[1:])
                    tensor = RankTensor(self.device(way) * self.ranks + k, f"{piece}.{name}")
                    yield Slice(tensor, ((place * count, (place + 1) * count, 1), *rest)), box

    def program(self, rank: int) -> Graph:
        """All that a rank does."""
        plan = self.plan
        device, k = divmod(rank, self.ranks)
        way = next(w for w in range(plan.copies) if self.device(w) == device)
        parts, microbatches = plan.ways[way], plan.schedule.chains[way].microbatches
        program, outputs = Program(), dict[str, str]()
        own: dict[Piece, dict[str, str]] = {piece: {} for piece in plan.pieces}
        whole = {name: name for name in plan.symbols}
        some = next(part for part in parts.values() if plan.symbols[0] in part.job.inputs)
        program.nodes |= {name: some.job.implementation[0].by_name[name] for name in plan.symbols}
        made: dict[tuple[Piece, str], list[str]] = {}
        for turn in range(len(microbatches)):
            for at, piece in enumerate(plan.pieces):
                part, given = parts[piece.part], dict[str, str]()
                graph = _renamed(part, part.job.implementation[k])
                for name in (*part.parameters, *part.data):
                    node, label = graph.by_name[name], f"{piece}.{name}"
                    assert node.type is not None
                    rows, times = node.type.shape[0], len(microbatches) if name in part.data else 1
                    shape = (rows * times, *node.type.shape[1:])
                    program.nodes[label] = replace(node, name=label, type=replace(node.type, shape=shape))
                    given[name] = own[piece][name] = label
                    if name in part.data:
                        cut = (Ref(label), 0, turn * rows, (turn + 1) * rows)
                        given[name] = program.call(f"{label}.{turn}", "aten.slice.Tensor", *cut)
                for stream, ends in part.before.items():
                    given[ends.forward] = f"{turn} {plan.pieces[at - 1]} {stream}"
                for stream, ends in part.after.items():
                    given[ends.backward or ""] = f"{turn} {plan.pieces[at + 1]} gradient of {stream}"
                found = program.place(f"{turn} {piece}", graph, given)
                for stream, ends in part.after.items():
                    program.renamed[f"{turn} {piece} {stream}"] = found[ends.forward]
                for stream, ends in part.before.items():
                    program.renamed[f"{turn} {piece} gradient of {stream}"] = found[ends.backward or ""]
                for name in part.parameters.values():
                    made.setdefault((piece, name), []).append(found[name])
        for (piece, name), all_ in made.items():
            own[piece][name] = program.total(f"{piece} {name}", all_)
        for number, name in enumerate((*plan.reduce, *plan.update)):
            part = parts[name]
            if part.runs is Runs.ONCE:
                graph = _renamed(part, part.job.implementation[rank])
                type_ = {x: graph.by_name[x].type for x in part.sums}
                sums = {x: [held[t] for held in own.values() if t in held] for x, t in part.sums.items()}
                totals = {
                    x: program.total(f"{name} {x}", all_) if all_
                    else program.call(f"{name} {x}", "aten.zeros.default", getattr(type_[x], "shape"))  # noqa: B009
                    for x, all_ in sums.items()
                }  # fmt: skip
                found = program.place(name, graph, {**{x: whole[t] for x, t in part.takes.items()}, **totals})
                whole |= {t: found[x] for x, t in part.gives.items()}
                for node in graph.nodes:  # after what pipelines send each other before
                    if any(argument in ("pp", "k", "world") for argument in node.args):
                        program.messages.append((1000 * (1 + number), 0, f"{name}.{node.name}"))
                continue
            graph = _renamed(part, part.job.implementation[k])
            for place, piece in enumerate(piece for piece in plan.pieces if piece.part == part.of):
                mine = own[piece]
                given = {x: mine.get(t) or whole[t] for x, t in part.takes.items()}
                given |= self._exchanged(program, piece, name, (way, k), mine, (number, place))
                found = program.place(f"{name} {piece}", graph, given)
                mine |= {t: found[x] for x, t in part.gives.items()}
                outputs |= {f"new {piece}.{t}": found[x] for x, t in part.updates.items()}
        return program.graph(outputs, f"rank {rank}")

    def _exchanged(
        self, program: Program, piece: Piece, name: str, here: tuple[int, int], mine: dict[str, str],
        when: tuple[int, int],
    ) -> dict[str, str]:  # fmt: skip
        """Send what ranks of other pipelines take of this one; what stands for the summands of all that it takes."""
        way, k = here
        turn = 1000 * (1 + when[0]) + when[1]

        def post(step: int, label: str, target: str, tensor: str, peer: int) -> str:
            program.messages.append((turn, step, label))
            return program.call(label, f"_c10d_functional.{target}.default", Ref(tensor), peer, 0, "world")

        count = 0
        for other in (other for other in range(self.plan.copies) if other != way):
            for x, one in self.plan.ways[other][name].summands.items():
                for j in range(self.ranks) if one.pipeline == way else ():
                    for rank, piece_, pieces in _terms(one.messages, j):
                        if rank != k:
                            continue
                        count += 1
                        label = f"{name} {piece} {x} to {other}.{j} {count}"
                        dim = 0 if one.messages is None else one.messages.dim
                        tensor = mine[one.tensor]
                        if pieces > 1:
                            size = self._size(other, name, x, one.messages, j)
                            cut = (Ref(tensor), dim, piece_ * size, (piece_ + 1) * size)
                            tensor = program.call(f"{label} part", "aten.slice.Tensor", *cut)
                            tensor = program.call(f"{label} dense", "aten.clone.default", Ref(tensor))
                        post(count, label, "isend", tensor, self.device(other) * self.ranks + j)
        given: dict[str, str] = {}
        part = self.plan.ways[way][name]
        for x, one in part.summands.items():
            if one.pipeline == way:
                given[part.job.inputs[x].name] = mine[one.tensor]
                continue
            type_ = part.job.implementation[k].by_name[part.job.inputs[x].name].type
            assert type_ is not None
            terms, dim = _terms(one.messages, k), 0 if one.messages is None else one.messages.dim
            got: list[str] = []
            for rank, _, _ in terms:
                count += 1
                label = f"{name} {piece} {x} from {one.pipeline}.{rank} {count}"
                shape = list(type_.shape)
                shape[dim] //= len(terms)
                buffer = program.call(f"{label} buffer", "aten.empty.memory_format", tuple(shape))
                got.append(post(count, label, "irecv", buffer, self.device(one.pipeline) * self.ranks + rank))
            joined = tuple(map(Ref, got))
            given[part.job.inputs[x].name] = (
                program.call(f"{name} {piece} {x} joined", "aten.cat.default", joined, dim) if len(got) > 1 else got[0]
            )
        return given

    def _size(self, way: int, name: str, x: str, messages: object, j: int) -> int:
        """The size of one term of what a rank takes."""
        part = self.plan.ways[way][name]
        type_ = part.job.implementation[j].by_name[part.job.inputs[x].name].type
        one = part.summands[x].messages
        assert type_ is not None
        assert one is not None
        assert one is messages
        return type_.shape[one.dim] // len(one.ranks[j])


def _terms(messages: object, k: int) -> Sequence[tuple[int, int, int]]:
    return ((k, 0, 1),) if messages is None else messages.ranks[k]  # type: ignore[attr-defined]


def _box(part: Part, tensor: str, rank: int) -> Box:
    type_, placements = part.job.specification.by_name[tensor].type, part.job.inputs[tensor].placements
    assert type_ is not None
    assert placements is not None
    mesh = part.job.mesh
    return box_at(type_.shape, placements, mesh.sizes, mesh.coordinates(rank))


def _renamed(part: Part, graph: Graph) -> Graph:
    """A program whose groups are those of the flat mesh."""
    mesh = part.job.mesh
    long = {axis for axis, size in mesh.axes.items() if size > 1}
    inner = long - {"pp", _axis(part)}
    known = {frozenset[str](): "alone", frozenset(inner): "k", frozenset(inner | {"pp"}): "world"}
    known |= {frozenset({"pp"} & long): "pp"} if "pp" in long else {}
    names = {name: known.get(frozenset(spanned) & long, name) for name, spanned in mesh.groups.items()}

    def renamed(argument: Argument) -> Argument:
        return names.get(argument, argument) if isinstance(argument, str) else argument

    nodes = tuple(replace(node, args=tuple(map(renamed, node.args))) for node in graph.nodes)
    return replace(graph, nodes=nodes)


def _axis(part: Part) -> str:
    """The axis of microbatches, if the part has it."""
    return part.job.mesh.names[0] if part.runs is Runs.PASS else ""
