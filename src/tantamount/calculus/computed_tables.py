"""Tables of functions of positions: what is looked up in one is the function of the position that was asked for.

``SUM_{v < n} f(v) [t + v == 0] = f(-t) SUM_{v < n} [t + v == 0]``: the caches of sines and cosines that rotary
embeddings are read from are the sines and cosines of the positions. The functions are finite everywhere, and positions
occur in them as numbers only, so that nothing becomes undefined where t is out of range and both sides are 0.
"""

from __future__ import annotations

from collections.abc import Iterable

from tantamount.calculus.affine import Coordinate, coordinate, variable
from tantamount.calculus.atoms import Store
from tantamount.calculus.comparisons import comparison
from tantamount.calculus.naming import bound_variables
from tantamount.calculus.polynomials import add, constant, iota, multiply, scale
from tantamount.calculus.products import exact, substitute_factors
from tantamount.calculus.rebuild import Rebuild
from tantamount.calculus.terms import IOTA, Factor, Flat, Polynomial, Ranges, factors_of
from tantamount.errors import Unsupported

__all__ = ["computed"]

_FINITE = frozenset({"exp", "sin", "cos", "tanh", "erf", "atan"})


def computed(store: Store, flat: Flat, box: Ranges) -> list[Flat] | None:
    """The flats without a bound variable in functions that only count it, where an equality says which number it is;
    ``None`` if there is none."""
    if not any(store.atoms[f.atom].op in _FINITE for f in flat.factors):
        return None
    for guard in flat.factors:
        if guard.exponent != 1 or store.atoms[guard.atom].op != "equal":
            continue
        for v in bound_variables(guard):
            found = _told(store, flat, guard, v, box)
            if found is not None:
                return found
    return None


def _told(store: Store, flat: Flat, guard: Factor, v: int, box: Ranges) -> list[Flat] | None:
    others = [f for f in flat.factors if f is not guard and v in bound_variables(f)]
    if not others or any(store.atoms[f.atom].op not in _FINITE for f in others):
        return None
    fresh = store.fresh_axes(len(flat.ranges))
    away: dict[int, Coordinate] = {-1 - j: variable(axis) for j, axis in enumerate(fresh)}
    back: dict[int, Coordinate] = {axis: variable(-1 - j) for j, axis in enumerate(fresh)}
    axis = fresh[-1 - v]
    (named,) = substitute_factors((guard,), away)
    known = comparison(store, named)
    stride = 0 if known is None else dict(known.affine.parts).get(axis, 0)
    if known is None or not known.rest or abs(stride) != 1 or _mention(factors_of(known.rest), axis):
        return None
    left = coordinate({w: s for w, s in known.affine.parts if w != axis}, known.affine.offset)
    place = scale(add(store, known.rest, iota(left)), -stride)  # -stride = -1 / stride
    product = constant(flat.coefficient)
    try:
        put = _Put(store, axis, place)
        for f in substitute_factors(tuple(others), away):
            product = multiply(store, product, put.factor(f))
    except Unsupported:
        return None
    store.fired["computed-tables"] += 1
    rest = tuple(f for f in flat.factors if f not in others)
    return [Flat(exact(c), (*rest, *substitute_factors(m, back)), flat.ranges) for m, c in product]


def _mention(factors: Iterable[Factor], axis: int) -> bool:
    return any(w == axis for f in factors for c in f.at for w, _ in c.parts)


class _Put(Rebuild):
    """Computes factors anew with a number in place of an axis that they count. Raises :class:`Unsupported` where the
    axis is a place in a tensor, or something else than a finite function is taken of it."""

    def __init__(self, store: Store, axis: int, place: Polynomial) -> None:
        super().__init__(store)
        self.axis, self.place = axis, place
        self.shared = False

    def _concerns(self, factor: Factor) -> bool:
        return _mention([factor], self.axis)

    def _compute(self, factor: Factor) -> Polynomial:
        store = self.store
        a, e, index = store.follow(factor)
        if store.atoms[a].op != "exp" and (e.denominator != 1 or e < 0):
            raise Unsupported("a quotient by a position")
        if a == IOTA:
            parts = dict(index[0].parts)
            stride = parts.pop(self.axis)
            number = add(store, scale(self.place, stride), iota(coordinate(parts, index[0].offset)))
            return self._power(number, e)
        if store.atoms[a].op not in (*_FINITE, "polynomial", "sum"):
            raise Unsupported("a place in a tensor")
        return super()._compute(factor)
