"""GitHub's workflow commands: remarks that a workflow's run shows at lines of files."""

from __future__ import annotations

from collections.abc import Iterable
from secrets import token_hex

from tantamount.report.annotations import Annotation
from tantamount.report.lines import printable, printable_rows

__all__ = ["commands", "fence"]


def commands(annotations: Iterable[Annotation]) -> str:
    """One command for every remark, ended by newlines: ``::error file=impl.py,line=40,title=...::text``."""
    return "".join(_command(annotation) for annotation in annotations)


def fence() -> tuple[str, str]:
    """The commands to write before and after text that may have lines from untrusted files, so that none of them is a
    command: GitHub ignores commands between the two, and the word that ends it cannot be guessed."""
    word = token_hex(16)
    return f"::stop-commands::{word}\n", f"::{word}::\n"


def _command(one: Annotation) -> str:
    level = "error" if one.error else "warning"
    title = f"tantamount: {one.job}"
    properties = {"file": one.location.path, "line": str(one.location.line), "title": title}
    listed = ",".join(f"{name}={_property(value)}" for name, value in properties.items())
    message = f"{one.headline}\n{one.text}\n" + "".join(f"{label}: {place}\n" for label, place in one.related)
    return f"::{level} {listed}::{_data(printable_rows(message))}\n"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(printable(text)).replace(":", "%3A").replace(",", "%2C")
