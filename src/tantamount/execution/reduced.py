"""Counterexamples of jobs that are large: both programs executed at smaller shapes.

What is found there says something about the job itself because the smaller job is the same program (see
:mod:`tantamount.reduction`), and because of a control: whatever is proved of the job must be proved of the
smaller one, for every output and for every tensor of the specification, and must hold when both are executed.
A reduction that broke something would fail it; then it is thrown away. Where the job can be executed at its own shapes,
too, what differs at smaller ones must differ there on one input; else nothing is concluded from them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tantamount.errors import TantamountError, Unsupported
from tantamount.execution.cross_check import cross_check
from tantamount.execution.differences import examine, output_claim
from tantamount.execution.plans import LITTLE, NotExecuted, Plan, Scale, TooLarge, draw, execute, plan_execution
from tantamount.execution.witness import Searched, search
from tantamount.limits import Limits
from tantamount.proof import Proof, prove
from tantamount.reduction import NotReduced, Reduction, reduce_job
from tantamount.verdict import OutputReport, Relation, Verdict

__all__ = ["at_reduced_sizes", "differing", "differs_somewhere", "find_differences", "is_large"]

_MANY = 1 << 20  # elements of all tensors from which on smaller shapes are tried first, if they are


def find_differences(proof: Proof, outputs: tuple[OutputReport, ...], limits: Limits, agreeing: int = 0) -> Searched:
    """Like :func:`tantamount.execution.witness.search`, at smaller shapes where those of the job are too large, or so
    large that the same difference is found and simplified sooner at smaller ones."""
    try:
        plan = plan_execution(proof.store, proof.job, proof.inputs, proof.specification, proof.implementation, limits)
    except TooLarge as problem:
        return _search_reduced(proof, outputs, str(problem))
    except NotExecuted:  # the search says why
        return search(proof, outputs, limits, agreeing)
    if is_large(plan):
        found = _search_reduced(proof, outputs, "", agreeing)
        if found.counterexample is not None and _differ(plan, found.outputs, outputs):
            return found
    return search(proof, outputs, limits, agreeing, plan)


def is_large(plan: Plan) -> bool:
    """True if a difference is found and simplified sooner at smaller shapes."""
    nodes = sum(len(graph.nodes) for graph in (plan.job.specification, *plan.job.implementation))
    return plan.elements > max(_MANY, nodes * LITTLE)


def differs_somewhere(proof: Proof, limits: Limits) -> bool:
    """True if one execution at the job's own shapes, on numbers that are drawn, shows that an output differs."""
    job = proof.job
    try:
        plan = plan_execution(proof.store, job, proof.inputs, proof.specification, proof.implementation, limits)
    except NotExecuted:
        return False
    return bool(differing(plan, list(job.outputs)))


def _differ(plan: Plan, outputs: tuple[OutputReport, ...], before: tuple[OutputReport, ...]) -> bool:
    """True if all outputs that executions at smaller shapes have refuted differ at those of the job, too."""
    known = {output.name: output.reason for output in before}
    refuted = [o.name for o in outputs if o.verdict is Verdict.REFUTED and o.reason != known.get(o.name)]
    return differing(plan, refuted) == refuted


def differing(plan: Plan, names: list[str], scale: Scale | None = None) -> list[str]:
    """Those of the outputs that differ on one input that is drawn."""
    try:
        execution = execute(plan, draw(plan, 0, scale or Scale()), 0)
        if execution is None or not execution.in_reals or not execution.within_assumptions:
            return []
        return [n for n in names if examine(plan, output_claim(plan.job, n), execution).difference is not None]
    except (NotExecuted, Unsupported):
        return []


def _search_reduced(proof: Proof, outputs: tuple[OutputReport, ...], reason: str, agreeing: int = 0) -> Searched:
    """Like :func:`tantamount.execution.witness.search`, at smaller shapes; ``reason`` says why not at those of the job.
    ``outputs`` is what is known of the job."""
    options = proof.options
    try:
        reduction = reduce_job(proof.job, options.effort)
        small = prove(reduction.job, options.silent())
        reports = _checked(small, outputs)
        _control(small, outputs, proof.relations(), reports, options.limits)
        proved = {report.name for report in reports if report.verdict is Verdict.PROVED}
        open_ = tuple(output for output in outputs if output.name not in proved)
        return at_reduced_sizes(reduction, outputs, search(small, open_, options.limits, agreeing))
    except (NotReduced, TantamountError) as problem:
        text = f"no counterexample was looked for: {reason}; at smaller shapes neither: {problem}"
        return Searched(outputs, notes=(text,))


def _checked(proof: Proof, outputs: tuple[OutputReport, ...]) -> tuple[OutputReport, ...]:
    """The outputs of the smaller job, checked; with products multiplied out only where that is proved of the job, since
    an execution says more of what differs, and sooner."""
    found = proof.check(expand=False)
    wanted = {output.name for output in outputs if output.verdict is Verdict.PROVED}
    names = [one.name for one in found if one.name in wanted and one.verdict is not Verdict.PROVED]
    again = {one.name: one for one in proof.check(expand=True, only=names)} if names else {}
    return tuple(again.get(one.name, one) for one in found)


def _control(
    proof: Proof,
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
    small = proof.relations()
    lost = [name for name in relations if name not in small]
    if lost:
        raise NotReduced(f"the tensor {lost[0]} has a counterpart at the job's shapes only")
    if Verdict.PROVED not in verdicts.values():
        return
    checked = cross_check(proof, reports, (), limits, executions=1)
    if checked.disagreements:
        raise NotReduced(f"what is proved does not hold there: {checked.disagreements[0]}")


def at_reduced_sizes(reduction: Reduction, outputs: tuple[OutputReport, ...], searched: Searched) -> Searched:
    """The result of a search at reduced sizes, of the outputs that are not proved there, as one about ``outputs``, the
    reports on the job itself."""
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
