"""``tantamount capture``: programs that Python functions build, as graphs and a job. It runs the user's code."""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, cast

from tantamount.capture import programs
from tantamount.capture.programs import Program, Ranks
from tantamount.capture.readers import EXPORTED
from tantamount.errors import TantamountError, UserError
from tantamount.writing import make_folder

__all__ = ["capture_to", "relations_of"]


def capture_to(
    folder: Path,
    specification: str,
    implementation: str | None,
    world_size: int | None,
    mesh: Sequence[str],
    inputs: Sequence[str],
    outputs: Sequence[str],
) -> tuple[str, ...]:
    """Capture and write; the lines that say what was written.

    ``specification`` and ``implementation`` are ``module:function``: a function that returns ``(function, args)`` or
    ``(function, args, options)``, of no argument, or of the rank where a world size is given. Of one device, it may
    also return what PyTorch captured, and the name of a saved program (``.pt2``) may stand for it. Raises
    :class:`UserError` for what the command line or that code has wrong."""
    sys.path.insert(0, "")
    if implementation is None:
        captured = _ranks(specification, world_size, mesh) if world_size else _one(specification)
        return _graphs(folder, captured)
    spec = _one(specification)
    impl = _ranks(implementation, world_size, mesh) if world_size else _one(implementation)
    given, wanted = relations_of(inputs, "--input"), relations_of(outputs, "--output")
    job = programs.save_job(folder, spec, impl, inputs=given, outputs=wanted, partial=True)
    document = programs.job_document(spec, impl, given, wanted, partial=True)
    missing = [node.name for node in spec.graph.inputs if node.name not in document["inputs"]]
    if missing:
        return (
            f"{job}: {len(missing)} inputs without a relation: {', '.join(missing[:8])}",
            f"`tantamount suggest {job}` proposes some",
        )
    return (f"{job}: `tantamount refine {job}`",)


def _one(name: str) -> Program:
    from tantamount.capture import capture  # says so, if there is no PyTorch, before the user's code fails without it

    if name.endswith(EXPORTED.suffixes):
        return capture(name)
    built = _called(name, _function(name))
    if isinstance(built, tuple):
        function, args, *rest = cast("tuple[Any, ...]", built)
        options: dict[str, Any] = dict(rest[0]) if rest else {}
        return capture(function, args, **options)
    return capture(built)  # an exported program, a graph module


def _ranks(name: str, world_size: int, mesh: Sequence[str]) -> Ranks:
    from tantamount import capture_ranks

    sizes = (text.partition("=") for text in mesh)
    axes = {axis: int(size) for axis, _, size in sizes if size.isascii() and size.isdigit() and len(size) < 10}
    if len(axes) != len(mesh):
        raise UserError("command-line", place="--mesh", found=" ".join(mesh), needed="AXIS=SIZE, such as --mesh dp=2")
    return capture_ranks(_function(name), world_size, mesh=axes or None)


def _function(name: str) -> Callable[..., Any]:
    module, _, attribute = name.partition(":")
    if not module or not attribute:
        raise UserError("command-line", place=name, found="no colon", needed="MODULE:FUNCTION, such as train:build")
    try:
        found: Any = import_module(module)
        for part in attribute.split("."):
            found = getattr(found, part)
    except TantamountError:
        raise
    except (Exception, SystemExit) as problem:
        raise UserError(
            "capture-import", place=name, found=f"{type(problem).__name__}: {problem}",
            needed="a Python module that can be imported from here, and a function in it",
            hint="modules are looked for in the current folder first",
        ) from problem  # fmt: skip
    return found


def _called(name: str, function: Callable[..., Any]) -> Any:
    try:
        return function()
    except TantamountError:
        raise
    except (Exception, SystemExit) as problem:
        raise UserError(
            "capture-build", place=f"{name}()", found=f"{type(problem).__name__}: {problem}",
            needed="a function of no argument that returns (function, args)",
            hint="a function of the rank needs --world-size",
        ) from problem  # fmt: skip


def relations_of(given: Sequence[str], option: str) -> Mapping[str, Any]:
    """``NAME=RELATION`` texts; a relation that is a list has one placement per mesh axis, a table is one of a job.
    Raises :class:`UserError`."""
    found: dict[str, Any] = {}
    for text in given:
        name, equals, relation = text.partition("=")
        if not equals:
            raise UserError("command-line", place=option, found=text, needed="NAME=RELATION, such as 'x=Shard(0)'")
        if relation.lstrip().startswith("{"):
            try:
                found[name.strip()] = tomllib.loads(f"relation = {relation}")["relation"]
            except tomllib.TOMLDecodeError as problem:
                raise UserError(
                    "command-line", place=option, found=f"{relation} ({problem})",
                    needed='a table such as { name = "output", placement = "Replicate()" }',
                ) from problem  # fmt: skip
            continue
        parts = [part.strip() for part in relation.strip("[] ").split(";")]
        found[name.strip()] = parts[0] if len(parts) == 1 else parts
    return found


def _graphs(folder: Path, captured: Program | Ranks) -> tuple[str, ...]:
    named = (
        {"spec.json.gz": captured}
        if isinstance(captured, Program)
        else {f"rank{rank}.json.gz": program for rank, program in enumerate(captured.programs)}
    )
    make_folder(folder)
    for name, program in named.items():
        programs.write_document(folder / name, program.document)
    return tuple(str(folder / name) for name in named)
