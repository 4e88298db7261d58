"""Indices shown to be in range: by intervals, by facts, and by cases over the comparisons that an index contains.

``size`` is ``None`` where nothing is asked of how large an index may be."""

from __future__ import annotations

from tantamount.calculus import cases
from tantamount.calculus.affine import Coordinate
from tantamount.calculus.atoms import Store
from tantamount.calculus.comparisons import comparison, is_bounded
from tantamount.calculus.partial import zero_parts
from tantamount.calculus.polynomials import add, constant, scale
from tantamount.calculus.products import substitute_factors
from tantamount.calculus.rebuild import refresh, refresh_ranges
from tantamount.calculus.terms import Factor, Polynomial, Ranges, factors_of

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
    place = cases.place_of(store, factor)
    for inner in _comparisons(store, place or ()):
        read = comparison(store, Factor(inner[0], 1, inner[1]))
        if read is not None and read.affine.parts:
            return None
    return place


def in_range(store: Store, x: Polynomial, size: int | None, box: Ranges) -> bool:
    """True if ``0 <= x < size`` on the whole box, by cases over the comparisons, maxima and roundings in x."""
    if store.redirects:
        refresh_ranges(store)
        x = refresh(store, x)
    if is_bounded(store, x, size, box):
        return True
    return cases.within(store, x, size, box)


def zero_somewhere(store: Store, x: Polynomial, box: Ranges) -> list[Polynomial]:
    """Booleans that together tell where an integer is 0; none where it is shown that it never is, by cases over the
    comparisons that it contains (``where(y == 0, 1, y)``)."""
    found = zero_parts(store, x, box)
    return [] if found and cases.never_zero(store, x, box) else found


def _comparisons(store: Store, x: Polynomial) -> frozenset[tuple[int, tuple[Coordinate, ...]]]:
    """The comparison atoms that are factors of x, or of conditions that are."""
    found: set[tuple[int, tuple[Coordinate, ...]]] = set()
    pending: list[Factor] = list(factors_of(x))
    while pending:
        a, _, index = pending.pop()
        atom = store.atoms[a]
        if atom.op in ("less", "equal"):
            found.add((a, index))
        elif atom.op == "polynomial" and atom.facts.boolean:
            replace = dict(enumerate(index))
            pending.extend(f for m, _ in atom.arguments[0] for f in substitute_factors(m, replace))
    return frozenset(found)
