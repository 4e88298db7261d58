"""Training steps of eight layers, under tensor parallelism and under FSDP2, for the benchmarks that make mistakes in
captured programs."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

import tantamount as tt

LAYERS, WIDTH, HEADS, TOKENS, RANKS = 8, 16, 4, 6, 2


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.after = nn.RMSNorm(WIDTH), nn.RMSNorm(WIDTH)
        self.q, self.k, self.v, self.o = (nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(4))
        self.up, self.down = nn.Linear(WIDTH, 2 * WIDTH, bias=False), nn.Linear(2 * WIDTH, WIDTH, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        h = self.norm(x)
        q, k, v = (w(h).unflatten(-1, (-1, WIDTH // HEADS)).transpose(-2, -3) for w in (self.q, self.k, self.v))
        scores = torch.softmax(q @ k.transpose(-1, -2) * (WIDTH // HEADS) ** -0.5, -1)
        x = x + self.o((scores @ v).transpose(-2, -3).flatten(-2))
        return x + self.down(nn.functional.silu(self.up(self.after(x))))


def new_model() -> nn.Sequential:
    return nn.Sequential(*(Block() for _ in range(LAYERS)))


def training(model: nn.Module):
    def step(x: Tensor, target: Tensor) -> Tensor:
        loss = (model(x) - target).square().mean()
        loss.backward()
        return loss

    return step


COLUMNS, ROWS = ColwiseParallel(), RowwiseParallel()
PLAN = {"*.q": COLUMNS, "*.k": COLUMNS, "*.v": COLUMNS, "*.o": ROWS, "*.up": COLUMNS, "*.down": ROWS}


def tensor_parallel() -> tt.Report:
    """Eight layers under tensor parallelism, with all gradients."""
    batch = (torch.randn(TOKENS, WIDTH), torch.randn(TOKENS, WIDTH))

    def build(rank: int):
        mesh = init_device_mesh("cpu", (RANKS,), mesh_dim_names=("tp",))
        return training(parallelize_module(new_model(), mesh, PLAN, src_data_rank=None)), batch

    whole = tt.capture(training(new_model()), batch)
    return tt.refine(whole, tt.capture_ranks(build, RANKS, mesh={"tp": RANKS}))


def fully_sharded() -> tt.Report:
    """Eight layers under FSDP2, every layer a buffer of its own."""

    def batch(size: int) -> tuple[Tensor, Tensor]:
        return torch.randn(size, TOKENS, WIDTH), torch.randn(size, TOKENS, WIDTH)

    def build(rank: int):
        mesh = init_device_mesh("cpu", (RANKS,), mesh_dim_names=("dp",))
        model = new_model()
        for layer in (*model, model):
            fully_shard(layer, mesh=mesh)
        return training(model), batch(1)

    return tt.refine(
        tt.capture(training(new_model()), batch(RANKS)),
        tt.capture_ranks(build, RANKS, mesh={"dp": RANKS}),
        inputs={"x": "Shard(0)", "target": "Shard(0)"},
        outputs={"output": 'Partial("avg")'},
    )


def check() -> None:
    """Both."""
    for report in (tensor_parallel(), fully_sharded()):
        print(report)


if __name__ == "__main__":
    check()
