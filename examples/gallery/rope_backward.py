"""Rotary embeddings under sequence parallelism whose backward pass counts positions from 0.

A rank that has the second half of the sequence rotates by the angles of the second half. The forward pass takes that
part of the tables; the hand-written backward pass takes the first part, on every rank. Losses are right, gradients
are not.

Described in the paper on Entangle, in a training framework that is not public.

    python examples/gallery/rope_backward.py
"""

from __future__ import annotations

import torch
from torch import Tensor

import tantamount as tt

RANKS, LENGTH, WIDTH = 2, 8, 6
X, WANTED, COS, SIN = (torch.empty(LENGTH, WIDTH) for _ in range(4))


def turned(x: Tensor) -> Tensor:
    first, second = x.chunk(2, dim=-1)
    return torch.cat([-second, first], dim=-1)


class Rotate(torch.autograd.Function):
    """``y = cos x + sin J x``; J is the half-turn, ``J^T = -J``."""

    @staticmethod
    def forward(ctx, x: Tensor, cos: Tensor, sin: Tensor, first: int, first_backward: int) -> Tensor:
        ctx.save_for_backward(cos, sin)
        ctx.first = first_backward
        cos, sin = cos[first : first + len(x)], sin[first : first + len(x)]
        return x * cos + turned(x) * sin

    @staticmethod
    def backward(ctx, grad: Tensor):
        cos, sin = (table[ctx.first : ctx.first + len(grad)] for table in ctx.saved_tensors)
        return grad * cos - turned(grad * sin), None, None, None, None


def step_of(first: int, first_backward: int):
    def step(x: Tensor, wanted: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        loss = (Rotate.apply(x, cos, sin, first, first_backward) - wanted).square().sum()
        loss.backward()
        return loss

    return step


def check(*, broken: bool = False) -> tt.Report:
    rows = LENGTH // RANKS

    def build(rank: int):
        first = rank * rows
        return step_of(first, 0 if broken else first), (X[:rows].requires_grad_(), WANTED[:rows], COS, SIN)

    return tt.refine(
        tt.capture(step_of(0, 0), (X.clone().requires_grad_(), WANTED, COS, SIN)),
        tt.capture_ranks(build, RANKS, mesh={"sp": RANKS}),
        inputs={"x": "Shard(0)", "wanted": "Shard(0)"},
        outputs={"output": 'Partial("sum")', "grad x": "Shard(0)"},
    )


if __name__ == "__main__":
    print(check().verdict.value, "as it should be\n")
    print(check(broken=True))
