"""Gradient accumulation with data parallelism: several micro-batches per step, gradients averaged once at the end.

Every rank has its part of the batch, and takes it in micro-batches; ``grad`` adds up. The mean over the batch is the
mean over ranks and micro-batches. The broken twin does not divide the loss by the number of micro-batches.

    python examples/gradient_accumulation.py
"""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import Tensor, nn

import tantamount as tt

RANKS, MICRO_BATCHES, WIDTH, BATCH = 2, 3, 8, 12


def new_model() -> nn.Module:
    return nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.SiLU(), nn.RMSNorm(4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH))


def training(model: nn.Module):
    def step(x: Tensor, target: Tensor) -> Tensor:
        loss = nn.functional.mse_loss(model(x), target)
        loss.backward()
        return loss

    return step


def ranks_training(model: nn.Module, *, broken: bool):
    def step(x: Tensor, target: Tensor) -> Tensor:
        total = torch.zeros(())
        for part, wanted in zip(x.chunk(MICRO_BATCHES), target.chunk(MICRO_BATCHES), strict=True):
            loss = nn.functional.mse_loss(model(part), wanted)
            if not broken:
                loss = loss / MICRO_BATCHES
            loss.backward()
            total = total + loss.detach()
        for parameter in model.parameters():
            dist.all_reduce(parameter.grad, op=dist.ReduceOp.AVG)
        return total

    return step


def check(*, broken: bool = False) -> tt.Report:
    def batch(size: int) -> tuple[Tensor, Tensor]:
        return torch.randn(size, WIDTH), torch.randn(size, WIDTH)

    def build(rank: int):
        return ranks_training(new_model(), broken=broken), batch(BATCH // RANKS)

    return tt.refine(
        tt.capture(training(new_model()), batch(BATCH)),
        tt.capture_ranks(build, RANKS, mesh={"dp": RANKS}),
        inputs={"x": "Shard(0)", "target": "Shard(0)"},
        outputs={"output": 'Partial("avg")'},
    )


if __name__ == "__main__":
    report = check()
    print(report)
    report.raise_if_not_proved()
    print()
    print(check(broken=True))
