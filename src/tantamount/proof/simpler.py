"""Jobs of which every proof is one of another job: what they have in common, and how what was proved is told back.

A :class:`Simpler` job computes what the job does with fewer programs, or shorter ones: the stages of a pipeline as one
program (:mod:`tantamount.proof.stages`), microbatches as a mesh axis (:mod:`tantamount.proof.microbatches`). Every
tensor of its implementation is, rank by rank, one of the job's. docs/design/one-program.md argues that.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from tantamount.effort import Effort
from tantamount.errors import TantamountError
from tantamount.ir.job import Job
from tantamount.ir.layouts import layouts
from tantamount.ir.mesh import Mesh
from tantamount.ir.relation import (
    Concat,
    Expression,
    Partial,
    Placement,
    RankTensor,
    Replicate,
    Shard,
    Sum,
    with_tensors,
)
from tantamount.ir.relation_text import parse_relation
from tantamount.ir.relation_types import local_box
from tantamount.ir.types import Shape
from tantamount.limits import Limits
from tantamount.proof.outputs import show
from tantamount.verdict import Assumption, OutputReport, Relation

__all__ = ["Simpler", "as_placements", "relations_of", "told_back"]

_PLACEMENT = re.compile(r"\[?(Replicate|Shard|Partial)\(")
Where = tuple[int, str]  # rank and name
Box = tuple[tuple[int, int], ...]  # start and stop by dimension


@dataclass(frozen=True)
class Simpler:
    """A ``job`` that computes what ``original`` does. ``origin``: where the original has the tensor of a rank;
    ``alike``: the tensors that the original has under the same name and with the same placements, but for those of the
    mesh axis number ``axis``, along which all ranks hold the same. ``place``: what a node is called in the original."""

    original: Job
    job: Job
    origin: Callable[[int, str], Where | None]
    alike: Callable[[str], bool]
    place: Callable[[str], str]
    axis: int = 0


# ---------------------------------------------------------------------------------------------- relations of a job
def as_placements(
    whole: Shape, local: Shape, mesh: Mesh, expression: Expression, equal: Sequence[tuple[Expression, Expression]]
) -> tuple[str, tuple[Placement, ...]] | None:
    """The name and the placements of a tensor that every rank of a mesh holds a part of, if an expression and
    equalities say neither more nor less."""
    boxes: dict[Where, Box] = {}
    if not _boxes(expression, tuple((0, n) for n in whole), local, boxes):
        return None
    pairs: list[tuple[Where, Where]] = []
    for a, b in equal:
        if not isinstance(a, RankTensor) or not isinstance(b, RankTensor):
            return None  # slices
        pairs.append(((a.rank, a.name or ""), (b.rank, b.name or "")))
    near: dict[Where, list[Where]] = {}
    for a, b in pairs:
        near.setdefault(a, []).append(b)
        near.setdefault(b, []).append(a)
    pending = [*boxes]
    while pending:
        key = pending.pop()
        for other in near.get(key, ()):
            if other not in boxes:
                boxes[other] = boxes[key]
                pending.append(other)
            elif boxes[other] != boxes[key]:
                return None
    names = {name for _, name in boxes}
    if len(names) != 1 or len(boxes) != mesh.world_size or any(a not in boxes for pair in pairs for a in pair):
        return None
    (name,) = names
    for placements in layouts(whole, mesh.sizes, local=local):
        if all(local_box(whole, placements, mesh, rank) == boxes[rank, name] for rank in range(mesh.world_size)):
            return name, placements
    return None


def _boxes(expression: Expression, box: Box, local: Shape, found: dict[Where, Box]) -> bool:
    """Note which part of the whole every tensor of a concatenation is; false where it is none of equal parts."""
    if isinstance(expression, RankTensor):
        key = expression.rank, expression.name or ""
        if key in found or tuple(high - low for low, high in box) != tuple(local):
            return False
        found[key] = box
        return True
    if not isinstance(expression, Concat):
        return False
    d, count = expression.dim, len(expression.parts)
    low, high = box[d]
    step, rest = divmod(high - low, count)
    return not rest and all(
        _boxes(part, (*box[:d], (low + k * step, low + (k + 1) * step), *box[d + 1 :]), local, found)
        for k, part in enumerate(expression.parts)
    )


# ---------------------------------------------------------------------------------------------- what was proved
def told_back(
    steps: Sequence[Simpler],
    outputs: Sequence[OutputReport],
    relations: Sequence[Relation],
    assumptions: Sequence[Assumption],
    effort: Effort,
) -> tuple[tuple[OutputReport, ...], tuple[Relation, ...], tuple[Assumption, ...]]:
    """The proved statements about the last of some jobs, each simpler than the one before, as statements about the
    first one. Relations that would be too long are left out; outputs are related as the first job expects."""
    for step in reversed(steps):
        relations = [found for relation in relations if (found := _relation(step, relation, effort)) is not None]
        assumptions = [replace(a, places=tuple(map(step.place, a.places))) for a in assumptions]
    job = steps[0].original
    return tuple(_output(job, output) for output in outputs), tuple(relations), tuple(assumptions)


def _output(job: Job, found: OutputReport) -> OutputReport:
    expectation = job.outputs[found.name]
    if expectation.placements is not None:
        text, name = show(expectation.placements), expectation.name
    else:
        text, name = str(expectation.expression), ""
    source = None if found.relation is None else found.relation.source
    relation = Relation(found.name, text, name, source)
    return replace(found, relation=relation, expectation=expectation.text)


def relations_of(
    relations: Sequence[Relation], mesh: Mesh, effort: Effort
) -> Iterator[tuple[Relation, Callable[[Callable[[int, str], Where | None]], str | None]]]:
    """Relations on a mesh, each with what writes it about other tensors; without those that are not written so."""
    for found in relations:
        try:
            expression = _expression(found, mesh, effort)
        except (_Unknown, TantamountError):
            continue

        def write(
            origin: Callable[[int, str], Where | None], expression: Expression = expression, found: Relation = found
        ) -> str | None:
            try:
                return str(_about(expression, found.implementation, origin, effort))
            except _Unknown:
                return None

        yield found, write


def _relation(step: Simpler, found: Relation, effort: Effort) -> Relation | None:
    text = found.exact or found.expression
    try:
        if _PLACEMENT.match(text):
            placements = _placements(text)
            k = step.axis
            if step.alike(found.implementation) and isinstance(placements[k], Replicate):
                return replace(found, expression=show((*placements[:k], *placements[k + 1 :])))
        expression = _about(_expression(found, step.job.mesh, effort), found.implementation, step.origin, effort)
    except (_Unknown, TantamountError):
        return None
    return Relation(found.tensor, str(expression), "", found.source)


def _expression(found: Relation, mesh: Mesh, effort: Effort) -> Expression:
    """A relation as an expression. Raises :class:`_Unknown` where it is none, or a long one."""
    text = found.exact or found.expression
    if _PLACEMENT.match(text):
        return _spelled(_placements(text), mesh, found.implementation, effort)
    expression = _parsed(text)
    if isinstance(expression, (Replicate, Shard, Partial)):
        raise _Unknown
    return expression


def _about(expression: Expression, name: str, origin: Callable[[int, str], Where | None], effort: Effort) -> Expression:
    """The expression about the tensors that those of a simpler job are. Raises :class:`_Unknown` where one is none."""
    count = itertools.count(1)

    def change(tensor: RankTensor) -> Expression:
        where = origin(tensor.rank, tensor.name or name)
        if where is None or effort.exceeds("told_tensors", next(count)):
            raise _Unknown
        return RankTensor(*where)

    return with_tensors(expression, change)


class _Unknown(Exception):
    """A relation that cannot be told of the other job."""


def _parsed(text: str) -> Placement | Expression:
    return parse_relation(text, "a relation", Limits())


def _placements(text: str) -> tuple[Placement, ...]:
    texts = text[1:-1].split(", ") if text.startswith("[") else [text]
    found = tuple(map(_parsed, texts))
    return tuple(p for p in found if isinstance(p, (Replicate, Shard, Partial)))


def _spelled(placements: Sequence[Placement], mesh: Mesh, name: str, effort: Effort) -> Expression:
    """The whole tensor of which the ranks hold parts. Raises :class:`_Unknown` where that is long, or no sum."""
    count = itertools.count(1)

    def build(at: tuple[int, ...]) -> Expression:
        axis = len(at)
        if axis == len(mesh.sizes):
            if effort.exceeds("told_tensors", next(count)):
                raise _Unknown
            return RankTensor(mesh.rank(at), name)
        placement, size = placements[axis], mesh.sizes[axis]
        if isinstance(placement, Replicate) or size == 1:
            return build((*at, 0))
        parts = tuple(build((*at, k)) for k in range(size))
        if isinstance(placement, Shard):
            return Concat(parts, placement.dim)
        if placement.reduction != "sum":
            raise _Unknown
        return Sum(parts)

    return build(())
