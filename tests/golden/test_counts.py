"""``torch.bincount`` with a ``minlength`` is what it was captured as only where nothing larger is counted: that has to
be shown, of specifications, too."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import tantamount as tt
from tantamount.verdict import Verdict

torch = pytest.importorskip("torch")
from torch import Tensor  # noqa: E402
from torch.nn.functional import one_hot  # noqa: E402

I, X = torch.zeros(5, dtype=torch.int64), torch.ones(5, 4)
Program = Callable[..., Any]


def count(i: Tensor) -> Tensor:
    return torch.bincount(i, minlength=4)


def verdict(first: Program, second: Program, *given: Tensor) -> Verdict:
    return tt.refine(tt.capture(first, given), tt.capture(second, given)).verdict


def test_counts_whose_range_is_shown() -> None:
    hot = lambda i: one_hot(i, 4).sum(0)  # noqa: E731
    for places in (lambda i: i % 4, lambda i: i.clamp(0, 3), lambda i: (i > 0).long()):
        assert verdict(lambda i, p=places: count(p(i)), lambda i, p=places: hot(p(i)), I) is Verdict.PROVED
    best = lambda x: x.topk(2).indices.flatten()  # noqa: E731
    assert verdict(lambda x: count(best(x)), lambda x: hot(best(x)), X) is Verdict.PROVED
    assert verdict(lambda i: count(i % 4), lambda i: hot((i + 1) % 4), I) is Verdict.REFUTED
    assert verdict(hot, count, I) is Verdict.PROVED  # one_hot stops where it is not in range


def test_counts_of_any_data() -> None:
    compared = lambda i: (i[:, None] == torch.arange(4)).sum(0)  # noqa: E731
    assert verdict(count, compared, I) is Verdict.UNKNOWN
    assert verdict(compared, count, I) is Verdict.REFUTED
    sized = lambda x, i: x * count(i).shape[0]  # noqa: E731 - 4, or more
    beside = lambda x, i: (count(i), x * 4)[1]  # noqa: E731
    for other in (lambda x, i: x * 4, beside):
        assert verdict(sized, other, X, I) is Verdict.UNKNOWN
        assert verdict(other, sized, X, I) is not Verdict.PROVED
