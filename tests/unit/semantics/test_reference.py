"""The primitives over NumPy, each against the sentence of ops.algebra; undefined values, overflow, flags."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from fractions import Fraction
from math import inf, nan
from typing import Any

import numpy as np
import pytest

from tantamount.errors import InternalError, Unsupported
from tantamount.ir.types import DType, Kind
from tantamount.ops.algebra import PerRank
from tantamount.ops.functions import Ties
from tantamount.semantics.noisy import Noisy
from tantamount.semantics.reference import Flag, IntegerOverflow, Reference


@pytest.fixture(autouse=True)
def _no_warnings() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def floats(*values: float) -> Any:
    return np.array(values, dtype=np.float64)


def ints(*values: int) -> Any:
    return np.array(values, dtype=np.int64)


def same(found: Any, wanted: Any, dtype: Any = None) -> None:
    np.testing.assert_array_equal(found, wanted)
    assert isinstance(found, np.ndarray)
    if dtype is not None:
        assert found.dtype == dtype


# ---------------------------------------------------------------------------------------------- sources
def test_constants() -> None:
    r = Reference(rank=2)
    same(r.constant(Fraction(1, 4), Kind.FLOAT), 0.25, np.float64)
    same(r.constant(-inf, Kind.FLOAT), -inf)
    same(r.constant(7, Kind.INT), 7, np.int64)
    same(r.constant(True, Kind.BOOL), True, np.bool_)
    same(r.constant(PerRank((1, 2, 3, 4)), Kind.INT), 3, np.int64)
    same(r.table((1, 2, 3, 4, 5, 6), (2, 3), Kind.INT), [[1, 2, 3], [4, 5, 6]], np.int64)
    same(r.table((), (0, 3), Kind.FLOAT), np.zeros((0, 3)))
    same(r.iota(3), [0, 1, 2], np.int64)
    with pytest.raises(IntegerOverflow):
        r.constant(2**63, Kind.INT)


def test_unknowns_differ_by_rank_site_and_call_and_are_reproducible() -> None:
    def first(rank: int, site: str, seed: int = 0) -> Any:
        return Reference(rank=rank, seed=seed).unknown((4,), DType.FLOAT32, site)

    same(first(0, "a"), first(0, "a"))
    assert not np.any(first(0, "a") == first(1, "a"))
    assert not np.any(first(0, "a") == first(0, "b"))
    assert not np.any(first(0, "a") == first(0, "a", seed=1))
    r = Reference()
    assert not np.any(r.unknown((4,), DType.FLOAT32, "a") == r.unknown((4,), DType.FLOAT32, "a"))
    assert r.unknown((2,), DType.INT32, "i").dtype == np.int64
    assert r.unknown((2,), DType.BOOL, "b").dtype == np.bool_


def test_masks_are_paired_by_ordinal() -> None:
    a, b = Reference(rank=0), Reference(rank=1)
    first, second = (a.mask(None, (50,), Fraction(1, 2), site) for site in "xy")
    same(b.mask(None, (50,), Fraction(1, 2), "elsewhere"), first, np.bool_)
    assert np.any(first != second)
    assert Reference().mask(None, (50,), 0, "x").all()
    assert not Reference().mask(None, (50,), 1, "x").any()


def test_masks_that_the_caller_gives() -> None:
    asked: list[Any] = []

    def masks(site: str, ordinal: int, shape: tuple[int, ...], p: Any) -> Any:
        asked.append((site, ordinal, shape, p))
        return np.ones((3,) if ordinal else shape)

    r = Reference(masks=masks)
    same(r.mask(None, (2,), Fraction(1, 10), "d"), [True, True], np.bool_)
    assert asked == [("d", 0, (2,), Fraction(1, 10))]
    with pytest.raises(InternalError, match="shape"):
        r.mask(None, (2,), Fraction(1, 10), "d")


# ---------------------------------------------------------------------------------------------- undefined values
def test_powers() -> None:
    r = Reference()
    same(r.power(floats(2, -2, 0), Fraction(2)), [4, 4, 0])
    same(r.power(floats(4, 0, -4, -inf), Fraction(1, 2)), [2, 0, nan, nan])
    same(r.power(floats(8, -8), Fraction(1, 3))[1:], [nan])
    same(r.power(floats(2, 0, -2, inf), Fraction(-1)), [0.5, inf, -0.5, 0])
    same(r.power(floats(4, 0, -4), Fraction(-1, 2)), [0.5, inf, nan])
    same(r.power(floats(0, nan, 3), Fraction(0)), [1, nan, 1])
    same(r.power(ints(3, -2), Fraction(3)), [27, -8], np.int64)
    with pytest.raises(Unsupported):
        r.power(ints(2), Fraction(-1))


def test_what_is_undefined_is_nan() -> None:
    r = Reference()
    same(r.mul(floats(0), floats(inf)), [nan])
    same(r.add(floats(inf), floats(-inf)), [nan])
    same(r.log(floats(-1, 0, 1)), [nan, -inf, 0])
    same(r.exp(floats(-inf, 0)), [0, 1])
    same(r.maximum(floats(nan, 1), floats(2, 2)), [nan, 2])
    same(r.contract([(floats(0, 1), (0,)), (floats(inf, 1), (0,))], ()), nan)
    same(r.function("pow", [floats(0, 2, -1), floats(-1, 3, 0.5)]), [inf, 8, nan])
    same(r.function("sin", [floats(0, inf)]), [0, nan])
    assert r.flags == []


def test_where_takes_nothing_from_the_other_side() -> None:
    r = Reference()
    condition = np.array([True, False])
    same(r.where(condition, floats(1, nan), floats(inf, 2)), [1, 2])
    same(r.where(ints(1, 0), floats(1, nan), floats(inf, 2)), [1, 2])


def test_comparisons_of_nothing_are_flagged() -> None:
    r = Reference()
    same(r.less(floats(nan, 1), floats(1, 2)), [False, True], np.bool_)
    same(r.equal(floats(nan), floats(nan)), [False], np.bool_)
    assert r.flags == [Flag("undefined-comparison", 1)] * 2


def test_integers_that_are_undefined_are_flagged() -> None:
    r = Reference()
    same(r.convert(floats(nan, inf, -3), Kind.FLOAT, Kind.INT), [0, 0, -3], np.int64)
    same(r.function("floor_divide", [ints(7, -7, 1), ints(2, 2, 0)]), [3, -4, 0], np.int64)
    assert r.flags == [Flag("undefined-integer", 2), Flag("zero-divisor", 1)]


def test_powers_of_integers_round_towards_zero() -> None:
    r = Reference()
    bases, exponents = ints(2, 3, -1, -1, 1, 0, -2), ints(-1, 2, -1, -2, -5, -1, -3)
    same(r.function("integer_pow", [bases, exponents]), [0, 9, -1, 1, 1, 0, 0], np.int64)
    assert not r.flags


def test_choices_among_equal_elements_are_flagged_and_may_be_others() -> None:
    row = floats(1, 2, 2, 0)
    for name, ties, first in (
        ("order", Ties.USUAL, 1),
        ("order", Ties.REVERSED, 2),
        ("argsort", Ties.REVERSED, 1),  # promised
    ):
        r = Reference(ties=ties)
        attributes = (True, 1, "topk") if name == "order" else (True,)
        (order,) = r.rows(name, [row], attributes, [4])
        assert order[0] == first
        assert r.flags == ([Flag("tie", 1)] if name == "order" else [])
    r = Reference()
    r.rows("order", [floats(3, 2, 2, 0)], (True, 1, "topk"), [4])  # the tie is not among what is used
    assert not r.flags


def test_orders_of_the_least_integer_and_of_no_number() -> None:
    r = Reference()
    least = np.iinfo(np.int64).min
    same(r.rows("argsort", [ints(least, 3, least)], (True,), [3])[0], [1, 0, 2], np.int64)
    assert not r.flags
    r.rows("argsort", [floats(nan, 1)], (True,), [2])
    assert r.flags == [Flag("undefined-comparison", 1)]


# ---------------------------------------------------------------------------------------------- exact integers
def test_integers_do_not_wrap() -> None:
    r = Reference()
    large = ints(2**61, 3)
    same(r.add(large, ints(2**61, 1)), [2**62, 4], np.int64)
    same(r.mul(ints(2**40, 1), ints(1, 2**40)), [2**40, 2**40], np.int64)
    same(r.contract([(ints(2**61, -(2**61), 5), (0,))], ()), 5, np.int64)
    for wraps in (
        lambda: r.add(large, ints(2**62, 0)),
        lambda: r.mul(large, large),
        lambda: r.power(large, Fraction(2)),
        lambda: r.contract([(large, (0,)), (large, (0,))], ()),
        lambda: r.function("integer_pow", [ints(2**20), ints(5)]),
        lambda: r.convert(floats(1e30), Kind.FLOAT, Kind.INT),
        lambda: r.scatter(ints(2**62), [ints(0)], ints(2**62), True),
    ):
        with pytest.raises(IntegerOverflow):
            wraps()


def test_conversions() -> None:
    r = Reference()
    same(r.convert(np.array([True, False]), Kind.BOOL, Kind.INT), [1, 0], np.int64)
    same(r.convert(ints(1, 0), Kind.BOOL, Kind.FLOAT), [1, 0], np.float64)
    same(r.convert(ints(5), Kind.INT, Kind.FLOAT), [5], np.float64)
    assert r.flags == []
    r.convert(ints(2**53 + 1, 1), Kind.INT, Kind.FLOAT)
    assert r.flags == [Flag("inexact", 1)]


def test_booleans_count() -> None:
    """0 and 1 may come as booleans or as integers: sums count, they do not saturate."""
    r = Reference()
    flags = np.array([True, True, False])
    same(r.add(flags, flags), [2, 2, 0], np.int64)
    same(r.contract([(flags, (0,))], ()), 2, np.int64)


def test_whole_numbers_stay_integers() -> None:
    same(Reference().function("floor", [ints(3)]), [3], np.int64)
    same(Reference().function("trunc", [floats(-1.5)]), [-1])


# ---------------------------------------------------------------------------------------------- layout and contraction
def test_layout() -> None:
    r = Reference()
    x = np.arange(6).reshape(2, 3)
    same(r.permute(x, (1, 0)), x.T)
    assert r.permute(np.arange(24).reshape(2, 3, 4), (2, 0, 1))[3, 1, 2] == 23
    same(r.reshape(x, (3, 2)), [[0, 1], [2, 3], [4, 5]])
    same(r.expand(x[:, :1], (2, 2)), [[0, 0], [3, 3]])
    same(r.slice(x, 1, 0, 3, 2), [[0, 2], [3, 5]])
    same(r.flip(x, 1), [[2, 1, 0], [5, 4, 3]])
    same(r.concat([x, x[:, :1]], 1), [[0, 1, 2, 0], [3, 4, 5, 3]])
    same(r.maximum_over(x, (0,)), [3, 4, 5])


def test_contractions() -> None:
    r = Reference()
    x, y = np.random.default_rng(0).standard_normal((2, 3, 3))
    np.testing.assert_allclose(r.contract([(x, (40, 7)), (y, (7, 2))], (40, 2)), x @ y)
    np.testing.assert_allclose(r.contract([(x, (0, 0))], (0,)), np.diag(x))
    np.testing.assert_allclose(r.contract([(x, (0, 0))], ()), np.trace(x))
    np.testing.assert_allclose(r.contract([(x, (0, 1)), (y, (1, 2)), (x, (2, 3))], (3, 0)), (x @ y @ x).T)
    same(r.contract([(np.zeros((0, 2)), (0, 1))], (1,)), [0, 0])
    large = np.random.default_rng(1).standard_normal((2, 60, 60))
    np.testing.assert_allclose(r.contract([(large[0], (0, 1)), (large[1], (1, 2))], (0, 2)), large[0] @ large[1])
    with pytest.raises(Unsupported, match="53 labels"):
        r.contract([(np.zeros((1,) * 27), tuple(range(27))), (np.zeros((1,) * 26), tuple(range(27, 53)))], ())


# ---------------------------------------------------------------------------------------------- indexing
def test_gather_by_its_equation() -> None:
    r = Reference()
    x = np.random.default_rng(0).standard_normal((3, 4, 5))
    i, j = np.array([[0, 2], [1, 1]]), np.array([[4, 0], [3, 3]])
    found = r.gather(x, [i, None, j])
    assert found.shape == (2, 2, 4)
    for a, b, k in np.ndindex(2, 2, 4):
        assert found[a, b, k] == x[i[a, b], k, j[a, b]]
    same(r.gather(x, [None, np.array(2), None]), x[:, 2])


def test_gather_out_of_range() -> None:
    r = Reference()
    same(r.gather(floats(5, 6), [ints(1, 2, -1)]), [6, nan, nan])
    same(r.gather(ints(5, 6), [ints(0, 9)]), [5, 0], np.int64)
    same(r.gather(np.zeros((0, 2)), [ints(0), None]), [[nan, nan]])
    assert r.out_of_range == [("", 2), ("", 1), ("", 1)]


def test_scatter_writes_where_gather_reads() -> None:
    r = Reference()
    x = np.zeros((3, 4, 5))
    i, j = np.array([0, 2]), np.array([4, 0])
    source = np.random.default_rng(0).standard_normal((2, 4))
    found = r.scatter(x, [i, None, j], source, False)
    same(r.gather(found, [i, None, j]), source)
    np.testing.assert_allclose(found.sum(), source.sum())
    same(x, np.zeros((3, 4, 5)))


def test_scatter_that_adds() -> None:
    r = Reference()
    same(r.scatter(floats(1, 1), [ints(0, 0, 1)], floats(2, 3, 4), True), [6, 5])
    same(r.scatter(ints(1, 1), [ints(0, 0, 5)], ints(2, 3, 4), True), [6, 1])
    assert r.flags == [Flag("out-of-range", 1)]


def test_two_writes_that_meet_are_undefined() -> None:
    r = Reference()
    same(r.scatter(floats(1, 1), [ints(0, 0)], floats(2, 3), False), [nan, 1])
    assert r.flags == [Flag("double-write", 1)]


def test_writes_of_one_value_meet_unseen() -> None:
    """Of NaN, too: a specification that writes one was taken for one that is not defined, and nothing refuted."""
    r = Reference()
    same(r.scatter(floats(1, 1), [ints(0, 0)], floats(2, 2), False), [2, 1])
    same(r.scatter(floats(1, 1), [ints(0, 1)], floats(nan, 3), False), [nan, 3])
    assert r.flags == []
    same(r.scatter(floats(1, 1), [ints(0, 0)], floats(nan, 3), False), [nan, 1])
    assert r.flags == [Flag("double-write", 1)]


def test_rows() -> None:
    (found,) = Reference().rows("argsort", [floats(3, 1, 2)], (True,), [3])
    same(found, [0, 2, 1])
    with pytest.raises(InternalError, match="declared"):
        Reference().rows("argsort", [floats(3, 1, 2)], (True,), [2])


def test_a_group_is_the_rank_alone() -> None:
    r = Reference()
    inner, value = r.enter_group(floats(1, 2), (2,), "tp")
    assert inner is r
    same(value, [[1, 2]])
    same(r.leave_group(value, (2,), "tp"), [1, 2])


@pytest.mark.parametrize(("exponent", "least"), [(-744.0, 1e-2), (-800.0, 1e-2), (-10.0, 0.0)])
def test_rounding_errors_of_what_underflows_are_seen(exponent: float, least: float) -> None:
    """The logarithm of a number of few digits is off by much, and of one that became 0 it is none."""
    x = np.full((8,), exponent)
    logs = [r.log(r.exp(x)) for r in (Noisy(noise=1), Noisy(noise=2))]
    apart = float(np.abs(logs[0] - logs[1]).max())
    assert apart > least if least else apart < 1e-12
    assert (Noisy(noise=1).exp(np.full((2,), -np.inf)) == 0).all()
