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

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

from tantamount.calculus import spans
from tantamount.calculus.affine import Coordinate, coordinate, fixed, variable
from tantamount.calculus.atoms import Store
from tantamount.calculus.comparisons import Comparison, bounds_of, compare, comparison, interval
from tantamount.calculus.counts import is_whole
from tantamount.calculus.polynomials import add, constant, iota, multiply, pinned, scale, sum_over
from tantamount.calculus.products import substitute_factors, substitute_polynomial
from tantamount.calculus.rebuild import Rebuild
from tantamount.calculus.terms import ONE, ZERO, Factor, Polynomial, Term, factors_of, sole_factor, sole_number
from tantamount.calculus.told import Told
from tantamount.ops.functions import POSITIONS_IN_A_ROW

__all__ = ["counted_in_order"]

_ORDERS = ("order", "argsort")
_Box = Mapping[int, tuple[int, int]]


class _Element(NamedTuple):
    """``V_a`` of a row K in order: the factor, its axis a, the length of the row, the least and the greatest value of
    an element; K at axes of its own, if that is one factor, and these axes with their ranges."""

    factor: Factor
    axis: int
    length: int
    low: int
    high: int
    member: Factor | None
    places: Mapping[int, tuple[int, int]]


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
        """The element of a row in order that the summand of a sum depends on, or which is in order what that reads."""
        summed = self._summed(term)
        if summed is None:
            return None
        factors, axes = summed
        inside = list(self._inside(factors))
        for axis, (_, size) in axes.items():
            for factor in inside:
                found = self._sorted(factor, axis)
                if found is not None and found.length == size:
                    return found
        return self._put_in_order(inside, axes)

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
            for here, places in self._readings(factors, axes, element):
                told = Told(store, here, constant(v), box=self.box)
                summand = ONE
                for factor in factors:
                    summand = multiply(store, summand, told.factor(factor), self.box)
                if not told.changed or any(_mentions(summand, axis) for axis in places):
                    continue
                over = {other: span for other, span in axes.items() if other not in places}
                parts.append(scale(sum_over(store, summand, over, self.box) if over else summand, term.coefficient))
                break
            else:
                return None
        budget = store.effort.bounds.settled_factors
        return Rebuild(store, budget=budget, box=self.box).polynomial(add(store, *parts))

    def _readings(
        self, factors: list[Factor], axes: Mapping[int, tuple[int, int]], element: _Element
    ) -> Iterator[tuple[Factor, Collection[int]]]:
        """The factors that the summands of a sum may read: the element at one of the axes, or, at several, the row as
        it is; each with its axes, at which every place of the row is read once."""
        for axis, span in axes.items():
            if span == (0, element.length):
                yield substitute_factors((element.factor,), {element.axis: variable(axis)})[0], (axis,)
        if element.member is None:
            return
        for factor in self._inside(factors):
            renamed = _renamed(element.member, factor, element.places, axes)
            if renamed is not None:
                yield factor, renamed

    def _summed(self, term: Term) -> tuple[list[Factor], dict[int, tuple[int, int]]] | None:
        """The summand of a sum, and its axes."""
        if len(term.monomial) != 1 or term.monomial[0].exponent != 1:
            return None
        (factor,) = term.monomial
        return self._opened(factor.atom, factor.at) if self.store.atoms[factor.atom].op == "sum" else None

    def _inside(self, factors: list[Factor]) -> Iterator[Factor]:
        """Sums, and positions in rows, in factors, at any depth outside of others."""
        pending, seen = list(factors), set(factors)
        while pending:
            factor = pending.pop()
            atom = self.store.atoms[factor.atom]
            if atom.op == "sum" or atom.op in POSITIONS_IN_A_ROW:
                yield factor._replace(exponent=1)
                continue
            here = dict(enumerate(factor.at))
            for x in atom.arguments:
                new = set(factors_of(substitute_polynomial(x, here))) - seen
                seen |= new
                pending += sorted(new)

    def _put_in_order(self, inside: Sequence[Factor], axes: Mapping[int, tuple[int, int]]) -> _Element | None:
        """The element, at an axis of its own, of a row that positions in rows are read of, as one of the orders puts it
        that either program has made of it: every element of the row, which may be one of a batch, is one of those in
        order."""
        store = self.store
        read = [f for f in inside if store.atoms[f.atom].op in POSITIONS_IN_A_ROW and any(a in _axes(f) for a in axes)]
        for number in [k for k, atom in enumerate(store.atoms) if atom.op in _ORDERS] if read else ():
            place, row = store.atoms[number].arguments
            outer = sorted({v for factor in factors_of(row) for v in _axes(factor)})
            along = next((v for v in range(len(outer) + 1) if place == iota(variable(v))), None)
            if along is None or along in outer or sorted({along, *outer}) != list(range(len(outer) + 1)):
                continue
            axis, *others = store.fresh_axes(1 + len(outer))
            names = dict(zip([along, *outer], (axis, *others), strict=True))
            order = Factor(number, 1, tuple(variable(names[v]) for v in sorted(names)))
            found = self._in_order(order, axis)
            member = None if found is None else found.member
            for factor in read if member is not None else ():
                at = None if member is None else _rows_at(member, factor, others, axes)
                there = None if at is None else self._in_order(substitute_factors((order,), at)[0], axis)
                if there is not None:
                    self.box[axis] = (0, there.length)
                    return there
        return None

    def _sorted(self, factor: Factor, axis: int) -> _Element | None:
        """The element at place ``axis`` of a row in ascending order, if that is what a sum is."""
        store = self.store
        if store.atoms[factor.atom].op != "sum" or axis not in _axes(factor):
            return None
        for guard in self._opened(factor.atom, factor.at)[0]:
            known = comparison(store, guard) if store.atoms[guard.atom].op == "equal" else None
            if known is None or len(known.rest) != 1:
                continue
            order = sole_factor((Term(known.rest[0].monomial, 1),))
            found = None if order is None or order.exponent != 1 else self._in_order(order, axis)
            if found is not None and found.factor == factor:
                return found
        return None

    def _in_order(self, order: Factor, axis: int) -> _Element | None:
        """``sum over p of [O_axis = p] K(p)``, where O puts a whole row K of whole numbers in ascending order."""
        store, atom = self.store, self.store.atoms[order.atom]
        if atom.op not in _ORDERS:
            return None
        length = spans.row_length(store, atom)
        descending, count = atom.attributes[:2]
        place, row = (pinned(store, x, dict(enumerate(order.at))) for x in atom.arguments)
        if descending or (atom.op == "order" and count != length) or place != iota(variable(axis)):
            return None
        whole = self._summed(row[0]) if len(row) == 1 and row[0].coefficient == 1 else None
        if _mentions(row, axis) or whole is None or len(whole[0]) != 1 or store.atoms[whole[0][0].atom].op != "pair":
            return None
        (pair,), places = whole
        where, value = (pinned(store, x, dict(enumerate(pair.at))) for x in store.atoms[pair.atom].arguments)
        guard = compare(store, "equal", (Term((order,), 1),), where, self.box)
        element = sole_factor(sum_over(store, multiply(store, guard, value, self.box), places, self.box))
        bounds = bounds_of(store, value, self.box) if is_whole(store, value) else None
        if element is None or bounds is None:
            return None
        return _Element(element, axis, length, int(bounds[0]), int(bounds[1]), sole_factor(value), places)


def _rows_at(
    member: Factor, factor: Factor, others: Sequence[int], axes: Mapping[int, tuple[int, int]]
) -> dict[int, Coordinate] | None:
    """The row of a batch that a factor reads an element of, by the ``others``, the axes that rows of the member have;
    ``None`` where it reads something else, or rows that depend on the axes that are summed over."""
    if factor.atom != member.atom:
        return None
    found: dict[int, Coordinate] = {}
    for mine, own in zip(factor.at, member.at, strict=True):
        named = next((v for v in others if own == variable(v)), None)
        if named is not None and (found.setdefault(named, mine) != mine or any(v in axes for v, _ in mine.parts)):
            return None
    return found if len(found) == len(others) else None


def _renamed(
    member: Factor, factor: Factor, places: Mapping[int, tuple[int, int]], axes: Mapping[int, tuple[int, int]]
) -> Collection[int] | None:
    """The axes that a factor has in place of those of another one, each another one of the same range."""
    if factor.atom != member.atom or member.exponent != 1:
        return None
    found: dict[int, int] = {}
    for mine, own in zip(factor.at, member.at, strict=True):
        if not any(v in places for v, _ in own.parts):
            if mine != own:
                return None
            continue
        if len(own.parts) != 1 or len(mine.parts) != 1 or own != variable(own.parts[0][0]):
            return None
        (axis, _), (place, _) = mine.parts[0], own.parts[0]
        if mine != variable(axis) or axes.get(axis) != places[place] or found.setdefault(place, axis) != axis:
            return None
    renamed = set(found.values())
    return renamed if len(renamed) == len(found) == len(places) else None


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


def _axes(factor: Factor) -> set[int]:
    return {v for parts, _ in factor.at for v, _ in parts}


def _mentions(x: Polynomial, axis: int) -> bool:
    return any(axis in _axes(f) for f in factors_of(x))
