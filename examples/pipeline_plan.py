"""A pipeline of ``torch.distributed.pipelining`` with FSDP2 over tensor parallelism, as a plan of 2 x 2 x 2 ranks.

python examples/pipeline_plan.py
"""

import torch
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.pipelining import ScheduleInterleaved1F1B
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

import tantamount as tt


class Block(nn.Module):
    def __init__(self, size: int) -> None:
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(size), nn.Linear(size, 4 * size), nn.Linear(4 * size, size)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.down(nn.functional.silu(self.up(self.norm(x))))


def parallelize(block: nn.Module, mesh: DeviceMesh) -> nn.Module:
    parallelize_module(block, mesh["tp"], {"up": ColwiseParallel(), "down": RowwiseParallel()})
    return fully_shard(block, mesh=mesh["dp"])


if __name__ == "__main__":
    with torch.device("meta"):
        stages = [[Block(1024) for _ in range(4)] for _ in range(4)]
        data = torch.empty(64, 128, 1024)
    path = tt.plan_of_schedule(
        ScheduleInterleaved1F1B, stages, microbatches=8, mesh={"pp": 2, "dp": 2, "tp": 2}, parallelize=parallelize,
        loss=nn.functional.mse_loss, batch=data, target=data, optimizer=torch.optim.AdamW, folder="build/pipeline_plan",
    )  # fmt: skip
    print(tt.verify_plan(path))
