"""Data parallelism with hooks: every gradient is averaged over the ranks as soon as it has been accumulated.

This is what ``DistributedDataParallel`` does, written in Python: a hook of every parameter starts an all-reduce while
the backward pass goes on, and the step waits for all of them. The broken twin has a hook on the gradient, too, which
doubles it: a loss scale that nothing takes back.

    python examples/gradient_hooks.py
"""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import Tensor, nn

import tantamount as tt

RANKS, WIDTH, BATCH = 4, 8, 8


def new_model() -> nn.Module:
    return nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.Tanh(), nn.LayerNorm(4 * WIDTH), nn.Linear(4 * WIDTH, 3))


class DataParallel:
    def __init__(self, model: nn.Module, *, broken: bool) -> None:
        self.model = model
        self.pending: list[dist.Work] = []
        for parameter in model.parameters():
            if broken:
                parameter.register_hook(lambda gradient: 2 * gradient)
            parameter.register_post_accumulate_grad_hook(self.average)

    def average(self, parameter: Tensor) -> None:
        self.pending.append(dist.all_reduce(parameter.grad, op=dist.ReduceOp.AVG, async_op=True))

    def step(self, x: Tensor, labels: Tensor) -> Tensor:
        loss = mean_loss(self.model, x, labels)
        loss.backward()
        while self.pending:
            self.pending.pop().wait()
        return loss


def mean_loss(model: nn.Module, x: Tensor, labels: Tensor) -> Tensor:
    return nn.functional.cross_entropy(model(x), labels, reduction="sum") / len(labels)


def sequential(model: nn.Module):
    def step(x: Tensor, labels: Tensor) -> Tensor:
        loss = mean_loss(model, x, labels)
        loss.backward()
        return loss

    return step


def check(*, broken: bool = False) -> tt.Report:
    def batch(size: int) -> tuple[Tensor, Tensor]:
        return torch.randn(size, WIDTH), torch.zeros(size, dtype=torch.long)

    def build(rank: int):
        return DataParallel(new_model(), broken=broken).step, batch(BATCH // RANKS)

    return tt.refine(
        tt.capture(sequential(new_model()), batch(BATCH)),
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
