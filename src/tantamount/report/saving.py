"""A report as a file, in the form that the file's name asks for."""

from __future__ import annotations

import html
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
    title = html.escape(f"{report.verdict.value} {report.job}")
    body = html.escape(text.text(report, verbose=True))
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
        "<style>body{margin:2em auto;max-width:72em;padding:0 1em}pre{white-space:pre-wrap;font-size:14px}</style>"
        f"</head><body><pre>{body}</pre></body></html>\n"
    )


_FORMS: dict[str, Callable[[Report], str]] = {".json": _json, ".html": _page, ".txt": text.text}
