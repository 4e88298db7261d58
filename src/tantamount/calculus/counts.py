"""Positions counted: ``sum over v < n of [v <= i]`` is ``i + 1`` where that lies between 0 and n.

Positions that a program counts (a running sum of ones, how many come before an element) are then those that another
writes down.
"""

from __future__ import annotations

from tantamount.calculus.affine import Coordinate
from tantamount.calculus.atoms import Store
from tantamount.calculus.comparisons import Comparison, interval
from tantamount.calculus.naming import bound_variables
from tantamount.calculus.products import exact
from tantamount.calculus.terms import IOTA, Factor, Flat, Ranges

__all__ = ["counted"]


def counted(
    store: Store, flat: Flat, factor: Factor, guard: Comparison | None, value: int, box: Ranges
) -> list[Flat] | None:
    """The flats without a guard ``[s v + r < 0]`` (or its complement), s being 1 or -1, whose bound variable v nothing
    else has: the number of its v, which is affine in r where all of them are in range. ``None`` if that is not so."""
    if guard is None or guard.rest or guard.op != "less":
        return None
    bound = [(v, s) for v, s in guard.affine.parts if v < 0]
    if len(bound) != 1 or len(guard.affine.parts) < 2 or abs(bound[0][1]) != 1:
        return None
    v, s = bound[0]
    if any(v in bound_variables(f) for f in flat.factors if f is not factor):
        return None
    size = flat.ranges[-1 - v]
    parts = tuple(p for p in guard.affine.parts if p[0] != v)
    # v < -r, or v > r: -r of them, or size - 1 - r; and size less that of the complement
    constant = -guard.affine.offset if s > 0 else size - 1 - guard.affine.offset
    sign = -1
    if not value:
        constant, sign = size - constant, 1
    count: Coordinate = Coordinate(tuple((w, sign * t) for w, t in parts), constant)
    span = interval(count, box, flat.ranges)
    if span is None or span[0] < 0 or span[1] > size:
        return None
    store.fired["counted-positions"] += 1
    rest = tuple(f for f in flat.factors if f is not factor)
    ranges = tuple(1 if -1 - j == v else n for j, n in enumerate(flat.ranges))
    out = [
        Flat(exact(flat.coefficient * t), (*rest, Factor(IOTA, 1, (Coordinate(((w, 1),), 0),))), ranges)
        for w, t in count.parts
    ]
    return [*out, Flat(exact(flat.coefficient * count.offset), rest, ranges)] if count.offset else out
