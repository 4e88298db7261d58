"""Effects that rounding may have: float64 with a random error in the last digit of every result that was rounded (Monte
Carlo arithmetic, Parker 1997). Results that are exact stay so: what is decided there is not decided by rounding."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from tantamount.ops.functions import FUNCTIONS, Ties
from tantamount.semantics.reference import Array, Masks, Reference

__all__ = ["Noisy", "RoundingNoise"]

_LAST_DIGIT = 2.0**-52
_NORMAL = 2.0**-1022  # the least number of all digits
_GRAINS = 2.0**-1071  # a few times the least number there is
_SPLIT = 2.0**27 + 1  # parts a float64 into two halves
_WHOLE = 2.0**53
_SCALE = 2.0**6  # numbers of so many binary places count as whole


class RoundingNoise(Reference):
    """An interpretation whose rounded results have another error for every ``generator``."""

    generator: np.random.Generator

    def _rounded(self, x: Array, exact: Array | bool) -> Array:
        if x.dtype.kind != "f" or bool(np.all(exact)):
            return x
        error = self.generator.standard_normal(x.shape)
        with np.errstate(over="ignore"):  # the largest number times more than 1
            found = x * (1 + _LAST_DIGIT * error)
        small = np.abs(x) < _NORMAL
        if small.any():  # what has left the range of float64 below has few digits, or none, and is no 0
            found = np.where(small, found + _GRAINS * np.abs(error), found)
        return np.asarray(np.where(exact, x, found))

    def add(self, x: Array, y: Array) -> Array:
        return self._rounded(total := super().add(x, y), _exact_sum(x, y, total))

    def mul(self, x: Array, y: Array) -> Array:
        return self._rounded(product := super().mul(x, y), _exact_product(x, y, product))

    def power(self, x: Array, exponent: Fraction) -> Array:
        found = super().power(x, exponent)
        if exponent == -1:
            exact = _exact_product(found, x, np.ones_like(found))
        elif exponent == Fraction(1, 2):
            exact = _exact_product(found, found, np.asarray(x, dtype=np.float64))
        else:
            exact = (x == 0) | (x == 1) | ((exponent.denominator == 1) & (exponent >= 0) & _whole(x, found))
        return self._rounded(found, exact)

    def exp(self, x: Array) -> Array:
        return self._rounded(super().exp(x), (x == 0) | np.isinf(x))

    def log(self, x: Array) -> Array:
        return self._rounded(super().log(x), (x == 0) | (x == 1))

    def function(self, name: str, xs: Sequence[Array]) -> Array:
        found, known = super().function(name, xs), FUNCTIONS[name]
        if known.integer or name == "abs":
            return found
        exact = (xs[0] == 0) if known.at_zero is not None else np.zeros(found.shape, dtype=np.bool_)
        return self._rounded(found, _whole(*xs, found) if name == "pow" else exact)

    def contract(self, operands: Sequence[tuple[Array, tuple[int, ...]]], result: tuple[int, ...]) -> Array:
        found = super().contract(operands, result)
        if found.dtype.kind != "f" or (all(labels == result for _, labels in operands[:1]) and len(operands) == 1):
            return found
        scaled = [np.asarray(x, dtype=np.float64) * _SCALE for x, _ in operands]
        size = 1.0  # of the sum of all absolute values, if all are whole numbers
        for x in scaled:
            size *= float(np.abs(x).max(initial=0.0))
        sizes = {label: n for x, labels in operands for label, n in zip(labels, x.shape, strict=True)}
        terms = float(np.prod([n for label, n in sizes.items() if label not in result], dtype=np.float64))
        if size * terms < _WHOLE and all(bool(np.all(x == np.rint(x))) for x in scaled):
            return found
        if terms <= 1:
            return self._rounded(found, False)
        # what a sum loses is a part of its summands, however small their sum is
        summands = super().contract([(np.abs(x), labels) for x, labels in operands], result)
        error = _LAST_DIGIT * self.generator.standard_normal(found.shape)
        return np.asarray(found + np.where(np.isfinite(summands), summands, 0.0) * error)


class Noisy(RoundingNoise):
    """The reference interpreter with rounding errors that depend on ``noise``."""

    def __init__(
        self, *, rank: int = 0, seed: int = 0, masks: Masks | None = None, ties: Ties = Ties.USUAL, noise: int = 0
    ) -> None:
        super().__init__(rank=rank, seed=seed, masks=masks, ties=ties)
        self.generator = np.random.default_rng([seed, rank, noise])


def _whole(*xs: Array) -> Array:
    """A mask of the elements at which all are whole numbers that float64 has all of."""
    out: Any = True
    for x in xs:
        out = out & (np.abs(x) < _WHOLE) & (x == np.rint(x))
    return np.asarray(out)


def _exact_sum(x: Array, y: Array, total: Array) -> Array | bool:
    """A mask of the elements at which ``total = x + y`` was not rounded (the error of a sum: Knuth 1969); infinities
    and NaN count as exact."""
    if total.dtype.kind != "f":
        return True
    with np.errstate(all="ignore"):
        back = total - x
        error = (x - (total - back)) + (y - back)
    return np.asarray((error == 0) | ~np.isfinite(total))


def _exact_product(x: Array, y: Array, product: Array) -> Array | bool:
    """A mask of the elements at which ``product = x y`` was not rounded (the error of a product: Dekker 1971)."""
    if product.dtype.kind != "f":
        return True
    with np.errstate(all="ignore"):
        (a, b), (c, d) = _halves(x), _halves(y)
        error = ((a * c - product) + a * d + b * c) + b * d
    return np.asarray((error == 0) | ~np.isfinite(product))


def _halves(x: Array) -> tuple[Array, Array]:
    wide = np.asarray(x, dtype=np.float64)
    high = wide * _SPLIT
    high = high - (high - wide)
    return high, wide - high
