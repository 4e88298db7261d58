"""One job from start to verdict, or to what was known when time or memory were used up."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from tantamount.calculus.atoms import Store
from tantamount.effort import Effort, Grown, Stopped, stopping
from tantamount.errors import UserError
from tantamount.ir.job import Job
from tantamount.limits import COMPARISON, Limits, limits_from_environment
from tantamount.ops.classes import RankClass
from tantamount.proof import Options, Progress, Proof, prove
from tantamount.proof.cuts import Align, Candidates
from tantamount.proof.inputs import Inputs
from tantamount.proof.lemmas import InPieces, Open, prove_in_pieces
from tantamount.proof.proof import nothing_of
from tantamount.proof.simplified import prove_simplified
from tantamount.refinement.reports import any_refuted, explained, still_open, told_before, unrefuted, with_more
from tantamount.refinement.result import Refinement, limits_hit
from tantamount.refinement.state import LONG, MANY_RANKS, SHARE, State
from tantamount.refinement.unstated import unless_draws_are_unstated
from tantamount.verdict import Mismatch, OutputReport, Verdict

if TYPE_CHECKING:
    from tantamount.execution.plans import Plan
    from tantamount.execution.witness import Searched

__all__ = ["Captured", "job_of", "refine_differing", "refine_job", "whole_proof"]

_MORE = 4  # times the steps so far that multiplying out whole outputs may take after cuts, in long programs


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
    effort: Effort | None = None,
    so_far: Callable[[Refinement], None] | None = None,
    doubtful: bool = False,
    cut_from: int = LONG,
    proof: Proof | None = None,
    plan: Plan | None = None,
    accept: Collection[str] = (),
) -> Refinement:
    """The verdict on a job; the arguments are those of :func:`tantamount.refine`, but ``effort`` says all that may be
    spent, ``doubtful`` that something is probably wrong, so that values are compared before forms are, ``cut_from``
    from how many nodes of a specification on it is cut where both programs agree, if it is not proved as a whole,
    ``proof`` and its ``plan`` of execution are the job's, where they are known, ``accept`` are the names of declared
    approximations that are allowed, and ``so_far`` is told the report as it would be if the work ended now, whenever
    more is known (only where time or memory are limited). Raises :class:`UserError`."""
    how = effort if effort is not None else Effort()
    state = State(job, strict, how, so_far or _unheard, cut_from, accept, plan)
    bounds = limits if limits is not None else limits_from_environment()
    options = Options(
        fold=fold,
        align=_once(),
        limits=bounds,
        effort=how,
        progress=state.noting(progress),
        lap=state.clock.lap,
        so_far=state.know_pieces,
    )
    try:
        with stopping(how):
            if job.at is not None:
                from tantamount.refinement.all_sizes import refine_at_all_sizes

                one = partial(refine_job, strict=strict, fold=fold, limits=bounds, effort=how)
                return replace(refine_at_all_sizes(job, job.at, one, options, strict), limits=limits_hit(how))
            _refine(state, options, doubtful, proof)
    except Stopped as stop:
        state.stopped = stop
        state.know_pieces_now()
    except MemoryError:
        if how.megabytes is None:
            raise
        state.stopped = how.out_of_memory()
        state.know_pieces_now()
    found = state.report()
    if found.stopped:
        return found
    again = partial(refine_job, strict=strict, fold=fold, limits=bounds, effort=how, cut_from=cut_from, accept=accept)
    return unless_draws_are_unstated(job, found, again)


_AGREEING = 2  # inputs on which both programs agree before a proof takes more effort
_LESS = 1.75  # CPU seconds that looking for a repair of a part of a plan may take less than the bound says


def _once() -> Align:
    """Aligns each pair of programs once: at smaller shapes they are the same programs, and hints may be those of the
    larger ones."""
    known: dict[object, Candidates] = {}

    def aligned(store: Store, job: Job, inputs: Inputs, classes: Sequence[RankClass], limits: Limits) -> Candidates:
        names = [
            tuple((node.name, node.target) for node in graph.nodes) for graph in (job.specification, *job.programs)
        ]
        key = (
            *names,
            job.numbers,
            tuple((one.leader, tuple(one.ranks)) for one in classes),
            tuple(job.mesh.axes.items()),
        )
        if key not in known:
            from tantamount.correspond.alignment import align  # executes programs: for long jobs only

            known[key] = align(store, job, inputs, classes, limits)
        return known[key]

    return aligned


def whole_proof(found: Refinement) -> Proof | None:
    """The one proof behind a report, if there is one; of what was proved in pieces it is made now."""
    if found.in_pieces and found.subject is not None:
        return prove(found.subject, Options(align=_once()))
    return found.proof


def refine_differing(proof: Proof, *, limits: Limits | None = None, effort: Effort | None = None) -> Refinement | None:
    """The verdict on a job, and why, if one execution at its own sizes, on numbers that are drawn, shows that an output
    differs; else ``None``. ``proof`` is one of the job as a whole of which nothing is asked any more but this."""
    from tantamount.execution.reduced import differs_somewhere

    bounds = limits if limits is not None else limits_from_environment()
    plan = differs_somewhere(proof, bounds)
    if plan is None:
        return None
    return refine_job(proof.job, limits=bounds, effort=effort, doubtful=True, proof=proof, plan=plan)


def _refine(state: State, options: Options, doubtful: bool, known: Proof | None) -> None:
    job, clock = state.job, state.clock
    state.at = "proving it in pieces"
    found = None if doubtful else prove_simplified(job, options)
    left: list[Open] = []
    if found is None and not doubtful:
        state.forget_pieces()
        found = prove_in_pieces(job, options, left=left.append)
    if found is not None:
        clock.lap("pieces")
        state.keep_pieces(found)
        return
    many = not doubtful and job.mesh.world_size > MANY_RANKS
    if left and not many and _refuted_by_one_piece(state, left[0], options):
        return
    state.forget_pieces()

    def refuted(early: bool) -> bool:
        if early:
            state.forms_grow()
        return not many and _known_as_wrong(state, None, options, early)

    try:
        how = replace(options, refuted=refuted)
        proof = state.proof = prove(job, how) if known is None else replace(known, options=options)
    except Grown:
        _explained_by_values(state, left[0].found if left else None, options)
        return
    state.is_run(proof)
    checked = tuple(map(state.unknown, job.outputs)) if doubtful else _compared(state, proof)
    clock.lap("outputs")
    if not doubtful:  # what is wrong is told by values, mostly, which need none
        proof.relations()
        clock.lap("relation")
    if many and still_open(checked):
        checked = _explained_on_fewer(state, proof, checked, options)
        if left and state.mismatch is None and _refuted_by_one_piece(state, left[0], options):
            return
    if still_open(checked) and state.mismatch is None:
        patience = proof.options.effort.bounds.doubtful_seconds if doubtful else None
        proof, checked = _not_proved(state, proof, checked, patience)
    state.know(proof, checked)
    if not doubtful or not still_open(checked):
        state.assumptions = proof.assumptions()


def _known_as_wrong(state: State, left: Open | None, options: Options, early: bool = False) -> bool:
    """True if executing the job refutes all outputs but those that are proved in the pieces before the one that is
    ``left``. The state knows the result. ``early``: only if that takes little. Where forms grow even so, with cuts,
    one that is refuted is enough: a proof of the others may not end."""
    from tantamount.refinement.one_piece import executed, takes_little

    if not state.was_executed:
        if early:
            state.clock.lap("implementation")
            if not takes_little(state.job, options):
                return False
        state.was_executed = True
        state.at = "looking for a counterexample"
        before = {} if left is None else {output.name: output for output in left.found.outputs}
        outputs = tuple(before.get(name) or state.unknown(name) for name in state.job.outputs)
        state.executed = executed(state.job if left is None else left.job, left, outputs, options)
        state.clock.lap("witness")
    if state.executed is None and left is None and not early:
        unknown = tuple(map(state.unknown, state.job.outputs))
        state.executed = executed(state.job, None, unknown, options, some=True)
        state.clock.lap("witness")
    return state.executed is not None


def _refuted_by_one_piece(state: State, left: Open, options: Options) -> bool:
    """True if the job is refuted, and one piece of it says why: then all is known that there is to know."""
    from tantamount.refinement.one_piece import is_wrong, of_one_piece

    state.clock.lap("pieces")
    if not is_wrong(left, options) or not _known_as_wrong(state, left, options):
        return False
    if state.executed is None or state.executed.left is None:
        return False
    state.at = "looking at the piece that is not proved"
    mismatch = of_one_piece(left.job, left, state.executed.left, options)
    state.clock.lap("localise")
    if mismatch is None:
        return False
    _keep_refuted(state, left.found, state.executed.searched, mismatch)
    return True


def _explained_by_values(state: State, found: InPieces | None, options: Options) -> None:
    """Keep what executing the job says, and where values part: forms grow, so that nothing else is known of it."""
    from tantamount.diagnosis.localise import find_mismatch

    if state.executed is None:
        return
    searched = state.executed.searched
    known = {} if found is None else {relation.tensor: relation for relation in found.relations}
    state.at = "looking for the place"
    nothing = nothing_of(state.job, options, known)
    mismatch, _ = find_mismatch(nothing, still_open(searched.outputs), searched.plan)
    state.clock.lap("localise")
    _keep_refuted(state, found or InPieces((), (), (), 0, ()), searched, mismatch)


def _explained_on_fewer(
    state: State, proof: Proof, checked: tuple[OutputReport, ...], options: Options
) -> tuple[OutputReport, ...]:
    """The reports on outputs, of a job of many ranks, once it is explained on a few of them, if it can be. What is not
    refuted there is compared by forms, all of it."""
    from tantamount.refinement.fewer_ranks import on_fewer_ranks

    state.at = "looking at fewer ranks"
    again = partial(refine_job, limits=options.limits, effort=options.effort, fold=options.fold)
    found = on_fewer_ranks(state.job, checked, options, again)
    state.clock.lap("localise")
    if found is None:
        return checked
    state.counterexample, state.notes, state.mismatch = found.counterexample, found.notes, found.mismatch
    left = [one.name for one in found.outputs if one.verdict is Verdict.UNKNOWN]
    more = {one.name: one for one in _checked(state, proof, expand=False, only=left)} if left else {}
    state.clock.lap("outputs")
    return tuple(more.get(one.name, one) for one in found.outputs)


def _keep_refuted(state: State, found: InPieces, searched: Searched, mismatch: Mismatch | None) -> None:
    state.keep_pieces(replace(found, outputs=searched.outputs, instances=()))
    state.counterexample, state.notes, state.mismatch = searched.counterexample, searched.notes, mismatch


def _not_proved(
    state: State, proof: Proof, checked: tuple[OutputReport, ...], patience: float | None
) -> tuple[Proof, tuple[OutputReport, ...]]:
    """The proof and the reports on outputs that were not proved at once, with what is wrong with them. What executes
    and explains is imported here: most jobs are proved."""
    from tantamount.diagnosis.localise import find_mismatch

    proof, searched = _with_effort(state, proof, checked)
    checked = searched.outputs
    state.know(proof, checked)
    failing = still_open(checked)
    if failing:
        if patience is not None:
            state.assumptions = proof.assumptions()  # now: comparing forms may be cut off
        more = -_LESS if patience is not None else state.more_seconds() if any_refuted(checked) else 0.0
        mismatch, reductions = find_mismatch(proof, failing, searched.plan, more, patience)
        state.clock.lap("localise")
        if len(failing) > 1:  # of one the mismatch says it
            checked = tuple(explained(output, reductions.get(output.name, "")) for output in checked)
        refuted = any(output.verdict is Verdict.REFUTED for output in checked)
        state.mismatch = mismatch if refuted or mismatch is None else mismatch.undecided()
    return proof, checked


def _compared(state: State, proof: Proof) -> tuple[OutputReport, ...]:
    """A report for every output, by forms as they are. Equal ones are seen to be at once: where comparing takes as much
    as computing them did nothing is known, and values are looked at first."""
    effort = state.effort
    try:
        with effort.watching(max(effort.bounds.refuted_effort * proof.steps, effort.bounds.refuted_steps)):
            return _checked(state, proof, expand=False)
    except Grown:
        return tuple(map(state.unknown, state.job.outputs))


def _checked(
    state: State, proof: Proof, *, expand: bool, only: Collection[str] | None = None
) -> tuple[OutputReport, ...]:
    """A report for every output (of ``only`` those). Where time or memory are limited, what is proved is known at once,
    so that it stays known."""
    if not state.effort.limited:
        return proof.check(expand=expand, only=only)
    found: list[OutputReport] = []
    known, kept, cost = 0, 0.0, 0.0
    for name in [output.name for output in state.job.specification.outputs if only is None or output.name in only]:
        state.at = f"comparing the output {name}"
        found += proof.check(expand=expand, only=[name])
        begun = time.monotonic()
        if begun - kept >= SHARE * cost:  # gathering what they rest on costs a share of the time at most
            state.know(proof, [output for output in found[known:] if output.verdict is Verdict.PROVED])
            known, kept = len(found), time.monotonic()
            cost = kept - begun
    state.know(proof, [output for output in found[known:] if output.verdict is Verdict.PROVED])
    return tuple(found)


def _with_effort(state: State, proof: Proof, before: tuple[OutputReport, ...]) -> tuple[Proof, Searched]:
    """The proof and the reports on outputs that were not proved at once: values first, for what
    differs on an input needs no search for a proof, which takes longest where there is none; then with products
    multiplied out; then rank by rank."""
    from tantamount.execution.witness import Searched

    clock, hits = state.clock, state.effort.counts()
    searched = _executed(state, proof, before)
    long = len(proof.job.specification.nodes) >= state.cut_from
    apart = long and _may_need_cuts(proof, searched.outputs)
    if apart and (cut := _proved_with_cuts(state, proof)) is not None:
        return cut
    reasons = {output.name: output.reason for output in before}
    more = _proved_with_effort(state, proof, reasons, searched.outputs, apart)
    checked = tuple(with_more(output, more.get(output.name), reasons) for output in searched.outputs)
    clock.lap("outputs")
    rest, left = searched.rest, [output.name for output in still_open(checked)]
    if rest is not None and left:
        searched = _searched(state, proof, lambda: rest(left))
        kept = {name for name in more if name in unrefuted(searched.outputs, reasons)}
        checked = tuple(
            with_more(output, more[output.name] if output.name in kept else None, reasons)
            for output in searched.outputs
        )
    if proof.options.fold is None and proof.folded and _may_need_ranks(proof, checked):
        state.at = "proving it rank by rank"
        apart = prove(proof.job, replace(proof.options, fold=False))
        again = apart.check()
        clock.lap("outputs")
        if not still_open(again):
            apart.relations()
            clock.lap("relation")
            state.notes = ()
            return apart, Searched(again)
    ended = state.effort.since(hits, COMPARISON)
    if not long and ended and still_open(checked) and _may_need_cuts(proof, checked):
        effort = state.effort
        try:
            with effort.watching(max(effort.bounds.multiplied_steps, _MORE * effort.steps)):
                cut = _proved_with_cuts(state, proof)
            if cut is not None:
                return cut
        except Grown:
            effort.hit("multiplied_steps")
    return proof, replace(searched, outputs=checked)


def _proved_with_cuts(state: State, proof: Proof) -> tuple[Proof, Searched] | None:
    """A proof that cuts both programs where they agree, with its reports; ``None`` if it leaves an output open."""
    from tantamount.execution.witness import Searched

    state.at = "proving it with cuts"
    cut = prove(proof.job, replace(proof.options, cut=True))
    again = cut.check(expand=False)
    state.clock.lap("outputs")
    if still_open(again):
        return None
    cut.relations()
    state.clock.lap("relation")
    state.notes = ()
    return cut, Searched(again)


def _may_need_cuts(proof: Proof, checked: Sequence[OutputReport]) -> bool:
    """True if a proof that cuts both programs where they agree may succeed where one as a whole did not: each step is
    compared alone. Of programs that are short a whole comparison says as much, unless a bound ended it."""
    if proof.cuts is not None or proof.options.cut is not None or proof.options.align is None:
        return False
    return not any(output.verdict is Verdict.REFUTED for output in checked)


def _may_need_ranks(proof: Proof, checked: Sequence[OutputReport]) -> bool:
    """True if a proof rank by rank may succeed where one with ranks as axes did not: numbers that differ by rank, such
    as where a rank's part begins, are tables there, and decide nothing; and nothing was refuted."""
    ranks = proof.job.implementation
    if all(graph.nodes == ranks[0].nodes for graph in ranks):
        return False
    if any(output.verdict is Verdict.REFUTED for output in checked):
        return False
    return not proof.options.effort.exceeds("single_ranks", sum(len(graph.nodes) for graph in ranks))


def _executed(state: State, proof: Proof, before: tuple[OutputReport, ...]) -> Searched:
    """The result of a search for a counterexample, which is interrupted where both programs agree at first: that they
    are equal, as they probably are, takes less time to show than more executions."""
    from tantamount.execution.reduced import find_differences

    known = None if state.executed is None else state.executed.searched
    if known is not None and known.plan is not None and known.plan.job is proof.job:
        found = told_before(before, known)
        if found is not None:
            return _searched(state, proof, lambda: found)
    plan = state.plan if state.plan is not None and state.plan.store is proof.store else None
    return _searched(state, proof, lambda: find_differences(proof, before, proof.options.limits, _AGREEING, plan))


def _searched(state: State, proof: Proof, search: Callable[[], Searched]) -> Searched:
    """The result of a search, which the state knows from then on."""
    state.at = "looking for a counterexample"
    searched = search()
    state.clock.lap("witness")
    state.counterexample, state.notes = searched.counterexample, searched.notes
    state.know(proof, [output for output in searched.outputs if output.verdict is Verdict.REFUTED])
    return searched


def _proved_with_effort(
    state: State, proof: Proof, reasons: Mapping[str, str | None], checked: tuple[OutputReport, ...], apart: bool
) -> dict[str, OutputReport]:
    """The outputs that no execution refuted, with products multiplied out; of those that are still open, why.
    ``apart``: cuts proved nothing: what each step leaves open is unlikely to be seen in the whole."""
    names = unrefuted(checked, reasons)
    if not names:
        return {}
    effort = state.effort
    if not apart or any_refuted(checked):
        return {o.name: o for o in _multiplied_out(state, proof, names, refuted=any_refuted(checked))}
    found: list[OutputReport] = []
    try:
        with effort.watching(max(effort.bounds.multiplied_steps, _MORE * effort.steps)):
            for name in names:
                found += _checked(state, proof, expand=True, only=[name])
    except Grown:
        effort.hit("multiplied_steps")
    return {o.name: o for o in found}


def _multiplied_out(state: State, proof: Proof, names: Sequence[str], *, refuted: bool) -> list[OutputReport]:
    """Reports on outputs with products multiplied out. Of a job that is refuted they are worth as much as its proof,
    and of no more of them there is a report."""
    if not refuted:
        return list(_checked(state, proof, expand=True, only=names))
    effort = state.effort
    many = effort.bounds.refuted_effort * proof.steps > effort.bounds.refuted_steps
    found: list[OutputReport] = []
    try:
        with effort.watching(max(effort.bounds.refuted_effort * proof.steps, effort.bounds.refuted_steps)):
            for name in names:
                found += proof.check(expand=True, only=[name], infer=False)
    except Grown:
        effort.hit("refuted_effort" if many else "refuted_steps")
    return found


def _unheard(_: Refinement) -> None:
    """Tells nobody."""
