"""Findings as a table, and as a page."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from pathlib import Path

from tantamount.fuzz.findings import Finding, read_findings, resembles

__all__ = ["Row", "page", "rows"]


@dataclass(frozen=True)
class Row:
    """One finding; ``operators``: how many its program has; ``like``: the title of a smaller one that it resembles."""

    backend: str
    kind: str
    operators: int
    signature: str
    message: str
    folder: str
    title: str
    like: str = ""


def rows(folder: Path) -> list[Row]:
    """The findings below a folder by backend and kind, the smallest programs first; after those that resemble no other
    those that do."""
    findings = sorted(read_findings(folder), key=lambda item: (len(item.data.get("operators", ())), item.signature))
    alone: list[Finding] = []
    found: list[Row] = []
    for finding in findings:
        data = finding.data
        like = next((other for other in alone if resembles(finding, other)), None)
        if like is None:
            alone.append(finding)
        message = str(data["message"]).splitlines()[0][:160] if data["message"] else ""
        found.append(Row(
            finding.backend, str(data["kind"]), len(data.get("operators", ())), finding.signature, message,
            str(finding.folder), str(data["title"]), "" if like is None else str(like.data["title"]),
        ))  # fmt: skip
    return sorted(found, key=lambda row: (bool(row.like), row.backend, row.kind, row.operators, row.signature))


def page(found: list[Row]) -> str:
    """The table as a page of HTML, which needs nothing else."""
    body = "".join(
        f"<tr><td>{escape(row.backend)}</td><td>{escape(row.kind)}</td><td>{row.operators}</td>"
        f"<td>{escape(row.title)}</td>"
        f"<td>{escape(row.like)}</td>"
        f"<td><code>{escape(row.message)}</code></td><td><code>{escape(row.folder)}</code></td></tr>\n"
        for row in found
    )
    style = (
        "body{font:15px sans-serif;margin:2rem}"
        "td,th{padding:.3rem .8rem;border-bottom:1px solid #ccc;text-align:left;vertical-align:top}"
    )
    head = "".join(f"<th>{word}</th>" for word in ("backend", "kind", "operators", "what", "like", "message", "folder"))
    top = f"<!doctype html><meta charset=utf-8><title>Findings</title><style>{style}</style>"
    return f"{top}<h1>{len(found)} findings</h1><table><tr>{head}</tr>\n{body}</table>\n"
