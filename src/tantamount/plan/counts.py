"""For which other numbers of layers a plan that is right is right as well.

The data part of a proof looks at parts, and at pairs of parts that meet. A block of pieces that is repeated meets
itself and its neighbours in the same pairs however often it is repeated, and a sum over pieces has one relation
whatever their number (docs/design/plans.md). The schedule is another matter: it is checked for the stages that there
are.
"""

from __future__ import annotations

from collections.abc import Sequence

from tantamount.plan.parts import Plan

__all__ = ["repeated", "said_of_counts"]

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
