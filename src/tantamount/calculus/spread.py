"""Variances are not negative: ``c sum_a f(a)^2 - d (sum_a f(a))^2 >= 0`` for ``0 <= d n <= c``, by Cauchy and
Schwarz."""

from __future__ import annotations

from fractions import Fraction

from tantamount.calculus.affine import Coordinate, substitute_index, variable
from tantamount.calculus.atoms import Store
from tantamount.calculus.polynomials import add, multiply, polynomial, scale, sum_over
from tantamount.calculus.products import is_nonnegative, monomial
from tantamount.calculus.terms import Factor, Polynomial, Ranges, Term
from tantamount.errors import Unsupported
from tantamount.sizes.symbolic import is_size

__all__ = ["is_spread"]


def is_spread(store: Store, x: Polynomial, box: Ranges = None) -> bool:
    """True if a Polynomial is shown to be a mean of squares less the square of a mean, times and plus what is not
    negative."""
    if len(x) < 2 or any(is_size(c) for _, c in x):
        return False
    if not any(c > 0 and _squared_sum(store, factor) is not None for m, c in x for factor in m):
        return False
    if store.effort.exceeds("spread_terms", len(x)):
        return False
    left = x
    for m, c in x:
        if c <= 0:
            continue
        for factor in m:
            found = _squared_sum(store, factor)
            rest = tuple(f for f in m if f != factor)
            if found is None or not is_nonnegative(store, rest):
                continue
            total, count = found
            try:
                square = multiply(store, (Term(rest, 1),), multiply(store, total, total), box)
            except Unsupported:
                continue
            share = _share(left, square)
            if share is None or not 0 < share * count <= Fraction(c):
                continue
            left = add(store, left, scale(square, share), scale((Term(m, c),), -1))
            break
    return left != x and all(c > 0 and is_nonnegative(store, m) for m, c in left)


def _share(x: Polynomial, square: Polynomial) -> Fraction | None:
    """The d for which x has the terms ``-d square``."""
    terms = dict(x)
    if not square or any(m not in terms for m, _ in square):
        return None
    shares = {-Fraction(terms[m]) / c for m, c in square}
    return shares.pop() if len(shares) == 1 else None


def _squared_sum(store: Store, factor: Factor) -> tuple[Polynomial, int] | None:
    """The sum of f over the same places, and how many these are, for a factor that is a sum of ``f ** 2``."""
    atom = store.atoms[factor.atom]
    if atom.op != "sum" or factor.exponent != 1:
        return None
    replace: dict[int, Coordinate] = dict(enumerate(factor.at))
    axes: dict[int, tuple[int, int]] = {}
    count = 1
    for j, (n, axis) in enumerate(zip(atom.ranges, store.fresh_axes(len(atom.ranges)), strict=True)):
        replace[-1 - j] = variable(axis)
        axes[axis] = (0, n)
        count *= n
    roots: list[Factor] = []
    for b, e, inner in atom.summand:
        if e.denominator != 1 or e % 2 or e < 0:
            if not store.atoms[b].facts.boolean or e != 1:
                return None
            e = 2  # a boolean is its own square
        roots.append(Factor(b, e // 2, substitute_index(inner, replace)))
    value = polynomial(store, [monomial(store, 1, roots)])
    return sum_over(store, value, axes), count
