"""Schedules of pipelines as CSV files: a row for every device, a cell for every action."""

from __future__ import annotations

import csv
import io
from pathlib import Path

from tantamount.errors import UserError

__all__ = ["read_rows"]

_MOST = 4_000_000  # characters of a file


def read_rows(path: Path) -> list[list[str]]:
    """The cells of a CSV file, row by row. Raises :class:`UserError` for a file that cannot be read or is too long."""
    try:
        with path.open(encoding="utf-8", newline="") as stream:
            text = stream.read(_MOST + 1)
    except (OSError, UnicodeDecodeError) as problem:
        why = problem.strerror if isinstance(problem, OSError) else "not UTF-8"
        raise UserError("plan-schedule", place=str(path), found=str(why), needed="a schedule as CSV") from None
    if len(text) > _MOST:
        raise UserError("plan-schedule", place=str(path), found="a file that is too long", needed=f"{_MOST} characters")
    return list(csv.reader(io.StringIO(text)))
