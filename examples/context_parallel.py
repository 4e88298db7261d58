"""Context parallelism with PyTorch's ``context_parallel``: ring attention, forward and backward.

Every rank has a part of the sequence. Keys and values go round; results of attention to different keys are merged by
their sums of exponentials, and the backward pass computes with the merged ones. The broken twin counts the positions of
every rank from 0.

    python examples/context_parallel.py
"""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.tensor.experimental import context_parallel
from torch.distributed.tensor.experimental._attention import _cp_options, set_rotate_method

import tantamount as tt

RANKS, BATCH, LENGTH, HEADS, SIZE = 4, 1, 8, 2, 4
WIDTH, LOCAL = HEADS * SIZE, LENGTH // RANKS


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor, first: int = 0) -> Tensor:
        x = x + torch.sin(torch.arange(x.shape[1]) + first)[:, None]
        q, k, v = (part.unflatten(-1, (HEADS, SIZE)).transpose(1, 2) for part in self.qkv(x).chunk(3, dim=-1))
        y = nn.functional.scaled_dot_product_attention(q, k, v)
        return self.out(y.transpose(1, 2).flatten(2))


def step(model: nn.Module):
    def run(x: Tensor, target: Tensor) -> Tensor:
        loss = (model(x) - target).square().sum()
        loss.backward()
        return loss

    return run


def ranks_step(model: nn.Module, mesh: DeviceMesh, first: int):
    def run(x: Tensor, target: Tensor) -> Tensor:
        with context_parallel(mesh, buffers=[torch.empty(LENGTH)], buffer_seq_dims=[0]):
            loss = (model(x, first) - target).square().sum()
            loss.backward()
        for parameter in model.parameters():
            dist.all_reduce(parameter.grad)
        dist.all_reduce(loss)
        return loss

    return run


def check(*, broken: bool = False, rotate: str = "alltoall") -> tt.Report:
    def build(rank: int):
        mesh = init_device_mesh("cpu", (RANKS,), mesh_dim_names=("cp",))
        set_rotate_method(rotate)
        _cp_options.enable_load_balance = False  # that is for causal masks
        local = torch.randn(BATCH, LOCAL, WIDTH)
        return ranks_step(Attention(), mesh, 0 if broken else rank * LOCAL), (local, local)

    whole = torch.randn(BATCH, LENGTH, WIDTH)
    return tt.refine(
        tt.capture(step(Attention()), (whole, whole)),
        tt.capture_ranks(build, RANKS, mesh={"cp": RANKS}),
        inputs={"x": "Shard(1)", "target": "Shard(1)"},
    )


if __name__ == "__main__":
    for rotate in ("alltoall", "allgather"):
        print(check(rotate=rotate).raise_if_not_proved())
    print(check(broken=True))
