"""Writes at positions that are numbers: tables that programs make of counts alone, such as where documents begin.

Between the places where a comparison of a position with a number changes, such positions and values are affine in the
number of the write. So writes are runs, which are laid over what was there, whatever their number.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from itertools import pairwise
from math import floor
from typing import NamedTuple

from tantamount.calculus import forms
from tantamount.calculus.affine import variable
from tantamount.calculus.atoms import Store
from tantamount.calculus.comparisons import comparison
from tantamount.calculus.forms import Form, constant_form
from tantamount.calculus.polynomials import add, constant, iota, scale
from tantamount.calculus.terms import IOTA, ZERO, Factor, Polynomial, sole_number
from tantamount.sizes.symbolic import is_size

__all__ = ["written"]


class _Run(NamedTuple):
    """The values ``slope * i + start`` for low <= i < high."""

    low: int
    high: int
    slope: Fraction
    start: Fraction

    def at(self, i: int) -> Fraction:
        return self.slope * i + self.start


def written(store: Store, x: Form, index: Form, source: Form, dim: int) -> Form | None:
    """``x`` with ``source[..., i]`` written at ``index[..., i]`` along its last dimension ``dim``, for all i in any
    order, if positions and values are numbers, the positions are inside, and writes that meet write the same;
    otherwise ``None``."""
    if dim != len(x.dims) - 1 or any(is_size(size) for form in (x, index, source) for size in form.shape):
        return None
    positions, values = _runs(store, index, dim), _runs(store, source, dim)
    if positions is None or values is None:
        return None
    segments: list[_Run] = []
    for place, value in _together(positions, values):
        low, high, slope, start = place
        first = place.at(low)
        if first.denominator != 1 or first < 0:
            return None
        if high - low == 1 or (slope == 0 and value.slope == 0):
            segments.append(_Run(int(first), int(first) + 1, Fraction(0), value.at(low)))
        elif slope == 1:
            shift = int(start)
            segments.append(_Run(low + shift, high + shift, value.slope, value.start - value.slope * shift))
        else:
            return None
    laid = sorted(set(segments))
    if any(a.high > b.low for a, b in pairwise(laid)) or (laid and laid[-1].high > x.shape[dim]):
        return None
    parts: list[Form] = []
    end = 0
    for run in laid:
        if end < run.low:
            parts.append(forms.slice_form(store, x, dim, end, run.low, 1))
        parts.append(_form(store, x, dim, run))
        end = run.high
    if end < x.shape[dim]:
        parts.append(forms.slice_form(store, x, dim, end, x.shape[dim], 1))
    return parts[0] if len(parts) == 1 else forms.concat(store, parts, dim)


def _form(store: Store, x: Form, dim: int, run: _Run) -> Form:
    shape = (*x.shape[:dim], run.high - run.low)
    value = constant(run.at(run.low))
    if run.slope and run.high - run.low > 1:
        axis = constant_form(shape, ZERO).start(dim)
        value = add(store, value, scale(iota(variable(axis)), run.slope))
    return constant_form(shape, value)


def _together(left: Sequence[_Run], right: Sequence[_Run]) -> list[tuple[_Run, _Run]]:
    """Both, on the intervals on which both are one run."""
    found: list[tuple[_Run, _Run]] = []
    for a in left:
        for b in right:
            low, high = max(a.low, b.low), min(a.high, b.high)
            if low < high:
                found.append((a._replace(low=low, high=high), b._replace(low=low, high=high)))
    return found


def _runs(store: Store, form: Form, dim: int) -> list[_Run] | None:
    """The values of a form along its last dimension, which nothing else decides; ``None`` where they are no numbers."""
    if len(form.dims) != dim + 1 or len(form.dims[dim]) > 1:
        return None
    axis = form.start(dim)
    single = not form.dims[dim]
    found: list[_Run] = []
    for box, x in form.pieces:
        if any(span != (0, form.sizes[v]) for v, span in enumerate(box) if v != axis):
            return None
        if store.effort.exceeds("written_runs", len(x)):
            return None
        low, high = (0, 1) if single else box[axis]
        cuts = {low, high}
        for m, _ in x:
            for f in m:
                at = _affine(store, f, axis)
                if at is None:
                    return None
                slope, start, _ = at
                if f.atom != IOTA and slope:
                    root = floor(-start / slope)
                    cuts |= {k for k in (root, root + 1) if low < k < high}
        for a, b in pairwise(sorted(cuts)):
            run = _run(store, x, axis, a, b)
            if run is None:
                return None
            found.append(run)
    return None if store.effort.exceeds("written_runs", len(found)) else found


def _run(store: Store, x: Polynomial, axis: int, low: int, high: int) -> _Run | None:
    """The values on an interval on which no comparison changes, if they are affine."""
    slope, start = Fraction(0), Fraction(0)
    for m, c in x:
        at: list[tuple[Fraction, Fraction]] = []
        for f in m:
            found = _affine(store, f, axis)
            if found is None:
                return None
            s, r, op = found
            if f.atom == IOTA:
                at.append((s, r))
            elif not ((s * low + r < 0) if op == "less" else (s * low + r == 0)):
                break
        else:
            if len([s for s, _ in at if s]) > 1 and high - low > 1:
                return None
            product = (Fraction(0), Fraction(c))
            for s, r in at:
                if high - low == 1:
                    s, r = Fraction(0), s * low + r
                product = (product[0] * r + product[1] * s, product[1] * r)
            slope, start = slope + product[0], start + product[1]
    return _Run(low, high, slope, start)


def _affine(store: Store, f: Factor, axis: int) -> tuple[Fraction, Fraction, str] | None:
    """Slope and start of the number that a position is, or that a comparison compares with 0; and the comparison."""
    if f.atom == IOTA:
        at, rest, op = f.at[0], Fraction(0), ""
        if f.exponent != 1:
            return None
    else:
        guard = comparison(store, f)
        if guard is None or f.exponent <= 0:
            return None
        number = sole_number(guard.rest)
        if number is None:
            return None
        at, rest, op = guard.affine, Fraction(number), guard.op
    slopes = dict(at.parts)
    return (Fraction(slopes.get(axis, 0)), rest + at.offset, op) if set(slopes) <= {axis} else None
