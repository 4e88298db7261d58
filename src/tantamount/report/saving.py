"""A report as a file, in the form that the file's name asks for."""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

from tantamount.errors import UserError
from tantamount.report import json_report, text
from tantamount.verdict import Report
from tantamount.writing import write_file

__all__ = ["save"]


def save(report: Report, path: Path) -> None:
    """Write a report as JSON (``.json``), a page (``.html``) or text (``.txt``), whole or not at all."""
    render = _FORMS.get(path.suffix)
    if render is None:
        raise UserError(
            "report-format", place=str(path), found=path.suffix or "no suffix", needed=f"one of {', '.join(_FORMS)}"
        )
    write_file(path, render(report))


def _json(report: Report) -> str:
    entry = json_report.as_job(report)
    return json_report.as_text(
        json_report.as_document([entry], exit_code=report.exit_code, version=version("tantamount"))
    )


def _page(report: Report) -> str:
    from tantamount.report.html.page import page  # jinja2 takes as long to import as a small job to prove

    return page(report)


_FORMS: dict[str, Callable[[Report], str]] = {".json": _json, ".html": _page, ".txt": text.text}
