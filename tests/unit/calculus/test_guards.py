"""Comparisons and what they decide, against evaluation; facts about indices hold where they were recorded only."""

from __future__ import annotations

from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from support.calculus import Workbench
from tantamount.calculus.compare import equal
from tantamount.calculus.signs import decided
from tantamount.calculus.symbolic import Symbolic, Trace
from tantamount.ir.types import DType
from tantamount.ops.algebra import Tensor
from tantamount.ops.builder import Builder

INT, FLOAT, BOOL = DType.INT64, DType.FLOAT32, DType.BOOL
HALF = Fraction(1, 2)


@pytest.mark.parametrize("swapped", [False, True])
@pytest.mark.parametrize("operator", ["less", "equal"])
@pytest.mark.parametrize("dtype", [INT, FLOAT])
def test_comparisons_with_positions(dtype: DType, operator: str, swapped: bool) -> None:
    """c x against s i + o, for whole and broken c, s and o."""
    values = np.array([-2, -1, 0, 1, 2, 3]) if dtype is INT else np.array([-1.5, -1, 0, 0.5, 1, 2.25])
    scales, offsets, strides = (
        (1, -1, 2, -2, HALF, Fraction(-3, 2)),
        (0, 1, -1, HALF, Fraction(3, 2)),
        (0, 1, -1, 2, HALF),
    )
    for scale, offset, stride in product(scales, offsets, strides):
        w = Workbench()
        left = w.b.mul(w.b.cast(w.input("x", 6, dtype=dtype), FLOAT), scale)
        right = w.b.add(w.b.mul(w.b.cast(w.b.iota(6), FLOAT), stride), offset)
        guard = getattr(w.b, operator)(*((right, left) if swapped else (left, right)))
        a, c = values * float(scale), np.arange(6) * float(stride) + float(offset)
        a, c = (c, a) if swapped else (a, c)
        expected = a < c if operator == "less" else a == c
        assert w.value(guard, {"x": values}).tolist() == expected.astype(float).tolist(), (scale, offset, stride)


def test_comparisons_of_booleans() -> None:
    w = Workbench()
    b, p, q = w.b, w.input("p", 4, dtype=BOOL), w.input("q", 4, dtype=BOOL)
    data = w.data(p=[0, 0, 1, 1], q=[0, 1, 0, 1])
    x, y = data["p"].astype(int), data["q"].astype(int)
    whole = b.cast(p, INT)
    for guard, expected in (
        (b.less(p, q), x < y), (b.equal(p, q), x == y), (b.less(b.mul(whole, 3), 2), 3 * x < 2),
        (b.equal(b.mul(whole, -3), -3), x == 1), (b.less(b.add(whole, b.cast(q, INT)), 2), x + y < 2),
        (b.less(b.mul(b.cast(p, FLOAT), HALF), Fraction(1, 4)), x < 0.5), (b.less(b.not_(p), q), 1 - x < y),
    ):  # fmt: skip
        assert w.value(guard, data).tolist() == expected.astype(float).tolist()


def test_guards_inside_sums() -> None:
    """sum_j [s i + o < t j] x[i, j] and the like, for every sign of the strides."""
    for n, s, t, offset, operator in product((3, 4), (1, -1, 2), (1, -1, 2, -2), range(-3, 5), ("less", "equal")):
        w = Workbench()
        b, x = w.b, w.input("x", n, n)
        rows = b.add(b.mul(b.reshape(b.iota(n), (n, 1)), s), offset)
        columns = b.mul(b.reshape(b.iota(n), (1, n)), t)
        guard = getattr(b, operator)(rows, columns)
        data = w.data(1)
        left, right = np.arange(n)[:, None] * s + offset, np.arange(n)[None] * t
        truth = left < right if operator == "less" else left == right
        assert np.allclose(w.value(b.sum(b.where(guard, x, 0), (1,)), data), np.where(truth, data["x"], 0).sum(1))
        both = b.sum(b.where(guard, b.mul(x, x), x))
        assert np.allclose(w.value(both, data), np.where(truth, data["x"] ** 2, data["x"]).sum())


def test_nested_choices() -> None:
    w = Workbench()
    b = w.b
    x, y = w.input("x", 4), w.input("y", 4)
    p, q = w.input("p", 4, dtype=BOOL), w.input("q", 4, dtype=BOOL)
    data = w.data(0, p=[0, 1, 0, 1], q=[0, 0, 1, 1])
    xs, ys, ps, qs = (data[name] for name in "xypq")
    for form, expected in (
        (b.where(p, b.where(p, x, y), y), np.where(ps, xs, ys)),
        (b.where(p, b.where(q, x, y), b.where(q, y, x)), np.where(ps == qs, xs, ys)),
        (b.where(b.not_(p), x, b.where(p, y, x)), np.where(ps, ys, xs)),
        (
            b.where(b.and_(p, q), x, b.where(b.or_(p, q), y, b.mul(x, y))),
            np.where(ps & qs, xs, np.where(ps | qs, ys, xs * ys)),
        ),
        (b.where(b.equal(p, q), x, y), np.where(ps == qs, xs, ys)),
    ):
        assert np.allclose(w.value(form, data), expected)
    assert w.same(b.where(p, b.where(p, x, y), y), b.where(p, x, y))
    assert not w.equivalent(b.where(p, x, y), b.where(q, x, y))
    assert not w.equivalent(b.where(p, x, y), b.where(p, y, x))


def obligations(w: Workbench, table: Tensor, index: Tensor) -> int:
    """How many index obligations a program without assumptions incurs for ``table[index]``."""
    symbolic = Symbolic(w.store, Trace())
    Builder(symbolic).gather(table, [index, *(None for _ in table.shape[1:])])
    return len(symbolic.trace.obligations)


def test_the_range_of_an_index_is_known_only_where_it_was_assumed() -> None:
    w = Workbench()
    b = w.b
    table, small, i = w.input("t", 8, 2), w.input("s", 7, 2), w.input("i", 6, dtype=INT)
    b.gather(table, [b.slice(i, 0, 1, 3), None])  # the specification reads t at i[1], i[2]
    for low, high, needed in ((1, 3, 0), (2, 3, 0), (0, 3, 1), (1, 4, 1), (0, 6, 1)):
        assert obligations(w, table, b.slice(i, 0, low, high)) == needed
    part = b.slice(i, 0, 1, 3)
    assert obligations(w, table, b.flip(part, (0,))) == 0
    assert obligations(w, small, part) == 1
    assert obligations(w, table, b.add(part, 1)) == 1
    assert obligations(w, table, b.mul(part, 2)) == 1
    assert obligations(w, table, b.neg(part)) == 1


def test_what_is_known_of_blocks_is_known_of_what_they_are_together() -> None:
    """The specification reads at all of i but i[2, :] in blocks, some twice; i[:2] and i[3:] are boxes of them."""
    w = Workbench()
    b = w.b
    table, wide, i = w.input("t", 8, 2), w.input("u", 9, 2), w.input("i", 6, 4, dtype=INT)
    for rows, columns, read in (
        ((0, 2), (2, 4), table), ((3, 5), (0, 4), table), ((5, 6), (0, 4), table), ((0, 2), (0, 2), table),
        ((4, 6), (1, 3), wide),
    ):  # fmt: skip
        part = b.slice(b.slice(i, 0, *rows), 1, *columns)
        b.gather(read, [b.reshape(part, (part.shape[0] * part.shape[1],)), None])

    def asked(rows: tuple[int, int], columns: tuple[int, int]) -> int:
        part = b.slice(b.slice(i, 0, *rows), 1, *columns)
        return obligations(w, table, b.reshape(part, (part.shape[0] * part.shape[1],)))

    assert [asked((0, 2), (1, 4)), asked((0, 2), (0, 4)), asked((3, 6), (0, 4)), asked((4, 6), (2, 3))] == [0, 0, 0, 0]
    assert [asked((0, 3), (0, 4)), asked((1, 4), (1, 2)), asked((2, 3), (0, 1))] == [1, 1, 1]


def test_the_local_index_of_a_vocabulary_shard_is_in_range() -> None:
    w = Workbench()
    b = w.b
    table, i = w.input("t", 8, 2), w.input("i", 5, dtype=INT)
    b.gather(table, [i, None])

    def local(low: int, high: int, offset: int) -> int:
        outside = b.or_(b.less(i, low), b.not_(b.less(i, high)))
        return obligations(w, b.slice(table, 0, low, high), b.where(outside, 0, b.sub(i, offset)))

    assert [local(0, 4, 0), local(4, 8, 4), local(2, 7, 2)] == [0, 0, 0]
    assert [local(4, 8, 0), local(4, 8, 3), local(0, 4, 1), local(4, 8, 5)] == [1, 1, 1, 1]


def test_masks_of_dropouts_are_fresh() -> None:
    w = Workbench()
    x = w.input("x", 4)
    first, second = w.b.keep_mask(x, 0.5), w.b.keep_mask(x, 0.5)
    assert not w.same(first, second)
    assert w.same(w.b.and_(first, first), first)
    assert not w.same(w.b.and_(first, second), first)


def test_maxima() -> None:
    w = Workbench()
    b, x, p = w.b, w.input("x", 4), w.input("p", 4, dtype=BOOL)
    top = b.amax(x)
    assert w.same(b.amax(b.concat([x, x, b.slice(x, 0, 1, 3)], 0)), top)
    assert w.same(b.maximum(b.amax(x), b.amax(b.flip(x, (0,)))), top)
    assert w.same(b.maximum(b.maximum(x, b.neg(x)), x), b.maximum(x, b.neg(x)))
    assert w.same(b.maximum(x, -float("inf")), x)
    assert not w.same(b.amax(b.slice(x, 0, 1, 4)), top)
    assert not w.same(b.maximum(x, 0), x)
    data = w.data(2, p=[0, 1, 0, 1])
    masked = b.amax(b.where(p, -float("inf"), x))
    assert np.allclose(w.value(masked, data), data["x"][~data["p"]].max())
    assert not w.same(masked, top)


def test_guards_of_positions_are_decided_where_products_are_multiplied_out() -> None:
    """sum_i (1 - [t == -1]) (x - s [t == j]) y is sum_i ((1 - [t == -1]) x - s [t == j]) y where j is a position."""
    w = Workbench()
    b, t, x, y, s = w.b, w.input("t", 5, dtype=INT), w.input("x", 5, 3), w.input("y", 5), w.input("s", 5)
    kept = b.unsqueeze(b.cast(b.not_(b.equal(t, -1)), FLOAT), 1)

    def contracted(first: int) -> tuple[Tensor, Tensor]:
        places = b.add(b.reshape(b.iota(3), (1, 3)), first)
        written = b.mul(b.unsqueeze(s, 1), b.cast(b.equal(b.unsqueeze(t, 1), places), FLOAT))
        outside, inside = b.mul(kept, b.sub(x, written)), b.sub(b.mul(kept, x), written)
        return b.contract("ij,i->j", outside, y), b.contract("ij,i->j", inside, y)

    assert equal(w.store, *(z.value for z in contracted(0))) is None
    assert equal(w.store, *(z.value for z in contracted(-1))) is not None  # t may be -1 = j: what was written is lost


@pytest.mark.parametrize(
    ("row", "size", "summand", "known"),
    [(4, 4, "exp", True), (4, 5, "exp", True), (4, 3, "exp", False), (0, 4, "exp", False), (4, 4, "x", False)],
)
def test_what_is_chosen_among_positive_numbers_is_positive(row: int, size: int, summand: str, known: bool) -> None:
    """``sum over i < size and c < 2 of exp(x_i) [t_c == i]`` is not 0 where t_c, a position in a row of four or any
    integer, is known to be one of the i; and only there."""
    w = Workbench()
    b, x = w.b, w.input("x", size)
    chosen = w.input("t", 4, dtype=FLOAT if row else INT)
    if row:
        (chosen,) = b.rows("argsort", [chosen], 0, (False,), [(row, INT)])
    guard = b.equal(b.reshape(b.slice(chosen, 0, 0, 2, 1), (2, 1)), b.reshape(b.iota(size), (1, size)))
    value = b.expand(b.reshape(b.exp(x) if summand == "exp" else x, (1, size)), (2, size))
    total = b.sum(b.where(guard, value, 0), (0, 1))
    ((_, form),) = total.value.pieces
    assert (decided(w.store, "equal", form, None) == 0) == known
    if not known and summand == "exp":  # nothing may be chosen: the sum is 0
        given = [4, 5, 0, 1] if not row else [3.0, 2.0, 1.0, 0.0]
        assert w.value(total, {"x": np.zeros(size), "t": np.array(given)}) == (0 if not row else 1)
