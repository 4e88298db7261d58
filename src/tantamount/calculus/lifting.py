"""Selections lifted out of functions: ``[o = p] f(sum_q [o = q] a_q) = [o = p] f(a_p)``.

A mixture of experts gathers the weights of the chosen expert and applies a function to what they give, or applies the
function to what every expert gives and selects. Under a guard that says which one is chosen, what the function is
applied to is that one's.
"""

from __future__ import annotations

from collections.abc import Mapping

from tantamount.calculus import comparisons
from tantamount.calculus.affine import Coordinate, coordinate, variable
from tantamount.calculus.atoms import Store
from tantamount.calculus.comparisons import Comparison, comparison
from tantamount.calculus.polynomials import iota, multiply, sum_over
from tantamount.calculus.products import substitute_factors
from tantamount.calculus.rebuild import Rebuild
from tantamount.calculus.terms import ONE, Factor, Polynomial, factors_of

__all__ = ["under"]


def under(
    store: Store, guard: Factor, factor: Factor, box: Mapping[int, tuple[int, int]], ranges: tuple[int, ...]
) -> Polynomial | None:
    """A factor computed anew where a guard ``[t + p == 0]`` holds: every other comparison of t in it becomes one of
    ``-p``. Bound variables, whose ranges are given, are variables of the result, too. ``None`` if nothing changes."""
    posing = store.fresh_axes(len(ranges))
    away: dict[int, Coordinate] = {-1 - j: variable(axis) for j, axis in enumerate(posing)}
    known = comparison(store, substitute_factors((guard,), away)[0])
    if known is None or known.op != "equal" or not known.rest:
        return None
    spans = {**box, **{axis: (0, n) for axis, n in zip(posing, ranges, strict=True)}}
    rebuild = _Under(store, guard.atom, known, spans)
    moved = substitute_factors((factor,), away)[0]
    result = rebuild.factor(moved)
    if not rebuild.changed:
        return None
    back: dict[int, Coordinate] = {axis: variable(-1 - j) for j, axis in enumerate(posing)}
    return tuple(term._replace(monomial=substitute_factors(term.monomial, back)) for term in result)


class _Under(Rebuild):
    """Computes what compares a known quantity anew. ``changed`` is true once a comparison of it was replaced."""

    def __init__(self, store: Store, atom: int, known: Comparison, box: Mapping[int, tuple[int, int]]) -> None:
        super().__init__(store, box=box)
        self.atom = atom
        self.guard = known
        places = [known.affine, *(c for f in factors_of(known.rest) for c in f.at)]
        self.outer = frozenset(v for parts, _ in places for v, _ in parts)
        self.changed = False

    def _concerns(self, factor: Factor) -> bool:
        return factor.atom == self.atom or self.atom in self.store.atoms[factor.atom].guards

    def _compute(self, factor: Factor) -> Polynomial:
        found = comparison(self.store, factor) if factor.atom == self.atom else None
        if found is None or found.rest != self.guard.rest:
            return super()._compute(factor)
        self.changed = True
        parts = dict(found.affine.parts)
        for v, s in self.guard.affine.parts:
            parts[v] = parts.get(v, 0) - s
        difference = coordinate(parts, found.affine.offset - self.guard.affine.offset)
        value = comparisons.compare(self.store, found.op, iota(difference), (), self.box)
        return self._power(value, factor.exponent)

    def _sum(self, a: int, index: tuple[Coordinate, ...]) -> Polynomial:
        factors, axes = self._opened(a, index)
        summand = ONE
        for factor in factors:
            summand = multiply(self.store, summand, self.factor(factor))
        return sum_over(self.store, summand, axes, self.box)
