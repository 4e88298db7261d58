"""Pieces and stages of a plan as its file has them: ``layer * 126``, ``layer 0-6``."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby

__all__ = ["in_ranges", "in_runs"]


def in_runs(parts: Iterable[str]) -> list[str]:
    """The pieces of a model, by the parts that they are of: those of one part that follow each other at once."""
    counted = [(part, sum(1 for _ in same)) for part, same in groupby(parts)]
    return [part if count == 1 else f"{part} * {count}" for part, count in counted]


def in_ranges(pieces: Iterable[tuple[str, int]]) -> str:
    """The pieces of a stage, each a part and its number: those of one part whose numbers follow each other at once."""
    found: list[tuple[str, int, int]] = []
    for part, number in pieces:
        if found and found[-1][0] == part and found[-1][2] == number - 1:
            found[-1] = (part, found[-1][1], number)
        else:
            found.append((part, number, number))
    return ", ".join(f"{part} {low}" if low == high else f"{part} {low}-{high}" for part, low, high in found)
