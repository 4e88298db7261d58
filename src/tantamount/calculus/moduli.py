"""Remainders modulo ``2 ** bits``: the arithmetic of integers of 8 and 16 bits (``docs/design/narrow-integers.md``).

Only what an integer is modulo ``2 ** bits`` matters to its remainder. So inside a remainder coefficients are reduced,
and a remainder modulo the same or a greater power is as good as what it is the remainder of, wherever only sums and
products with integers lie between. Where the operand is known to lie in ``0 <= x < 2 ** bits`` there is no remainder.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

from tantamount.calculus.affine import Coordinate, substitute_index, variable
from tantamount.calculus.atoms import Store, ValueFacts
from tantamount.calculus.comparisons import bounds_of, split_affine
from tantamount.calculus.polynomials import add, affine_polynomial, constant, multiply, polynomial, sum_over
from tantamount.calculus.products import is_integer, monomial, substitute_polynomial
from tantamount.calculus.terms import ONE, Factor, Polynomial, Ranges, Rational, Term, factors_of, single
from tantamount.ops.functions import MODULI

__all__ = ["modulo", "without_remainders"]


def modulo(store: Store, bits: int, x: Polynomial, box: Ranges = None) -> Polynomial:
    """``x mod 2 ** bits``, from 0 on, of an integer x."""
    if _within(store, bits, x, box):
        store.fired["remainders"] += 1
        return x
    reduced = _reduced(_opened(store, bits, x), bits, store)
    if reduced != x:
        store.fired["remainders"] += 1
        if _within(store, bits, reduced, box):
            return reduced
    facts = ValueFacts(nonnegative=True, integer=True, span=(0, (1 << bits) - 1))
    atom, index = store.apply(f"modulo_{bits}", (), (reduced,), facts)
    return single(atom, index)


def without_remainders(store: Store, x: Polynomial) -> Polynomial:
    """x if its integers had no end: what its remainders are those of, in their place."""
    return _opened(store, 1, x)


def _within(store: Store, bits: int, x: Polynomial, box: Ranges) -> bool:
    found = bounds_of(store, x, box)
    return found is not None and found[0] >= 0 and found[1] < 1 << bits


# ------------------------------------------------------------------------------------------------ coefficients
def _nearest(c: Rational, bits: int) -> Rational:
    """The number nearest to 0 that is c modulo ``2 ** bits``; c itself where it is not whole."""
    if not _is_whole(c):
        return c
    half = 1 << (bits - 1)
    return half - (half - int(c)) % (1 << bits)


def _is_whole(c: object) -> bool:
    return isinstance(c, (int, Fraction)) and c.denominator == 1


def _reduced(x: Polynomial, bits: int, store: Store) -> Polynomial:
    """x with whole coefficients of integers, and what is added to them, modulo ``2 ** bits``."""
    rest, parts, offset = split_affine(x)
    integers = [term for term in rest if is_integer(store, (term._replace(coefficient=1),))]
    others = [term for term in rest if term not in integers]
    terms = [term._replace(coefficient=_nearest(term.coefficient, bits)) for term in integers]
    strides = {v: Fraction(_nearest(s, bits)) if _is_whole(s) else s for v, s in parts.items()}
    strides = {v: s for v, s in strides.items() if s}
    start = Fraction(int(offset) % (1 << bits)) if _is_whole(offset) else offset
    kept: Polynomial = tuple(term for term in (*terms, *others) if term.coefficient)
    return add(store, polynomial(store, kept), affine_polynomial(strides, start))


# ------------------------------------------------------------------------------------------------ remainders inside
def _opened(store: Store, bits: int, x: Polynomial) -> Polynomial:
    """A polynomial that is x modulo ``2 ** bits``: without remainders that sums and products of integers lead to."""
    if not any(_remainder_inside(store, bits, f.atom) for f in factors_of(x)) or not is_integer(store, x):
        return x
    parts: list[Polynomial] = []
    for m, c in x:
        term = constant(c)
        for factor in m:
            term = multiply(store, term, _of_factor(store, bits, factor))
        parts.append(term)
    return add(store, *parts)


def _remainder_inside(store: Store, bits: int, number: int) -> bool:
    key = (bits, number)
    found = store.memo.remainders_inside.get(key)
    if found is None:
        atom = store.atoms[number]
        found = MODULI.get(atom.op, 0) >= bits
        if atom.op in ("polynomial", "sum"):
            found = any(_remainder_inside(store, bits, f.atom) for f in factors_of(*atom.arguments))
        store.memo.remainders_inside[key] = found
    return found


def _of_factor(store: Store, bits: int, factor: Factor) -> Polynomial:
    a, e, index = store.follow(factor)
    atom = store.atoms[a]
    if not _remainder_inside(store, bits, a):
        return polynomial(store, [monomial(store, 1, [factor])])
    if atom.op == "sum":
        base = _of_sum(store, bits, factor)
    else:
        inside = substitute_polynomial(atom.arguments[0], dict(enumerate(index)))
        base = _opened(store, bits, polynomial(store, [monomial(store, c, m) for m, c in inside]))
    out = ONE
    for _ in range(int(e)):  # a whole number, as x is one of integers
        out = multiply(store, out, base)
    return out


def _of_sum(store: Store, bits: int, factor: Factor) -> Polynomial:
    """The summand is opened with its bound variables as axes, then summed over them again."""
    a, _, index = store.follow(factor)
    atom = store.atoms[a]
    if not is_integer(store, (Term(atom.summand, 1),)):
        return polynomial(store, [monomial(store, 1, [factor._replace(exponent=1)])])
    fresh = store.fresh_axes(len(atom.ranges))
    away: Mapping[int, Coordinate] = {
        **dict(enumerate(index)),
        **{-1 - j: variable(axis) for j, axis in enumerate(fresh)},
    }
    axes = {axis: (0, n) for axis, n in zip(fresh, atom.ranges, strict=True)}
    term = ONE
    for b, e, inner in atom.summand:
        term = multiply(store, term, _of_factor(store, bits, Factor(b, e, substitute_index(inner, away))))
    return sum_over(store, term, axes)
