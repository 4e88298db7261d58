"""Answers to whether two polynomials are equal: equal, different, or undecided.

The calculus is sound and complete for a fragment only, so that one question has three answers. What ended a search is
part of the third one, and only the first two are remembered for good.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple, NoReturn

from tantamount.calculus.terms import Polynomial
from tantamount.effort import Hit
from tantamount.errors import Unsupported
from tantamount.limits import Bounds

__all__ = ["EQUAL", "Answer", "Different", "Equal", "GaveUp", "Remembered", "Undecided", "undecided"]


class GaveUp(Unsupported):
    """Raised inside a search that has used up its effort."""


class _NoTruthValue:
    """Base of the answers: ``if equal_polynomials(...)`` would take "undecided" for one of the other two."""

    __slots__ = ()
    proved = False

    def __bool__(self) -> NoReturn:
        raise TypeError("an answer has three values: ask for its .proved, or for its class")


@dataclass(frozen=True, slots=True)
class Equal(_NoTruthValue):
    """The two are the same function wherever both are defined."""

    proved = True


@dataclass(frozen=True, slots=True)
class Different(_NoTruthValue):
    """The two normal forms were multiplied out completely, and ``residual`` is what is left of their difference.

    That is not yet a difference of the functions: the normal form is canonical for a fragment only (two sides of an
    identity of ``sin`` differ, too). REFUTED never rests on it."""

    residual: Polynomial = ()


@dataclass(frozen=True, slots=True)
class Undecided(_NoTruthValue):
    """The search ended early: at the bounds ``hits`` (with what it would have taken, where that is known), or because
    of something that the calculus cannot express (``reason``, one clause)."""

    hits: tuple[Hit, ...] = ()
    reason: str = ""


Answer = Equal | Different | Undecided
EQUAL = Equal()


def undecided(answers: Iterable[Undecided]) -> Undecided:
    """One answer for several searches that all ended early."""
    found = list(answers)
    hits = {hit.name: hit for answer in found for hit in answer.hits}
    return Undecided(tuple(hits.values()), next((answer.reason for answer in found if answer.reason), ""))


class Remembered(NamedTuple):
    """An answer, and what the search for it could spend: effort, depth of cells, and bounds."""

    answer: Answer
    left: int
    nested: int
    bounds: Bounds
