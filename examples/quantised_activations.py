"""Tensor parallelism of a quantised transformer block: int8 weights and activations, products added up in int32.

Weights have a scale per output channel. Activations are quantised as they come: every row is divided by its largest
absolute value over 127, rounded, clamped and converted to int8. Where a layer is split along its inputs no rank has a
whole row, so the largest absolute value takes an all-reduce (MAX) before the rounding, and the products one (SUM) after
it. The broken twin leaves the first one out: every rank rounds its part of a row by a scale of its own.

    python examples/quantised_activations.py
"""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import Tensor, nn

import tantamount as tt

RANKS, WIDTH, HEADS, LENGTH = 2, 8, 4, 3


def quantised(x: Tensor, *, shared: bool) -> tuple[Tensor, Tensor]:
    """x as int8 and a scale per row; ``shared``: every rank has a part of each row."""
    largest = x.abs().amax(dim=-1, keepdim=True)
    if shared:
        dist.all_reduce(largest, op=dist.ReduceOp.MAX)
    scale = largest.clamp(min=1e-5) / 127
    return (x / scale).round().clamp(-128, 127).to(torch.int8), scale


class Linear(nn.Module):
    """``x @ weight.T`` of int8 numbers in int32, then scaled; ``rows``: inputs and weights are split along the rows."""

    def __init__(self, inputs: int, outputs: int, *, rows: bool = False, broken: bool = False) -> None:
        super().__init__()
        self.register_buffer("weight", torch.randint(-128, 128, (outputs, inputs), dtype=torch.int8))
        self.register_buffer("scale", torch.rand(outputs))
        self.rows, self.broken = rows, broken

    def forward(self, x: Tensor) -> Tensor:
        x8, scale = quantised(x, shared=self.rows and not self.broken)
        product = torch.matmul(x8.to(torch.int32), self.weight.to(torch.int32).T)
        if self.rows and not self.broken:
            dist.all_reduce(product)
        y = product.float() * scale * self.scale
        if self.rows and self.broken:
            dist.all_reduce(y)
        return y


class Block(nn.Module):
    def __init__(self, ranks: int = 1, *, broken: bool = False) -> None:
        super().__init__()
        split = {"rows": ranks > 1, "broken": broken}
        self.heads = HEADS // ranks
        self.q, self.k, self.v = (Linear(WIDTH, WIDTH // ranks) for _ in range(3))
        self.out = Linear(WIDTH // ranks, WIDTH, **split)
        self.up = Linear(WIDTH, 4 * WIDTH // ranks)
        self.down = Linear(4 * WIDTH // ranks, WIDTH, **split)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (f(x).unflatten(-1, (self.heads, -1)).transpose(0, 1) for f in (self.q, self.k, self.v))
        scores = torch.softmax(q @ k.transpose(1, 2) / (WIDTH // HEADS) ** 0.5, dim=-1)
        x = x + self.out((scores @ v).transpose(0, 1).flatten(1))
        return x + self.down(nn.functional.relu(self.up(x)))


COLUMNS, ROWS = {"weight": "Shard(0)", "scale": "Shard(0)"}, {"weight": "Shard(1)", "scale": "Replicate()"}
INPUTS = {f"{name}.{part}": how for name in ("q", "k", "v", "up") for part, how in COLUMNS.items()}
INPUTS |= {f"{name}.{part}": how for name in ("out", "down") for part, how in ROWS.items()}


def check(*, broken: bool = False) -> tt.Report:
    x = torch.randn(LENGTH, WIDTH)
    return tt.refine(
        tt.capture(Block(), (x,)),
        tt.capture_ranks(lambda rank: (Block(RANKS, broken=broken), (x,)), RANKS, mesh={"tp": RANKS}),
        inputs={"x": "Replicate()", **INPUTS},
        outputs={"output": "Replicate()"},
    )


if __name__ == "__main__":
    print(check().raise_if_not_proved())
    print(check(broken=True))
