"""Rows that are searched were assumed to be sorted, so that a search in any row was PROVED equal to a count."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import tantamount as tt
from tantamount.verdict import Verdict

torch = pytest.importorskip("torch", reason="captures need PyTorch")
from torch import Tensor  # noqa: E402

Program = Callable[[Tensor, Tensor], Tensor]
PLACES = torch.tensor([-1.0, 0.0, 0.5, 2.0])
ROW, WANTED = torch.tensor([1.0, 1.0, -0.5, 0.5, -2.0]), torch.tensor([1.0, -1.0, 0.5])
SEARCHES: dict[str, Program] = {
    "searchsorted": lambda x, y: torch.searchsorted(x, y),
    "bucketize": lambda x, y: torch.bucketize(y, x),
    "with a sorter": lambda x, y: torch.searchsorted(x, y, sorter=torch.arange(5)),
}


def verdict(specification: Program, implementation: Program) -> Verdict:
    given = (ROW, WANTED)
    return tt.refine(tt.capture(specification, given), tt.capture(implementation, given)).verdict


def count(x: Tensor, y: Tensor) -> Tensor:
    return (x < y[:, None]).sum(1)


@pytest.mark.parametrize("name", SEARCHES)
def test_a_search_in_any_row_is_no_count(name: str) -> None:
    search = SEARCHES[name]
    assert not torch.equal(search(ROW, WANTED), count(ROW, WANTED))
    assert verdict(search, count) is Verdict.REFUTED
    assert verdict(count, search) is Verdict.REFUTED


@pytest.mark.parametrize("name", SEARCHES)
def test_a_search_is_itself(name: str) -> None:
    assert verdict(SEARCHES[name], lambda x, y: SEARCHES[name](x + 0, 2 * y - y)) is Verdict.PROVED


@pytest.mark.parametrize("right", [False, True])
@pytest.mark.parametrize("row", [PLACES, torch.arange(4.0), torch.linspace(-1, 1, 5), torch.ones(1)], ids=str)
def test_a_search_in_a_row_that_is_shown_to_be_sorted_is_a_count(row: Tensor, right: bool) -> None:
    def counted(x: Tensor, y: Tensor) -> Tensor:
        return ((row <= y[:, None]) if right else (row < y[:, None])).sum(1)

    assert verdict(lambda x, y: torch.bucketize(y, row, right=right), counted) is Verdict.PROVED


def test_places_that_are_found_are_in_range() -> None:
    def padded(x: Tensor, y: Tensor) -> Tensor:
        return torch.cat([x, x[:1]])[torch.searchsorted(x, y)]

    assert verdict(padded, lambda x, y: padded(x, y) * 1) is Verdict.PROVED
    short = tt.capture(lambda x, y: x[torch.searchsorted(x, y)], (ROW, WANTED))
    assert tt.refine(tt.capture(lambda x, y: x[:3] * 0 + y, (ROW, WANTED)), short).verdict is not Verdict.PROVED
