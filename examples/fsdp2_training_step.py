"""A whole training step under FSDP2: loss, backward, gradient clipping, optimizer.

Every rank updates its shards with its part of the optimizer's state. ``clip_grad_norm_`` takes
the norm over all shards, because gradients are DTensors. The broken twin hands it the local parts, so that every rank
clips by the norm of its own shards.

    python examples/fsdp2_training_step.py
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

import tantamount as tt

RANKS, WIDTH, BATCH = 2, 8, 4
OPTIMIZERS = {
    "adamw": lambda parameters: torch.optim.AdamW(parameters, lr=1e-2, weight_decay=0.1),
    "sgd": lambda parameters: torch.optim.SGD(parameters, lr=1e-2, momentum=0.9),
}


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        return self.down(torch.tanh(self.up(x)))


def clip(parameters: list[nn.Parameter], *, broken: bool = False) -> None:
    gradients = [p.grad.to_local() if broken else p.grad for p in parameters]
    norm = nn.utils.get_total_norm(gradients)
    nn.utils.clip_grads_with_norm_(parameters, 1.0, norm)


def training(model: nn.Module, optimizer: torch.optim.Optimizer, *, broken: bool = False):
    def step(x: Tensor, target: Tensor) -> Tensor:
        loss = nn.functional.mse_loss(model(x), target)
        loss.backward()
        clip(list(model.parameters()), broken=broken)
        optimizer.step()
        optimizer.zero_grad()
        return loss

    return step


def check(*, broken: bool = False, optimizer: str = "adamw") -> tt.Report:
    def batch(size: int) -> tuple[Tensor, Tensor]:
        return torch.randn(size, WIDTH), torch.randn(size, WIDTH)

    new_optimizer = OPTIMIZERS[optimizer]
    sequential = Model()

    def build(rank: int):
        mesh = init_device_mesh("cpu", (RANKS,), mesh_dim_names=("dp",))
        model = Model()
        for part in (model.up, model.down, model):
            fully_shard(part, mesh=mesh)
        return training(model, new_optimizer(model.parameters()), broken=broken), batch(BATCH // RANKS)

    return tt.refine(
        tt.capture(training(sequential, new_optimizer(sequential.parameters())), batch(BATCH)),
        tt.capture_ranks(build, RANKS),
        inputs={"x": "Shard(0)", "target": "Shard(0)"},
        outputs={"output": 'Partial("avg")'},
    )


if __name__ == "__main__":
    report = check()
    print(report)
    report.raise_if_not_proved()
    check(optimizer="sgd").raise_if_not_proved()
    print()
    print(check(broken=True))
