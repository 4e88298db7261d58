"""For which other numbers of layers a plan that is right is right as well.

The data part of a proof looks at parts, and at pairs of parts that meet. A block of pieces that is repeated meets
itself and its neighbours in the same pairs however often it is repeated, and a sum over pieces has one relation
whatever their number (docs/design/plans.md). The schedule is another matter: it is checked for the stages that there
are.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence

from tantamount.errors import UserError
from tantamount.ir.job import Job
from tantamount.plan.families import Family
from tantamount.plan.parts import Plan, Runs
from tantamount.verdict import Report, Verdict

__all__ = ["microbatches_of", "repeated", "said_of_counts"]

_LONGEST = 64  # pieces of a block


def repeated(parts: Sequence[str]) -> list[tuple[tuple[str, ...], int]]:
    """The parts as blocks, with how often each is repeated: from left to right the repetition that covers most, of the
    shortest block. Linear in the number of parts."""
    found: list[tuple[tuple[str, ...], int]] = []
    at = 0
    while at < len(parts):
        block, times = (parts[at],), 1
        for length in range(1, min(_LONGEST, (len(parts) - at) // 2) + 1):
            here = tuple(parts[at : at + length])
            count = 1
            while tuple(parts[at + count * length : at + (count + 1) * length]) == here:
                count += 1
            if count > 1 and count * length > len(block) * times:
                block, times = here, count
        found.append((block, times))
        at += len(block) * times
    return found


def said_of_counts(plan: Plan) -> tuple[str, ...]:
    """Sentences, true of a plan that is proved: which blocks of layers may be repeated any number of times.

    Only blocks that are repeated here count: then they meet themselves at a joint that was looked at. Not parts with a
    shared parameter, of whose copies there would be another number."""
    shared = {part for members in plan.tied.values() for part in members}
    found: list[str] = []
    for block, times in repeated([piece.part for piece in plan.pieces]):
        if times > 1 and not shared & set(block):
            what = block[0] if len(block) == 1 else f"({', '.join(block)})"
            found.append(
                f"for every number of {what} >= 1, here {times}, with these programs and any number of them on a "
                "stage; the schedule for the stages and microbatches that there are"
            )
    return tuple(found)


def microbatches_of(plan: Plan, refine: Callable[[Job], Report], granted: Collection[str]) -> tuple[bool, str]:
    """A sentence about other numbers of microbatches, of a plan that is proved and whose passes have size symbols; and
    True if they are right, or else false, with the reason why that is not shown. Empty where nothing is asked.

    ``refine`` answers for all sizes; ``granted`` are the names of the assumptions that the plan's proof rests on, and
    nothing else may be assumed. Shown is, of every pass, that the specification may work on rows apart, and that
    what ranks do is what it does on the rows of one microbatch, whatever the batch: then by induction it is so for any
    number of them (docs/design/plans.md)."""
    used = [plan.parts[name] for name in dict.fromkeys((*plan.numbers(), *plan.reduce, *plan.update))]
    families = [part.family for part in used if part.family is not None]
    passes = [part for part in used if part.runs is Runs.PASS]
    if not passes or any(part.family is None for part in passes) or plan.microbatches < 2 or plan.approximations:
        return False, ""
    moved = next((part.name for part in passes if part.taken_as or part.given_as), "")
    if moved:  # forms in pieces grow without cuts, which proofs for all sizes do not have
        return False, f"{moved}: ranks have blocks of a dimension in another order"
    for family in families:
        if not family.is_for_all:
            return False, f"{_called(family)}: its programs are for some numbers of rows only"
        try:
            for job in _for_all(family):
                why = _open(refine(job), granted)
                if why:
                    return False, f"{_called(family)}: {why}"
        except UserError as problem:
            return False, f"{_called(family)}: {problem.found}"
    rows = families[0].rows
    least, other = (2, f", the last of which has {rows.last}") if rows.uneven else (1, "")
    return True, (
        f"for every number of microbatches >= {least}, here {plan.microbatches}, of {rows.each} rows of a rank{other}, "
        f"with these programs, in which {rows.batch} is the rows of all; the schedule for the number that there is"
    )


def _called(family: Family) -> str:
    return family.name.rpartition(": ")[2]


def _for_all(family: Family) -> Iterator[Job]:
    yield family.alone(family.rows.each)
    if family.axis:
        if family.rows.uneven:
            yield family.alone(family.rows.last)
        yield family.joined()


def _open(found: Report, granted: Collection[str]) -> str:
    """The reason why a job is not proved for all sizes and inputs; empty if it is."""
    for assumption in found.assumptions:
        if assumption.name == "input-restriction" or assumption.name not in {*granted, "sizes"}:
            return f"{assumption.name}: {assumption.text}"
    if found.verdict is Verdict.PROVED:
        return ""
    open_ = next(output for output in found.outputs if output.verdict is not Verdict.PROVED)
    at = next((note for note in found.notes if note.startswith("at ")), "")
    return f"{open_.name} is {open_.verdict.value} {at.split(';')[0]}".strip()
