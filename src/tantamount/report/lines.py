"""Styled lines: what the text report is made of, before anybody decides on colours."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum

__all__ = [
    "Line",
    "Span",
    "Style",
    "breaks",
    "cut",
    "listed",
    "middle",
    "paragraph",
    "plain",
    "printable",
    "printable_rows",
]


class Style(Enum):
    """The meaning of a span; the terminal decides how that looks."""

    PLAIN = "plain"
    GOOD = "good"
    BAD = "bad"
    OPEN = "open"
    HEADING = "heading"
    QUIET = "quiet"


# Control characters and direction overrides could make a terminal show something else than the report says;
# the last two are no characters to XML.
_UNPRINTABLE = re.compile(
    "[\x00-\x1f\x7f-\x9f\u2028\u2029\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]"
)


def printable(text: str) -> str:
    """``text`` on one line with every control character written as an escape: names come from untrusted files."""
    return _UNPRINTABLE.sub(lambda found: found[0].encode("unicode_escape", "surrogatepass").decode(), text)


def printable_rows(text: str) -> str:
    """``text`` with its lines kept, each of them :func:`printable`."""
    return "\n".join(map(printable, text.splitlines()))


@dataclass(frozen=True, slots=True)
class Span:
    """A piece of one line; :func:`printable` is applied to ``text`` when it is shown."""

    text: str
    style: Style = Style.PLAIN


Line = tuple[Span, ...]


def plain(lines: Iterable[Line]) -> str:
    """The lines without any styling, each ended by a newline."""
    return "".join("".join(printable(span.text) for span in line).rstrip() + "\n" for line in lines)


def breaks(line: Line, width: int) -> tuple[int, list[tuple[int, int]]]:
    """The places to break a line at for a terminal of ``width`` columns: the columns by which what follows is indented,
    and the rows as ranges of the line's characters. What follows the first span starts under its end if that is a label
    (ends with a blank), else two columns inside the line's own indent. Words are not broken."""
    text = "".join(printable(span.text) for span in line).rstrip()
    first = printable(line[0].text) if line else ""
    label = len(first) if len(line) > 1 and first.endswith(" ") else len(text) - len(text.lstrip()) + 2
    indent = min(label, width // 2)
    rows: list[tuple[int, int]] = []
    start, room = 0, width
    while len(text) - start > room:
        blank = text.rfind(" ", start + (0 if rows else indent), start + room + 1)
        blank = blank if blank > start else text.find(" ", start + room)
        if blank < 0:
            break
        rows.append((start, blank))
        start, room = blank + len(text[blank:]) - len(text[blank:].lstrip()), width - indent
    return indent, [*rows, (start, len(text))]


def paragraph(text: str, indent: int, style: Style = Style.PLAIN) -> list[Line]:
    """One line per line of ``text``, indented by that many spaces."""
    return [(Span(" " * indent + row, style),) for row in text.splitlines()]


def cut(text: str, width: int) -> str:
    """``text``, its end left out where it is longer than ``width`` characters."""
    return text if len(text) <= width else f"{text[: width - 4]} ..."


def middle(text: str, width: int) -> str:
    """``text``, its middle left out where it is longer than ``width`` characters."""
    if len(text) <= width:
        return text
    left = (width - 5) * 2 // 3
    return f"{text[:left]} ... {text[len(text) - (width - 5 - left) :]}"


def listed(items: Sequence[str], limit: int) -> str:
    """``a, b, c and 12 more``."""
    shown = ", ".join(items[:limit])
    return shown if len(items) <= limit else f"{shown} and {len(items) - limit} more"
