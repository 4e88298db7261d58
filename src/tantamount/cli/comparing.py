"""``tantamount compare``: two programs, or the two of a job, in this process."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tantamount.errors import UserError

if TYPE_CHECKING:
    from tantamount.answers import Answer

__all__ = ["Request", "compared"]


@dataclass(frozen=True)
class Request:
    """What the command line asks for: one job, or two programs with relations as ``NAME=RELATION``."""

    first: str
    second: str | None
    inputs: Sequence[str] = ()
    outputs: Sequence[str] = ()
    allow_outside: bool = False
    save: Path | None = None


def compared(request: Request, **options: Any) -> Answer:
    """The answer. ``options`` are those of :func:`tantamount.compare`. Raises :class:`UserError`."""
    from tantamount.answers import compare
    from tantamount.capture.job import read_job
    from tantamount.capture.readers import read_graph
    from tantamount.cli.capturing import relations_of

    if request.second is None:
        if not request.first.endswith(".toml"):
            raise UserError(
                "command-line",
                place="compare",
                found=f"one program, {request.first}",
                needed="two programs, or a job (.toml)",
            )
        if request.inputs or request.outputs or request.save:
            raise UserError(
                "job-arguments", place="compare", found="relations beside a job", needed="a job alone: it has its own"
            )
        return compare(read_job(request.first, allow_outside=request.allow_outside), **options)
    relations = relations_of(request.inputs, "--input")
    outputs = relations_of(request.outputs, "--output")
    names = request.first, request.second
    models = [":" in name and not Path(name).exists() for name in names]
    if not any(models):
        first, second = (read_graph(name) for name in names)
        return compare(first, second, relations=relations, outputs=outputs, **options)
    sys.path.insert(0, "")
    from tantamount.capture.torch.recipes import built

    if not all(models):
        model = built(names[0] if models[0] else names[1])
        given = [model.model if is_model else read_graph(name) for name, is_model in zip(names, models, strict=True)]
        return compare(*given, inputs=model.inputs, relations=relations, outputs=outputs, **options)
    one, other = built(names[0]), built(names[1])
    stated = one.stated or other.stated
    shapes = one.checkpoint or other.checkpoint
    return compare(
        one.model,
        other.model,
        inputs=[one.inputs, other.inputs],
        loaders=(one.load, other.load) if stated else None,
        checkpoint=shapes,
        relations=relations,
        outputs=outputs,
        **options,
    )
