"""A step of a pipeline by real processes, for ``test_pipelining.py``: one rank of PyTorch's runtime over gloo.

    python pipeline_processes.py RANK WORLD PORT SCHEDULE OUT

writes the parameters of the rank's stages after one step of SGD."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.pipelining import PipelineStage, schedules

MICROBATCHES = 4
_PROGRESS = 0.3  # CPU seconds
CHUNKS = {"Schedule1F1B": 1, "ScheduleGPipe": 1, "ScheduleInterleaved1F1B": 2, "ScheduleZBVZeroBubble": 2}


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up = nn.Linear(4, 8)
        self.down = nn.Linear(8, 4)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.down(torch.sin(self.up(x)))


def loss(found: Tensor, wanted: Tensor) -> Tensor:
    return ((found - wanted) ** 2).mean()


def sgd(parameters: Any) -> torch.optim.Optimizer:
    return torch.optim.SGD(parameters, lr=0.1)


def stages(count: int) -> list[nn.Module]:
    """The modules of all stages, with the same numbers in every process."""
    torch.manual_seed(1)
    return [Layer().double() for _ in range(count)]


def data() -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(2)
    return tuple(torch.randn(8, 4, generator=generator, dtype=torch.float64) for _ in range(2))  # type: ignore[return-value]


def finished(processes: Sequence[subprocess.Popen[bytes]], patience: float = 120.0) -> list[int]:
    """The exit codes of processes that wait for each other. They are killed, and fail, where together they have worked
    for less than a third of a CPU second in ``patience`` seconds: on a busy machine they take long, and work."""
    begun, noted = time.monotonic(), 0.0
    spent = dict.fromkeys(processes, 0.0)  # what is done says nothing more
    try:
        while None in [process.poll() for process in processes]:
            time.sleep(0.1)
            spent = {process: max(before, _cpu_seconds(process)) for process, before in spent.items()}
            if sum(spent.values()) >= noted + _PROGRESS:
                begun, noted = time.monotonic(), sum(spent.values())
            if time.monotonic() > begun + patience:
                break
        return [-1 if process.returncode is None else process.returncode for process in processes]
    finally:
        for process in processes:
            process.kill()
            process.wait()


def _cpu_seconds(process: subprocess.Popen[bytes]) -> float:
    """The CPU seconds of a process that runs; 0 of one that is done, or where the system does not say."""
    try:
        fields = Path(f"/proc/{process.pid}/stat").read_text(encoding="ascii").rsplit(") ", 1)[1].split()
    except (OSError, IndexError):
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def run(rank: int, world: int, port: int, name: str, out: Path) -> None:
    dist.init_process_group("gloo", init_method=f"tcp://localhost:{port}", rank=rank, world_size=world)
    count = world * CHUNKS[name]
    modules = stages(count)
    own = [rank + k * world for k in range(CHUNKS[name])]
    if name == "ScheduleZBVZeroBubble":
        own = [rank, count - 1 - rank]
    x, wanted = data()
    held = [PipelineStage(modules[s], s, count, torch.device("cpu")) for s in own]
    kind = getattr(schedules, name)
    schedule = kind(held[0] if CHUNKS[name] == 1 else held, MICROBATCHES, loss_fn=loss)
    optimizer = sgd([p for s in own for p in modules[s].parameters()])
    given = (x,) if 0 in own else ()
    schedule.step(*given, **({"target": wanted} if count - 1 in own else {}))
    optimizer.step()
    torch.save({f"{s}.{n}": p.detach() for s in own for n, p in modules[s].named_parameters()}, out)
    dist.destroy_process_group()


if __name__ == "__main__":
    run(int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4], Path(sys.argv[5]))
