"""Problems of a schedule: work that is missing or done twice, data that is not there or not the one that is meant,
devices that wait for each other, gradients that are reduced too early, too late or twice.

A schedule without problems computes, for every microbatch, the passes of the stages in their order, on what the message
or the device itself holds of *that* microbatch; and every microbatch's gradient of every stage is in exactly one
reduction, and all are before the update. Reductions of stages that have copies meet those of the copies. Argument:
messages and such reductions are matched in the order in which they are posted, and their labels compared, so what a
receive gets is what its label says; every pass finds the labels that it reads among
what was received or made before it on its own device; steps without a cycle have an order, so all of them happen.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from tantamount.plan.actions import COMPUTE, Action, Kind, Schedule
from tantamount.plan.exchange import Neighbours, neighbours
from tantamount.plan.flow import Flow, flow_of

__all__ = ["Problem", "ProblemKind", "check_schedule"]

_MEETS = {Kind.SEND_FORWARD: Kind.RECEIVE_FORWARD, Kind.SEND_BACKWARD: Kind.RECEIVE_BACKWARD}


class ProblemKind(StrEnum):
    """The kinds of problems of a schedule; their names are stable."""

    UNKNOWN = "unknown"  # a stage or microbatch that the plan does not have
    PLACE = "place"  # on another device than the stage's
    MISSING = "missing"
    TWICE = "twice"
    MESSAGE = "message"  # a receive gets something else
    UNMATCHED = "unmatched"  # a message that one end only posts
    ORDER = "order"  # used before it is there
    SLOT = "slot"  # written over while it is still needed
    DEADLOCK = "deadlock"
    REDUCTION = "reduction"
    UPDATE = "update"


@dataclass(frozen=True, slots=True)
class Problem:
    """One mistake: its kind, the device (the first one of several) and its action, and a sentence."""

    kind: ProblemKind
    device: int
    action: Action | None
    text: str

    def __str__(self) -> str:
        return f"device {self.device}: {self.text}"


def check_schedule(schedule: Schedule, flow: Flow | None = None) -> tuple[Problem, ...]:
    """The problems of a schedule, the causes before what follows from them; empty if nothing is. ``flow``: its
    :func:`~tantamount.plan.flow.flow_of`, if it is at hand. Linear in the number of actions."""
    around = neighbours(schedule)
    strange = tuple(_strange(schedule, around))
    if strange:
        return strange  # what follows looks stages up
    flow = flow_of(schedule) if flow is None else flow
    done = Counter(action for program in schedule.devices for event in program for action in event)
    return (
        *_work(schedule, around, done),
        *_messages(flow),
        *_meetings(schedule, flow),
        *_deadlock(schedule, flow),
        *(found for device in range(len(schedule.devices)) for found in _Device(schedule, device, around, done).run()),
        *_never(schedule, done),
    )


def _strange(schedule: Schedule, around: Neighbours) -> Iterator[Problem]:
    """Actions on stages, or on microbatches of stages, that there are not; and on devices that do not own the stage."""
    for device, program in enumerate(schedule.devices):
        for event in program:
            for action in event:
                whole = action.kind in (Kind.REDUCE, Kind.UPDATE)
                if not (action.stage < len(schedule.owners) if whole else (action.stage, action.microbatch) in around):
                    text = f"{action} is of a stage or microbatch that the plan does not have"
                    yield Problem(ProblemKind.UNKNOWN, device, action, text)
                elif schedule.owners[action.stage] != device:
                    text = f"{action}, but stage {action.stage} is on device {schedule.owners[action.stage]}"
                    yield Problem(ProblemKind.PLACE, device, action, text)


def _work(schedule: Schedule, around: Neighbours, done: Counter[Action]) -> Iterator[Problem]:
    """Passes that are missing, or done more than once."""
    for (stage, microbatch), (before, _) in around.items():
        forward, whole, own, weights = (
            Action(stage, kind, microbatch)
            for kind in (Kind.FORWARD, Kind.BACKWARD, Kind.INPUT_GRADIENT, Kind.WEIGHT_GRADIENT)
        )
        split = bool(done[own] or done[weights])
        wanted = [forward, *([weights] if split else [whole])]
        wanted += [own] if split and before is not None else []
        device = schedule.owners[stage]
        for action in wanted:
            if not done[action]:
                yield Problem(ProblemKind.MISSING, device, action, f"{action} is missing")
        for action in (forward, whole, own, weights):
            if done[action] > 1:
                yield Problem(ProblemKind.TWICE, device, action, f"{action} is done {done[action]} times")
        if split and done[whole]:
            yield Problem(ProblemKind.TWICE, device, whole, f"{whole} is done whole and in parts")


def _messages(flow: Flow) -> Iterator[Problem]:
    """Messages that only one end posts, and receives that get another one than they are meant for."""
    for action, (device, _) in flow.nowhere:
        yield Problem(ProblemKind.UNMATCHED, device, action, f"{action} has nobody on another device at the other end")
    for message in flow.messages:
        if message.sent is not None and message.received is not None:
            sent, received = message.sent[0], message.received[0]
            if (_MEETS[sent.kind], message.stage, sent.microbatch) != (
                received.kind, received.stage, received.microbatch,
            ):  # fmt: skip
                text = (
                    f"{received} gets {sent} of device {message.source}: messages between two devices meet in the "
                    "order in which they are posted"
                )
                yield Problem(ProblemKind.MESSAGE, message.target, received, text)
        for end, other in ((message.sent, message.target), (message.received, message.source)):
            if end is not None and (message.sent is None or message.received is None):
                action, (device, _) = end
                text = f"{action} is met by nothing on device {other}"
                yield Problem(ProblemKind.UNMATCHED, device, action, text)


def _meetings(schedule: Schedule, flow: Flow) -> Iterator[Problem]:
    """Reductions of one stage that are met by those of another: the gradients of both would be added up."""
    for meeting in flow.meetings:
        if any(schedule.copies.get(stage, stage) != meeting.of for stage in meeting.stages):
            met = " and ".join(
                f"{Action(stage, Kind.REDUCE)} on device {device}"
                for stage, (device, _) in zip(meeting.stages, meeting.at, strict=True)
            )
            text = f"{met} meet, and are of other stages: collectives meet in the order in which they are posted"
            yield Problem(ProblemKind.MESSAGE, meeting.at[0][0], Action(meeting.stages[0], Kind.REDUCE), text)


def _deadlock(schedule: Schedule, flow: Flow) -> Iterator[Problem]:
    """The messages of a cycle, if there is one."""
    if not flow.cycle:
        return
    shown: list[str] = []
    for step in reversed(flow.cycle):
        events = [(device, schedule.devices[device][k]) for device, k in flow.ends[step]]
        shown.append(" and ".join(f"{' '.join(map(str, event))} on device {device}" for device, event in events))
    device, k = flow.ends[flow.cycle[-1]][0]
    text = f"devices wait for each other: {'; then '.join(shown)}; then the first again"
    yield Problem(ProblemKind.DEADLOCK, device, schedule.devices[device][k][0], text)


def _never(schedule: Schedule, done: Counter[Action]) -> Iterator[Problem]:
    """Stages whose gradients are not reduced although some are, or copies must be; and that are not updated although
    some are."""
    for kind, problem in ((Kind.REDUCE, ProblemKind.REDUCTION), (Kind.UPDATE, ProblemKind.UPDATE)):
        needed = kind is Kind.REDUCE and bool(schedule.copies)
        if needed or any(action.kind is kind for action in done):
            for stage, device in enumerate(schedule.owners):
                action = Action(stage, kind)
                if not done[action]:
                    yield Problem(problem, device, action, f"{action} is missing")


class _Device:
    """One device's actions in their order: what it uses before it has it, room that is taken twice, and gradients
    against their reductions."""

    def __init__(self, schedule: Schedule, device: int, around: Neighbours, done: Counter[Action]) -> None:
        self.schedule, self.device, self.around, self.done = schedule, device, around, done
        self.have: set[Action] = set()
        self.forwards: dict[int, list[int]] = defaultdict(list)
        self.waiting: dict[int, list[int]] = defaultdict(list)  # microbatches whose gradient no reduction has taken
        self.reduced: set[int] = set()
        self.updated: set[int] = set()

    def run(self) -> Iterator[Problem]:
        for event in self.schedule.devices[self.device]:
            added = Counter(a.stage for a in event if a.kind in (Kind.BACKWARD, Kind.WEIGHT_GRADIENT))
            for action in event:
                if added.pop(action.stage, 0) > 1:
                    text = f"{' and '.join(map(str, event))} are side by side, and add to the same gradients"
                    yield Problem(ProblemKind.ORDER, self.device, action, text)
                for need in self._needed(action):
                    if need not in self.have:
                        text = f"{action} uses what {need} gives, which comes later or never"
                        yield Problem(ProblemKind.ORDER, self.device, action, text)
                yield from self._parameters(action)
                if action.kind is Kind.FORWARD:
                    yield from self._room(action)
                    self.forwards[action.stage].append(action.microbatch)
            self.have.update(event)

    def _parameters(self, action: Action) -> Iterator[Problem]:
        """Gradients, their reductions, and the update."""
        stage, kind = action.stage, action.kind
        late = stage in self.reduced and self.schedule.accumulated
        if kind in COMPUTE and stage in self.updated:
            text = f"{action} comes after the update of stage {stage}: it sees other parameters than what went before"
            yield Problem(ProblemKind.UPDATE, self.device, action, text)
        if kind in (Kind.BACKWARD, Kind.WEIGHT_GRADIENT):
            self.waiting[stage].append(action.microbatch)
            if late:
                text = f"the gradient of {action} comes after the reduction of stage {stage}, which lacks it"
                yield Problem(ProblemKind.REDUCTION, self.device, action, text)
        elif kind is Kind.REDUCE:
            if late:
                text = f"{action} comes a second time: what was reduced before is reduced again"
                yield Problem(ProblemKind.REDUCTION, self.device, action, text)
            self.reduced.add(stage)
            self.waiting[stage].clear()
        elif kind is Kind.UPDATE:
            if stage in self.updated:
                yield Problem(ProblemKind.TWICE, self.device, action, f"{action} is done more than once")
            missing = self.waiting[stage] and self.done[Action(stage, Kind.REDUCE)]
            if missing and not late:
                numbers = ", ".join(map(str, self.waiting[stage]))
                text = f"{action} lacks the gradients of microbatches {numbers}, which no reduction has taken before it"
                yield Problem(ProblemKind.REDUCTION, self.device, action, text)
            self.updated.add(stage)

    def _room(self, action: Action) -> Iterator[Problem]:
        slots, earlier = self.schedule.slots.get(action.stage), self.forwards[action.stage]
        if slots is None or len(earlier) < slots:
            return
        old = earlier[len(earlier) - slots]
        if not self.have & {Action(action.stage, kind, old) for kind in (Kind.BACKWARD, Kind.WEIGHT_GRADIENT)}:
            text = f"{action} writes over what is kept of microbatch {old}, which no backward pass has used yet"
            yield Problem(ProblemKind.SLOT, self.device, action, text)

    def _needed(self, action: Action) -> Iterator[Action]:
        """The actions that must have come before on the same device: those that make or receive what this one reads."""
        stage, microbatch = action.stage, action.microbatch
        before, after = self.around.get((stage, microbatch), (None, None))
        whole = action.kind in (Kind.BACKWARD, Kind.INPUT_GRADIENT)
        if action.kind is Kind.FORWARD and before is not None:
            local = self.schedule.owners[before] == self.device
            yield Action(before, Kind.FORWARD, microbatch) if local else Action(stage, Kind.RECEIVE_FORWARD, microbatch)
        elif action.kind is Kind.WEIGHT_GRADIENT and self.done[Action(stage, Kind.INPUT_GRADIENT, microbatch)]:
            yield Action(stage, Kind.INPUT_GRADIENT, microbatch)
        elif whole or action.kind is Kind.WEIGHT_GRADIENT:
            yield Action(stage, Kind.FORWARD, microbatch)
            if after is not None:
                local = self.schedule.owners[after] == self.device
                received = Action(stage, Kind.RECEIVE_BACKWARD, microbatch)
                yield self._gradient(after, microbatch) if local else received
        elif action.kind is Kind.SEND_FORWARD:
            yield Action(stage, Kind.FORWARD, microbatch)
        elif action.kind is Kind.SEND_BACKWARD:
            yield self._gradient(stage, microbatch)

    def _gradient(self, stage: int, microbatch: int) -> Action:
        """The action that makes the gradient of a stage's input."""
        part = Action(stage, Kind.INPUT_GRADIENT, microbatch)
        return part if self.done[part] else Action(stage, Kind.BACKWARD, microbatch)
