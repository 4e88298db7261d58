"""Draws of one state of the random generator are one node of the graph, as they are the same numbers in eager."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

import tantamount as tt
from tantamount.errors import UserError
from tantamount.ir.graph import Graph, references
from tantamount.verdict import Verdict

torch = pytest.importorskip("torch")
from torch import Tensor, nn  # noqa: E402
from torch.nn import functional  # noqa: E402
from torch.utils.checkpoint import checkpoint  # noqa: E402

DRAWS: tuple[Callable[[Tensor], Tensor], ...] = (
    lambda x: torch.rand(20),
    lambda x: torch.rand_like(x),
    lambda x: torch.randn(3, 7),
    lambda x: torch.empty(20).exponential_(2.0),
    lambda x: torch.empty(4, 5).normal_(0, 2).reshape(20),
    lambda x: torch.randint(0, 1 << 20, (20,)),
    lambda x: torch.randperm(20),
    lambda x: functional.dropout(x, 0.5, True),
    lambda x: torch.native_dropout(x, 0.25, True)[0],
    lambda x: torch.bernoulli(x / 100, 0.5),
)
X = torch.arange(1.0, 41.0)


def program(
    actions: list[int | str], states: list[tuple[bytes, int]] | None = None
) -> Callable[[Tensor], tuple[Tensor, ...]]:
    """A function that draws (a number of ``DRAWS``), and saves, restores and seeds the generator in between.
    ``states`` gets the state before each draw, in eager."""

    def run(x: Tensor) -> tuple[Tensor, ...]:
        saved = [torch.get_rng_state()]
        drawn: list[Tensor] = []

        def draw(which: int) -> None:
            if states is not None:
                states.append((torch.get_rng_state().numpy().tobytes(), which))
            drawn.append(DRAWS[which](x))

        for action in actions:
            if isinstance(action, int):
                draw(action)
            elif action == "save":
                saved.append(torch.get_rng_state())
            elif action == "restore":
                torch.set_rng_state(saved[-1])
            elif action == "fork":
                with torch.random.fork_rng(devices=[]):
                    draw(0)
            else:
                torch.manual_seed(5)
        return tuple(drawn)

    return run


def classes(items: list[Any]) -> list[int]:
    """For each item the position of the first one that is equal to it."""
    return [next(k for k, other in enumerate(items) if other == item) for item in items]


def drawn_by(graph: Graph, name: str) -> tuple[str, ...]:
    """The draws that a node is computed from."""
    node = graph.by_name[name]
    if "empty" in node.target:
        return ()
    inside = [d for one in references(node) for d in drawn_by(graph, one)]
    random = any(word in node.target for word in ("rand", "bernoulli", "native_dropout.", "exponential", "normal"))
    return (*inside, *([name] if random else []))


@pytest.mark.parametrize("seed", range(16))
def test_equal_draws_are_those_of_eager(seed: int) -> None:
    r = random.Random(seed)
    kinds = r.sample(range(len(DRAWS)), 2)
    actions = [r.choice([*kinds, *kinds, "save", "restore", "restore", "fork", "seed"]) for _ in range(9)]
    torch.manual_seed(100 + seed)
    before = torch.get_rng_state()
    states: list[tuple[bytes, int]] = []
    eager = program(actions, states)(X)
    torch.set_rng_state(before)
    if len({state for state, _ in states}) < len(
        set(states)
    ):  # other numbers from one state, which have some in common
        with pytest.raises(UserError, match="from one state"):
            tt.capture(program(actions), (X,))
        assert torch.equal(torch.get_rng_state(), before)
        return
    captured = tt.capture(program(actions), (X,))
    assert torch.equal(torch.get_rng_state(), before), "the capture leaves the generator as it was"
    found = [drawn_by(captured.graph, output.node) for output in captured.graph.outputs]
    assert classes(found) == classes([(x.shape, x.tolist()) for x in eager]), actions


class Block(nn.Module):
    """A block with a dropout; ``saving``: what its activation checkpoint is told (``None``: it has none)."""

    def __init__(self, saving: bool | None) -> None:
        super().__init__()
        self.up, self.saving = nn.Linear(4, 6), saving

    def body(self, x: Tensor) -> Tensor:
        return functional.dropout(torch.tanh(self.up(x)), 0.25, True)

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        if self.saving is None:
            x = self.body(x)
        else:
            x = checkpoint(self.body, x, use_reentrant=False, preserve_rng_state=self.saving)
        return torch.autograd.grad(x.square().sum(), list(self.parameters()))


def test_checkpoint_around_dropout() -> None:
    """The recomputed masks are those of the forward pass, if the state of the generator was saved."""
    models = {saving: Block(saving) for saving in (None, True, False)}
    x, eager = torch.randn(3, 4), {}
    for saving, model in models.items():
        model.load_state_dict(models[None].state_dict())
        torch.manual_seed(1)
        eager[saving] = model(x)
    same = {saving: all(map(torch.equal, eager[None], eager[saving])) for saving in (True, False)}
    assert same == {True: True, False: False}
    spec = tt.capture(models[None], (x,))
    for saving in (True, False):
        report = tt.refine(spec, tt.capture(models[saving], (x,)), assume={"dropout": "same mask"})
        assert (report.verdict is Verdict.PROVED) is same[saving], str(report)
    assert tt.refine(spec, tt.capture(models[True], (x,))).verdict is Verdict.UNKNOWN  # nobody says which masks


def test_checkpoint_around_draws_of_values() -> None:
    """What is drawn by probabilities is drawn once more by the same ones, computed once more."""

    def body(x: Tensor) -> Tensor:
        return torch.bernoulli(x.sigmoid()) * x.exp()

    def run(weight: Tensor, saving: bool | None) -> Tensor:
        y = body(weight) if saving is None else checkpoint(
            body, weight, use_reentrant=False, preserve_rng_state=saving
        )  # fmt: skip
        return torch.autograd.grad(y.square().sum(), weight)[0]

    weight = torch.ones(3, 4, requires_grad=True)
    spec = tt.capture(lambda weight: run(weight, None), (weight,))
    for saving in (True, False):
        program = tt.capture(lambda weight, saving=saving: run(weight, saving), (weight,))
        report = tt.refine(spec, program, assume={"dropout": "same mask"})
        assert (report.verdict is Verdict.PROVED) is saving, str(report)
