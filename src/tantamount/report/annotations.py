"""Remarks on lines of files about what is wrong with jobs, of which SARIF and GitHub's annotations are made."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tantamount.report.outcomes import INTERNAL, Failure, Outcome
from tantamount.report.places import Location, file_location, locate
from tantamount.report.text import difference, disagreement, summary
from tantamount.verdict import Report, Verdict

__all__ = ["Annotation", "annotate"]


@dataclass(frozen=True, slots=True)
class Annotation:
    """A remark about one job. ``rule`` is a stable name of what is wrong, ``error`` whether it is certain, ``headline``
    one sentence, ``text`` everything else, ``related`` other places by what is there."""

    job: str
    rule: str
    error: bool
    headline: str
    text: str
    location: Location
    related: tuple[tuple[str, Location], ...] = ()


def annotate(outcomes: Sequence[Outcome], root: Path) -> Iterator[Annotation]:
    """One remark for every job that is not proved, at the implementation's line if that is known, else at the
    specification's, else at the job file. Paths are relative to ``root`` where the files are in it."""
    for outcome in outcomes:
        if isinstance(outcome, Failure):
            yield _failure(outcome, root)
        elif not outcome.proved:
            yield _open(outcome, root)


def _failure(failed: Failure, root: Path) -> Annotation:
    rule = "internal" if failed.exit_code == INTERNAL else failed.code
    location = file_location(Path(failed.job), root)
    return Annotation(failed.job, rule, True, f"{failed.code}: {failed.found}", str(failed), location)


def _open(report: Report, root: Path) -> Annotation:
    job = Path(report.job)
    mismatch = report.mismatch
    places: list[tuple[str, Location]] = []
    rule = report.verdict.value.lower().replace(" ", "-")
    if mismatch is not None:
        rule = mismatch.kind or rule
        sides = (
            (f"implementation: {mismatch.implementation}", mismatch.implementation_source),
            (f"specification: {mismatch.specification}", mismatch.specification_source),
        )
        found = ((label, locate(source, root, job.parent)) for label, source in sides)
        places = [(label, location) for label, location in found if location is not None]
        places.sort(key=lambda place: not place[1].found)  # stable: the implementation first, if both or none are here
    places.append(("job", file_location(job, root)))
    (_, location), *related = places
    return Annotation(
        job=report.job,
        rule=rule,
        error=report.verdict is Verdict.REFUTED,
        headline=summary(report),
        text="\n".join(row for row in _rows(report) if not summary(report).endswith(row)),
        location=location,
        related=tuple(related),
    )


def _rows(report: Report) -> Iterator[str]:
    if report.mismatch is not None:
        yield from difference(report.mismatch)
        yield from report.mismatch.equations
    if report.counterexample is not None:
        yield disagreement(report.counterexample)
    if report.mismatch is not None and report.mismatch.hint:
        yield report.mismatch.hint
    for output in report.outputs:
        if output.verdict is not Verdict.PROVED:
            yield f"{output.verdict.value} {output.name}: expected {output.expectation}"
