"""Numbers at which what programs decide changes, found by bisection.

A program that asks whether ``2 i + 3 >= 101`` changes at a number that it nowhere writes down. All elements of one
input (or of all of them) are one number t, and the sign of every comparison is followed from t = -2^20 to 2^20: between
two numbers where a sign differs there is a boundary.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import numpy as np

from tantamount.certificate.draws import Draw, Elements, clipped, inside
from tantamount.ir.types import Kind
from tantamount.semantics.reference import Array

__all__ = ["boundaries"]

_GRID = (0, *(sign * 2**k for k in range(0, 21, 2) for sign in (1, -1)))
_FINEST = 2.0**-6  # between real numbers
_CHANGES = 6  # boundaries that are looked for in one input

Signs = list[tuple[int, int]]
"""The signs of the smallest and largest difference of every comparison, in order of execution."""


def boundaries(seed: int, tensors: tuple[int, ...], signs: Callable[[Draw], Signs | None], runs: int) -> set[float]:
    """The boundaries of all inputs together, and of each of ``tensors`` alone. ``signs`` executes both programs
    (``None``: they are not defined there), at most ``runs`` times."""
    left = [runs]
    found: set[float] = set()
    for tensor in (-1, *tensors):
        known: dict[float, Signs | None] = {}

        def at(t: float, tensor: int = tensor, known: dict[float, Signs | None] = known) -> Signs | None:
            if t not in known and left[0] > 0:
                left[0] -= 1
                known[t] = signs(_filled(seed, tensor, t))
            return known.get(t)

        grid = sorted(float(t) for t in _GRID)
        changes = [
            (low, high)
            for low, high in pairwise(grid)
            if (a := at(low)) is not None and (b := at(high)) is not None and a != b
        ]
        for low, high in sorted(changes, key=lambda pair: abs(pair[0]))[:_CHANGES]:
            found |= _bisected(low, high, at)
    return found


def _bisected(low: float, high: float, at: Callable[[float], Signs | None]) -> set[float]:
    """Neighbouring numbers between which signs change: whole ones, and multiples of the finest step."""
    found: set[float] = set()
    first, last = at(low), at(high)
    while high - low > _FINEST:
        middle = (low + high) / 2 if high - low <= 1 else float((low + high) // 2)
        between = at(middle)
        if between is None:
            break
        if between not in (first, last):
            found.add(middle)  # on the boundary, or between two
        if between != first:
            high, last = middle, between
        else:
            low = middle
        if high - low == 1:
            found |= {low, high}
    return found | {low, high}


def _filled(seed: int, tensor: int, t: float) -> Draw:
    """All elements of a tensor (-1: of all) are t; others are small positive numbers, indices are in range."""

    def draw(kind: Kind, elements: Elements, salt: int) -> Array:
        generator = np.random.default_rng([seed, kind.value, salt])
        if kind is Kind.BOOL:
            return np.asarray(generator.integers(0, 2, len(elements)), dtype=np.bool_)
        own = np.where((elements.tensor == tensor) | (tensor < 0), t, generator.integers(1, 4, len(elements)))
        if kind is Kind.FLOAT:
            return np.asarray(own, dtype=np.float64)
        return np.where(elements.bounds > 0, inside(elements, generator), clipped(np.floor(own), elements))

    return draw
