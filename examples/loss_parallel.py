"""Loss parallelism: the head is sharded over the vocabulary, and the cross entropy is computed on the shards.

DTensor's ``loss_parallel`` computes maximum and sum of exponentials over all ranks, so that no rank ever has all
logits, nor their gradients. The broken twin takes the cross entropy of a rank's own part of the vocabulary and adds up
what the ranks find.

    python examples/loss_parallel.py
"""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Shard
from torch.distributed.tensor.parallel import ColwiseParallel, loss_parallel, parallelize_module

import tantamount as tt

RANKS, WIDTH, VOCABULARY = 2, 8, 32


class Head(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, VOCABULARY, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.norm(x))


def loss_of(model: nn.Module):
    def step(x: Tensor, labels: Tensor) -> Tensor:
        loss = nn.functional.cross_entropy(model(x), labels)
        loss.backward()
        return loss

    return step


def ranks_loss(model: nn.Module):
    def step(x: Tensor, labels: Tensor) -> Tensor:
        with loss_parallel():
            loss = nn.functional.cross_entropy(model(x), labels)
            loss.backward()
        return loss

    return step


def broken_loss(model: nn.Module, rank: int):
    def step(x: Tensor, labels: Tensor) -> Tensor:
        logits = model(x).to_local()
        part = VOCABULARY // RANKS
        inside = (labels >= rank * part) & (labels < (rank + 1) * part)
        mine = torch.where(inside, labels - rank * part, 0)
        each = nn.functional.cross_entropy(logits, mine, reduction="none")  # a softmax over a part of the vocabulary
        loss = torch.where(inside, each, 0.0).sum() / len(labels)
        loss.backward()
        loss = loss.detach()
        dist.all_reduce(loss)
        return loss

    return step


def check(*, broken: bool = False) -> tt.Report:
    batch = (torch.randn(6, WIDTH), torch.zeros(6, dtype=torch.long))

    def build(rank: int):
        mesh = init_device_mesh("cpu", (RANKS,), mesh_dim_names=("tp",))
        plan = {"head": ColwiseParallel(output_layouts=Shard(-1), use_local_output=False)}
        model = parallelize_module(Head(), mesh, plan, src_data_rank=None)
        return (broken_loss(model, rank) if broken else ranks_loss(model)), batch

    return tt.refine(tt.capture(loss_of(Head()), batch), tt.capture_ranks(build, RANKS))


if __name__ == "__main__":
    report = check()
    print(report)
    report.raise_if_not_proved()
    print()
    print(check(broken=True))
