"""Functions of what is looked up, by an index that is in range, or by one that may be nowhere, are looked up.

Every wrong variant is refuted on values; what is only equal where an index is in range is never proved."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import tantamount as tt
from tantamount import Verdict

torch = pytest.importorskip("torch", reason="programs are captured")

X, B, I, S = torch.randn(5, 3), torch.randn(2), torch.tensor([0, 2, 4]), torch.tensor(1)


def _window(x: Any, b: Any, i: Any) -> Any:
    return x.index_put((torch.arange(2) + i.clamp(0, 3),), b)


def _read(x: Any, i: Any) -> Any:
    return x[torch.arange(2) + i.clamp(0, 3)]


def _normed(x: Any) -> Any:
    return x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-5)


# of rows that are gathered: what is done to all rows and to those that are chosen
ROWS: dict[str, Callable[..., Any]] = {
    "relu": lambda x: x.relu(),
    "softmax": lambda x: x.softmax(-1),
    "a norm": _normed,
    "the greatest": lambda x: x.amax(-1),
    "a sorted row": lambda x: x.sort(-1)[0],
    "its place": lambda x: x.argmax(-1),
    "a choice": lambda x: torch.where(x > 0, x, 2 * x),
    "a row that is masked": lambda x: x.masked_fill(x > 0.5, -9.0).logsumexp(-1),
}
AT: dict[str, Callable[[Any], Any]] = {"as it is": lambda i: i, "clamped": lambda i: (i - 1).clamp(0, 4)}


@pytest.mark.parametrize("name", ROWS)
def test_rows_are_chosen_before_or_after(name: str) -> None:
    f = ROWS[name]
    for at in AT.values():
        wanted = tt.capture(lambda x, i, at=at: f(x)[at(i)], (X, I))
        assert tt.refine(wanted, tt.capture(lambda x, i, at=at: f(x[at(i)]), (X, I))).verdict is Verdict.PROVED
    spec = tt.capture(lambda x, i: f(x)[i], (X, I))
    other = tt.capture(lambda x, i: f(x[i.clamp(0, 3)]), (X, I))
    assert tt.refine(spec, other).verdict is Verdict.REFUTED


Pair = tuple[Callable[..., Any], Callable[..., Any], Callable[..., Any]]
WINDOWS: dict[str, Pair] = {
    "relu of a window that was written": (
        lambda x, b, i: _window(x, b, i).relu(),
        lambda x, b, i: _window(x.relu(), b.relu(), i),
        lambda x, b, i: _window(x.relu(), b, i),
    ),
    "the greater of it and others": (
        lambda x, b, i: torch.maximum(_window(x, b, i), x.flip(0)),
        lambda x, b, i: _window(torch.maximum(x, x.flip(0)), torch.maximum(b, _read(x.flip(0), i)), i),
        lambda x, b, i: _window(torch.maximum(x, x.flip(0)), torch.maximum(b, _read(x, i)), i),
    ),
    "exp of what may be nowhere": (
        lambda x, b, i: ((torch.arange(5) == i) * x).sum().exp(),
        lambda x, b, i: ((torch.arange(5) == i) * x.exp()).sum() + 1 - (torch.arange(5) == i).sum(),
        lambda x, b, i: ((torch.arange(5) == i) * x.exp()).sum(),
    ),
}


@pytest.mark.parametrize("name", WINDOWS)
def test_what_is_found_and_what_is_not(name: str) -> None:
    given = (X[:, 0], B, S)
    spec, right, wrong = (tt.capture(program, given) for program in WINDOWS[name])
    assert tt.refine(spec, right).verdict is Verdict.PROVED
    assert tt.refine(spec, wrong).verdict is Verdict.REFUTED


def test_what_is_nowhere_makes_no_logarithm_and_no_quotient() -> None:
    """``log`` of an element that may be none is minus infinity there, which the sum over places does not say."""
    given = (X[:, 0].exp(), S)
    for f in (torch.log, torch.reciprocal):
        spec = tt.capture(lambda x, i, f=f: ((torch.arange(5) == i) * f(x)).sum(), given)
        program = tt.capture(lambda x, i, f=f: f(((torch.arange(5) == i) * x).sum()), given)
        assert tt.refine(spec, program).verdict is not Verdict.PROVED


def test_places_of_one_table_that_another_does_not_have() -> None:
    """``[i == v]`` for v below 3 holds nowhere for i = 4, where ``[i == w]`` for w below 5 does."""
    given = (X[:, 0], S)

    def few(x: Any, i: Any) -> Any:
        return ((torch.arange(3) == i) * x[:3]).sum()

    def many(x: Any, i: Any) -> Any:
        return ((torch.arange(5) == i) * x).sum()

    spec = tt.capture(lambda x, i: (few(x, i) + many(x, i)).exp(), given)
    wrong = tt.capture(
        lambda x, i: ((torch.arange(3) == i) * (2 * x[:3]).exp()).sum() + 1 - (torch.arange(3) == i).sum(), given
    )
    assert tt.refine(spec, wrong).verdict is Verdict.REFUTED
