"""The relation of an input that would make the job right."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tantamount.correspond.values import Box
from tantamount.diagnosis.edits import Edit
from tantamount.diagnosis.value_matches import ValueMatches
from tantamount.errors import TantamountError
from tantamount.ir.relation import Concat, InputRelation, RankTensor, Replicate, Shard
from tantamount.proof import Options, prove
from tantamount.verdict import Verdict

__all__ = ["relation_that_proves"]


def relation_that_proves(matches: ValueMatches, edit: Edit, outputs: Sequence[str], options: Options) -> str:
    """The relation that an input should have after its edit, as text, if the outputs are proved with it; else empty."""
    name = edit.places[0][1]
    whole = next(iter(edit.wanted.values()))[0]
    found = _relation(matches, edit, name, whole)
    if found is None:
        return ""
    job = replace(matches.job, inputs={**matches.job.inputs, whole: found})
    try:
        reports = prove(job, options).check(only=list(outputs))
    except TantamountError:
        return ""
    proved = all(report.verdict is Verdict.PROVED for report in reports if report.name in outputs)
    return found.text if proved else ""


def _relation(matches: ValueMatches, edit: Edit, name: str, whole: str) -> InputRelation | None:
    """Every rank has its block, along one dimension; of one mesh axis only."""
    mesh = matches.job.mesh
    value = matches.replay.wanted(whole)
    if value is None or mesh.world_size < 2 or sum(size > 1 for size in mesh.sizes) != 1:
        return None
    boxes: list[Box | None] = []
    for rank in range(mesh.world_size):
        part = edit.wanted.get((rank, name)) or matches.aligned((rank, name))
        if part is None or part[0] != whole:
            return None
        boxes.append(part[1])
    if all(box is None for box in boxes):
        placed = tuple(Replicate() for _ in mesh.sizes)
        return InputRelation(name, placements=placed, text="Replicate()")
    cut = [box for box in boxes if box is not None and len(box) == value.ndim]
    dims = {dim for box in cut for dim, (span, n) in enumerate(zip(box, value.shape, strict=True)) if span != (0, n)}
    if len(cut) != len(boxes) or len(dims) != 1:
        return None
    (dim,) = dims
    starts = [box[dim][0] for box in cut]
    if len(set(starts)) != len(starts):
        return None
    order = sorted(range(len(starts)), key=starts.__getitem__)
    if order == list(range(len(starts))):
        placements = tuple(Shard(dim) if size > 1 else Replicate() for size in mesh.sizes)
        return InputRelation(name, placements=placements, text=f"Shard({dim})")
    expression = Concat(tuple(RankTensor(rank) for rank in order), dim)
    return InputRelation(name, expression=expression, text=str(expression))
