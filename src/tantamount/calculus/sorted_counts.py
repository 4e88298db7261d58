"""How many elements of a row that is in order are small: ``[sum over a < n of [V_a <= t] <= i] = [t < V_i]``.

Let ``V_0 <= V_1 <= ... <= V_{n-1}``. The elements up to t are the first ones, so that there are no more than i of them
exactly where ``V_i``, with i < n, is greater. Tokens that are sorted by their experts are so cut into groups: a
histogram of the experts, its running sums as ends of the groups, and the number of groups that end at or before a place
is the expert of the token there.

Which condition a summand is of ``V_a`` is not read off but tried: the row has whole numbers from a known range, and for
every v of it the summand with v in place of ``V_a`` has to be ``[v <= t]``, for one t that is affine in positions. A
condition that holds for a greater number and not for a smaller one, one of some numbers alone, or a count of other
things, is none of these.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import NamedTuple

from tantamount.calculus import spans
from tantamount.calculus.affine import Coordinate, coordinate, fixed, variable
from tantamount.calculus.atoms import Store
from tantamount.calculus.comparisons import Comparison, bounds_of, compare, comparison, interval, positions_of
from tantamount.calculus.polynomials import add, constant, iota, multiply, pinned, scale, sum_over
from tantamount.calculus.products import is_integer, substitute_factors, substitute_polynomial
from tantamount.calculus.rebuild import Rebuild
from tantamount.calculus.terms import ONE, ZERO, Factor, Polynomial, Term, factors_of, sole_factor, sole_number
from tantamount.calculus.told import Told

__all__ = ["counted_in_order"]

_Box = Mapping[int, tuple[int, int]]


class _Element(NamedTuple):
    """``V_a``: the factor, its axis a, the length of the row, and the least and the greatest value of an element."""

    factor: Factor
    axis: int
    length: int
    low: int
    high: int


def counted_in_order(store: Store, guard: Comparison, box: _Box) -> Polynomial | None:
    """The value of a comparison ``[C + i < 0]`` of a count C of elements of a row that is in order, as a comparison of
    one of them, or of two counts, of which one is known to be no greater; ``None`` for any other comparison."""
    if guard.op != "less" or not guard.rest:
        return None
    counting = _Counting(store, box)
    element = counting.element(guard.rest[0])
    if element is None or store.effort.exceeds("tabulated_values", element.high - element.low + 1):
        return None
    offset = guard.affine.offset
    bounds: dict[int, Coordinate] = {}  # of counts that are added, and that are taken away
    for sign in (1, -1):
        count = scale(tuple(t for t in guard.rest if t.coefficient * sign > 0), sign)
        found = counting.bound(count, element) if count else None
        if count and found is None:
            return None
        if found is not None:
            bound, rest = found
            side = -sign if rest else sign  # of n elements those that are not small are n less the small ones
            if side in bounds:
                return None
            offset += sign * element.length if rest else 0
            bounds[side] = bound
    affine = Coordinate(guard.affine.parts, offset)
    value = _of_two(affine, bounds, box) if len(bounds) > 1 else _of_one(store, affine, bounds, element, box)
    store.fired["sorted-counts"] += value is not None
    return value


def _of_one(
    store: Store, affine: Coordinate, bounds: Mapping[int, Coordinate], element: _Element, box: _Box
) -> Polynomial | None:
    """``[C - i - 1 < 0]``, or the complement of it, ``[-C + i < 0]``."""
    ((sign, bound),) = bounds.items()
    place = _negated(affine, 1) if sign > 0 else affine
    span = interval(place, box, ())
    if span is None:
        return None
    if span[0] >= element.length or span[1] < 0:
        few: Polynomial = ONE if span[0] >= 0 else ZERO
    elif span[0] >= 0 and span[1] < element.length:
        there = substitute_factors((element.factor,), {element.axis: place})[0]
        small = compare(store, "less", add(store, (Term((there,), 1),), iota(bound)), ZERO, box)
        few = add(store, ONE, scale(small, -1))
    else:
        return None
    return few if sign > 0 else add(store, ONE, scale(few, -1))


def _of_two(affine: Coordinate, bounds: Mapping[int, Coordinate], box: _Box) -> Polynomial | None:
    """``[C - D + i < 0]`` for i that is not negative, where every element that D counts is one that C counts."""
    least = interval(affine, box, ())
    apart = dict(bounds[-1].parts)
    for v, s in bounds[1].parts:
        apart[v] = apart.get(v, 0) - s
    span = interval(coordinate(apart, bounds[-1].offset - bounds[1].offset), box, ())
    return ZERO if least is not None and least[0] >= 0 and span is not None and span[0] >= 0 else None


class _Counting(Rebuild):
    """Looks at the summands of a count."""

    def __init__(self, store: Store, box: _Box) -> None:
        super().__init__(store, box=box)

    def element(self, term: Term) -> _Element | None:
        """The element of a row in order that the summand of a sum depends on."""
        summed = self._summed(term)
        if summed is None:
            return None
        factors, axes = summed
        for axis, (_, size) in axes.items():
            for inside in self._inside(factors):
                found = self._sorted(inside, axis)
                if found is not None and found.length == size:
                    return found
        return None

    def bound(self, count: Polynomial, element: _Element) -> tuple[Coordinate, bool] | None:
        """t such that the summands of a count, together, are ``[v + t < 0]`` for every value v of the element, or
        (then the flag is true) such that they are the complement."""
        values: dict[int, Polynomial] = {}
        for v in range(element.low, element.high + 1):
            told = self._at(count, element, v)
            if told is None:
                return None
            values[v] = told
        for rest in (False, True):
            tried = {v: add(self.store, ONE, scale(x, -1)) for v, x in values.items()} if rest else values
            bound = self._first(tried)
            if all(value == self._less(bound, v) for v, value in tried.items()):
                return bound, rest
        return None

    def _less(self, bound: Coordinate, v: int) -> Polynomial:
        known = add(self.store, iota(bound), constant(v))
        return compare(self.store, "less", known, ZERO, self.box, oriented=True)

    def _first(self, values: Mapping[int, Polynomial]) -> Coordinate:
        """The bound that the first value suggests that depends on positions; or the last with which all hold."""
        for v, value in values.items():
            found = _less_than_zero(self.store, value)
            if found is not None:
                return coordinate(dict(found.parts), found.offset - v)
        true = [v for v, value in values.items() if sole_number(value) == 1]
        return fixed(-1 - max(true, default=min(values) - 1))

    def _at(self, count: Polynomial, element: _Element, v: int) -> Polynomial | None:
        """The summands with a value in place of the element, summed over all but its place; ``None`` if they depend on
        the place otherwise."""
        store, parts = self.store, list[Polynomial]()
        for term in count:
            summed = self._summed(term)
            if summed is None:
                return None
            factors, axes = summed
            for axis in axes:
                place: Mapping[int, Coordinate] = {element.axis: variable(axis)}
                here = substitute_factors((element.factor,), place)[0]
                told = Told(store, here, fixed(v), box=self.box)
                summand = ONE
                for factor in factors:
                    summand = multiply(store, summand, told.factor(factor), self.box)
                if not told.changed or axes[axis] != (0, element.length) or _mentions(summand, axis):
                    continue
                over = {other: span for other, span in axes.items() if other != axis}
                parts.append(scale(sum_over(store, summand, over, self.box) if over else summand, term.coefficient))
                break
            else:
                return None
        budget = store.effort.bounds.settled_factors
        return Rebuild(store, budget=budget, box=self.box).polynomial(add(store, *parts))

    def _summed(self, term: Term) -> tuple[list[Factor], dict[int, tuple[int, int]]] | None:
        """The summand of a sum, and its axes."""
        if len(term.monomial) != 1 or term.monomial[0].exponent != 1:
            return None
        (factor,) = term.monomial
        return self._opened(factor.atom, factor.at) if self.store.atoms[factor.atom].op == "sum" else None

    def _inside(self, factors: list[Factor]) -> Iterator[Factor]:
        """The sums in factors, at any depth outside of other sums."""
        pending, seen = list(factors), set(factors)
        while pending:
            factor = pending.pop()
            atom = self.store.atoms[factor.atom]
            if atom.op == "sum":
                yield factor._replace(exponent=1)
                continue
            here = dict(enumerate(factor.at))
            for x in atom.arguments:
                new = set(factors_of(substitute_polynomial(x, here))) - seen
                seen |= new
                pending += sorted(new)

    def _sorted(self, factor: Factor, axis: int) -> _Element | None:
        """The element at place ``axis`` of a row in ascending order, if that is what a sum is: ``sum over p of
        [O_axis = p] K(p)``, where O is the order of the whole row K of whole numbers."""
        store = self.store
        if not _mentions((Term((factor,), 1),), axis):
            return None
        for guard in self._opened(factor.atom, factor.at)[0]:
            known = comparison(store, guard) if store.atoms[guard.atom].op == "equal" else None
            if known is None or len(known.rest) != 1:
                continue
            order = sole_factor((Term(known.rest[0].monomial, 1),))
            if order is None or order.exponent != 1 or store.atoms[order.atom].op not in ("order", "argsort"):
                continue
            atom = store.atoms[order.atom]
            length = spans.row_length(store, atom)
            descending, count = atom.attributes[:2]
            place, row = (pinned(store, x, dict(enumerate(order.at))) for x in atom.arguments)
            if descending or (atom.op == "order" and count != length) or place != iota(variable(axis)):
                continue
            if _mentions(row, axis):
                continue
            found = self._element(factor, order, row)
            if found is not None:
                return _Element(factor, axis, length, *found)
        return None

    def _element(self, factor: Factor, order: Factor, row: Polynomial) -> tuple[int, int] | None:
        """The least and the greatest value of an element of a row of whole numbers, if a sum is the one at the position
        ``order``."""
        store = self.store
        whole = self._summed(row[0]) if len(row) == 1 and row[0].coefficient == 1 else None
        if whole is None or len(whole[0]) != 1 or store.atoms[whole[0][0].atom].op != "pair":
            return None
        (pair,), axes = whole
        here = dict(enumerate(pair.at))
        place, value = (pinned(store, x, here) for x in store.atoms[pair.atom].arguments)
        guard = compare(store, "equal", (Term((order,), 1),), place, self.box)
        if sum_over(store, multiply(store, guard, value, self.box), axes, self.box) != (Term((factor,), 1),):
            return None
        bounds = bounds_of(store, value, self.box) if _is_whole(store, value) else None
        return None if bounds is None else (int(bounds[0]), int(bounds[1]))


def _is_whole(store: Store, x: Polynomial) -> bool:
    """True of whole numbers, positions in rows among them."""
    places = tuple(t for t in x if positions_of(store, (t._replace(coefficient=1),)) is not None)
    rest = tuple(t for t in x if t not in places)
    return is_integer(store, rest) and all(Fraction(t.coefficient).denominator == 1 for t in places)


def _less_than_zero(store: Store, x: Polynomial) -> Coordinate | None:
    """``a`` if x is ``[a < 0]`` for positions, or ``1 - [-a - 1 < 0]``."""
    complement = len(x) == 2 and x[0] == Term((), 1) and x[1].coefficient == -1
    term = x[1] if complement else x[0] if len(x) == 1 and x[0].coefficient == 1 else None
    if term is None or len(term.monomial) != 1 or term.monomial[0].exponent != 1:
        return None
    known = comparison(store, term.monomial[0])
    if known is None or known.op != "less" or known.rest:
        return None
    return _negated(known.affine, 1) if complement else known.affine


def _negated(c: Coordinate, less: int) -> Coordinate:
    """``-c - less``"""
    return coordinate({v: -s for v, s in c.parts}, -c.offset - less)


def _mentions(x: Polynomial, axis: int) -> bool:
    return any(axis in {v for parts, _ in f.at for v, _ in parts} for f in factors_of(x))
