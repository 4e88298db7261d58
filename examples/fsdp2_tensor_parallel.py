"""FSDP2 and tensor parallelism together, on a mesh of two axes.

Linear layers are cut over ``tp`` first; each part is then sharded over ``dp``. The batch is cut over ``dp`` alone: the
ranks of a ``tp`` group see the same part. The broken twin divides the gradients by the number of all ranks instead of
that of the data-parallel ones.

    python examples/fsdp2_tensor_parallel.py
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

import tantamount as tt

MESH, WIDTH, BATCH = {"dp": 2, "tp": 2}, 8, 4


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.gate, self.up = nn.Linear(WIDTH, 4 * WIDTH, bias=False), nn.Linear(WIDTH, 4 * WIDTH, bias=False)
        self.down = nn.Linear(4 * WIDTH, WIDTH, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.down(nn.functional.silu(self.gate(x)) * self.up(x))


def new_model() -> nn.Module:
    return nn.Sequential(Layer(), Layer())


PLAN = {"*.gate": ColwiseParallel(), "*.up": ColwiseParallel(), "*.down": RowwiseParallel()}


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
        mesh = init_device_mesh("cpu", tuple(MESH.values()), mesh_dim_names=tuple(MESH))
        model = parallelize_module(new_model(), mesh["tp"], PLAN, src_data_rank=None)
        for part in (*model, model):
            fully_shard(part, mesh=mesh["dp"])
            if broken:
                part.set_gradient_divide_factor(4.0)
                part.set_force_sum_reduction_for_comms(True)
        return training(model), batch(BATCH // MESH["dp"])

    return tt.refine(
        tt.capture(training(new_model()), batch(BATCH)),
        tt.capture_ranks(build, 4, mesh=MESH),
        inputs={"x": ["Shard(0)", "Replicate()"], "target": ["Shard(0)", "Replicate()"]},
        outputs={"output": ['Partial("avg")', "Replicate()"]},
    )


if __name__ == "__main__":
    report = check()
    print(report)
    report.raise_if_not_proved()
    print()
    print(check(broken=True))
