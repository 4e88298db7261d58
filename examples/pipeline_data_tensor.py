"""Tensor, data and pipeline parallelism together, by hand, on eight ranks: forward, backward and gradient reduction.

Two stages of a tensor-parallel block each; two replicas of the pipeline see half of the batch each, in two microbatches
(all forward, then all backward). Rank = 4 pp + 2 dp + tp. The broken twin reduces gradients over the tensor-parallel
group where the data-parallel one is meant.

    python examples/pipeline_data_tensor.py
"""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh

import tantamount as tt

STAGES, REPLICAS, SHARDS, MICROBATCHES, BATCH, WIDTH, HIDDEN = 2, 2, 2, 2, 8, 6, 12
MESH = {"pp": STAGES, "dp": REPLICAS, "tp": SHARDS}


class Copy(torch.autograd.Function):
    """Forward: the identity. Backward: the sum over the tensor-parallel ranks."""

    @staticmethod
    def forward(ctx, x: Tensor, group: dist.ProcessGroup) -> Tensor:
        ctx.group = group
        return x

    @staticmethod
    def backward(ctx, grad: Tensor):
        grad = grad.clone()
        dist.all_reduce(grad, group=ctx.group)
        return grad, None


class Reduce(torch.autograd.Function):
    """Forward: the sum over the tensor-parallel ranks. Backward: the identity."""

    @staticmethod
    def forward(_, x: Tensor, group: dist.ProcessGroup) -> Tensor:
        x = x.clone()
        dist.all_reduce(x, group=group)
        return x

    @staticmethod
    def backward(_, grad: Tensor):
        return grad, None


class Block(nn.Module):
    """``x + down(gelu(up(norm(x))))``; with a group, its columns and rows of this rank."""

    def __init__(self, group: dist.ProcessGroup | None = None) -> None:
        super().__init__()
        hidden = HIDDEN // SHARDS if group else HIDDEN
        self.norm = nn.LayerNorm(WIDTH)
        self.up, self.down = nn.Linear(WIDTH, hidden), nn.Linear(hidden, WIDTH, bias=False)
        self.group = group

    def forward(self, x: Tensor) -> Tensor:
        y = self.norm(x)
        if self.group is None:
            return x + self.down(nn.functional.gelu(self.up(y)))
        y = Copy.apply(y, self.group)
        return x + Reduce.apply(self.down(nn.functional.gelu(self.up(y))), self.group)


class Model(nn.Module):
    """All blocks, or one of them under its name."""

    def __init__(self, stages: range = range(STAGES), group: dist.ProcessGroup | None = None) -> None:
        super().__init__()
        self.stages = nn.ModuleDict({str(k): Block(group) for k in stages})

    def forward(self, x: Tensor) -> Tensor:
        for block in self.stages.values():
            x = block(x)
        return x


def training(model: nn.Module):
    def step(x: Tensor, target: Tensor) -> Tensor:
        loss = (model(x) - target).square().sum() / BATCH
        loss.backward()
        return loss

    return step


def ranks_training(model: nn.Module, mesh: DeviceMesh, *, broken: bool):
    pipe, stage = mesh.get_group("pp"), mesh.get_local_rank("pp")
    first, last = stage == 0, stage == STAGES - 1

    def received(peer: int, shape: torch.Size) -> Tensor:
        buffer = torch.empty(shape)
        dist.recv(buffer, group=pipe, group_src=peer)
        return buffer

    def step(x: Tensor, target: Tensor) -> Tensor | None:
        inputs, outputs, losses = [], [], []
        for part, wanted in zip(x.chunk(MICROBATCHES), target.chunk(MICROBATCHES), strict=True):
            given = part if first else received(stage - 1, part.shape).requires_grad_()
            y = model(given)
            if last:
                losses.append((y - wanted).square().sum() / BATCH)
            else:
                dist.send(y, group=pipe, group_dst=stage + 1)
            inputs.append(given)
            outputs.append(y)
        for k, (given, y) in enumerate(zip(inputs, outputs, strict=True)):
            if last:
                losses[k].backward()
            else:
                y.backward(received(stage + 1, y.shape))
            if not first:
                dist.send(given.grad, group=pipe, group_dst=stage - 1)
        for parameter in model.parameters():
            dist.all_reduce(parameter.grad, group=mesh.get_group("tp" if broken else "dp"))
        if not last:
            return None
        loss = torch.stack(losses).sum()
        dist.all_reduce(loss, group=mesh.get_group("dp"))
        return loss.detach()

    return step


def shards(stage: int, dim: int | None, name: str) -> dict[str, object]:
    """Where the ranks of a stage have a parameter: parts of the first replica, and the second has the same."""
    first = stage * REPLICAS * SHARDS
    held = [[f'rank({first + dp * SHARDS + tp}, "{name}")' for tp in range(SHARDS)] for dp in range(REPLICAS)]
    if dim is None:
        flat = [rank for replica in held for rank in replica]
        return {"relation": flat[0], "equal": [" == ".join(flat)]}
    same = [" == ".join(replicas) for replicas in zip(*held, strict=True)]
    return {"relation": f"concat({', '.join(held[0])}, dim={dim})", "equal": same}


def check(*, broken: bool = False) -> tt.Report:
    def build(rank: int):
        mesh = init_device_mesh("cpu", tuple(MESH.values()), mesh_dim_names=tuple(MESH))
        stage = mesh.get_local_rank("pp")
        model = Model(range(stage, stage + 1), mesh.get_group("tp"))
        local = torch.randn(BATCH // REPLICAS, WIDTH)
        return ranks_training(model, mesh, broken=broken), (local, local), {"modules": model}

    cuts = {"up.weight": 0, "up.bias": 0, "down.weight": 1, "norm.weight": None, "norm.bias": None}
    names = {f"stages.{k}.{name}": (k, dim) for k in range(STAGES) for name, dim in cuts.items()}
    data = ["Replicate()", "Shard(0)", "Replicate()"]
    batch = torch.randn(BATCH, WIDTH)
    return tt.refine(
        tt.capture(training(Model()), (batch, batch)),
        tt.capture_ranks(build, STAGES * REPLICAS * SHARDS, mesh=MESH),
        inputs={"x": data, "target": data, **{name: shards(k, dim, name) for name, (k, dim) in names.items()}},
        outputs={f"grad {name}": shards(k, dim, f"grad {name}") for name, (k, dim) in names.items()},
    )


if __name__ == "__main__":
    print(check().raise_if_not_proved())
    print(check(broken=True))
