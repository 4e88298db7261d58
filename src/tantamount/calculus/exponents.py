"""Exponentials against 1: ``exp(u) = 1`` where u = 0, ``exp(u) < 1`` where u < 0.

So where powers of different bases are compared with 1 (the bias corrections ``1 - 0.9^t`` and ``1 - 0.999^t`` of Adam),
one condition on the exponent is left: ``exp(t log(9/10))`` is 1 where t is 0, because ``log(9/10)`` is a number that is
not.
"""

from __future__ import annotations

from fractions import Fraction
from math import lcm

from tantamount.calculus.atoms import Store
from tantamount.calculus.polynomials import as_factors, polynomial, scale
from tantamount.calculus.products import substitute_polynomial
from tantamount.calculus.terms import Factor, Monomial, Polynomial, Term, sole_number

__all__ = ["exponent_of"]


def exponent_of(store: Store, m: Monomial) -> Polynomial | None:
    """A polynomial with the sign of u, wherever it is defined, for a product of exponentials ``exp(u)``; ``None`` for
    another product."""
    total: list[Term] = []
    for factor in m:
        atom = store.atoms[factor.atom]
        if atom.op != "exp":
            return None
        inside = substitute_polynomial(atom.arguments[0], dict(enumerate(factor.at)))
        total.extend(scale(inside, factor.exponent))
    u = polynomial(store, total)
    if not m or not u:
        return None
    store.fired["exponentials-against-one"] += 1
    c, factors = as_factors(store, u)
    sign = 1 if c > 0 else -1
    rest: list[Factor] = []
    for factor in factors:
        found = _sign(store, factor)
        if found is None:
            rest.append(factor)
        else:
            sign *= found
    return polynomial(store, [Term(tuple(sorted(rest)), sign)])


def _sign(store: Store, factor: Factor) -> int | None:
    """1 or -1 for a factor that is a number other than 0 and made of logarithms of numbers; ``None`` for others."""
    atom = store.atoms[factor.atom]
    if factor.exponent != 1:
        return None
    terms: Polynomial = atom.arguments[0] if atom.op == "polynomial" else (Term((factor,), 1),)
    logs: list[tuple[Fraction, Fraction]] = []
    for m, c in terms:
        number = _logarithm(store, m)
        if number is None:
            return None
        logs.append((Fraction(c), number))
    # sum c log q is positive where the product of q^c is above 1; whole exponents, for the sign is all that is asked
    scale_ = lcm(*(c.denominator for c, _ in logs))
    bits = sum(abs(int(c * scale_)) * (q.numerator.bit_length() + q.denominator.bit_length()) for c, q in logs)
    if store.effort.exceeds("number_bits", bits):
        return None
    product = Fraction(1)
    for c, q in logs:
        product *= q ** int(c * scale_)
    return 1 if product > 1 else -1 if product < 1 else None


def _logarithm(store: Store, m: Monomial) -> Fraction | None:
    """The positive number q of a product that is ``log(q)``."""
    if len(m) != 1 or m[0].exponent != 1 or store.atoms[m[0].atom].op != "log":
        return None
    number = sole_number(store.atoms[m[0].atom].arguments[0])
    if number is not None:
        return Fraction(number) if number > 0 else None
    return None
