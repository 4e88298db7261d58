"""Findings as a table, and as a page."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from pathlib import Path

from tantamount.fuzz.findings import read_findings

__all__ = ["Row", "page", "rows"]


@dataclass(frozen=True)
class Row:
    """One finding; ``operators``: how many its program has."""

    backend: str
    kind: str
    operators: int
    signature: str
    message: str
    folder: str
    title: str


def rows(folder: Path) -> list[Row]:
    """The findings below a folder by backend and kind, the smallest programs first."""
    found: list[Row] = []
    for finding in read_findings(folder):
        data = finding.data
        words = [word for word in finding.signature.split() if ":" in word]
        message = next(iter(data["message"].splitlines()), "")[:160]
        found.append(
            Row(
                finding.backend,
                data["kind"],
                len(words),
                finding.signature,
                message,
                str(finding.folder),
                data["title"],
            )
        )
    return sorted(found, key=lambda row: (row.backend, row.kind, row.operators, row.signature))


def page(found: list[Row]) -> str:
    """The table as a page of HTML, which needs nothing else."""
    body = "".join(
        f"<tr><td>{escape(row.backend)}</td><td>{escape(row.kind)}</td><td>{row.operators}</td><td>{escape(row.title)}</td>"
        f"<td><code>{escape(row.message)}</code></td><td><code>{escape(row.folder)}</code></td></tr>\n"
        for row in found
    )
    style = (
        "body{font:15px sans-serif;margin:2rem}"
        "td,th{padding:.3rem .8rem;border-bottom:1px solid #ccc;text-align:left;vertical-align:top}"
    )
    head = "<tr><th>backend</th><th>kind</th><th>operators</th><th>what</th><th>message</th><th>folder</th></tr>"
    top = f"<!doctype html><meta charset=utf-8><title>Findings</title><style>{style}</style>"
    return f"{top}<h1>{len(found)} findings</h1><table>{head}\n{body}</table>\n"
