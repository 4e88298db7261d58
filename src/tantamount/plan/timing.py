"""The cost of a schedule: the times of passes, the waiting of devices, the microbatches that they keep."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tantamount.plan.actions import COMPUTE, Action, Kind, Schedule
from tantamount.plan.exchange import Neighbours, neighbours
from tantamount.plan.flow import Flow

__all__ = ["UNIT", "Slot", "Timing", "costs", "said_of", "timing_of"]

UNIT: Mapping[Kind, float] = {
    Kind.FORWARD: 1.0,
    Kind.BACKWARD: 2.0,
    Kind.INPUT_GRADIENT: 1.0,
    Kind.WEIGHT_GRADIENT: 1.0,
}


@dataclass(frozen=True, slots=True)
class Slot:
    """One pass on a device's time line."""

    action: Action
    start: float
    stop: float


@dataclass(frozen=True)
class Timing:
    """``lines[d]``: the passes of device ``d`` in time, in units of one forward pass. ``bubble``: the share of the time
    of all devices in which none computes. ``kept[d]``: the most passes at once whose activations device ``d`` keeps,
    counted by stage and microbatch."""

    lines: tuple[tuple[Slot, ...], ...]
    total: float
    bubble: float
    kept: tuple[int, ...]


def timing_of(schedule: Schedule, flow: Flow, seconds: Mapping[Kind, float] = UNIT) -> Timing:
    """Every pass as early as its device is free and what it uses is made, messages taking no time beside the
    computation: the bound that schedules are compared by. ``seconds`` by kind of pass.

    Raises ``ValueError`` for a schedule with a deadlock, which never ends."""
    if flow.cycle:
        raise ValueError("a schedule with a deadlock has no end")
    around = neighbours(schedule)
    ends: dict[Action, float] = {}
    free = [0.0] * len(schedule.devices)
    lines: list[list[Slot]] = [[] for _ in schedule.devices]
    for device, k in (at for step in flow.order if (at := flow.steps[step]) is not None):
        for action in schedule.devices[device][k]:
            if action.kind in COMPUTE:
                made = (ends.get(need, 0.0) for need in _uses(action, around))
                start = max([free[device], *made])
                ends[action] = free[device] = start + seconds[action.kind]
                lines[device].append(Slot(action, start, free[device]))
    total = max(free, default=0.0)
    busy = sum(slot.stop - slot.start for line in lines for slot in line)
    whole = total * len(lines)
    kept = tuple(_kept(schedule, device) for device in range(len(schedule.devices)))
    return Timing(tuple(map(tuple, lines)), total, 1 - busy / whole if whole else 0.0, kept)


def _uses(action: Action, around: Neighbours) -> tuple[Action, ...]:
    """The passes that make what a pass uses, those that there may be instead of each other among them."""
    stage, kind, microbatch = action.stage, action.kind, action.microbatch
    before, after = around.get((stage, microbatch), (None, None))  # of a pass that is none of the plan's
    if kind is Kind.FORWARD:
        return () if before is None else (Action(before, kind, microbatch),)
    own = (Action(stage, Kind.FORWARD, microbatch), Action(stage, Kind.INPUT_GRADIENT, microbatch))
    if after is None:
        return own
    return (*own, *(Action(after, other, microbatch) for other in (Kind.BACKWARD, Kind.INPUT_GRADIENT)))


def _kept(schedule: Schedule, device: int) -> int:
    """The most forward passes whose backward pass (or its last part) has not come yet."""
    now = most = 0
    for event in schedule.devices[device]:
        for action in event:
            if action.kind is Kind.FORWARD:
                now += 1
                most = max(most, now)
            elif action.kind in (Kind.BACKWARD, Kind.WEIGHT_GRADIENT):
                now -= 1
    return most


def costs(timing: Timing) -> dict[str, object]:
    """The costs of a schedule as values that JSON has: ``passes`` is its length in forward passes."""
    return {"passes": timing.total, "waiting": round(timing.bubble, 4), "kept": list(timing.kept)}


def said_of(timing: Timing) -> str:
    """The costs of a schedule in one clause."""
    kept = [str(count) for count in timing.kept]
    listed = ", ".join(kept if len(kept) <= _LISTED else [*kept[: _LISTED - 2], "...", kept[-1]])
    most = (
        f"{kept[0]} passes are kept on every device" if len(set(kept)) == 1 else f"{listed} passes are kept, by device"
    )
    time = f"{timing.total:g} forward passes long, {timing.bubble:.1%} of the time of all devices is waiting"
    return f"{time}; activations of at most {most}"


_LISTED = 16  # numbers of passes
