"""A topic of ``explain``: a name, a kind, and sections of text, tables and code."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

__all__ = ["KINDS", "Section", "Topic"]

# Kind of topic -> what a list of them is called. In this order they are listed.
KINDS: Mapping[str, str] = {
    "error": "Errors",
    "verdict": "Verdicts",
    "difference": "Differences",
    "assumption": "Assumptions",
    "rule": "Rules of the calculus",
    "limit": "Limits of searches",
    "operator": "Operators",
}


@dataclass(frozen=True, slots=True)
class Section:
    """A part of a topic: paragraphs, then a table (the first row has the names of the columns), then code."""

    heading: str
    text: str = ""
    rows: tuple[tuple[str, ...], ...] = ()
    code: str = ""


@dataclass(frozen=True, slots=True)
class Topic:
    """The page about a name. ``kind`` is one of :data:`KINDS`, ``title`` one line of Markdown."""

    name: str
    kind: str
    title: str
    sections: tuple[Section, ...]
