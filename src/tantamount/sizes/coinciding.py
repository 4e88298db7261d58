"""Sizes that coincide where a proof for others ends: one size, written in terms of the rest.

A proof that rests on ``n != c`` or ``b >= 2`` leaves over where n is c, and where b is 1. There b is best *the number*
1: an axis of b elements is none, a sum over it is its one summand. As symbols that are 1 only by their hint they would
be told apart from numbers (two polynomials that differ are two sizes, wherever they are the same number).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tantamount.sizes.polynomials import Polynomial, evaluate, plus, times
from tantamount.sizes.symbolic import Condition, holds

__all__ = ["coinciding"]


def coinciding(covered: Sequence[Sequence[Condition]], sizes: Mapping[str, int]) -> dict[str, Polynomial]:
    """Some symbols as polynomials in the others, which they are at these sizes because a condition ends there that what
    is covered rests on: ``p != 0`` and ``p > 0`` where p is 0, ``p >= 0`` where p is -1."""
    found: dict[str, Polynomial] = {}
    for kind, polynomial in dict.fromkeys(condition for region in covered for condition in region):
        ends = {"nonzero": 0, "positive": 0, "nonnegative": -1}.get(kind)
        value = evaluate(polynomial, sizes)
        if value != ends or holds(Condition(kind, polynomial), sizes):
            continue
        _add(found, plus(polynomial, (((), value),) if value else (), -1))
    return found


def _add(found: dict[str, Polynomial], equation: Polynomial) -> None:
    """Solve ``equation = 0`` for a symbol, if there is one of which it is a whole polynomial in the others."""
    equation = _replaced(equation, found)
    for name in sorted({name for m, _ in equation for name, _ in m}):
        own = [(m, c) for m, c in equation if any(symbol == name for symbol, _ in m)]
        if len(own) != 1 or own[0][0] != ((name, 1),) or abs(own[0][1]) != 1:
            continue
        rest = tuple((m, -c * own[0][1]) for m, c in equation if (m, c) != own[0])
        if any(c.denominator != 1 for _, c in rest) or any(e < 0 for m, _ in rest for _, e in m):
            continue
        for other, polynomial in found.items():
            found[other] = _replaced(polynomial, {name: rest})
        found[name] = rest
        return


def _replaced(polynomial: Polynomial, values: Mapping[str, Polynomial]) -> Polynomial:
    """A polynomial with some symbols replaced; itself where one of them is below the line."""
    if any(e < 0 and name in values for m, _ in polynomial for name, e in m):
        return polynomial
    out: Polynomial = ()
    for m, c in polynomial:
        term: Polynomial = ((tuple((name, e) for name, e in m if name not in values), c),)
        for name, e in m:
            for _ in range(e if name in values else 0):
                term = times(term, values[name])
        out = plus(out, term)
    return out
