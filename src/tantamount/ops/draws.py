"""Distributions that random numbers are drawn from, as far as a proof needs them: their support.

A random operator is defined by draws from one of a few laws and arithmetic on them: ``uniform(a, b)`` is
``a + (b - a) u`` with u from the unit interval. So what its numbers may be follows, and an execution draws nothing that
PyTorch does not.
"""

from __future__ import annotations

from fractions import Fraction

from tantamount.ops.algebra import Law, Number

__all__ = ["CAUCHY", "COUNTS", "EXPONENTIAL", "NORMAL", "UNIT", "below", "kept"]

UNIT = Law("unit")  # 0 <= u < 1
NORMAL = Law("normal")  # any real number
CAUCHY = Law("cauchy")  # any real number
EXPONENTIAL = Law("exponential")  # e > 0
COUNTS = Law("counts")  # whole numbers from 0 on


def below(size: int) -> Law:
    """Whole numbers ``0 <= n < size``, each of them."""
    return Law("below", Fraction(size))


def kept(p: Number) -> Law:
    """The keep-mask of a dropout that drops with probability ``p``: true or false, both if ``0 < p < 1``."""
    return Law("kept", Fraction(p))
