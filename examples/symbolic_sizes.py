"""One proof for every batch size and every sequence length: sequence parallelism written by hand, as in Megatron.

``dynamic`` names the sizes that stay symbols. Each rank works on its part of the sequence (``S // 2`` positions from
``rank * (S // 2)`` on), gathers it for the column-parallel layer, and reduces and scatters what the row-parallel layer
gives. What is proved holds for all sizes that the report names; the conditions among them (``S % 2 == 0``) are those
under which the program takes this way. The broken twin divides the loss of a rank by the number of its own elements.

    python examples/symbolic_sizes.py
"""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

import tantamount as tt

RANKS, WIDTH, HIDDEN = 2, 8, 32


def gathered(x: Tensor) -> Tensor:
    out = x.new_empty(RANKS * x.shape[0], *x.shape[1:])
    dist.all_gather_into_tensor(out, x.contiguous())
    return out


def scattered(x: Tensor) -> Tensor:
    out = x.new_empty(x.shape[0] // RANKS, *x.shape[1:])
    dist.reduce_scatter_tensor(out, x.contiguous())
    return out


class Gather(torch.autograd.Function):
    """Forward: all parts of the sequence. Backward: every rank has a summand of the gradient of all parts."""

    @staticmethod
    def forward(_: Any, x: Tensor) -> Tensor:
        return gathered(x)

    @staticmethod
    def backward(_: Any, grad: Tensor) -> Tensor:
        return scattered(grad)


class ReduceScatter(torch.autograd.Function):
    """Forward: this rank's part of the sum over ranks. Backward: the gradients of all parts."""

    @staticmethod
    def forward(_: Any, x: Tensor) -> Tensor:
        return scattered(x)

    @staticmethod
    def backward(_: Any, grad: Tensor) -> Tensor:
        return gathered(grad)


class AllReduce(torch.autograd.Function):
    """Forward: the sum over ranks. Backward: the identity."""

    @staticmethod
    def forward(_: Any, x: Tensor) -> Tensor:
        x = x.clone()
        dist.all_reduce(x)
        return x

    @staticmethod
    def backward(_: Any, grad: Tensor) -> Tensor:
        return grad


class Block(nn.Module):
    """``x + down(gelu(up(norm(x))))`` for x of shape (sequence, batch, width)."""

    def __init__(self, ranks: int) -> None:
        super().__init__()
        self.norm, self.up = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, HIDDEN // ranks)
        self.down = nn.Linear(HIDDEN // ranks, WIDTH, bias=False)
        self.parallel = ranks > 1

    def forward(self, x: Tensor) -> Tensor:
        h = self.norm(x)
        h = self.down(nn.functional.gelu(self.up(Gather.apply(h) if self.parallel else h)))
        return x + (ReduceScatter.apply(h) if self.parallel else h)


def training(model: Block):
    def step(x: Tensor, target: Tensor) -> Tensor:
        loss = (model(x) - target).square().mean()
        loss.backward()
        return loss

    return step


def rank_training(model: Block, rank: int, *, broken: bool):
    def step(x: Tensor, target: Tensor) -> Tensor:
        part = x.shape[0] // RANKS
        mine = slice(rank * part, (rank + 1) * part)
        error = (model(x[mine]) - target[mine]).square().sum()
        loss = AllReduce.apply(error / (target[mine].numel() if broken else target.numel()))
        loss.backward()
        for weight in model.norm.parameters():  # each rank saw its part of the sequence
            dist.all_reduce(weight.grad)
        return loss

    return step


def check(*, broken: bool = False) -> tt.Report:
    batch = (torch.randn(6, 2, WIDTH), torch.randn(6, 2, WIDTH))
    sizes = {"x": {0: "S", 1: "B"}, "target": {0: "S", 1: "B"}}

    def build(rank: int):
        return rank_training(Block(RANKS), rank, broken=broken), batch

    return tt.refine(
        tt.capture(training(Block(1)), batch, dynamic=sizes),
        tt.capture_ranks(build, RANKS, mesh={"tp": RANKS}, dynamic=sizes),
        inputs={"up.*": "Shard(0)", "down.weight": "Shard(1)"},
        outputs={"grad up.*": "Shard(0)", "grad down.weight": "Shard(1)"},
    )


if __name__ == "__main__":
    report = check()
    print(report)
    report.raise_if_not_proved()
    print()
    print(check(broken=True))
