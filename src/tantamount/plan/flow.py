"""The order of a schedule's events: program order on every device, and messages between devices.

Messages have no names: a send is met by the first receive of its target from its source that no earlier send has met
(NCCL's rule for one communicator). Reductions of stages whose parameters are copies of one another are collectives: on
every device that has a copy, the first that concerns the same devices is met by the first of the others.

An event is posted when the one before it on its device is over, and over when all its messages are; a message is over
when both ends have posted it, whatever else is in their batches, which are posted as a whole. A deadlock is a cycle of
these.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest

from tantamount.plan.actions import Action, Kind, Schedule
from tantamount.plan.exchange import neighbours

__all__ = ["At", "Flow", "Matched", "Meeting", "flow_of"]

At = tuple[int, int]  # device, and position among its events
_SENDS = (Kind.SEND_FORWARD, Kind.SEND_BACKWARD)
_RECEIVES = (Kind.RECEIVE_FORWARD, Kind.RECEIVE_BACKWARD)


@dataclass(frozen=True, slots=True)
class Matched:
    """A message: who sends and who receives, and what each of the two says it is; one of them may be missing.
    ``stage``: the one that goes on with what is sent."""

    source: int
    target: int
    stage: int | None
    sent: tuple[Action, At] | None
    received: tuple[Action, At] | None


@dataclass(frozen=True, slots=True)
class Meeting:
    """Reductions that meet: one on each of some devices, of the stage ``stages[k]``; ``of`` is the stage whose copies
    they should all be."""

    of: int
    stages: tuple[int, ...]
    at: tuple[At, ...]


@dataclass(frozen=True)
class Flow:
    """The steps of a schedule. ``steps[k]``: the event that is posted in step ``k``; ``None`` where an event is over
    (the step after that in which it is posted), or a message or a collective: ``ends[k]`` are the events that have it.
    In ``order`` every step comes after those it waits for; or it has those that could be ordered, if ``cycle``
    (messages that wait for each other, each for the next one) is not empty."""

    steps: tuple[At | None, ...]
    ends: tuple[tuple[At, ...], ...]
    order: tuple[int, ...]
    cycle: tuple[int, ...]
    messages: tuple[Matched, ...]
    meetings: tuple[Meeting, ...]
    nowhere: tuple[tuple[Action, At], ...]  # messages of stages that have nobody there, or are their own neighbour


def flow_of(schedule: Schedule) -> Flow:
    """The steps of a schedule; linear in its actions."""
    messages, nowhere = _match(schedule)
    meetings = _meetings(schedule)
    events = [(device, k) for device, program in enumerate(schedule.devices) for k in range(len(program))]
    posted = {at: 2 * number for number, at in enumerate(events)}  # it is over in the step after that
    steps: list[At | None] = [step for at in events for step in (at, None)]
    ends: list[tuple[At, ...]] = [()] * len(steps)
    before: list[set[int]] = [set() for _ in steps]
    for (device, k), step in posted.items():
        before[step + 1].add(step)
        if k:
            before[step].add(posted[device, k - 1] + 1)

    def joined(at: tuple[At, ...], waited: tuple[At, ...], waits: tuple[At, ...]) -> None:
        """A step of these events: it comes after some are posted, and before some are over."""
        for one in waits:
            before[posted[one] + 1].add(len(steps))
        steps.append(None)
        ends.append(at)
        before.append({posted[one] for one in waited})

    for message in messages:
        if message.sent is not None and message.received is not None:
            at = (message.sent[1], message.received[1])
            joined(at, *((at, at) if schedule.rendezvous else (at[:1], at[1:])))
    for meeting in meetings:
        joined(meeting.at, meeting.at, meeting.at)
    order, cycle = _ordered(before)
    cycle = tuple(step for step in cycle if ends[step])
    return Flow(tuple(steps), tuple(ends), order, cycle, messages, meetings, nowhere)


def _meetings(schedule: Schedule) -> tuple[Meeting, ...]:
    """The reductions of stages with copies that meet, by the devices that they concern; without those that nothing
    meets on some device."""
    places: dict[int, set[int]] = {}
    for copy, stage in schedule.copies.items():
        places.setdefault(stage, {schedule.owners[stage]}).add(schedule.owners[copy])
    posted: dict[tuple[int, ...], dict[int, list[tuple[int, At]]]] = defaultdict(lambda: defaultdict(list))
    for device, program in enumerate(schedule.devices):
        for k, event in enumerate(program):
            for action in event:
                of = schedule.copies.get(action.stage, action.stage)
                alone = schedule.meets is not None and action.stage not in schedule.meets
                if action.kind is Kind.REDUCE and of in places and not alone:
                    posted[tuple(sorted(places[of]))][device].append((action.stage, (device, k)))
    found: list[Meeting] = []
    for devices, by in sorted(posted.items()):
        for met in zip(*(by[device] for device in devices), strict=False):
            of = schedule.copies.get(met[0][0], met[0][0])
            found.append(Meeting(of, tuple(stage for stage, _ in met), tuple(at for _, at in met)))
    return tuple(found)


def _match(schedule: Schedule) -> tuple[tuple[Matched, ...], tuple[tuple[Action, At], ...]]:
    around = neighbours(schedule)
    sent: dict[tuple[int, int], list[tuple[Action, At]]] = defaultdict(list)
    going: dict[Action, int] = {}
    received: dict[tuple[int, int], list[tuple[Action, At]]] = defaultdict(list)
    nowhere: list[tuple[Action, At]] = []
    for device, program in enumerate(schedule.devices):
        for k, event in enumerate(program):
            for action in event:
                if action.kind not in _SENDS + _RECEIVES:
                    continue
                before, after = around.get((action.stage, action.microbatch), (None, None))
                other = after if action.kind in (Kind.SEND_FORWARD, Kind.RECEIVE_BACKWARD) else before
                if other is None or schedule.owners[other] == device:
                    nowhere.append((action, (device, k)))
                elif action.kind in _SENDS:
                    going[action] = other
                    sent[device, schedule.owners[other]].append((action, (device, k)))
                else:
                    received[schedule.owners[other], device].append((action, (device, k)))
    return tuple(
        Matched(source, target, None if send is None else going[send[0]], send, receive)
        for source, target in sorted({*sent, *received})
        for send, receive in zip_longest(sent[source, target], received[source, target])
    ), tuple(nowhere)


def _ordered(before: Sequence[set[int]]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """All steps, each after those before it; or those that can be ordered, and a cycle."""
    after: list[list[int]] = [[] for _ in before]
    missing = [len(earlier) for earlier in before]
    for step, earlier in enumerate(before):
        for other in earlier:
            after[other].append(step)
    ready = deque(step for step, count in enumerate(missing) if not count)
    order: list[int] = []
    while ready:
        step = ready.popleft()
        order.append(step)
        for other in after[step]:
            missing[other] -= 1
            if not missing[other]:
                ready.append(other)
    if len(order) == len(before):
        return tuple(order), ()
    stuck = {step for step, count in enumerate(missing) if count}
    path: list[int] = [min(stuck)]
    seen = {path[0]: 0}
    while True:
        step = min(other for other in before[path[-1]] if other in stuck)
        if step in seen:
            return tuple(order), tuple(path[seen[step] :])
        seen[step] = len(path)
        path.append(step)
