"""The table of cases as a part of ``docs/capture.md``, which ``python -m support.ranks.page`` writes."""

from __future__ import annotations

from pathlib import Path

from support.ranks.all_cases import CASES

__all__ = ["PAGE", "table", "with_table"]

PAGE = Path(__file__).resolve().parents[3] / "docs" / "capture.md"
BEGIN, END = "<!-- begin: cases -->\n", "<!-- end: cases -->\n"


def table() -> str:
    """A table in Markdown: a row for every group of cases, with what is captured and what is refused."""
    rows = ["| what | captured | refused, with the code |", "|---|---|---|"]
    for group in dict.fromkeys(one.group for one in CASES):
        own = [one for one in CASES if one.group == group]
        captured = "; ".join(one.name for one in own if not one.refused)
        refused = "; ".join(f"{one.name} (`{one.refused}`)" for one in own if one.refused)
        rows.append(f"| {group} | {captured} | {refused} |")
    return "\n".join(rows) + "\n"


def with_table(text: str) -> str:
    """The text of the page with the table as it is now."""
    before, _, rest = text.partition(BEGIN)
    return before + BEGIN + table() + END + rest.partition(END)[2]


if __name__ == "__main__":
    PAGE.write_text(with_table(PAGE.read_text()))
