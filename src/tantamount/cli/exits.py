"""Exit codes, and the one place where errors become them."""

from __future__ import annotations

import functools
import os
import traceback
from collections.abc import Callable, Iterable
from typing import ParamSpec

import typer

from tantamount.cli.terminal import error
from tantamount.errors import UserError

__all__ = ["DEBUG", "INTERNAL", "USAGE", "exits", "explain", "exit_code_of", "worst_exit"]

USAGE = 2
INTERNAL = 4
DEBUG = "TANTAMOUNT_DEBUG"  # environment variable: show the traceback of internal errors
_SEVERITY = (0, 3, 1, USAGE, INTERNAL)

P = ParamSpec("P")


def worst_exit(codes: Iterable[int]) -> int:
    """The exit code of several jobs: the first of 4, 2, 1, 3, 0 that one of them has."""
    return max(codes, key=_SEVERITY.index, default=0)


def exit_code_of(problem: Exception) -> int:
    """2 for what the user can mend, 4 for everything else: it is our bug."""
    return USAGE if isinstance(problem, UserError) else INTERNAL


def explain(problem: Exception, *, verbose: bool = False, doing: str = "") -> None:
    """Tell on stderr what went wrong; the traceback of a bug of ours only if ``verbose`` or :data:`DEBUG` is set."""
    if isinstance(problem, UserError):
        error(f"{problem}\n  more:   tantamount explain {problem.code}")
        return
    shown = verbose or bool(os.environ.get(DEBUG))
    if shown:
        error("".join(traceback.format_exception(problem)).rstrip())
    text = str(problem).splitlines()
    lines = [
        f"error[internal] {doing}" if doing else "error[internal]",
        f"  found:  {type(problem).__name__}: {text[0] if text else '(no text)'}",
        "  needed: this is a bug of Tantamount, not of your files; nothing was proved or refuted",
        "  help:   please report it with the version, the command line and, if you can share them, the files"
        + ("" if shown else f"; -v or {DEBUG}=1 shows the traceback to include"),
    ]
    error("\n".join(lines))


def exits(command: Callable[P, int]) -> Callable[P, None]:
    """A command that returns its exit code: errors and interruption become exit codes too, never a traceback."""

    @functools.wraps(command)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        try:
            code = command(*args, **kwargs)
        except (typer.Exit, typer.Abort, typer.BadParameter):
            raise
        except KeyboardInterrupt:
            error("interrupted")
            raise typer.Exit(130) from None
        except Exception as problem:
            explain(problem, verbose=kwargs.get("verbose") is True)
            raise typer.Exit(exit_code_of(problem)) from None
        raise typer.Exit(code)

    return run
