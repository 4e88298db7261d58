"""``tantamount explain``: topics as lines of text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from textwrap import wrap

from tantamount.explanations.topic import KINDS, Topic
from tantamount.report.lines import Line, Span, Style, paragraph

__all__ = ["list_of", "page"]

_WIDTH = 100


def list_of(topics: Iterable[Topic]) -> Iterator[Line]:
    """Names and titles, kind by kind."""
    yield (Span("`tantamount explain NAME` explains one of these; operators, too: `tantamount ops` lists them"),)
    for kind, members in groupby(topics, key=lambda topic: topic.kind):
        rows = list(members)
        width = max(len(topic.name) for topic in rows)
        yield ()
        yield (Span(KINDS[kind], Style.HEADING),)
        for topic in rows:
            yield (Span(f"  {topic.name:<{width}}  "), Span(topic.title, Style.QUIET))


def page(topic: Topic) -> Iterator[Line]:
    """Everything about one topic."""
    yield (Span(topic.name, Style.HEADING), Span(f"   {topic.kind}", Style.QUIET))
    yield from _paragraphs(topic.title)
    for section in topic.sections:
        yield ()
        yield (Span(section.heading, Style.HEADING),)
        if section.text:
            yield from _paragraphs(section.text)
        yield from _columns(section.rows)
        yield from paragraph(section.code, 4)


def _paragraphs(text: str) -> Iterator[Line]:
    """Wrapped, but for lines that are indented."""
    for number, block in enumerate(text.strip("\n").split("\n\n")):
        if number:
            yield ()
        rows = block.splitlines()
        verbatim = all(row.startswith("    ") for row in rows)
        for row in rows if verbatim else wrap(" ".join(rows), _WIDTH, break_on_hyphens=False):
            yield (Span(f"  {row}"),)


def _columns(rows: Sequence[Sequence[str]]) -> Iterator[Line]:
    """Rows of a table, the columns aligned; the row of their names is left out. One column is a list."""
    if rows and len(rows[0]) == 1:
        for (text,) in rows[1:]:
            first, *rest = wrap(text, _WIDTH, break_on_hyphens=False)
            yield (Span(f"  - {first}"),)
            yield from paragraph("\n".join(rest), 4)
        return
    widths = [max(len(cell) for cell in column) for column in zip(*rows[1:], strict=True)]
    for row in rows[1:]:
        yield (Span("  " + "  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip()),)
