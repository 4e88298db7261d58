"""The verdict on a plan: its parts proved, their joints compared, its stages and its schedule checked.

The argument is in docs/design/plans.md. In short: a schedule without problems runs every pass of every piece once for
every microbatch, on what the neighbouring piece made of *that* microbatch; a part's proof holds for all microbatches
and ranks at once; and where a proof ends with the relation that the next one starts from, they compose.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import replace

from tantamount.capture.approximations import check_accepted
from tantamount.clock import Clock, peak_memory_bytes
from tantamount.plan.actions import Chain, Kind, Schedule
from tantamount.plan.check import check_schedule
from tantamount.plan.counts import said_of_counts
from tantamount.plan.flow import flow_of
from tantamount.plan.joints import Joint
from tantamount.plan.names import names_of_stages, wrong_names
from tantamount.plan.parts import Part, Piece, Plan, Runs
from tantamount.plan.result import PartReport, PlanReport
from tantamount.plan.timing import timing_of
from tantamount.plan.wiring import joints_of
from tantamount.verdict import Assumption, Verdict, worst

__all__ = ["CheckPart", "CheckParts", "Told", "verify"]

CheckPart = Callable[[Part], PartReport]  # of one part: ``count``, ``ranks`` and ``nodes`` are filled in here
CheckParts = Callable[[Sequence[Part]], Iterable[PartReport]]  # of all parts, in their order; ``seconds`` as well
Told = Callable[[str, int, int], None]


def verify(
    plan: Plan,
    check: CheckPart,
    told: Told | None = None,
    accept: Collection[str] = frozenset(),
    together: CheckParts | None = None,
) -> PlanReport:
    """The verdict on a plan; ``check`` proves or refutes one part, and is asked once for each that is in use.
    ``told(part, done, total)`` hears of every part before it is looked at; ``accept`` are names of approximations.
    ``together``, if there is one, is asked for all parts at once instead, and may look at several at a time. Raises
    :class:`UserError` for approximations that are accepted and not declared."""
    check_accepted(accept, [one.name for one in plan.approximations], plan.path)
    clock = Clock()
    ownership = (*_ownership(plan), *wrong_names(plan))
    schedule = tuple(_schedule(plan))
    timing = None if schedule else timing_of(plan.schedule, flow_of(plan.schedule))
    clock.lap("schedule")
    joints = _joints(plan)
    clock.lap("joints")
    parts: list[PartReport] = []
    used = _used(plan)
    if together is not None:
        found = together([part for part, _ in used])
        parts = [_standing(plan, part, count, one, one.seconds) for (part, count), one in zip(used, found, strict=True)]
    for k, (part, count) in enumerate(used if together is None else ()):
        if told is not None:
            told(part.name, k, len(used))
        begun = time.process_time()
        parts.append(_standing(plan, part, count, check(part), time.process_time() - begun))
    clock.lap("parts")
    verdict = _verdict(plan, parts, joints, ownership, schedule)
    return PlanReport(
        plan=plan.path, name=plan.name, verdict=verdict, mesh=plan.mesh.axes, microbatches=plan.microbatches,
        pieces=len(plan.pieces), stages=len(plan.stages), schedule_name=plan.schedule_name, parts=tuple(parts),
        joints=joints, ownership=ownership, schedule=schedule, assumptions=_assumptions(plan, parts),
        notes=tuple(_notes(plan)), holds=said_of_counts(plan) if verdict is Verdict.PROVED else (),
        stage_ranks=tuple(map(max, plan.ranks)) if plan.uneven else (),
        names=tuple(names_of_stages(plan)),
        approximations=plan.approximations, accepted=tuple(accept), subject=plan, timing=timing,
        seconds=clock.seconds,
        megabytes=peak_memory_bytes() / (1 << 20),
    )  # fmt: skip


def _used(plan: Plan) -> list[tuple[Part, int]]:
    """The parts that run, in the order in which they first do, and for how many pieces."""
    numbers = plan.numbers()
    counts = {**numbers, **{name: numbers.get(plan.parts[name].of, 1) for name in (*plan.reduce, *plan.update)}}
    running = {way[name].name: (way[name], count) for name, count in counts.items() for way in plan.ways}
    return [(one, count) for part, count in running.values() for one in part.classes()]


def _joints(plan: Plan) -> tuple[Joint, ...]:
    """The joints; of those of a smaller last microbatch only what does not fit there alone."""
    found = joints_of(plan)
    smaller = {name: replace(part, job=part.smaller) for name, part in plan.parts.items() if part.smaller is not None}
    if not smaller:
        return found
    known = {(joint.tensor, joint.source, joint.target, joint.problem) for joint in found}
    others = joints_of(replace(plan, parts={**plan.parts, **smaller}))
    return (*found, *(j for j in others if j.problem and (j.tensor, j.source, j.target, j.problem) not in known))


def _standing(plan: Plan, part: Part, count: int, found: PartReport, seconds: float) -> PartReport:
    """The report with what the part stands for."""
    mesh = part.job.mesh
    ranks = mesh.world_size // mesh.axes.get(plan.axis, 1)
    times = Counter(map(id, part.job.implementation))
    programs = {id(graph): graph for graph in part.job.implementation}
    nodes = sum(times[key] * sum(node.op == "call" for node in graph.nodes) for key, graph in programs.items())
    return replace(found, part=part.name, count=count, ranks=ranks, nodes=nodes * count, seconds=seconds)


def _verdict(
    plan: Plan, parts: Sequence[PartReport], joints: Sequence[Joint], ownership: Sequence[str], schedule: Sequence[str]
) -> Verdict:
    """The worst of all. A joint that does not fit is a mistake of the plan only if what is made there is proved."""
    found = [part.verdict for part in parts]
    if ownership or schedule:
        found.append(Verdict.REFUTED)
    proved = all(verdict in (Verdict.PROVED, Verdict.EQUAL_REDUCED) for verdict in found)
    for joint in joints:
        if joint.problem:
            found.append(Verdict.REFUTED if joint.wrong and proved else Verdict.UNKNOWN)
    return worst(found)


def _ownership(plan: Plan) -> Iterator[str]:
    """Pieces that not exactly one virtual stage owns, and stages that do not follow the order of the model."""
    stages, schedule = plan.stages, plan.schedule
    if len(stages) != len(schedule.owners):
        yield f"the plan has {len(stages)} stages, its schedule {len(schedule.owners)}"
        return
    passed = sorted(stage for chain in schedule.chains for stage in chain.stages)
    if passed != list(range(len(stages))):
        yield f"microbatches pass {len(set(passed))} of {len(stages)} stages, {len(passed)} times"
        return
    yield from _microbatches(plan)
    for number, chain in enumerate(schedule.chains):
        where = f" of pipeline {number}" if plan.copies > 1 else ""
        for problem in _chain(plan, chain):
            yield problem + where
    yield from _places(plan)
    if len(schedule.devices) != plan.devices:
        yield f"the schedule is for {len(schedule.devices)} devices, the mesh has {plan.devices} along {plan.pipeline}"


def _microbatches(plan: Plan) -> Iterator[str]:
    """Microbatches that do not pass exactly one pipeline."""
    chains = plan.schedule.chains
    times = Counter(microbatch for chain in chains for microbatch in chain.microbatches)
    if plan.copies == 1 and sorted(times.elements()) != list(range(plan.microbatches)):
        yield f"the schedule has {len(chains[0].microbatches)} microbatches, the plan {plan.microbatches}"
        return
    for microbatch in sorted({*times, *range(plan.microbatches)}):
        if microbatch >= plan.microbatches:
            yield f"the schedule has microbatch {microbatch}, the plan {plan.microbatches} microbatches"
        elif times[microbatch] != 1:
            yield f"microbatch {microbatch} passes {times[microbatch]} pipelines: each is for one of them"
    yield from (f"no microbatch passes pipeline {k}" for k, chain in enumerate(chains) if not chain.microbatches)


def _chain(plan: Plan, chain: Chain) -> Iterator[str]:
    """Pieces that not exactly one stage of a pipeline owns, and stages that do not follow the order of the model."""
    owners: dict[Piece, list[int]] = {}
    for stage in sorted(chain.stages):
        for piece in plan.stages[stage]:
            owners.setdefault(piece, []).append(stage)
    for piece in plan.pieces:
        found = owners.get(piece, [])
        if len(found) != 1:
            yield f"{piece} is owned by {_stages(found)}"
    model = set(plan.pieces)
    for piece, found in owners.items():
        if piece not in model:
            yield f"{piece}, which the model does not have, is owned by {_stages(found)}"
    order = [piece for stage in chain.stages for piece in plan.stages[stage]]
    if sorted(order) == sorted(plan.pieces) and order != list(plan.pieces):
        wrong = next(k for k, (a, b) in enumerate(zip(order, plan.pieces, strict=True)) if a != b)
        yield f"{order[wrong]} comes where {plan.pieces[wrong]} should be"


def _meets(plan: Plan, name: str) -> bool:
    """True if copies of a piece exchange something in a part, in some pipeline."""
    return any(way[name].meets for way in plan.ways)


def _places(plan: Plan) -> Iterator[str]:
    """Devices whose pieces are for different numbers of ranks, copies of one piece on one device, and reductions of
    copies that no two stages have in common."""
    for device, counts in enumerate(plan.ranks):
        if len(counts) > 1:
            yield f"device {device} has pieces for {' and for '.join(map(str, counts))} ranks"
    if plan.copies == 1:
        return
    at: dict[Piece, list[int]] = {}
    for stage, pieces in enumerate(plan.stages):
        for piece in pieces:
            at.setdefault(piece, []).append(plan.schedule.owners[stage])
    for piece, devices in at.items():
        if len(set(devices)) < len(devices):
            yield f"{piece} has several copies on one device: {', '.join(map(str, sorted(devices)))}"
            return
    if not plan.schedule.copies:
        yield from (
            f"{name} adds up what copies of a piece have, whose stages differ in other pieces: that is for an update"
            for name in plan.reduce
            if _meets(plan, name)
        )


def _stages(found: Sequence[int]) -> str:
    if not found:
        return "no stage"
    return f"stage{'s' if len(found) > 1 else ''} {' and '.join(map(str, found))}"


def _schedule(plan: Plan) -> Iterator[str]:
    schedule: Schedule = plan.schedule
    yield from map(str, check_schedule(schedule))
    several = (Runs.ONCE, Runs.TIED)
    together = [
        name
        for order in (plan.reduce, plan.update)
        for name in order
        if plan.parts[name].runs in several or (order is plan.update and _meets(plan, name))
    ]
    if together:
        yield from (
            f"{name} waits for other stages, and so cannot be a reduction" for name in together if name in plan.reduce
        )
        yield from _late(schedule, together[0])
    yield from _in_order(plan)
    if plan.reduce and not any(
        a.kind is Kind.REDUCE for program in schedule.devices for event in program for a in event
    ):
        yield f"{plan.reduce[0]} has no place in the schedule, which has updates and no reductions"
    if not schedule.accumulated:
        yield "gradients are reduced microbatch by microbatch, which a plan has no words for"


def _in_order(plan: Plan) -> Iterator[str]:
    """Forward passes that are not in the order of microbatches, one after the other, on stages that carry state."""
    carries = {name for name, part in plan.parts.items() if part.carried}
    stages = {s: {piece.part for piece in pieces} & carries for s, pieces in enumerate(plan.stages)}
    for device, program in enumerate(plan.schedule.devices):
        done: dict[int, int] = {}
        for event in program:
            before = dict(done)
            for action in event:
                if action.kind is not Kind.FORWARD or not stages.get(action.stage):
                    continue
                part, last = min(stages[action.stage]), done.get(action.stage, -1)
                if action.microbatch < last:
                    yield f"device {device}: {action} comes after microbatch {last}, and {part} carries state on"
                elif last != before.get(action.stage, -1):
                    yield f"device {device}: {action} is beside microbatch {last}, and {part} carries state on"
                done[action.stage] = max(last, action.microbatch)


def _late(schedule: Schedule, part: str) -> Iterator[str]:
    """Problems with what a device does after an update, if updates wait for something that all stages do together:
    those that wait for this device could never come so far."""
    for device, program in enumerate(schedule.devices):
        updated = False
        for event in program:
            for action in event:
                if updated and action.kind is not Kind.UPDATE:
                    yield f"device {device}: {action} comes after an update, before which stages do {part} together"
                    return
                updated = updated or action.kind is Kind.UPDATE


def _notes(plan: Plan) -> Iterator[str]:
    if not plan.reduce and not plan.update:
        yield "no parts run after the microbatches: what is shown ends with gradients as the ranks hold them"
    if plan.copies > 1:
        alike = "which are taken to be alike before the first iteration"
        yield f"every piece has {plan.copies} copies, one in each pipeline, {alike}"
    for name, members in plan.tied.items():
        copies = " and ".join(f"{parameter} of {part}" for part, parameter in members.items())
        yield f"{name} is {copies}, whose copies are taken to be alike before the first iteration"
    for part in plan.parts.values():
        for name in part.carried:
            yield f"{name} of {part.name} passes from one microbatch to the next, in their order"
    frozen = [f"{name} of {part.name}" for part in plan.parts.values() for name in part.frozen]
    if frozen:
        yield f"without gradients: {', '.join(frozen)}"


def _assumptions(plan: Plan, parts: Sequence[PartReport]) -> tuple[Assumption, ...]:
    """Those of all parts, each once; those of the same text at several places with all of them; and what the plan says
    that it rests on."""
    finite = "every tensor that passes from one part to another is finite: where one is not, nothing is claimed"
    found: dict[tuple[str, str], list[str]] = {("domain", finite): []}
    for part in parts:
        for assumption in part.assumptions:
            found.setdefault((assumption.name, assumption.text), []).extend(
                f"{part.part}: {place}" for place in assumption.places
            )
    stated = [Assumption("as-stated", text, ()) for text in plan.assumed]
    return (*(Assumption(name, text, tuple(places)) for (name, text), places in found.items()), *stated)
