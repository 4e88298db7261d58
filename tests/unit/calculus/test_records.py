"""Kinds and records: what is said of elements that are not finite."""

from __future__ import annotations

import pytest

from support.calculus import Workbench
from tantamount.calculus import kinds
from tantamount.calculus.kinds import FAILS, INF, KINDS, MASKED, NAN, POLE, SOFT
from tantamount.calculus.polynomials import add, as_factors, scale
from tantamount.calculus.records import outside
from tantamount.calculus.terms import ONE, ZERO, Polynomial
from tantamount.ir.types import DType
from tantamount.proof.defined import undefined_clause


@pytest.mark.parametrize(
    ("x", "y", "found"),
    [
        ("+inf", "+inf", "+inf"), ("+inf", "-inf", "nan"), ("0", "0", "0"), (POLE, "0", POLE), (POLE, POLE, INF),
        (SOFT, "+inf", "nan|+inf"), (SOFT, "0", SOFT), (SOFT, SOFT, SOFT), (FAILS, "0", FAILS), (MASKED, "0", "-inf"),
    ],
)  # fmt: skip
def test_sums(x: str, y: str, found: str) -> None:
    assert kinds.sum_of(x, y) == kinds.sum_of(y, x) == found


def test_what_is_said_twice_is_both() -> None:
    assert kinds.both((SOFT, POLE)) == POLE
    assert kinds.both((POLE, "nan|+inf")) == "+inf"
    assert kinds.both((POLE, FAILS)) == FAILS
    assert kinds.both((POLE, NAN)) == kinds.both((MASKED, NAN)) == NAN
    assert kinds.both((POLE, MASKED)) == kinds.both((SOFT, MASKED)) == MASKED


def test_strong_kinds_have_no_finite_value() -> None:
    assert {kind for kind in KINDS if kinds.is_strong(kind)} == {
        kind for kind in KINDS if kind != SOFT and "0" not in kind.split("|")
    }


def test_tables_say_something_of_every_kind() -> None:
    tables = [kinds.ALL_SOFT, kinds.SUM, kinds.PRODUCT, kinds.POWER, kinds.EXPONENTIAL, kinds.LOGARITHM, kinds.EXTREME]
    for table in (*tables, *kinds.RECIPROCAL.values(), *kinds.PRODUCT_OF.values(), *kinds.UNBOUNDED.values()):
        assert table.keys() == set(KINDS)
        assert table[FAILS] == FAILS
        assert table[SOFT] == SOFT
        assert all(NAN in table[kind] or table[kind] == SOFT for kind in KINDS if NAN in kind.split("|"))


def _boolean(bench: Workbench, name: str) -> Polynomial:
    ((_, x),) = bench.input(name, 3, dtype=DType.BOOL).value.pieces
    return x


def test_a_condition_outside_of_another() -> None:
    bench = Workbench()
    store = bench.store
    p, q = _boolean(bench, "p"), _boolean(bench, "q")
    not_p = add(store, ONE, scale(p, -1))
    box = ((0, 3),)
    inside = [as_factors(store, p)[1]]
    assert outside(store, p, inside, box) == ZERO
    assert outside(store, not_p, inside, box) == not_p
    assert outside(store, not_p, [as_factors(store, not_p)[1]], box) == ZERO
    assert outside(store, q, [()], box) == ZERO
    found = outside(store, q, inside, box)
    assert len(found) == 1
    assert set(as_factors(store, not_p)[1]) | set(as_factors(store, q)[1]) == set(found[0].monomial)


def test_a_zero_that_another_factor_might_be_is_none() -> None:
    """``SUM_j m[j] * k`` is not 0 because some other number is: that ``[SUM m == 0]`` has two terms is no matter."""
    from tantamount.calculus.forms import constant_form
    from tantamount.calculus.records import terms_of_kind, with_undefined

    bench = Workbench()
    store = bench.store
    m, y = bench.input("m", 3, dtype=DType.BOOL), bench.input("y", dtype=DType.FLOAT32)
    count = bench.b.sum(bench.b.cast(m, DType.FLOAT32), (0,))
    (_, condition), *_ = bench.b.equal(y, 0).value.pieces
    record = constant_form((), terms_of_kind(store, "0", condition))
    wanted = with_undefined(count.value, record)
    assert undefined_clause(store, wanted, count.value) is not None
    product = bench.b.mul(count, y)
    assert undefined_clause(store, with_undefined(product.value, record), product.value) is None
