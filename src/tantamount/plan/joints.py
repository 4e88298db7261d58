"""Joints, where a tensor passes from one part of a plan to another, and the comparison of its two ends."""

from __future__ import annotations

from dataclasses import dataclass

from tantamount.plan.parts import Held, shown

__all__ = ["Joint", "differ"]


@dataclass(frozen=True, slots=True)
class Joint:
    """A place where a tensor passes from one part to another: ``tensor`` says which one, ``source`` who makes it,
    ``target`` who takes it; ``relation`` is what the ranks hold of it. ``count``: how many joints of the plan this one
    stands for. ``problem`` is one sentence if the two do not fit, ``wrong`` is true if that is a mistake of the plan,
    and false if it is only not known to be right."""

    tensor: str
    source: str
    target: str
    relation: str
    count: int = 1
    problem: str = ""
    wrong: bool = True


def differ(made: Held, taken: Held) -> str:
    """The reason why two descriptions of one tensor do not fit; empty if they do."""
    if made.whole != taken.whole:
        return f"the whole is {made.whole} there and {taken.whole} here"
    if made.placements != taken.placements:
        return f"the ranks have {shown(made.placements)}, but {shown(taken.placements)} is taken for granted"
    if made.local != taken.local:
        return f"a rank has {made.local}, but {taken.local} is read"
    return ""
