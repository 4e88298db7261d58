"""Programs with random numbers whose job does not say which draws are the same.

Then every draw is its own, and two runs of one program differ. Whether that is meant only the job can say: what differs
no longer where the k-th draw of a program is the k-th of the other is UNKNOWN, and the report says what to state. What
differs even then is told as it does then: equal draws are among those that may happen, and what is left is the mistake.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from tantamount.ir.job import Job
from tantamount.refinement.result import Refinement
from tantamount.verdict import OutputReport, Verdict, worst

__all__ = ["unless_draws_are_unstated"]

_SAY = 'state which draws are the same: [assume] dropout = "same mask", or refine(..., assume={"dropout": "same mask"})'

_EVEN_THEN = "the programs draw random numbers; they differ even where the k-th draws are the same, as is shown here"


def unless_draws_are_unstated(job: Job, found: Refinement, again: Callable[[Job], Refinement]) -> Refinement:
    """The answer, but not refuted by draws of which nothing is said. ``again`` answers the job with the assumption."""
    if job.assume.dropout or job.at is not None or found.verdict is Verdict.PROVED or not _both_draw(found):
        return found
    stated = again(replace(job, assume=replace(job.assume, dropout=True)))
    if stated.verdict is not Verdict.PROVED and not _all_paired(stated):
        return found
    verdicts = {output.name: output.verdict for output in stated.outputs}
    if (
        stated.verdict is Verdict.REFUTED
        and stated.counterexample is not None
        and stated.mismatch is not None
        and all(verdicts.get(o.name) is o.verdict for o in found.outputs)
    ):
        return replace(
            found,
            outputs=stated.outputs,
            mismatch=stated.mismatch,
            counterexample=stated.counterexample,
            notes=(*stated.notes, _EVEN_THEN),
        )
    outputs = tuple(_unstated(output, verdicts.get(output.name, output.verdict)) for output in found.outputs)
    if outputs == found.outputs:
        return found
    verdict = worst(output.verdict for output in outputs)
    if verdict is Verdict.REFUTED:  # another output differs, whatever is drawn
        return replace(found, outputs=outputs)
    note = f"both programs draw random numbers; {_SAY}"
    return replace(
        found, verdict=verdict, outputs=outputs, mismatch=None, counterexample=None, notes=(*found.notes, note)
    )


def _both_draw(found: Refinement) -> bool:
    proof = found.proof
    return proof is not None and bool(proof.specification.masks) and bool(proof.implementation.masks)


def _all_paired(stated: Refinement) -> bool:
    """True if every draw of the implementation is known to be one of the specification's."""
    proof = stated.proof
    return proof is not None and not proof.implementation.fresh_draws and not proof.implementation.fresh_masks


def _unstated(output: OutputReport, stated: Verdict) -> OutputReport:
    """The report on an output, given the verdict on it if the draws are the same."""
    if output.verdict is Verdict.PROVED or stated is Verdict.REFUTED:
        return output
    if output.verdict is Verdict.UNKNOWN and stated is not Verdict.PROVED:
        return output
    so = "PROVED" if stated is Verdict.PROVED else "not refuted"
    reason = f"it depends on which random numbers are the same, which is not stated: if the k-th draws are, it is {so}"
    return replace(output, verdict=Verdict.UNKNOWN, reason=reason, notes=())
