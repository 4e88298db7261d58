"""Pipeline parallelism with ``torch.distributed.pipelining``: two stages on two ranks, microbatches, three schedules.

Every rank runs another program: what it sends and receives is matched message by message, and a schedule that hangs is
reported with both ranks. Gradients are on the rank of their stage, the loss is on the last one. The broken twin adds up
the gradients of the microbatches' mean losses, and never divides by their number.

    python examples/pipeline.py
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleGPipe, ScheduleInterleaved1F1B

import tantamount as tt

RANKS, LAYERS, WIDTH, BATCH, MICROBATCHES = 2, 4, 8, 8, 4


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 2 * WIDTH), nn.Linear(2 * WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.down(nn.functional.gelu(self.up(self.norm(x))))


class Model(nn.Module):
    """All layers, or those of one stage: names stay those of the whole model."""

    def __init__(self, layers: range = range(LAYERS)) -> None:
        super().__init__()
        self.layers = nn.ModuleDict({str(k): Block() for k in layers})

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers.values():
            x = layer(x)
        return x


def mean_square(x: Tensor, target: Tensor) -> Tensor:
    return (x - target).square().mean()


def training(model: nn.Module):
    def step(x: Tensor, target: Tensor) -> Tensor:
        loss = mean_square(model(x), target)
        loss.backward()
        return loss

    return step


def stages(rank: int, chunks: int) -> dict[int, Model]:
    """The stages of a rank: with two chunks, rank 0 has stages 0 and 2."""
    size = LAYERS // (RANKS * chunks)
    return {k: Model(range(k * size, (k + 1) * size)) for k in range(rank, RANKS * chunks, RANKS)}


def ranks_training(rank: int, schedule_class: type, *, broken: bool):
    chunks = 2 if schedule_class is ScheduleInterleaved1F1B else 1
    models = stages(rank, chunks)
    example = torch.empty(BATCH // MICROBATCHES, WIDTH, requires_grad=True)

    def step(x: Tensor, target: Tensor):
        parts = [
            PipelineStage(model, k, RANKS * chunks, torch.device("cpu"), input_args=example, output_args=example)
            for k, model in models.items()
        ]
        schedule = schedule_class(
            parts if chunks > 1 else parts[0], MICROBATCHES, loss_fn=mean_square, scale_grads=not broken
        )
        losses: list[Tensor] = []
        schedule.step(*([x] if rank == 0 else []), target=target if rank == RANKS - 1 else None, losses=losses)
        return torch.stack(losses).mean() if losses else None

    return step, list(models.values())


def check(*, broken: bool = False, schedule: type = Schedule1F1B) -> tt.Report:
    batch = (torch.randn(BATCH, WIDTH), torch.randn(BATCH, WIDTH))

    def build(rank: int):
        step, modules = ranks_training(rank, schedule, broken=broken)
        whole = nn.Module()
        whole.layers = nn.ModuleDict({name: block for m in modules for name, block in m.layers.items()})
        return step, batch, {"modules": whole}

    return tt.refine(tt.capture(training(Model()), batch), tt.capture_ranks(build, RANKS, mesh={"pp": RANKS}))


if __name__ == "__main__":
    for schedule in (ScheduleGPipe, Schedule1F1B, ScheduleInterleaved1F1B):
        print(check(schedule=schedule).raise_if_not_proved())
    print(check(broken=True))
