"""Sequence parallelism with DTensor: between the linear layers activations are sharded along the sequence, norms too.

``SequenceParallel`` keeps a norm's weight on every rank; each rank sees a part of the sequence, so that its gradient is
one summand: a ``Partial`` placement, which the step reduces here as a training loop must. The broken twin takes the
rank's part of the gradient for the gradient.

    python examples/sequence_parallel.py
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.tensor import DTensor, Replicate, Shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    PrepareModuleOutput,
    RowwiseParallel,
    SequenceParallel,
    parallelize_module,
)

import tantamount as tt

RANKS, WIDTH, LENGTH = 2, 8, 6


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(32, WIDTH)
        self.norm, self.up, self.down = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)
        self.final = nn.RMSNorm(WIDTH)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.embedding(tokens)
        x = x + self.down(nn.functional.gelu(self.up(self.norm(x))))
        return self.final(x)


PLAN = {
    "embedding": RowwiseParallel(input_layouts=Replicate(), output_layouts=Shard(1), use_local_output=False),
    "norm": SequenceParallel(),
    "up": ColwiseParallel(input_layouts=Shard(1)),
    "down": RowwiseParallel(output_layouts=Shard(1), use_local_output=False),
    "final": SequenceParallel(),
    "": PrepareModuleOutput(output_layouts=Shard(1), desired_output_layouts=Replicate()),
}


def training(model: nn.Module):
    def step(tokens: Tensor, target: Tensor) -> Tensor:
        loss = (model(tokens) - target).square().mean()
        loss.backward()
        return loss

    return step


def ranks_training(model: nn.Module, *, broken: bool):
    def step(tokens: Tensor, target: Tensor) -> Tensor:
        loss = (model(tokens) - target).square().mean()
        loss.backward()
        for parameter in (model.norm.weight, model.norm.bias, model.final.weight):
            grad = parameter.grad
            if broken:
                parameter.grad = DTensor.from_local(grad.to_local(), grad.device_mesh, [Replicate()], run_check=False)
            else:
                parameter.grad = grad.redistribute(placements=[Replicate()])
        return loss

    return step


def check(*, broken: bool = False) -> tt.Report:
    batch = (torch.zeros(2, LENGTH, dtype=torch.long), torch.randn(2, LENGTH, WIDTH))

    def build(rank: int):
        mesh: DeviceMesh = init_device_mesh("cpu", (RANKS,), mesh_dim_names=("tp",))
        model = parallelize_module(Block(), mesh, PLAN, src_data_rank=None)
        return ranks_training(model, broken=broken), batch

    return tt.refine(tt.capture(training(Block()), batch), tt.capture_ranks(build, RANKS))


if __name__ == "__main__":
    report = check()
    print(report)
    report.raise_if_not_proved()
    print()
    print(check(broken=True))
