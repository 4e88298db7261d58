"""Sums in parts that have no integer in common: rows of a loss, each of which reads one label.

z3 tells cases of integers apart, and of a sum over rows all cases of all rows. Two sums are equal if their parts are,
each with the cases of its own.
"""

from __future__ import annotations

from typing import cast

from tantamount.smt.arithmetic import add
from tantamount.smt.terms import Element, Exact, Table, Term, variables_of, whole

__all__ = ["separated"]


def separated(t: Table, a: Element, b: Element) -> list[tuple[Element, Element]]:
    """Pairs of elements of which it is enough that each are equal, for ``a`` and ``b`` to be so; none if there is one
    pair only, or if the sums differ by a number."""
    left, right = _summands(a), _summands(b)
    if left.pop(None, 0) != right.pop(None, 0):
        return []
    for term in [term for term, c in left.items() if right.get(term) == c]:
        del left[term], right[term]
    first: dict[Term, Term] = {}  # of each integer, one that it is met with; itself, of one of each part

    def root(one: Term) -> Term:
        while first.setdefault(one, one) is not one:
            one = first[one]
        return one

    integers: dict[Term, list[Term]] = {}
    for term in (*left, *right):
        if term is None or term.infinite:
            return []
        integers[term] = [one for one in variables_of(term) if one.integer]
        for one in integers[term][1:]:
            first[root(one)] = root(integers[term][0])
    parts: dict[Term | None, tuple[list[tuple[Exact, Element]], list[tuple[Exact, Element]]]] = {}
    for k, side in enumerate((left, right)):
        for term, c in side.items():
            if term is not None:
                at = root(integers[term][0]) if integers[term] else None
                parts.setdefault(at, ([], []))[k].append((c, term))
    return [(add(t, mine), add(t, theirs)) for mine, theirs in parts.values()] if len(parts) > 1 else []


def _summands(x: Element) -> dict[Term | None, Exact]:
    """The terms that an element is the sum of, with their coefficients; under ``None`` the number."""
    found: dict[Term | None, Exact] = {}
    pending: list[tuple[Exact, Element]] = [(1, x)]
    while pending:
        c, one = pending.pop()
        if type(one) is not Term:
            found[None] = whole(found.get(None, 0) + c * cast("Exact", one))  # an infinity adds like a number
        elif one.op == "sum":
            pending += [(c, one.args[0]), *((whole(c * d), term) for term, d in one.args[1])]
        elif one.op == "cut":
            pending.append((c, one.args[0]))
        else:
            found[one] = whole(found.get(one, 0) + c)
    return {term: c for term, c in found.items() if c}
