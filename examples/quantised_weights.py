"""Tensor parallelism of three linear layers whose weights are uint8, with a scale and a zero point per output channel.

The first and the last are split along their outputs, the one between along its inputs. The broken twin subtracts zero
points in uint8, where ``3 - 5`` is 254, instead of converting first.

    python examples/quantised_weights.py
"""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import Tensor, nn

import tantamount as tt

RANKS, WIDTH, HIDDEN = 2, 4, 8


class Linear(nn.Module):
    """``x @ (scale * (weight - zero)).T``"""

    def __init__(self, inputs: int, outputs: int, *, rows: bool = False, broken: bool = False) -> None:
        super().__init__()
        self.register_buffer("weight", torch.randint(0, 256, (outputs, inputs), dtype=torch.uint8))
        self.register_buffer("zero", torch.randint(0, 256, (outputs, 1), dtype=torch.uint8))
        self.register_buffer("scale", torch.rand(outputs))
        self.rows, self.broken = rows, broken

    def forward(self, x: Tensor) -> Tensor:
        if self.broken:
            weight = (self.weight - self.zero).to(x.dtype)
        else:
            weight = (self.weight.to(torch.int16) - self.zero.to(torch.int16)).to(x.dtype)
        y = x @ weight.T
        if self.rows:
            dist.all_reduce(y)
        return y * self.scale


def layers(ranks: int = 1, *, broken: bool = False) -> nn.Sequential:
    return nn.Sequential(
        Linear(WIDTH, HIDDEN // ranks, broken=broken),
        nn.GELU(),
        Linear(HIDDEN // ranks, WIDTH, rows=ranks > 1, broken=broken),
        nn.GELU(),
        Linear(WIDTH, HIDDEN // ranks, broken=broken),
    )


def check(*, broken: bool = False) -> tt.Report:
    x = torch.randn(3, WIDTH)
    columns = {f"{layer}.{part}": "Shard(0)" for layer in (0, 4) for part in ("weight", "zero", "scale")}
    rows = {"2.weight": "Shard(1)", "2.zero": "Replicate()", "2.scale": "Replicate()"}
    return tt.refine(
        tt.capture(layers(), (x,)),
        tt.capture_ranks(lambda rank: (layers(RANKS, broken=broken), (x,)), RANKS, mesh={"tp": RANKS}),
        inputs={"input": "Replicate()", **columns, **rows},
        outputs={"output": "Shard(1)"},
    )


if __name__ == "__main__":
    print(check().raise_if_not_proved())
    print(check(broken=True))
