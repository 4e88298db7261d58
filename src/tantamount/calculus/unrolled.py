"""Short sums term by term, where what they are compared with reads the same tensor at single positions.

A loop that was unrolled reads ``k[0]``, ``k[1]``, ..., a scan or a product of matrices sums over ``k[b]``. Written out,
``sum[b<2] f(b) = f(0) + f(1)``, and in each term the masks, running sums and exponentials of the position are those of
a number.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product

from tantamount.calculus import powers
from tantamount.calculus.affine import Coordinate, Index, fixed, substitute, substitute_index, variable
from tantamount.calculus.atoms import Store
from tantamount.calculus.boxes import Box
from tantamount.calculus.cells import Anchor, places
from tantamount.calculus.comparisons import comparison
from tantamount.calculus.monotone import argument_of
from tantamount.calculus.polynomials import add, multiply, scale, sum_over
from tantamount.calculus.products import is_boolean, substitute_polynomial
from tantamount.calculus.rebuild import Rebuild, atoms_inside
from tantamount.calculus.terms import ONE, ZERO, Factor, Polynomial, Rational, Term, factors_of, sole_factor

__all__ = ["unrolled"]


def unrolled(
    store: Store, x: Polynomial, y: Polynomial, box: Box | Mapping[int, tuple[int, int]]
) -> tuple[Polynomial, Polynomial] | None:
    """Both Polynomials with the sums written out that read a leaf along a bound variable which is read at a fixed
    position elsewhere; ``None`` if there are none."""
    single = {anchor for side in (x, y) for anchor, place in _read(store, side) if not place.parts}
    if not single or not any(_runs_along(store, f.atom, single, set()) for f in factors_of(x, y)):
        return None
    if store.effort.exceeds("rewritten_atoms", atoms_inside(store, (*x, *y))):
        return None
    rebuild = _Unroll(store, single, box)
    out = rebuild.polynomial(x), rebuild.polynomial(y)
    if not rebuild.written_out:
        return None
    store.fired["unrolled-sums"] += 1
    return out


def _read(store: Store, x: Polynomial) -> Iterator[tuple[Anchor, Coordinate]]:
    """The places at which a Polynomial reads leaves, but for those along variables that are bound inside an atom."""
    for factor in factors_of(x):
        replace = dict(enumerate(factor.at))
        for anchor, place in places(store, factor.atom):
            yield anchor, substitute(place, replace)


def _along(store: Store, number: int, single: set[Anchor]) -> list[int]:
    """The bound variables of a sum (0 is the first) along which it reads one of these leaves."""
    atom = store.atoms[number]
    found: set[int] = set()
    for factor in atom.summand:
        replace = dict(enumerate(factor.at))
        for anchor, place in places(store, factor.atom):
            if anchor in single:
                found.update(-1 - v for v, _ in substitute(place, replace).parts if v < 0)
    return sorted(v for v in found if atom.ranges[v] > 1)


def _runs_along(store: Store, number: int, single: set[Anchor], seen: set[int]) -> bool:
    """True if an atom, at any depth, is a sum that would be written out."""
    if number in seen:
        return False
    seen.add(number)
    atom = store.atoms[number]
    if atom.op == "sum" and _along(store, number, single):
        return True
    return any(_runs_along(store, f.atom, single, seen) for f in factors_of(*atom.arguments))


class _Unroll(Rebuild):
    """Recomputes everything, sums that run along ``single`` term by term. ``written_out``: how many points of sums
    were."""

    bound = "unrolled_factors"

    def __init__(self, store: Store, single: set[Anchor], box: Box | Mapping[int, tuple[int, int]]) -> None:
        super().__init__(store, budget=store.effort.bounds.unrolled_factors, box=box)
        self.single = single
        self.written_out = 0

    def _compute(self, factor: Factor) -> Polynomial:
        """An exponential of sums that are written out is a product: terms of a sum could merge again."""
        store = self.store
        a, e, index = store.follow(factor)
        atom = store.atoms[a]
        booleans = self._booleans(Factor(a, 1, index)) if atom.op in ("less", "equal", "max") else None
        if booleans is not None:
            return self._power(booleans, e)
        if atom.op != "exp":
            return super()._compute(factor)
        out = ONE
        for m, c in substitute_polynomial(atom.arguments[0], dict(enumerate(index))):
            parts = [(Term(m, c),)]
            alone = m[0] if len(m) == 1 and m[0].exponent == 1 else None
            if alone is not None and store.atoms[alone.atom].op == "sum":
                parts = [scale(part, c) for part in self._points(alone.atom, alone.at)]
            else:
                parts = [self._argument(part) for part in parts]
            for part in parts:
                out = multiply(store, out, powers.exponential(store, scale(part, e)), self.box)
        return out

    def _booleans(self, factor: Factor) -> Polynomial | None:
        """A comparison of a count of booleans that is written out, or the greatest of them, as products of these: their
        sum could merge again. ``None`` for anything else."""
        store, atom = self.store, self.store.atoms[factor.atom]
        known = comparison(store, factor)
        if known is not None and known.affine.parts:
            return None
        counted = sole_factor(argument_of(store, factor) if known is None else known.rest)
        if counted is None or counted.exponent != 1 or store.atoms[counted.atom].op != "sum":
            return None
        points = self._points(counted.atom, counted.at)
        if known is None:
            elements = [sole_factor(point) for point in points]
            points = [
                () if one is None or store.atoms[one.atom].op != "element" else argument_of(store, one)
                for one in elements
            ]
        if len(points) < 2 or not all(point and is_boolean(store, point) for point in points):
            return None
        if store.effort.exceeds("counted_booleans", len(points)):
            return None
        if known is None:  # one of them is 1 unless all are 0
            return add(store, ONE, scale(self._holding("equal", 0, points), -1))
        return self._holding(atom.op, known.affine.offset, points)

    def _holding(self, op: str, offset: Rational, booleans: Sequence[Polynomial]) -> Polynomial:
        """``[sum of booleans + offset < 0]``, or ``== 0``, as a Polynomial in them."""
        greatest = offset + len(booleans)
        if op == "less" and (greatest < 0 or offset >= 0):
            return ONE if greatest < 0 else ZERO
        if op == "equal" and (not booleans or not offset <= 0 <= greatest):
            return ONE if offset == 0 and not booleans else ZERO
        first, *rest = booleans
        low, high = (self._holding(op, offset + k, rest) for k in range(2))
        return add(self.store, low, multiply(self.store, first, add(self.store, high, scale(low, -1)), self.box))

    def _sum(self, a: int, index: Index) -> Polynomial:
        return add(self.store, *self._points(a, index))

    def _points(self, a: int, index: Index) -> list[Polynomial]:
        """The terms that add up to a sum: itself, if it is not written out."""
        store, atom = self.store, self.store.atoms[a]
        along = _along(store, a, self.single)
        points = 1
        for v in along:
            points *= atom.ranges[v]
        if not along or store.effort.exceeds("unrolled_points", points):
            return [super()._sum(a, index)]
        self.written_out += points
        replace: dict[int, Coordinate] = dict(enumerate(index))
        axes: dict[int, tuple[int, int]] = {}
        rest = [j for j in range(len(atom.ranges)) if j not in along]
        for j, axis in zip(rest, store.fresh_axes(len(rest)), strict=True):
            replace[-1 - j] = variable(axis)
            axes[axis] = self.box[axis] = (0, atom.ranges[j])
        parts: list[Polynomial] = []
        for values in product(*(range(atom.ranges[v]) for v in along)):
            replace.update((-1 - v, fixed(value)) for v, value in zip(along, values, strict=True))
            summand = ONE
            for b, e, inner in atom.summand:
                summand = multiply(store, summand, self.factor(Factor(b, e, substitute_index(inner, replace))))
                if not summand:
                    break
            parts.append(sum_over(store, summand, axes, self.box) if axes else summand)
        return parts
