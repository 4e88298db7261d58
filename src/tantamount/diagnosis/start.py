"""One input on which outputs of both programs differ: what every value corresponds to there, and where they part."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from tantamount.diagnosis.classes import Class
from tantamount.diagnosis.dependence import Dependence, dependence
from tantamount.diagnosis.locate import Location, locate
from tantamount.diagnosis.replay import Place, Replay
from tantamount.diagnosis.value_matches import ValueMatches
from tantamount.errors import TantamountError
from tantamount.execution.plans import Plan, Scale, draw

__all__ = ["Start", "start_on"]


@dataclass
class Start:
    """One input on which outputs differ: how many elements of each are wrong."""

    matches: ValueMatches
    wrong: dict[str, int]
    scale: Scale
    right: tuple[str, ...] = ()

    @property
    def failing(self) -> list[str]:
        return [name for name, count in self.wrong.items() if count]

    @cached_property
    def ends(self) -> frozenset[Place]:
        """The nodes of wrong outputs."""
        return frozenset(place for name in self.failing for place in self.matches.replay.output_places(name))

    @cached_property
    def number(self) -> Mapping[Place, int]:
        """The number of the class of every place."""
        return {place: k for k, c in enumerate(self.matches.classes) for place in c.places}

    def numbered(self, numbers: Sequence[int]) -> list[Class]:
        """The classes of some numbers."""
        return [self.matches.classes[number] for number in numbers]

    @cached_property
    def dependence(self) -> Dependence:
        """The values above the first failing output that right outputs are computed from, and others."""
        return dependence(self.matches, self.right)

    @cached_property
    def location(self) -> Location:
        """The places above the first failing output at which the two sides part."""
        return self._located(False)

    @property
    def parting(self) -> Location:
        """The same where no change is known: on one device programs that nobody wrote for each other keep heads and
        positions in orders of their own, so that the order of elements is not looked at."""
        return self._located(True) if self.matches.job.mesh.world_size == 1 else self.location

    def _located(self, any_order: bool) -> Location:
        matches, known = self.matches, self.dependence
        wrong = matches.wrong_ranks  # what others hold is right, however they made it
        places = [place for place in matches.replay.output_places(matches.output) if place[0] in wrong]
        return locate(matches, places, matches.end, known.right, known.factors, known.aside, any_order)

    @cached_property
    def suspects(self) -> tuple[Class, ...]:
        """The values that no right output is computed from: first those that do not correspond, in order."""
        apart = {place for number in self.location.apart for place in self.matches.classes[number].places}
        suspects = self.dependence.suspects
        return tuple(sorted(suspects, key=lambda one: apart.isdisjoint(one.places)))


def start_on(
    plan: Plan, names: Sequence[str], seeds: Sequence[tuple[int, Scale]], every: Sequence[str] = ()
) -> Start | None:
    """The first input on which some outputs differ; ``every`` output that is right there is noted, too."""
    for seed, scale in seeds:
        try:
            replay = Replay(plan, draw(plan, seed, scale), seed)
            wrong = dict(replay.wrong(names))
        except TantamountError:
            continue
        if any(wrong.values()):
            first = _nearest_output(replay, [name for name in names if wrong[name]])
            return Start(ValueMatches(replay, first), wrong, scale, _right(replay, every, wrong))
    return None


def _nearest_output(replay: Replay, wrong: Sequence[str]) -> str:
    """The first of some wrong outputs, or the one with the least above it if that is less than half as much: a gradient
    of the last layer, where those of all layers are wrong."""
    least = min(wrong, key=lambda one: len(replay.cone(one)))
    return least if 2 * len(replay.cone(least)) < len(replay.cone(wrong[0])) else wrong[0]


def _right(replay: Replay, names: Sequence[str], wrong: Mapping[str, int]) -> tuple[str, ...]:
    """Those of some outputs that are right; ``wrong`` says of some of them how many elements are not."""
    found = [name for name in names if name in wrong and not wrong[name]]
    for name in names:
        try:
            if name not in wrong and not any(replay.wrong([name]).values()):
                found.append(name)
        except TantamountError:
            continue
    return tuple(found)
