"""An order of n numbers has every position once: what is at two of its places is equal where the places are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import tantamount as tt
from tantamount import Verdict

torch = pytest.importorskip("torch", reason="programs are captured")

KEYS, ROWS = torch.randint(0, 9, (5,)), torch.randn(3, 2)


def _verdict(wanted: Callable[..., Any], program: Callable[..., Any], *given: Any) -> Verdict:
    return tt.refine(tt.capture(wanted, given), tt.capture(program, given)).verdict


def _same(places: Callable[[Any], Any]) -> Callable[..., Any]:
    """Which of some numbers, computed from keys, are equal."""

    def program(keys: Any) -> Any:
        found = places(keys).reshape(-1)
        return (found[:, None] == found).float()

    return program


def _table(keys: Any, count: int = 3) -> Any:
    return torch.argsort(keys, stable=True)[:count]


def _slots(size: int) -> Callable[..., Any]:
    return lambda keys: _table(keys)[:, None] * size + torch.arange(2)


def test_places_are_equal_where_they_are_one() -> None:
    right = {"order": lambda keys: _table(keys, 5), "its beginning": _table, "slots of blocks of two": _slots(2)}
    right |= {"the largest": lambda keys: torch.topk(keys.float(), 3)[1]}
    for name, places in right.items():
        count = places(KEYS).numel()
        assert _verdict(lambda keys, n=count: torch.eye(n), _same(places), KEYS) is Verdict.PROVED, name
    wrong = {"blocks of one": _slots(1)}
    wrong |= {"two orders": lambda keys: torch.cat([_table(keys), _table(-keys)])}
    for name, places in wrong.items():
        count = places(KEYS).numel()
        assert _verdict(lambda keys, n=count: torch.eye(n), _same(places), KEYS) is Verdict.REFUTED, name


def test_a_cache_by_a_table_of_blocks_that_are_all_different() -> None:
    """Every such table is the beginning of an order of some keys, and no other is."""

    def cached(keys: Any, rows: Any) -> Any:
        table = _table(keys)
        return torch.zeros(5, 2).index_put((table,), rows)[table]

    def twice(keys: Any, rows: Any) -> Any:
        table = _table(keys) // 2
        return torch.zeros(5, 2).index_put((table,), rows, accumulate=True)[table]

    def other(keys: Any, rows: Any) -> Any:
        table = _table(keys)
        return torch.zeros(5, 2).index_put((table,), rows)[table.flip(0)]

    assert _verdict(lambda keys, rows: rows * 1, cached, KEYS, ROWS) is Verdict.PROVED
    for wrong in (twice, other):
        assert _verdict(lambda keys, rows: rows * 1, wrong, KEYS, ROWS) is Verdict.REFUTED
