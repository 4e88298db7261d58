"""Values that right outputs are computed from are right: those above a wrong output are changed, and outputs looked at.

Walking up from a wrong output, a value that no right output is computed from is *suspect*. One that right outputs are
computed from, or may be and that the specification has, is right. The walk ends there, unless it may be a buffer of
several tensors, of which one is wrong: it goes on above what only moves elements, combines them one by one, or passes
them on between ranks. What the wrong output does not change with, is of no interest: of a buffer of several tensors,
only those are that it is made of.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush

import numpy as np

from tantamount.diagnosis.classes import Class, Origin
from tantamount.diagnosis.locate import reads
from tantamount.diagnosis.replay import Place
from tantamount.diagnosis.value_matches import ValueMatches
from tantamount.semantics.reference import Array

__all__ = ["NOBODY", "Dependence", "dependence"]

_CHANGING = 20_000  # nodes that are computed again to see what depends on values


@dataclass(frozen=True)
class Dependence:
    """``suspects`` are above the wrong output, and no right output is computed from them: each a node on all ranks,
    in the order of the data flow. ``right`` are values read there that right outputs are computed from, and ``factors``
    what these are multiplied by, beside tensors of the specification: a rank's gradients before they are averaged.
    With each comes what all of them are computed from: what lacks some of that, a parameter, is no such multiple if it
    is right. The wrong output does not depend on what is ``aside``."""

    suspects: tuple[Class, ...]
    right: frozenset[Place]
    factors: Mapping[float, Origin]
    aside: frozenset[Place]


NOBODY = Dependence((), frozenset[Place](), {}, frozenset[Place]())


def dependence(matches: ValueMatches, right: Sequence[str]) -> Dependence:
    """The values above the wrong output of ``matches`` that outputs which are ``right`` are computed from, and others.
    Where the bound ``repair_suspects`` ends the walk early, nothing is suspect: the first may be further above."""
    replay = matches.replay
    if not right:
        return NOBODY
    under = replay.above(place for name in right for place in replay.output_places(name))
    pending: list[tuple[int, tuple[Place, ...]]] = []
    queued: set[Place] = set()

    def push(places: Sequence[Place]) -> None:
        for place in places:
            if place not in queued and place in matches.class_of and matches.node(place).op == "call":
                line = _line(matches, place)
                queued.update(line)
                heappush(pending, (-max(replay.position[one] for one in line), line))

    push(replay.output_places(matches.output))
    suspects: list[Class] = []
    good: list[Place] = []
    aside: list[Place] = []
    tried, before = 0, replay.effort
    while pending:
        _, line = heappop(pending)
        first = line[0]
        if matches.says_nothing(first):
            continue
        if under.isdisjoint(line):
            suspects.append(Class(matches.class_of[first].target, line))
            push([one for place in line for one in reads(matches, place)])
            continue
        if all(matches.aligned(place) is not None for place in line):
            good += line
            continue
        values = {place: matches.value(place) for place in line if matches.value(place).dtype.kind == "f"}
        if not values:
            continue
        tried += len(line) > 1 or len(matches.job.implementation) == 1  # of one rank: one more of a line that counts
        if matches.effort.exceeds("repair_suspects", tried):
            suspects.clear()  # the first of them may be further above
            break
        if replay.effort - before > _CHANGING:
            matches.effort.hit("repair_suspects")
            suspects.clear()
            break
        changes = {place: _moved(value) for place, value in values.items()}
        affected = replay.affected(changes, [matches.output, *right])
        if matches.output not in affected:
            aside += line
            continue
        if affected.isdisjoint(right):
            suspects.append(Class(matches.class_of[first].target, line))
        elif not _may_be_a_buffer(matches, first):
            good += line
            continue
        elif len(line) > 1:  # one rank may be wrong where others are right
            for place in line:
                heappush(pending, (-replay.position[place], (place,)))
            continue
        push([one for place in line for one in reads(matches, place)])
    suspects.reverse()
    factors: dict[float, Origin] = {}
    for place in good:
        factor = next((round(factor, 6) for _, factor in matches.multiples(matches.value(place))), 1.0)
        if factor != 1.0:
            factors[factor] = factors.get(factor, matches.origin[place]) & matches.origin[place]
    return Dependence(tuple(suspects), frozenset(good), factors, frozenset(aside))


def _moved(value: Array) -> Array:
    """Other values, which are as large: outputs that are made of them are not the same but for rounding."""
    size = max(1.0, float(np.abs(value[np.isfinite(value)]).max(initial=0.0)))
    return np.asarray(value + size * np.cos(np.arange(value.size)).reshape(value.shape))


def _line(matches: ValueMatches, place: Place) -> tuple[Place, ...]:
    """A node on all ranks where it plays the same part."""
    c = matches.class_of[place]
    return tuple(one for one in c.places if one[1] == place[1])


def _may_be_a_buffer(matches: ValueMatches, place: Place) -> bool:
    """True of what is no tensor of the specification, no multiple and no summand of one, and made element by element,
    if not moved."""
    facts = matches.facts(place)
    kept = facts.layout or facts.elementwise or bool(facts.collective) or matches.node(place).target == "getitem"
    known = next(matches.multiples(matches.value(place)), None) is not None
    return kept and not known and matches.summands(matches.class_of[place]) is None
