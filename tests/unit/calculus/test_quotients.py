"""Quotients of positions: exact where the axes can be split or cut, opaque (never wrong) elsewhere."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.calculus import Workbench
from tantamount.calculus.comparisons import split_affine
from tantamount.calculus.constants import reading
from tantamount.errors import Unsupported
from tantamount.ir.types import DType


@settings(max_examples=150, deadline=None)
@given(
    st.integers(1, 24), st.integers(1, 6), st.integers(-5, 5), st.integers(-7, 7), st.integers(-9, 9), st.data()
)  # fmt: skip
def test_a_floor_is_the_floor(n: int, m: int, s: int, t: int, shift: int, data: st.DataObject) -> None:
    divisor = data.draw(st.integers(-8, 8).filter(bool))
    w = Workbench()
    rows = w.b.mul(w.b.unsqueeze(w.b.iota(n), 1), s)
    columns = w.b.mul(w.b.unsqueeze(w.b.iota(m), 0), t)
    x = w.b.add(w.b.add(rows, columns), shift)
    found = w.aten("aten.floor_divide.Scalar", x, divisor)
    rest = w.aten("aten.remainder.Scalar", x, divisor)
    values = s * np.arange(n)[:, None] + t * np.arange(m)[None, :] + shift
    assert (w.value(found, {}) == values // divisor).all()
    assert (w.value(rest, {}) == values % divisor).all()


def test_numbers_are_rounded() -> None:
    w = Workbench()
    for number in (Fraction(7, 3), Fraction(-7, 3), Fraction(-2)):
        x = w.b.full((2,), number, DType.FLOAT64)
        for name, value in (("floor", number.__floor__()), ("trunc", number.__trunc__())):
            ((_, found),) = w.b.function(name, x).value.pieces
            assert split_affine(found) == ((), {}, value)


def test_blocks_become_axes_and_remainders_are_affine() -> None:
    w = Workbench()
    i = w.b.iota(12)
    for x in (w.aten("aten.floor_divide.Scalar", i, 4), w.aten("aten.remainder.Scalar", i, 4)):
        assert len(x.value.pieces) == 1
        assert not split_affine(x.value.pieces[0][1])[0]


def test_whole_unknowns_come_out_of_the_floor() -> None:
    w = Workbench()
    ids = w.input("ids", 8, dtype=DType.INT64)
    x = w.b.add(w.b.mul(ids, 4), w.aten("aten.remainder.Scalar", w.b.iota(8), 4))
    assert w.same(w.aten("aten.floor_divide.Scalar", x, 4), ids)
    data = w.data(1, ids=[-3, 5, 0, 1, 2, -1, 7, 7])
    halved = w.aten("aten.floor_divide.Scalar", ids, 2)
    assert (w.value(halved, data) == data["ids"] // 2).all()


@pytest.mark.parametrize("bounds", [(0, 2), (None, 3), (1, None), (2, 1), (-5, 20)])
def test_a_clamp_of_whole_numbers_is_a_choice(bounds: tuple[int | None, int | None]) -> None:
    w = Workbench()
    ids = w.input("ids", 6, dtype=DType.INT64)
    data = w.data(2, ids=[-4, 0, 1, 2, 3, 9])
    for x, values in ((ids, data["ids"]), (w.b.iota(6), np.arange(6))):
        low, high = bounds
        expected = values if low is None else np.maximum(values, low)
        expected = expected if high is None else np.minimum(expected, high)
        assert (w.value(w.aten("aten.clamp.default", x, *bounds), data) == expected).all()


def test_writes_at_places_that_differ() -> None:
    w = Workbench()
    x, y = w.input("x", 4, 3), w.input("y", 4)
    column = w.input("column", 4, dtype=DType.INT64)
    data = w.data(5, column=[2, 0, 0, 1])
    put = w.aten("aten.index_put.default", x, (w.b.iota(4), column), y)
    expected = data["x"].copy()
    expected[np.arange(4), data["column"]] = data["y"]
    assert np.allclose(w.value(put, data), expected)
    assert w.equivalent(w.aten("aten.index.Tensor", put, (w.b.iota(4), column)), y)
    # 2 i - 1 at stride 3 and i at stride 1 do not meet; 2 i + j at i < 3, j < 3 do
    line = w.input("line", 9)
    data = w.data(6)
    apart = w.b.add(w.b.unsqueeze(w.b.mul(w.b.iota(3), 3), 1), w.b.unsqueeze(w.b.iota(3), 0))
    source = w.input("source", 3, 3)
    data = w.data(6)
    assert np.allclose(
        w.value(w.aten("aten.index_put.default", line, (apart,), source), data), data["source"].reshape(-1)
    )


def test_writes_that_may_meet_are_refused_unless_they_write_the_same() -> None:
    w = Workbench()
    line, source = w.input("line", 9), w.input("source", 3, 3)
    near = w.b.add(w.b.unsqueeze(w.b.mul(w.b.iota(3), 2), 1), w.b.unsqueeze(w.b.iota(3), 0))
    with pytest.raises(Unsupported):
        w.aten("aten.index_put.default", line, (near,), source)
    ids = w.input("ids", 3, dtype=DType.INT64)
    with pytest.raises(Unsupported):
        w.aten("aten.index_put.default", line, (ids,), w.b.slice(line, 0, 0, 3))
    data = w.data(3, ids=[4, 1, 4])
    filled = w.aten("aten.index_put.default", line, (ids,), w.b.number(7, DType.FLOAT32))
    expected = data["line"].copy()
    expected[data["ids"]] = 7
    assert np.allclose(w.value(filled, data), expected)


@settings(max_examples=300, deadline=None)
@given(st.integers(1, 4096), st.integers(1, 4096), st.sampled_from([1, 2, 4]), st.integers(-2, 2))
def test_a_literal_is_read_as_the_root_that_it_rounds(p: int, q: int, root: int, ulps: int) -> None:
    number = (p / q) ** (1 / root)
    literal = Fraction(repr(float(number + ulps * np.spacing(number))))
    found = reading(literal)
    value = float(literal) if found is None else float(found.radicand) ** (1 / found.root)
    assert abs(value - float(literal)) <= 2**-50 * float(literal)


def test_literals_that_somebody_wrote_are_themselves() -> None:
    for text in ("0.1", "1e-05", "-10000", "0.7978845608028654", "3.141592653589793", "1e-37", "0.0009765625"):
        assert reading(Fraction(text)) is None
    assert reading(Fraction("0.9999999999999999")) is None
    a, b, c = (reading(Fraction(text)) for text in ("0.7071067811865476", "0.7071067811865475", "0.7071067811865"))
    assert a == b == (Fraction(1, 2), 2)
    assert c is None


def test_writes_at_the_places_of_an_order_do_not_meet() -> None:
    w = Workbench()
    x, y = w.input("x", 4, 5), w.input("y", 4, 2)
    data = w.data(7)
    for is_sorted in (True, False):
        _, places = w.aten("aten.topk.default", x, 2, 1, True, is_sorted)
        put = w.aten("aten.scatter.src", w.b.full((4, 5), 0, DType.FLOAT32), 1, places, y)
        expected = np.zeros((4, 5))
        np.put_along_axis(expected, w.value(places, data).astype(int), data["y"], 1)
        assert np.allclose(w.value(put, data), expected)
        across = w.b.transpose(places, 0, 1)  # rows of the result now run across rows of the order: places may meet
        with pytest.raises(Unsupported):
            w.aten("aten.scatter.src", w.b.full((2, 5), 0, DType.FLOAT32), 1, across, w.b.transpose(y, 0, 1))


def test_a_maximum_with_zero_has_one_orientation() -> None:
    w = Workbench()
    x, y = w.input("x", 5), w.input("y", 5)
    relu = lambda t: w.aten("aten.relu.default", t)  # noqa: E731
    assert w.same(w.b.sub(relu(x), relu(w.b.neg(x))), x)
    difference = w.b.sub(x, y)
    assert w.same(relu(difference), w.b.add(relu(w.b.neg(difference)), difference))
    assert not w.same(relu(x), relu(w.b.neg(x)))
    data = w.data(3)
    assert np.allclose(w.value(relu(w.b.mul(x, -3)), data), np.maximum(-3 * data["x"], 0))
    assert np.allclose(w.value(relu(w.b.sub(-1, w.b.mul(x, x))), data), 0)
