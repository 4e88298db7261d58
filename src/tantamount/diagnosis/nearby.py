"""The gain of a change nearby: tensors of the specification that the implementation lacked, and has a few nodes below.

Changes are computed together, and all that is computed again is compared at once: most of the time of small programs
goes into calling operators.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from typing import NamedTuple

import numpy as np

from tantamount.correspond.values import totals
from tantamount.diagnosis.edits import Edit
from tantamount.diagnosis.replay import Place
from tantamount.diagnosis.value_matches import Part, ValueMatches
from tantamount.semantics.reference import Array

__all__ = ["Gain", "gains"]

_NEAR = 48  # places of every rank below a change that say whether it helps; the outputs say it anyway


class Gain(NamedTuple):
    """The number of tensors of the specification, or parts of them, that the implementation lacked and has below a
    change, less the number of places that correspond to something only without it. ``reached``: wrong outputs are so
    near that computing them takes no longer."""

    more: int
    reached: bool


def gains(matches: ValueMatches, ends: Set[Place], edits: Sequence[Edit]) -> list[Gain]:
    """The gain of each of several changes. ``ends``: wrong outputs."""
    near = matches.replay.nearby_of_all([edit.changes for edit in edits], _NEAR)
    known = [{} if one is None else {place: np.asarray(value.value) for place, value in one.items()} for one in near]
    asked = [(k, place) for k, edit in enumerate(edits) for place, x in known[k].items() if _telling(place, x, edit)]
    parts = dict(zip(asked, matches.parts_of_all([known[k][place] for k, place in asked]), strict=True))
    for k, place in asked:
        parts[k, place] = parts[k, place] or matches.share(place, known[k][place])
    summed = _summands(matches, known, [one for one in asked if parts[one] is None])
    gained: list[set[str | Part]] = [set() for _ in edits]
    lost = [0] * len(edits)
    for k, edit in enumerate(edits):
        for place in ends & known[k].keys():
            gained[k].add("")  # the outputs will tell
            value = known[k][place]
            if (value.size == 1 or place in edit.changes) and matches.is_part(value) is not None:
                gained[k].add("right")
    for (k, place), part in parts.items():
        if part is not None and part[0] not in matches.matched:
            gained[k].add(part[0])
        elif part is not None and matches.aligned(place) is None and part not in matches.matched_parts:
            gained[k].add(part)
        elif part is None and (total := summed.get((k, place))) is not None and total[0] not in matches.summed:
            gained[k].update({total[0]} - matches.matched)
        elif part is None and matches.aligned(place) is not None:
            lost[k] += 1
    # what cannot be computed alone is not known: the outputs will tell
    return [
        Gain(1, False) if near[k] is None else Gain(len(gained[k]) - lost[k], "" in gained[k])
        for k in range(len(edits))
    ]


def _telling(place: Place, value: Array, edit: Edit) -> bool:
    return place not in edit.changes and value.dtype.kind == "f" and value.size > 1 and bool(value.any())


def _summands(
    matches: ValueMatches, known: Sequence[Mapping[Place, Array]], places: Sequence[tuple[int, Place]]
) -> Mapping[tuple[int, Place], Part]:
    """The parts of specification tensors that the values of nodes, which lead others, on several ranks add up to."""
    if matches.job.mesh.world_size == 1:
        return {}
    groups = [(one, members) for one in places for members in matches.led.get(one[1], ())]
    values = [[_value(matches, known[k], one) for one in members] for (k, _), members in groups]
    added = [(one, total) for (one, _), total in zip(groups, totals(values), strict=True) if total is not None]
    parts = matches.parts_of_all([total for _, total in added])
    found: dict[tuple[int, Place], Part] = {}
    for (one, _), part in zip(added, parts, strict=True):
        if part is not None:
            found.setdefault(one, part)
    return found


def _value(matches: ValueMatches, known: Mapping[Place, Array], place: Place) -> Array:
    """The value of a place with a change."""
    return known[place] if place in known else matches.value(place)
