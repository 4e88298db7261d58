"""Lines on terminals: where they break."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tantamount.report.lines import Line, Span, breaks, plain


def rows(line: Line, width: int) -> list[str]:
    indent, parts = breaks(line, width)
    text = plain([line]).rstrip("\n")
    return [(" " * indent if k else "") + text[start:end] for k, (start, end) in enumerate(parts)]


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ((Span("  x  "), Span("one two three")), ["  x  one two", "     three"]),
        ((Span("  one two three four"),), ["  one two", "    three", "    four"]),
        ((Span("one two"), Span(" three")), ["one two", "  three"]),
        ((Span("  a very long label "), Span("text")), ["  a very", "      long", "      label", "      text"]),
        ((Span("  x "), Span("/a/path/that/is/long and more")), ["  x /a/path/that/is/long", "    and more"]),
        ((Span("  x "), Span("\x1b[2J")), ["  x \\x1b[2J"]),
        ((), [""]),
    ],
)
def test_where_a_line_of_twelve_columns_breaks(line: Line, wanted: list[str]) -> None:
    assert rows(line, 12) == wanted


@given(st.lists(st.text(alphabet="ab  \t", max_size=30), max_size=3), st.integers(4, 40))
def test_no_word_is_lost_or_broken(spans: list[str], width: int) -> None:
    line = tuple(Span(text) for text in spans)
    shown = rows(line, width)
    assert " ".join(shown).split() == plain([line]).split()
    assert all(len(row) <= width or " " not in row.strip() for row in shown[1:])
