"""The kinds of changes, a row each: where they are tried, how much they say, how they are made on another input, and
in which words they are told, with the hint. What is true of a kind is said here and nowhere else."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from tantamount.correspond.values import rows_of
from tantamount.diagnosis import edits
from tantamount.diagnosis.blocks import blocks
from tantamount.diagnosis.classes import Class
from tantamount.diagnosis.collectives import reductions
from tantamount.diagnosis.edits import Edit, EditKind
from tantamount.diagnosis.exchanges import exchanged, of_pieces
from tantamount.diagnosis.naming import Account
from tantamount.diagnosis.operands import operands, unread
from tantamount.diagnosis.replay import Place
from tantamount.diagnosis.value_matches import ValueMatches
from tantamount.diagnosis.words import Words
from tantamount.ir.job import Job
from tantamount.ir.relation import Partial
from tantamount.semantics.reference import Array

__all__ = ["GOOD", "KINDS", "Row", "account", "again", "edits_of", "moves", "weight"]

GOOD = 2  # a change of this weight says why: nothing further is looked for


@dataclass(frozen=True)
class Row:
    """A row of the table of kinds of changes. ``find`` gives the changes of a class, as facts of its operator allow
    them; ``weight`` is the less, the more a change says; ``told`` makes the sentence, the difference and the hint.
    ``calls``: of operators only, not of inputs; ``again``: on another input the changes of the class are found anew,
    and the one with the same signature is taken (``None``), or it is made from the wanted parts."""

    find: Callable[[ValueMatches, Class], Iterator[Edit]]
    weight: Callable[[ValueMatches, Edit, Class], int]
    told: Callable[[Words], Account]
    calls: bool = True
    again: Callable[[ValueMatches, Edit], Edit | None] | None = None


def edits_of(matches: ValueMatches, c: Class, kinds: Sequence[EditKind]) -> Iterator[Edit]:
    """The changes of some kinds that are tried at a class."""
    call = matches.node(c.first).op == "call"
    for kind in kinds:
        if call or not KINDS[kind].calls:
            yield from KINDS[kind].find(matches, c)


def weight(matches: ValueMatches, edit: Edit, c: Class) -> int:
    """How much a change leaves unsaid."""
    return KINDS[edit.kind].weight(matches, edit, c)


def account(matches: ValueMatches, edit: Edit, c: Class, job: Job) -> Account:
    """The account of the bug that a change shows, in the numbers of a job: ``matches`` may be of smaller shapes."""
    return KINDS[edit.kind].told(Words(matches, edit, c, job))


def again(matches: ValueMatches, edit: Edit, c: Class) -> Edit | None:
    """The same change on another input; ``None`` if there is none."""
    row = KINDS[edit.kind]
    if row.again is not None:
        return row.again(matches, edit)
    found = edits_of(matches, c, (edit.kind,))
    return next((one for one in found if one.signature == edit.signature), None)


def moves(matches: ValueMatches, edit: Edit) -> bool:
    """True if a change gives places parts of tensors in place of others."""
    return edit.kind is EditKind.OPERAND or (
        edit.replaces and all(matches.aligned(place) is not None for place in edit.places)
    )


def _same_parts(matches: ValueMatches, edit: Edit) -> Edit | None:
    """The same parts in the same places, on another input."""
    changes: dict[Place, Array] = {}
    for place in edit.places:
        value = matches.part_at(place, edit.wanted[place])
        if value is None:
            return None
        changes[place] = value
    return replace(edit, changes=changes)


# ------------------------------------------------------------------------------------------------ how much is said
def _of_a_number(matches: ValueMatches, edit: Edit, c: Class) -> int:
    return 1 if edit.number in matches.literals(matches.node(c.first).target, edit.slot) else 3


def _of_leaving_out(matches: ValueMatches, edit: Edit, c: Class) -> int:
    return 0 if matches.replay.partners.get(edit.places[0]) else 1  # a collective of what is right already


def _of_what_is_added(matches: ValueMatches, edit: Edit, c: Class) -> int:
    return 1


def _of_a_function(matches: ValueMatches, edit: Edit, c: Class) -> int:
    return 2


def _of_a_factor(matches: ValueMatches, edit: Edit, c: Class) -> int:
    return 3


def _of_a_total(matches: ValueMatches, edit: Edit, c: Class) -> int:
    return 2 if matches.facts(c.first).reduction else 3  # of the summands of a sum, the sum is what is reduced


def _of_an_order(matches: ValueMatches, edit: Edit, c: Class) -> int:
    return 1


def _of_an_exchange(matches: ValueMatches, edit: Edit, c: Class) -> int:
    return 3 if of_pieces(matches, edit) else 1


def _of_a_peer(matches: ValueMatches, edit: Edit, c: Class) -> int:
    return 3


def _of_an_operand(matches: ValueMatches, edit: Edit, c: Class) -> int:
    return 4


def _of_a_reduction(matches: ValueMatches, edit: Edit, c: Class) -> int:
    return 6 if _summed(matches, edit, c) else 1


def _of_another_reduction(matches: ValueMatches, edit: Edit, c: Class) -> int:
    return 1


def _of_a_maximum(matches: ValueMatches, edit: Edit, c: Class) -> int:
    return 1  # what is subtracted from the logits is no summand


def _of_a_value(matches: ValueMatches, edit: Edit, c: Class) -> int:
    places = [place for place in edit.places if matches.aligned(place) is not None]
    if len(places) < len(edit.places):
        return 5 if all(_rearranged(matches, edit, place) for place in edit.places) else 4
    return 4 if _applied_below(matches, edit) else 2


def _applied_below(matches: ValueMatches, edit: Edit) -> bool:
    """True if what should stand there is made of what does stand there by an operator that reads it there, too: it is
    not missing, and something else that it reads, or a number, is wrong."""
    place = edit.places[0]
    aligned, wanted = matches.aligned(place), edit.wanted[place][0]
    if aligned is None or not matches.follows(wanted, aligned[0]) or matches.cuts_whole(wanted):
        return False
    target = matches.job.specification.by_name[wanted].target
    return any(matches.node(one).target == target for one in matches.replay.readers.get(place, ()))


def _rearranged(matches: ValueMatches, edit: Edit, place: Place) -> bool:
    """True if a value has some rows of the tensor, others than are wanted: such a change moves what came out right."""
    if matches.chooses(place):
        return False
    whole = matches.replay.wanted(edit.wanted[place][0]) if place in edit.wanted else None
    value = matches.value(place)
    if whole is None or value.ndim == 0 or whole.ndim != value.ndim or whole.shape[1:] != value.shape[1:]:
        return False
    rows = rows_of(whole, value)
    return rows is not None and len(set(rows)) < len(whole)


def _summed(matches: ValueMatches, edit: Edit, c: Class) -> bool:
    """True if the class's members are added up later on, wherever they are used, by the program or by whoever takes an
    output of which ranks are to hold summands: then no sum is missing there."""
    pending, seen = list(c.places), set(c.places)
    added = False
    while pending:
        for reader in matches.replay.readers.get(pending.pop(), ()):
            if reader in seen or reader not in matches.cone:
                continue
            seen.add(reader)
            if reader not in matches.class_of or _still_summands(matches, reader):
                pending.append(reader)
            elif not matches.facts(reader).sums or not _known(matches, reader):
                return False
            else:
                added = True
    return added or not seen.isdisjoint(_left_as_summands(matches, edit))


def _left_as_summands(matches: ValueMatches, edit: Edit) -> set[Place]:
    """The places of outputs of which the ranks along the axes of a change are to hold summands."""
    along = set(edit.axis.split(" and "))
    return {
        place
        for name, expected in matches.job.outputs.items()
        for axis, placement in zip(matches.job.mesh.names, expected.placements or (), strict=False)
        if axis in along and placement == Partial("sum")
        for place in matches.replay.output_places(name)
    }


def _known(matches: ValueMatches, place: Place) -> bool:
    """True if a value is a part of a tensor, or a multiple of one."""
    return any(True for _ in matches.multiples(matches.value(place)))


def _still_summands(matches: ValueMatches, place: Place) -> bool:
    """True if a place is one of several summands of something, and no part of a tensor."""
    return matches.aligned(place) is None and matches.summands(matches.class_of[place]) is not None


KINDS: Mapping[EditKind, Row] = {
    EditKind.BYPASS: Row(edits.bypassed, _of_leaving_out, Words.bypass),
    EditKind.LITERAL: Row(edits.literals, _of_a_number, Words.literal),
    EditKind.SCALE: Row(edits.scaled, _of_a_factor, Words.scale),
    EditKind.SUM: Row(edits.summed, _of_a_reduction, Words.sum),
    EditKind.MEAN: Row(edits.averaged, _of_a_reduction, Words.mean),
    EditKind.MAXIMUM: Row(edits.maximal, _of_a_maximum, Words.maximum),
    EditKind.TOTAL: Row(edits.totals, _of_a_total, Words.total),
    EditKind.ORDER: Row(edits.permuted, _of_an_order, Words.order),
    EditKind.PEER: Row(edits.from_peers, _of_a_peer, Words.peer),
    EditKind.OPERAND: Row(operands, _of_an_operand, Words.operand),
    EditKind.UNREAD: Row(unread, _of_an_order, Words.unread),
    EditKind.VALUE: Row(edits.replaced, _of_a_value, Words.value, calls=False, again=_same_parts),
    EditKind.LIKE: Row(edits.likened, _of_a_value, Words.value, calls=False, again=_same_parts),
    EditKind.BLOCK: Row(blocks, _of_an_order, Words.block),
    EditKind.REDUCTION: Row(reductions, _of_another_reduction, Words.reduction),
    EditKind.EXCHANGE: Row(exchanged, _of_an_exchange, Words.exchange),
    EditKind.ONCE: Row(edits.once, _of_what_is_added, Words.once),
    EditKind.FUNCTION: Row(edits.functions, _of_a_function, Words.function),
}
