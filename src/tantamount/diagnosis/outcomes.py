"""The outputs once a change is made: which become right, and whether all are."""

from __future__ import annotations

from collections.abc import Sequence

from tantamount.diagnosis.edits import Edit
from tantamount.diagnosis.start import Start
from tantamount.errors import TantamountError

__all__ = ["all_right", "is_gone", "repaired_by"]

_SMALL = 1e-5  # a difference beside which rounding may be seen
_GONE = 1e-2  # of a difference, on another input than the one on which a change makes outputs right


def repaired_by(start: Start, edit: Edit) -> tuple[str, ...]:
    """The outputs that become right, if none becomes wrong."""
    replay = start.matches.replay
    try:
        after = replay.wrong(start.failing, edit.changes)
        repaired = tuple(name for name in start.failing if not after[name])
        right = [name for name, count in start.wrong.items() if not count]
        return () if not repaired or any(replay.wrong(right, edit.changes).values()) else repaired
    except TantamountError:
        return ()


def all_right(start: Start, edit: Edit, rest: Sequence[str], repaired: Sequence[str]) -> bool:
    """True if nothing is wrong once a change is made: of what failed and of the ``rest`` of the outputs."""
    if set(start.failing) - set(repaired):
        return False
    try:
        return not rest or not any(start.matches.replay.wrong(rest, edit.changes).values())
    except TantamountError:
        return False


def is_gone(start: Start, edit: Edit, name: str) -> bool:
    """True if what is wrong with an output is gone once a change is made, but for what may be rounding: beside a
    difference that is small itself, that of an epsilon, rounding may be seen in a deep program."""
    replay = start.matches.replay
    try:
        before = replay.apart([name])
        return before < _SMALL and replay.apart([name], edit.changes) <= _GONE * before
    except TantamountError:
        return False
