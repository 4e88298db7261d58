"""Mutants of what stands around the nodes: relations, outputs, recorded constants, and the ranks' own literals."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import pairwise
from typing import TypeVar

from tantamount.errors import InternalError
from tantamount.ir.graph import Argument, Constant, Graph
from tantamount.ir.job import Job
from tantamount.ir.mesh import Mesh
from tantamount.ir.relation import (
    Concat,
    Expectation,
    Expression,
    InputRelation,
    Partial,
    Placement,
    RankTensor,
    Replicate,
    Shard,
)
from tantamount.ir.relation_types import RelationProblem, local_shape, normalise_placements, resolve
from tantamount.ir.types import Kind, TensorType

from .edits import NotAProgram, Proposal, checked, leaves_of, live, mentioned, same_typed, with_literal, with_outputs

__all__ = ["job_mutants", "with_all_groups"]

R = TypeVar("R", InputRelation, Expectation)


def with_all_groups(job: Job) -> Job:
    """The job with a process group for every mesh axis, for all of them, and for each rank alone."""
    known = set(job.mesh.groups.values())
    groups: dict[str, tuple[str, ...]] = dict(job.mesh.groups)
    if job.mesh.world_size > 1:
        for spanned in (*((name,) for name in job.mesh.names), job.mesh.names, ()):
            if spanned not in known:
                known.add(spanned)
                groups[f"mutant_{'_'.join(spanned) or 'alone'}"] = spanned
    return replace(job, mesh=Mesh(job.mesh.axes, groups))


def job_mutants(job: Job, seed: int) -> list[Proposal]:
    """Every mutant of relations, outputs, recorded constants and literals that differ by rank."""
    random_ = random.Random(seed)
    return [
        *_placements(job),
        *_names_exchanged(job),
        *_expectations(job),
        *_rank_literals(job),
        *_recorded(job),
        *_outputs(job, random_),
    ]


# ------------------------------------------------------------------------------------------------ relations
def _placements(job: Job) -> Iterator[Proposal]:
    for name, relation in job.inputs.items():
        if relation.placements is not None:
            for other in _other_placements(relation.placements):
                yield _relation(job, name, relation, replace(relation, placements=other, text=_text(other)))
            for expression in _reordered_shards(job, relation):
                changed = replace(relation, placements=None, expression=expression, text=str(expression))
                yield _relation(job, name, relation, changed)
        elif relation.expression is not None:
            for expression in _other_expressions(relation.expression):
                yield _relation(job, name, relation, replace(relation, expression=expression, text=str(expression)))
        for k in range(len(relation.equal)):
            kept = (*relation.equal[:k], *relation.equal[k + 1 :])
            yield _relation(job, name, relation, replace(relation, equal=kept))


def _relation(job: Job, name: str, old: InputRelation, new: InputRelation) -> Proposal:
    def build() -> Job:
        type_ = job.specification.by_name[name].type
        if type_ is None:
            raise NotAProgram("an input without a type")
        fitted = _fits(job, type_, new, {n.name: n.type for n in job.implementation[0].inputs})
        return replace(job, inputs={**job.inputs, name: fitted})

    return Proposal("placement", f"input {name} = {new.text} of {new.name} instead of {old.text} of {old.name}", build)


def _fits(job: Job, whole: TensorType, relation: R, types: Mapping[str, TensorType | None]) -> R:
    """The relation resolved. Raises :class:`NotAProgram` if shapes or kinds of number do not fit."""
    try:
        if relation.placements is not None:
            found = types.get(relation.name)
            placements = normalise_placements(whole.shape, relation.placements)
            if found is None:
                raise NotAProgram("no such tensor")
            for rank in range(len(job.implementation)):
                if local_shape(whole.shape, placements, job.mesh, rank) != found.shape:
                    raise NotAProgram("the relation does not fit")
            if found.dtype.kind is not whole.dtype.kind or _averages(placements, whole):
                raise NotAProgram("another kind of number")
            return replace(relation, placements=placements)
        if relation.expression is None:
            raise InternalError(f"a relation of {relation.name} without placements or an expression")

        def tensor(term: RankTensor) -> tuple[RankTensor, TensorType]:
            name = term.name or relation.name
            type_ = types.get(name)
            if type_ is None or term.rank >= len(job.implementation):
                raise NotAProgram("no such tensor")
            if name not in job.implementation[term.rank].by_name:
                raise NotAProgram("no such tensor on that rank")
            return RankTensor(term.rank, term.name or relation.name), type_

        expression, type_ = resolve(relation.expression, tensor)
        if type_.shape != whole.shape or type_.dtype.kind is not whole.dtype.kind:
            raise NotAProgram("the relation does not fit")
        return replace(relation, expression=expression)
    except RelationProblem as problem:
        raise NotAProgram(str(problem)) from None


def _averages(placements: tuple[Placement, ...], whole: TensorType) -> bool:
    return whole.dtype.kind is not Kind.FLOAT and any(isinstance(p, Partial) for p in placements)


def _text(placements: tuple[Placement, ...]) -> str:
    return str(placements[0]) if len(placements) == 1 else f"[{', '.join(map(str, placements))}]"


def _other_placements(placements: tuple[Placement, ...]) -> Iterator[tuple[Placement, ...]]:
    for k, p in enumerate(placements):
        options: tuple[Placement, ...]
        if isinstance(p, Replicate):
            options = (Partial("sum"), Partial("avg"))
        elif isinstance(p, Shard):
            options = (Shard(p.dim + 1), Shard(p.dim - 1) if p.dim else Replicate())
        else:
            options = (Replicate(), Partial("avg" if p.reduction == "sum" else "sum"))
        for new in options:
            yield (*placements[:k], new, *placements[k + 1 :])
    if len(placements) > 1:
        for k, (a, b) in enumerate(pairwise(placements)):
            if a != b:
                yield (*placements[:k], b, a, *placements[k + 2 :])


def _reordered_shards(job: Job, relation: InputRelation) -> Iterator[Expression]:
    """The parts of a tensor cut over the only axis, held by other ranks."""
    if relation.placements is None or len(relation.placements) != 1:
        return
    (placement,) = relation.placements
    count = len(job.implementation)
    if isinstance(placement, Shard) and count > 1:
        for order in ([*range(1, count), 0], [1, 0, *range(2, count)]):
            yield Concat(tuple(RankTensor(r, relation.name) for r in order), placement.dim)


def _other_expressions(expression: Expression) -> Iterator[Expression]:
    if isinstance(expression, Concat):
        for k, (a, b) in enumerate(pairwise(expression.parts)):
            yield replace(expression, parts=(*expression.parts[:k], b, a, *expression.parts[k + 2 :]))
        if expression.dim:
            yield replace(expression, dim=expression.dim - 1)
        for k, part in enumerate(expression.parts):
            for other in _other_expressions(part):
                yield replace(expression, parts=(*expression.parts[:k], other, *expression.parts[k + 1 :]))
    elif isinstance(expression, RankTensor):
        yield replace(expression, rank=expression.rank + 1)
        if expression.rank:
            yield replace(expression, rank=expression.rank - 1)


def _names_exchanged(job: Job) -> Iterator[Proposal]:
    """Two specification inputs that live in each other's place."""
    names = list(job.inputs)
    for a, b in ((a, b) for k, a in enumerate(names) for b in names[k + 1 :]):
        left, right = job.specification.by_name[a].type, job.specification.by_name[b].type
        if left != right:
            continue

        def build(a: str = a, b: str = b) -> Job:
            return replace(job, inputs={**job.inputs, a: job.inputs[b], b: job.inputs[a]})

        yield Proposal("inputs exchanged", f"inputs {a} and {b} live in each other's place", build)


def _expectations(job: Job) -> Iterator[Proposal]:
    types = {o.name: job.implementation[0].by_name[o.node].type for o in job.implementation[0].outputs}
    for output in job.specification.outputs:
        relation = job.outputs.get(output.name)
        if relation is None or relation.infer:
            continue
        whole = job.specification.by_name[output.node].type
        others: list[Expectation] = []
        if relation.placements is not None:
            others += [replace(relation, placements=p, text=_text(p)) for p in _other_placements(relation.placements)]
        elif relation.expression is not None:
            others += [replace(relation, expression=e, text=str(e)) for e in _other_expressions(relation.expression)]
        for new in others:

            def build(name: str = output.name, new: Expectation = new, whole: TensorType | None = whole) -> Job:
                if whole is None:
                    raise NotAProgram("no recorded type")
                return replace(job, outputs={**job.outputs, name: _fits(job, whole, new, types)})

            yield Proposal("expectation", f"output {output.name} = {new.text} instead of {relation.text}", build)


# ------------------------------------------------------------------------------------------------ ranks
def _rank_literals(job: Job) -> Iterator[Proposal]:
    """Literals by which ranks differ: each rank takes the next one's, or rank 0's."""
    graphs = job.implementation
    if len({id(graph) for graph in graphs}) < 2:
        return
    for node in live(job, 0):
        others = [graph.by_name.get(node.name) for graph in graphs]
        if any(other is None or other.target != node.target for other in others):
            continue
        literals = [[*leaves_of(other)] for other in others if other is not None]
        if any([p for p, _ in found] != [p for p, _ in literals[0]] for found in literals):
            continue
        for k, (path, _) in enumerate(literals[0]):
            values = [found[k][1] for found in literals]
            if all(value == values[0] for value in values):
                continue
            for what, order in (
                ("each rank takes the next one's", [*values[1:], values[0]]),
                ("all ranks take rank 0's", [values[0]] * len(values)),
                ("the last two exchanged", [*values[:-2], values[-1], values[-2]]),
            ):

                def build(
                    name: str = node.name, path: tuple[int | str, ...] = path, order: list[Argument] = order
                ) -> Job:
                    made: list[Graph] = []
                    for graph, value in zip(graphs, order, strict=True):
                        nodes = (
                            replace(with_literal(n, path, value), type=n.type) if n.name == name else n
                            for n in graph.nodes
                        )
                        made.append(replace(graph, nodes=tuple(nodes)))
                    return checked(replace(job, implementation=tuple(made)), job)

                yield Proposal("rank constants", f"{node.name} {list(path)} {values}: {what}", build)


# ------------------------------------------------------------------------------------------------ constants, outputs
def _recorded(job: Job) -> Iterator[Proposal]:
    for name, constant in job.implementation[0].constants.items():
        if not constant.data:
            continue
        for k in sorted({0, len(constant.data) // 2, len(constant.data) - 1}):

            def build(name: str = name, k: int = k) -> Job:
                made: dict[int, Graph] = {}
                for graph in job.implementation:
                    found = graph.constants.get(name)
                    if found is None or k >= len(found.data):
                        made[id(graph)] = graph
                        continue
                    old = found.data[k]
                    new = not old if isinstance(old, bool) else old + 1
                    data = (*found.data[:k], new, *found.data[k + 1 :])
                    made[id(graph)] = replace(graph, constants={**graph.constants, name: Constant(found.type, data)})
                return replace(job, implementation=tuple(made[id(graph)] for graph in job.implementation))

            yield Proposal("recorded constant", f"{name}: element {k} of {constant.type}", build)


def _outputs(job: Job, random_: random.Random) -> Iterator[Proposal]:
    for name in mentioned(job):
        options: dict[str, None] = {}
        for graph in job.implementation[:1]:
            node = next((o.node for o in graph.outputs if o.name == name), None)
            if node is None:
                continue
            earlier = same_typed(graph, node)
            options |= dict.fromkeys([*earlier[-1:], *random_.sample(earlier, min(2, len(earlier)))])
            wanted = graph.by_name[node].type
            options |= dict.fromkeys(
                o.node for o in graph.outputs if o.node != node and graph.by_name[o.node].type == wanted
            )
        for other in options:

            def build(name: str = name, other: str = other) -> Job:
                made: dict[int, Graph] = {}
                for graph in job.implementation:
                    if other not in graph.by_name:
                        raise NotAProgram("no such node on every rank")
                    made[id(graph)] = with_outputs(graph, {name: other})
                graphs = tuple(made[id(graph)] for graph in job.implementation)
                return checked(replace(job, implementation=graphs), job)

            yield Proposal("output", f"output {name} taken from {other}", build)
