"""A deep job of which one piece is wrong: the whole is executed, and the piece is explained as a job of its own.

What is refuted is refuted by a difference of the whole job. What the piece says of the place is believed only if the
whole job is proved with the change that it comes to, or all but this piece is proved, should that hand on what is
expected; else there is no answer here, and the job is looked at as a whole.
docs/design/lemmas.md says why that is so.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

from tantamount.errors import TantamountError
from tantamount.execution.plans import NotExecuted, Plan, TooLarge
from tantamount.execution.reduced import at_reduced_sizes, differing, is_large, planned
from tantamount.execution.witness import SCALES, Searched, search_on
from tantamount.ir.graph import Graph, Output
from tantamount.ir.job import Job
from tantamount.ir.relation import Expectation
from tantamount.proof import Options, prove
from tantamount.proof.lemmas import Open, prove_in_pieces, would_be_proved
from tantamount.proof.outputs import show
from tantamount.proof.simplified import draws
from tantamount.reduction import reduce_job
from tantamount.verdict import Mismatch, OutputReport, Verdict

__all__ = ["Executed", "executed", "is_wrong", "of_one_piece", "takes_little"]

_SMALL = "it differs where it was executed, by too little to tell"
_GROWN = "normal forms grow, and others are refuted: it is not compared by them"
_AGREEING = 2  # inputs on which both programs agree before they are left to a proof


@dataclass(frozen=True)
class Executed:
    """The result of executing a job of which no proof is known, and the piece of what was executed that is open there:
    where the job is large, these are the same programs at smaller shapes."""

    searched: Searched
    left: Open | None


# ------------------------------------------------------------------------------------------------ the whole job
def executed(
    job: Job, left: Open | None, outputs: tuple[OutputReport, ...], options: Options, *, some: bool = False
) -> Executed | None:
    """The result of executing the whole job, if it refutes all outputs that are not proved in pieces: those before the
    one that is ``left``, if they say anything. ``outputs`` are the reports so far. What differs there by too little to
    tell needs no proof, for there is none: others are refuted, and it stays open. ``some``: it need not refute all."""

    def way() -> Executed | None:  # what it raises whoever looks at the job with a proof meets again, and says so
        found = _executed(job, left, outputs, options, together=not some)
        if found is None or not found.searched.counterexample or not (some or _settled(found.searched)):
            return None
        told = [_told(one, found.searched) for one in found.searched.outputs]
        return replace(found, searched=replace(found.searched, outputs=tuple(told)))

    return options.effort.trying(way)


def takes_little(job: Job, options: Options) -> bool:
    """True if executing a job takes about as long as finding out which operators to apply."""
    try:
        return not is_large(planned(job, options))
    except TantamountError:
        return False


def _told(output: OutputReport, found: Searched) -> OutputReport:
    """The report on an output, with the reason why it is open."""
    if output.verdict is not Verdict.UNKNOWN:
        return output
    return replace(output, reason=_SMALL if output.name in found.small else _GROWN)


def _settled(found: Searched) -> bool:
    return all(one.verdict in (Verdict.PROVED, Verdict.REFUTED) or one.name in found.small for one in found.outputs)


def _executed(
    job: Job, left: Open | None, outputs: tuple[OutputReport, ...], options: Options, together: bool
) -> Executed | None:
    if any(draws(graph) for graph in (job.specification, *job.programs)):
        return None  # only a proof says which draws are the same
    names = [one.name for one in outputs if one.verdict is not Verdict.PROVED]
    plan: Plan | None = None
    try:
        plan = planned(job, options)
    except TooLarge:
        if left is None:
            return None  # nothing would control that the smaller job is like this one
    if plan is not None and not is_large(plan):
        return Executed(search_on(plan, outputs, _AGREEING, together=together), left)
    if len(names) < len(outputs) or (together and plan is not None and differing(plan, names) != names):
        return None
    reduction = reduce_job(job, options.effort)
    small = None if left is None else _same_piece(reduction.job, left, options)
    searched = search_on(planned(reduction.job, options), outputs, _AGREEING, together=together)
    names = [one.name for one in searched.outputs if one.verdict is Verdict.REFUTED]
    if not together and (plan is None or differing(plan, names) != names):
        return None
    return Executed(at_reduced_sizes(reduction, outputs, searched), small)


def _same_piece(job: Job, left: Open, options: Options) -> Open:
    """The piece that is open of the job at other sizes: the same one, and what is proved before it is proved there,
    too. Raises :class:`NotExecuted`."""
    opened: list[Open] = []
    prove_in_pieces(job, options.silent(), places=left.places, left=opened.append)
    if not opened or _nodes(opened[0]) != _nodes(left) or opened[0].expected != left.expected:
        raise NotExecuted("another piece is open at smaller shapes")
    lost = {one.tensor for one in left.found.relations} - {one.tensor for one in opened[0].found.relations}
    if lost:
        raise NotExecuted("a tensor has a counterpart at the job's shapes only")
    return opened[0]


def _nodes(left: Open) -> list[str]:
    return [node.name for node in left.piece.job.specification.nodes]


# ------------------------------------------------------------------------------------------------ the piece
def is_wrong(left: Open, options: Options) -> bool:
    """True if the piece that is open differs from its specification on one of two inputs, one of them of small numbers:
    else it is right, most likely, and only does not fit."""
    try:
        part = _job_of(left)
        try:
            plan = planned(part, options)
        except TooLarge:
            plan = planned(reduce_job(part, options.effort).job, options)
        return any(differing(plan, list(part.outputs), scale) for scale in SCALES[:_AGREEING])
    except TantamountError:
        return False


def of_one_piece(job: Job, left: Open, executed: Open, options: Options) -> Mismatch | None:
    """The mismatch of the piece that is open, if the whole job is proved with its hint, or would be if the piece handed
    on what is expected; ``executed`` is the piece of what was executed."""

    def way() -> Mismatch | None:
        found = _explained(job, left, executed, options)
        believed = found is not None and (found.hint or would_be_proved(left, options.silent()))
        return found if believed else None

    return options.effort.trying(way)


def _explained(job: Job, left: Open, executed: Open, options: Options) -> Mismatch | None:
    from tantamount.diagnosis.hints import proved_in_pieces_with  # here: most pieces that are open only do not fit
    from tantamount.diagnosis.localise import find_mismatch

    proof = prove(_job_of(left), options.silent())
    failing = [one for one in proof.check(expand=False) if one.verdict is not Verdict.PROVED]
    part = _job_of(executed)
    plan = planned(part, options)
    names = [one.name for one in failing]
    wrong = next(filter(None, (differing(plan, names, scale) for scale in SCALES[:_AGREEING])), None)
    if wrong is None:
        return None
    reports = [replace(one, verdict=Verdict.REFUTED) for one in failing if one.name in wrong]
    follows = partial(proved_in_pieces_with, job, options=options, lemmas=left.lemmas)
    return find_mismatch(proof, reports, plan, proves=follows)[0]


def _job_of(left: Open) -> Job:
    """The piece as a job that is asked for all that it should hand on. Raises :class:`NotExecuted` where that is
    nothing, or where names clash."""
    job = left.piece.job
    asked = {whole: Expectation(name, placed, text=show(placed)) for name, (whole, placed) in left.expected.items()}
    if not asked.keys().isdisjoint(job.outputs):
        raise NotExecuted("an output and a tensor have one name")
    implementation = job.on_ranks([_telling(graph, [one.name for one in asked.values()]) for graph in job.programs])
    specification = _telling(job.specification, [*asked])
    return replace(job, specification=specification, implementation=implementation, outputs={**job.outputs, **asked})


def _telling(graph: Graph, names: list[str]) -> Graph:
    """The program with some of its tensors as outputs, under their own names."""
    known = {output.name: output.node for output in graph.outputs}
    if any(known.get(name, name) != name for name in names):
        raise NotExecuted("an output and a tensor have one name")
    return replace(graph, outputs=(*graph.outputs, *(Output(name, name) for name in names if name not in known)))
