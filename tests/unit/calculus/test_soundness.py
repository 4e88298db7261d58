"""One test per unsound rule that was found and repaired, or suspected and found right."""

from __future__ import annotations

from fractions import Fraction
from math import inf

import numpy as np
import pytest

from support.agreement import Figures, check
from support.calculus import Workbench, escaped
from tantamount.calculus import infinities
from tantamount.calculus.affine import Coordinate, variable
from tantamount.calculus.atoms import ValueFacts
from tantamount.calculus.forms import Form
from tantamount.calculus.multiplied import distribute
from tantamount.calculus.products import substitute_factors, substitute_polynomial
from tantamount.calculus.terms import Polynomial, Term
from tantamount.errors import Unsupported
from tantamount.ir.types import DType
from tantamount.samples.programs.steps import Input, Program, Step


def distributed(w: Workbench, form: Form) -> Form:
    return Form(form.dims, tuple((box, distribute(w.store, x)) for box, x in form.pieces))


def test_a_rebuild_inside_a_rebuild_does_not_capture_its_axes() -> None:
    # sum_a p[a, i] s[i] with s[i] = sum_a p[a, i]: simplifying s under "p[a, i] = 1" must not touch its own bound a
    w = Workbench()
    p, x, y = w.input("p", 2, 2, dtype=DType.BOOL), w.input("x", 2), w.input("y", 2)
    chosen = w.b.where(p, x, y)
    variance = w.b.sum(w.b.power(w.b.sub(chosen, w.b.mean(chosen, (0,), keepdim=True)), 2), (0,))
    data = w.data(3, p=[[True, False], [False, False]])
    values = np.where(data["p"], data["x"], data["y"])
    expected = ((values - values.mean(0)) ** 2).sum(0)
    assert np.allclose(w.value(variance, data), expected)
    assert np.allclose(w.value(distributed(w, variance.value), data), expected)


def test_an_atom_does_not_keep_bound_variables_of_what_it_is_in() -> None:
    # under a guard a factor of a sum may become a difference over bound variables: one atom at these coordinates
    w = Workbench()
    ((_, x),) = w.input("x", 3, 3).value.pieces
    at: dict[int, Coordinate] = {0: variable(-2, 1, 1), 1: variable(-1, -1, 2)}
    bound: Polynomial = (Term((), 1), *(Term(substitute_factors(m, at), c) for m, c in x))
    number, where = w.store.apply("polynomial", (), (bound,), ValueFacts())
    assert substitute_polynomial(w.store.atoms[number].arguments[0], dict(enumerate(where))) == bound
    assert not escaped(w.store)


def test_a_comparison_inside_a_masked_softmax_of_a_sorted_row() -> None:
    # the way by look-ups met a difference inside a sum; its bound variables used to stay inside the atom, unbound
    steps = (
        Step("add number", (0,), (0.1,)),
        Step("sort", (1,), (1,)),
        Step("equal", (2, 1), ()),
        Step("masked softmax", (2, 3), (0,)),
    )
    failure = check(Program((Input("x", (3, 3), DType.FLOAT32),), steps), 1, Figures(), deep=True)
    assert failure is None, str(failure)


def test_a_count_of_equal_indices_is_not_a_boolean() -> None:
    # sum_k [i[k] == v] counts; its square is not itself
    w = Workbench()
    i = w.input("i", 4, dtype=DType.INT64)
    hot = w.b.cast(w.b.equal(w.b.unsqueeze(i, -1), w.b.iota(3)), DType.FLOAT32)
    count = w.b.sum(hot, (0,))
    data = w.data(i=[1, 1, 0, 1])
    assert w.value(w.b.mul(count, count), data).tolist() == [1.0, 9.0, 0.0]
    assert not w.same(w.b.mul(count, count), count)


def test_a_sum_is_not_normalised_while_its_bound_variables_are_free() -> None:
    # the comparison inside the one-hot contraction contains partial sums; used to crash, and could have captured
    w = Workbench()
    i = w.input("i", 2, dtype=DType.INT64)
    x = w.input("x", 2)
    places = w.b.sub(w.b.flip(i, (0,)), i)
    added = w.b.scatter(x, [places], x, True)
    data = w.data(i=[0, 0])
    assert np.allclose(w.value(added, data), [2 * data["x"][0] + data["x"][1], data["x"][1]])


def test_exp_finds_infinities_under_two_masks_and_refuses_the_rest() -> None:
    w = Workbench()
    x = w.input("x", 4)
    c, d = w.input("c", 4, dtype=DType.BOOL), w.input("d", 4, dtype=DType.BOOL)
    data = w.data(c=[1, 1, 0, 0], d=[1, 0, 1, 0])
    masked = w.b.exp(w.b.where(c, x, w.b.where(d, -inf, x)))
    expected = np.where(data["c"] | ~data["d"], np.exp(data["x"]), 0.0)
    assert np.allclose(w.value(masked, data), expected)
    for atom in w.store.atoms:  # exp(-inf) = 0 is not positive: no exp atom may hide one
        if atom.op == "exp":
            assert not infinities.unbounded(w.store, atom.arguments[0])
    with pytest.raises(Unsupported):  # 0 * inf is undefined where x is 0
        w.b.mul(w.b.where(c, x, -inf), x)
    with pytest.raises(Unsupported):  # inf - inf
        w.b.sub(w.b.where(c, x, -inf), w.b.where(d, x, -inf))


def test_infinities_are_not_numbers() -> None:
    w = Workbench()
    x = w.input("x", 2)
    big = w.b.full((2,), inf, DType.FLOAT32)
    truth = {value: w.b.full((2,), value, DType.BOOL) for value in (True, False)}
    for found, value in (
        (w.b.equal(big, w.b.mul(big, 2)), True),  # all infinities of a sign are equal
        (w.b.less(big, w.b.mul(big, 2)), False),
        (w.b.equal(w.b.add(big, x), big), True),
        (w.b.less(w.b.neg(big), w.b.add(big, x)), True),
        (w.b.equal(w.b.neg(big), big), False),
    ):
        assert w.same(found, truth[value])
        assert not w.same(found, truth[not value])
    with pytest.raises(Unsupported):
        w.b.sub(big, w.b.mul(big, 2))  # no number is known for inf - inf
    assert w.same(w.b.exp(w.b.neg(w.b.power(big, -1))), w.b.full((2,), 1.0, DType.FLOAT32))  # 1 / inf is 0


def test_roots_of_powers() -> None:
    w = Workbench()
    x, y = w.input("x", 3), w.input("y", 3)
    power = w.b.power
    square, half = power(x, 2), Fraction(1, 2)
    assert not w.same(power(square, half), x)
    assert w.same(power(square, half), w.b.function("abs", x))
    assert w.same(power(power(x, 4), half), square)
    assert w.same(w.b.mul(w.b.function("abs", x), w.b.function("abs", x)), square)
    assert not w.same(power(power(x, 6), half), power(x, 3))
    assert not w.same(power(power(x, -2), half), power(x, -1))
    assert not w.same(power(power(square, half), 3), power(x, 3))
    assert w.same(w.b.function("abs", w.b.mul(x, -3)), w.b.mul(w.b.function("abs", x), 3))
    assert not w.same(power(w.b.mul(x, y), half), w.b.mul(power(x, half), power(y, half)))  # both negative
    assert w.same(power(w.b.mul(square, y), half), w.b.mul(w.b.function("abs", x), power(y, half)))
    assert not w.same(power(w.b.neg(x), half), power(x, half))
    assert not w.same(power(w.b.mul(x, 4), half), w.b.mul(power(x, half), 4))
    assert w.same(
        power(w.b.mul(x, 8), half), w.b.mul(w.b.mul(power(x, half), 2), power(w.b.number(2, DType.FLOAT32), half))
    )


def test_a_guard_does_not_cancel_against_its_inverse() -> None:
    # where(g, x / g, g): at g = 0 the side x / g is not taken, and the value is 0, not x
    w = Workbench()
    x, g = w.input("x", 4), w.input("g", 4, dtype=DType.BOOL)
    gate = w.b.cast(g, DType.FLOAT32)
    data = w.data(1, g=[0, 1, 0, 1])
    expected = np.where(data["g"], data["x"], 0.0)
    chosen = w.b.where(g, w.b.div(x, gate), gate)
    assert w.value(chosen, data).tolist() == expected.tolist()
    assert w.same(chosen, w.b.where(g, x, 0))
    assert not w.equivalent(chosen, x)
    other = w.b.where(w.b.not_(g), 0, w.b.add(w.b.div(x, gate), w.b.div(x, w.b.mul(gate, 2))))
    assert np.allclose(w.value(other, data), expected * 1.5)
    # the same with a mask that is not known to be 0 or 1 by its factors
    i = w.input("i", 4, dtype=DType.INT64)
    picked = w.b.gather(g, [i])
    divisor = w.b.cast(picked, DType.FLOAT32)
    data = w.data(1, g=[0, 1, 0, 1], i=[3, 2, 1, 0])
    assert (
        w.value(w.b.where(picked, w.b.div(x, divisor), 0), data).tolist()
        == np.where(data["g"][::-1], data["x"], 0).tolist()
    )
    symmetric = w.b.less(w.b.add(w.b.cast(g, DType.INT64), w.b.cast(picked, DType.INT64)), 2)
    assert not w.same(w.b.where(symmetric, w.b.div(x, w.b.cast(symmetric, DType.FLOAT32)), 0), x)


def test_a_piece_is_not_extended_to_where_its_divisor_vanishes() -> None:
    # rows of a causal softmax below a padded row: continued upwards, guards and divisor vanish, but not their ratio
    w = Workbench()
    x = w.input("x", 2, 2)
    rows, columns = w.b.reshape(w.b.iota(2), (2, 1)), w.b.reshape(w.b.iota(2), (1, 2))
    causal = w.aten("aten._softmax.default", w.b.where(w.b.less(rows, columns), -inf, x), 1, False)
    padded = w.b.pad(causal, 0, 1, 2, 0)
    data = w.data(2)
    split = w.b.add(w.b.select(padded, 1, 0), w.b.select(padded, 1, 1))
    assert np.allclose(w.value(split, data), [0, 1, 1, 0, 0])
    assert np.allclose(w.value(w.b.sum(padded, (1,)), data), [0, 1, 1, 0, 0])
