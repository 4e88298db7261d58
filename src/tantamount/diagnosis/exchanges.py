"""Messages in the wrong order: what one rank receives of another one is what should have come as another message."""

from __future__ import annotations

from collections.abc import Iterator

from tantamount.correspond.values import close
from tantamount.diagnosis.classes import Class
from tantamount.diagnosis.edits import Edit, EditKind
from tantamount.diagnosis.replay import Place
from tantamount.diagnosis.value_matches import ValueMatches
from tantamount.semantics.reference import Array

__all__ = ["exchanged", "of_pieces", "sending"]


def exchanged(matches: ValueMatches, c: Class) -> Iterator[Edit]:
    """The edits by which two messages from one rank to another are exchanged, of which a class receives the first: by
    the same lines on all ranks, and on one."""
    lines: dict[tuple[str, str], list[tuple[Place, Place]]] = {}
    for place in c.places:
        if sending(matches, place) is not None:
            for other in matches.effort.first("repair_orders", _later(matches, place)):
                lines.setdefault((place[1], other[1]), []).append((place, other))
    for pairs in lines.values():
        alone = [[pair] for pair in matches.effort.first("repair_members", pairs)] if len(pairs) > 1 else []
        for some in [pairs, *alone]:
            changes: dict[Place, Array] = {}
            for one, other in some:
                changes |= {one: matches.value(other), other: matches.value(one)}
            yield Edit(EditKind.EXCHANGE, tuple(changes), changes)


def _later(matches: ValueMatches, place: Place) -> list[Place]:
    """The places that receive another message of the same shape from the same rank, later."""
    sent, position, value = matches.replay.messages.sent, matches.replay.position, matches.value(place)

    def may_be(other: Place) -> bool:
        theirs = matches.value(other)
        here = other[0] == place[0] and sent[other][0] == sent[place][0] and position[other] > position[place]
        alike = here and theirs.shape == value.shape and theirs.dtype == value.dtype and not close(theirs, value)
        return alike and sending(matches, other) is not None

    return sorted(filter(may_be, sent), key=position.__getitem__)


def sending(matches: ValueMatches, place: Place) -> Place | None:
    """The node by which another rank sends what is received at a place: one that reads nothing else; ``None`` for other
    places, and where several messages are sent by one node."""
    messages = matches.replay.messages
    posts = [one for one in messages.together.get(place, ()) if one[0] != place[0]] if place in messages.sent else []
    if len(posts) != 1 or matches.replay.operands.get(posts[0]) != (messages.sent[place],):
        return None
    return posts[0]


def of_pieces(matches: ValueMatches, edit: Edit) -> bool:
    """True if what is sent by the one message comes of a piece of a tensor, and by the other of another piece: then
    these may be exchanged as well."""
    above = [matches.replay.above([matches.replay.messages.sent[place]]) for place in edit.places[:2]]
    return all(
        any(matches.node(place).op == "call" and matches.facts(place).piece for place in one - other)
        for one, other in (above, reversed(above))
    )
