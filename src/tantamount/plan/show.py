"""A plan as text: mesh, stages, time lines, parts and joints. Only the schedule is checked; nothing is proved."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from string import ascii_lowercase

from tantamount.plan.actions import Kind
from tantamount.plan.check import check_schedule
from tantamount.plan.flow import flow_of
from tantamount.plan.names import names_of_stages
from tantamount.plan.parts import DEFAULT, Part, Piece, Plan, Runs
from tantamount.plan.timing import Slot, said_of, timing_of
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
        way = next((k for k, chain in enumerate(plan.schedule.chains) if stage in chain.stages), 0)
        where = f"device {device}" + (f", pipeline {way}" if plan.copies > 1 else "")
        yield f"  stage {stage} on {where}: {', '.join(runs_of(pieces))}"
        own = [name for at, name in names if at == stage]
        if own:
            yield f"    parameters {', '.join(own)}"
    yield ""
    yield from _in_time(plan)
    whom = {part.name: _whom(part) for part in plan.parts.values()}
    names, wide = (max(map(len, texts), default=0) for texts in (whom, whom.values()))
    for part in plan.parts.values():
        sizes = f"{len(part.job.specification.nodes)} nodes, {len(part.job.implementation[0].nodes)} on a rank"
        sizes += f", layout {part.layout}" if part.layout != DEFAULT else ""
        yield f"  {part.name:<{max(20, names)}} {part.runs.value:<6} {whom[part.name]:<{max(14, wide)}} {sizes}"
    yield ""
    for joint in joints_of(plan):
        often = f"   ({joint.count} times)" if joint.count > 1 else ""
        said = joint.mistake if joint.problem else f"{joint.tensor}: {joint.source} -> {joint.target}: {joint.relation}"
        yield f"  {said}{often}"


def _in_time(plan: Plan) -> Iterator[str]:
    """The schedule's problems; if there are none, what it costs, and who does what when."""
    problems = check_schedule(plan.schedule)
    yield from (f"  {problem}" for problem in problems)
    if not problems:
        timing = timing_of(plan.schedule, flow_of(plan.schedule))
        yield f"  {said_of(timing)}"
        if timing.total <= _WIDE:
            yield "  digits are forward passes, by the last digit of the microbatch; letters backward ones, a the first"
            wide = len(str(len(timing.lines) - 1))
            yield from (f"    device {k:>{wide}}  {_line(line)}" for k, line in enumerate(timing.lines))
    yield ""


_WIDE = 140  # columns of a line


def _line(slots: Sequence[Slot]) -> str:
    """The time line of a device, a column for each forward pass that there is time for."""
    text = ""
    for slot in slots:
        forward, microbatch = slot.action.kind is Kind.FORWARD, slot.action.microbatch
        letter = str(microbatch % 10) if forward else ascii_lowercase[microbatch % len(ascii_lowercase)]
        text = text.ljust(round(slot.start), ".") + letter * round(slot.stop - slot.start)
    return text


def _whom(part: Part) -> str:
    """The pieces that a part runs for, or the pipelines in which it runs in the place of another one."""
    if part.base:
        return f"in pipeline{'s' * (len(part.pipelines) > 1)} {', '.join(map(str, part.pipelines))} for {part.base}"
    return f"of {part.of}" if part.runs is Runs.PIECE else ""


def runs_of(pieces: Sequence[Piece]) -> Iterator[str]:
    """The pieces of a stage, as texts; ``layer 0-6`` for neighbours."""
    start = 0
    for k, piece in enumerate(pieces):
        following = pieces[k + 1] if k + 1 < len(pieces) else None
        if following != Piece(piece.part, piece.number + 1):
            first = pieces[start].number
            yield f"{piece.part} {first}" + (f"-{piece.number}" if piece.number > first else "")
            start = k + 1
