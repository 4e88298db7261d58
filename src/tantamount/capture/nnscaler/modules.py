"""The contents of a generated module: its rank, its parts of parameters, reducers, segments, adapters, and its step."""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tantamount.capture.files import read_text
from tantamount.capture.nnscaler.constructors import Built, Held, Reducer
from tantamount.capture.nnscaler.forward import step_around
from tantamount.capture.nnscaler.outline import Outline, outline_of
from tantamount.capture.nnscaler.statements import (
    Function,
    constructor,
    functions_in,
    names_in,
    refused,
)
from tantamount.errors import UserError
from tantamount.limits import Limits

__all__ = ["GeneratedModule", "is_generated", "read_folder"]

_FILE = re.compile(r"gencode(\d{1,6})\.py")
_STEP = "_train_step"


@dataclass(frozen=True)
class GeneratedModule:
    """The module of one rank. ``functions`` are the segments, adapters and reducers that its step calls; ``groups``
    the ranks of process groups that it makes; ``arguments`` those of the forward pass of a module without a step of its
    own."""

    path: str
    rank: int
    microbatches: int
    scheduled: bool
    version: str
    groups: tuple[tuple[int, ...], ...]
    held: Mapping[str, Held]
    reducers: Mapping[str, Reducer]
    functions: Mapping[str, Function]
    step: Function
    arguments: tuple[str, ...] = ()


def is_generated(path: Path) -> bool:
    """True for a folder with modules that nnScaler generated, or one of them."""
    if path.is_dir():
        return (path / "gencode0.py").is_file()
    return _FILE.fullmatch(path.name) is not None


def read_folder(folder: Path, limits: Limits) -> tuple[GeneratedModule, ...]:
    """The modules of all ranks, ``gencode0.py`` and so on. Raises :class:`UserError` for ranks that are missing, and
    for anything in a module that is not known to mean what is made of it."""
    folder = folder if folder.is_dir() else folder.parent
    found = {int(match[1]): path for path in folder.iterdir() if (match := _FILE.fullmatch(path.name))}
    missing = next(rank for rank in range(len(found) + 1) if rank not in found)
    limits.check("ranks", len(found), str(folder), "ranks")
    if missing < len(found) or not found:
        raise UserError(
            "plan-nnscaler", place=str(folder), found=f"no gencode{missing}.py", needed="one module for every rank"
        )
    modules = tuple(_module(found[rank], rank, limits) for rank in range(len(found)))
    for rank, module in enumerate(modules):
        if module.rank != rank:
            raise refused(module.path, 1, f"rank = {module.rank}", f"{rank}, which the file is named for")
        if module.microbatches != modules[0].microbatches:
            found_ = f"{module.microbatches} microbatches, {modules[0].microbatches} on rank 0"
            raise refused(module.path, 1, found_, "one number of microbatches for all ranks")
    return modules


def _module(path: Path, rank: int, limits: Limits) -> GeneratedModule:
    text = read_text(path, limits)
    shown = str(path)
    try:
        with warnings.catch_warnings():  # of Python's compiler, about a text that is not ours
            warnings.simplefilter("ignore")
            tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as problem:
        line = getattr(problem, "lineno", None) or 1
        raise refused(shown, line, f"{type(problem).__name__}: {problem}", "Python") from None
    limits.check("nodes", sum(1 for _ in ast.walk(tree)) // 10, shown, "nodes")
    lines = text.splitlines() or [""]
    outline = outline_of(tree, shown)
    begins = outline.methods.get("__init__")
    if begins is None:
        raise refused(shown, outline.line, "no __init__", "a constructor, which says what parameters there are")
    step, arguments = _step_of(outline, shown, lines)
    model = f"{step.parameters[0]}." if step.parameters else "model."
    wanted = {
        name.removeprefix(model) for statement in step.body for name in names_in(statement.value)
        if name.startswith(model)
    }  # fmt: skip
    built = Built(shown, outline.settings)
    for statement in constructor(begins, shown, lines):
        built.take(statement)
    microbatches = outline.fields.get("nmicros_per_scheduler_step", 1)
    if not isinstance(microbatches, int) or not 1 <= microbatches <= 1 << 20:
        raise refused(shown, outline.line, f"nmicros_per_scheduler_step = {microbatches!r}", "a number from 1 on")
    number = outline.fields.get("rank", rank)  # modules of `nnscaler.compile` are named for their rank only
    return GeneratedModule(
        shown, number if type(number) is int else -1, microbatches, bool(outline.fields.get("use_scheduler")),
        str(outline.fields.get("runtime_version", "unknown")), tuple(built.groups), built.held(), built.reducers(),
        functions_in([*outline.methods.values()], shown, lines, wanted, method=True), step, arguments,
    )  # fmt: skip


def _step_of(outline: Outline, path: str, lines: list[str]) -> tuple[Function, tuple[str, ...]]:
    """The step for training, and the arguments of the forward pass that it is made around, if it is not written."""
    found = functions_in([*outline.functions.values()], path, lines, {_STEP}, method=False).get(_STEP)
    if found is not None:
        return found, ()
    if "_forward_impl" not in outline.methods:
        raise refused(path, outline.line, f"no {_STEP}", "a module with a step that trains it, or a forward pass")
    return step_around(outline.methods, path, lines)
