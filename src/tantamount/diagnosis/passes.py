"""The passes of the search for a repair: which changes are tried where, in which order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tantamount.diagnosis.classes import Class
from tantamount.diagnosis.edits import EditKind
from tantamount.diagnosis.start import Start
from tantamount.semantics.reference import Array

__all__ = ["REDUCTIONS", "VALUE", "Pass", "everywhere", "first_passes"]

_FIRST = 6  # suspects at which simple changes are tried before others further up
REDUCTIONS = (EditKind.SUM, EditKind.MEAN, EditKind.MAXIMUM)
VALUE = (EditKind.VALUE,)
_SIMPLE = (
    EditKind.BYPASS, EditKind.LITERAL, EditKind.REDUCTION, EditKind.SCALE, EditKind.ORDER, EditKind.BLOCK,
)  # fmt: skip

Pass = tuple[Sequence[Class], tuple[EditKind, ...]]  # and the kinds of changes that are tried there


def first_passes(start: Start) -> Iterator[Pass]:
    """The passes of the search at the place where values stop corresponding, in order: edits that can be said simply
    before those that only say what should be there."""
    location, suspects = start.location, start.suspects
    at = start.numbered
    yield at(location.ends), VALUE
    if len(start.matches.wrong_ranks) < len(start.matches.job.implementation):
        # what is right on some ranks may be another part of a table that no input decides, on others
        yield at(location.silent), (EditKind.BLOCK, EditKind.LIKE)
    if start.matches.ratios:  # a multiple of what it should be: what comes next may be right by the same factor
        yield at(location.scalings), _SIMPLE
    yield at(location.summands), REDUCTIONS
    yield suspects[:_FIRST], (*REDUCTIONS, EditKind.ONCE, *_SIMPLE, EditKind.TOTAL, EditKind.OPERAND)
    yield at(location.frontier), (*REDUCTIONS, EditKind.ONCE, *_SIMPLE, EditKind.OPERAND)
    matches = start.matches
    yield [c for c in at(location.apart) if matches.facts(c.first).collective], (EditKind.BYPASS, EditKind.REDUCTION)
    yield at(location.summands), _SIMPLE
    yield at(location.scalings), _SIMPLE
    yield at(location.silent), _SIMPLE
    # numbers that the specification nowhere has there, on whatever rank
    yield [c for c in matches.classes if any(map(matches.other_number, c.places))], (EditKind.LITERAL,)
    received = matches.replay.messages.sent
    yield [c for c in matches.classes if not received.keys().isdisjoint(c.places)], (EditKind.EXCHANGE,)
    yield suspects[:_FIRST], VALUE
    yield at(location.frontier), VALUE
    yield at(location.boundary), VALUE
    yield at((*location.frontier, *location.boundary, *location.beside)), (EditKind.PEER,)
    yield at(location.apart), (EditKind.UNREAD,)  # few graphs have values that nothing reads
    yield at(location.twins), (EditKind.LIKE,)
    yield at(location.silent), (EditKind.OPERAND, EditKind.LIKE)
    yield at(location.beside), VALUE


def everywhere(start: Start) -> Iterator[Pass]:
    """The passes of the search over all that does not correspond, and then over the rest."""
    matches = start.matches
    apart = start.numbered(start.location.apart)
    yield apart, _SIMPLE
    yield [*start.suspects, *start.numbered(start.location.boundary)], _SIMPLE  # they may be another tensor by chance
    yield [*apart, *(c for c in matches.classes if _is_zero(matches.value(c.first)))], (EditKind.FUNCTION,)
    yield apart, (EditKind.TOTAL,)
    yield apart, (EditKind.OPERAND, EditKind.LIKE)
    yield apart, VALUE
    unmatched = [c for c in matches.classes if matches.unmatched(c)]
    yield [c for c in matches.classes if matches.summands(c) is not None], REDUCTIONS
    yield unmatched, _SIMPLE
    yield [c for c in matches.classes if c not in set(unmatched)], VALUE
    yield unmatched, (EditKind.OPERAND, EditKind.LIKE)
    yield unmatched, VALUE


def _is_zero(value: Array) -> bool:
    """True of numbers that are all 0: they correspond to anything, and may be what another function makes of those."""
    return bool(value.size) and value.dtype.kind == "f" and not value.any()
