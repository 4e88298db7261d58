"""Literals that stand for a number which no decimal holds: ``0.7071067811865476`` for the root of 1/2.

A graph records what Python computed in float64, so ``1 / math.sqrt(2)``, ``math.sqrt(0.5)`` and ``0.5 ** 0.5`` reach it
as decimals that differ in their last digits, or whose square is not 1/2. Taken exactly, they are other numbers. A
literal with all the digits of a float64 is therefore read as the root of a rational number of few digits, if there is
one within four units in the last place. Such a reading moves a constant by at most 2**-50 of itself, never lets
literals further apart than that coincide, and is printed as an assumption.
"""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple

__all__ = ["Reading", "reading"]

_FEW_DIGITS = 10**14  # a literal below this numerator is a decimal that somebody wrote
_ROOTS = (1, 2, 4)  # 4: the root of a scale that is itself 1 / sqrt(n)
_TOLERANCE = Fraction(1, 1 << 51)  # relative: four units in the last place at most
_HEIGHT = 1 << 32  # of p q: random literals of 53 bits are this close to p / q once in about 2**18
_DENOMINATOR = 1 << 20


class Reading(NamedTuple):
    """The positive number ``radicand ** (1 / root)``."""

    radicand: Fraction
    root: int


@lru_cache(maxsize=4096)
def reading(literal: Fraction) -> Reading | None:
    """The root that the absolute value of a literal stands for; ``None`` if it stands for itself."""
    size = abs(literal)
    if size.denominator == 1 or size.numerator < _FEW_DIGITS:
        return None
    for root in _ROOTS:
        wanted = size**root
        near = wanted.limit_denominator(_DENOMINATOR)
        if wanted > 1:
            inverse = (1 / wanted).limit_denominator(_DENOMINATOR)
            near = 1 / inverse if inverse and abs(1 / inverse - wanted) < abs(near - wanted) else near
        if (
            near.denominator * near.numerator <= _HEIGHT
            and near not in (0, 1)
            and (root > 1 or near.denominator > 1)
            and abs(near - wanted) <= root * _TOLERANCE * wanted
        ):
            return Reading(near, root)
    return None
