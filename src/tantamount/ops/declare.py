"""Declaring operators in Python, with the same power as a job's [ops] table, and more: a definition is a function.

These functions put the operator into the table of this process, for every job that it reads from then on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tantamount.errors import TantamountError, UserError
from tantamount.ir.graph import ANY_ARGUMENTS, CustomOperator
from tantamount.ops.custom import custom_operator
from tantamount.ops.hidden import refuse_hidden
from tantamount.ops.table import Operator, insert, table

__all__ = ["DECLARED", "definition", "load_operators", "opaque", "operator"]

DECLARED = "declared"  # the category of these operators


def opaque(
    name: str,
    labels: str,
    *,
    args: str = ANY_ARGUMENTS,
    mutates: Sequence[str] = (),
    ignores: Sequence[str] = (),
    dtypes: Sequence[str] = (),
) -> None:
    """Declare an operator by the labels of its dimensions (:mod:`tantamount.ops.labels`), whatever it computes.

    ``args``: its parameters in Python's notation. ``mutates``: those that it overwrites; their new values are its last
    results. ``ignores``: those that do not change what it computes; every other argument that is no tensor is part of
    the function's identity. ``dtypes``: element types of the results that it returns, by name or as that of a parameter
    (default: that of the first operand). Raises :class:`UserError` for a known name or a wrong declaration."""
    _declare(CustomOperator(name, args, "", labels, tuple(mutates), tuple(ignores), tuple(dtypes)))


def definition(name: str, args: str, is_: str, *, mutates: Sequence[str] = ()) -> None:
    """Declare an operator by an expression in known ones (:mod:`tantamount.ops.expressions`). The new values of
    ``mutates`` are its last results. Raises :class:`UserError` for a known name or a wrong declaration."""
    _declare(CustomOperator(name, args, is_, mutates=tuple(mutates)))


def operator(*names: str, mutates: Sequence[str] = ()) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """A decorator: declare an operator by a Python function over a :class:`~tantamount.ops.builder.Builder`, as the
    definitions of the table are written. Raises :class:`UserError` for a known name."""

    def register(define: Callable[..., Any]) -> Callable[..., Any]:
        for name in names:
            _check_new(name)
        text = f"{names[0]} is what its definition {define.__module__}.{define.__qualname__} says"
        insert(Operator(names, DECLARED, define, tuple(mutates), (text,)))
        return define

    return register


def _declare(declared: CustomOperator) -> None:
    _check_new(declared.name)
    insert(custom_operator(declared, DECLARED))


def _check_new(name: str) -> None:
    refuse_hidden(name, f"operator {name}")
    if name in table():
        raise UserError(
            "operator-known", place=f"operator {name}", found="a second definition", needed="a name of its own",
            hint=f"`tantamount ops {name}` shows the definition that there is",
        )  # fmt: skip


def load_operators(path: str | Path) -> None:
    """Run a Python file that declares operators. It is run as any program is: only for files that you trust.

    Raises :class:`UserError` if it cannot be read or fails."""
    from runpy import run_path

    try:
        run_path(str(path), run_name="__tantamount_operators__")
    except TantamountError:
        raise
    except (Exception, SystemExit) as problem:
        raise UserError(
            "operators-file", place=str(path), found=f"{type(problem).__name__}: {problem}",
            needed="a Python file that runs and declares operators",
        ) from problem  # fmt: skip
