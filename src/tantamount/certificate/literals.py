"""Literals that stand for a number which no decimal holds, as the assumption ``rounded-literals`` says.

A literal of all the digits that a float64 has is the root (of order 1, 2 or 4) of a rational number of few digits, if
one is within four units in the last place. The rule is docs/certificates.md's, written down again here so that a
certificate's readings are found, not believed.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

__all__ = ["Reading", "stands_for"]

_WRITTEN_BY_HAND = 10**14
_UNITS = Fraction(4, 1 << 53)
_DENOMINATOR = 1 << 20
_HEIGHT = 1 << 32


@dataclass(frozen=True, slots=True)
class Reading:
    """``radicand ** (1 / root)``: the absolute value of a literal."""

    radicand: Fraction
    root: int

    @property
    def exponent(self) -> Fraction:
        return Fraction(1, self.root)

    def __str__(self) -> str:
        text = str(self.radicand)
        return text if self.root == 1 else f"({text})^(1/{self.root})"


def stands_for(literal: Fraction) -> Reading | None:
    """The number that a literal is read as; ``None``: as itself."""
    size = abs(literal)
    if size.denominator == 1 or size.numerator < _WRITTEN_BY_HAND:
        return None
    for root in (1, 2, 4):
        wanted = size**root
        candidates = [wanted.limit_denominator(_DENOMINATOR)]
        if wanted > 1 and (below := (1 / wanted).limit_denominator(_DENOMINATOR)):
            candidates.append(1 / below)
        near = min(candidates, key=lambda x: abs(x - wanted))
        few = near.numerator * near.denominator <= _HEIGHT and near not in (0, 1)
        if few and (root > 1 or near.denominator > 1) and abs(near - wanted) <= root * _UNITS * wanted:
            return Reading(near, root)
    return None
