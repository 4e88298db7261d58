"""Ranks that wait for each other: sends for receives, collectives for all their members, each with a label that both
sides must agree in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

__all__ = ["Made", "Tracked", "Wait", "met", "said_of"]


@dataclass(frozen=True, slots=True)
class Made:
    """A value: the ``item``-th result (``None``: the only one) of the ``event``-th call for its microbatch, or a sample
    of the data loader (``event`` is -1)."""

    event: int
    item: int | None = None


@dataclass(frozen=True, slots=True)
class Tracked:
    """A value of a rank, and the microbatch that it belongs to."""

    microbatch: int
    made: Made


@dataclass(frozen=True, slots=True)
class Wait:
    """The event that a rank waits for. ``kind`` is ``send``, ``receive`` or ``meet``; ``peers`` the other side, or all
    members. ``label`` is what both sides must agree in; ``exact`` is false where waiting for all members is more than
    the program does. ``carried`` is what the others are given."""

    kind: str
    peers: tuple[int, ...]
    label: tuple[Any, ...]
    place: str
    carried: Tracked | None = None
    exact: bool = True


def met(rank: int, wait: Wait, waits: Mapping[int, Wait]) -> tuple[int, ...] | None:
    """The ranks that can go on together with this one, the sender first; ``None`` if it has to wait."""
    if wait.kind == "meet":
        ready = all(
            (other := waits.get(member)) is not None and other.kind == "meet" and other.peers == wait.peers
            for member in wait.peers
        )
        return wait.peers if ready else None
    other = waits.get(wait.peers[0])
    if wait.kind == "send" and other is not None and other.kind == "receive" and other.peers == (rank,):
        return rank, wait.peers[0]
    return None


def said_of(wait: Wait) -> str:
    """A wait in words, with its place."""
    whom = {"send": "to", "receive": "from", "meet": "with"}[wait.kind]
    label = " ".join(map(str, wait.label))
    return f"{wait.place} ({wait.kind} {whom} rank {', '.join(map(str, wait.peers))}, {label})"
