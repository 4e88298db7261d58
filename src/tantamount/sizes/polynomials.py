"""Polynomials over size symbols: exact rational coefficients, whole powers, negative ones too."""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction
from typing import Any, Union

__all__ = [
    "Polynomial", "Powers", "Rational", "collected", "content", "evaluate", "exact", "plus", "product_of_powers",
    "quotient", "show", "times",
]  # fmt: skip

Powers = tuple[tuple[str, int], ...]  # a product of powers of symbols, sorted by name; powers are not 0
Polynomial = tuple[tuple[Powers, Union[Fraction, int]], ...]  # sorted, without zero coefficients
Rational = Union[Fraction, int]


def exact(value: Rational) -> Rational:
    """Whole numbers as ``int``."""
    return value.numerator if value.denominator == 1 else value


def collected(total: Mapping[Powers, Rational]) -> Polynomial:
    """The polynomial with these coefficients."""
    return tuple(sorted((m, exact(c)) for m, c in total.items() if c))


def plus(p: Polynomial, q: Polynomial, factor: Rational = 1) -> Polynomial:
    """``p + factor * q``"""
    total = dict(p)
    for m, c in q:
        total[m] = total.get(m, 0) + factor * c
    return collected(total)


def product_of_powers(m: Powers, n: Powers, sign: int = 1) -> Powers:
    """``m * n ** sign``"""
    total = dict(m)
    for name, e in n:
        total[name] = total.get(name, 0) + sign * e
    return tuple(sorted((name, e) for name, e in total.items() if e))


def times(p: Polynomial, q: Polynomial) -> Polynomial:
    """``p * q``"""
    total: dict[Powers, Rational] = {}
    for m, c in p:
        for n, d in q:
            key = product_of_powers(m, n)
            total[key] = total.get(key, 0) + c * d
    return collected(total)


def quotient(p: Polynomial, q: Polynomial) -> Polynomial | None:
    """``p / q`` where that is a sum of products of powers again. Symbols are not 0."""
    if not q:
        raise ZeroDivisionError("a size divided by 0")
    found: Polynomial = ()
    (head, c) = q[-1]
    for _ in range(len(p) if len(q) == 1 else 64):
        if not p:
            break
        n, d = p[-1]
        step: Polynomial = ((product_of_powers(n, head, -1), exact(Fraction(d) / c)),)
        if len(q) > 1 and any(e < 0 for _, e in step[0][0]):
            return None
        found = plus(found, step)
        p = plus(p, times(step, q), -1)
    return found if not p else None


def evaluate(polynomial: Polynomial, values: Mapping[str, Any]) -> Any:
    """The value where symbols have the values given (numbers or sizes)."""
    total: Any = 0
    for m, c in polynomial:
        term: Any = c
        for name, e in m:
            if e > 0:
                term = term * values[name] ** e
            else:
                term = (Fraction(term) if isinstance(term, int) else term) / values[name] ** -e
        total = total + term
    return exact(total) if isinstance(total, Fraction) else total


def content(polynomial: Polynomial) -> tuple[Fraction, Powers, Polynomial]:
    """``c * m * rest``: a positive rational, a product of powers, and what is left, with whole coefficients."""
    names = {name for m, _ in polynomial for name, _ in m}
    lowest = ((name, min(dict(m).get(name, 0) for m, _ in polynomial)) for name in names)
    common = tuple(sorted((name, e) for name, e in lowest if e))
    g = Fraction(math.gcd(*(c.numerator for _, c in polynomial)), math.lcm(*(c.denominator for _, c in polynomial)))
    if len(polynomial) == 1:
        g = Fraction(polynomial[0][1])
    return g, common, collected({product_of_powers(m, common, -1): c / g for m, c in polynomial})


def show(polynomial: Polynomial) -> str:
    """``2*B*S - 1``, ``S/2``"""
    text = ""
    for m, c in sorted(polynomial, key=lambda term: (-sum(e for _, e in term[0]), term[0])):
        sign = "-" if c < 0 else "+" if text else ""
        text += f" {sign} " if text else sign
        above = [*(f"{name}**{e}" if e > 1 else name for name, e in m if e > 0)]
        below = [*(f"{name}**{-e}" if e < -1 else name for name, e in m if e < 0)]
        if abs(c.numerator) != 1 or not above:
            above.insert(0, str(abs(c.numerator)))
        if c.denominator != 1:
            below.insert(0, str(c.denominator))
        text += "*".join(above)
        if below:
            text += f"/({'*'.join(below)})" if len(below) > 1 else f"/{below[0]}"
    return text or "0"
