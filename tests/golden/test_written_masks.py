"""Masks and ignored labels as programs write them, in one way or another, and wrong twins: at every number of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import tantamount as tt
from tantamount.verdict import Verdict

torch = pytest.importorskip("torch")
from torch import Tensor  # noqa: E402
from torch.nn import functional as F  # noqa: E402

LENGTH, WINDOW = 5, 2
X, DOCUMENTS = torch.ones(LENGTH, LENGTH), torch.zeros(LENGTH, dtype=torch.int64)


def apart() -> Tensor:
    return torch.arange(LENGTH)[:, None] - torch.arange(LENGTH)


def window() -> Tensor:
    return (apart() >= 0) & (apart() < WINDOW)


def first_key() -> Tensor:
    return (torch.arange(LENGTH)[:, None] - WINDOW + 1).clamp(min=0)


def counted(wide: int) -> Tensor:
    place = torch.ones(LENGTH, dtype=torch.int64).cumsum(0)
    return (place[:, None] >= place) & (place[:, None] < place + wide)


def lower(offset: int) -> Tensor:
    return torch.ones(LENGTH, LENGTH).tril(offset)


WINDOWS: dict[str, Callable[[int], Tensor]] = {  # how many keys a query sees
    "clamped": lambda n: apart() == apart().clamp(0, n - 1),
    "clamped twice": lambda n: apart() == apart().clamp(min=0).clamp(max=n - 1),
    "first and last key": lambda n: (
        (torch.arange(LENGTH) >= first_key() - (n - WINDOW))
        & (torch.arange(LENGTH) < torch.arange(LENGTH)[:, None] + 1)
    ),
    "a difference": lambda n: lower(0) - lower(-n) > 0,
    "exclusive or": lambda n: lower(0).bool() ^ lower(-n).bool(),
    "diagonals": lambda n: sum(torch.diag(torch.ones(LENGTH - k), -k) for k in range(n)) > 0,  # type: ignore[arg-type]
    "a product": lambda n: ((apart() >= 0).long() * (apart() < n).long()).bool(),
    "running sums": counted,
}


def attending(mask: Callable[[], Tensor]) -> Callable[[Tensor], Tensor]:
    return lambda x: x.masked_fill(~mask(), float("-inf")).softmax(-1)


def verdict(first: Callable[..., Any], second: Callable[..., Any], *given: Tensor) -> Verdict:
    return tt.refine(tt.capture(first, given), tt.capture(second, given)).verdict


@pytest.mark.parametrize("name", WINDOWS)
def test_sliding_windows(name: str) -> None:
    own = WINDOWS[name]
    assert bool((own(WINDOW) == window()).all())
    assert verdict(attending(window), attending(lambda: own(WINDOW)), X) is Verdict.PROVED
    if name in ("clamped", "exclusive or"):
        assert verdict(attending(window), attending(lambda: own(WINDOW + 1)), X) is Verdict.REFUTED


def of_documents(same: Callable[[Tensor, Tensor], Tensor]) -> Callable[[Tensor, Tensor], Tensor]:
    def run(x: Tensor, documents: Tensor) -> Tensor:
        return x.masked_fill(~(same(documents[:, None], documents) & (apart() >= 0)), float("-inf")).softmax(-1)

    return run


def test_documents() -> None:
    """Conditions on the same data that are equal in every case."""
    first = of_documents(lambda a, b: a == b)
    for same in (lambda a, b: (a - b).abs() < 1, lambda a, b: ~((a < b) | (a > b))):
        assert verdict(first, of_documents(same), X, DOCUMENTS) is Verdict.PROVED
    assert verdict(first, of_documents(lambda a, b: (a - b).abs() < 2), X, DOCUMENTS) is Verdict.REFUTED


def clamped(divisor: Callable[[Tensor], Tensor], ignored: int) -> Callable[[Tensor, Tensor], Tensor]:
    def run(x: Tensor, labels: Tensor) -> Tensor:
        loss = x.log_softmax(-1).gather(1, labels.clamp(min=0)[:, None])[:, 0]
        return -(loss * (labels != ignored)).sum() / divisor(labels)

    return run


def test_ignored_labels_that_are_clamped() -> None:
    labels = torch.zeros(LENGTH, dtype=torch.int64)
    count = lambda labels: (labels != -100).sum()  # noqa: E731
    given = lambda x, labels: F.cross_entropy(x, labels)  # noqa: E731
    assert verdict(given, clamped(count, -100), X, labels) is Verdict.PROVED
    assert verdict(given, clamped(count, -1), X, labels) is Verdict.REFUTED
