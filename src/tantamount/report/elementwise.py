"""The work of the second engine, as lines."""

from __future__ import annotations

from tantamount.report.lines import Line, Span, Style, listed, paragraph
from tantamount.verdict import Elementwise

__all__ = ["elementwise"]

_SIZES = 6  # unless verbose
_STAGES = 6
_BROKEN = 4


def elementwise(found: Elementwise, verbose: bool) -> list[Line]:
    """The section on the second engine: sizes, elements and how they were settled, stages, conditions."""
    changes = [f"{old} -> {' or '.join(map(str, new))}" for old, new in sorted(found.sizes.items(), reverse=True)]
    sizes = listed(changes, len(changes) if verbose else _SIZES) if changes else f"those of the job: {found.unreduced}"
    settled = f"{found.by_expression} the same expression, {found.by_solver} equal by z3"
    undecided = f", {found.undecided} not" if found.undecided else ""
    stages = [f"{node} on rank {rank} ({count})" for rank, node, count in found.stages]
    rows = [
        f"sizes       {sizes}",
        f"elements    {found.elements} compared: {settled}{undecided}",
        f"stages      {listed(stages, len(stages) if verbose else _STAGES) if stages else 'none'}",
        f"questions   {found.questions} to z3, {found.renamed} more were the same up to names",
    ]
    broken = [one for one in found.conditions if one.broken]
    fulfilled = len(found.conditions) - len(broken)
    if found.conditions:
        rows.append(f"conditions  {fulfilled} of {len(found.conditions)} hold that would carry it to all sizes")
    shown = found.conditions if verbose else broken[:_SIZES]
    for one in shown:
        what = "holds" if not one.broken else f"not: {listed(one.broken, len(one.broken) if verbose else _BROKEN)}"
        rows.append(f"            {one.size}: {one.condition}: {what}")
    title = "Second engine (smt): equality of every element, at these sizes only"
    return [(Span(title, Style.HEADING),), *(line for row in rows for line in paragraph(row, 2))]
