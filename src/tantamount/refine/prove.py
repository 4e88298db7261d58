"""One job from start to verdict."""

from __future__ import annotations

import resource
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

from tantamount.errors import UserError
from tantamount.ir.job import Job
from tantamount.limits import Limits, limits_from_environment
from tantamount.refine.all_sizes import refine_at_all_sizes
from tantamount.refine.assumptions import gather_assumptions
from tantamount.refine.cover import relate
from tantamount.refine.execution import TooLarge
from tantamount.refine.localise import find_mismatch
from tantamount.refine.outputs import check_outputs
from tantamount.refine.picture import draw_picture
from tantamount.refine.reduced import search_reduced
from tantamount.refine.sides import Progress, Sides, run_sides
from tantamount.refine.witness import Searched, search
from tantamount.verdict import OutputReport, Relation, Report, Statistics, Verdict, worst

__all__ = ["refine"]

_APART = 20_000  # nodes of all ranks together, which are tried one by one where they could not be proved as axes


class Captured(Protocol):
    """A captured specification, which with an implementation makes a job."""

    def against(
        self,
        implementation: object,
        *,
        inputs: Mapping[str, Any] | None,
        outputs: Mapping[str, Any] | None,
        assume: Mapping[str, Any] | None,
    ) -> Job:
        """The job of a pair."""
        ...


def refine(
    job: Job | Captured,
    implementation: object = None,
    *,
    inputs: Mapping[str, Any] | None = None,
    outputs: Mapping[str, Any] | None = None,
    assume: Mapping[str, Any] | None = None,
    strict: bool = False,
    fold: bool | None = None,
    progress: Progress | None = None,
    limits: Limits | None = None,
) -> Report:
    """Whether the implementation refines the specification, output by output.

    Either ``refine(job)``, or ``refine(specification, implementation)`` with captured programs; then ``inputs`` and
    ``outputs`` state relations (``{"layers.*.up.weight": "Shard(0)"}``) where the capture does not know them, and
    ``assume`` what a job's ``[assume]`` would.
    ``strict`` refuses assumptions other than real arithmetic; ranks are mesh axes where their graphs are isomorphic,
    unless ``fold`` is ``False`` (or that proves nothing, and one by one they can be proved).
    ``progress(phase, done, total)`` is told of every node.
    ``limits`` (default: those of the environment) bound what is executed in search of a counterexample.
    Of programs with size symbols, all sizes are meant (docs/symbolic-sizes.md).
    Raises :class:`UserError` if the job contradicts itself or the ranks' collectives do not match."""
    if not isinstance(job, Job):
        job = job.against(implementation, inputs=inputs, outputs=outputs, assume=assume)
    elif implementation is not None or inputs or outputs or assume:
        raise UserError("job-arguments", place="refine", found="a job with more", needed="refine(job) alone")
    if job.at is not None:
        return refine_at_all_sizes(
            job, job.at, lambda one: refine(one, strict=strict, fold=fold, limits=limits), fold, progress, strict
        )
    clock = _Clock()
    bounds = limits if limits is not None else limits_from_environment()
    sides = run_sides(job, fold, progress, clock.lap, limits=bounds)
    store = sides.store
    specification, ranks = sides.specification, sides.implementation
    checked = check_outputs(store, job, specification, ranks, expand=False)
    clock.lap("outputs")
    relations = relate(store, job, specification, ranks)
    clock.lap("relation")
    searched = Searched(checked)
    if _open(checked):
        # values first: what differs on an input needs no search for a proof, which takes longest where there is none
        before = checked
        searched = _executed(job, sides, checked, relations, fold, bounds)
        clock.lap("witness")
        checked = _proved_with_effort(job, sides, before, searched.outputs)
        clock.lap("outputs")
        if fold is None and sides.folded and _may_need_ranks(job, checked):
            apart = run_sides(job, False, progress, clock.lap, limits=bounds)
            again = check_outputs(apart.store, job, apart.specification, apart.implementation)
            clock.lap("outputs")
            if not _open(again):
                sides, checked, searched = apart, again, Searched(again)
                store, specification, ranks = apart.store, apart.specification, apart.implementation
                relations = relate(store, job, specification, ranks)
                clock.lap("relation")
    failing = _open(checked)
    mismatch, reductions = find_mismatch(store, job, specification, ranks, relations, failing, searched.plan)
    clock.lap("localise")
    if len(failing) > 1:  # of one the mismatch says it
        checked = tuple(_explained(output, reductions.get(output.name, "")) for output in checked)
    assumptions = gather_assumptions(store, job, sides.inputs, specification, ranks)
    verdict = worst(output.verdict for output in checked)
    refused: tuple[str, ...] = ()
    if strict and verdict is Verdict.PROVED:
        refused = tuple(dict.fromkeys(a.name for a in assumptions if a.name != "real-arithmetic"))
        if refused:
            verdict = Verdict.UNKNOWN
    statistics = Statistics(
        specification_nodes=len(job.specification.nodes),
        implementation_nodes=sum(len(graph.nodes) for graph in job.implementation),
        ranks=len(job.implementation),
        folded=sides.folded,
        atoms=len(store.atoms),
        terms=sum(len(x) for atom in store.atoms for x in atom.arguments),
        seconds=clock.seconds,
        peak_memory_bytes=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        classes=len(ranks.classes),
    )
    return Report(
        job=job.path,
        verdict=verdict,
        outputs=checked,
        outputs_total=len(job.specification.outputs),
        assumptions=assumptions,
        relations=tuple(relations.values()),
        mismatch=mismatch,
        counterexample=searched.counterexample,
        statistics=statistics,
        notes=searched.notes,
        refused=refused,
        picture=lambda: draw_picture(job, sides, relations),
        subject=job,
    )


def _open(outputs: Sequence[OutputReport]) -> list[OutputReport]:
    return [output for output in outputs if output.verdict is not Verdict.PROVED]


def _may_need_ranks(job: Job, checked: Sequence[OutputReport]) -> bool:
    """Whether a proof rank by rank may succeed where one with ranks as axes did not: numbers that differ by rank, such
    as where a rank's part begins, are tables there, and decide nothing; and nothing was refuted."""
    ranks = job.implementation
    differ = any(graph.nodes != ranks[0].nodes for graph in ranks)
    few = sum(len(graph.nodes) for graph in ranks) <= _APART
    return differ and few and all(output.verdict is not Verdict.REFUTED for output in checked)


def _executed(
    job: Job,
    sides: Sides,
    checked: tuple[OutputReport, ...],
    relations: Mapping[str, Relation],
    fold: bool | None,
    limits: Limits,
) -> Searched:
    try:
        return search(sides.store, job, checked, sides.inputs, sides.specification, sides.implementation, limits)
    except TooLarge as problem:
        return search_reduced(job, checked, relations, fold, limits, str(problem), sides.reduction)


def _proved_with_effort(
    job: Job, sides: Sides, before: Sequence[OutputReport], checked: tuple[OutputReport, ...]
) -> tuple[OutputReport, ...]:
    """Outputs that no execution refuted, with products multiplied out."""
    reasons = {output.name: output.reason for output in before}
    names = [o.name for o in _open(checked) if o.verdict is not Verdict.REFUTED or o.reason == reasons[o.name]]
    if not names:
        return checked
    again = check_outputs(sides.store, job, sides.specification, sides.implementation, only=names)
    proved = {output.name: output for output in again if output.verdict is Verdict.PROVED}
    return tuple(proved.get(output.name, output) for output in checked)


def _explained(output: OutputReport, reduction: str) -> OutputReport:
    """The report with the reduction that is missing, if one is, in its reason."""
    if not reduction:
        return output
    if output.verdict is Verdict.UNKNOWN:
        return replace(output, reason=f"{output.name} = {output.expectation} was not proved: {reduction}")
    return replace(output, reason=f"{output.reason}\n{reduction}")


class _Clock:
    """CPU seconds by phase."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._last = time.process_time()

    def lap(self, phase: str) -> None:
        now = time.process_time()
        self.seconds[phase] = now - self._last
        self._last = now
