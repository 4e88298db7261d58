"""Counterexamples of jobs that are large: both programs executed at smaller shapes.

What is found there says something about the job itself because the smaller job is the same program (see
:mod:`tantamount.reduction`), and because of a control: whatever is proved of the job, of every output and of every
tensor of the specification, must hold when the smaller programs are executed (:mod:`tantamount.execution.control`).
A reduction that broke something would fail it; then it is thrown away. Where the job can be executed at its own shapes,
too, what differs at smaller ones must differ there on one input; else nothing is concluded from them.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace

from tantamount.calculus.calculus import Calculus
from tantamount.errors import TantamountError, Unsupported
from tantamount.execution.control import control
from tantamount.execution.differences import examine, output_claim
from tantamount.execution.plans import LITTLE, NotExecuted, Plan, Scale, TooLarge, executed_on, plan_execution
from tantamount.execution.witness import Searched, search, search_on
from tantamount.ir.job import Job
from tantamount.limits import Limits
from tantamount.proof import Options, Proof, prove
from tantamount.proof.inputs import build_inputs
from tantamount.proof.run import RanksRun, SpecificationRun
from tantamount.proof.simplified import draws
from tantamount.reduction import NotReduced, Reduction, reduce_job
from tantamount.verdict import OutputReport, Verdict

__all__ = ["at_reduced_sizes", "differing", "differs_somewhere", "find_differences", "is_large", "planned"]

_AGREEING = 2  # inputs on which both programs agree with nothing dropped before draws are paired
_MANY = 1 << 20  # elements of all tensors from which on smaller shapes are tried first, if they are


def find_differences(
    proof: Proof, outputs: tuple[OutputReport, ...], limits: Limits, agreeing: int = 0, known: Plan | None = None
) -> Searched:
    """Like :func:`tantamount.execution.witness.search`, at smaller shapes where those of the job are too large, or so
    large that the same difference is found and simplified sooner at smaller ones. ``known``: the plan of the proof."""
    try:
        plan = known or plan_execution(
            proof.store, proof.job, proof.inputs, proof.specification, proof.implementation, limits
        )
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


def differs_somewhere(proof: Proof, limits: Limits) -> Plan | None:
    """The plan of a proof if one execution at the job's own shapes, on numbers that are drawn, shows that an output
    differs; else ``None``."""
    job = proof.job
    try:
        plan = plan_execution(proof.store, job, proof.inputs, proof.specification, proof.implementation, limits)
    except NotExecuted:
        return None
    names = [name for name, wanted in job.outputs.items() if not wanted.problem]
    return plan if differing(plan, names, keep=not is_large(plan)) else None


def _differ(plan: Plan, outputs: tuple[OutputReport, ...], before: tuple[OutputReport, ...]) -> bool:
    """True if all outputs that executions at smaller shapes have refuted differ at those of the job, too."""
    known = {output.name: output.reason for output in before}
    refuted = [o.name for o in outputs if o.verdict is Verdict.REFUTED and o.reason != known.get(o.name)]
    return differing(plan, refuted) == refuted


def differing(plan: Plan, names: list[str], scale: Scale | None = None, *, keep: bool = False) -> list[str]:
    """Those of the outputs that differ on one input that is drawn; ``keep``: what was executed is looked at again."""
    try:
        _, execution = executed_on(plan, 0, scale or Scale(), keep=keep)
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
        plan = planned(reduction.job, options)
        if any(draws(graph) for graph in (plan.job.specification, *plan.job.programs)):
            paired = _pairs_masks(proof)
            with suppress(NotExecuted):
                kept = _searched(proof, plan, reduction, outputs, _AGREEING if paired else agreeing)
                if kept.counterexample is not None or not paired:
                    return replace(kept, notes=(*kept.notes, "both sides were executed with nothing dropped"))
            plan = _planned_with_draws(reduction.job, options)
        return _searched(proof, plan, reduction, outputs, agreeing)
    except (NotReduced, TantamountError) as problem:
        text = f"no counterexample was looked for: {reason}; at smaller shapes neither: {problem}"
        return Searched(outputs, notes=(text,))


def _pairs_masks(proof: Proof) -> bool:
    """True if a proof says which masks of both programs are the same, or only one of them has any: else nothing is
    dropped when they are executed, with a proof or without."""
    ours, theirs = proof.specification, proof.implementation
    return (proof.job.assume.dropout and not theirs.fresh_masks) or not (theirs.drops and ours.dropouts)


def _searched(
    proof: Proof, plan: Plan, reduction: Reduction, outputs: tuple[OutputReport, ...], agreeing: int
) -> Searched:
    """The result of a search on a smaller job that passes its control."""
    control(plan, outputs, proof.relations())
    return at_reduced_sizes(reduction, outputs, search_on(plan, outputs, agreeing))


def planned(job: Job, options: Options) -> Plan:
    """The plan to execute a job of which nothing is computed in the calculus. No mask of it is known to be a part of
    another one: nothing is dropped, which is a draw that is possible whatever belongs together. Executing a job with
    other draws raises :class:`NotExecuted`."""
    store = Calculus(options.effort)
    runs = SpecificationRun(), RanksRun(job.mesh)
    plan = plan_execution(store, job, build_inputs(store, job), *runs, options.limits)
    return replace(plan, paired=False, proved=False)


def _planned_with_draws(job: Job, options: Options) -> Plan:
    """The plan to execute a job, of which a proof says which draws of both programs are the same."""
    known = prove(job, options.silent())
    return plan_execution(known.store, job, known.inputs, known.specification, known.implementation, options.limits)


def at_reduced_sizes(reduction: Reduction, outputs: tuple[OutputReport, ...], searched: Searched) -> Searched:
    """The result of a search at reduced sizes as one about ``outputs``, the reports on the job itself."""
    counterexample = searched.counterexample
    if counterexample is not None:
        counterexample = replace(counterexample, sizes=reduction.sizes)
    text = "executed at reduced sizes"
    where = f"too large to execute at its own shapes; executed at reduced sizes: {shown(reduction.sizes)}"
    by_name = {output.name: replace(output, notes=(*output.notes, text)) for output in searched.outputs}
    merged = tuple(one if one.verdict is Verdict.PROVED else by_name[one.name] for one in outputs)
    notes = searched.notes if counterexample is not None else (*searched.notes, where)
    return Searched(merged, counterexample, notes, searched.plan, small=searched.small)


def shown(sizes: Mapping[int, tuple[int, ...]]) -> str:
    """``1536 -> 12, 768 -> 4 or 6``, the largest first."""
    return ", ".join(f"{old} -> {' or '.join(map(str, new))}" for old, new in sorted(sizes.items(), reverse=True))
