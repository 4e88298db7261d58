"""Conditions on one whole number of data, such as a label, as the intervals in which it lies.

``clamp(t - l, 0, n - 1) == t - l``, ``t // n == r``, ``|2 (t - l) - n + 1| < n`` say in which interval t lies, and its
ends are affine in the positions of the axes (the rank, say). The ends are guessed from values of the condition around
the numbers that it is written with; that it holds there and nowhere else, for every whole number, is then shown case
by case.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

from tantamount.calculus.affine import Coordinate, Index, coordinate, substitute_index, variable
from tantamount.calculus.atoms import Store
from tantamount.calculus.cases import vanishes
from tantamount.calculus.comparisons import compare, comparison
from tantamount.calculus.polynomials import add, constant, iota, multiply, scale
from tantamount.calculus.products import is_boolean
from tantamount.calculus.rebuild import Rebuild
from tantamount.calculus.terms import IOTA, ONE, ZERO, Factor, Polynomial, Ranges, factors_of, single
from tantamount.errors import Unsupported
from tantamount.sizes.symbolic import is_size

__all__ = ["intervals_of", "number_of"]

_Ranges = Mapping[int, tuple[int, int]]
_Place = Mapping[int, int]  # a position, by axis


def intervals_of(
    store: Store, c: Polynomial, box: Sequence[tuple[int, int]] | _Ranges, single_numbers: bool = False
) -> Polynomial:
    """The condition as products of comparisons ``[t < b] (1 - [t < a])`` of the one whole number t that it depends on;
    ``c`` itself if it depends on something else, is written so already, or the ends of the intervals are not found.
    With ``single_numbers`` an interval of one number is an equality."""
    found = number_of(store, c)
    if found is None or _is_plain(store, c, found):
        return c
    leaf, index = found
    axes = sorted({v for f in _positions(store, c) for parts, _ in f for v, _ in parts if v >= 0})
    known = box if isinstance(box, Mapping) else dict(enumerate(box))
    if any(v not in known or is_size(known[v][0]) or is_size(known[v][1]) for v in axes):
        return c
    (axis,) = store.fresh_axes(1)
    try:
        of_axis = Rebuild(store, leaves={leaf: iota(variable(axis))}).polynomial(c)
        ends = _ends(store, of_axis, axis, [(v, *known[v]) for v in axes])
        if ends is None:
            return c
        t = single(leaf, index)
        places = [iota(end) if end.parts else constant(end.offset) for end in ends[1]]
        holds, parts = ends[0], list[Polynomial]()
        for low, high in pairwise([None, *places, None]):
            if holds:
                parts.append(_between(store, t, low, high, box, single_numbers))
            holds = not holds
        written = add(store, *parts, box=box) if parts else ZERO
    except Unsupported:
        return c
    return written if vanishes(store, add(store, c, scale(written, -1)), box) else c


def _between(
    store: Store, t: Polynomial, low: Polynomial | None, high: Polynomial | None, box: Ranges, single_numbers: bool
) -> Polynomial:
    """``[t < high] (1 - [t < low])``, or ``[t == low]`` if that is the one number between and such are asked for;
    without an end, none."""
    if single_numbers and low is not None and high is not None and add(store, high, scale(low, -1)) == ONE:
        return compare(store, "equal", t, low, box)
    below = ONE if high is None else compare(store, "less", t, high, box)
    before = ZERO if low is None else compare(store, "less", t, low, box)
    return multiply(store, below, add(store, ONE, scale(before, -1)), box)


# ------------------------------------------------------------------------------------------------ what it depends on
def number_of(store: Store, c: Polynomial) -> tuple[int, Index] | None:
    """The one leaf that a polynomial depends on, of whole numbers and at one place; ``None`` if there is none such."""
    found: set[tuple[int, Index]] = set()
    for factor in _inside(store, c):
        if factor.atom == IOTA or store.atoms[factor.atom].op != "leaf":
            continue
        found.add((factor.atom, factor.at))
        bound = any(v < 0 for parts, _ in factor.at for v, _ in parts)
        if len(found) > 1 or bound or not store.atoms[factor.atom].facts.integer:
            return None
    return next(iter(found), None)


def _positions(store: Store, c: Polynomial) -> Iterator[Index]:
    for factor in _inside(store, c):
        if factor.atom == IOTA or store.atoms[factor.atom].positional:
            yield factor.at


def _inside(store: Store, c: Polynomial) -> Iterator[Factor]:
    """The factors of a polynomial, and those inside their atoms, at the indices that they have there."""
    seen: set[Factor] = set()
    pending = list(factors_of(c))
    while pending:
        factor = pending.pop()
        if factor in seen:
            continue
        seen.add(factor)
        yield factor
        replace: dict[int, Coordinate] = dict(enumerate(factor.at))
        pending += [
            Factor(f.atom, f.exponent, substitute_index(f.at, replace))
            for f in factors_of(*store.atoms[factor.atom].arguments)
        ]


def _is_plain(store: Store, c: Polynomial, number: tuple[int, Index]) -> bool:
    """True for products of comparisons of the number with positions, or 1 less one."""

    def plain(factor: Factor) -> bool:
        atom = store.atoms[factor.atom]
        if atom.op == "polynomial":
            inner = dict(enumerate(factor.at))
            return all(
                plain(Factor(f.atom, f.exponent, substitute_index(f.at, inner))) for f in factors_of(atom.arguments[0])
            )
        guard = comparison(store, factor)
        return guard is not None and [(f.atom, f.at) for f in factors_of(guard.rest)] in ([], [number])

    return is_boolean(store, c) and all(map(plain, factors_of(c)))


# ------------------------------------------------------------------------------------------------ guesses
def _ends(
    store: Store, c: Polynomial, axis: int, axes: Sequence[tuple[int, int, int]]
) -> tuple[bool, list[Coordinate]] | None:
    """True if a condition seems to hold of the least numbers of an axis, and the numbers, affine in positions along the
    other axes, from which on that is no longer so; ``None`` where they are not seen. Nothing rests on it."""
    origin = {v: low for v, low, _ in axes}
    steps = {v: {**origin, v: low + 1} for v, low, high in axes if high - low > 1}
    corner = {v: high - 1 for v, _, high in axes}
    seen: dict[int, tuple[bool, list[int]]] = {}
    places = [origin, *steps.values(), corner]
    for k, place in enumerate(places):
        found = _changes(store, c, axis, place)
        if found is None or (seen and (found[0], len(found[1])) != (seen[0][0], len(seen[0][1]))):
            return None
        seen[k] = found
    if store.effort.exceeds("condition_bands", len(seen[0][1])):
        return None
    out: list[Coordinate] = []
    for j, first in enumerate(seen[0][1]):
        strides = {v: seen[1 + k][1][j] - first for k, v in enumerate(steps)}
        if first + sum(s * (corner[v] - origin[v]) for v, s in strides.items()) != seen[len(places) - 1][1][j]:
            return None
        own = {v: s for v, s in strides.items() if s}
        out.append(coordinate(own, first - sum(s * origin[v] for v, s in own.items())))
    return seen[0][0], out


def _changes(store: Store, c: Polynomial, axis: int, place: _Place) -> tuple[bool, list[int]] | None:
    """True if a condition holds of the least of some numbers, and the numbers from which on it changes: those around
    sums and differences of two numbers that it is written with."""
    import numpy as np  # here: programs without such conditions need no NumPy

    from tantamount.calculus.evaluate import Evaluator

    near = _numbers(store, c, axis, place)
    points = sorted({a + s * b + d for a in near for b in near for s in (1, -1) for d in (-1, 0, 1)})
    if store.effort.exceeds("condition_points", len(points)):
        return None
    at = np.array(points, dtype=np.int64)
    places = {axis: at, **{v: np.full(at.shape, value) for v, value in place.items()}}
    value = np.broadcast_to(Evaluator(store, {}).polynomial(c, places), at.shape)
    if not bool(((value == 0) | (value == 1)).all()):
        return None
    held = [bool(x) for x in value.tolist()]
    changes = [(a, b) for (a, one), (b, other) in pairwise(zip(points, held, strict=True)) if one != other]
    return (held[0], [b for _, b in changes]) if all(b == a + 1 for a, b in changes) else None


def _numbers(store: Store, c: Polynomial, axis: int, place: _Place) -> list[int]:
    """The whole numbers that a polynomial is written with at a position, with both signs: coefficients, and what
    indices are there."""
    found = {0}
    pending = [c]
    for factor in _inside(store, c):
        pending.extend(store.atoms[factor.atom].arguments)
        for parts, offset in factor.at:
            if not is_size(offset):
                found.add(int(offset) + sum(int(s) * place.get(v, 0) for v, s in parts if v != axis and not is_size(s)))
    for x in pending:
        found |= {int(k) for _, k in x if not is_size(k) and int(k) == k}
    return sorted({s * k for k in found for s in (1, -1)})
