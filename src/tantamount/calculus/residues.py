"""Whole numbers by what is left of them modulo a number: ``x = n z + r`` for one r of 0, ..., n - 1.

For each r, ``floor(x / d)`` is a polynomial in z where d divides n, and so is the floor of every polynomial in whole
numbers whose other coefficients its divisor divides. ``x (x + 1) / 2`` is whole, ``(x mod 2)^2 = x mod 2``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from itertools import product
from math import floor, lcm
from typing import Any, NamedTuple

from tantamount.effort import Effort
from tantamount.sizes import polynomials as forms
from tantamount.sizes.polynomials import Polynomial as Value

__all__ = ["Quotient", "vanishes_by_residues"]


class Quotient(NamedTuple):
    """``floor(above / below)`` for a whole number ``below > 0``."""

    above: Value
    below: int


def vanishes_by_residues(
    effort: Effort, x: Value, whole: frozenset[str], quotients: Mapping[str, Quotient], conditions: Sequence[Value]
) -> bool:
    """True if x was shown to be 0 wherever all ``conditions`` are 0: for all residues of the whole variables that
    quotients are of. ``quotients`` are what whole variables are known to be."""
    powers = [e for m, _ in x for _, e in m]
    if not x or min(powers, default=0) < 0 or effort.exceeds("residue_terms", len(x)):
        return not x
    if effort.exceeds("residue_power", max(powers, default=0)):
        return False
    order: list[str] = []
    moduli: dict[str, int] = {}
    for name in _names(x):
        if not _visit(effort, name, quotients, order, moduli):
            return False
    bases = sorted({n for q in order for n in _names(quotients[q].above) if n not in quotients})
    if not order or any(name not in whole for name in bases):
        return False
    n = lcm(*(moduli[q] for q in order))
    if effort.exceeds("residues", n ** len(bases)):
        return False
    relevant = [c for c in conditions if set(_names(c)) <= {*bases, *order}]
    for residues in product(range(n), repeat=len(bases)):
        put: dict[str, Value] = {}
        for name, r in zip(bases, residues, strict=True):
            put[name] = forms.plus(((((name, 1),), n),), (((), r),) if r else ())
        for q in order:
            value = _floor(_put(quotients[q].above, put), quotients[q].below, whole)
            if value is None:
                return False
            put[q] = value
        if any(_is_other_number(_put(c, put)) for c in relevant):
            continue
        if _put(x, put):
            return False
    return True


def _names(x: Value) -> list[str]:
    return list(dict.fromkeys(name for m, _ in x for name, _ in m))


def _visit(
    effort: Effort, name: str, quotients: Mapping[str, Quotient], order: list[str], moduli: dict[str, int]
) -> bool:
    """Put a quotient into the order after those it is made of, with a number modulo which what it is of decides it."""
    found = quotients.get(name)
    if found is None or name in order:
        return True
    if name in moduli:
        return False  # of itself
    moduli[name] = 0
    inner = _names(found.above)
    if not all(_visit(effort, other, quotients, order, moduli) for other in inner):
        return False
    scale = lcm(*(Fraction(c).denominator for _, c in found.above))
    moduli[name] = found.below * scale * lcm(*(moduli.get(other) or 1 for other in inner))
    order.append(name)
    return not effort.exceeds("residues", moduli[name])


def _put(x: Value, values: Mapping[str, Value]) -> Value:
    """x with values for variables."""
    total: Value = ()
    for m, c in x:
        term: Value = (((), c),)
        for name, e in m:
            value = values.get(name)
            if value is None:
                term = forms.times(term, ((((name, e),), 1),))
                continue
            for _ in range(e):
                term = forms.times(term, value)
        total = forms.plus(total, term)
    return total


def _floor(x: Value, below: int, whole: frozenset[str]) -> Value | None:
    """``floor(x / below)``, if all but a number is whole; ``None`` if that is not so as it is written."""
    out: list[tuple[Any, Any]] = []
    for m, c in x:
        share = Fraction(c) / below
        if not m:
            share = Fraction(floor(share))
        elif share.denominator != 1 or any(name not in whole or e < 0 for name, e in m):
            return None
        if share:
            out.append((m, forms.exact(share)))
    return tuple(out)


def _is_other_number(x: Value) -> bool:
    """True if a value is a number other than 0."""
    return len(x) == 1 and not x[0][0]
