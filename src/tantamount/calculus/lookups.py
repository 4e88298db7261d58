"""Functions of what is looked up: ``f(sum_v g(v) K(v)) = sum_v g(v) f(K(v))``, where g is 1 at exactly one place v.

g is ``[o = v]`` for a whole number o that is known to be one of the v, or ``[O_v = u]`` for an order O of a whole row.
A router chooses among probabilities or among scores, rows are gathered and normalised, tokens are sorted by their
experts and brought back: that the function is applied before or after the choice makes no difference. What is looked up
by another look-up becomes one look-up. Of an o that may be none of the v (a row into which a window was written), what
is found and what is not are two summands: ``sum_v g(v) f(x + K(v)) + (1 - sum_v g(v)) f(x)``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from math import gcd
from typing import NamedTuple

from tantamount.calculus import comparisons, powers
from tantamount.calculus.affine import Coordinate, Index, coordinate, substitute_index, variable
from tantamount.calculus.atoms import Atom, Store
from tantamount.calculus.choices import element_of
from tantamount.calculus.comparisons import interval, permuted, positions_of
from tantamount.calculus.in_order import never_less, over_the_row
from tantamount.calculus.polynomials import add, constant, iota, multiply, pinned, polynomial, scale, sum_over
from tantamount.calculus.products import monomial, substitute_factors
from tantamount.calculus.rebuild import Rebuild, atoms_inside
from tantamount.calculus.sorted_counts import counted_in_order
from tantamount.calculus.terms import (
    ONE,
    ZERO,
    Exponent,
    Factor,
    Polynomial,
    Term,
    factors_of,
    single,
    sole_factor,
)
from tantamount.calculus.told import Told
from tantamount.errors import Unsupported
from tantamount.ops.functions import FUNCTIONS, POSITIONS_IN_A_ROW
from tantamount.sizes.symbolic import never_below

__all__ = ["looked_up"]

_ORDERS = ("order", "argsort")


class _OneHot(NamedTuple):
    """``g(v)`` at ``v = axis``, the axis, and how many v there are. ``sure``: g is 1 at one of them; else at one or
    none."""

    guard: Factor
    axis: int
    size: int
    sure: bool = True


def looked_up(store: Store, x: Polynomial, box: object = ()) -> Polynomial:
    """The Polynomial with look-ups by orders of rows brought out of functions, powers and comparisons."""
    if not any(_mentions(store, f.atom) for f in factors_of(x)):
        return x
    if store.effort.exceeds("rewritten_atoms", atoms_inside(store, x)):
        return x
    budget = store.effort.bounds.settled_factors
    try:
        rounds = 0
        while (found := _LookedUp(store, budget=budget, box=box).polynomial(x)) != x:  # type: ignore[arg-type]
            rounds += 1
            if store.effort.exceeds("looked_up_depth", rounds):
                break
            x = Rebuild(store, budget=budget, box=box).polynomial(found)  # type: ignore[arg-type]
    except Unsupported:
        pass
    return x


def _mentions(store: Store, number: int) -> bool:
    """True if an atom has a look-up inside: a position in a row, or a sum with an equality."""
    memo = store.memo.mentions_look_up
    found = memo.get(number)
    if found is None:
        atom = store.atoms[number]
        memo[number] = found = (
            atom.op in POSITIONS_IN_A_ROW
            or (atom.op == "sum" and any(_chooses(store, f) for f in atom.summand))
            or any(_mentions(store, f.atom) for f in factors_of(*atom.arguments))
        )
    return found


def _chooses(store: Store, factor: Factor) -> bool:
    """True for an equality."""
    return factor.exponent == 1 and store.atoms[factor.atom].op == "equal"


class _LookedUp(Rebuild):
    """Computes what mentions a position in a row anew, functions of look-ups as look-ups of functions."""

    bound = "settled_factors"

    def _concerns(self, factor: Factor) -> bool:
        return _mentions(self.store, factor.atom) and super()._concerns(factor)

    def _compute(self, factor: Factor) -> Polynomial:
        store = self.store
        a, e, index = store.follow(factor)
        atom = store.atoms[a]
        applied = atom.op in ("exp", "log", "less", "equal", "polynomial", "element") or atom.op in FUNCTIONS
        if atom.op == "max":
            return self._maximum(atom.arguments[0], index, e)
        if atom.op in ("pair", *_ORDERS):
            return self._of(tuple(self._argument(self._at(x, index)) for x in atom.arguments), atom.op, e, of=atom)
        if atom.op == "sum":
            return self._of((self._sum(a, index),), "polynomial", e) if e != 1 else self._sum(a, index)
        if not applied or atom.attributes:
            return super()._compute(factor)
        counted = self._counted(Factor(a, 1, index)) if atom.op == "less" and e == 1 else None
        if counted is not None:
            return counted
        arguments = [self._argument(self._at(x, index)) for x in atom.arguments]
        if atom.op in ("less", "equal"):
            (position,) = substitute_index((atom.position,), dict(enumerate(index)))
            arguments = [add(store, arguments[0], iota(position))]
            if atom.op == "equal":
                digits = self._digits(arguments[0]) if e == 1 else None
                if digits is not None:
                    high, low = (self._of((self._distinct(x),), "equal", 1) for x in digits)
                    return multiply(store, high, low, self.box)
                arguments = [self._distinct(self._inverted(arguments[0]))]
        return self._of(tuple(arguments), atom.op, e)

    def _counted(self, factor: Factor) -> Polynomial | None:
        """A comparison of two elements of a row in order; or of how many of them are small, by one of these."""
        known = comparisons.comparison(self.store, factor)
        if known is not None and never_less(self.store, known, self.box):
            return ZERO
        found = None if known is None else counted_in_order(self.store, known, self.box)
        return None if found is None else self.polynomial(found)

    def polynomial(self, x: Polynomial) -> Polynomial:
        """The value, with products of what is looked up at one place as one look-up."""
        found = super().polynomial(x)
        return add(self.store, *map(self._joined, found)) if any(map(self._several, found)) else found

    def _several(self, term: Term) -> bool:
        atoms = (self.store.atoms[f.atom] for f in term.monomial)
        return sum(atom.op == "sum" and any(_chooses(self.store, f) for f in atom.summand) for atom in atoms) > 1

    def _joined(self, term: Term) -> Polynomial:
        """``(sum_v g(v) K(v)) (sum_v g(v) L(v)) = sum_v g(v) K(v) L(v)``"""
        one = self._one_hot(((term,),)) if self._several(term) else None
        if one is None or sum(self._summand(f, one) != (Term((f,), 1),) for f in term.monomial) < 2:
            return (term,)
        self.store.fired["lifted-look-ups"] += 1
        product = multiply(self.store, (Term((one.guard,), 1),), self._chosen((term,), one), self.box)
        return sum_over(self.store, product, {one.axis: (0, one.size)}, self.box)

    def _sum(self, a: int, index: Index) -> Polynomial:
        """A sum whose summand says where a position in a row is: there it is that place."""
        store = self.store
        factors, axes = self._with_fresh_axes(Factor(a, 1, index))
        for guard in [f for f in factors if f.exponent == 1 and store.atoms[f.atom].op == "equal"]:
            known = comparisons.comparison(store, guard)
            place = None if known is None else _solved(store, known.rest, known.affine)
            if place is None:
                continue
            others = [f for f in factors if f != guard]
            told = Told(store, place[0], iota(place[1]), box=self.box)
            new = [told.factor(f) for f in others]
            if not told.changed:
                continue
            store.fired["lifted-look-ups"] += 1
            product: Polynomial = (Term((guard,), 1),)
            for x in new:
                product = multiply(store, product, x, self.box)
            return self.polynomial(sum_over(store, product, {v: (0, n) for v, n in axes.items()}, self.box))
        spans = {v: (0, n) for v, n in axes.items()}
        found = over_the_row(store, factors, spans, self.box)
        if found is not None:
            return self.polynomial(found)
        summand = ONE
        for factor in factors:
            summand = multiply(store, summand, self.factor(factor), self.box)
        return sum_over(store, summand, spans, self.box)

    def _of(
        self, arguments: tuple[Polynomial, ...], op: str, e: Exponent, rounds: int = 0, of: Atom | None = None
    ) -> Polynomial:
        """A power of a function of these arguments, which an atom is ``of`` others."""
        store = self.store
        may_miss = op != "log" and e > 0  # what is found nowhere may be 0
        found = self._one_hot(arguments, partial=may_miss) if op != "polynomial" or e != 1 else None
        if found is None or store.effort.exceeds("looked_up_depth", rounds + 1):
            return self._applied(arguments, op, e, of)
        store.fired["lifted-look-ups"] += 1
        inner = self._of(tuple(self._chosen(x, found) for x in arguments), op, e, rounds + 1, of)
        product = multiply(store, (Term((found.guard,), 1),), inner, self.box)
        there = sum_over(store, product, {found.axis: (0, found.size)}, self.box)
        if found.sure:
            return there
        some = sum_over(store, (Term((found.guard,), 1),), {found.axis: (0, found.size)}, self.box)
        left = self._of(tuple(self._chosen(x, found, nowhere=True) for x in arguments), op, e, rounds + 1, of)
        return add(store, there, multiply(store, add(store, ONE, scale(some, -1)), left, self.box))

    def _maximum(self, members: Polynomial, index: Index, e: Exponent) -> Polynomial:
        """``max_u (sum_v g(v) K(u, v)) = sum_v g(v) max_u K(u, v)``, where g does not depend on u: so a set
        ``sum_u {sum_v g(v) K(u, v)}`` is ``sum_v g(v) sum_u {K(u, v)}``."""
        return self._of((self._argument(self._at(members, index)),), "max", e)

    def _at(self, x: Polynomial, index: Index) -> Polynomial:
        replace = dict(enumerate(index))
        return polynomial(self.store, [(Term(substitute_factors(m, replace), c)) for m, c in x])

    def _inverted(self, difference: Polynomial) -> Polynomial:
        """``[Q_u == v]`` as ``[O_v == u]``, where Q is the order of the positions O of an ascending order of a whole
        row:
        what sorts a permutation is its inverse. Other comparisons as they are."""
        store = self.store
        rest, parts, offset = comparisons.split_affine(difference)
        factor = sole_factor(scale(rest, 1 if rest and rest[0].coefficient > 0 else -1)) if len(rest) == 1 else None
        if (
            factor is None
            or store.atoms[factor.atom].op not in _ORDERS
            or any(q.denominator != 1 for q in parts.values())
        ):
            return difference
        sign = 1 if rest[0].coefficient > 0 else -1
        place, row = (pinned(store, x, dict(enumerate(factor.at))) for x in store.atoms[factor.atom].arguments)
        (axis,) = store.fresh_axes(1)
        element = element_of(store, row, axis)
        if element is None or store.atoms[factor.atom].attributes[0]:
            return difference
        value, length = element
        position = sole_factor(value)
        if position is None or store.atoms[position.atom].op not in _ORDERS or position.exponent != 1:
            return difference
        if positions_of(store, value) != length:
            return difference
        own, _ = (pinned(store, x, dict(enumerate(position.at))) for x in store.atoms[position.atom].arguments)
        if own != iota(variable(axis)) or any(
            axis in {v for c in f.at for v, _ in c.parts}
            for f in factors_of(pinned(store, store.atoms[position.atom].arguments[1], dict(enumerate(position.at))))
        ):
            return difference
        where = coordinate({v: -sign * int(q) for v, q in parts.items()}, -sign * int(offset))  # v: Q_u = v
        span = interval(where, self.box, ())
        if offset.denominator != 1 or span is None or span[0] < 0 or span[1] >= length:
            return difference
        store.fired["inverse-orders"] += 1
        inverse = substitute_factors((position,), {axis: where})[0]
        return add(store, (Term((inverse,), 1),), scale(place, -1))

    def _distinct(self, difference: Polynomial) -> Polynomial:
        """``[O_u == O_v]`` as ``[u == v]``: an order has every position of its row once, ties or not, and u and v are
        places in it. Other comparisons as they are."""
        store = self.store
        rest, parts, offset = comparisons.split_affine(difference)
        if len(rest) != 2 or parts or offset or rest[0].coefficient != -rest[1].coefficient:
            return difference
        one, other = (sole_factor((Term(term.monomial, 1),)) for term in rest)
        if one is None or other is None or one.exponent != 1 or other.exponent != 1:
            return difference
        first, second = store.atoms[one.atom], store.atoms[other.atom]
        if first.op not in _ORDERS or first.op != second.op or first.attributes != second.attributes:
            return difference
        (u, row), (v, same) = (
            [pinned(store, x, dict(enumerate(factor.at))) for x in store.atoms[factor.atom].arguments]
            for factor in (one, other)
        )
        length = comparisons.positions_of(store, (Term((one,), 1),))
        if row != same or length is None or not all(self._is_place(x, length) for x in (u, v)):
            return difference
        store.fired["inverse-orders"] += 1
        return add(store, u, scale(v, -1))

    def _digits(self, difference: Polynomial) -> tuple[Polynomial, Polynomial] | None:
        """``a`` and ``r`` of ``g a + r``, where ``a`` is made of places in orders and ``|r| < g``: since r is a
        multiple of g only if it is 0, the sum is 0 exactly where both are (a slot of a cache is a block and a place in
        it)."""
        store = self.store
        rest, parts, offset = comparisons.split_affine(difference)
        if not rest or not (parts or offset) or offset.denominator != 1:
            return None
        if any(comparisons.positions_of(store, (Term(term.monomial, 1),)) is None for term in rest):
            return None
        numbers = [Fraction(term.coefficient) for term in rest]
        if any(q.denominator != 1 for q in (*numbers, *parts.values())):
            return None
        size = gcd(*(int(q) for q in numbers))
        low = coordinate({v: int(q) for v, q in parts.items()}, int(offset))
        span = interval(low, self.box, ())
        if span is None or size == 1 or max(-span[0], span[1]) >= size:
            return None
        store.fired["inverse-orders"] += 1
        return scale(rest, Fraction(1, size)), iota(low)

    def _is_place(self, x: Polynomial, length: int) -> bool:
        """True if a value is known to be a whole number from 0 to less than a length."""
        rest, parts, offset = comparisons.split_affine(x)
        if rest or offset.denominator != 1 or any(q.denominator != 1 for q in parts.values()):
            return False
        span = interval(coordinate({v: int(q) for v, q in parts.items()}, int(offset)), self.box, ())
        return span is not None and span[0] >= 0 and span[1] < length

    def _applied(self, arguments: tuple[Polynomial, ...], op: str, e: Exponent, of: Atom | None) -> Polynomial:
        store = self.store
        if of is not None:
            if op != "pair" and not all(_is_member(store, term, "pair") for term in arguments[1]):
                raise Unsupported("an order of what is looked up at several places")
            number, where = store.apply(op, of.attributes, arguments, of.facts)
            value = single(number, where)
        elif op == "polynomial":
            value = arguments[0]
        elif op == "exp":
            value = powers.exponential(store, arguments[0])
        elif op == "log":
            value = powers.logarithm(store, arguments[0])
        elif op in ("less", "equal"):
            value = comparisons.compare(store, op, arguments[0], ZERO, self.box, oriented=True)
        elif op == "max":
            if not all(_is_member(store, term, "element") for term in arguments[0]):
                raise Unsupported("a maximum of what is looked up at several places")
            value = powers.maximum_of(store, arguments[0])
        elif op == "element":
            value = powers.set_of(store, arguments[0], {})
        else:
            value = powers.function(store, op, arguments)
        return self._power(value, e)

    def _one_hot(self, arguments: tuple[Polynomial, ...], *, partial: bool = False) -> _OneHot | None:
        """A guard of a sum in the arguments that is 1 at exactly one place; or, if ``partial``, at most at one."""
        store = self.store
        perhaps: _OneHot | None = None
        for factor in self._terms(arguments):
            atom = store.atoms[factor.atom]
            if atom.op != "sum" or not any(_chooses(store, f) for f in atom.summand):
                continue
            factors, axes = self._with_fresh_axes(factor)
            for axis, size in axes.items():
                for guard in factors:
                    if not self._of_one_axis(guard, axis, axes):
                        continue
                    if self._exactly_once(guard, axis, size):
                        return _OneHot(guard, axis, size)
                    if partial and perhaps is None and self._at_most_once(guard, axis):
                        perhaps = _OneHot(guard, axis, size, sure=False)
        return perhaps

    def _terms(self, arguments: Sequence[Polynomial]) -> Iterator[Factor]:
        """The factors of the arguments, and of sums that are factors of them."""
        for factor in factors_of(*arguments):
            yield factor
            atom = self.store.atoms[factor.atom]
            if atom.op == "polynomial":
                yield from self._terms([self._at(x, factor.at) for x in atom.arguments])

    def _of_one_axis(self, guard: Factor, axis: int, axes: Mapping[int, int]) -> bool:
        """True for an equality in which an axis occurs, and none of the others."""
        own = {v for c in guard.at for v, _ in c.parts}
        return _chooses(self.store, guard) and axis in own and not own & (axes.keys() - {axis})

    def _at_most_once(self, guard: Factor, axis: int) -> bool:
        """True if a guard holds at no more than one place of an axis: an equality of a multiple of the place with
        something that does not depend on it."""
        known = comparisons.comparison(self.store, guard)
        if known is None or not dict(known.affine.parts).get(axis):
            return False
        return axis not in {v for f in factors_of(known.rest) for c in f.at for v, _ in c.parts}

    def _exactly_once(self, guard: Factor, axis: int, size: int) -> bool:
        """True if a guard holds at exactly one place of an axis."""
        store = self.store
        bound = substitute_factors((guard,), {axis: variable(-1)})[0]
        box = {**self.box, axis: (0, size)}
        return store.covered(bound, size, self.box) or permuted(store, guard, axis, size, box)

    def _with_fresh_axes(self, factor: Factor) -> tuple[list[Factor], dict[int, int]]:
        """The factors of a sum's summand with its bound variables as fresh axes, and these with their sizes."""
        atom = self.store.atoms[factor.atom]
        replace: dict[int, Coordinate] = dict(enumerate(factor.at))
        axes: dict[int, int] = {}
        for j, (n, axis) in enumerate(zip(atom.ranges, self.store.fresh_axes(len(atom.ranges)), strict=True)):
            replace[-1 - j] = variable(axis)
            axes[axis] = n
            self.box[axis] = (0, n)
        return [Factor(b, e, substitute_index(inner, replace)) for b, e, inner in atom.summand], axes

    def _chosen(self, x: Polynomial, one: _OneHot, *, nowhere: bool = False) -> Polynomial:
        """A Polynomial where the guard holds at the axis: every sum over it is its summand there; or where it holds
        ``nowhere``, and these are 0."""
        store = self.store
        parts: list[Polynomial] = []
        for m, c in x:
            product = constant(c)
            for factor in m:
                product = multiply(store, product, self._summand(factor, one, nowhere), self.box)
            parts.append(product)
        return add(store, *parts)

    def _summand(self, factor: Factor, one: _OneHot, nowhere: bool = False) -> Polynomial:
        store = self.store
        if store.atoms[factor.atom].op == "polynomial":
            (inner,) = (self._at(x, factor.at) for x in store.atoms[factor.atom].arguments)
            chosen = self._chosen(inner, one, nowhere=nowhere)
            return (Term((factor,), 1),) if chosen == inner else self._power(chosen, factor.exponent)
        if store.atoms[factor.atom].op == "sum" and factor.exponent.denominator == 1 and factor.exponent > 0:
            factors, axes = self._with_fresh_axes(factor)
            for axis, size in axes.items():
                guard, place = self._same_place(factors, axis, size, one)
                if guard is None:
                    continue
                if nowhere:
                    if place == variable(one.axis) and size == one.size:  # else there may be places that are not one's
                        return ZERO
                    continue
                rest = [_moved(f, axis, place) for f in factors if f is not guard]
                value = polynomial(store, [monomial(store, 1, rest)]) if rest else ONE
                left = {v: (0, n) for v, n in axes.items() if v != axis}
                value = sum_over(store, value, left, self.box) if left else value
                return self._power(value, factor.exponent)
        m, c = monomial(store, 1, (factor,))
        return polynomial(store, (Term(m, c),))

    def _same_place(
        self, factors: Sequence[Factor], axis: int, size: int, one: _OneHot
    ) -> tuple[Factor | None, Coordinate]:
        """A guard that holds at one place of an axis, and that place by the one at which the other guard holds: both
        compare the same with a position, and every place of the one is one of the other."""
        same = variable(one.axis)
        for guard in factors:
            if size == one.size and _moved(guard, axis, same) == one.guard:
                return guard, same
            if not _chooses(self.store, guard):
                continue
            mine, known = (comparisons.comparison(self.store, f) for f in (guard, one.guard))
            if mine is None or known is None or mine.rest != known.rest:
                continue
            parts, others = dict(mine.affine.parts), dict(known.affine.parts)
            stride = parts.pop(axis, 0)
            if abs(stride) != 1 or axis in others:
                continue
            for v, s in parts.items():  # stride axis = what the other is, less the rest of this
                others[v] = others.get(v, 0) - s
            offset = known.affine.offset - mine.affine.offset
            place = coordinate({v: stride * s for v, s in others.items() if s}, stride * offset)
            span = interval(place, self.box, ())
            if span is not None and never_below(span[0], 0) and never_below(size - 1, span[1]):
                return guard, place
        return None, same


def _solved(store: Store, rest: Polynomial, affine: Coordinate) -> tuple[Factor, Coordinate] | None:
    """A position in a row and the place that it is at, where ``rest + affine`` is 0."""
    if len(rest) != 1 or abs(rest[0].coefficient) != 1 or len(rest[0].monomial) != 1:
        return None
    (factor,), c = rest[0]
    if factor.exponent != 1 or positions_of(store, (Term((factor,), 1),)) is None:
        return None
    sign = -int(c)
    return factor, coordinate({v: sign * s for v, s in affine.parts}, sign * affine.offset)


def _is_member(store: Store, term: Term, op: str) -> bool:
    """True for a value as a member of a set, or as an element of a row, and for a sum of such."""
    if len(term.monomial) != 1 or term.monomial[0].exponent != 1:
        return False
    atom = store.atoms[term.monomial[0].atom]
    if atom.op == "sum" and len(atom.summand) == 1 and atom.summand[0].exponent == 1:
        atom = store.atoms[atom.summand[0].atom]
    return atom.op == op


def _moved(factor: Factor, axis: int, to: Coordinate) -> Factor:
    at: Index = substitute_index(factor.at, {axis: to})
    return factor._replace(at=at)
