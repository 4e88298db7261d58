"""Rows of attention of which a mask leaves something, whatever the data: the diagonal of documents compared with
themselves, a first column that is always kept. That was not seen, so a plain softmax was UNKNOWN against one that is 0
on a row of which everything is masked."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import tantamount as tt
from tantamount.verdict import Verdict

torch = pytest.importorskip("torch")

LENGTH = 6


def rows() -> Any:
    return torch.arange(LENGTH)[:, None]


def columns() -> Any:
    return torch.arange(LENGTH)[None, :]


def same(document: Any, other: Any) -> Any:
    return document[:, None] == other[None, :]


Mask = Callable[[Any, Any, Any], Any]  # of documents, other documents, and what is valid
LEAVES_SOMETHING: dict[str, Mask] = {
    "document": lambda d, e, v: same(d, d),
    "causal document": lambda d, e, v: (rows() >= columns()) & same(d, d),
    "document ahead": lambda d, e, v: (rows() <= columns()) & same(d, d),
    "window of a document": lambda d, e, v: (rows() >= columns()) & (rows() - columns() < 3) & same(d, d),
    "two kinds of documents": lambda d, e, v: same(d, d) & same(e, e) & (rows() >= columns()),
    "window and first column": lambda d, e, v: (columns() == 0) | ((rows() >= columns()) & (rows() - columns() < 2)),
    "valid or first": lambda d, e, v: v[None, :] | (columns() == 0),
    "valid or diagonal": lambda d, e, v: (v[None, :] & (rows() >= columns())) | (rows() == columns()),
    "neighbours": lambda d, e, v: (rows() - columns() < 2) & (columns() - rows() < 2),
    "documents next to each other": lambda d, e, v: same(d, d) | same(d, d + 1),
}
MAY_LEAVE_NOTHING: dict[str, Mask] = {
    "earlier": lambda d, e, v: rows() > columns(),
    "earlier of a document": lambda d, e, v: (rows() > columns()) & same(d, d),
    "other documents": lambda d, e, v: same(d, e),
    "causal, other documents": lambda d, e, v: (rows() >= columns()) & same(d, e),
    "valid": lambda d, e, v: v[None, :].expand(LENGTH, LENGTH),
    "valid before": lambda d, e, v: v[None, :] & (rows() >= columns()),
    "valid diagonal": lambda d, e, v: v[None, :] & (rows() == columns()),
    "next document": lambda d, e, v: same(d, d + 1),
    "not of a document": lambda d, e, v: ~same(d, d),
    "window behind": lambda d, e, v: (rows() - columns() < 3) & (rows() - columns() >= 1) & same(d, d),
    "reversed document": lambda d, e, v: (rows() > columns()) & same(d, d.flip(0)),
}


def check(mask: Mask) -> tt.Report:
    def guarded(x: Any, d: Any, e: Any, v: Any) -> Any:
        seen = mask(d, e, v)
        return x.masked_fill(~seen, float("-inf")).softmax(-1).masked_fill(~seen.any(-1, keepdim=True), 0)

    def plain(x: Any, d: Any, e: Any, v: Any) -> Any:
        return x.masked_fill(~mask(d, e, v), float("-inf")).softmax(-1)

    whole = torch.zeros(LENGTH, dtype=torch.long)
    inputs = (torch.zeros(LENGTH, LENGTH), whole, whole.clone(), torch.zeros(LENGTH, dtype=torch.bool))
    return tt.refine(
        tt.capture(guarded, inputs),
        tt.capture_ranks(lambda _: (plain, inputs), 1, mesh={"tp": 1}),
        outputs={"output": "Replicate()"},
    )


@pytest.mark.parametrize("name", LEAVES_SOMETHING)
def test_a_row_of_which_something_is_left_has_a_softmax(name: str) -> None:
    report = check(LEAVES_SOMETHING[name])
    assert report.verdict is Verdict.PROVED, str(report)


@pytest.mark.parametrize("name", MAY_LEAVE_NOTHING)
def test_a_row_of_which_nothing_may_be_left_has_none(name: str) -> None:
    assert check(MAY_LEAVE_NOTHING[name]).verdict is not Verdict.PROVED
