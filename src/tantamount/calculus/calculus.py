"""The calculus: the table of atoms together with the rules that need each other.

Closing a sum simplifies it by its conditions, that computes factors anew, and computing anew closes sums. The modules
of these rules import downwards only; what one of them needs of those above it is a method of :class:`Store`, which is
implemented here.
"""

from __future__ import annotations

from collections.abc import Mapping

from tantamount.calculus import comparisons, computed_tables, guards, ignored_labels, index_ranges, lifting
from tantamount.calculus.affine import Index
from tantamount.calculus.atoms import Store
from tantamount.calculus.rebuild import Rebuild
from tantamount.calculus.terms import Factor, Factors, Flat, Monomial, Polynomial, Ranges, Rational

__all__ = ["Calculus"]


class Calculus(Store):
    """The table of atoms of one proof, and the rules that rewrite products over it."""

    def simplify(self, flat: Flat, box: Ranges) -> list[Flat] | None:
        found = guards.simplify(self, flat, box)
        return found if found is not None else computed_tables.computed(self, flat, box)

    def absorb(self, m: Monomial, c: Rational, box: Ranges) -> Polynomial | None:
        return guards.absorb(self, m, c, box)

    def covered(self, factor: Factor, size: int, box: Ranges) -> bool:
        if comparisons.covered(self, factor, size, box):
            return True
        # by cases only where two polynomials are compared: elsewhere a sum that is 1 on one side would hide what it is
        # the sum of, and the masked gradients of a vocabulary shard would have nothing in common with the whole's
        return isinstance(box, Mapping) and index_ranges.covered(self, factor, size, box)

    def missed(self, factor: Factor, size: int, box: Ranges) -> bool:
        return isinstance(box, Mapping) and index_ranges.missed(self, factor, size, box)

    def permuted(self, factor: Factor, v: int, size: int, box: Ranges, ranges: tuple[int, ...]) -> bool:
        return comparisons.permuted(self, factor, v, size, box, ranges)

    def found_or_ignored(self, factor: Factor, size: int, box: Ranges) -> Factors | None:
        return ignored_labels.found_or_ignored(self, factor, size, box)

    def at_fixed_positions(self, x: Polynomial) -> Polynomial:
        return Rebuild(self, positions=True).polynomial(x)

    def under(
        self, guard: Factor, factor: Factor, box: Mapping[int, tuple[int, int]], ranges: tuple[int, ...]
    ) -> Polynomial | None:
        return lifting.under(self, guard, factor, box, ranges)

    def assuming(self, known: Mapping[tuple[int, Index], int], factor: Factor) -> Polynomial:
        return Rebuild(self, known=known).factor(factor)
