"""Exit codes, and the one place where errors become them."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable
from typing import ParamSpec

import click

from tantamount.cli.process import INTERRUPTED, Output
from tantamount.cli.terminal import error
from tantamount.errors import EnvironmentFault, UserError
from tantamount.report.outcomes import ENVIRONMENT, INTERNAL, Failure, failure, worst_exit

__all__ = ["DEBUG", "exits", "explain", "explained", "finished"]

DEBUG = "TANTAMOUNT_DEBUG"  # environment variable: show the traceback of internal errors

P = ParamSpec("P")


def explain(problem: Exception | Failure, *, verbose: bool = False) -> None:
    """Tell on stderr what went wrong; the traceback of a bug of ours only if ``verbose`` or :data:`DEBUG` is set."""
    told = problem if isinstance(problem, Failure) else failure("", problem, "")
    if told.exit_code != INTERNAL:
        error(f"{told}\n  more:   tantamount explain {told.code}")
        return
    shown = verbose or bool(os.environ.get(DEBUG))
    if shown:
        error(told.trace.rstrip())
    error(str(told) + (f"; -v or {DEBUG}=1 shows the traceback to include" if told.trace and not shown else ""))


def explained(problem: Exception, *, verbose: bool = False) -> int:
    """The exit code of an exception, after it was told on stderr."""
    try:
        told = failure("", problem, "")
        explain(told, verbose=verbose)
        return told.exit_code
    except MemoryError:
        return ENVIRONMENT


def finished(stdout: Output | None, code: int) -> int:
    """The exit code of a command that ended with ``code``, once all that it printed is written, or is not."""
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    if stdout is None or stdout.problem is None:
        return code
    explain(
        EnvironmentFault(
            "environment-output", place="stdout", found=stdout.problem.strerror or str(stdout.problem),
            needed=f"an output that takes the result, which nobody was told; without this the exit code is {code}",
            hint="--json FILE writes the result to a file; /dev/null takes everything",
        )
    )  # fmt: skip
    return worst_exit([code, ENVIRONMENT]) if code != INTERRUPTED else code


def exits(command: Callable[P, int]) -> Callable[P, None]:
    """A command that returns its exit code: errors and interruption become exit codes too, never a traceback."""

    @functools.wraps(command)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        try:
            code = command(*args, **kwargs)
        except (click.exceptions.Exit, click.Abort, click.ClickException):
            raise
        except KeyboardInterrupt:
            error("interrupted")
            raise click.exceptions.Exit(INTERRUPTED) from None
        except SystemExit as problem:  # of code of the user's that a command ran: its exit code would be taken for ours
            raise click.exceptions.Exit(explained(_left(problem))) from None
        except Exception as problem:
            raise click.exceptions.Exit(explained(problem, verbose=kwargs.get("verbose") is True)) from None
        raise click.exceptions.Exit(code)

    return run


def _left(problem: SystemExit) -> UserError:
    return UserError(
        "code-exits", place="command line", found=f"code of yours that left with exit({problem.code!r})",
        needed="code that returns",
    )  # fmt: skip
