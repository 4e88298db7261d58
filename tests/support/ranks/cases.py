"""What a case is, and the table of cases."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

__all__ = ["CASES", "RANKS", "Built", "Case", "batch", "case", "linear"]

RANKS = 4


@dataclass(frozen=True)
class Built:
    """The program of one rank."""

    function: Callable[..., Any]
    args: tuple[Any, ...]
    modules: Mapping[str, nn.Module] = field(default_factory=dict)
    optimizers: tuple[torch.optim.Optimizer, ...] = ()


@dataclass(frozen=True)
class Case:
    """One row of the table: a program that is captured, or refused with a code. One that is ``alone`` shares a
    program with no other, for what it does concerns all; ``run`` says whether gloo can run it, ``mesh`` is its own."""

    group: str
    name: str
    build: Callable[[int], Built]
    refused: str = ""
    alone: bool = False
    run: bool = True
    mesh: Mapping[str, int] = field(default_factory=dict)


CASES: list[Case] = []


def case(group: str, name: str, **options: Any) -> Callable[[Callable[[int], Built]], Callable[[int], Built]]:
    """Add a program to the table."""

    def add(build: Callable[[int], Built]) -> Callable[[int], Built]:
        alone = bool(options.pop("alone", False) or options.get("refused") or options.get("mesh"))
        CASES.append(Case(group, name, build, alone=alone, **options))
        return build

    return add


def batch(rank: int, *shape: int) -> Tensor:
    """Small whole numbers, others on every rank."""
    shape = shape or (2, 3)
    count = int(torch.tensor(shape).prod())
    return ((torch.arange(count) * (rank + 2) + rank) % 7 - 2.0).reshape(shape)


def linear() -> nn.Linear:
    """A layer with the same weights on every rank."""
    layer = nn.Linear(3, 2)
    with torch.no_grad():
        layer.weight.copy_(torch.arange(6.0).reshape(2, 3) / 4 - 0.5)
        layer.bias.copy_(torch.tensor([0.25, -0.5]))
    return layer
