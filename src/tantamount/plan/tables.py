"""Schedules as tables: a row for every device, a cell for every action, as ``torch.distributed.pipelining`` has them
(``schedule.pipeline_order``, and the CSV files that its schedules are loaded from).

Stages and microbatches are numbered without gaps, and a microbatch passes the stages in the order of their numbers.
``(0F7;7B3)OVERLAP_F_B`` computes one pass beside the other, which is one event. A table without messages gets
those that it needs; one with messages keeps them, and its sends do not wait for their receivers, as PyTorch posts them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from tantamount.capture.schedule_rows import read_rows
from tantamount.errors import UserError
from tantamount.plan.actions import COMPUTE, MESSAGES, Chain, Event, Schedule, read_events
from tantamount.plan.check import ProblemKind, check_schedule
from tantamount.plan.exchange import with_messages

__all__ = ["read_table", "schedule_of_table"]

_OVERLAP = re.compile(r"\(([^()]*)\)OVERLAP_F_B")
_SHARDING = re.compile(r"\d+(UNSHARD|RESHARD)")  # parameters are gathered and freed: no other values


def read_table(path: Path) -> Schedule:
    """The schedule in a CSV file. Raises :class:`UserError` for a file that cannot be read or holds none."""
    return schedule_of_table(read_rows(path), str(path))


def schedule_of_table(rows: Sequence[Iterable[object]], place: str) -> Schedule:
    """The schedule whose device ``d`` does what row ``d`` lists; cells that are empty or ``None`` are pauses. Cells may
    be anything whose text is an action. Raises :class:`UserError` for cells that are no actions, for stages or
    microbatches without any, and for an order of computations that cannot be carried out."""
    devices = tuple(
        tuple(event for cell in row for event in _cell(cell, f"{place}: device {device}"))
        for device, row in enumerate(rows)
    )
    actions = [(action, device) for device, events in enumerate(devices) for event in events for action in event]
    owner = {action.stage: device for action, device in reversed(actions) if action.kind in COMPUTE}
    microbatches = {action.microbatch for action, _ in actions if action.kind in COMPUTE}
    for what, numbers in (("stages", set(owner)), ("microbatches", microbatches)):
        if numbers != set(range(len(numbers))) or not numbers:
            raise UserError(
                "plan-schedule", place=place, found=f"{what} {_listed(numbers)}", needed=f"{what} 0, 1, 2 and so on"
            )
    owners = tuple(owner[stage] for stage in range(len(owner)))
    chain = Chain(tuple(range(len(owners))), tuple(range(len(microbatches))))
    if any(action.kind in MESSAGES for action, _ in actions):
        return Schedule(devices, owners, (chain,), rendezvous=False)
    schedule = Schedule(devices, owners, (chain,))
    if any(problem.kind is ProblemKind.MISSING for problem in check_schedule(schedule)):
        return schedule  # nobody could wait for what never comes; what is missing is said where schedules are checked
    return with_messages(schedule)


def _listed(numbers: set[int]) -> str:
    return ", ".join(map(str, sorted(numbers)[:20])) or "(none)"


def _cell(cell: object, place: str) -> Iterator[Event]:
    text = "" if cell is None else str(cell).strip()
    overlap = _OVERLAP.fullmatch(text)
    if overlap:
        yield from read_events("{" + overlap.group(1).replace(";", " ") + "}", place)
    elif text and not _SHARDING.fullmatch(text):
        for event in read_events(text, place):
            yield from ((action,) for action in event)
