"""A pipeline carried out on labels instead of tensors: what a schedule really does, found without the checker.

Every device is a program counter. Messages are posted to queues between pairs of devices and go by position; an
event is over when all its messages are met. What a pass makes is a record of all that it was made from."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from tantamount.plan.actions import COMPUTE, Action, Event, Kind, Schedule
from tantamount.plan.exchange import neighbours

SENDS = {Kind.SEND_FORWARD, Kind.SEND_BACKWARD}


class Run:
    """What the devices hold at the end. ``finished``: all of them came to their end; ``failed``: one used what it did
    not have."""

    def __init__(self, schedule: Schedule) -> None:
        self.schedule = schedule
        self.around = neighbours(schedule)
        self.at = [0] * len(schedule.devices)
        self.queues: dict[tuple[int, int, str], list[Any]] = defaultdict(list)
        self.posted: dict[int, list[tuple[tuple[int, int, str], int, Action]]] = {}
        self.inputs: dict[tuple[int, int], Any] = {}
        self.gradients: dict[tuple[int, int], Any] = {}
        self.saved: dict[tuple[int, int], Any] = {}
        self.parts: dict[tuple[int, int], Any] = {}
        self.sums: dict[int, list[Any]] = defaultdict(list)
        self.reduced: dict[int, list[Any]] = {}
        self.updated: dict[int, Any] = {}
        self.failed = False
        self.done: set[Action] = set()
        moved = True
        while moved and not self.failed:
            moved = sum(self._advance(device) for device in range(len(schedule.devices))) > 0
        self.finished = all(k == len(program) for k, program in zip(self.at, schedule.devices, strict=True))
        met = [len(self.queues[a, b, "s"]) == len(self.queues[a, b, "r"]) for a, b, _ in list(self.queues)]
        self.right = self.finished and not self.failed and all(met) and self._as_wanted()

    def _advance(self, device: int) -> bool:
        if self.at[device] == len(self.schedule.devices[device]):
            return False
        event = self.schedule.devices[device][self.at[device]]
        if device not in self.posted:
            self.posted[device] = []
            for action in event:
                self._start(device, action)
            return True
        for (a, b, end), k, _ in self.posted[device]:
            if len(self.queues[(b, a, "c") if end == "c" else (a, b, "r" if end == "s" else "s")]) <= k:
                return False
        for (a, b, end), k, action in self.posted.pop(device):
            if end == "r":
                where = self.inputs if action.kind is Kind.RECEIVE_FORWARD else self.gradients
                where[action.stage, action.microbatch] = self.queues[a, b, "s"][k]
            elif end == "c":  # a collective of the two devices that have copies
                self.failed |= self.queues[a, b, "c"][k] != self.queues[b, a, "c"][k]
        self.at[device] += 1
        return True

    def _start(self, device: int, action: Action) -> None:
        stage, microbatch, kind = action.stage, action.microbatch, action.kind
        key = (stage, microbatch)
        before, after = self.around.get(key, (None, None))
        if self.schedule.owners[stage] != device or stage in self.updated:
            self.failed = True
        if kind in (Kind.REDUCE, Kind.UPDATE):
            if kind is Kind.REDUCE:
                self.failed |= stage in self.reduced
                self.reduced[stage] = list(self.sums[stage])
                of = self.schedule.copies.get(stage, stage)
                for copy, original in self.schedule.copies.items():
                    if original == of:
                        peer = self.schedule.owners[original if copy == stage else copy]
                        self.posted[device].append(((device, peer, "c"), len(self.queues[device, peer, "c"]), action))
                        self.queues[device, peer, "c"].append(of)
            else:
                self.updated[stage] = self.reduced.get(stage) if self._reduces() else list(self.sums[stage])
            return
        whole = Action(stage, Kind.BACKWARD, microbatch)
        parts = {Action(stage, other, microbatch) for other in (Kind.INPUT_GRADIENT, Kind.WEIGHT_GRADIENT)}
        if kind in COMPUTE:
            self.failed |= action in self.done or (action == whole and bool(parts & self.done))
            self.failed |= action in parts and whole in self.done
            self.done.add(action)
        if key not in self.around:
            self.failed = True
        elif kind is Kind.FORWARD:
            if before is not None and key not in self.inputs:
                self.failed = True
            self.saved[key] = ("F", stage, microbatch, self.inputs.get(key))
            if after is not None and self.schedule.owners[after] == device:
                self.inputs[after, microbatch] = self.saved[key]
        elif kind in (Kind.BACKWARD, Kind.INPUT_GRADIENT):
            if key not in self.saved or (after is not None and key not in self.gradients):
                self.failed = True
            made = ("B", stage, microbatch, self.saved.get(key), self.gradients.get(key))
            self.parts[key] = made
            if kind is Kind.BACKWARD:
                self.sums[stage].append(made)
            if before is not None and self.schedule.owners[before] == device:
                self.gradients[before, microbatch] = made
        elif kind is Kind.WEIGHT_GRADIENT:
            alone = before is None and all(
                (Action(stage, Kind.INPUT_GRADIENT, microbatch),) != e for e in self._program(stage)
            )
            if (
                alone and key in self.saved and (after is None or key in self.gradients)
            ):  # the first stage's input needs none
                self.parts[key] = ("B", stage, microbatch, self.saved[key], self.gradients.get(key))
            self.failed |= key not in self.parts
            self.sums[stage].append(self.parts.get(key))
        else:
            other = after if kind in (Kind.SEND_FORWARD, Kind.RECEIVE_BACKWARD) else before
            if other is None or self.schedule.owners[other] == device:
                self.failed = True
                return
            peer = self.schedule.owners[other]
            end = "s" if kind in SENDS else "r"
            pair = (device, peer, end) if end == "s" else (peer, device, end)
            value = (self.saved if kind is Kind.SEND_FORWARD else self.parts).get(key)
            self.failed |= end == "s" and value is None
            self.posted[device].append((pair, len(self.queues[pair]), action))
            self.queues[pair].append((kind, value))
            if end == "s":
                self.queues[pair][-1] = value

    def _reduces(self) -> bool:
        return any(
            action.kind is Kind.REDUCE for program in self.schedule.devices for event in program for action in event
        )

    def _program(self, stage: int) -> tuple[Event, ...]:
        return self.schedule.devices[self.schedule.owners[stage]]

    def _as_wanted(self) -> bool:
        kinds = {action.kind for program in self.schedule.devices for event in program for action in event}
        end = self.updated if Kind.UPDATE in kinds else self.reduced if Kind.REDUCE in kinds else self.sums
        for chain in self.schedule.chains:
            for microbatch in chain.microbatches:
                value: Any = None
                forward: dict[int, Any] = {}
                for stage in chain.stages:
                    value = forward[stage] = ("F", stage, microbatch, value)
                gradient: Any = None
                for stage in reversed(chain.stages):
                    gradient = ("B", stage, microbatch, forward[stage], gradient)
                    taken = end.get(stage)
                    if taken is None or taken.count(gradient) != 1 or len(taken) != len(chain.microbatches):
                        return False
        return True
