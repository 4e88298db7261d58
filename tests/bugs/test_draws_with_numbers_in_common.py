"""Draws of other numbers from one state of the random generator are not those of a program that never restores it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import tantamount as tt
from tantamount.errors import UserError
from tantamount.verdict import Verdict

torch = pytest.importorskip("torch")
from torch import Tensor  # noqa: E402
from torch.nn import functional  # noqa: E402

Drawing = Callable[[Tensor], Tensor]
X = torch.arange(1.0, 21.0)
COMMON: dict[str, tuple[Drawing, Drawing]] = {
    "shapes": (lambda x: torch.rand(20), lambda x: torch.rand(4, 5).reshape(20)),
    "operators": (lambda x: torch.rand(20), lambda x: torch.empty(20).uniform_()),
    "probabilities": (lambda x: functional.dropout(x, 0.5, True), lambda x: functional.dropout(x, 0.25, True)),
    "of values": (lambda x: torch.bernoulli(x / 20), lambda x: torch.bernoulli(x / 21)),
    "around values": (lambda x: torch.normal(x, 1.0), lambda x: torch.normal(x.sqrt(), 1.0)),
    "weighted": (lambda x: torch.multinomial(x, 20), lambda x: torch.multinomial(x.sqrt(), 20)),
    "after values": (lambda x: (torch.poisson(x), torch.rand(20))[1], lambda x: (torch.poisson(x), torch.rand(20))[1]),
}


def _twice(first: Drawing, second: Drawing, again: bool) -> Drawing:
    def run(x: Tensor) -> Tensor:
        state = torch.get_rng_state()
        drawn = first(x)
        if again:
            torch.set_rng_state(state)
        return x * (drawn - second(x))

    return run


@pytest.mark.parametrize("name", COMMON)
def test_states_that_are_put_back(name: str) -> None:
    """These were PROVED to be what the same draws from two states are, which they are not in eager."""
    results: list[Tensor] = []
    for again in (True, False):
        torch.manual_seed(1)
        results.append(_twice(*COMMON[name], again)(X))
    assert not torch.equal(*results)
    tt.capture(_twice(*COMMON[name], again=False), (X,))
    with pytest.raises(UserError, match="from one state"):
        tt.capture(_twice(*COMMON[name], again=True), (X,))


def test_default_generator_by_name() -> None:
    """A draw from ``torch.default_generator`` moves on what later draws are drawn from, whether it is used or not."""

    def run(x: Tensor) -> Tensor:
        state = torch.get_rng_state()
        drawn = torch.rand(20)
        torch.set_rng_state(state)
        torch.rand(7, generator=torch.default_generator)
        return x * (drawn - torch.rand(20))

    with pytest.raises(UserError, match="from one state"):
        tt.capture(run, (X,))


def test_one_draw_of_several_from_one_state() -> None:
    """What nobody uses has nothing in common with anything that is."""

    def run(x: Tensor) -> Tensor:
        torch.manual_seed(0)
        torch.rand(7)
        torch.manual_seed(0)
        return functional.dropout(x, 0.5, True)

    report = tt.refine(tt.capture(run, (X,)), tt.capture(run, (X,)), assume={"dropout": "same mask"})
    assert report.verdict is Verdict.PROVED
