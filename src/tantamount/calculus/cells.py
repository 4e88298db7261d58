"""Sums over ranges that differ, as sums over the cells that these ranges have in common.

``sum[a<8] f(a) = sum[a<4] g(a) + sum[a<4] h(a+4)`` if f = g on 0..4 and f = h on 4..8: on a cell every summand is a
function of one variable, of which an interval is known, which decides guards that mention it. Two sums run along the
same variable if it is where they read a leaf, however deep.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise, product
from math import prod
from typing import NamedTuple

from tantamount.calculus.affine import Coordinate, fixed, substitute, variable
from tantamount.calculus.atoms import Store
from tantamount.calculus.polynomials import polynomial
from tantamount.calculus.products import substitute_factors
from tantamount.calculus.sums import close, flatten
from tantamount.calculus.terms import Flat, Polynomial, Term, factors_of

__all__ = ["Anchor", "Cell", "common_cells", "places"]

Anchor = tuple[int, int]  # a leaf atom, and one of its coordinates


class Cell(NamedTuple):
    """The summands of two polynomials over an interval of a fresh axis."""

    left: Polynomial
    right: Polynomial
    axis: int
    interval: tuple[int, int]


class _Run(NamedTuple):
    """A sum, one of its bound variables (``None``: it reads at one place), and the interval that it reads."""

    flat: Flat
    variable: int | None
    interval: tuple[int, int]


def common_cells(store: Store, x: Polynomial, y: Polynomial) -> Iterator[list[Cell]]:
    """Ways to write two Polynomials as sums over the same cells: one for every coordinate of a leaf at which each of
    their terms reads along bound variables."""
    if not x or not y:
        return
    if len(x) + len(y) > store.effort.bounds.cell_sums:
        if any(store.atoms[f[0]].op == "sum" for m, _ in (*x, *y) for f in m):
            store.effort.hit("cell_sums", len(x) + len(y))
        return
    sides = [[flatten(store, m, c) for m, c in side] for side in (x, y)]
    anchors = [[_anchors(store, flat) for flat in side] for side in sides]
    for anchor in anchors[0][0]:
        if not all(anchor in found for side in anchors for found in side):
            continue
        if any(
            store.effort.exceeds("common_cells", _count(flat, found[anchor]))
            for pair in zip(sides, anchors, strict=True)
            for flat, found in zip(*pair, strict=True)
        ):
            continue
        left, right = (
            [run for flat, found in zip(*pair, strict=True) for run in _runs(flat, found[anchor])]
            for pair in zip(sides, anchors, strict=True)
        )
        ends = sorted({end for run in (*left, *right) for end in run.interval})
        if all(run.variable is None for run in (*left, *right)) or store.effort.exceeds("common_cells", len(ends)):
            continue
        store.fired["common-cells"] += 1
        yield [_cell(store, left, right, interval) for interval in pairwise(ends)]


def _anchors(store: Store, flat: Flat) -> dict[Anchor, Coordinate]:
    """The coordinates of leaves that depend on bound variables, or on nothing, in one way only."""
    found: dict[Anchor, Coordinate | None] = {}
    for a, _, index in flat.factors:
        for anchor, place in places(store, a):
            c = substitute(place, dict(enumerate(index)))
            if all(v < 0 for v, _ in c.parts) and (not c.parts or any(s == 1 for _, s in c.parts)):
                found[anchor] = c if found.setdefault(anchor, c) == c else None
    return {anchor: c for anchor, c in found.items() if c is not None}


def places(store: Store, number: int) -> Sequence[tuple[Anchor, Coordinate]]:
    """The places at which an atom reads leaves, as coordinates of leaves in terms of its own coordinates."""
    memo = store.memo.places_of_leaves
    most = store.effort.bounds.leaf_places
    found = memo.get(number)
    if found is None:
        atom = store.atoms[number]
        here: dict[tuple[Anchor, Coordinate], None] = {}
        if atom.op == "leaf":
            here.update((((number, k), variable(k)), None) for k in range(len(atom.shape or ())))
        for a, _, index in factors_of(*atom.arguments):
            for anchor, place in places(store, a):
                c = substitute(place, dict(enumerate(index)))
                if all(v >= 0 for v, _ in c.parts) and len(here) <= most:  # one more than that says that there are more
                    here[anchor, c] = None
        found = memo[number] = tuple(here)
    return found[:most] if store.effort.exceeds("leaf_places", len(found)) else found


def _count(flat: Flat, c: Coordinate) -> int:
    """The number of runs that :func:`_runs` would return."""
    sizes = [flat.ranges[-1 - v] for v, s in c.parts if s == 1]
    return prod(flat.ranges[-1 - v] for v, _ in c.parts) // max(sizes, default=1)


def _runs(flat: Flat, c: Coordinate) -> list[_Run]:
    """The sum as sums along one variable, with every value of the others that the coordinate depends on."""
    parts, offset = c
    along = max((v for v, s in parts if s == 1), key=lambda v: flat.ranges[-1 - v], default=None)
    size = 1 if along is None else flat.ranges[-1 - along]
    others = [(v, s) for v, s in parts if v != along]
    out: list[_Run] = []
    for values in product(*(range(flat.ranges[-1 - v]) for v, _ in others)):
        values_at: dict[int, Coordinate] = {v: fixed(value) for (v, _), value in zip(others, values, strict=True)}
        ranges = tuple(1 if -1 - j in values_at else n for j, n in enumerate(flat.ranges))
        low = offset + sum(s * value for (_, s), value in zip(others, values, strict=True))
        part = Flat(flat.coefficient, substitute_factors(flat.factors, values_at), ranges)
        out.append(_Run(part, along, (low, low + size)))
    return out


def _cell(store: Store, left: Sequence[_Run], right: Sequence[_Run], interval: tuple[int, int]) -> Cell:
    """The summands of the sums that cover an interval, which becomes an axis."""
    mentioned = {v for (_, factors, _), _, _ in (*left, *right) for f in factors for parts, _ in f.at for v, _ in parts}
    (axis,) = store.posing_axes([interval], mentioned)
    one = interval[1] - interval[0] == 1  # then the place is a number

    def summand(runs: Sequence[_Run]) -> Polynomial:
        terms: list[Term] = []
        for (c, factors, ranges), v, (low, high) in runs:
            if low <= interval[0] and interval[1] <= high:
                place: Coordinate = fixed(interval[0] - low) if one else variable(axis, 1, -low)
                here = {} if v is None else {v: place}
                rest = tuple(1 if -1 - j in here else n for j, n in enumerate(ranges))
                terms.extend(close(store, Flat(c, substitute_factors(factors, here), rest), {axis: interval}))
        return polynomial(store, terms)

    return Cell(summand(left), summand(right), axis, interval)
