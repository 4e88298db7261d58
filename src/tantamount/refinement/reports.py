"""Reports on outputs before and after more effort: which are open, and what is said of them then."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from tantamount.proof.outputs import PARTLY
from tantamount.verdict import OutputReport, Verdict

if TYPE_CHECKING:
    from tantamount.execution.witness import Searched

__all__ = ["any_refuted", "explained", "still_open", "told_before", "unrefuted", "with_more"]


def still_open(outputs: Sequence[OutputReport]) -> list[OutputReport]:
    """The outputs that are not proved."""
    return [output for output in outputs if output.verdict is not Verdict.PROVED]


def unrefuted(checked: tuple[OutputReport, ...], reasons: Mapping[str, str | None]) -> list[str]:
    """The outputs that are open and that no execution refuted."""
    return [o.name for o in still_open(checked) if o.verdict is not Verdict.REFUTED or o.reason == reasons[o.name]]


def told_before(outputs: Sequence[OutputReport], searched: Searched) -> Searched | None:
    """The result of a search before there was a proof, as one about the ``outputs`` of the proof. ``None`` unless it
    refutes all of them, and the proof says nothing else of any."""
    there = {output.name: output for output in searched.outputs}
    found: list[OutputReport] = []
    for output in outputs:
        known = there[output.name]
        if known.verdict is not Verdict.REFUTED or output.verdict is not Verdict.UNKNOWN:
            return None
        if PARTLY in (output.reason or ""):
            return None
        notes = (*output.notes, *known.notes)
        found.append(replace(output, verdict=known.verdict, reason=known.reason, notes=notes))
    return replace(searched, outputs=tuple(found))


def any_refuted(outputs: Sequence[OutputReport]) -> bool:
    """True if some output is refuted."""
    return any(output.verdict is Verdict.REFUTED for output in outputs)


def with_more(output: OutputReport, again: OutputReport | None, reasons: Mapping[str, str | None]) -> OutputReport:
    """The report on an output with what was found with more effort."""
    if again is None or again.verdict is Verdict.PROVED:
        return again or output
    if PARTLY in (again.reason or ""):
        return replace(again, notes=(*again.notes, *output.notes))
    return replace(output, reason=again.reason) if output.reason == reasons[output.name] else output


def explained(output: OutputReport, reduction: str) -> OutputReport:
    """The report with the reduction that is missing, if one is, in its reason."""
    if not reduction:
        return output
    if output.verdict is Verdict.UNKNOWN:
        return replace(output, reason=f"{output.name} = {output.expectation} was not proved: {reduction}")
    return replace(output, reason=f"{output.reason}\n{reduction}")
