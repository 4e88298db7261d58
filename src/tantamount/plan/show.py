"""A plan as text: mesh, stages, parts and joints. Nothing is proved."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tantamount.plan.names import names_of_stages
from tantamount.plan.parts import DEFAULT, Piece, Plan, Runs
from tantamount.plan.wiring import joints_of

__all__ = ["described", "runs_of"]


def described(plan: Plan) -> str:
    """The text, which ends without a line break."""
    return "\n".join(_lines(plan))


def _lines(plan: Plan) -> Iterator[str]:
    mesh = " x ".join(f"{axis} {size}" for axis, size in plan.mesh.axes.items()) or "one rank"
    yield f"{plan.name}   {plan.world} ranks ({mesh}), {plan.microbatches} microbatches, {plan.schedule_name}"
    yield ""
    names = [*names_of_stages(plan)]
    for stage, pieces in enumerate(plan.stages):
        device = plan.schedule.owners[stage] if stage < len(plan.schedule.owners) else "?"
        yield f"  stage {stage} on device {device}: {', '.join(runs_of(pieces))}"
        own = [name for at, name in names if at == stage]
        if own:
            yield f"    parameters {', '.join(own)}"
    yield ""
    for part in plan.parts.values():
        sizes = f"{len(part.job.specification.nodes)} nodes, {len(part.job.implementation[0].nodes)} on a rank"
        whom = f"of {part.of}" if part.runs is Runs.PIECE else ""
        if part.base:
            several = "s" if len(part.pipelines) > 1 else ""
            whom = f"in pipeline{several} {', '.join(map(str, part.pipelines))} for {part.base}"
        sizes += f", layout {part.layout}" if part.layout != DEFAULT else ""
        yield f"  {part.name:<20} {part.runs.value:<6} {whom:<14} {sizes}"
    yield ""
    for joint in joints_of(plan):
        often = f"   ({joint.count} times)" if joint.count > 1 else ""
        said = joint.mistake if joint.problem else f"{joint.tensor}: {joint.source} -> {joint.target}: {joint.relation}"
        yield f"  {said}{often}"


def runs_of(pieces: Sequence[Piece]) -> Iterator[str]:
    """The pieces of a stage, as texts; ``layer 0-6`` for neighbours."""
    start = 0
    for k, piece in enumerate(pieces):
        following = pieces[k + 1] if k + 1 < len(pieces) else None
        if following != Piece(piece.part, piece.number + 1):
            first = pieces[start].number
            yield f"{piece.part} {first}" + (f"-{piece.number}" if piece.number > first else "")
            start = k + 1
