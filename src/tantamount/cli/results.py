"""The files that CI systems read, and where everything is written. What writes a file is imported when it is wanted."""

from __future__ import annotations

import os
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tantamount import __version__
from tantamount.cli import terminal
from tantamount.errors import UserError
from tantamount.report.outcomes import Failure, Outcome, worst_exit
from tantamount.writing import check_writable, write_file

__all__ = ["Results"]

_STDOUT = "-"


@dataclass(frozen=True, slots=True)
class Results:
    """The results that are wanted: files by option (``--json``, ``--junit``, ``--sarif``), and remarks for GitHub
    (``None``: if this runs there)."""

    files: Mapping[str, Path]
    github: bool | None = None

    @property
    def text(self) -> bool:
        """True if stdout is for people."""
        return not any(str(path) == _STDOUT for path in self.files.values())

    @property
    def remarks(self) -> bool:
        return os.environ.get("GITHUB_ACTIONS") == "true" if self.github is None else self.github

    def check(self) -> None:
        """Raise :class:`UserError` if the results could not be written in the end."""
        places = [str(path) for path in self.files.values()]
        for option, path in self.files.items():
            if places.count(str(path)) > 1:
                raise UserError(
                    "command-line", place=option, found=f"{path} for several results", needed="a place for each"
                )
            if str(path) != _STDOUT:
                check_writable(path, option)

    @contextmanager
    def fenced(self) -> Generator[None]:
        """Nothing that is written in here is taken for a command by GitHub, whatever names it has."""
        if not (self.text and self.remarks):
            yield
            return
        from tantamount.report import github

        begin, end = github.fence()
        terminal.out(begin)
        try:
            yield
        finally:
            terminal.out(end)

    def write_entries(self, entries: Sequence[Mapping[str, Any]], exit_code: int) -> None:
        """Write the JSON report of jobs that are entries already, if it is wanted; no other result is made of them."""
        path = self.files.get("--json")
        if path is None:
            return
        content = _document(entries, exit_code)
        terminal.out(content) if str(path) == _STDOUT else write_file(path, content)

    def write(self, outcomes: Sequence[Outcome]) -> None:
        """Write what is wanted, each file whole or not at all."""
        for option, path in self.files.items():
            content = _RENDER[option](outcomes)
            if str(path) == _STDOUT:
                terminal.out(content)
            else:
                write_file(path, content)
        if self.remarks:
            from tantamount.report import github
            from tantamount.report.annotations import annotate
            from tantamount.report.places import root_of

            commands = github.commands(annotate(outcomes, root_of(Path.cwd())))
            terminal.out(commands) if self.text else terminal.error(commands)


def _json(outcomes: Sequence[Outcome]) -> str:
    from tantamount.report import json_report

    entries = [json_report.as_error(one) if isinstance(one, Failure) else json_report.as_job(one) for one in outcomes]
    return _document(entries, worst_exit(outcome.exit_code for outcome in outcomes))


def _document(entries: Sequence[Mapping[str, Any]], exit_code: int) -> str:
    from tantamount.report import json_report

    return json_report.as_text(json_report.as_document(entries, exit_code=exit_code, version=__version__))


def _junit(outcomes: Sequence[Outcome]) -> str:
    from tantamount.report.junit import as_xml

    return as_xml(outcomes)


def _sarif(outcomes: Sequence[Outcome]) -> str:
    from tantamount.report import sarif
    from tantamount.report.places import root_of

    return sarif.as_text(outcomes, root_of(Path.cwd()), __version__)


_RENDER = {"--json": _json, "--junit": _junit, "--sarif": _sarif}
