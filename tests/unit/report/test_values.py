"""Short forms of numbers, lists and text."""

from __future__ import annotations

import pytest

from tantamount.report.lines import listed, middle, printable
from tantamount.report.values import number, shape_of, shortened, sparse


@pytest.mark.parametrize(
    ("value", "shown"),
    [(0.5, "0.5"), (1.0, "1"), (0.1 + 0.2, "0.30000000000000004"), (float("nan"), "nan"), (7, "7"), (True, "True")],
)
def test_number(value: object, shown: str) -> None:
    assert number(value) == shown


@pytest.mark.parametrize(
    ("value", "shape"), [(1.0, ()), ([], (0,)), ([[1, 2, 3], [4, 5, 6]], (2, 3)), ([[], []], (2, 0))]
)
def test_shape_of(value: object, shape: tuple[int, ...]) -> None:
    assert shape_of(value) == shape


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (3, "3"),
        ([], "[]"),
        (list(range(12)), "[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]"),
        (list(range(13)), "[0, 1, 2, ...]"),
        ([[0] * 5] * 5, "[[0, 0, 0, ...], [0, 0, 0, ...], [0, 0, 0, ...], ...]"),
    ],
)
def test_shortened(value: object, shown: str) -> None:
    assert shortened(value) == shown


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ([0.0] * 12, None),  # short enough as it is
        ([0.0] * 13, "0 everywhere"),
        ([[0, 0.5], *[[0, 0]] * 9, [0.25, 0]], "0 but [0, 1] = 0.5, [10, 0] = 0.25"),
        ([[True] * 5] * 5, "True everywhere"),
        ([1, 2, 3, 4, 5, 6, *[0] * 20], "0 but [0] = 1, [1] = 2, [2] = 3, [3] = 4, [4] = 5, [5] = 6"),
        ([1, 2, 3, 4, 5, 6, 7, *[0] * 20], None),
        (3.0, None),
    ],
)
def test_sparse(value: object, shown: str | None) -> None:
    assert sparse(value) == shown


def test_listed() -> None:
    assert listed(["a", "b"], 2) == "a, b"
    assert listed(["a", "b", "c"], 2) == "a, b and 1 more"
    assert listed([], 2) == ""


def test_middle_keeps_both_ends_and_the_width() -> None:
    assert middle("abc", 3) == "abc"
    cut = middle("a" * 50 + "b" * 50, 40)
    assert len(cut) == 40
    assert cut.startswith("aaaa")
    assert cut.endswith("bbbb")


def test_printable_leaves_ordinary_text_alone() -> None:
    assert printable("Σ x · ε [a]") == "Σ x · ε [a]"
    assert printable("\ud800\n\t") == "\\ud800\\n\\t"
