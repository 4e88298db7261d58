"""Plans that are one job: all ranks of an iteration at once, or one microbatch of it and the order of all of them.

A *generated* plan is what a framework wrote for every rank. Its data are proved for one microbatch, on a mesh whose
first axis are the microbatches, as a part is (docs/design/plans.md); that the ranks do for each of them what was
proved, each with what belongs to it, is what following their calls by labels shows.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace

from tantamount.capture.approximations import check_accepted
from tantamount.clock import Clock, peak_memory_bytes
from tantamount.ir.job import Job
from tantamount.plan.parts import Approximation
from tantamount.plan.result import PartReport, PlanReport
from tantamount.plan.rolled import rolled
from tantamount.verdict import Assumption, OutputReport, Report, Verdict, worst

__all__ = ["Generated", "verify_generated", "verify_job"]

Refine = Callable[[Job], Report]


@dataclass(frozen=True)
class Generated:
    """A plan that a framework wrote. ``job`` is what its ranks do in one microbatch, made when it is asked for: not for
    ranks whose order of calls is ``wrong`` (sentences), or not known to be right (``unknown``). ``mesh`` has the sizes
    of the axes; ``kind`` says what wrote it. ``finish`` is what follows the step, from the gradients that the former
    ends with to the parameters and the state that the next step begins with. ``notes`` are for the report."""

    path: str
    name: str
    kind: str
    mesh: Mapping[str, int]
    microbatches: int
    stages: int
    calls: int
    wrong: tuple[str, ...]
    unknown: tuple[str, ...]
    assumptions: tuple[Assumption, ...]
    job: Callable[[], Job] | None
    finish: Callable[[], Job] | None = None
    notes: tuple[str, ...] = ()


def verify_generated(plan: Generated, refine: Refine) -> PlanReport:
    """The verdict on a generated plan. Raises :class:`UserError` as making the job does."""
    clock = Clock()
    parts: list[PartReport] = []
    found: list[Verdict] = [Verdict.REFUTED] if plan.wrong else [Verdict.UNKNOWN] if plan.unknown else []
    assumptions = list(plan.assumptions)
    if plan.job is not None:
        job = plan.job()
        after = None if plan.finish is None else plan.finish()
        clock.lap("reading")
        for name, one in (("iteration", job), ("finish", after)):
            if one is not None:
                report = refine(one)
                parts.append(_part(name, one, report))
                found.append(parts[-1].verdict)
                assumptions += report.assumptions
        clock.lap("parts")
    if plan.finish is None:
        notes = ("what is shown ends with gradients as the ranks hold them: the step has no optimizer",)
    else:
        finite = "gradients are finite: where one is not, nothing is claimed of what the optimizer makes of it"
        assumptions.append(Assumption("finite-joints", finite, ()))
        notes = (
            "new parameters and state are held as the old ones were: what is shown of this step holds for the next one",
        )
    return PlanReport(
        plan=plan.path, name=plan.name, verdict=worst(found) if found else Verdict.UNKNOWN, mesh=plan.mesh,
        microbatches=plan.microbatches, pieces=1, stages=plan.stages,
        schedule_name=f"{plan.calls} calls of {plan.kind}", parts=tuple(parts), joints=(), ownership=(),
        schedule=(*plan.wrong, *(f"not known to be right: {sentence}" for sentence in plan.unknown)),
        assumptions=tuple(dict.fromkeys(assumptions)), notes=(*notes, *plan.notes), seconds=clock.seconds,
        megabytes=peak_memory_bytes() / (1 << 20),
    )  # fmt: skip


def verify_job(job: Job, refine: Refine, accept: Collection[str] = ()) -> PlanReport:
    """The verdict on a job as a plan: one part, all of whose ranks are proved together; messages and collectives are
    matched in order while they run. Stages, microbatches and equal pieces are those that its programs show. ``refine``
    takes what is declared to be approximate as it is; ``accept`` has the names of what is allowed. Raises
    :class:`UserError` for names that the job does not declare."""
    check_accepted(accept, [one.name for one in job.approximations], job.path)
    clock = Clock()
    found = rolled(job)
    clock.lap("reading")
    report = refine(job)
    clock.lap("parts")
    part = _part("iteration", job, report)
    lemmas = len({instance.lemma for instance in report.lemmas})
    notes = (f"proved piece by piece: {len(report.lemmas)} pieces of {lemmas} kinds",) if lemmas else ()
    return PlanReport(
        plan=job.path, name=job.path, verdict=report.verdict, mesh=job.mesh.axes, microbatches=found.microbatches,
        pieces=max(1, len(report.lemmas)), stages=found.stages, schedule_name="as the ranks' programs say",
        parts=(part,), joints=(), ownership=(), schedule=(), assumptions=report.assumptions,
        notes=(*report.notes, *notes), seconds=clock.seconds, megabytes=peak_memory_bytes() / (1 << 20),
        approximations=tuple(Approximation(one.name, part.part, one.text) for one in job.approximations),
        accepted=tuple(accept),
    )  # fmt: skip


def _part(name: str, job: Job, report: Report) -> PartReport:
    nodes = sum(node.op == "call" for graph in job.implementation for node in graph.nodes)
    seconds = sum(report.statistics.seconds.values())
    return PartReport(
        name, report.verdict, tuple(map(_plain, report.outputs)), report.assumptions, 1, job.mesh.world_size, nodes,
        seconds, report.mismatch, report.counterexample, report.notes,
    )  # fmt: skip


def _plain(output: OutputReport) -> OutputReport:
    """Without the remark that a sum over ranks is not reduced, which it is not meant to be over microbatches."""
    return replace(output, notes=())
