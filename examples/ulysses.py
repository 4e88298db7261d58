"""Ulysses sequence parallelism: activations are sharded along the sequence, attention along the heads.

Before attention an all-to-all gives every rank all positions of some heads, after it another one gives all heads of its
positions back. All weights are on every rank, so that every rank has one summand of every gradient, which an all-reduce
adds up. The broken twin puts the parts of the second exchange together in the wrong order: heads get another's output.

    python examples/ulysses.py
"""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import Tensor, nn

import tantamount as tt

RANKS, BATCH, LENGTH, HEADS, SIZE = 2, 2, 8, 4, 4
WIDTH = HEADS * SIZE


class Exchange(torch.autograd.Function):
    """Part k along dimension 0 goes to rank k; what arrives is stacked in the ranks' order. Its own transpose."""

    @staticmethod
    def forward(_, x: Tensor) -> Tensor:
        y = torch.empty_like(x)
        dist.all_to_all_single(y, x.contiguous())
        return y

    @staticmethod
    def backward(_, grad: Tensor) -> Tensor:
        return Exchange.forward(None, grad)


def to_heads(x: Tensor) -> Tensor:
    """(batch, positions of this rank, heads, size) -> (batch, positions, heads of this rank, size)"""
    b, n, h, d = x.shape
    sent = x.view(b, n, RANKS, h // RANKS, d).permute(2, 1, 0, 3, 4)
    return Exchange.apply(sent).flatten(0, 1).transpose(0, 1)


def to_positions(x: Tensor, *, broken: bool) -> Tensor:
    """The inverse of :func:`to_heads`."""
    b, n, h, d = x.shape
    sent = x.view(b, RANKS, n // RANKS, h, d).permute(1, 3, 0, 2, 4)  # ranks, heads, batch, positions, size
    received = Exchange.apply(sent)
    if broken:
        received = received.transpose(0, 1)
    return received.reshape(RANKS * h, b, n // RANKS, d).permute(1, 2, 0, 3)


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)

    def heads(self, x: Tensor) -> list[Tensor]:
        return [part.view(BATCH, -1, HEADS, SIZE) for part in self.qkv(x).chunk(3, dim=-1)]

    def attend(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        scores = torch.einsum("bqhd,bkhd->bhqk", q, k) / SIZE**0.5
        future = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
        return torch.einsum("bhqk,bkhd->bqhd", scores.masked_fill(future, float("-inf")).softmax(-1), v)

    def forward(self, x: Tensor) -> Tensor:
        return self.out(self.attend(*self.heads(x)).flatten(2))


class UlyssesAttention(Attention):
    def __init__(self, *, broken: bool) -> None:
        super().__init__()
        self.broken = broken

    def forward(self, x: Tensor) -> Tensor:
        y = self.attend(*[to_heads(part) for part in self.heads(x)])
        return self.out(to_positions(y, broken=self.broken).flatten(2))


def step(model: nn.Module):
    def run(x: Tensor, target: Tensor) -> Tensor:
        loss = (model(x) - target).square().sum() / (BATCH * LENGTH)
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
        local = torch.randn(BATCH, LENGTH // RANKS, WIDTH)
        return ranks_step(UlyssesAttention(broken=broken)), (local, local)

    batch = torch.randn(BATCH, LENGTH, WIDTH)
    return tt.refine(
        tt.capture(step(Attention()), (batch, batch)),
        tt.capture_ranks(build, RANKS, mesh={"sp": RANKS}),
        inputs={"x": "Shard(1)", "target": "Shard(1)"},
    )


if __name__ == "__main__":
    print(check().raise_if_not_proved())
    print(check(broken=True))
