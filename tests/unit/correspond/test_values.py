"""Tensors recognised by their values."""

from __future__ import annotations

import numpy as np
import pytest

from tantamount.correspond.values import Parts, added_up, rows_of, summable, totals, windows
from tantamount.effort import Effort


@pytest.mark.parametrize(
    ("whole", "part", "count"),
    [
        ((4, 6), (2, 6), 2),
        ((4, 6), (2, 3), 4),
        ((4, 6), (0, 6), 0),
        ((4,), (0,), 0),
        ((0, 6), (0, 6), 1),
        ((0,), (4,), 0),
    ],
)
def test_windows_are_equal_blocks_and_of_nothing_there_are_none(
    whole: tuple[int, ...], part: tuple[int, ...], count: int
) -> None:
    found = list(windows(Effort(), np.zeros(whole), part))
    assert len(found) == count
    assert all(value.shape == part for _, value in found)


def test_parts_are_found_by_their_values_and_as_multiples() -> None:
    one, other = np.random.default_rng(3).standard_normal((2, 2, 3))
    parts = Parts[str]()
    for name, value in {"one": one, "again": one.copy(), "twice": 2 * one, "other": other}.items():
        parts.add(name, value)
    assert list(parts.equal(one)) == ["one", "again"]
    assert list(parts.equal(-one)) == []
    assert dict(parts.multiples(-one)) == pytest.approx({"one": -1, "again": -1, "twice": -0.5})
    assert list(parts.equal(one.reshape(3, 2))) == []
    assert list(parts.equal(one * (1 + 1e-3))) == []


def test_tensors_that_are_added_together_are_found_as_if_one_by_one() -> None:
    random = np.random.default_rng(5)
    for size in (1, 2, 7, 3000):
        rows = random.standard_normal((12, size))
        rows[1], rows[2], rows[3, 0], rows[4, -1], rows[5, 0] = 0, np.nan, np.inf, np.nan, 1e6
        rows[6] *= random.random(size) < 0.3
        rows[7] = 3 * rows[8]
        alone, together = Parts[int](), Parts[int]()
        for k, row in enumerate(rows):
            alone.add(k, row)
        together.add_all(list(enumerate(rows)))
        together.add_all([])
        for row in (*rows, -2 * rows[0], 2 * rows[5]):
            assert list(together.equal(row)) == list(alone.equal(row))
            assert dict(together.multiples(row)) == pytest.approx(dict(alone.multiples(row)))


def test_what_is_not_a_number_is_found_among_such_alone() -> None:
    whole = np.random.default_rng(7).standard_normal((3, 4))
    holed = whole.copy()
    holed[1, 2] = np.nan
    parts = Parts[str]()
    parts.add("whole", whole)
    assert list(parts.multiples(holed)) == []
    assert [[*found] for found in parts.multiples_of_all([holed, whole])] == [[], [("whole", pytest.approx(1))]]
    parts.add("holed", holed)
    assert dict(parts.multiples(2 * holed)) == pytest.approx({"holed": 2})
    assert [dict(found) for found in parts.multiples_of_all([holed, whole])] == [
        pytest.approx({"holed": 1}),
        pytest.approx({"whole": 1}),
    ]


def test_several_tensors_are_multiples_of_what_each_is() -> None:
    random = np.random.default_rng(9)
    parts = Parts[int]()
    known = random.standard_normal((6, 2, 5))
    known[1, 0, 0], known[2, 0, 1], known[3, 1, 1] = np.inf, -1e30, 0
    parts.add_all(list(enumerate(known)))
    parts.add(6, np.array([4.0]))
    asked = [*known, *(-3 * known), *(known + 1e-12), *(known + 1e-3), known[0] * np.nan, 0 * known[0], known[0].T]
    asked += [np.array([4.0]), np.array([8.0]), np.zeros((0, 5)), random.standard_normal((2, 5))]
    assert list(map(dict, parts.multiples_of_all(asked))) == [
        pytest.approx(dict(parts.multiples(value))) for value in asked
    ]


def test_sums_of_several_groups_are_those_of_each() -> None:
    random = np.random.default_rng(11)
    a, b, c = random.standard_normal((3, 2, 5))
    masked = np.where(random.random((2, 5)) < 0.5, -np.inf, a)
    groups = [
        [a, b], [a, a.copy()], [a, a * (1 + 1e-12)], [a, b, c], [a, a, b], [a], [masked, masked], [masked, -masked],
        [a, b[:1]], [a[:0], b[:0]], [np.arange(3), np.arange(3) + 1], [a * np.nan, a], [c, a],
    ]  # fmt: skip
    with np.errstate(invalid="ignore"):
        wanted = [added_up(some) if summable(some) else None for some in groups]
    for found, right in zip(totals(groups), wanted, strict=True):
        assert (found is None) == (right is None)
        if found is not None and right is not None:
            np.testing.assert_array_equal(found, right)


def test_zeros_are_equal_and_no_multiples_and_what_is_not_finite_is_not_found() -> None:
    parts = Parts[str]()
    for name, value in {"zeros": np.zeros(4), "none": np.full(4, np.nan), "number": np.array([3.0])}.items():
        parts.add(name, value)
    assert list(parts.equal(np.zeros(4))) == ["zeros"]
    assert list(parts.multiples(np.zeros(4))) == []
    assert list(parts.equal(np.full(4, np.nan))) == []
    assert list(parts.multiples(np.array([6.0]))) == []  # any two numbers are multiples
    assert [part for part, _ in parts.multiples(np.array([3.0]))] == ["number"]


def test_rows_of_a_tensor() -> None:
    whole = np.random.default_rng(4).standard_normal((5, 3))
    whole[4] = whole[1]
    assert rows_of(whole, whole[[3, 4, 0]]) == (3, 1, 0)
    assert rows_of(whole, 2 * whole[:2]) is None


@pytest.mark.parametrize("masked", [-np.inf, -3.4e38, -1e4])
def test_tensors_with_masked_elements_are_told_apart_by_the_others(masked: float) -> None:
    scores, other = np.random.default_rng(5).standard_normal((2, 16, 16))
    above = np.triu(np.ones((16, 16)), 1) > 0
    parts = Parts[str]()
    parts.add("scores", np.where(above, masked, scores))
    assert list(parts.equal(np.where(above, masked, scores))) == ["scores"]
    assert list(parts.multiples(2 * np.where(above, masked, scores))) == [("scores", pytest.approx(2))]
    assert not list(parts.multiples(np.where(above, masked, scores + 0.01 * other)))


@pytest.mark.parametrize("left", [1e-18, 1e-17, 1e-16])
def test_tensors_of_which_most_elements_cancel_out_are_found_again(left: float) -> None:
    """The gradient of attention that is nearly one-hot: most elements are what rounding leaves of a difference."""
    random = np.random.default_rng(6)
    value = np.where(random.random((8, 16)) < 0.3, 0.02 * random.standard_normal((8, 16)) ** 3, 0.0)
    one, other = (value + left * random.standard_normal((8, 16)) for _ in range(2))
    parts = Parts[str]()
    parts.add_all([("gradient", one), ("twice", np.where(np.abs(one) < 0.001, 2 * one, one))])
    assert list(parts.equal(other)) == ["gradient"]
    assert [name for name, _ in parts.multiples(2 * other)] == ["gradient"]


def test_a_tensor_is_cut_into_as_many_parts_as_ranks_of_a_plan_are_looked_at() -> None:
    """Else what each of them has of a matrix that all axes cut would be taken for a value of its own."""
    ranks = Effort().bounds.part_ranks
    whole = np.arange(4.0 * ranks).reshape(ranks // 8, 32)
    assert len(list(windows(Effort(), whole, (1, 4)))) == ranks
