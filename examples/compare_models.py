"""Two implementations of one gated layer, written apart: other names, fused against separate weights, other formulas.

Nobody says which weight is which. ``load`` is what fills the second one from a checkpoint of the first; it is run on
numbered checkpoints, and tells.

    python examples/compare_models.py
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import rms_norm, silu

import tantamount as tt

WIDTH, HIDDEN = 8, 12


class Reference(nn.Module):
    """A norm that stores its weight less 1, and a gate that is fused with its twin."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.Parameter(torch.zeros(WIDTH))
        self.gate_up = nn.Linear(WIDTH, 2 * HIDDEN, bias=False)
        self.down = nn.Linear(HIDDEN, WIDTH, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        h = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * (1 + self.norm)
        gate, up = self.gate_up(h).chunk(2, dim=-1)
        return x + self.down(silu(gate) * up)


class Rewrite(nn.Module):
    """A fused norm, and one matrix for each step."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(WIDTH))
        self.w1, self.w3 = (nn.Linear(WIDTH, HIDDEN, bias=False) for _ in range(2))
        self.w2 = nn.Linear(HIDDEN, WIDTH, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        h = rms_norm(x, (WIDTH,), self.scale, eps=1e-6)
        return x + self.w2(silu(self.w1(h)) * self.w3(h))


def load(model: Rewrite, checkpoint: dict[str, Tensor]) -> None:
    model.scale.copy_(1 + checkpoint["norm"])
    first, second = checkpoint["gate_up.weight"].chunk(2)
    model.w1.weight.copy_(first)
    model.w3.weight.copy_(second)
    model.w2.weight.copy_(checkpoint["down.weight"])


def load_exchanged(model: Rewrite, checkpoint: dict[str, Tensor]) -> None:
    load(model, checkpoint)
    second, first = checkpoint["gate_up.weight"].chunk(2)
    model.w1.weight.copy_(first)
    model.w3.weight.copy_(second)


def check(*, broken: bool = False) -> tt.Report:
    loader = load_exchanged if broken else load
    return tt.compare(Reference(), Rewrite(), inputs=(torch.zeros(3, WIDTH),), loaders=(None, loader))


def reference():  # what `tantamount compare compare_models:reference compare_models:rewrite` calls
    return Reference(), (torch.zeros(3, WIDTH),)


def rewrite():
    return Rewrite(), (torch.zeros(3, WIDTH),), {"load": load}


if __name__ == "__main__":
    report = check()
    print(report)
    report.raise_if_not_proved()
    print()
    print(check(broken=True))
