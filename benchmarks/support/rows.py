"""Rows of the tables of docs/support.md."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

from tantamount import Report

__all__ = ["absent", "head", "refining", "row", "timed"]

_T = TypeVar("_T")


def head(what: str) -> Iterator[str]:
    """The first two lines of a table, whose first column is ``what``."""
    yield f"| {what} | capture | verdict | outputs | refine | twin | place | refine |"
    yield "|---|---|---|---|---|---|---|---|"


def timed(function: Callable[[], _T]) -> tuple[_T, float]:
    """What it returns, and the CPU seconds that took."""
    started = time.process_time()
    result = function()
    return result, time.process_time() - started


def refining(report: Report) -> float:
    """CPU seconds of the proof."""
    return sum(report.statistics.seconds.values())


def row(name: str, captured: float, report: Report, twin: Report | None) -> str:
    """One line of a table: what was captured in how many seconds, the verdict, and the verdict of the broken twin."""
    proved = sum(output.verdict.value == "PROVED" for output in report.outputs)
    right = (
        f"| {name} | {captured:.1f} | {report.verdict.value} | {proved} of {len(report.outputs)} "
        f"| {refining(report):.2f} |"
    )
    if twin is None:
        return f"{right} | | |"
    source = None
    if twin.mismatch is not None:
        source = twin.mismatch.implementation_source or twin.mismatch.specification_source
    place = "" if source is None else f"`{Path(source.file).name}` {source.function}"
    return f"{right} {twin.verdict.value} | {place} | {refining(twin):.1f} |"


def absent(name: str, reason: str) -> str:
    """The line of what could not be run here."""
    return f"| {name} | {reason} | | | | | | |"
