"""DTensor tensor parallelism (``parallelize_module``): attention with its heads on different ranks, and an MLP.

The relation of every parameter and of every gradient is read from the placements of the DTensors: nothing has to be
said. The broken twin does not divide the number of heads by the number of ranks: shapes fit all the same, each rank
just has twice as many heads of half the size.

    python examples/tensor_parallel.py
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

import tantamount as tt

RANKS, WIDTH, HEADS = 2, 16, 4


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(3))
        self.out = nn.Linear(WIDTH, WIDTH)
        self.heads = HEADS  # of this rank

    def forward(self, x: Tensor) -> Tensor:
        batch, length, _ = x.shape
        q, k, v = (f(x).view(batch, length, self.heads, -1).transpose(1, 2) for f in (self.q, self.k, self.v))
        scores = torch.softmax(q @ k.transpose(2, 3) / q.shape[-1] ** 0.5, dim=-1)
        return self.out((scores @ v).transpose(1, 2).flatten(2))


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm1, self.attention = nn.LayerNorm(WIDTH), Attention()
        self.norm2, self.up, self.down = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.norm1(x))
        return x + self.down(nn.functional.gelu(self.up(self.norm2(x))))


PLAN = {
    "attention.q": ColwiseParallel(),
    "attention.k": ColwiseParallel(),
    "attention.v": ColwiseParallel(),
    "attention.out": RowwiseParallel(),
    "up": ColwiseParallel(),
    "down": RowwiseParallel(),
}


def training(model: nn.Module):
    def step(x: Tensor, target: Tensor) -> Tensor:
        loss = (model(x) - target).square().mean()
        loss.backward()
        return loss

    return step


def check(*, broken: bool = False) -> tt.Report:
    batch = (torch.randn(2, 5, WIDTH), torch.randn(2, 5, WIDTH))

    def build(rank: int):
        model = Block()
        if not broken:
            model.attention.heads //= RANKS
        mesh = init_device_mesh("cpu", (RANKS,), mesh_dim_names=("tp",))
        parallelize_module(model, mesh, PLAN, src_data_rank=None)  # None: nothing is broadcast, ranks are simulated
        return training(model), batch

    return tt.refine(tt.capture(training(Block()), batch), tt.capture_ranks(build, RANKS))


if __name__ == "__main__":
    report = check()
    print(report)
    report.raise_if_not_proved()
    print()
    print(check(broken=True))
