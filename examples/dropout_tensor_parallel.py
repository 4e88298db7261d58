"""Dropout under tensor parallelism, as `nn.Dropout` is: which mask is which depends on the seeds of the ranks.

The hidden layer is cut between the ranks; what comes out of the all-reduce is on every rank, and is dropped there.
Right if all ranks draw with the same seed; in the broken twin they have seeds of their own, so that every rank goes on
with another residual stream.

    python examples/dropout_tensor_parallel.py
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.distributed._functional_collectives import all_reduce

import tantamount as tt

RANKS, WIDTH = 2, 8


class Block(nn.Module):
    def __init__(self, ranks: int) -> None:
        super().__init__()
        self.up = nn.Linear(WIDTH, 4 * WIDTH // ranks, bias=False)
        self.down = nn.Linear(4 * WIDTH // ranks, WIDTH, bias=False)
        self.dropout = nn.Dropout(0.1)
        self.ranks = ranks

    def forward(self, x: Tensor) -> Tensor:
        y = self.down(torch.relu(self.up(x)))
        if self.ranks > 1:
            y = all_reduce(y, "sum", torch.distributed.group.WORLD)
        return x + self.dropout(y)


def check(*, broken: bool = False) -> tt.Report:
    x = torch.randn(3, WIDTH)
    return tt.refine(
        tt.capture(Block(1), (x,)),
        tt.capture_ranks(lambda _: (Block(RANKS), (x,)), RANKS, mesh={"tp": RANKS}),
        inputs={"up.weight": "Shard(0)", "down.weight": "Shard(1)"},
        outputs={"output": "Replicate()"},
        assume={"dropout": {"tp": "different seeds" if broken else "same seed"}},
    )


if __name__ == "__main__":
    report = check()
    print(report)
    report.raise_if_not_proved()
    print()
    print(check(broken=True))
