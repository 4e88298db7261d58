"""A whole training step under tensor parallelism: loss, backward, gradient clipping, AdamW or SGD.

Parameters, gradients and the optimizer's state are DTensors, and ``clip_grad_norm_`` takes the norm over all ranks: the
new parameters are those of one device. The broken twin clips by the norm of the rank's own shards, as hand-written
loops do.

    python examples/training_step.py
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

import tantamount as tt

RANKS, WIDTH, BATCH = 2, 8, 4
OPTIMIZERS = {
    "adamw": lambda parameters: torch.optim.AdamW(parameters, lr=1e-2, weight_decay=0.1),
    "sgd": lambda parameters: torch.optim.SGD(parameters, lr=1e-2, momentum=0.9, nesterov=True),
}


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH, bias=False), nn.Linear(4 * WIDTH, WIDTH, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.down(torch.tanh(self.up(x)))


def clip(parameters: list[nn.Parameter]) -> None:
    nn.utils.clip_grad_norm_(parameters, max_norm=1.0)


def clip_by_local_norm(parameters: list[nn.Parameter]) -> None:
    norm = torch.stack([p.grad.to_local().square().sum() for p in parameters]).sum().sqrt()
    for parameter in parameters:
        parameter.grad.to_local().mul_(torch.clamp(1.0 / (norm + 1e-6), max=1.0))


def training(model: nn.Module, optimizer: torch.optim.Optimizer, clip: Callable[[list[nn.Parameter]], None]):
    def step(x: Tensor, target: Tensor) -> Tensor:
        loss = nn.functional.mse_loss(model(x), target)
        loss.backward()
        clip(list(model.parameters()))
        optimizer.step()
        optimizer.zero_grad()
        return loss

    return step


def check(*, broken: bool = False, optimizer: str = "adamw") -> tt.Report:
    batch = (torch.randn(BATCH, WIDTH), torch.randn(BATCH, WIDTH))
    new_optimizer = OPTIMIZERS[optimizer]
    sequential = Model()

    def build(rank: int):
        mesh = init_device_mesh("cpu", (RANKS,), mesh_dim_names=("tp",))
        plan = {"up": ColwiseParallel(), "down": RowwiseParallel()}
        model = parallelize_module(Model(), mesh, plan, src_data_rank=None)
        optimizer = new_optimizer(model.parameters())
        return training(model, optimizer, clip_by_local_norm if broken else clip), batch

    return tt.refine(
        tt.capture(training(sequential, new_optimizer(sequential.parameters()), clip), batch),
        tt.capture_ranks(build, RANKS),
    )


if __name__ == "__main__":
    report = check()
    print(report)
    report.raise_if_not_proved()
    check(optimizer="sgd").raise_if_not_proved()
    print()
    print(check(broken=True))
