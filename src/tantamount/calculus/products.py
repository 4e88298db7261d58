"""Products of powers of atoms: monomials and their normalisation."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import Any

from tantamount.calculus.affine import Coordinate, Index, fixed, raw, substitute_index
from tantamount.calculus.atoms import Store
from tantamount.calculus.terms import IOTA, Exponent, Factor, Factors, Monomial, Polynomial, Rational, Term
from tantamount.sizes.symbolic import factored, is_size

__all__ = [
    "affine_part",
    "exact",
    "is_boolean",
    "is_integer",
    "is_nonnegative",
    "is_positive",
    "is_symbolic_number",
    "known_nonnegative",
    "known_positive",
    "leading_sign",
    "monomial",
    "size_term",
    "substitute_factors",
    "substitute_polynomial",
]


def exact(value: Rational) -> Rational:
    """Integers as ``int``, so that equal numbers print and sort alike."""
    return value.numerator if value.denominator == 1 else value


def monomial(store: Store, coefficient: Rational, factors: Iterable[Factor]) -> Term:
    """``coefficient * product`` with equal factors combined and numbers pulled into the coefficient.

    Cancelling ``x * x**-1`` forgets that x must not be 0; the caller recorded that obligation when it divided."""
    total: dict[tuple[int, Index], Exponent] = {}
    numbers: list[tuple[Any, int]] = []  # symbolic ones
    for factor in factors:
        if store.redirects:
            factor = store.follow(factor)
        a, e, index = factor
        if a == IOTA and isinstance(e, int) and is_symbolic_number(factor):
            numbers.append((index[0].offset, e))
            continue
        key = (a, index)
        if key in total:
            # g * g^-1 is g for a boolean g: where it is 0, the side that divides by it is not taken
            total[key] = max(total[key], e) if store.atoms[a].facts.boolean else total[key] + e
        else:
            total[key] = e
    out: list[Factor] = []
    if numbers:
        sizes, number = size_term(numbers)
        out.extend(sizes)
        coefficient = coefficient * number
    for (a, index), e in total.items():
        if not e:
            continue
        if e.denominator == 1:
            e = e.numerator
        atom = store.atoms[a]
        if a == IOTA and not index[0].parts and isinstance(e, int) and (index[0].offset or e > 0):
            if is_size(index[0].offset):  # roots of a size that make a whole power together
                return monomial(store, coefficient, [*out, Factor(a, e, index), *_later(total, a, index)])
            coefficient = coefficient * Fraction(index[0].offset) ** e
            continue
        if atom.facts.boolean and e > 0:
            e = 1
        elif atom.attributes and atom.attributes[0] == "prime" and not 0 < e < 1:
            whole = e.numerator // e.denominator
            coefficient = coefficient * Fraction(atom.attributes[1]) ** whole
            e = exact(e - whole)
            if not e:
                continue
        elif atom.op == "polynomial" and isinstance(e, int) and len(atom.arguments[0]) == 1:
            # a root of one term, raised to a whole power again
            ((inner, c),) = atom.arguments[0]
            powered = [Factor(b, d * e, i) for b, d, i in substitute_factors(inner, dict(enumerate(index)))]
            return monomial(store, coefficient * Fraction(c) ** e, [*out, *powered, *_later(total, a, index)])
        out.append(raw(Factor, (a, e, index)))
    out.sort()
    return Term(tuple(out), exact(coefficient))


def size_term(numbers: Iterable[tuple[object, int]]) -> Term:
    """A product of powers of symbolic sizes as a term: a size is the atom ``iota`` at that position, wherever its
    symbols are. Of each power there is one, so that no two of them are ever put in order."""
    coefficient, powers = factored(numbers)
    return Term(tuple(Factor(IOTA, e, (fixed(size),)) for size, e in powers), coefficient)


def is_symbolic_number(factor: Factor) -> bool:
    """True if a factor is a number that depends on symbols (kept as a position that no axis moves)."""
    return factor.atom == IOTA and not factor.at[0].parts and is_size(factor.at[0].offset)


def affine_part(m: Monomial, c: Rational) -> tuple[list[tuple[int, Rational]], Rational] | None:
    """The strides and the offset of ``c * m``, if that is affine in the positions (symbolic sizes are numbers)."""
    position: Coordinate | None = None
    number = c
    for a, e, index in m:
        if a != IOTA or not isinstance(e, int):
            return None
        (at,) = index
        if at.parts:
            if e != 1 or position is not None:
                return None
            position = at
        elif is_size(at.offset) and e > 0:
            number = number * at.offset**e
        else:
            return None
    if position is None:
        return [], number
    return [(v, number * s) for v, s in position.parts], number * position.offset


def leading_sign(x: Polynomial) -> int:
    """1 or -1: the sign of the first terms of one kind (the same powers of atoms, wherever) that do not add up to 0."""
    total: Rational = 0
    head: object = None
    for m, c in x:
        kind = tuple((a, e) for a, e, _ in m)
        if kind != head and total:
            break
        head = kind
        total += c
    return -1 if total < 0 else 1


def _later(total: Mapping[tuple[int, Index], Exponent], a: int, index: Index) -> list[Factor]:
    """The factors that follow one in iteration order."""
    items = [Factor(b, e, i) for (b, i), e in total.items()]
    position = next(k for k, (b, _, i) in enumerate(items) if b == a and i == index)
    return items[position + 1 :]


def substitute_factors(factors: Factors, replace: Mapping[int, Coordinate]) -> Factors:
    """The factors with variables replaced; not normalised."""
    return tuple([raw(Factor, (a, e, substitute_index(index, replace))) for a, e, index in factors])


def substitute_polynomial(polynomial: Polynomial, replace: Mapping[int, Coordinate]) -> Polynomial:
    """The terms with variables replaced; not normalised."""
    return tuple([raw(Term, (substitute_factors(m, replace), c)) for m, c in polynomial])


def is_positive(store: Store, factors: Factors) -> bool:
    """True if the product is > 0 wherever it is defined."""
    return all(_even_nonzero(f.exponent) or known_positive(store, f) for f in factors)


def known_positive(store: Store, factor: Factor) -> bool:
    """True if an atom is > 0 at an index, wherever it is defined. A symbolic size counts elements: it is."""
    a, _, index = factor
    return store.atoms[a].facts.positive or (
        a == IOTA and not index[0].parts and is_size(index[0].offset) and index[0].offset > 0
    )


def known_nonnegative(store: Store, factor: Factor) -> bool:
    """True if an atom is >= 0 at an index, wherever it is defined."""
    return store.atoms[factor.atom].facts.nonnegative or known_positive(store, factor)


def _even_nonzero(e: Exponent) -> bool:
    """``x ** e > 0`` wherever defined: negative even powers (x is not 0 there), and proper roots in denominators."""
    return e < 0 and (e.denominator > 1 or e.numerator % 2 == 0)


def is_nonnegative(store: Store, factors: Factors) -> bool:
    """True if the product is >= 0 wherever it is defined: even powers, proper roots, non-negative atoms."""
    return all(
        known_nonnegative(store, f) or f.exponent.denominator > 1 or f.exponent.numerator % 2 == 0 for f in factors
    )


def is_integer(store: Store, polynomial: Polynomial) -> bool:
    """True if every value is a whole number."""
    return all(
        c.denominator == 1 and all(e.denominator == 1 and e > 0 and store.atoms[a].facts.integer for a, e, _ in m)
        for m, c in polynomial
    )


def is_boolean(store: Store, polynomial: Polynomial) -> bool:
    """True if every value is 0 or 1: a product of booleans, or 1 minus one."""
    if not polynomial:
        return True
    if len(polynomial) == 1:
        return polynomial[0].coefficient == 1 and _boolean_product(store, polynomial[0].monomial)
    if len(polynomial) == 2:
        return (
            polynomial[0] == Term((), 1)
            and polynomial[1].coefficient == -1
            and _boolean_product(store, polynomial[1].monomial)
        )
    return False


def _boolean_product(store: Store, factors: Factors) -> bool:
    return all(e.denominator == 1 and e > 0 and store.atoms[a].facts.boolean for a, e, _ in factors)
