"""The normal form of terms: equal pointers mean equal functions, and what a rewrite forgets is kept."""

from __future__ import annotations

from fractions import Fraction
from math import inf

import pytest

from tantamount.errors import Unsupported
from tantamount.smt.arithmetic import add, mul, where
from tantamount.smt.functions import equal, exp, less, log, maximum, power
from tantamount.smt.knowledge import Knowledge, required
from tantamount.smt.separation import separated
from tantamount.smt.terms import Condition, Element, Table, Term


class Bench:
    """A table with a few variables."""

    def __init__(self) -> None:
        self.t = Table()
        self.x, self.y, self.z = (self.t.variable(name) for name in "xyz")
        self.b = self.t.variable("b", integer=True, boolean=True)

    def sum(self, *xs: Element) -> Element:
        return add(self.t, [(1, x) for x in xs])

    def sub(self, x: Element, y: Element) -> Element:
        return add(self.t, [(1, x), (-1, y)])

    def mul(self, *xs: Element) -> Element:
        return mul(self.t, xs)

    def over(self, x: Element, y: Element) -> Element:
        return self.mul(x, power(self.t, y, Fraction(-1)))

    def lost(self) -> set[tuple[str, Term]]:
        return {(c.kind, c.term) for c in self.t.lost}


@pytest.fixture
def w() -> Bench:
    return Bench()


def test_order_does_not_matter(w: Bench) -> None:
    assert w.sum(w.x, w.sum(w.y, w.z)) is w.sum(w.sum(w.z, w.x), w.y)
    assert w.mul(w.x, w.mul(w.y, w.x)) is w.mul(w.y, w.mul(w.x, w.x))
    assert maximum(w.t, [w.x, maximum(w.t, [w.y, w.x])]) is maximum(w.t, [w.y, w.x])
    assert w.sum(w.x, w.y) is not w.sum(w.x, w.z)
    assert w.mul(w.x, w.y) is not w.mul(w.x, w.x)


def test_sums_collect_and_numbers_are_exact(w: Bench) -> None:
    third = Fraction(1, 3)
    assert add(w.t, [(third, w.x), (third, w.x), (third, w.x)]) is w.x
    assert w.sub(w.sum(w.x, 1), w.x) == 1
    assert power(w.t, Fraction(1, 4), Fraction(-1, 2)) == 2
    assert power(w.t, 2, Fraction(-1, 2)) is power(w.t, Fraction(1, 2), Fraction(1, 2))
    assert w.mul(power(w.t, 2, Fraction(1, 2)), power(w.t, 2, Fraction(-1, 2))) == 1
    assert not w.t.lost


def test_sums_in_products_have_one_form(w: Bench) -> None:
    double = add(w.t, [(2, w.x), (2, w.y)])
    assert w.mul(double, w.z) is w.mul(2, w.z, w.sum(w.x, w.y))
    assert power(w.t, double, Fraction(2)) is w.mul(4, w.sum(w.x, w.y), w.sum(w.x, w.y))
    assert w.over(w.z, w.sub(w.x, w.y)) is w.mul(-1, w.over(w.z, w.sub(w.y, w.x)))


def test_softmax_is_invariant_under_the_maximum(w: Bench) -> None:
    top = maximum(w.t, [w.x, w.y])
    shifted = [exp(w.t, w.sub(v, top)) for v in (w.x, w.y)]
    plain = [exp(w.t, v) for v in (w.x, w.y)]
    assert w.over(shifted[0], w.sum(*shifted)) is w.over(plain[0], w.sum(*plain))
    assert w.sum(top, log(w.t, w.sum(*shifted))) is log(w.t, w.sum(*plain))
    assert w.over(shifted[0], w.sum(*shifted)) is not w.over(plain[1], w.sum(*plain))
    assert not w.t.lost


def test_sigmoid_in_both_forms(w: Bench) -> None:
    one = w.over(1, w.sum(1, exp(w.t, w.mul(-1, w.x))))
    assert one is w.over(exp(w.t, w.x), w.sum(1, exp(w.t, w.x)))


def test_what_cancels_is_remembered(w: Bench) -> None:
    inverse = power(w.t, w.x, Fraction(-1))
    for factors in ((w.x, inverse), (inverse, w.x), (w.x, w.x, inverse), (inverse, w.x, w.x)):
        w.mul(*factors)
        assert w.lost() == {("nonzero", w.x)}
        w.t.forgive()
    root = power(w.t, w.y, Fraction(1, 2))
    assert w.mul(root, root) is w.y
    assert w.lost() == {("nonnegative", w.y)}
    w.t.forgive()
    quotient = power(w.t, w.z, Fraction(-1))
    assert w.sub(quotient, quotient) == 0
    assert w.mul(0, quotient) == 0
    assert w.lost() == {("nonzero", w.z)}
    w.t.forgive()
    assert w.sub(w.mul(w.x, w.y), w.mul(w.y, w.x)) == 0  # nothing was undefined
    assert not w.t.lost


def test_a_root_of_a_square_is_no_identity(w: Bench) -> None:
    assert power(w.t, w.mul(w.x, w.x), Fraction(1, 2)) is not w.x


def test_booleans_are_numbers(w: Bench) -> None:
    assert w.mul(w.b, w.b) is w.b
    assert equal(w.t, w.b, 1) is w.b
    assert equal(w.t, w.b, 0) is w.sub(1, w.b)
    assert where(w.t, w.sub(1, w.b), w.x, w.y) is where(w.t, w.b, w.y, w.x)
    assert where(w.t, w.b, 1, 0) is w.b
    assert where(w.t, 1, w.x, w.y) is w.x
    assert w.mul(w.x, w.x) is not w.x


def test_a_condition_that_is_a_sum(w: Bench) -> None:
    c = w.t.variable("c", integer=True, boolean=True)
    either = add(w.t, [(1, w.b), (1, c), (-1, w.mul(w.b, c))])  # a disjunction, written as a sum
    chosen = where(w.t, either, w.x, w.y)
    assert isinstance(chosen, Term)
    assert chosen.args == (either, w.x, w.y)
    neither = w.mul(w.sub(1, w.b), w.sub(1, c))
    assert isinstance(neither, Term)
    assert neither.boolean
    assert where(w.t, w.sub(1, neither), w.x, w.y) is where(w.t, neither, w.y, w.x)


def test_comparisons_have_one_form(w: Bench) -> None:
    assert less(w.t, w.x, w.y) is less(w.t, w.mul(-1, w.y), w.mul(-1, w.x))
    assert equal(w.t, w.x, w.y) is equal(w.t, w.mul(2, w.y), w.mul(2, w.x))
    assert less(w.t, w.x, w.y) is not less(w.t, w.y, w.x)
    assert less(w.t, 1, 2) == 1
    assert less(w.t, w.x, w.x) == 0


def test_infinities_fold_or_are_refused(w: Bench) -> None:
    assert exp(w.t, -inf) == 0
    assert maximum(w.t, [w.x, -inf]) is w.x
    assert less(w.t, -inf, w.x) == 1
    assert add(w.t, [(1, w.x), (1, -inf)]) == -inf
    masked = where(w.t, w.b, w.x, -inf)
    assert less(w.t, -inf, masked) is w.b
    assert equal(w.t, masked, -inf) is w.sub(1, w.b)
    assert exp(w.t, masked) is where(w.t, w.b, exp(w.t, w.x), 0)
    with pytest.raises(Unsupported, match="an infinity times a number that is not known"):
        w.mul(w.x, inf)
    undefined = w.sub(inf, inf)
    assert isinstance(undefined, Term)
    assert undefined is not w.sub(inf, inf)


def test_signs(w: Bench) -> None:
    known = Knowledge(w.t, {Condition("nonnegative", w.y): ""})
    positive = w.sum(w.mul(w.x, w.x), exp(w.t, w.z))
    assert isinstance(positive, Term)
    assert known.sign(positive) == 2
    assert known.sign(w.y) == 1
    assert known.sign(w.x) == 0
    assert known.holds(Condition("nonzero", positive))
    assert not known.holds(Condition("positive", w.y))
    assert known.holds(Condition("range", w.b, 2))
    assert not known.holds(Condition("range", w.b, 1))


def test_what_a_finite_output_needs(w: Bench) -> None:
    inverse, root = (power(w.t, w.x, Fraction(-1)), power(w.t, w.y, Fraction(1, 2)))
    assert set(required([w.sum(inverse, root)])) == {Condition("nonzero", w.x), Condition("nonnegative", w.y)}
    tanh = w.t.make("fn", "tanh", w.sum(inverse, root))  # finite at infinity, not of what is no number
    assert set(required([tanh])) == {Condition("nonnegative", w.y)}
    chosen = where(w.t, w.b, inverse, 0)
    assert not required([chosen])
    assert not required([w.mul(w.b, inverse)])  # the same choice, of a place by comparisons
    total = w.sum(1, inverse)
    assert isinstance(total, Term)
    assert set(required([power(w.t, total, Fraction(-1))])) == {Condition("nonzero", total)}  # 1 / infinity is 0


def test_sums_are_taken_apart_by_their_integers(w: Bench) -> None:
    """Rows that read a label of their own are compared one by one; what differs by a number, or in one part, is not."""
    first, second = (w.t.variable(name, integer=True) for name in "ij")

    def row(label: Term, x: Term) -> Element:
        return where(w.t, equal(w.t, label, 0), x, w.z)

    def other(label: Term, x: Term) -> Element:
        return where(w.t, less(w.t, 0, label), w.z, x)

    whole = w.sum(row(first, w.x), row(second, w.y), w.z)
    parts = separated(w.t, whole, w.sum(other(second, w.y), other(first, w.x), w.z))
    assert set(parts) == {(row(first, w.x), other(first, w.x)), (row(second, w.y), other(second, w.y))}
    assert separated(w.t, whole, w.sum(other(second, w.y), other(first, w.x), w.z, 1)) == []
    assert (0, w.z) in separated(w.t, w.sum(row(first, w.x), row(second, w.y)), w.sum(other(first, w.x), w.z))
    assert separated(w.t, row(first, w.x), other(first, w.x)) == []
