"""The list of operators, made from the operator table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import groupby

from tantamount.ops.table import Operator
from tantamount.report.lines import Line, Span, Style

__all__ = ["overview"]


def overview(table: Mapping[str, Operator]) -> Iterator[Line]:
    """Every operator once, by category, with the first line of its definition's text (its mathematics)."""
    rows = sorted({id(row): row for row in table.values()}.values(), key=lambda row: (row.category, row.name))
    width = max((len(row.name) for row in rows), default=0)
    yield (Span(f"{len(rows)} operators under {len(table)} names; `tantamount ops NAME` shows one"),)
    for category, members in groupby(rows, key=lambda row: row.category):
        yield ()
        yield (Span(category, Style.HEADING),)
        for row in members:
            first = next(iter(row.doc.splitlines()), "")
            yield (Span(f"  {row.name:<{width}}  "), Span(first, Style.QUIET))
