"""A call that registered hooks on its parameters, once and for all, was refused. Transformers' tensor does so.

A call that asked its modules for hooks found some of ours there, which noted what runs. And a call that asked by
identity whether it had seen a parameter saw another stand-in in every call that was traced: a program whose first call
does something else than all others was captured as if they were alike.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import tantamount as tt
from tantamount.errors import UserError

torch = pytest.importorskip("torch", reason="captures need PyTorch")
import torch.distributed as dist  # noqa: E402
from torch import Tensor, nn  # noqa: E402

RANKS = 2


def average(parameter: Tensor) -> None:
    dist.all_reduce(parameter.grad)
    parameter.grad /= RANKS


def nothing(parameter: Tensor) -> None:
    parameter.grad *= 1


def registering(model: nn.Module, hook: Callable[[Tensor], None]) -> Callable[[Tensor], None]:
    """As ``transformers.distributed`` does: a forward function that registers hooks on parameters it has not seen."""
    seen: dict[str, Tensor] = {}
    forward = model.forward

    def registering_forward(x: Tensor) -> Tensor:
        for name, parameter in model.named_parameters(recurse=False):
            if parameter.requires_grad and seen.get(name) is not parameter:
                parameter.register_post_accumulate_grad_hook(hook)
                seen[name] = parameter
        return forward(x)

    model.forward = registering_forward
    return lambda x: model(x).square().mean().backward()


@pytest.mark.parametrize(("hook", "verdict"), [(average, tt.Verdict.PROVED), (nothing, tt.Verdict.REFUTED)])
def test_hooks_that_the_first_call_registers_are_part_of_the_program(
    hook: Callable[[Tensor], None], verdict: tt.Verdict
) -> None:
    def build(rank: int) -> Any:
        model = nn.Linear(4, 4)
        return registering(model, hook), (torch.ones(2, 4),), {"modules": model}

    whole = nn.Linear(4, 4)
    specification = tt.capture(lambda x: whole(x).square().mean().backward(), (torch.ones(4, 4),), modules=whole)
    ranks = tt.capture_ranks(build, RANKS, mesh={"dp": RANKS})
    assert tt.refine(specification, ranks, inputs={"x": "Shard(0)"}).verdict is verdict


def test_a_hook_that_is_there_is_not_registered_again() -> None:
    """The call asks for the parameter itself, which was another object during the capture: the hook was there twice."""
    model = nn.Linear(4, 4)

    def doubled(parameter: Tensor) -> None:
        parameter.grad.mul_(2)

    step = registering(model, doubled)
    step(torch.ones(2, 4))
    model.zero_grad()
    captured = tt.capture(step, (torch.ones(2, 4),), modules=model)
    doublings = [node for node in captured.graph.nodes if node.target == "aten.mul.Tensor" and 2 in node.args]
    assert len(doublings) == 2, "one for each parameter"


def test_a_program_is_left_as_it_was() -> None:
    model = nn.Linear(4, 4)

    def step(x: Tensor) -> Tensor:
        if not model._forward_hooks:
            model.register_forward_hook(lambda module, args, y: 2 * y)
        return model(x)

    captured = tt.capture(step, (torch.ones(2, 4),), modules=model)
    assert "aten.mul.Tensor" in [node.target for node in captured.graph.nodes]
    assert not model._forward_hooks


def test_the_next_call_finds_the_parameters_that_this_one_found() -> None:
    model = nn.Linear(4, 4)
    seen: list[Tensor] = []

    def step(x: Tensor) -> Tensor:
        if any(parameter is model.weight for parameter in seen):
            return model(x)
        seen[:] = [model.weight]
        return 2 * model(x)

    with pytest.raises(UserError, match="a call that changes seen") as problem:
        tt.capture(step, (torch.ones(2, 4),), modules=model)
    assert problem.value.code == "capture-state"
