"""Hooks of parameters vanished: a capture computed with copies of the parameters, on which nothing was registered.

Averaging in hooks was REFUTED, and hooks that double every gradient were PROVED.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import tantamount as tt

torch = pytest.importorskip("torch", reason="captures need PyTorch")
import torch.distributed as dist  # noqa: E402
from torch import Tensor, nn  # noqa: E402

RANKS = 2


def step_of(model: nn.Module) -> Callable[[Tensor], None]:
    def step(x: Tensor) -> None:
        model(x).square().mean().backward()

    return step


def refine(register: Callable[[Tensor], Any]) -> tt.Report:
    def build(rank: int) -> Any:
        model = nn.Linear(4, 4)
        for parameter in model.parameters():
            register(parameter)
        return step_of(model), (torch.ones(2, 4),)

    specification = tt.capture(step_of(nn.Linear(4, 4)), (torch.ones(4, 4),))
    return tt.refine(specification, tt.capture_ranks(build, RANKS, mesh={"dp": RANKS}), inputs={"x": "Shard(0)"})


def average(gradient: Tensor) -> Tensor:
    gradient = gradient.clone()
    dist.all_reduce(gradient)
    return gradient / RANKS


def average_after(parameter: Tensor) -> None:
    dist.all_reduce(parameter.grad)
    parameter.grad /= RANKS


def average_twice(parameter: Tensor) -> None:
    average_after(parameter)
    parameter.grad *= 2


@pytest.mark.parametrize(
    ("register", "verdict"),
    [
        (lambda p: p.register_hook(average), tt.Verdict.PROVED),
        (lambda p: p.register_post_accumulate_grad_hook(average_after), tt.Verdict.PROVED),
        (lambda p: None, tt.Verdict.REFUTED),
        (lambda p: (p.register_hook(average), p.register_hook(lambda g: 2 * g)), tt.Verdict.REFUTED),
        (lambda p: p.register_post_accumulate_grad_hook(average_twice), tt.Verdict.REFUTED),
    ],
    ids=["averaged", "averaged after", "not at all", "doubled", "doubled after"],
)
def test_hooks_are_part_of_the_program(register: Callable[[Tensor], Any], verdict: tt.Verdict) -> None:
    assert refine(register).verdict is verdict


def test_a_hook_of_the_specification_counts() -> None:
    model = nn.Linear(4, 4)
    model.weight.register_hook(lambda gradient: 3 * gradient)
    whole = tt.capture(step_of(model), (torch.ones(4, 4),))
    report = tt.refine(whole, tt.capture(step_of(nn.Linear(4, 4)), (torch.ones(4, 4),)))
    assert {output.name: output.verdict for output in report.outputs} == {
        "grad weight": tt.Verdict.REFUTED,
        "grad bias": tt.Verdict.PROVED,
    }


def test_a_constant_is_as_it_was() -> None:
    """A tensor that a function closes over was written while it was captured, and the graph did not say so."""
    total = torch.zeros(3)

    def step(x: Tensor) -> Tensor:
        total.add_(1)
        return x + total

    with pytest.raises(tt.UserError) as problem:
        tt.capture(step, (torch.ones(3),))
    assert problem.value.code == "capture-state"
    assert total.tolist() == [0, 0, 0]


def test_data_is_a_new_value() -> None:
    """``p.data = ...`` was dropped."""
    model = nn.Linear(4, 4)

    def step(x: Tensor) -> None:
        for parameter in model.parameters():
            parameter.data = parameter.data * 2

    assert {output.name for output in tt.capture(step, (torch.ones(4),)).graph.outputs} == {"new weight", "new bias"}


def test_data_that_are_given_back_are_no_change() -> None:
    """Backward passes said that a weight had been modified since the forward pass."""
    model = nn.Linear(4, 4, bias=False)

    def step(x: Tensor) -> Tensor:
        y = model(x)
        model.weight.data = model.weight.data.to(torch.float32)
        y.square().sum().backward()
        return y

    assert {output.name for output in tt.capture(step, (torch.ones(4),)).graph.outputs} == {"output", "grad weight"}


def test_python_state_is_as_it_was() -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.last: Tensor | None = None
            self.seen = [1]

        def forward(self, x: Tensor) -> Tensor:
            self.last = x * 2
            return x + 1

    model = Model()
    tt.capture(model, (torch.ones(3),))
    assert model.last is None
    assert model.seen == [1]


def test_optimizers_that_hooks_refer_to_are_found() -> None:
    model = nn.Linear(4, 4)
    optimizers = {p: torch.optim.SGD([p], lr=0.1, momentum=0.5) for p in model.parameters()}

    def update(parameter: Tensor) -> None:
        optimizers[parameter].step()
        optimizers[parameter].zero_grad()

    for parameter in model.parameters():
        parameter.register_post_accumulate_grad_hook(update)
    outputs = {output.name for output in tt.capture(step_of(model), (torch.ones(2, 4),)).graph.outputs}
    assert outputs == {
        "new weight", "new bias", "new optimizer:weight.momentum_buffer", "new optimizer:1:bias.momentum_buffer",
    }  # fmt: skip
