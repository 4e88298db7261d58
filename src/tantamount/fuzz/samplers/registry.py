"""The table of samplers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tantamount.fuzz.draft import Draft

__all__ = ["SAMPLERS", "Draw", "Sampler", "sampler"]

Draw = Callable[[Draft, str], "str | None"]


@dataclass(frozen=True, slots=True)
class Sampler:
    """``draw(draft, target)`` makes a call and returns its name, or ``None`` if there are no operands for it."""

    target: str
    weight: float
    draw: Draw


SAMPLERS: dict[str, Sampler] = {}


def sampler(*targets: str, weight: float = 1.0) -> Callable[[Draw], Draw]:
    """Register a function as the sampler of some operators."""

    def register(draw: Draw) -> Draw:
        for target in targets:
            SAMPLERS[target] = Sampler(target, weight, draw)
        return draw

    return register
