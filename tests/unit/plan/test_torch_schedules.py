"""PyTorch's own schedules, as its classes make them, are right; and wrong once an action moves."""

from __future__ import annotations

import re

import pytest

from tantamount.plan.actions import COMPUTE, written
from tantamount.plan.check import ProblemKind, check_schedule
from tantamount.plan.named import named_schedule
from tantamount.plan.tables import schedule_of_table

pytest.importorskip("torch")
from torch.distributed.pipelining import schedules

from tantamount.capture.torch.pipelining.orders import order_of


@pytest.mark.parametrize(
    ("name", "chunks", "microbatches"),
    [("ScheduleInterleaved1F1B", 2, 8), ("ScheduleLoopedBFS", 3, 6), ("ScheduleInterleavedZeroBubble", 2, 8),
     ("ScheduleZBVZeroBubble", 2, 8), ("ScheduleDualPipeV", 2, 10)],
)  # fmt: skip
def test_schedules_of_pytorch(name: str, chunks: int, microbatches: int) -> None:
    order = order_of(getattr(schedules, name), 4, 4 * chunks, microbatches, None)
    assert check_schedule(schedule_of_table(order.rows, name)) == ()  # with its messages
    rows = [[cell for cell in row if re.fullmatch(r"\d+[FBIW]\d+|.*OVERLAP.*|", cell)] for row in order.rows]
    assert check_schedule(schedule_of_table(rows, name)) == ()
    backward = next(k for k, cell in enumerate(rows[1]) if "B" in cell or "I" in cell)
    del rows[1][backward]
    problems = check_schedule(schedule_of_table(rows, name))
    assert problems[0].kind is ProblemKind.MISSING
    assert problems[0].device == 1


def test_the_v_of_two_directions_is_pytorch_s() -> None:
    """The same passes in the same order, those that are computed side by side among them."""
    order = order_of(schedules.ScheduleDualPipeV, 4, 8, 10, None)
    own = named_schedule("dualpipev", 4, 10, 2)
    theirs = schedule_of_table(order.rows, "ScheduleDualPipeV")
    for mine, row in zip(own.devices, theirs.devices, strict=True):
        passes = [[event for event in events if event[0].kind in COMPUTE] for events in (mine, row)]
        assert written(passes[0]) == written(passes[1])
