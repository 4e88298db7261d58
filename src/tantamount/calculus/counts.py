"""Positions counted: ``sum over v < n of [v <= i]`` is ``i + 1`` where that lies between 0 and n, and ``sum over v < n
of [v < K]`` is K for a whole number K that is known to be from 0 to n.

Positions that a program counts (a running sum of ones, how many come before an element) are then those that another
writes down.
"""

from __future__ import annotations

from collections.abc import Mapping

from tantamount.calculus import spans
from tantamount.calculus.affine import Coordinate
from tantamount.calculus.atoms import Store
from tantamount.calculus.comparisons import Comparison, interval
from tantamount.calculus.naming import bound_variables
from tantamount.calculus.products import exact
from tantamount.calculus.terms import IOTA, Factor, Flat, Polynomial, Ranges, factors_of
from tantamount.ops.functions import POSITIONS_IN_A_ROW

__all__ = ["counted", "is_whole"]


def counted(
    store: Store, flat: Flat, factor: Factor, guard: Comparison | None, value: int, box: Ranges
) -> list[Flat] | None:
    """The flats without a guard ``[s v + r < 0]`` (or its complement), s being 1 or -1, whose bound variable v nothing
    else has: the number of its v, which is r but for a constant and its sign where all of them are in range. r is
    affine, and, where two values are compared, has other whole numbers from known ranges as well. ``None`` if that is
    not so."""
    if guard is None or guard.op != "less":
        return None
    bound = [(v, s) for v, s in guard.affine.parts if v < 0]
    if len(bound) != 1 or abs(bound[0][1]) != 1 or len(guard.affine.parts) + len(guard.rest) < 2:
        return None
    v, s = bound[0]
    if any(v in bound_variables(f) for f in (*factors_of(guard.rest), *flat.factors) if f is not factor):
        return None
    least: spans.Span = (0, 0)
    if guard.rest:
        if not isinstance(box, Mapping) or not is_whole(store, guard.rest):
            return None
        least = spans.of_polynomial(store, guard.rest, box, flat.ranges)
    size = flat.ranges[-1 - v]
    parts = tuple(p for p in guard.affine.parts if p[0] != v)
    # v < -r, or v > r: -r of them, or size - 1 - r; and size less that of the complement
    constant = -guard.affine.offset if s > 0 else size - 1 - guard.affine.offset
    sign = -1
    if not value:
        constant, sign = size - constant, 1
    count: Coordinate = Coordinate(tuple((w, sign * t) for w, t in parts), constant)
    span = interval(count, box, flat.ranges)
    low, high = sorted(sign * end for end in least)
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


def is_whole(store: Store, x: Polynomial) -> bool:
    """True of whole numbers, among them positions in rows, and what is looked up of them."""
    return all(c.denominator == 1 and all(_is_whole(store, f) for f in m) for m, c in x)


def _is_whole(store: Store, factor: Factor) -> bool:
    atom = store.atoms[factor.atom]
    if factor.exponent.denominator != 1 or factor.exponent < 1:
        return False
    if atom.op == "sum":
        return all(_is_whole(store, f) for f in atom.summand)
    return atom.facts.integer or atom.op in POSITIONS_IN_A_ROW
