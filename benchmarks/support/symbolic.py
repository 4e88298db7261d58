"""Styles with symbolic batch sizes and sequence lengths: one proof for all of them."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.support.rows import head, refining, row, timed

from support.symbolic import STYLES, symbolic_example
from tantamount import Report


def section() -> Iterator[str]:
    """One row per style: forward and backward, with a broken twin."""
    yield "## Symbolic sizes"
    yield ""
    yield (
        "Batch size (B), sequence length (S) or number of rows (N) are symbols, forward and backward: PROVED is for"
        " all sizes that a row names. See [symbolic sizes](symbolic-sizes.md)."
    )
    yield ""
    yield from head("style")
    for name, (what, _, _) in STYLES.items():
        report, taken = timed(symbolic_example(name).check)
        twin = symbolic_example(name).check(broken=True)
        yield row(f"[{what}](../examples/{name}.py): {_sizes(report)}", taken - refining(report), report, twin)


def _sizes(report: Report) -> str:
    return next((a.text for a in report.assumptions if a.name == "sizes"), "no sizes")
