"""HSDP: parameters sharded inside groups of ranks (``shard``), and replicated between the groups (``replicate``).

Gradients are reduced and scattered inside a group, then all-reduced between groups. The broken twin hands
``fully_shard`` the sharding axis of the mesh alone: it trains, and the replicas drift apart.

    python examples/hsdp.py
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

import tantamount as tt

MESH, WIDTH, BATCH = {"replicate": 2, "shard": 2}, 8, 8


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.norm = nn.Embedding(16, WIDTH), nn.LayerNorm(WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.embedding(tokens)
        return x + self.down(torch.tanh(self.up(self.norm(x))))


def training(model: nn.Module):
    def step(tokens: Tensor, target: Tensor) -> Tensor:
        loss = (model(tokens) - target).square().mean()
        loss.backward()
        return loss

    return step


def check(*, broken: bool = False) -> tt.Report:
    def batch(size: int) -> tuple[Tensor, Tensor]:
        return torch.zeros(size, dtype=torch.long), torch.randn(size, WIDTH)

    def build(rank: int):
        mesh = init_device_mesh("cpu", tuple(MESH.values()), mesh_dim_names=tuple(MESH))
        if broken:
            mesh = mesh["shard"]
        model = Model()
        fully_shard(model.up, mesh=mesh)
        fully_shard(model.down, mesh=mesh)
        fully_shard(model, mesh=mesh)
        return training(model), batch(BATCH // 4)

    over_all_ranks = ["Shard(0)", "Shard(0)"]  # cut over the first mesh axis, then over the second
    return tt.refine(
        tt.capture(training(Model()), batch(BATCH)),
        tt.capture_ranks(build, 4, mesh=MESH),
        inputs={"tokens": over_all_ranks, "target": over_all_ranks},
        outputs={"output": ['Partial("avg")', 'Partial("avg")']},
    )


if __name__ == "__main__":
    report = check()
    print(report)
    report.raise_if_not_proved()
    print()
    print(check(broken=True))
