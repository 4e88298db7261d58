"""A file and a model that differ in their weights: that is said first, and if anything else differs, too."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from tantamount.comparison.programs import Pair
from tantamount.refinement import Refinement
from tantamount.verdict import Verdict

__all__ = ["with_other_weights"]

_HINT = "fill the model from what the file was exported of, or export the model again, and compare these"


@dataclass(frozen=True)
class _Answered:
    """An answer on both programs where their weights are equal: a sentence, and if weights are all that differs."""

    text: str
    alone: bool


def with_other_weights(answer: Refinement, pair: Pair, compared: Callable[[Pair], Refinement]) -> Refinement:
    """The answer, whose headline says which weights differ where two programs were refuted and some do; ``compared``
    answers for the pair whose weights are equal. What was refuted stays so: the programs as they are differ."""
    other = pair.other_weights
    if other is None or answer.verdict is not Verdict.REFUTED or answer.mismatch is None:
        return answer
    equal = _answered(compared(other.equal()))
    headline = f"{other.text}; with equal numbers {equal.text}"
    hint = _HINT if equal.alone else answer.mismatch.hint
    return replace(answer, mismatch=replace(answer.mismatch, headline=headline, hint=hint))


def _answered(found: Refinement) -> _Answered:
    if found.verdict is Verdict.PROVED:
        return _Answered("both compute the same (PROVED)", True)
    if found.verdict is Verdict.REFUTED and found.mismatch is not None:
        return _Answered(f"they differ, too: {found.mismatch.headline or found.mismatch.difference}", False)
    return _Answered("it is UNKNOWN if both compute the same", False)
