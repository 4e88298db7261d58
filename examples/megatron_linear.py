"""Hand-written tensor parallelism as in Megatron: a column-parallel and a row-parallel layer, with their gradients.

Communication is inside ``autograd.Function``: the identity whose backward pass all-reduces, and the all-reduce whose
backward pass is the identity. The broken twin forgets the all-reduce of the backward pass: the loss is right, and so
are the gradients of both layers; what came before gets a partial gradient.

    python examples/megatron_linear.py
"""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import Tensor, nn

import tantamount as tt

RANKS, WIDTH, HIDDEN = 2, 8, 32


class CopyToRanks(torch.autograd.Function):
    """Forward: the identity. Backward: every rank has a part of the gradient; their sum is the gradient."""

    @staticmethod
    def forward(_, x: Tensor) -> Tensor:
        return x

    @staticmethod
    def backward(_, grad: Tensor) -> Tensor:
        grad = grad.clone()
        dist.all_reduce(grad)
        return grad


class CopyToRanksForward(torch.autograd.Function):
    """The broken twin of CopyToRanks: nothing is reduced on the way back."""

    @staticmethod
    def forward(_, x: Tensor) -> Tensor:
        return x

    @staticmethod
    def backward(_, grad: Tensor) -> Tensor:
        return grad


class ReduceFromRanks(torch.autograd.Function):
    """Forward: the sum over ranks. Backward: the identity."""

    @staticmethod
    def forward(_, x: Tensor) -> Tensor:
        x = x.clone()
        dist.all_reduce(x)
        return x

    @staticmethod
    def backward(_, grad: Tensor) -> Tensor:
        return grad


class ColumnParallelLinear(nn.Module):
    def __init__(self, width: int, out: int, copy: type[torch.autograd.Function]) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(out // RANKS, width))
        self.bias = nn.Parameter(torch.empty(out // RANKS))
        self.copy = copy

    def forward(self, x: Tensor) -> Tensor:
        return nn.functional.linear(self.copy.apply(x), self.weight, self.bias)


class RowParallelLinear(nn.Module):
    def __init__(self, width: int, out: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(out, width // RANKS))
        self.bias = nn.Parameter(torch.empty(out))

    def forward(self, x: Tensor) -> Tensor:
        return ReduceFromRanks.apply(x @ self.weight.t()) + self.bias


class Block(nn.Module):
    """``x + down(gelu(up(norm(x))))``"""

    def __init__(self, up: nn.Module, down: nn.Module) -> None:
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(WIDTH), up, down

    def forward(self, x: Tensor) -> Tensor:
        return x + self.down(nn.functional.gelu(self.up(self.norm(x))))


def training(model: nn.Module):
    def step(x: Tensor, target: Tensor) -> Tensor:
        loss = (model(x) - target).square().mean()
        loss.backward()
        return loss

    return step


def check(*, broken: bool = False) -> tt.Report:
    batch = (torch.randn(4, WIDTH), torch.randn(4, WIDTH))
    sequential = Block(nn.Linear(WIDTH, HIDDEN), nn.Linear(HIDDEN, WIDTH))

    def build(rank: int):
        copy = CopyToRanksForward if broken else CopyToRanks
        return training(Block(ColumnParallelLinear(WIDTH, HIDDEN, copy), RowParallelLinear(HIDDEN, WIDTH))), batch

    spec = tt.capture(training(sequential), batch)  # forward and backward, on one device
    impl = tt.capture_ranks(build, RANKS, mesh={"tp": RANKS})  # build(rank) -> (function, args); ranks are simulated
    return tt.refine(
        spec,
        impl,
        inputs={"up.*": "Shard(0)", "down.weight": "Shard(1)"},  # plain tensors have no placements
        outputs={"grad up.*": "Shard(0)", "grad down.weight": "Shard(1)"},
    )


if __name__ == "__main__":
    report = check()
    print(report)
    report.raise_if_not_proved()
    print()
    print(check(broken=True))
