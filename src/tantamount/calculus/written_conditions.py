"""Conditions that are written in one of many ways, in one way: those on positions as bands, others as they were first.

A mask is a boolean for every position: ``d == clamp(d, 0, 2)`` of ``d = i - j``, ``tril`` less ``tril``, comparisons of
running sums. Where the numbers of an affine map ``w`` of the axes say whether it holds, it is a sum of bands
``[w < b] (1 - [w < a])``. What depends on data is compared with conditions on the same data that were met before.
``docs/design/cases.md`` has the argument.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise, product
from math import prod
from typing import Any

from tantamount.calculus.affine import Coordinate, coordinate, fixed
from tantamount.calculus.atoms import Store
from tantamount.calculus.cases import vanishes
from tantamount.calculus.comparisons import compare, comparison
from tantamount.calculus.conditions_on_numbers import intervals_of
from tantamount.calculus.polynomials import add, constant, iota, multiply, pinned, scale
from tantamount.calculus.products import is_boolean
from tantamount.calculus.rebuild import Rebuild
from tantamount.calculus.terms import IOTA, ONE, Factor, Polynomial, factors_of
from tantamount.errors import Unsupported
from tantamount.sizes.symbolic import is_size

__all__ = ["written"]

_Box = Sequence[tuple[int, int]]


def written(store: Store, c: Polynomial, box: _Box) -> Polynomial:
    """A condition (0 or 1 everywhere on a box of the axes) that is equal to ``c`` there: the same one for many that are
    equal. ``c`` itself where it is comparisons of positions, or no other way to write it was found."""
    if _is_plain(store, c):
        return c
    memo = store.memo.conditions
    key = c, tuple(box)
    found = memo.get(key)
    if found is None:
        leaves = frozenset(_leaves(store, c))
        found = intervals_of(store, c, box) if leaves else _bands(store, c, box)
        if found == c:
            found = _known(store, c, box, leaves)
        memo[key] = found
        store.fired["written-conditions"] += found != c
    return found


def _is_plain(store: Store, c: Polynomial) -> bool:
    """True for numbers, and products of comparisons of positions, or 1 less one: they have a normal form."""
    return is_boolean(store, c) and all(_is_guard(store, f) for f in factors_of(c))


def _is_guard(store: Store, factor: Factor) -> bool:
    atom = store.atoms[factor.atom]
    if atom.op == "polynomial":
        return _is_plain(store, atom.arguments[0])
    guard = comparison(store, factor)
    return guard is not None and not guard.rest


def _leaves(store: Store, x: Polynomial) -> set[int]:
    """The atoms that stand for data in a polynomial, at any depth."""
    seen: set[int] = set()
    pending = [f.atom for f in factors_of(x)]
    found: set[int] = set()
    while pending:
        number = pending.pop()
        if number in seen or number == IOTA:
            continue
        seen.add(number)
        atom = store.atoms[number]
        if atom.op == "leaf":
            found.add(number)
        pending += [f.atom for f in factors_of(*atom.arguments)]
    return found


# ------------------------------------------------------------------------------------------------ of data
def _known(store: Store, c: Polynomial, box: _Box, leaves: frozenset[int]) -> Polynomial:
    """A condition on the same data that was met before, and is shown to be equal to ``c`` case by case."""
    met = store.memo.conditions_met.setdefault((leaves, tuple(box)), [])
    if c in met:
        return c
    for other in store.effort.first("conditions_compared", met):
        difference = add(store, c, scale(other, -1))
        if vanishes(store, difference, box) or (not leaves and _nowhere(store, difference, box)):
            return other
    met.append(c)
    return c


# ------------------------------------------------------------------------------------------------ of positions
def _bands(store: Store, c: Polynomial, box: _Box) -> Polynomial:
    """The bands that ``c`` is made of. Its numbers say which ones these may be; that they are is shown without them."""
    from tantamount.calculus.bands import guesses  # here: programs without such conditions need no NumPy

    axes = _axes(c)
    if not axes or axes[0] < 0 or any(is_size(end) for v in axes for end in box[v]):
        return c
    for strides, held in guesses(store, c, [(v, *box[v]) for v in axes]):
        line = coordinate({v: s for v, s in zip(axes, strides, strict=True) if s}, 0)
        first = sum(s * (box[v][0] if s > 0 else box[v][1] - 1) for v, s in zip(axes, strides, strict=True))
        runs, others = _runs(held, first), _runs([not here for here in held], first)
        if store.effort.exceeds("condition_bands", min(len(runs), len(others))):
            continue
        whole = first, first + len(held)
        try:
            if len(others) < len(runs):  # of what is nowhere in one band, the rest is
                bands = [_band(store, line, run, whole, box) for run in others]
                found = add(store, ONE, *(scale(band, -1) for band in bands))
            else:
                found = add(store, *(_band(store, line, run, whole, box) for run in runs))
        except Unsupported:
            continue
        difference = add(store, c, scale(found, -1))
        if vanishes(store, difference, box) or _nowhere(store, difference, box):
            return found
    return c


def _axes(x: Polynomial) -> list[int]:
    return sorted({v for f in factors_of(x) for parts, _ in f.at for v, _ in parts})


def _nowhere(store: Store, x: Polynomial, box: _Box) -> bool:
    """True if x, in which there are no data, is 0 at every position: it is computed exactly for one after the other."""
    axes = [(v, *box[v]) for v in _axes(x) if v >= 0]
    if any(is_size(end) for _, *ends in axes for end in ends):
        return False
    points = prod(high - low for _, low, high in axes)
    if store.effort.exceeds("conditions_at_points", points):
        return False
    for place in product(*(range(low, high) for _, low, high in axes)):
        here = pinned(store, x, {v: fixed(at) for (v, _, _), at in zip(axes, place, strict=True)})
        if here and Rebuild(store, positions=True).polynomial(here):
            return False
    return True


def _runs(held: Sequence[bool], first: int) -> list[tuple[int, int]]:
    """The intervals of numbers, from ``first`` on, at which a mask holds."""
    ends = [0, *(k for k in range(1, len(held)) if held[k] != held[k - 1]), len(held)]
    return [(first + a, first + b) for a, b in pairwise(ends) if held[a]]


def _band(store: Store, line: Coordinate, run: tuple[int, int], whole: tuple[int, int], box: Any) -> Polynomial:
    """``[line < b] (1 - [line < a])`` for a run from a to b, without what holds on the whole of the line."""
    low, high = run
    below = ONE if high >= whole[1] else compare(store, "less", iota(line), constant(high), box)
    if low <= whole[0]:
        return below
    return multiply(
        store, below, add(store, ONE, scale(compare(store, "less", iota(line), constant(low), box), -1)), box
    )
