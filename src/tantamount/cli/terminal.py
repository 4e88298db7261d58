"""Writing to the terminal: plain text in pipes; colours and progress (and only then rich) on a terminal."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, TextIO

from tantamount.report.lines import Line, Span, Style, breaks, plain, printable

if TYPE_CHECKING:
    from rich.progress import Progress as Bars

__all__ = ["Progress", "Queue", "error", "lines", "out", "progress", "queue"]

Progress = Callable[[str, int, int], None]  # phase, done, total

_COLOURS = {
    Style.PLAIN: "",
    Style.GOOD: "bold green",
    Style.BAD: "bold red",
    Style.OPEN: "bold yellow",
    Style.HEADING: "bold",
    Style.QUIET: "dim",
}


def out(text: str) -> None:
    """Write text to stdout as it is."""
    _write(text, sys.stdout)


def error(text: str) -> None:
    """Write lines to stderr; control characters, which may come from untrusted files, are escaped."""
    _show([_labelled(row) for row in text.splitlines()], sys.stderr)


def lines(rows: Iterable[Line]) -> None:
    """Write styled lines to stdout: with colours on a terminal, as plain text elsewhere."""
    _show(rows, sys.stdout)


def _labelled(row: str) -> Line:
    """``error[code]`` and ``  found:  `` apart from what follows, which is then wrapped beside them."""
    label = re.match(r"error\[[\w-]+\] |\s+\w+:\s+", row)
    if label is None:
        return (Span(row),)
    style = Style.BAD if row.startswith("error") else Style.QUIET
    return Span(label[0], style), Span(row[label.end() :])


def _show(rows: Iterable[Line], stream: TextIO) -> None:
    if not _styled(stream):
        _write(plain(rows), stream)
        return
    from rich.console import Console
    from rich.text import Text

    console = Console(highlight=False, stderr=stream is sys.stderr)
    for row in rows:
        styled = Text.assemble(*((printable(span.text), _COLOURS[span.style]) for span in row))
        indent, parts = breaks(row, console.width)
        for k, (start, end) in enumerate(parts):
            console.print(Text(" " * indent if k else "") + styled[start:end], soft_wrap=True)


@contextmanager
def progress(job: str) -> Generator[Progress | None]:
    """A progress display on stderr while the block runs, if stderr is a terminal; else ``None``."""
    if not _styled(sys.stderr):
        yield None
        return
    with _bars() as bars:
        task = bars.add_task(printable(job), total=None)

        def show(phase: str, done: int, total: int) -> None:
            bars.update(task, description=f"{phase}  {printable(job)}", completed=done, total=total or None)

        yield show


class Queue:
    """A line that says how far several jobs are, on stderr if that is a terminal; out of the way while something is
    written."""

    def __init__(self, bars: Bars | None, total: int) -> None:
        self._bars = bars
        self._task = bars.add_task("", total=total) if bars is not None else None

    def show(self, done: int, running: Sequence[str]) -> None:
        if self._bars is not None and self._task is not None:
            self._bars.update(self._task, description=printable(", ".join(running)), completed=done)

    @contextmanager
    def paused(self) -> Generator[None]:
        if self._bars is not None:
            self._bars.stop()
        yield
        if self._bars is not None:
            self._bars.start()


@contextmanager
def queue(total: int) -> Generator[Queue]:
    """The display of that many jobs while the block runs."""
    if not _styled(sys.stderr):
        yield Queue(None, total)
        return
    with _bars() as bars:
        yield Queue(bars, total)


def _bars() -> Bars:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
    from rich.table import Column

    last = Column(ratio=1, no_wrap=True, overflow="ellipsis")
    columns = MofNCompleteColumn(), BarColumn(bar_width=20), TimeElapsedColumn()
    return Progress(
        *columns,
        TextColumn("{task.description}", markup=False, table_column=last),
        console=Console(stderr=True),
        expand=True,
        transient=True,
        redirect_stdout=False,
        redirect_stderr=False,
    )


def _styled(stream: TextIO) -> bool:
    return stream.isatty() and os.environ.get("TERM") != "dumb"


def _write(text: str, stream: TextIO) -> None:
    encoding = stream.encoding or "utf-8"
    stream.write(text.encode(encoding, "backslashreplace").decode(encoding))
    stream.flush()
