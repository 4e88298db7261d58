"""Tensors recognised by their values."""

from __future__ import annotations

import numpy as np
import pytest

from tantamount.correspond.values import Parts, rows_of, windows
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
