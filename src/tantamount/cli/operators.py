"""Pages about operators, made from the operator table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import groupby

from tantamount.ops.table import Operator
from tantamount.report.lines import Line, Span, Style, paragraph

__all__ = ["overview", "page"]


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


def page(row: Operator) -> Iterator[Line]:
    """One operator: its names, category, mathematics, and every attribute with kind and default."""
    yield (Span(row.name, Style.HEADING), Span(f"   {row.category}", Style.QUIET))
    for other in row.targets[1:]:
        yield (Span(f"also {other}"),)
    if row.doc:
        yield ()
        yield from paragraph(row.doc, 2)
    yield ()
    yield (Span("Attributes (any other one is refused)", Style.HEADING),)
    width = max((len(name) for name in row.parameters), default=0)
    for name, parameter in row.parameters.items():
        default = "" if parameter.required else f" = {parameter.default}"
        yield (Span(f"  {name:<{width}}  {parameter.kind}{default}"),)
    if not row.parameters:
        yield (Span("  none"),)
    if row.group_parameter is not None:
        yield ()
        yield (Span(f"A collective over the process group that {row.group_parameter!r} names"),)
