"""FSDP2 (``fully_shard``): parameters sharded over ranks, gathered for use, gradients reduced and scattered.

Every rank has its part of the batch and the mean loss over that part, so that the loss of the whole batch is the
average over ranks. The broken twin adds the gradients up instead of averaging them.

    python examples/fsdp2.py
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

import tantamount as tt

RANKS, WIDTH, BATCH = 2, 8, 4


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.up, self.down = nn.RMSNorm(WIDTH), nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.down(nn.functional.silu(self.up(self.norm(x))))


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Layer() for _ in range(2))
        self.head = nn.Linear(WIDTH, WIDTH, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = layer(x)
        return self.head(x)


def training(model: nn.Module):
    def step(x: Tensor, target: Tensor) -> Tensor:
        loss = (model(x) - target).square().mean()
        loss.backward()
        return loss

    return step


def check(*, broken: bool = False) -> tt.Report:
    def batch(size: int) -> tuple[Tensor, Tensor]:
        return torch.randn(size, WIDTH), torch.randn(size, WIDTH)

    def build(rank: int):
        mesh = init_device_mesh("cpu", (RANKS,), mesh_dim_names=("dp",))
        model = Model()  # a fresh one for every rank: FSDP2 finishes its set-up in the first forward pass
        for layer in model.layers:
            fully_shard(layer, mesh=mesh)
        fully_shard(model, mesh=mesh)
        model.layers[0].set_modules_to_forward_prefetch([model.layers[1]])
        if broken:
            for part in (*model.layers, model):
                part.set_gradient_divide_factor(1.0)
                part.set_force_sum_reduction_for_comms(True)
        return training(model), batch(BATCH // RANKS)

    return tt.refine(
        tt.capture(training(Model()), batch(BATCH)),
        tt.capture_ranks(build, RANKS),
        inputs={"x": "Shard(0)", "target": "Shard(0)"},  # plain tensors: each rank has its part of the batch
        outputs={"output": 'Partial("avg")'},  # the loss of a rank is that of its part
    )


if __name__ == "__main__":
    report = check()
    print(report)
    report.raise_if_not_proved()
    print()
    print(check(broken=True))
