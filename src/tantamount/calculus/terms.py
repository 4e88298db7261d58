"""Terms: what a normal form is made of, and how to write and read one.

A :data:`Polynomial` is a sum of terms, a :class:`Term` a coefficient times a product of factors, a :class:`Factor` a
power of an atom at a place. All of them are tuples, so that they are hashed, compared and taken apart fast; their
fields have names, and the functions here make and recognise the shapes that come up everywhere.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from typing import NamedTuple

from tantamount.calculus.affine import Coordinate, Index

__all__ = [
    "IOTA",
    "Exponent",
    "Factor",
    "Factors",
    "Flat",
    "Monomial",
    "ONE",
    "Polynomial",
    "Ranges",
    "Rational",
    "Term",
    "ZERO",
    "factors_of",
    "position",
    "single",
    "sole_factor",
    "sole_number",
    "sole_power",
]

Rational = Fraction | int
Exponent = Rational
IOTA = 0  # the atom whose value is its one coordinate
# The half-open interval of every axis, where known: of axes 0, 1, ..., or of some axes by number.
Ranges = Sequence[tuple[int, int]] | Mapping[int, tuple[int, int]] | None


class Factor(NamedTuple):
    """``atom[at] ** exponent``."""

    atom: int
    exponent: Exponent
    at: Index


Monomial = tuple[Factor, ...]  # sorted, one entry per (atom, place)
Factors = tuple[Factor, ...]  # not normalised


class Term(NamedTuple):
    """``coefficient * product of the factors``."""

    monomial: Monomial
    coefficient: Rational


Polynomial = tuple[Term, ...]  # sorted sum of terms with distinct monomials and non-zero coefficients


class Flat(NamedTuple):
    """``coefficient * SUM_{-1 in 0..ranges[0], -2 in 0..ranges[1], ...} product of factors``."""

    coefficient: Rational
    factors: Factors
    ranges: tuple[int, ...]


ZERO: Polynomial = ()
ONE: Polynomial = (Term((), 1),)


def single(atom: int, at: Index, *, exponent: Exponent = 1, coefficient: Rational = 1) -> Polynomial:
    """The polynomial ``coefficient * atom[at] ** exponent``."""
    return (Term((Factor(atom, exponent, at),), coefficient),)


def position(c: Coordinate) -> Polynomial:
    """The polynomial whose value is an affine map of the axes, as an argument of a comparison: not normalised."""
    return single(IOTA, (c,))


def sole_factor(x: Polynomial) -> Factor | None:
    """The factor that the polynomial is, with coefficient 1; ``None`` if it is anything else."""
    if len(x) != 1 or len(x[0].monomial) != 1 or x[0].coefficient != 1:
        return None
    return x[0].monomial[0]


def sole_power(x: Polynomial) -> tuple[Factor, Rational] | None:
    """The one factor of the one term of a polynomial, and its coefficient; ``None`` if there are more or none."""
    if len(x) != 1 or len(x[0].monomial) != 1:
        return None
    return x[0].monomial[0], x[0].coefficient


def sole_number(x: Polynomial) -> Rational | None:
    """The number that the polynomial is everywhere; ``None`` if it depends on an atom."""
    if not x:
        return 0
    return x[0].coefficient if len(x) == 1 and not x[0].monomial else None


def factors_of(*polynomials: Polynomial) -> Iterator[Factor]:
    """The factors of all terms of some polynomials, one after the other."""
    return (factor for x in polynomials for monomial, _ in x for factor in monomial)
