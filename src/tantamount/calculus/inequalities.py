"""Systems of polynomial inequalities of which it is shown that no numbers satisfy them.

Every product of variables counts as a variable: what has no solution then has none. Variables are eliminated one after
the other (Fourier and Motzkin); a constraint between whole numbers is rounded to the next one.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from fractions import Fraction
from typing import NamedTuple

from tantamount.effort import Effort
from tantamount.sizes.polynomials import Polynomial, Powers

__all__ = ["Row", "impossible"]


class Row(NamedTuple):
    """``value > 0`` if ``strict``, else ``value >= 0``."""

    value: Polynomial
    strict: bool


class _Line(NamedTuple):
    """``sum of coefficient * product + constant`` compared with 0."""

    terms: tuple[tuple[Powers, Fraction], ...]  # sorted
    constant: Fraction
    strict: bool


def impossible(rows: Iterable[Row], whole: Collection[str], effort: Effort) -> bool:
    """True if no numbers satisfy all rows, those named ``whole`` being whole numbers. ``False`` claims nothing; so
    ends an elimination that takes more rows than the bound ``case_rows``."""
    lines: set[_Line] = set()
    given = list(rows)
    products = {m for row in given for m, _ in row.value}
    squares = (Row(((m, 1),), strict=False) for m in products if m and all(e % 2 == 0 for _, e in m))
    for row in (*given, *squares):
        line = _line(row, whole)
        if not line.terms:
            if _is_false(line):
                return True
            continue
        lines.add(line)
    lines = _strongest(lines)
    while lines:
        signs: dict[Powers, list[int]] = {}
        for line in lines:
            for product, c in line.terms:
                signs.setdefault(product, [0, 0])[c > 0] += 1
        product = min(signs, key=lambda p: (signs[p][0] * signs[p][1] - signs[p][0] - signs[p][1], p))
        if effort.exceeds("case_rows", len(lines) + signs[product][0] * signs[product][1]):
            return False
        above = [(line, c) for line in lines if (c := dict(line.terms).get(product, 0)) > 0]
        below = [(line, c) for line in lines if (c := dict(line.terms).get(product, 0)) < 0]
        kept = {line for line in lines if product not in dict(line.terms)}
        for p, c in above:
            for q, d in below:
                line = _sum(p, -Fraction(d), q, Fraction(c), whole)
                if line.terms:
                    kept.add(line)
                elif _is_false(line):
                    return True
        lines = _strongest(kept)
    return False


def _is_false(line: _Line) -> bool:
    return line.constant < 0 or (line.strict and line.constant == 0)


def _line(row: Row, whole: Collection[str]) -> _Line:
    terms = {m: Fraction(c) for m, c in row.value}
    constant = terms.pop((), Fraction(0))
    return _rounded(terms.items(), constant, row.strict, whole)


def _sum(p: _Line, times_p: Fraction, q: _Line, times_q: Fraction, whole: Collection[str]) -> _Line:
    """A sum of two lines with positive factors."""
    terms = {m: times_p * c for m, c in p.terms}
    for m, c in q.terms:
        terms[m] = terms.get(m, Fraction(0)) + times_q * c
    constant = times_p * p.constant + times_q * q.constant
    return _rounded(((m, c) for m, c in terms.items() if c), constant, p.strict or q.strict, whole)


def _rounded(
    terms: Iterable[tuple[Powers, Fraction]], constant: Fraction, strict: bool, whole: Collection[str]
) -> _Line:
    """The line with whole coefficients that have no common divisor; of whole numbers rounded, and not strict."""
    found = sorted(terms)
    if not found:
        return _Line((), constant, strict)
    scale = Fraction(math.lcm(*(c.denominator for _, c in found)), math.gcd(*(c.numerator for _, c in found)))
    scale = abs(scale)
    lifted = tuple((m, c * scale) for m, c in found)
    constant *= scale
    if all(e > 0 and name in whole for m, _ in lifted for name, e in m):
        if strict:
            constant = Fraction(math.ceil(constant) - 1)
        return _Line(lifted, Fraction(math.floor(constant)), False)
    return _Line(lifted, constant, strict)


def _strongest(lines: Iterable[_Line]) -> set[_Line]:
    """Of lines that differ in their constants only, the one that implies the others."""
    best: dict[Sequence[tuple[Powers, Fraction]], _Line] = {}
    for line in lines:
        known = best.get(line.terms)
        if known is None or (line.constant, not line.strict) < (known.constant, not known.strict):
            best[line.terms] = line
    return set(best.values())
