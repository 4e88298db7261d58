"""Context parallelism with PyTorch's ``context_parallel``: ring attention, causal, forward and backward.

The sequence is cut into two chunks for every rank; rank r holds chunk r and the r-th from the end, so that
all have as much to do. Keys and values go round; every rank merges what it gets by the sums of exponentials, and the
blocks that a causal mask hides are never computed. Ranks run different programs. The broken twin forgets that chunks
are out of order when it adds the positions.

    python examples/context_parallel.py
"""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.tensor.experimental import context_parallel
from torch.distributed.tensor.experimental._attention import set_rotate_method

import tantamount as tt

RANKS, BATCH, LENGTH, HEADS, SIZE = 2, 1, 8, 2, 4
WIDTH, CHUNK = HEADS * SIZE, LENGTH // (2 * RANKS)


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor, positions: Tensor) -> Tensor:
        x = x + positions.unsqueeze(-1)
        q, k, v = (part.unflatten(-1, (HEADS, SIZE)).transpose(1, 2) for part in self.qkv(x).chunk(3, dim=-1))
        y = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(y.transpose(1, 2).flatten(2))


def step(model: nn.Module):
    def run(x: Tensor, target: Tensor) -> Tensor:
        loss = (model(x, torch.arange(float(LENGTH))) - target).square().sum()
        loss.backward()
        return loss

    return run


def ranks_step(model: nn.Module, mesh: DeviceMesh, rank: int, *, broken: bool):
    chunks = [2 * rank, 2 * rank + 1] if broken else [rank, 2 * RANKS - 1 - rank]

    def run(x: Tensor, target: Tensor) -> Tensor:
        positions = torch.cat([torch.arange(float(k * CHUNK), float((k + 1) * CHUNK)) for k in chunks])
        with context_parallel(mesh, buffers=[torch.empty(LENGTH)], buffer_seq_dims=[0]):
            loss = (model(x, positions) - target).square().sum()
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
        local = torch.randn(BATCH, LENGTH // RANKS, WIDTH)
        return ranks_step(Attention(), mesh, rank, broken=broken), (local, local)

    whole = torch.randn(BATCH, LENGTH, WIDTH)
    first, last = f"[0:{BATCH}, 0:{CHUNK}, 0:{WIDTH}]", f"[0:{BATCH}, {CHUNK}:{2 * CHUNK}, 0:{WIDTH}]"
    order = [f"rank({r}){first}" for r in range(RANKS)] + [f"rank({r}){last}" for r in reversed(range(RANKS))]
    chunks = f"concat({', '.join(order)}, dim=1)"
    return tt.refine(
        tt.capture(step(Attention()), (whole, whole)),
        tt.capture_ranks(build, RANKS, mesh={"cp": RANKS}),
        inputs={"x": chunks, "target": chunks},
    )


if __name__ == "__main__":
    for rotate in ("alltoall", "allgather"):
        print(check(rotate=rotate).raise_if_not_proved())
    print(check(broken=True))
