"""The names of parameters in the whole model, and which stage has which: a part says them once, with the number of the
piece left open (``layers.{i}.q``).

They are what a checkpoint calls the parameters, so they are checked as such: every name belongs to one parameter of one
piece (several pieces may have one that they share), and the numbers that stand in one place of a name have no gap.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from tantamount.capture.fields import Place, shown
from tantamount.plan.parts import Piece, Plan

__all__ = ["check_names", "name_of", "names_of_stages", "wrong_names"]

_OPEN = re.compile(r"\{i(?:\+(\d{1,7}))?\}")
_TEMPLATE = re.compile(r"[^{}]*(?:\{i(?:\+\d{1,7})?\}[^{}]*)?")  # of what names are made


def name_of(template: str, number: int) -> str:
    """The name of a parameter of the piece of this number."""
    return _OPEN.sub(lambda found: str(number + int(found[1] or 0)), template)


def check_names(names: Mapping[str, str], parameters: Sequence[str], place: Place) -> None:
    """Raise :class:`UserError` unless all parameters of a part have names in the whole model, or none has."""
    for parameter, template in names.items():
        if not _TEMPLATE.fullmatch(template):
            needed = "a name with at most one {i} or {i+N}, the number of the piece and what is added to it"
            raise place.at(parameter).wrong(shown(template), needed, code="parameter-names")
    missing = [parameter for parameter in parameters if parameter not in names]
    if names and missing:
        raise place.wrong(f"nothing for {', '.join(missing)}", "names of all parameters", code="parameter-names")


def wrong_names(plan: Plan) -> Iterator[str]:
    """Sentences about names that two parameters have, and about numbers that are left out."""
    if not any(part.names for part in plan.parts.values()):
        return
    shared = {(part, parameter): tied for tied, own in plan.tied.items() for part, parameter in own.items()}
    owners: dict[str, tuple[Piece, str]] = {}
    numbers: dict[str, set[int]] = {}
    for piece in dict.fromkeys(plan.pieces):
        for parameter, template in plan.parts[piece.part].names.items():
            name = name_of(template, piece.number)
            other = owners.setdefault(name, (piece, parameter))
            tied = shared.get((piece.part, parameter))
            if other != (piece, parameter) and (tied is None or tied != shared.get((other[0].part, other[1]))):
                yield f"{name} is {parameter} of {piece}, and {other[1]} of {other[0]}"
            found = _OPEN.search(template)
            if found is not None:
                numbers.setdefault(template[: found.start()], set()).add(piece.number + int(found[1] or 0))
    for before, known in numbers.items():
        missing = next((number for number in sorted(known) if number + 1 not in known), 0) + 1
        if missing <= max(known):
            yield f"{before}{missing} has no parameters, {before}{max(known)} has"


def names_of_stages(plan: Plan) -> Iterator[tuple[int, str]]:
    """For every stage in turn the names of parameters that its pieces have, those of neighbours as one:
    ``layers.{0-6}.q``."""
    for stage, pieces in enumerate(plan.stages):
        numbers: dict[str, list[int]] = {}
        for piece in pieces:
            numbers.setdefault(piece.part, []).append(piece.number)
        for part, own in numbers.items():
            for template in plan.parts[part].names.values() if part in plan.parts else ():
                yield stage, _of_several(template, own)


def _of_several(template: str, numbers: Sequence[int]) -> str:
    found = _OPEN.search(template)
    if found is None:
        return template
    first = int(found[1] or 0)
    texts: list[str] = []
    start = 0
    for k, number in enumerate(numbers):
        if k + 1 == len(numbers) or numbers[k + 1] != number + 1:
            low, high = numbers[start] + first, number + first
            texts.append(str(low) if low == high else f"{low}-{high}")
            start = k + 1
    shown = texts[0] if len(texts) == 1 and "-" not in texts[0] else f"{{{','.join(texts)}}}"
    return template[: found.start()] + shown + template[found.end() :]
