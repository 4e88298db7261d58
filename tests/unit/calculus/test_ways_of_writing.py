"""What two implementations of one model write in two ways has one form; wrong twins have not."""

from __future__ import annotations

import numpy as np
import pytest

from support.calculus import Workbench
from tantamount.calculus.compare import equal
from tantamount.errors import Unsupported
from tantamount.ir.types import DType
from tantamount.ops.algebra import Tensor

INT, FLOAT = DType.INT64, DType.FLOAT64


def same(w: Workbench, x: Tensor, y: Tensor, *, expand: bool = True) -> bool:
    return equal(w.store, x.value, y.value, expand=expand) is None


def test_a_scaled_sum_in_an_exponent() -> None:
    w = Workbench()
    b, n = w.b, w.input("n", 4)
    x, y, z = (w.input(name, 4) for name in "xyz")
    whole = b.exp(b.mul(n, b.add(b.add(x, y), z)))
    termwise = b.exp(b.add(b.add(b.mul(n, x), b.mul(n, y)), b.mul(n, z)))
    assert same(w, whole, termwise, expand=False)
    assert not same(w, whole, b.exp(b.add(b.add(b.mul(n, x), b.mul(n, y)), z)))
    data = {"n": np.array([1.0, -2, 0.5, 0]), "x": np.array([0.1, 0.2, -1, 3]), "y": np.ones(4), "z": -np.ones(4)}
    expected = np.exp(data["n"] * (data["x"] + data["y"] + data["z"]))
    np.testing.assert_allclose(w.value(whole, data), expected, rtol=1e-12)


def test_an_exponent_of_a_masked_sum() -> None:
    """A guard that is a sum of terms (a band) stays whole, and -inf with it."""
    w = Workbench()
    b, x, y, n = w.b, w.input("x", 6, 6), w.input("y", 6, 6), w.input("n", 6, 1)
    i, j = b.reshape(b.iota(6), (6, 1)), b.reshape(b.iota(6), (1, 6))
    band = b.and_(b.not_(b.less(i, j)), b.less(i, b.add(j, 3)))
    scores = b.mul(n, b.add(x, y))
    chosen = b.where(band, scores, -b.infinity)
    added = b.add(b.add(b.mul(n, x), b.mul(n, y)), b.where(band, b.number(0.0, FLOAT), -b.infinity))
    assert same(w, b.exp(chosen), b.exp(added))
    other = b.and_(b.not_(b.less(i, j)), b.less(i, b.add(j, 2)))
    assert not same(w, b.exp(chosen), b.exp(b.where(other, scores, -b.infinity)))


@pytest.mark.parametrize("before", [True, False])
def test_positions_are_counted(before: bool) -> None:
    w = Workbench()
    b = w.b
    i, j = b.reshape(b.iota(5), (5, 1)), b.reshape(b.iota(5), (1, 5))
    guard = b.less(j, i) if before else b.not_(b.less(i, j))
    count = b.sum(b.cast(guard, INT), [1])
    written = b.iota(5) if before else b.add(b.iota(5), 1)
    assert same(w, count, written, expand=False)
    assert not same(w, count, b.add(written, 1))
    beyond = b.sum(b.cast(b.less(j, b.add(i, 3)), INT), [1])  # never more than there are
    assert not same(w, beyond, b.add(b.iota(5), 3))
    assert w.value(beyond, {}).tolist() == [3, 4, 5, 5, 5]


def test_a_selection_is_lifted() -> None:
    w = Workbench()
    b, x = w.b, w.input("x", 4, 3)
    chosen, other = w.input("chosen", 4, 2, dtype=INT), w.input("other", 4, 2, dtype=INT)
    up, down, weight = w.input("up", 3, 5, 3), w.input("down", 3, 5), w.input("weight", 4, 2)
    taken = b.contract("tkfh,th->tkf", b.gather(up, [chosen, None, None]), x)
    gathered = b.contract("tkf,tkf,tk->t", b.exp(taken), b.gather(down, [chosen, None]), weight)

    def masked(index: Tensor, shift: int = 0) -> Tensor:
        hot = b.cast(b.equal(b.reshape(index, (4, 2, 1)), b.add(b.iota(3), shift)), FLOAT)
        each = b.contract("tef,ef->te", b.exp(b.contract("efh,th->tef", up, x)), down)
        return b.contract("tke,te,tk->t", hot, each, weight)

    assert same(w, gathered, masked(chosen))
    assert not same(w, gathered, masked(other))
    assert not same(w, gathered, masked(chosen, 1))
    crossed = b.contract("tkf,tkf,tk->t", b.exp(taken), b.gather(down, [other, None]), weight)
    assert not same(w, crossed, masked(chosen))


def test_an_index_that_is_a_position_reads_pieces() -> None:
    w = Workbench()
    b = w.b
    x = b.concat([b.exp(w.input("x", 4)), w.input("y", 4)], 0)
    place = b.add(b.iota(6), 1)
    assert same(w, b.gather(x, [place]), b.slice(x, 0, 1, 7), expand=False)
    backwards = b.sub(b.number(7, INT), b.iota(8))
    assert same(w, b.gather(x, [backwards]), b.flip(x, [0]), expand=False)
    assert not same(w, b.gather(x, [place]), b.slice(x, 0, 2, 8))


def test_turned_queries_and_keys_depend_on_the_distance() -> None:
    w = Workbench()
    b, q, k, f = w.b, w.input("q", 2, 3), w.input("k", 2, 3), w.input("f", 3)

    def turned(x: Tensor, position: int) -> tuple[Tensor, Tensor]:
        angle = b.mul(f, position)
        cos, sin = b.function("cos", angle), b.function("sin", angle)
        first, second = b.select(x, 0, 0), b.select(x, 0, 1)
        return b.sub(b.mul(first, cos), b.mul(second, sin)), b.add(b.mul(second, cos), b.mul(first, sin))

    def score(at: int, to: int) -> Tensor:
        (a, c), (d, e) = turned(q, at), turned(k, to)
        return b.exp(b.add(b.sum(b.mul(a, d)), b.sum(b.mul(c, e))))

    assert same(w, score(7, 4), score(3, 0))
    assert not same(w, score(7, 4), score(3, 1))
    assert not same(w, score(7, 4), score(4, 7))


@pytest.mark.parametrize("table", [(4, 1, 5, 2), (3, 2, 1, 0), (0, 5, 1, 4)])
def test_what_is_written_by_a_table_is_read_by_it(table: tuple[int, ...]) -> None:
    w = Workbench()
    b, x = w.b, w.input("x", 4, 3)
    blocks = b.table(table, (4,), INT)
    cache = b.scatter(b.full((6, 3), 0, DType.FLOAT32), [blocks, None], x, accumulate=False)
    assert same(w, b.gather(cache, [blocks, None]), x)


@pytest.mark.parametrize("table", [(4, 1, 4, 2), (0, 1, 2, 2)])
def test_of_blocks_that_are_one_nothing_is_said(table: tuple[int, ...]) -> None:
    w = Workbench()
    b, x = w.b, w.input("x", 4, 3)
    with pytest.raises(Unsupported, match="two writes"):
        b.scatter(b.full((6, 3), 0, DType.FLOAT32), [b.table(table, (4,), INT), None], x, accumulate=False)
