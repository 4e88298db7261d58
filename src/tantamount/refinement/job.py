"""One job from start to verdict."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

from tantamount.correspond.alignment import align
from tantamount.diagnosis.localise import find_mismatch
from tantamount.errors import UserError
from tantamount.execution.plans import TooLarge
from tantamount.execution.reduced import search_reduced
from tantamount.execution.witness import Searched, search
from tantamount.ir.job import Job
from tantamount.limits import Limits, limits_from_environment
from tantamount.proof import Options, Progress, Proof, prove
from tantamount.proof.outputs import PARTLY
from tantamount.refinement.all_sizes import refine_at_all_sizes
from tantamount.refinement.result import Refinement, accepted, statistics
from tantamount.verdict import OutputReport, Verdict, worst

__all__ = ["Captured", "job_of", "refine_job"]

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


def job_of(
    job: Job | Captured,
    implementation: object = None,
    *,
    inputs: Mapping[str, Any] | None = None,
    outputs: Mapping[str, Any] | None = None,
    assume: Mapping[str, Any] | None = None,
) -> Job:
    """The job itself, or that of two captured programs. Raises :class:`UserError` where both are given."""
    if not isinstance(job, Job):
        return job.against(implementation, inputs=inputs, outputs=outputs, assume=assume)
    if implementation is not None or inputs or outputs or assume:
        raise UserError("job-arguments", place="refine", found="a job with more", needed="refine(job) alone")
    return job


def refine_job(
    job: Job,
    *,
    strict: bool = False,
    fold: bool | None = None,
    progress: Progress | None = None,
    limits: Limits | None = None,
) -> Refinement:
    """The verdict on a job; the arguments are those of :func:`tantamount.refine`. Raises :class:`UserError`."""
    clock = _Clock()
    bounds = limits if limits is not None else limits_from_environment()
    options = Options(fold=fold, align=align, limits=bounds, progress=progress, lap=clock.lap)
    if job.at is not None:
        return refine_at_all_sizes(
            job, job.at, lambda one: refine_job(one, strict=strict, fold=fold, limits=bounds), options, strict
        )
    proof = prove(job, options)
    searched = Searched(proof.check(expand=False))
    clock.lap("outputs")
    proof.relations()
    clock.lap("relation")
    if _open(searched.outputs):
        proof, searched = _with_effort(proof, searched.outputs, clock)
    checked = searched.outputs
    failing = _open(checked)
    mismatch, reductions = find_mismatch(proof, failing, searched.plan)
    clock.lap("localise")
    if len(failing) > 1:  # of one the mismatch says it
        checked = tuple(_explained(output, reductions.get(output.name, "")) for output in checked)
    assumptions = proof.assumptions()
    verdict, refused = accepted(worst(output.verdict for output in checked), assumptions, strict, ("real-arithmetic",))
    return Refinement(
        job=job.path,
        verdict=verdict,
        outputs=checked,
        outputs_total=len(job.specification.outputs),
        assumptions=assumptions,
        relations=tuple(proof.relations().values()),
        mismatch=mismatch,
        counterexample=searched.counterexample,
        statistics=statistics(job, proof, clock.seconds),
        notes=searched.notes,
        refused=refused,
        subject=job,
        proof=proof,
    )


def _with_effort(proof: Proof, before: tuple[OutputReport, ...], clock: _Clock) -> tuple[Proof, Searched]:
    """What is known of outputs that were not proved at once, and the proof that shows it: values first, for what
    differs on an input needs no search for a proof, which takes longest where there is none; then with products
    multiplied out; then rank by rank."""
    searched = _executed(proof, before)
    clock.lap("witness")
    checked = _proved_with_effort(proof, before, searched.outputs)
    clock.lap("outputs")
    if proof.options.fold is None and proof.folded and _may_need_ranks(proof.job, checked):
        apart = prove(proof.job, replace(proof.options, fold=False))
        again = apart.check()
        clock.lap("outputs")
        if not _open(again):
            apart.relations()
            clock.lap("relation")
            return apart, Searched(again)
    return proof, replace(searched, outputs=checked)


def _open(outputs: Sequence[OutputReport]) -> list[OutputReport]:
    return [output for output in outputs if output.verdict is not Verdict.PROVED]


def _may_need_ranks(job: Job, checked: Sequence[OutputReport]) -> bool:
    """Whether a proof rank by rank may succeed where one with ranks as axes did not: numbers that differ by rank, such
    as where a rank's part begins, are tables there, and decide nothing; and nothing was refuted."""
    ranks = job.implementation
    differ = any(graph.nodes != ranks[0].nodes for graph in ranks)
    few = sum(len(graph.nodes) for graph in ranks) <= _APART
    return differ and few and all(output.verdict is not Verdict.REFUTED for output in checked)


def _executed(proof: Proof, checked: tuple[OutputReport, ...]) -> Searched:
    try:
        return search(proof, checked, proof.options.limits)
    except TooLarge as problem:
        return search_reduced(proof, checked, str(problem))


def _proved_with_effort(
    proof: Proof, before: Sequence[OutputReport], checked: tuple[OutputReport, ...]
) -> tuple[OutputReport, ...]:
    """Outputs that no execution refuted, with products multiplied out."""
    reasons = {output.name: output.reason for output in before}
    names = [o.name for o in _open(checked) if o.verdict is not Verdict.REFUTED or o.reason == reasons[o.name]]
    if not names:
        return checked
    again = proof.check(only=names)
    better = {o.name: o for o in again if o.verdict is Verdict.PROVED or PARTLY in (o.reason or "")}
    return tuple(
        replace(better[o.name], notes=(*better[o.name].notes, *o.notes))
        if o.name in better and better[o.name].verdict is not Verdict.PROVED
        else better.get(o.name, o)
        for o in checked
    )


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
