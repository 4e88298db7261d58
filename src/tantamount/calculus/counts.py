"""Positions counted: ``sum over v < n of [v <= i]`` is ``i + 1`` where that lies between 0 and n, and ``sum over v < n
of [v < K]`` is K for a position K in a row of no more than n.

Positions that a program counts (a running sum of ones, how many come before an element) are then those that another
writes down.
"""

from __future__ import annotations

from collections.abc import Mapping

from tantamount.calculus.affine import Coordinate
from tantamount.calculus.atoms import Store
from tantamount.calculus.comparisons import Comparison, interval, positions_of
from tantamount.calculus.naming import bound_variables
from tantamount.calculus.products import exact
from tantamount.calculus.terms import IOTA, Factor, Flat, Polynomial, Ranges, Term, factors_of

__all__ = ["counted"]


def counted(
    store: Store, flat: Flat, factor: Factor, guard: Comparison | None, value: int, box: Ranges
) -> list[Flat] | None:
    """The flats without a guard ``[s v + r < 0]`` (or its complement), s being 1 or -1, whose bound variable v nothing
    else has: the number of its v, which is r but for a constant and its sign where all of them are in range. r is
    affine, and, where two values are compared, has a position in a row as well. ``None`` if that is not so."""
    if guard is None or guard.op != "less":
        return None
    bound = [(v, s) for v, s in guard.affine.parts if v < 0]
    if len(bound) != 1 or abs(bound[0][1]) != 1 or len(guard.affine.parts) + len(guard.rest) < 2:
        return None
    v, s = bound[0]
    if any(v in bound_variables(f) for f in (*factors_of(guard.rest), *flat.factors) if f is not factor):
        return None
    low = high = 0
    if guard.rest:
        (c, length) = _position(store, guard.rest) if isinstance(box, Mapping) else (0, None)
        if length is None:
            return None
        low, high = sorted((0, c * (length - 1)))
    size = flat.ranges[-1 - v]
    parts = tuple(p for p in guard.affine.parts if p[0] != v)
    # v < -r, or v > r: -r of them, or size - 1 - r; and size less that of the complement
    constant = -guard.affine.offset if s > 0 else size - 1 - guard.affine.offset
    sign = -1
    if not value:
        constant, sign = size - constant, 1
    count: Coordinate = Coordinate(tuple((w, sign * t) for w, t in parts), constant)
    span = interval(count, box, flat.ranges)
    low, high = sorted((sign * low, sign * high))
    if span is None or span[0] + low < 0 or span[1] + high > size:
        return None
    store.fired["counted-positions"] += 1
    rest = tuple(f for f in flat.factors if f is not factor)
    ranges = tuple(1 if -1 - j == v else n for j, n in enumerate(flat.ranges))
    out = [
        Flat(exact(flat.coefficient * t), (*rest, Factor(IOTA, 1, (Coordinate(((w, 1),), 0),))), ranges)
        for w, t in count.parts
    ]
    out += [Flat(exact(flat.coefficient * sign * c), (*rest, *m), ranges) for m, c in guard.rest]
    return [*out, Flat(exact(flat.coefficient * count.offset), rest, ranges)] if count.offset else out


def _position(store: Store, x: Polynomial) -> tuple[int, int | None]:
    """The sign of a position in a row, if x is one or the negative of one, and the length of the row."""
    if len(x) != 1 or abs(x[0].coefficient) != 1:
        return 0, None
    return int(x[0].coefficient), positions_of(store, (Term(x[0].monomial, 1),))
