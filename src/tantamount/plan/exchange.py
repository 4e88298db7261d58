"""The messages that a schedule of computations needs, put where they cannot wait for each other.

All devices go in steps: in each, a device computes what comes next if what that needs has arrived; then everything that
was made for another device is sent, each device's sends and receives of a step as one batch. So a message is over
before the next step, and no batch waits for one of a later step: the result has no deadlock, and has one for every
order of computations that can be carried out at all.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace

from tantamount.errors import UserError
from tantamount.plan.actions import COMPUTE, Action, Event, Kind, Schedule, written

__all__ = ["neighbours", "with_messages"]

Neighbours = Mapping[tuple[int, int], tuple["int | None", "int | None"]]


def neighbours(schedule: Schedule) -> Neighbours:
    """The stages before and after a stage on the way of a microbatch, by (stage, microbatch)."""
    found: dict[tuple[int, int], tuple[int | None, int | None]] = {}
    for chain in schedule.chains:
        around = (None, *chain.stages, None)
        for position, stage in enumerate(chain.stages):
            for microbatch in chain.microbatches:
                found[stage, microbatch] = (around[position], around[position + 2])
    return found


def with_messages(schedule: Schedule) -> Schedule:
    """The schedule, whose devices only compute, with sends and receives.

    Raises :class:`UserError` for an order that cannot be carried out: every device waits for another."""
    around = neighbours(schedule)
    queues = schedule.devices
    every = (action for queue in queues for event in queue for action in event)
    split = {(a.stage, a.microbatch) for a in every if a.kind is Kind.INPUT_GRADIENT}
    at = [0] * len(queues)
    made: list[list[Event]] = [[] for _ in queues]
    ready: set[tuple[str, int, int]] = set()  # what is on the device that needs it
    while any(position < len(queue) for position, queue in zip(at, queues, strict=True)):
        batches: dict[int, list[Action]] = defaultdict(list)
        arrived: list[tuple[str, int, int]] = []
        done = 0
        for device, queue in enumerate(queues):
            if at[device] == len(queue):
                continue
            event = queue[at[device]]
            if any(not _needs(action, around, split) <= ready for action in event):
                continue
            done += 1
            at[device] += 1
            made[device].append(event)
            for action in event:
                arrived += _results(action, around)
                target = _target(action, around)
                if target is not None and schedule.owners[target] != device:
                    forward = action.kind is Kind.FORWARD
                    send, receive = (
                        (Kind.SEND_FORWARD, Kind.RECEIVE_FORWARD)
                        if forward
                        else (Kind.SEND_BACKWARD, Kind.RECEIVE_BACKWARD)
                    )
                    batches[device].append(Action(action.stage, send, action.microbatch))
                    batches[schedule.owners[target]].append(Action(target, receive, action.microbatch))
        if not done:
            stuck = (queue[k : k + 1] for k, queue in zip(at, queues, strict=True) if k < len(queue))
            waiting = ", ".join(map(written, stuck))
            raise UserError(
                "plan-schedule", place="schedule", found=f"an order in which every device waits: {waiting}",
                needed="one in which what a device computes next has been made before",
            )  # fmt: skip
        ready.update(arrived)
        for device, batch in batches.items():
            made[device].append(tuple(batch))
    return replace(schedule, devices=tuple(map(tuple, made)))


def _target(action: Action, around: Neighbours) -> int | None:
    """The stage that goes on with what an action makes."""
    before, after = around.get((action.stage, action.microbatch), (None, None))
    if action.kind is Kind.FORWARD:
        return after
    return before if action.kind in (Kind.BACKWARD, Kind.INPUT_GRADIENT) else None


def _needs(action: Action, around: Neighbours, split: set[tuple[int, int]]) -> set[tuple[str, int, int]]:
    """The labels that must be on the device before an action. ``split``: where the gradient of the input is made by
    itself."""
    before, after = around.get((action.stage, action.microbatch), (None, None))
    stage, microbatch = action.stage, action.microbatch
    if action.kind not in COMPUTE:
        return set()
    if action.kind is Kind.FORWARD:
        return set() if before is None else {("input", stage, microbatch)}
    if action.kind is Kind.WEIGHT_GRADIENT and (stage, microbatch) in split:
        return {("split", stage, microbatch)}
    own = {("saved", stage, microbatch)}
    return own if after is None else own | {("gradient", stage, microbatch)}


def _results(action: Action, around: Neighbours) -> list[tuple[str, int, int]]:
    if action.kind not in COMPUTE:
        return []
    target = _target(action, around)
    found: list[tuple[str, int, int]] = []
    if action.kind is Kind.FORWARD:
        found.append(("saved", action.stage, action.microbatch))
    if action.kind is Kind.INPUT_GRADIENT:
        found.append(("split", action.stage, action.microbatch))
    if target is not None:
        found.append(("input" if action.kind is Kind.FORWARD else "gradient", target, action.microbatch))
    return found
