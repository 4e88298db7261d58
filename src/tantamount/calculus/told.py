"""Quantities put in wherever they are mentioned: a position in a row at a place, an element at a value."""

from __future__ import annotations

from tantamount.calculus import comparisons
from tantamount.calculus.affine import Index, coordinate
from tantamount.calculus.atoms import Store
from tantamount.calculus.comparisons import interval
from tantamount.calculus.polynomials import iota, pinned
from tantamount.calculus.rebuild import Rebuild
from tantamount.calculus.terms import Factor, Polynomial, factors_of, sole_number

__all__ = ["Told"]


def _block_of(x: Polynomial, size: object, box: dict[int, tuple[int, int]]) -> Polynomial | None:
    """``floor(x / size)`` for positions ``size i + j + c`` with j in a range of less than ``size``, which begins at a
    multiple of it."""
    rest, parts, offset = comparisons.split_affine(x)
    if rest or not isinstance(size, int) or size < 1 or any(q.denominator != 1 for q in (offset, *parts.values())):
        return None
    outer = {v: int(q) // size for v, q in parts.items() if not q % size}
    inner = coordinate({v: int(q) for v, q in parts.items() if q % size}, int(offset))
    span = interval(inner, box, ())
    if span is None or span[0] // size != span[1] // size:
        return None
    return iota(coordinate(outer, span[0] // size))


class Told(Rebuild):
    """Computes what mentions a quantity anew, with its value: a position in a row with its place, an element in order
    with the one that it is. ``changed``: something did."""

    def __init__(self, store: Store, known: Factor, value: Polynomial, *, box: dict[int, tuple[int, int]]) -> None:
        super().__init__(store, box=box)
        self.told, self.value = known, value
        self.changed = False
        self.inside: dict[int, bool] = {}

    def _concerns(self, factor: Factor) -> bool:
        return self._mentions_told(factor.atom)

    def _mentions_told(self, number: int) -> bool:
        found = self.inside.get(number)
        if found is None:
            found = self.inside[number] = number == self.told.atom or any(
                self._mentions_told(f.atom) for f in factors_of(*self.store.atoms[number].arguments)
            )
        return found

    def _compute(self, factor: Factor) -> Polynomial:
        if factor.atom == self.told.atom and factor.at == self.told.at:
            self.changed = True
            return self._power(self.value, factor.exponent)
        if self.store.atoms[factor.atom].op == "floor_divide":
            arguments = [
                self._argument(pinned(self.store, x, dict(enumerate(factor.at))))
                for x in self.store.atoms[factor.atom].arguments
            ]
            block = _block_of(arguments[0], sole_number(arguments[1]), self.box)
            if block is not None:
                return self._power(block, factor.exponent)
        return super()._compute(factor)

    def _sum(self, a: int, index: Index) -> Polynomial:
        self.everything = True  # ranges of axes are known while sums are computed anew
        try:
            return super()._sum(a, index)
        finally:
            self.everything = False
