"""Elements of one row in order: ``[V_c + a < V_d] = 0`` for ``V_0 <= V_1 <= ...``, places ``c >= d`` and ``a >= 0``;
and ``sum over j of f(V_j) = sum over u of f(K(u))`` for any order V of the whole row K and any function f.

``V_j`` is ``sum over u of [O_j = u] K(u)``, where the order O puts the whole row K in ascending order, by any choice
among equal elements (in descending order: for ``c <= d``). So a row that was sorted is seen to be sorted, and what is
counted or added up in it is so in the row as it was.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import permutations
from typing import NamedTuple

from tantamount.calculus import comparisons, spans
from tantamount.calculus.affine import Coordinate, coordinate
from tantamount.calculus.atoms import Store
from tantamount.calculus.comparisons import Comparison, compare, comparison, interval
from tantamount.calculus.polynomials import add, multiply, pinned, scale, sum_over
from tantamount.calculus.products import substitute_polynomial
from tantamount.calculus.rebuild import Rebuild
from tantamount.calculus.terms import ONE, Factor, Polynomial, Term, factors_of, single, sole_factor
from tantamount.calculus.told import Told
from tantamount.sizes.symbolic import is_size

__all__ = ["never_less", "over_the_row"]

_ORDERS = ("order", "argsort")


class _Chosen(NamedTuple):
    """The position ``O_place`` in a row, and the length of the row."""

    factor: Factor
    place: Coordinate
    row: Polynomial
    length: int


def never_less(store: Store, guard: Comparison, box: Mapping[int, tuple[int, int]]) -> bool:
    """True if a comparison ``[q (V_c - V_d) + a < 0]``, with q > 0, is known to hold nowhere: both are elements of one
    row in order."""
    least = interval(guard.affine, box, ())
    if guard.op != "less" or len(guard.rest) < 2 or least is None or least[0] < 0:
        return False
    reading = _Reading(store, box=dict(box))
    for one, other in permutations(reading.chosen(guard.rest), 2):
        if one.factor.atom != other.factor.atom or one.row != other.row:
            continue
        descending = bool(store.atoms[one.factor.atom].attributes[0])
        if not _at_or_after(*((other, one) if descending else (one, other)), reading.box):
            continue
        greater, less = (reading.value(chosen) for chosen in (one, other))
        if greater is None or less is None:
            continue
        apart = add(store, greater, scale(less, -1))
        if _is_multiple(guard.rest, apart):
            store.fired["in-order"] += 1
            return True
    return False


def over_the_row(
    store: Store, factors: Sequence[Factor], axes: Mapping[int, tuple[int, int]], box: Mapping[int, tuple[int, int]]
) -> Polynomial | None:
    """The sum over the axes of a product of factors, where these depend on one of them as the place in a row in order
    alone: the sum over the places of the row. ``None`` where that is not so."""
    reading = _Reading(store, box={**box, **axes})
    for axis, span in axes.items():
        whole = Coordinate(((axis, 1),), 0)
        for element in reading.sums_at(factors, axis):
            for chosen in reading.chosen((Term((element,), 1),)):
                if chosen.place != whole or span != (0, chosen.length) or _mentions(chosen.row, axis):
                    continue
                opened = reading.opened(chosen)
                if opened is None or reading.value(chosen) != (Term((element,), 1),):
                    continue
                _, member, places = opened
                told = Told(store, element, member, box=reading.box)
                summand = ONE
                for factor in factors:
                    summand = multiply(store, summand, told.factor(factor), reading.box)
                if _mentions(summand, axis):
                    continue
                store.fired["in-order"] += 1
                others = {v: one for v, one in axes.items() if v != axis}
                return sum_over(store, summand, {**others, **places}, reading.box)
    return None


def _is_multiple(x: Polynomial, of: Polynomial) -> bool:
    """True if a Polynomial is another one times a positive number."""
    numbers = [poly[0].coefficient for poly in (x, of) if poly]
    if len(x) != len(of) or len(numbers) < 2 or any(map(is_size, numbers)):
        return False
    q = Fraction(numbers[0]) / Fraction(numbers[1])
    return q > 0 and scale(of, q) == x


def _at_or_after(one: _Chosen, other: _Chosen, box: Mapping[int, tuple[int, int]]) -> bool:
    """True if the place of the one is known to be that of the other or one behind it, both in the row."""
    parts = dict(one.place.parts)
    for v, s in other.place.parts:
        parts[v] = parts.get(v, 0) - s
    apart = interval(coordinate(parts, one.place.offset - other.place.offset), box, ())
    spans = [interval(chosen.place, box, ()) for chosen in (one, other)]
    inside = all(span is not None and span[0] >= 0 and span[1] < one.length for span in spans)
    return inside and apart is not None and apart[0] >= 0


class _Reading(Rebuild):
    """Looks for the orders that sums read."""

    def chosen(self, x: Polynomial) -> list[_Chosen]:
        """The positions in rows that the summands of the sums in a Polynomial are compared with."""
        store, found = self.store, dict[Factor, _Chosen]()
        for term in x:
            for factor in term.monomial:
                if store.atoms[factor.atom].op != "sum" or factor.exponent != 1:
                    continue
                for guard in self._opened(factor.atom, factor.at)[0]:
                    known = comparison(store, guard) if store.atoms[guard.atom].op == "equal" else None
                    order = None if known is None or len(known.rest) != 1 else sole_factor(_positive(known.rest))
                    one = None if order is None else self._position(order)
                    if one is not None:
                        found[one.factor] = one
        return list(found.values())

    def sums_at(self, factors: Iterable[Factor], axis: int) -> Iterator[Factor]:
        """The sums at a place that an axis gives, in factors, at any depth outside of other sums."""
        pending, seen = list(factors), set(factors)
        while pending:
            factor = pending.pop()
            atom = self.store.atoms[factor.atom]
            if atom.op == "sum":
                if any(v == axis for c in factor.at for v, _ in c.parts):
                    yield factor._replace(exponent=1)
                continue
            here = dict(enumerate(factor.at))
            new = {f for x in atom.arguments for f in factors_of(substitute_polynomial(x, here))} - seen
            seen |= new
            pending += sorted(new)

    def opened(self, chosen: _Chosen) -> tuple[Polynomial, Polynomial, dict[int, tuple[int, int]]] | None:
        """``u`` and ``K(u)``, and the axes that u is made of; ``None`` where the row is not made of one Polynomial."""
        store = self.store
        member = sole_factor(chosen.row)
        if member is None or member.exponent != 1 or store.atoms[member.atom].op != "sum":
            return None
        factors, axes = self._opened(member.atom, member.at)
        if len(factors) != 1 or factors[0].exponent != 1 or store.atoms[factors[0].atom].op != "pair":
            return None
        where, value = (
            pinned(store, x, dict(enumerate(factors[0].at))) for x in store.atoms[factors[0].atom].arguments
        )
        return where, value, axes

    def value(self, chosen: _Chosen) -> Polynomial | None:
        """``sum over u of [O_place = u] K(u)``"""
        store, found = self.store, self.opened(chosen)
        if found is None:
            return None
        where, value, axes = found
        position = single(chosen.factor.atom, chosen.factor.at)
        guard = compare(store, "equal", add(store, position, scale(where, -1)), (), self.box)
        return sum_over(store, multiply(store, guard, value, self.box), axes, self.box)

    def _position(self, order: Factor) -> _Chosen | None:
        store = self.store
        if store.atoms[order.atom].op not in _ORDERS or order.exponent != 1:
            return None
        place, row = (pinned(store, x, dict(enumerate(order.at))) for x in store.atoms[order.atom].arguments)
        rest, parts, offset = comparisons.split_affine(place)
        if rest or offset.denominator != 1 or any(q.denominator != 1 for q in parts.values()):
            return None
        at = coordinate({v: int(q) for v, q in parts.items()}, int(offset))
        return _Chosen(order, at, row, spans.row_length(store, store.atoms[order.atom]))


def _mentions(x: Polynomial, axis: int) -> bool:
    return any(v == axis for f in factors_of(x) for c in f.at for v, _ in c.parts)


def _positive(x: Polynomial) -> Polynomial:
    """A single term without its coefficient."""
    return (Term(x[0].monomial, 1),)
