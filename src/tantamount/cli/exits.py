"""Exit codes, and the one place where errors become them."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from typing import ParamSpec

import typer

from tantamount.cli.terminal import error
from tantamount.errors import UserError
from tantamount.report.outcomes import INTERNAL, USAGE, Failure, failure

__all__ = ["DEBUG", "exits", "explain", "exit_code_of"]

DEBUG = "TANTAMOUNT_DEBUG"  # environment variable: show the traceback of internal errors

P = ParamSpec("P")


def exit_code_of(problem: Exception) -> int:
    """2 for what the user can mend, 4 for everything else: it is our bug."""
    return USAGE if isinstance(problem, UserError) else INTERNAL


def explain(problem: Exception | Failure, *, verbose: bool = False) -> None:
    """Tell on stderr what went wrong; the traceback of a bug of ours only if ``verbose`` or :data:`DEBUG` is set."""
    told = problem if isinstance(problem, Failure) else failure("", problem, "")
    if told.exit_code == USAGE:
        error(f"{told}\n  more:   tantamount explain {told.code}")
        return
    shown = verbose or bool(os.environ.get(DEBUG))
    if shown:
        error(told.trace.rstrip())
    error(str(told) + (f"; -v or {DEBUG}=1 shows the traceback to include" if told.trace and not shown else ""))


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
