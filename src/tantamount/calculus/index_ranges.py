"""Indices shown to be in range: by intervals, by facts, and by cases over the comparisons that an index contains."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product as cases

from tantamount.calculus.affine import Coordinate, coordinate
from tantamount.calculus.atoms import Store
from tantamount.calculus.cases import within
from tantamount.calculus.comparisons import bounds_of, comparison, fact_about, interval, split_affine
from tantamount.calculus.polynomials import add, constant
from tantamount.calculus.products import substitute_factors
from tantamount.calculus.rebuild import Rebuild, refresh, refresh_ranges
from tantamount.calculus.terms import Factor, Polynomial, Ranges, factors_of
from tantamount.sizes.symbolic import whole

__all__ = ["fits", "in_range"]


def fits(store: Store, x: Polynomial, low: int, high: int, box: Ranges) -> bool:
    """True if ``low <= x <= high`` on the whole box."""
    return in_range(store, add(store, x, constant(-low)), high - low + 1, box)


def in_range(store: Store, x: Polynomial, size: int, box: Ranges) -> bool:
    """True if ``0 <= x < size`` on the whole box, by cases over the comparisons that x contains."""
    if store.redirects:
        refresh_ranges(store)
        x = refresh(store, x)
    direct = bounds_of(store, x, box)
    if direct is not None and direct[0] >= 0 and direct[1] < size:
        return True
    conditions = _comparisons(store, x, inside_sums=False)
    shown = any(
        not store.effort.exceeds("index_cases", len(guards)) and _in_all_cases(store, x, size, sorted(guards), box)
        for guards in dict.fromkeys((conditions, _comparisons(store, x, inside_sums=True)))
    )
    return shown or (box is not None and within(store, x, size, box))


def _in_all_cases(
    store: Store, x: Polynomial, size: int, guards: list[tuple[int, tuple[Coordinate, ...]]], box: Ranges
) -> bool:
    """True if ``0 <= x < size`` on the whole box, whichever of the comparisons hold."""
    for values in cases((0, 1), repeat=len(guards)):
        known = {(a, index): value for (a, index), value in zip(guards, values, strict=True)}
        constraints: dict[Polynomial, list[tuple[bool, Coordinate]]] = {}
        for (a, index), value in known.items():
            guard = comparison(store, Factor(a, 1, index))
            if guard is not None and guard.op == "less":
                constraints.setdefault(guard.rest, []).append((value == 1, guard.affine))
        if any(_contradictory(found, box) for found in constraints.values()):
            continue
        value = Rebuild(store, known=known).polynomial(x)
        if not _case_in_range(store, value, size, constraints, box):
            return False
    store.fired["index-cases"] += 1
    return True


def _comparisons(store: Store, x: Polynomial, *, inside_sums: bool) -> frozenset[tuple[int, tuple[Coordinate, ...]]]:
    """The comparison atoms that are factors of x, or of conditions that are; ``inside_sums``, of any sums."""
    found: set[tuple[int, tuple[Coordinate, ...]]] = set()
    pending: list[Factor] = list(factors_of(x))
    while pending:
        a, _, index = pending.pop()
        atom = store.atoms[a]
        if atom.op in ("less", "equal"):
            found.add((a, index))
        elif atom.op == "polynomial" and (inside_sums or atom.facts.boolean):
            replace = dict(enumerate(index))
            pending.extend(f for m, _ in atom.arguments[0] for f in substitute_factors(m, replace))
    return frozenset(found)


def _contradictory(found: list[tuple[bool, Coordinate]], box: Ranges) -> bool:
    """``t + a < 0`` together with ``t + b >= 0``, where ``b <= a`` always."""
    for below, a in found:
        for above, b in found:
            if below and not above:
                span = interval(_minus(a, b), box, ())
                if span is not None and span[0] >= 0:
                    return True
    return False


def _minus(a: Coordinate, b: Coordinate) -> Coordinate:
    parts = dict(a.parts)
    for v, s in b.parts:
        parts[v] = parts.get(v, 0) - s
    return coordinate(parts, a.offset - b.offset)


def _case_in_range(
    store: Store, x: Polynomial, size: int, constraints: Mapping[Polynomial, list[tuple[bool, Coordinate]]], box: Ranges
) -> bool:
    direct = bounds_of(store, x, box)
    if direct is not None and direct[0] >= 0 and direct[1] < size:
        return True
    rest, parts, offset = split_affine(x)
    known = constraints.get(rest)
    if known is None or any(s.denominator != 1 for s in parts.values()) or offset.denominator != 1:
        return False
    shift = coordinate({v: whole(s) for v, s in parts.items()}, whole(offset))  # x = t + shift
    low = high = False
    for below, a in known:
        span = interval(_minus(shift, a), box, ())  # t + a < 0: x < shift - a; t + a >= 0: x >= shift - a
        if span is None:
            continue
        if below and span[1] <= size:
            high = True
        if not below and span[0] >= 0:
            low = True
    fact = fact_about(store, rest, box)
    if fact is not None:
        span = interval(shift, box, ())
        if span is not None:
            low = low or fact[0] + span[0] >= 0
            high = high or fact[1] + span[1] < size
    return low and high
