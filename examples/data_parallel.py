"""Data parallelism with gradients reduced by hand: every rank has the whole model and its part of the batch.

``DistributedDataParallel`` reduces gradients in C++, out of sight of a capture: unwrap the model (``ddp.module``) and
average the gradients in the step, as here, or use ``fully_shard`` or ``replicate``. The broken twin adds the
gradients up and does not divide by the number of ranks.

    python examples/data_parallel.py
"""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import Tensor, nn

import tantamount as tt

RANKS, WIDTH, BATCH = 4, 8, 8


def new_model() -> nn.Module:
    return nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.Tanh(), nn.LayerNorm(4 * WIDTH), nn.Linear(4 * WIDTH, 3))


def training(model: nn.Module, reduction: dist.ReduceOp.RedOpType | None = None):
    def step(x: Tensor, labels: Tensor) -> Tensor:
        loss = nn.functional.cross_entropy(model(x), labels, reduction="sum") / len(labels)
        loss.backward()
        if reduction is not None:
            for parameter in model.parameters():
                dist.all_reduce(parameter.grad, op=reduction)
        return loss

    return step


def check(*, broken: bool = False) -> tt.Report:
    def batch(size: int) -> tuple[Tensor, Tensor]:
        return torch.randn(size, WIDTH), torch.zeros(size, dtype=torch.long)

    def build(rank: int):
        reduction = dist.ReduceOp.SUM if broken else dist.ReduceOp.AVG
        return training(new_model(), reduction), batch(BATCH // RANKS)

    return tt.refine(
        tt.capture(training(new_model()), batch(BATCH)),
        tt.capture_ranks(build, RANKS, mesh={"dp": RANKS}),
        inputs={"x": "Shard(0)", "labels": "Shard(0)"},
        outputs={"output": 'Partial("avg")'},
    )


if __name__ == "__main__":
    report = check()
    print(report)
    report.raise_if_not_proved()
    print()
    print(check(broken=True))
