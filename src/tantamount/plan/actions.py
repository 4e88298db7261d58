"""The words of a pipeline schedule, and their text.

The notation is that of ``torch.distributed.pipelining``: ``2F0`` is the forward pass of stage 2 on microbatch 0,
``2SEND_F0`` sends what it made, ``3RECV_F0`` receives it for stage 3; ``B`` is a whole backward pass, ``I`` its part
that makes the gradient of the input and ``W`` the part that makes those of the weights. ``2REDUCE_GRAD`` adds up the
gradients of stage 2 over its data-parallel replicas, ``2UPDATE`` is the optimizer's step. What is between braces is
one event: messages that are posted together, ``{2SEND_F0 2RECV_B0}``, or passes that are computed beside each other,
none of which can use what another makes: ``{2F4 5B1}``.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from tantamount.errors import UserError

__all__ = ["COMPUTE", "MESSAGES", "Action", "Chain", "Event", "Kind", "Schedule", "read_events", "written"]


class Kind(StrEnum):
    """The kinds of actions, as the notation of schedules writes them."""

    FORWARD = "F"
    BACKWARD = "B"
    INPUT_GRADIENT = "I"
    WEIGHT_GRADIENT = "W"
    SEND_FORWARD = "SEND_F"
    RECEIVE_FORWARD = "RECV_F"
    SEND_BACKWARD = "SEND_B"
    RECEIVE_BACKWARD = "RECV_B"
    REDUCE = "REDUCE_GRAD"
    UPDATE = "UPDATE"


COMPUTE = frozenset({Kind.FORWARD, Kind.BACKWARD, Kind.INPUT_GRADIENT, Kind.WEIGHT_GRADIENT})
MESSAGES = frozenset({Kind.SEND_FORWARD, Kind.RECEIVE_FORWARD, Kind.SEND_BACKWARD, Kind.RECEIVE_BACKWARD})
_OF_A_STAGE = frozenset({Kind.REDUCE, Kind.UPDATE})


@dataclass(frozen=True, slots=True)
class Action:
    """One action of a device: on a virtual stage, and on a microbatch unless it concerns the stage as a whole (then
    -1)."""

    stage: int
    kind: Kind
    microbatch: int = -1

    def __str__(self) -> str:
        return f"{self.stage}{self.kind.value}" + ("" if self.kind in _OF_A_STAGE else str(self.microbatch))


Event = tuple[Action, ...]  # what happens at once: one action, messages posted together, or passes side by side


@dataclass(frozen=True, slots=True)
class Chain:
    """The virtual stages that some microbatches pass, first to last (backward the other way)."""

    stages: tuple[int, ...]
    microbatches: tuple[int, ...]


@dataclass(frozen=True)
class Schedule:
    """A schedule: the actions of every device, in order.

    ``owners[s]`` is the device of virtual stage ``s``. A pipeline has one chain; one that is run from both ends
    (DualPipe) has two, and ``copies`` says which virtual stages hold the parameters of which others: their gradients
    are added up. ``meets`` are the stages for which they are in the reductions, so that the reduction of a stage and
    those of its copies are one collective; other reductions know of one stage each, and copies are added up later.
    ``rendezvous``: a message is over when both ends have posted it, as NCCL has it; without it a send is over at once,
    and only the receiver waits. ``accumulated``: gradients are added into what is reduced, so that one reduction must
    come after all of them; otherwise every reduction takes what came since the last one (as FSDP2 and ZeRO-2 do).
    ``slots[s]``: how many microbatches stage ``s`` has room for, taken in turn; no entry, no limit."""

    devices: tuple[tuple[Event, ...], ...]
    owners: tuple[int, ...]
    chains: tuple[Chain, ...]
    copies: Mapping[int, int] = field(default_factory=dict[int, int])
    meets: Collection[int] | None = None  # ``None``: all of them
    rendezvous: bool = True
    accumulated: bool = True
    slots: Mapping[int, int] = field(default_factory=dict[int, int])

    @property
    def microbatches(self) -> int:
        return sum(len(chain.microbatches) for chain in self.chains)


_ACTION = re.compile(
    r"(\d+)(" + "|".join(sorted((kind.value for kind in Kind), key=len, reverse=True)) + r")(\d*)(\+?)"
)
_TOKEN = re.compile(r"\s*(?:(\{)|(\})|(\()|(\)\*(\d+))|([^\s{}()]+))")


def read_events(text: str, place: str, most: int = 1_000_000) -> tuple[Event, ...]:
    """The events that a device's text says.

    ``(2F4+ 2B0+)*12`` is what the parentheses hold, twelve times; a number followed by ``+`` grows by one each time.
    Raises :class:`UserError` for text that is no schedule, and for one of more than ``most`` events."""
    events: list[Event] = []
    batch: list[Action] | None = None
    repeated: list[tuple[Event, tuple[bool, ...]]] | None = None
    growing: list[bool] = []
    at = 0
    while at < len(text.rstrip()):
        found = _TOKEN.match(text, at)
        if found is None:
            raise _wrong(place, text[at : at + 20])
        opened, closed, start, end, times, word = found.groups()
        if opened and batch is None:
            batch, growing = [], []
        elif closed and batch:
            _add(events, repeated, tuple(batch), tuple(growing))
            batch = None
        elif start and repeated is None and batch is None:
            repeated = []
        elif end and repeated is not None and batch is None:
            if len(events) + int(times) * len(repeated) > most:
                raise _wrong(place, f"more than {most} events")
            events += [_grown(event, flags, k) for k in range(int(times)) for event, flags in repeated]
            repeated = None
        elif word:
            action, grows = _action(word, place)
            if grows and repeated is None:
                raise _wrong(place, f"{word} outside parentheses that are repeated")
            if batch is None:
                _add(events, repeated, (action,), (grows,))
            else:
                kinds = MESSAGES if not batch or batch[0].kind in MESSAGES else COMPUTE
                if action.kind not in (kinds if batch else MESSAGES | COMPUTE):
                    raise _wrong(place, f"{word} in a batch of {'messages' if kinds is MESSAGES else 'passes'}")
                batch.append(action)
                growing.append(grows)
        else:
            raise _wrong(place, text[at : found.end()].strip())
        at = found.end()
        if len(events) > most:
            raise _wrong(place, f"more than {most} events")
    if batch is not None or repeated is not None:
        raise _wrong(place, "a brace or parenthesis that is not closed")
    return tuple(events)


def _add(
    events: list[Event], repeated: list[tuple[Event, tuple[bool, ...]]] | None, event: Event, grows: tuple[bool, ...]
) -> None:
    if repeated is None:
        events.append(event)
    else:
        repeated.append((event, grows))


def _grown(event: Event, grows: Sequence[bool], by: int) -> Event:
    return tuple(
        Action(action.stage, action.kind, action.microbatch + by) if growing else action
        for action, growing in zip(event, grows, strict=True)
    )


def _action(word: str, place: str) -> tuple[Action, bool]:
    found = _ACTION.fullmatch(word)
    if found is None:
        raise _wrong(place, word)
    stage, kind, microbatch, grows = found.groups()
    if (kind in _OF_A_STAGE) != (microbatch == "") or max(len(stage), len(microbatch)) > 9:
        raise _wrong(place, word)
    return Action(int(stage), Kind(kind), int(microbatch) if microbatch else -1), bool(grows)


def _wrong(place: str, found: str) -> UserError:
    return UserError(
        "plan-schedule", place=place, found=found,
        needed="actions such as 0F0, 0SEND_F0, 0B0, 0REDUCE_GRAD; messages posted together as {0SEND_F1 0RECV_B0}, "
        "passes side by side as {0F4 1B1}; "
        "repetitions as (0F4+ 0B0+)*12",
    )  # fmt: skip


def written(events: Sequence[Event]) -> str:
    """Events as :func:`read_events` reads them, without repetitions."""
    return " ".join(_shown(events))


def _shown(events: Sequence[Event]) -> Iterator[str]:
    for event in events:
        yield str(event[0]) if len(event) == 1 else "{" + " ".join(map(str, event)) + "}"
