"""Exact arithmetic modulo primes: it is that of fractions, exp is a homomorphism, roots are roots of squares."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tantamount.certificate import residues
from tantamount.certificate.literals import stands_for
from tantamount.certificate.residues import FIELDS, Field, Residues

SMALL = st.fractions(min_value=-50, max_value=50, max_denominator=20)
FIELD = FIELDS[0]


def number(value: Fraction, of: Field = FIELD) -> Residues:
    return residues.number([value], (), of)


def same(x: Residues, y: Residues) -> bool:
    return bool(np.array_equal(x.modp, y.modp))


def drawn(seed: int, *shape: int) -> Residues:
    return residues.uniform(shape, np.random.default_rng(seed), FIELD)


@pytest.mark.parametrize("of", FIELDS)
def test_the_primes_are_what_the_module_says(of: Field) -> None:
    def prime(n: int) -> bool:
        return all(n % k for k in range(2, int(n**0.5) + 1))

    assert of.p == 2 * of.q + 1
    assert of.q % 8 == 7
    assert prime(of.p)
    assert prime(of.q)
    for small in (2, 3, 5, 7, 11, 13, 17, 19):
        assert pow(small, of.q, of.p) == 1
        assert pow(small, (of.q - 1) // 2, of.q) == 1


@given(SMALL, SMALL)
def test_sums_products_and_quotients_are_those_of_fractions(a: Fraction, b: Fraction) -> None:
    assert same(residues.add(number(a), number(b), FIELD), number(a + b))
    assert same(residues.multiply(number(a), number(b), FIELD), number(a * b))
    inverse = residues.power(number(b), Fraction(-1), FIELD)
    if b == 0:
        assert inverse.undefined.all()
    else:
        assert same(residues.multiply(number(a), inverse, FIELD), number(a / b))


def test_a_contraction_is_exact_where_products_overflow_machine_words() -> None:
    x, y, z = drawn(1, 3, 40), drawn(2, 40, 5), drawn(3, 5, 2)
    found = residues.contract([(x, (0, 1)), (y, (1, 2)), (z, (2, 3))], (3, 0), FIELD)
    wanted = (x.modp.astype(object) @ y.modp.astype(object) @ z.modp.astype(object)).T % FIELD.p
    assert np.array_equal(found.modp, wanted.astype(np.int64))


def test_exp_of_a_sum_is_a_product_and_its_root_is_exp_of_half() -> None:
    x, y = drawn(1, 100), drawn(2, 100)

    def exp(z: Residues) -> Residues:
        return residues.exponential(z, FIELD, 0)

    assert same(exp(residues.add(x, y, FIELD)), residues.multiply(exp(x), exp(y), FIELD))
    root = residues.power(exp(x), Fraction(1, 2), FIELD)
    half = residues.multiply(x, number(Fraction(1, 2)).each(lambda part: np.broadcast_to(part, (100,))), FIELD)
    assert same(root, exp(half))
    assert not root.loose


def test_the_root_of_what_is_no_square_is_marked() -> None:
    assert residues.power(drawn(1, 100), Fraction(1, 2), FIELD).loose == {"root"}


def test_an_exponential_of_an_exponential_is_an_uninterpreted_function() -> None:
    x = residues.exponential(drawn(1, 20), FIELD, 0)
    found = residues.exponential(x, FIELD, 0)
    assert "exp of exp" in found.loose
    assert same(found, residues.exponential(x, FIELD, 0))
    assert not same(found, residues.exponential(x, FIELD, 1))


def test_infinities_add_up_and_vanish_under_exp() -> None:
    low = residues.number([float("-inf")], (), FIELD)
    assert residues.add(low, number(Fraction(3)), FIELD).infinite == -1
    assert residues.add(low, residues.number([float("inf")], (), FIELD), FIELD).undefined
    gone = residues.exponential(low, FIELD, 0)
    assert gone.modp == 0
    assert not gone.undefined


def test_degrees_are_over_a_common_denominator() -> None:
    x, y = drawn(1, 4), drawn(2, 4)
    quotient = residues.multiply(x, residues.power(y, Fraction(-1), FIELD), FIELD)
    total = residues.contract([(quotient, (0,))], (), FIELD)
    assert total.degree.total == quotient.degree.total == 1 + 3 + 4  # x_i times three y_j, over all four


@pytest.mark.parametrize(
    ("literal", "text"),
    [("0.7071067811865476", "(1/2)^(1/2)"), ("0.3333333333333333", "1/3"), ("0.1", "None"), ("0.044715", "None")],
)
def test_literals_of_all_digits_are_read(literal: str, text: str) -> None:
    assert str(stands_for(Fraction(literal))) == text
