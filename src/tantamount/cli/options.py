"""Declarations of commands: groups in the order in which their commands are written, arguments with a help text, and
the options that several commands have."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

__all__ = [
    "ACCEPT_TESTED", "ALLOW_OUTSIDE", "EFFORT", "EXIT_CODES", "FILE", "JSON", "MEMORY", "OPERATORS", "POSITIVE", "RAY",
    "RULES", "STRICT", "TIMEOUT", "VERBOSE", "Command", "Group", "argument",
]  # fmt: skip

EXIT_CODES = (
    "Exit codes: 0 every job is PROVED; 1 one is REFUTED; 2 the command line, a job or a graph is wrong; "
    "3 one is UNKNOWN or VACUOUS; 4 a bug of Tantamount; 5 the machine gave out (memory, disk, output); "
    "130 interrupted. Several jobs: the first of 4, 5, 2, 1, 3, 0 that one has."
)

F = TypeVar("F", bound=Callable[..., Any] | click.Command)

FILE: click.Path = click.Path(path_type=Path)
POSITIVE = click.IntRange(min=1)


class _Argument(click.Argument):
    """An argument with a help text."""

    def __init__(self, declarations: Any, about: str = "", **settings: Any) -> None:
        super().__init__(declarations, **settings)
        self.about = about


class Command(click.Command):
    """A command whose help has a section for its arguments."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        arguments = [(one.human_readable_name, one.about) for one in self.params if isinstance(one, _Argument)]
        if arguments:
            with formatter.section("Arguments"):
                formatter.write_dl(arguments)
        super().format_options(ctx, formatter)


class Group(click.Group):
    """Commands, which help lists in the order in which they are written."""

    command_class = Command

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)


def argument(name: str, metavar: str, about: str, *, many: bool = False, **settings: Any) -> Callable[[F], F]:
    """A decorator that gives a command an argument; ``many``: at least one of it, unless it need not be given."""
    if many:
        settings = {"nargs": -1, "required": True, **settings}
    return click.argument(name, cls=_Argument, metavar=metavar, about=about, **settings)


JSON = click.option(
    "--json", type=FILE, metavar="OUT",
    help="Write the result as JSON (tantamount-report/1); - is stdout, without the text.",
)  # fmt: skip
STRICT = click.option(
    "--strict", is_flag=True, help="Refuse every assumption that the job names: no PROVED rests on one."
)
VERBOSE = click.option(
    "-v", "--verbose", is_flag=True, help="Add the relation per operator, all places, and statistics."
)
ALLOW_OUTSIDE = click.option(
    "--allow-outside", is_flag=True, help="Let a job name graphs outside its own folder. Only for jobs you trust."
)
OPERATORS = click.option(
    "--operators", type=FILE, multiple=True, metavar="FILE",
    help="Run a Python file that declares operators. Only for files you trust.",
)  # fmt: skip
EFFORT = click.option(
    "--effort", default="normal", metavar="LEVEL", help="How far searches go: low, normal, high, or N times normal."
)
RULES = click.option(
    "--rules", type=FILE, multiple=True, metavar="FILE",
    help="Rules to use where there is no proof without: TOML, or a Python file, which is run.",
)  # fmt: skip
ACCEPT_TESTED = click.option(
    "--accept-tested", is_flag=True, help="Let the verdict rest on rules that are only tested."
)
ACCEPT = click.option(
    "--accept", multiple=True, metavar="NAME", help="Accept a declared approximation: without, exit code 3."
)
TIMEOUT = click.option(
    "--timeout", type=float, metavar="S", help="What is not proved of a job after S seconds is UNKNOWN."
)
MEMORY = click.option(
    "--memory", type=int, metavar="MB", help="The same when its process holds more than MB megabytes."
)
RAY = click.option("--ray", metavar="ADDRESS", help="Run on a Ray cluster: HOST:PORT, auto, or local.")
