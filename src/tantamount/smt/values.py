"""Terms at a few random points: which of them may be equal. A hint, on which nothing rests."""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction
from typing import cast
from zlib import crc32

import numpy as np

from tantamount.errors import TantamountError
from tantamount.ops.functions import FUNCTIONS, evaluate_rows
from tantamount.smt.terms import Element, Term, bottom_up

__all__ = ["Signature", "Values"]

Signature = tuple[int, ...]
POINTS = 4  # at the last one all variables are positive
_SIMPLE_FACTOR = 4096  # the largest denominator of one
_ZERO = 1e-12  # what is less is 0, but for rounding
_DIGITS = 30  # binary ones that equal numbers share, but for rounding


class Values:
    """The values of terms at random points. ``bounds``: integer variables of an input are drawn below its bound."""

    def __init__(self, bounds: Mapping[str, int]) -> None:
        self.bounds = bounds
        self._known: dict[Term, tuple[float, ...]] = {}

    @property
    def points(self) -> int:
        """The number of points."""
        return POINTS

    def of(self, x: Element) -> tuple[float, ...]:
        """The value at every point; NaN where it is undefined."""
        if type(x) is not Term:
            return (float(cast(float, x)),) * POINTS
        return bottom_up(x, self._known, self._compute)

    def same(self, x: Element, y: Element) -> bool | None:
        """True if two elements have the same values, but for rounding; ``None`` where none of them is defined."""
        pairs = [(a, b) for a, b in zip(self.of(x), self.of(y), strict=True) if math.isfinite(a)]
        if not pairs:
            return None
        return all(math.isfinite(b) and abs(a - b) <= 1e-9 * max(abs(a), abs(b), 1e-3) for a, b in pairs)

    def signature(self, x: Element) -> tuple[Signature, ...]:
        """Keys under which elements are found of which one is a multiple of the other: one of two of them is shared.
        None where it is 0 at the first point, or undefined at one of the first two."""
        found = self.of(x)
        if not all(map(math.isfinite, found[:2])) or not found[0]:
            return ()
        rounded: list[tuple[int, int]] = []
        for value in found[1:]:
            if not math.isfinite(value):
                rounded.append((0, 0))
                continue
            mantissa, exponent = math.frexp(value / found[0])
            scaled = mantissa * (1 << _DIGITS)
            rounded.append((hash((round(scaled), exponent)), hash((math.floor(scaled), exponent, 1))))
        return (tuple(a for a, _ in rounded), tuple(b for _, b in rounded))

    def multiple(self, x: Element, y: Element) -> Fraction | None:
        """The simple number c for which ``y = c * x``, as far as values tell; ``None`` if there is none."""
        first, other = self.of(x), self.of(y)
        factor = (
            Fraction(other[0] / first[0]).limit_denominator(_SIMPLE_FACTOR)
            if first[0] and math.isfinite(other[0])
            else Fraction(0)
        )
        if not factor:
            return None
        c = float(factor)
        pairs = [(a, b) for a, b in zip(first, other, strict=True) if math.isfinite(a)]
        alike = all(abs(c * a - b) <= 1e-9 * max(abs(b), 1e-3) for a, b in pairs)
        return factor if alike else None

    def _compute(self, term: Term) -> tuple[float, ...]:
        if term.op == "var":
            return self._variable(term)
        out: list[float] = []
        for point in range(POINTS):
            try:
                out.append(self._at(term, point))
            except (ArithmeticError, ValueError, TantamountError):
                out.append(math.nan)
        return tuple(out)

    def _variable(self, term: Term) -> tuple[float, ...]:
        generator = np.random.default_rng(crc32(repr(term.args).encode()))
        if term.boolean:
            return tuple(float(k) for k in generator.integers(0, 2, POINTS))
        if term.integer:
            name = term.args[0]
            bound = self.bounds.get(name[1] if isinstance(name, tuple) else "", 4)  # pyright: ignore[reportUnknownArgumentType]
            return tuple(float(k) for k in generator.integers(0, max(bound, 1), POINTS))
        found = 0.3 * generator.standard_normal(POINTS)  # small: exponentials of sums stay in range
        return (*map(float, found[:-1]), float(abs(found[-1])))  # at the last point all are positive

    def _at(self, term: Term, point: int) -> float:
        def value(x: Element) -> float:
            return self._known[x][point] if type(x) is Term else float(cast(float, x))

        op, args = term.op, term.args
        if op == "sum":
            return math.fsum([float(args[0]), *(float(c) * value(x) for x, c in args[1])])
        if op == "prod":
            found = 1.0
            for base, exponent in args:
                found *= math.pow(value(base), exponent if isinstance(exponent, int) else float(exponent))
            return found
        if op == "ite":
            return value(args[1] if value(args[0]) else args[2])
        if op == "max":
            return max(map(value, args))
        if op in ("num", "cut", "exp", "log", "pos", "zero"):
            x = value(args[0])
            if op in ("exp", "log"):
                return math.exp(x) if op == "exp" else math.log(x)
            return float(x > 0) if op == "pos" else float(abs(x) < _ZERO) if op == "zero" else x
        if op == "fn":
            operands = [np.asarray(value(x)) for x in args[1:]]
            with np.errstate(all="ignore"):
                return float(FUNCTIONS[args[0]].evaluate(*operands))
        if op == "row":
            name, _, j, k, rows, attributes = args
            with np.errstate(all="ignore"):
                results = [0] * j + [k + 1]
                found = evaluate_rows(name, [np.array([value(x) for x in row]) for row in rows], attributes, results)
            return float(found[j][..., k])
        return math.nan
