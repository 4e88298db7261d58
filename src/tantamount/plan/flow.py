"""The order of a schedule's events: program order on every device, and messages between devices.

Messages have no names: a send is met by the first receive of its target from its source that no earlier send has met
(NCCL's rule for one communicator). A message that has to be posted at both ends before it is over makes one step of
both events, and of everything in their batches; so a deadlock is a cycle of steps. Reductions of stages whose
parameters are copies of one another are collectives: on every device that has a copy, the first that concerns the same
devices is met by the first of the others.
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
    """``steps[k]`` are the events of step ``k``; ``order`` is every step after those it waits for, or those that could
    be ordered if ``cycle`` (steps that wait for each other, each for the next one) is not empty. ``before[k]`` are the
    steps that step ``k`` waits for."""

    steps: tuple[tuple[At, ...], ...]
    before: tuple[tuple[int, ...], ...]
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
    parent: dict[At, At] = {at: at for at in events}

    def root(at: At) -> At:
        while parent[at] != at:
            parent[at] = parent[parent[at]]
            at = parent[at]
        return at

    if schedule.rendezvous:
        for message in messages:
            if message.sent is not None and message.received is not None:
                parent[root(message.sent[1])] = root(message.received[1])
    for meeting in meetings:
        for at in meeting.at[1:]:
            parent[root(meeting.at[0])] = root(at)
    number: dict[At, int] = {}
    steps: list[list[At]] = []
    for at in events:
        top = root(at)
        if top not in number:
            number[top] = len(steps)
            steps.append([])
        steps[number[top]].append(at)
    of = {at: number[root(at)] for at in events}
    before: list[set[int]] = [set() for _ in steps]
    for device, k in events:
        if k:
            before[of[device, k]].add(of[device, k - 1])
    if not schedule.rendezvous:
        for message in messages:
            if message.sent is not None and message.received is not None:
                before[of[message.received[1]]].add(of[message.sent[1]])
    order, cycle = _ordered(before)
    return Flow(
        tuple(map(tuple, steps)), tuple(tuple(sorted(b)) for b in before), order, cycle, messages, meetings, nowhere
    )


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
