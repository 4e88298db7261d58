"""A plan as one job: all parts, pieces and microbatches of a rank in one program, with messages between stages.

Nothing of this is how plans are verified; it is what the composition of their parts is held against.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from graphlib import TopologicalSorter
from itertools import pairwise

from tantamount.ir.graph import Argument, Graph, Node, Output, Ref, references
from tantamount.ir.job import Job
from tantamount.ir.mesh import Mesh
from tantamount.ir.relation import (
    Concat,
    Expectation,
    Expression,
    InputRelation,
    Placement,
    RankTensor,
    Replicate,
    Shard,
    Slice,
    Sum,
)
from tantamount.plan.parts import COPY, DEFAULT, Part, Piece, Plan, Runs

__all__ = ["Program", "flat_job", "flat_program"]


@dataclass
class Program:
    """Nodes by name, in any order; ``renamed`` says what stands for inputs of parts."""

    nodes: dict[str, Node] = field(default_factory=dict[str, Node])
    messages: list[tuple[int, int, str]] = field(default_factory=list[tuple[int, int, str]])  # turn, when in it, node
    renamed: dict[str, str] = field(default_factory=dict[str, str])

    def call(self, name: str, target: str, *args: Argument) -> str:
        self.nodes[name] = Node(name, "call", target, args)
        return name

    def total(self, name: str, parts: list[str]) -> str:
        found = parts[0]
        for k, part in enumerate(parts[1:]):
            found = self.call(f"{name}.{k}", "aten.add.Tensor", Ref(found), Ref(part))
        return found

    def place(self, prefix: str, graph: Graph, given: Mapping[str, str]) -> dict[str, str]:
        """Put a part's program in; the nodes of its outputs by name. ``given``: what stands for its inputs."""
        names = {node.name: given.get(node.name, f"{prefix}.{node.name}") for node in graph.nodes}
        for node in graph.nodes:
            if node.op != "input":
                args = tuple(_argument(argument, names) for argument in node.args)
                self.nodes[names[node.name]] = replace(node, name=names[node.name], args=args)
        return {output.name: names[output.node] for output in graph.outputs}

    def graph(self, outputs: Mapping[str, str], path: str) -> Graph:
        resolved = {name: replace(node, args=self._known(node.args)) for name, node in self.nodes.items()}
        needs = {name: set(references(node)) for name, node in resolved.items()}
        for (_, _, first), (_, _, second) in pairwise(sorted(self.messages)):
            needs[second].add(first)
        order = TopologicalSorter(needs).static_order()
        nodes = tuple(resolved[name] for name in order)
        return Graph(nodes, tuple(Output(name, self._name(node)) for name, node in outputs.items()), path=path)

    def _known(self, args: tuple[Argument, ...]) -> tuple[Argument, ...]:
        names = {name: self._name(name) for name in self.renamed}
        return tuple(_argument(argument, names) for argument in args)

    def _name(self, name: str) -> str:
        while name in self.renamed:
            name = self.renamed[name]
        return name


def _argument(argument: Argument, names: Mapping[str, str]) -> Argument:
    if isinstance(argument, Ref):
        return Ref(names.get(argument.name, argument.name))
    return tuple(_argument(item, names) for item in argument) if isinstance(argument, tuple) else argument


def flat_job(plan: Plan) -> Job:
    """The job of a plan of which every device has one stage of each pipeline (an axis of one rank, the first of its
    mesh, where parts have the microbatches, if there is one stage). A shared parameter, which only a plan on one stage
    may have, is one input. Of several pipelines, there are two, over two devices."""
    assert len(plan.stages) == plan.devices * plan.copies
    assert plan.copies == 1 or plan.copies == plan.devices == 2
    assert plan.devices == 1 or not plan.tied
    inputs: dict[str, InputRelation] = {}
    outputs: dict[str, Expectation] = {}
    for piece in plan.pieces:
        part = plan.parts[piece.part]
        for name in (*part.parameters, *part.frozen):
            placed, label = _placed(part.job.inputs[name]), _label(plan, piece, name)
            assert label not in inputs or inputs[label].placements == placed
            inputs[label] = _given(plan, piece, label, placed)
            if name in part.parameters:
                outputs[f"new {label}"] = _wanted(plan, piece, f"new {label}", placed, "as it was")
        for name in part.data:
            inputs[f"{piece}.{name}"] = _rows(plan, piece, name, f"{piece}.{name}")
        for name in part.results:
            outputs[f"{piece}.{name}"] = _wanted(
                plan, piece, f"{piece}.{name}", _placed(part.job.outputs[name]), "a sum"
            )
        for update in _of(plan, piece.part):
            for name in update.state:
                given = next(x for x, tensor in update.takes.items() if tensor == name)
                relation = update.job.inputs[given]
                assert relation.placements is not None
                placed = (Replicate(), *relation.placements[plan.copies > 1 :])
                inputs[f"{piece}.{name}"] = _given(plan, piece, f"{piece}.{name}", placed)
                outputs[f"new {piece}.{name}"] = _wanted(plan, piece, f"new {piece}.{name}", placed, "as it was")
    for owner in plan.tied:
        for update in _of(plan, owner):
            for name in update.state:
                given = next(x for x, tensor in update.takes.items() if tensor == name)
                relation = update.job.inputs[given]
                assert relation.placements is not None
                placed = (Replicate(), *relation.placements[1:])  # the first is over copies, of which there is one
                inputs[f"{owner}.{name}"] = InputRelation(f"{owner}.{name}", placed)
                outputs[f"new {owner}.{name}"] = Expectation(f"new {owner}.{name}", placed, text="as it was")
    for name in plan.symbols:
        inputs[name] = InputRelation(name, (Replicate(),) * len(plan.mesh.names))
    programs = {rank: tuple(map(id, _own(plan, rank))) for rank in range(plan.mesh.world_size)}
    made = {key: flat_program(plan, rank) for rank, key in reversed(programs.items())}
    groups = {COPY: (COPY,), **plan.mesh.groups}
    for part in plan.parts.values():
        if part.layout != DEFAULT:  # groups of all ranks of a stage are those of the mesh
            whole = set(_layout(plan, part).names)
            rest = tuple(axis for axis in plan.mesh.names if axis != plan.pipeline)
            groups |= {name: rest for name, spanned in part.job.mesh.groups.items() if set(spanned) == whole}
    device = {COPY: plan.pipeline}
    mesh = Mesh(plan.mesh.axes, {n: tuple(device.get(axis, axis) for axis in spanned) for n, spanned in groups.items()})
    return Job("flat", flat_program(plan, None), tuple(made[key] for key in programs.values()), mesh, inputs, outputs)


def _own(plan: Plan, rank: int) -> Iterator[object]:
    """The programs that a rank runs, and where."""
    yield _stage(plan, rank)
    yield from (_program(plan, part, rank) for part in plan.parts.values())


def _stage(plan: Plan, rank: int) -> int:
    return dict(zip(plan.mesh.names, plan.mesh.coordinates(rank), strict=True)).get(plan.pipeline, 0)


def _way(plan: Plan, microbatch: int) -> int:
    """The pipeline that a microbatch passes."""
    return next(k for k, chain in enumerate(plan.schedule.chains) if microbatch in chain.microbatches)


def _stage_of(plan: Plan, piece: Piece, way: int = 0) -> int:
    """The device that has a piece's copy of some pipeline."""
    return next(plan.schedule.owners[s] for s in plan.schedule.chains[way].stages if piece in plan.stages[s])


def _way_of(plan: Plan, piece: Piece, rank: int) -> int | None:
    """The pipeline whose copy of a piece is on a rank."""
    return next((k for k in range(plan.copies) if _stage_of(plan, piece, k) == _stage(plan, rank)), None)


def _program(plan: Plan, part: Part, rank: int, way: int = 0) -> Graph:
    """The program of a part on a rank: meshes of parts that are on one stage lack the pipeline's axis."""
    at = {COPY: way, **dict(zip(plan.mesh.names, plan.mesh.coordinates(rank), strict=True))}
    mesh = part.job.mesh
    if part.layout != DEFAULT:
        own = _layout(plan, part)
        at |= dict(zip(own.names, own.coordinates(rank % own.world_size), strict=True))
    return part.job.implementation[mesh.rank(tuple(at.get(axis, 0) for axis in mesh.names))]


def _layout(plan: Plan, part: Part) -> Mesh:
    """The ranks of a stage by the axes of a part; stages are the first axis of a plan's mesh."""
    axes = {axis: size for axis, size in part.job.mesh.axes.items() if axis not in (plan.axis, COPY)}
    assert plan.mesh.names[0] == plan.pipeline
    return Mesh(axes)


def _given(plan: Plan, piece: Piece, label: str, placed: tuple[Placement, ...]) -> InputRelation:
    """The relation of what the ranks of a piece's stage are given."""
    if plan.devices == 1:
        return InputRelation(label, placed)
    held, equal = _on_stage(plan, piece, label, placed, tuple(range(plan.copies)))
    return InputRelation(label, None, held, equal, "on one stage")


def _wanted(plan: Plan, piece: Piece, label: str, placed: tuple[Placement, ...], text: str) -> Expectation:
    """The relation of what the ranks of a piece's stage should have in the end."""
    if plan.devices == 1:
        return Expectation(label, placed, text=text)
    if text == "a sum" and plan.copies > 1:
        both = [_on_stage(plan, piece, label, placed, (way,)) for way in range(plan.copies)]
        return Expectation(label, None, Sum(tuple(held for held, _ in both)), both[0][1] + both[1][1], text)
    held, equal = _on_stage(plan, piece, label, placed, tuple(range(plan.copies)))
    return Expectation(label, None, held, equal, text)


def _on_stage(
    plan: Plan, piece: Piece, label: str, placed: tuple[Placement, ...], ways: tuple[int, ...]
) -> tuple[Expression, tuple[tuple[RankTensor, RankTensor], ...]]:
    """The tensor as what the ranks of one stage hold of it, by the axes but the first, which is the microbatches';
    and the replicas that are equal, those of other pipelines among them."""
    stages = [_stage_of(plan, piece, way) for way in ways]
    own = _layout(plan, plan.parts[piece.part])
    stage, axes = stages[0], list(own.names)
    assert len(axes) == len(placed) - 1
    by_axis = dict(zip(axes, placed[1:], strict=True))

    def holder(at: Mapping[str, int]) -> RankTensor:
        return RankTensor(stage * own.world_size + own.rank(tuple(at.get(axis, 0) for axis in axes)), label)

    def held(rest: list[str], at: dict[str, int]) -> Expression:
        if not rest:
            return holder(at)
        axis, placement = rest[0], by_axis[rest[0]]
        if isinstance(placement, Replicate):
            return held(rest[1:], at)
        parts = tuple(held(rest[1:], {**at, axis: c}) for c in range(own.axes[axis]))
        return Concat(parts, placement.dim) if isinstance(placement, Shard) else Sum(parts)

    copies = [axis for axis in axes if isinstance(by_axis[axis], Replicate)]
    equal: list[tuple[RankTensor, RankTensor]] = []
    for rank in range(plan.mesh.world_size):
        at = dict(zip(axes, own.coordinates(rank % own.world_size), strict=True))
        first = holder({axis: 0 if axis in copies else c for axis, c in at.items()})
        if rank // own.world_size in stages and first.rank != rank:
            equal.append((first, RankTensor(rank, label)))
    return held(axes, {}), tuple(equal)


def _of(plan: Plan, name: str) -> Iterator[Part]:
    """The parts that run once for every piece of a part, or for a shared parameter."""
    yield from (part for part in plan.parts.values() if part.runs in (Runs.PIECE, Runs.TIED) and part.of == name)


def _label(plan: Plan, piece: Piece, name: str) -> str:
    """What a parameter of a piece is called in the job: a shared one by the name that it has in the plan."""
    return next((owner for owner, of in plan.tied.items() if of.get(piece.part) == name), f"{piece}.{name}")


def _placed(relation: InputRelation | Expectation) -> tuple[Placement, ...]:
    """What the ranks hold after all microbatches."""
    assert relation.placements is not None
    return (Replicate(), *relation.placements[1:])


def _rows(plan: Plan, piece: Piece, name: str, label: str) -> InputRelation:
    """Blocks of rows, by microbatch and then by the axes that cut them, of what the ranks hold one after the other."""
    part = plan.parts[piece.part]
    stages = {_stage_of(plan, piece, way) for way in range(plan.copies)}
    mesh, placements = plan.mesh, part.job.inputs[name].placements
    own = _layout(plan, part)
    local = part.job.implementation[0].by_name[name].type
    assert local is not None
    assert placements is not None
    cut = [(a, p.dim) for a, p in zip(part.job.mesh.names, placements, strict=True) if isinstance(p, Shard)]
    axes = [axis for axis, _ in cut[1:]]  # after the microbatches

    def holder(at: Mapping[str, int], stage: int) -> int:
        return stage * own.world_size + own.rank(tuple(at.get(axis, 0) for axis in own.names))

    def blocks(at: dict[str, int]) -> Expression:
        if len(at) == len(cut):
            k = at[cut[0][0]]
            rest = tuple((0, size, 1) for size in local.shape[1:])
            return Slice(
                RankTensor(holder(at, _stage_of(plan, piece, _way(plan, k))), label),
                ((k * local.shape[0], (k + 1) * local.shape[0], 1), *rest),
            )
        axis, dim = cut[len(at)]
        return Concat(tuple(blocks({**at, axis: c}) for c in range(part.job.mesh.axes[axis])), dim)

    def same(rank: int) -> int:
        coordinates = dict(zip(own.names, own.coordinates(rank % own.world_size), strict=True))
        return holder({axis: coordinates[axis] for axis in axes}, _stage(plan, rank))

    equal = tuple(
        (RankTensor(same(rank), label), RankTensor(rank, label))
        for rank in range(mesh.world_size)
        if _stage(plan, rank) in stages and rank != same(rank)
    )
    return InputRelation(label, None, blocks({}), equal, "rows")


def flat_program(plan: Plan, rank: int | None) -> Graph:
    """The whole iteration of one device, or of one rank."""
    program = Program()
    outputs: dict[str, str] = {}
    made: dict[str, dict[str, list[str]]] = {str(piece): {} for piece in plan.pieces}
    turns = 1 if rank is None else plan.microbatches

    def graph(part: Part, way: int = 0) -> Graph:
        return part.job.specification if rank is None else _program(plan, part, rank, way)

    def runs_here(piece: Piece, way: int) -> bool:
        return rank is None or _stage_of(plan, piece, way) == _stage(plan, rank)

    def way_here(piece: Piece) -> int | None:
        return 0 if rank is None else _way_of(plan, piece, rank)

    def post(turn: int, when: int, name: str, target: str, tensor: str, peer: Piece) -> str:
        program.messages.append((turn, when, name))
        group = plan.pipeline
        target = f"_c10d_functional.{target}.default"
        return program.call(name, target, Ref(tensor), _stage_of(plan, peer, _way(plan, turn)), 0, group)

    def received(turn: int, when: int, part: Part, name: str, peer: Piece) -> str:
        type_ = graph(part).by_name[name].type
        assert type_ is not None
        label = f"{turn} {peer} sends {name}"
        buffer = program.call(f"{label}.buffer", "aten.empty.memory_format", type_.shape)
        return post(turn, when, label, "irecv", buffer, peer)

    def entry(name: str, node: Node, rows: int = 1) -> str:
        assert node.type is not None
        shape = (node.type.shape[0] * rows, *node.type.shape[1:]) if node.type.shape else ()
        program.nodes[name] = replace(node, name=name, type=replace(node.type, shape=shape))
        return name

    for name in plan.symbols:
        part = next(part for part in plan.parts.values() if name in part.job.inputs)
        entry(name, graph(part).by_name[name])
    for turn in range(turns):
        way = _way(plan, turn)
        for k, piece in enumerate(plan.pieces):
            if not runs_here(piece, way):
                continue
            part, given = plan.parts[piece.part], dict[str, str]()
            for name in (*part.parameters, *part.frozen):
                given[name] = _label(plan, piece, name)
                if given[name] not in program.nodes:
                    entry(given[name], graph(part).by_name[name])
            for name in part.data:
                node = graph(part).by_name[name]
                assert node.type is not None
                if f"{piece}.{name}" not in program.nodes:
                    entry(f"{piece}.{name}", node, turns)
                rows = node.type.shape[0]
                here = (Ref(f"{piece}.{name}"), 0, turn * rows, (turn + 1) * rows)
                given[name] = program.call(f"{piece}.{name}.{turn}", "aten.slice.Tensor", *here)
            for stream, ends in part.before.items():
                before = plan.pieces[k - 1]
                given[ends.forward] = f"{turn} {before} {stream}"
                if not runs_here(before, way):
                    given[ends.forward] = received(turn, 0, part, ends.forward, before)
            for stream, ends in part.after.items():
                assert ends.backward is not None
                after = plan.pieces[k + 1]
                given[ends.backward] = f"{turn} {after} gradient of {stream}"
                if not runs_here(after, way):
                    given[ends.backward] = received(turn, 2, part, ends.backward, after)
            found = program.place(f"{turn} {piece}", graph(part), given)
            for stream, ends in part.after.items():
                program.renamed[f"{turn} {piece} {stream}"] = found[ends.forward]
                if not runs_here(plan.pieces[k + 1], way):
                    post(turn, 1, f"{turn} {piece} sent {stream}", "isend", found[ends.forward], plan.pieces[k + 1])
            for stream, ends in part.before.items():
                assert ends.backward is not None
                program.renamed[f"{turn} {piece} gradient of {stream}"] = found[ends.backward]
                if not runs_here(plan.pieces[k - 1], way):
                    post(
                        turn, 3, f"{turn} {piece} sent back {stream}", "isend", found[ends.backward], plan.pieces[k - 1]
                    )
            for name in (*part.parameters.values(), *part.results):
                made[str(piece)].setdefault(name, []).append(found[name])
    own = {
        piece: {n: program.total(f"{piece} {n}", all_) for n, all_ in found.items()} for piece, found in made.items()
    }
    shared = {name: name for name in plan.symbols}
    for piece in (piece for piece in plan.pieces if way_here(piece) is not None):
        part = plan.parts[piece.part]
        outputs |= {f"{piece}.{name}": own[str(piece)][name] for name in part.results}
        own[str(piece)] |= {name: _label(plan, piece, name) for name in (*part.parameters, *part.frozen)}
        for update in _of(plan, piece.part):
            for name in update.state:
                given = next(x for x, tensor in update.takes.items() if tensor == name)
                own[str(piece)][name] = entry(f"{piece}.{name}", graph(update).by_name[given])
    for owner in plan.tied:
        own[owner] = {owner: owner}
        for update in _of(plan, owner):
            for name in update.state:
                given = next(x for x, tensor in update.takes.items() if tensor == name)
                own[owner][name] = entry(f"{owner}.{name}", graph(update).by_name[given])
    for name in (*plan.reduce, *plan.update):
        part = plan.parts[name]
        if part.runs is Runs.ONCE:
            sums = {
                x: program.total(f"{name} {x}", [o[t] for o in own.values() if t in o]) for x, t in part.sums.items()
            }
            found = program.place(name, graph(part), {**{x: shared[t] for x, t in part.takes.items()}, **sums})
            shared |= {tensor: found[output] for output, tensor in part.gives.items()}
            continue
        if part.runs is Runs.PIECE:
            held = {str(piece): way_here(piece) for piece in plan.pieces if piece.part == part.of}
            owners = {piece: way for piece, way in held.items() if way is not None}
        else:
            owners = {part.of: 0}
        for of, way in owners.items():
            mine = own[of]
            given = {x: mine.get(t) or shared[t] for x, t in part.takes.items() if x not in part.members}
            for x, one in part.summands.items():  # of which one device has all in one place
                none = (f"{name} {of} {x}", "aten.mul.Tensor", Ref(mine[one.tensor]), 0)
                given[x] = mine[one.tensor] if one.pipeline == 0 else program.call(*none)
            for x, members in part.members.items():
                terms = [own[str(piece)][members[piece.part]] for piece in plan.pieces if piece.part in members]
                given[x] = program.total(f"{name} {x}", terms)
            found = program.place(f"{name} {of}", graph(part, way), given)
            for node in graph(part, way).nodes if rank is not None else ():
                if any(
                    "copy" in str(argument) for argument in node.args[1:]
                ):  # devices with two stages come to what their copies do together in one order
                    program.messages.append((turns, len(program.messages), f"{name} {of}.{node.name}"))
            mine |= {tensor: found[output] for output, tensor in part.gives.items()}
            for output, tensor in part.updates.items():
                outputs["new " + (of if tensor == of else f"{of}.{tensor}")] = found[output]
    return program.graph(outputs, "one device" if rank is None else f"rank {rank}")
