"""A job proved as a simpler one: the stages of its pipeline as one program, its microbatches as a mesh axis."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from tantamount.effort import Effort
from tantamount.errors import TantamountError
from tantamount.ir.graph import Graph
from tantamount.ir.job import Job
from tantamount.ops.calls import operator_of
from tantamount.proof.accumulated import prove_accumulated
from tantamount.proof.copies import blocks
from tantamount.proof.lemmas import InPieces, prove_in_pieces
from tantamount.proof.microbatches import as_ranks
from tantamount.proof.proof import Options, prove
from tantamount.proof.simpler import Simpler, told_back
from tantamount.proof.stages import as_one_program
from tantamount.verdict import Verdict

__all__ = ["draws", "prove_simplified", "simplified"]

_LONG = 300  # nodes of a program from which on it pays


def simplified(job: Job) -> list[Simpler]:
    """The jobs that are simpler one after the other; none if there is nothing to simplify."""
    steps: list[Simpler] = []
    if any(draws(graph) for graph in (job.specification, *job.programs)):  # masks are paired by their order
        return steps
    one = as_one_program(job)
    steps += [] if one is None else [one]
    folded = None if blocks([job.specification]) else as_ranks(steps[-1].job if steps else job)
    return steps if folded is None else [*steps, folded]


def draws(graph: Graph) -> bool:
    """True if a program draws random numbers."""
    calls = (node for node in graph.nodes if node.op == "call" and node.target != "getitem")
    return any(operator_of(graph, node).category == "random" for node in calls)


def prove_simplified(job: Job, options: Options, *, least: int = _LONG) -> InPieces | None:
    """The proof of a job by one of a simpler job; ``None`` where there is no simpler one, that is not proved, or no
    program has ``least`` nodes. Raises :class:`Stopped` as :func:`prove` does."""
    if options.align is None or options.fold is False or options.cut is False or job.at is not None:
        return None
    if max(len(graph.nodes) for graph in (job.specification, *job.programs)) < least:
        return None
    steps = simplified(job)
    simple = steps[-1].job if steps else job

    def tell(make: Callable[[], InPieces]) -> None:
        options.so_far(lambda: _told(steps, make(), options.effort))

    try:
        found = None
        if blocks([job.specification]):
            found = prove_accumulated(simple, options.silent(), partial(_proved, least=least))
        if found is None and steps:
            found = _proved(simple, replace(options, so_far=tell), least=least)
    except TantamountError:
        return None
    return found if found is None else _told(steps, found, options.effort)


def _told(steps: Sequence[Simpler], found: InPieces, effort: Effort) -> InPieces:
    """The proved statements about the last job, as statements about the first one."""
    if not steps:
        return found
    outputs, relations, assumptions = told_back(steps, found.outputs, found.relations, found.assumptions, effort)
    return replace(found, outputs=outputs, relations=relations, assumptions=assumptions, instances=())


def _proved(job: Job, options: Options, *, least: int) -> InPieces | None:
    found = prove_in_pieces(job, options, least=least)
    if found is not None:
        return found
    proof = prove(job, replace(options.silent(), cut=True))
    if proof.specification.dropouts or proof.implementation.fresh_masks:
        return None
    outputs = proof.check(expand=False)
    if any(output.verdict is not Verdict.PROVED or output.reason for output in outputs):
        return None
    return InPieces(outputs, (*proof.relations().values(),), proof.assumptions(), 1, (proof,))
