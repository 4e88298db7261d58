"""Context parallelism that gathers keys and values: every rank has a part of the sequence and attends to all of it.

Queries stay where they are, keys and values of all ranks are gathered (their gradients are reduced and scattered). The
causal mask is by the positions of a rank's queries. The broken twin counts the positions of every rank from 0.

    python examples/gathered_attention.py
"""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import Tensor, nn

import tantamount as tt

RANKS, BATCH, LENGTH, HEADS, SIZE = 4, 2, 8, 2, 4
WIDTH, LOCAL = HEADS * SIZE, LENGTH // RANKS


class Gather(torch.autograd.Function):
    """The parts of all ranks along dimension 0; backward, every rank gets the sum of the gradients of its part."""

    @staticmethod
    def forward(_, x: Tensor) -> Tensor:
        whole = x.new_empty(RANKS * x.shape[0], *x.shape[1:])
        dist.all_gather_into_tensor(whole, x.contiguous())
        return whole

    @staticmethod
    def backward(_, grad: Tensor) -> Tensor:
        part = grad.new_empty(grad.shape[0] // RANKS, *grad.shape[1:])
        dist.reduce_scatter_tensor(part, grad.contiguous())
        return part


class Attention(nn.Module):
    """``x``: positions, batch, width. ``first``: the position of the first query; ``None``: all of them are here."""

    def __init__(self, first: int | None = None) -> None:
        super().__init__()
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.first = first

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (part.unflatten(-1, (HEADS, SIZE)) for part in self.qkv(x).chunk(3, dim=-1))
        if self.first is not None:
            k, v = Gather.apply(k), Gather.apply(v)
        queries = torch.arange(q.shape[0]) + (self.first or 0)
        scores = torch.einsum("qbhd,kbhd->bhqk", q, k) / SIZE**0.5
        scores = scores.masked_fill(torch.arange(LENGTH) > queries[:, None], float("-inf"))
        return self.out(torch.einsum("bhqk,kbhd->qbhd", scores.softmax(-1), v).flatten(2))


def step(model: nn.Module):
    def run(x: Tensor, target: Tensor) -> Tensor:
        loss = (model(x) - target).square().sum()
        loss.backward()
        return loss

    return run


def ranks_step(model: nn.Module):
    def run(x: Tensor, target: Tensor) -> Tensor:
        loss = step(model)(x, target)
        for parameter in model.parameters():
            dist.all_reduce(parameter.grad)
        dist.all_reduce(loss)
        return loss

    return run


def check(*, broken: bool = False) -> tt.Report:
    def build(rank: int):
        local = torch.randn(LOCAL, BATCH, WIDTH)
        return ranks_step(Attention(0 if broken else rank * LOCAL)), (local, local)

    whole = torch.randn(LENGTH, BATCH, WIDTH)
    return tt.refine(
        tt.capture(step(Attention()), (whole, whole)),
        tt.capture_ranks(build, RANKS, mesh={"cp": RANKS}),
        inputs={"x": "Shard(0)", "target": "Shard(0)"},
    )


if __name__ == "__main__":
    print(check().raise_if_not_proved())
    print(check(broken=True))
