"""PyTorch's own schedules, as its classes make them, are right; and wrong once an action moves."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tantamount.plan.check import ProblemKind, check_schedule
from tantamount.plan.tables import schedule_of_table

torch = pytest.importorskip("torch")


def orders(name: str, devices: int, microbatches: int, chunks: int, v_shaped: bool) -> list[list[Any]]:
    """The table of a schedule class of PyTorch; its stages are stand-ins, as nothing is run."""
    from torch.distributed.pipelining import schedules

    count = devices * chunks
    own = [0, count - 1] if v_shaped else [chunk * devices for chunk in range(chunks)]
    stages = [
        SimpleNamespace(
            stage_index=stage, group_size=devices, num_stages=count, group_rank=0, is_first=stage == 0,
            is_last=stage == count - 1, group=None, device=torch.device("cpu"), has_backward=True, submod=None,
        )
        for stage in own
    ]  # fmt: skip
    made: Any = getattr(schedules, name)(stages, microbatches, loss_fn=lambda found, wanted: found)
    return [list(made.pipeline_order[device]) for device in range(devices)]


@pytest.mark.parametrize(
    ("name", "chunks", "microbatches"),
    [("ScheduleInterleaved1F1B", 2, 8), ("ScheduleLoopedBFS", 3, 6), ("ScheduleInterleavedZeroBubble", 2, 8),
     ("ScheduleZBVZeroBubble", 2, 8), ("ScheduleDualPipeV", 2, 10)],
)  # fmt: skip
def test_schedules_of_pytorch(name: str, chunks: int, microbatches: int) -> None:
    rows = orders(name, 4, microbatches, chunks, v_shaped=name in ("ScheduleZBVZeroBubble", "ScheduleDualPipeV"))
    assert check_schedule(schedule_of_table(rows, name)) == ()
    backward = next(k for k, cell in enumerate(rows[1]) if "B" in str(cell) or "I" in str(cell))
    del rows[1][backward]
    problems = check_schedule(schedule_of_table(rows, name))
    assert problems[0].kind is ProblemKind.MISSING
    assert problems[0].device == 1
