"""A report as a file, in the form that the file's name asks for."""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

from tantamount.errors import UserError
from tantamount.report import json_report, text
from tantamount.verdict import Picture, Report
from tantamount.writing import write_file

__all__ = ["save"]

_Draw = Callable[[], Picture | None]


def save(report: Report, path: Path, picture: _Draw = lambda: None) -> None:
    """Write a report as JSON (``.json``), a page (``.html``, with the picture) or text (``.txt``), whole or not at
    all. Raises :class:`UserError` for another suffix, and if the file cannot be written."""
    render = _FORMS.get(path.suffix)
    if render is None:
        raise UserError(
            "report-format", place=str(path), found=path.suffix or "no suffix", needed=f"one of {', '.join(_FORMS)}"
        )
    write_file(path, render(report, picture))


def _json(report: Report, _: _Draw) -> str:
    entry = json_report.as_job(report)
    return json_report.as_text(
        json_report.as_document([entry], exit_code=report.exit_code, version=version("tantamount"))
    )


def _text(report: Report, _: _Draw) -> str:
    return text.text(report)


def _page(report: Report, picture: _Draw) -> str:
    from tantamount.report.html.page import page  # jinja2 takes as long to import as a small job to prove

    return page(report, picture())


_FORMS: dict[str, Callable[[Report, _Draw], str]] = {
    ".json": _json,
    ".html": _page,
    ".txt": _text,
}
