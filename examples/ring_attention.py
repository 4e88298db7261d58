"""Ring attention by hand: keys and values go from rank to rank, every rank merges blocks with an online softmax.

Messages are sent and received one by one; the backward pass turns the ring around. The broken twin forgets to rescale
what it has when a block brings a greater maximum: right on inputs where a rank's own block has the greatest scores, and
silently wrong on others.

    python examples/ring_attention.py
"""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import Tensor, nn

import tantamount as tt

RANKS, BATCH, LENGTH, HEADS, SIZE = 3, 1, 6, 2, 4
WIDTH, LOCAL = HEADS * SIZE, LENGTH // RANKS


def rotated(x: Tensor, step: int) -> Tensor:
    """What the rank ``step`` before this one has."""
    rank = dist.get_rank()
    y = torch.empty_like(x)
    operations = [
        dist.P2POp(dist.isend, x.contiguous(), (rank + step) % RANKS),
        dist.P2POp(dist.irecv, y, (rank - step) % RANKS),
    ]
    for work in dist.batch_isend_irecv(operations):
        work.wait()
    return y


class Rotate(torch.autograd.Function):
    @staticmethod
    def forward(_, x: Tensor) -> Tensor:
        return rotated(x, 1)

    @staticmethod
    def backward(_, grad: Tensor) -> Tensor:
        return rotated(grad, -1)


def ring_attention(q: Tensor, k: Tensor, v: Tensor, *, broken: bool) -> Tensor:
    """All of shape (batch, heads, positions of this rank, size)."""
    best = total = values = None
    for step in range(RANKS):
        scores = q @ k.transpose(-1, -2) / SIZE**0.5
        here = scores.amax(-1, keepdim=True).detach()
        new = here if best is None else torch.maximum(best, here)
        weights = torch.exp(scores - new)
        if best is None:
            total, values = weights.sum(-1, keepdim=True), weights @ v
        else:
            scale = 1 if broken else torch.exp(best - new)
            total = total * scale + weights.sum(-1, keepdim=True)
            values = values * scale + weights @ v
        best = new
        if step < RANKS - 1:
            k, v = Rotate.apply(k), Rotate.apply(v)
    return values / total


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (part.unflatten(-1, (HEADS, SIZE)).transpose(1, 2) for part in self.qkv(x).chunk(3, dim=-1))
        return self.out(self.attend(q, k, v).transpose(1, 2).flatten(2))

    def attend(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return (q @ k.transpose(-1, -2) / SIZE**0.5).softmax(-1) @ v


class RingAttention(Attention):
    def __init__(self, *, broken: bool) -> None:
        super().__init__()
        self.broken = broken

    def attend(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return ring_attention(q, k, v, broken=self.broken)


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
        local = torch.randn(BATCH, LOCAL, WIDTH)
        return ranks_step(RingAttention(broken=broken)), (local, local)

    whole = torch.randn(BATCH, LENGTH, WIDTH)
    return tt.refine(
        tt.capture(step(Attention()), (whole, whole)),
        tt.capture_ranks(build, RANKS, mesh={"cp": RANKS}),
        inputs={"x": "Shard(1)", "target": "Shard(1)"},
    )


if __name__ == "__main__":
    print(check().raise_if_not_proved())
    print(check(broken=True))
