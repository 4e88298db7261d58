"""Indices shown to be in range: by intervals, by facts, and by cases over the comparisons that an index contains.

``size`` is ``None`` where nothing is asked of how large an index may be."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product as cases

from tantamount.calculus import piecewise
from tantamount.calculus.affine import Coordinate, coordinate
from tantamount.calculus.atoms import Store
from tantamount.calculus.comparisons import (
    Comparison,
    bounds_of,
    comparison,
    fact_about,
    interval,
    split_affine,
)
from tantamount.calculus.naming import bound_variables
from tantamount.calculus.partial import zero_parts
from tantamount.calculus.polynomials import add, constant, iota, scale
from tantamount.calculus.products import is_integer, substitute_factors
from tantamount.calculus.rebuild import Rebuild, refresh, refresh_ranges
from tantamount.calculus.terms import Factor, Polynomial, Ranges, Rational, Term, factors_of
from tantamount.sizes.symbolic import whole

__all__ = ["covered", "fits", "in_range", "missed", "never_negative", "zero_somewhere"]


def fits(store: Store, x: Polynomial, low: int, high: int, box: Ranges) -> bool:
    """True if ``low <= x <= high`` on the whole box."""
    return in_range(store, add(store, x, constant(-low)), high - low + 1, box)


def never_negative(store: Store, x: Polynomial, box: Ranges) -> bool:
    """True if ``0 <= x`` on the whole box, by cases over the comparisons that x contains."""
    return in_range(store, x, None, box)


def covered(store: Store, factor: Factor, size: int, box: Ranges) -> bool:
    """True if ``SUM_{v < size} [t + s v + r == 0] = 1`` because ``-(t + r) / s`` is a whole number in 0..size, by cases
    over the comparisons that t contains: of a start that is clamped, for one."""
    place = _place(store, factor)
    return place is not None and in_range(store, place, size, box)


def missed(store: Store, factor: Factor, size: int, box: Ranges) -> bool:
    """True if that sum is 0, because ``-(t + r) / s`` is never in 0..size."""
    place = _place(store, factor)
    if place is None:
        return False
    below = add(store, constant(-1), scale(place, -1))
    return never_negative(store, below, box) or never_negative(store, add(store, place, constant(-size)), box)


def _place(store: Store, factor: Factor) -> Polynomial | None:
    """``-(t + r) / s`` of a guard ``[t + s v + r == 0]``, v being its bound variable -1, if it is a whole number and t
    contains comparisons, none of which depends on a position (on which of several shards an index lies in, for one:
    the shards are found together)."""
    if not store.atoms[factor.atom].guards - {factor.atom}:
        return None
    guard = comparison(store, factor)
    if guard is None or guard.op != "equal" or not is_integer(store, guard.rest):
        return None
    stride = dict(guard.affine.parts).get(-1, 0)
    if abs(stride) != 1 or any(-1 in bound_variables(f) for f in factors_of(guard.rest)):
        return None
    others = coordinate({v: s for v, s in guard.affine.parts if v != -1}, guard.affine.offset)
    if any(v < 0 for v, _ in others.parts):
        return None
    for inner in _comparisons(store, guard.rest, inside_sums=False):
        read = comparison(store, Factor(inner[0], 1, inner[1]))
        if read is not None and read.affine.parts:
            return None
    return scale(add(store, guard.rest, iota(others)), -stride)


def in_range(store: Store, x: Polynomial, size: int | None, box: Ranges) -> bool:
    """True if ``0 <= x < size`` on the whole box, by cases over the comparisons that x contains."""
    if store.redirects:
        refresh_ranges(store)
        x = refresh(store, x)
    if _within(bounds_of(store, x, box), size):
        return True
    conditions = _comparisons(store, x, inside_sums=False)
    if any(
        not store.effort.exceeds("index_cases", len(guards)) and _in_all_cases(store, x, size, sorted(guards), box)
        for guards in dict.fromkeys((conditions, _comparisons(store, x, inside_sums=True)))
    ):
        return True
    if not piecewise.never_negative(store, x, box):
        return False
    return size is None or piecewise.never_negative(store, add(store, constant(size - 1), scale(x, -1)), box)


def _within(bounds: tuple[Rational, Rational] | None, size: int | None) -> bool:
    return bounds is not None and bounds[0] >= 0 and (size is None or bounds[1] < size)


def zero_somewhere(store: Store, x: Polynomial, box: Ranges) -> list[Polynomial]:
    """Booleans that together tell where an integer is 0; none where it is shown that it never is, by cases over the
    comparisons that it contains (``where(y == 0, 1, y)``)."""
    found = zero_parts(store, x, box)
    if not found:
        return []
    guards = sorted(_comparisons(store, x, inside_sums=False))
    if not guards or store.effort.exceeds("index_cases", len(guards)):
        return found
    for values in cases((0, 1), repeat=len(guards)):
        case = Rebuild(store, known=dict(zip(guards, values, strict=True)))
        if any(case.polynomial(part) for part in zero_parts(store, case.polynomial(x), box)):
            return found
    store.fired["index-cases"] += 1
    return []


def _in_all_cases(
    store: Store, x: Polynomial, size: int | None, guards: list[tuple[int, tuple[Coordinate, ...]]], box: Ranges
) -> bool:
    """True if ``0 <= x < size`` on the whole box, whichever of the comparisons hold."""
    for values in cases((0, 1), repeat=len(guards)):
        known = {(a, index): value for (a, index), value in zip(guards, values, strict=True)}
        constraints: dict[Polynomial, list[tuple[bool, Coordinate]]] = {}
        for (a, index), value in known.items():
            guard = comparison(store, Factor(a, 1, index))
            if guard is not None and guard.op == "less":
                rest, at = _in_case(store, guard, {key: v for key, v in known.items() if key != (a, index)})
                constraints.setdefault(rest, []).append((value == 1, at))
        if any(_contradictory(found, box) for found in constraints.values()):
            continue
        value = Rebuild(store, known=known).polynomial(x)
        if not _case_in_range(store, value, size, constraints, box):
            return False
    store.fired["index-cases"] += 1
    return True


def _in_case(
    store: Store, guard: Comparison, known: Mapping[tuple[int, tuple[Coordinate, ...]], int]
) -> tuple[Polynomial, Coordinate]:
    """What a comparison compares with 0, given which others hold, as what is not affine and what is."""
    value = Rebuild(store, known=known).polynomial(guard.rest)
    if value == guard.rest:
        return guard.rest, guard.affine
    rest, parts, offset = split_affine(add(store, value, iota(guard.affine)))
    if any(s.denominator != 1 for s in parts.values()) or offset.denominator != 1:
        return guard.rest, guard.affine
    return rest, coordinate({v: whole(s) for v, s in parts.items()}, whole(offset))


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
    store: Store,
    x: Polynomial,
    size: int | None,
    constraints: Mapping[Polynomial, list[tuple[bool, Coordinate]]],
    box: Ranges,
) -> bool:
    if _within(bounds_of(store, x, box), size):
        return True
    if _within(_added_up(store, x, constraints, box), size):
        return True
    rest, parts, offset = split_affine(x)
    known = constraints.get(rest)
    if known is None or any(s.denominator != 1 for s in parts.values()) or offset.denominator != 1:
        return False
    shift = coordinate({v: whole(s) for v, s in parts.items()}, whole(offset))  # x = t + shift
    low, high = False, size is None
    for below, a in known:
        span = interval(_minus(shift, a), box, ())  # t + a < 0: x < shift - a; t + a >= 0: x >= shift - a
        if span is None:
            continue
        if below and (size is None or span[1] <= size):
            high = True
        if not below and span[0] >= 0:
            low = True
    fact = fact_about(store, rest, box)
    if fact is not None:
        span = interval(shift, box, ())
        if span is not None:
            low = low or fact[0] + span[0] >= 0
            high = high or size is None or fact[1] + span[1] < size
    return low and high


def _added_up(
    store: Store, x: Polynomial, constraints: Mapping[Polynomial, list[tuple[bool, Coordinate]]], box: Ranges
) -> tuple[Rational, Rational] | None:
    """An interval of x: those of its terms, as the constraints and what else is known bound them, added up."""
    ends: list[Rational | None] = [0, 0]
    for m, c in x:
        low, high = _bounds_of_term(store, (Term(m, 1),), constraints, box)
        for k, end in enumerate((low, high) if c > 0 else (high, low)):
            before = ends[k]
            ends[k] = None if end is None or before is None else before + c * end
    low, high = ends
    return None if low is None or high is None else (low, high)


def _bounds_of_term(
    store: Store, x: Polynomial, constraints: Mapping[Polynomial, list[tuple[bool, Coordinate]]], box: Ranges
) -> tuple[Rational | None, Rational | None]:
    known = bounds_of(store, x, box)
    low, high = known if known is not None else (None, None)
    for below, a in constraints.get(x, ()):
        span = interval(a, box, ())
        if span is not None and below and is_integer(store, x):  # x + a < 0, so x + a <= -1
            high = -span[0] - 1 if high is None else min(high, -span[0] - 1)
        elif span is not None:
            low = -span[1] if low is None else max(low, -span[1])
    return low, high
