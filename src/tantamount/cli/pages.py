"""The files into which ``--html`` writes the page of each job."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from tantamount.errors import UserError
from tantamount.writing import check_writable, make_folder

__all__ = ["pages_of"]


def pages_of(out: Path | None, jobs: Sequence[Path]) -> Mapping[Path, Path]:
    """The file ``out`` for one job; for several, or if ``out`` is a folder, files in it that are named after the jobs.
    The folder is made if it is not there. Raises :class:`UserError` if the files could not be written in the end."""
    if out is None:
        return {}
    if len(jobs) == 1 and not out.is_dir():
        if out.suffix != ".html":
            raise UserError(
                "report-format", place=f"--html {out}", found=out.suffix or "no suffix", needed="a file *.html"
            )
        check_writable(out, "--html")
        return {jobs[0]: out}
    make_folder(out)
    places = {job: Path(os.path.abspath(job)) for job in jobs}
    root = os.path.commonpath([place.parent for place in places.values()])
    pages = {job: out / _name(place.relative_to(root)) for job, place in places.items()}
    for page in pages.values():
        check_writable(page, "--html")
    return pages


def _name(place: Path) -> str:
    return "-".join(place.with_suffix(".html").parts)
