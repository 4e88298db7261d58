"""A maximum of what a mask leaves nothing of is minus infinity, though none is in sight. Beside an infinity that is in
sight (``where(m, max, -inf) == -inf``) it was taken for a number, and ``~m`` was PROVED. Infinities that masks show are
compared by which masks hold."""

from __future__ import annotations

from collections.abc import Callable
from math import inf

import pytest

import tantamount as tt
from tantamount.verdict import Verdict

torch = pytest.importorskip("torch")
from torch import Tensor  # noqa: E402

Claim = Callable[[Tensor, Tensor, Tensor], Tensor]
X, MASK = torch.randn(3, 4), torch.zeros(3, 4, dtype=torch.bool)


def best(x: Tensor, n: Tensor) -> Tensor:
    return x.masked_fill(n, -inf).amax(-1, keepdim=True)


WRONG: dict[str, tuple[Claim, Claim]] = {
    "beside a mask": (lambda x, m, n: torch.where(m, best(x, n), -inf) == -inf, lambda x, m, n: ~m),
    "of two": (
        lambda x, m, n: torch.where(m, torch.maximum(x.masked_fill(n, -inf), x.masked_fill(m, -inf)), -inf) == -inf,
        lambda x, m, n: ~m,
    ),
    "running": (
        lambda x, m, n: torch.where(m, x.masked_fill(n, -inf).cummax(-1).values, -inf) == -inf, lambda x, m, n: ~m,
    ),
    "of maxima": (lambda x, m, n: torch.where(m, best(x, n), -inf).amax(-1) == -inf, lambda x, m, n: (~m).all(-1)),
    "compared with a mask": (
        lambda x, m, n: torch.where(m, best(x, n), -inf) == x.masked_fill(n, -inf),
        lambda x, m, n: (~m & n) | (m & ~n & (x == best(x, n))),
    ),
    "the other way": (lambda x, m, n: x.masked_fill(m, -inf).isinf(), lambda x, m, n: ~m),
    "not less": (lambda x, m, n: x.masked_fill(m, -inf) <= x.masked_fill(n, -inf), lambda x, m, n: m & ~n),
}  # fmt: skip

TRUE: dict[str, tuple[Claim, Claim]] = {
    "infinite": (lambda x, m, n: x.masked_fill(m, -inf).isinf(), lambda x, m, n: m),
    "equal": (
        lambda x, m, n: x.masked_fill(m, -inf) == x.masked_fill(n, -inf), lambda x, m, n: m == n,
    ),
    "less": (lambda x, m, n: x.masked_fill(m, -inf) < x.masked_fill(n, -inf), lambda x, m, n: m & ~n),
    "of both signs": (lambda x, m, n: x.masked_fill(m, -inf) < x.masked_fill(n, inf), lambda x, m, n: m | n),
    "no number": (lambda x, m, n: x.masked_fill(m, -inf).isnan(), lambda x, m, n: ~m & x.isnan()),
    "a maximum alone": (lambda x, m, n: best(x, n) == -inf, lambda x, m, n: n.all(-1, keepdim=True)),
}  # fmt: skip


def verdict(pair: tuple[Claim, Claim]) -> Verdict:
    first, second = (tt.capture(lambda x, m, n, claim=claim: claim(x, m, n).float(), (X, MASK, MASK)) for claim in pair)
    return tt.refine(first, second).verdict


@pytest.mark.parametrize("name", WRONG)
def test_wrong(name: str) -> None:
    assert verdict(WRONG[name]) is not Verdict.PROVED


@pytest.mark.parametrize("name", TRUE)
def test_true(name: str) -> None:
    assert verdict(TRUE[name]) is Verdict.PROVED
