"""Counterexamples of jobs that are too large to execute: both programs executed at smaller shapes.

What is found there says something about the job itself because the smaller job is the same program (see
:mod:`tantamount.reduction`), and because of a control: whatever is proved of the job must be proved of the
smaller one, for every output and for every tensor of the specification, and must hold when both are executed.
A reduction that broke something would fail it; then it is thrown away.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tantamount.errors import TantamountError
from tantamount.ir.job import Job
from tantamount.limits import Limits
from tantamount.reduction import NotReduced, Reduction, reduce_job
from tantamount.refine.cover import relate
from tantamount.refine.cross_check import check_claims
from tantamount.refine.outputs import check_outputs
from tantamount.refine.sides import Sides, run_sides
from tantamount.refine.witness import Searched, search
from tantamount.verdict import OutputReport, Relation, Verdict

__all__ = ["search_reduced"]


def search_reduced(
    job: Job,
    outputs: tuple[OutputReport, ...],
    relations: Mapping[str, Relation],
    fold: bool | None,
    limits: Limits,
    reason: str,
    reduction: Reduction | None = None,
) -> Searched:
    """Like :func:`tantamount.refine.witness.search`, at smaller shapes; ``reason`` says why not at those of the job.
    ``outputs`` and ``relations`` are what is known of the job."""
    try:
        reduction = reduction or reduce_job(job)
        sides = run_sides(reduction.job, fold)
        reports = check_outputs(sides.store, reduction.job, sides.specification, sides.implementation)
        _control(reduction, sides, outputs, relations, reports, limits)
        proved = {report.name for report in reports if report.verdict is Verdict.PROVED}
        return _searched(reduction, sides, outputs, proved, limits)
    except (NotReduced, TantamountError) as problem:
        text = f"no counterexample was looked for: {reason}; at smaller shapes neither: {problem}"
        return Searched(outputs, notes=(text,))


def _control(
    reduction: Reduction,
    sides: Sides,
    outputs: tuple[OutputReport, ...],
    relations: Mapping[str, Relation],
    reports: tuple[OutputReport, ...],
    limits: Limits,
) -> None:
    """Raises :class:`NotReduced` if something that is proved of the job is not so, or does not hold, when smaller."""
    verdicts = {report.name: report.verdict for report in reports}
    for output in outputs:
        if output.verdict is Verdict.PROVED and verdicts.get(output.name) is not Verdict.PROVED:
            raise NotReduced(f"the output {output.name} is proved at the job's shapes only")
    small = relate(sides.store, reduction.job, sides.specification, sides.implementation)
    lost = [name for name in relations if name not in small]
    if lost:
        raise NotReduced(f"the tensor {lost[0]} has a counterpart at the job's shapes only")
    if Verdict.PROVED not in verdicts.values():
        return
    checked = check_claims(reduction.job, sides, reports, (), limits, executions=1)
    if checked.disagreements:
        raise NotReduced(f"what is proved does not hold there: {checked.disagreements[0]}")


def _searched(
    reduction: Reduction, sides: Sides, outputs: tuple[OutputReport, ...], proved: set[str], limits: Limits
) -> Searched:
    open_ = tuple(output for output in outputs if output.name not in proved)
    searched = search(
        sides.store, reduction.job, open_, sides.inputs, sides.specification, sides.implementation, limits
    )
    counterexample = searched.counterexample
    if counterexample is not None:
        counterexample = replace(counterexample, sizes=reduction.sizes)
    text = "executed at reduced sizes"
    where = f"too large to execute at its own shapes; executed at reduced sizes: {shown(reduction.sizes)}"
    by_name = {output.name: replace(output, notes=(*output.notes, text)) for output in searched.outputs}
    same = "at reduced sizes this output is proved: where the two differ, if they do, the reduction hides it"
    merged = tuple(
        output
        if output.verdict is Verdict.PROVED
        else by_name.get(output.name) or replace(output, notes=(*output.notes, same))
        for output in outputs
    )
    notes = searched.notes if counterexample is not None else (*searched.notes, where)
    return Searched(merged, counterexample, notes, searched.plan)


def shown(sizes: Mapping[int, tuple[int, ...]]) -> str:
    """``1536 -> 12, 768 -> 4 or 6``, the largest first."""
    return ", ".join(f"{old} -> {' or '.join(map(str, new))}" for old, new in sorted(sizes.items(), reverse=True))
