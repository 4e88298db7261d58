"""``tantamount compare``: two programs, or the two of a job, in this process."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from os.path import isfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tantamount.errors import UserError

if TYPE_CHECKING:
    from tantamount.answers import Answer

__all__ = ["Request", "compared", "swept"]


@dataclass(frozen=True)
class Request:
    """The comparison that the command line asks for: one job, or two programs with relations as ``NAME=RELATION``."""

    first: str
    second: str | None
    inputs: Sequence[str] = ()
    outputs: Sequence[str] = ()
    allow_outside: bool = False
    given: Sequence[Path] = ()  # files of relations
    save: Path | None = None
    rules: Path | None = None  # where the rules that a proof lacks are written to


def swept(request: Request, sweeps: Sequence[str]) -> Iterator[tuple[str, Request]]:
    """A request for every combination of the values of ``KEY=VALUE,VALUE,...``, with what was chosen: both names get
    the key, or the one that ``a.KEY`` and ``b.KEY`` say. Raises :class:`UserError` for names that take no keys."""
    from tantamount.capture import require_torch

    require_torch()
    from tantamount.capture.torch.recipes import RECIPES, settings_of

    names = [request.first, request.second or ""]
    for name in names:
        if ":" not in name:  # the weights of a file may be in others, of which a kept verdict knows nothing
            raise UserError(
                "command-line", place="--sweep", found=name or "a job", needed=f"models by name: {', '.join(RECIPES)}",
                hint="their configurations have keys: hf:llama,hidden_size=64",
            )  # fmt: skip
    choices: list[list[tuple[str, str]]] = []
    for sweep in sweeps:
        key, equals, values = sweep.partition("=")
        if not equals or not key or not values:
            raise UserError("command-line", place="--sweep", found=sweep, needed="KEY=VALUE,VALUE,...")
        choices.append([(key, value) for value in settings_of(values)])
    with_keys = [name for name in RECIPES if name != "jax"]
    for chosen in product(*choices):
        sides = list(names)
        for key, value in chosen:
            only, own = key[:1] if key[:2] in ("a.", "b.") else "ab", key[2:] if key[:2] in ("a.", "b.") else key
            for k in ("ab".index(side) for side in only):
                if names[k].partition(":")[0] not in with_keys:
                    raise UserError(
                        "command-line", place="--sweep", found=f"{key} of {names[k] or 'a job'}",
                        needed=f"models by names that have keys: {', '.join(with_keys)}",
                        hint="a.KEY and b.KEY are of one of them: --sweep b.hidden_size=64,128",
                    )  # fmt: skip
                sides[k] += f",{own}={value}"
        label = ", ".join(f"{key}={value}" for key, value in chosen)
        yield label, replace(request, first=sides[0], second=sides[1])


def compared(request: Request, **options: Any) -> Answer:
    """The answer. ``options`` are those of :func:`tantamount.compare`. Raises :class:`UserError`."""
    from tantamount.answers import compare
    from tantamount.capture import require_torch
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
        if request.inputs or request.outputs or request.save or request.given:
            raise UserError(
                "job-arguments", place="compare", found="relations beside a job", needed="a job alone: it has its own"
            )
        job = read_job(request.first, allow_outside=request.allow_outside)
        return compare(job, save_rules=request.rules, **options)
    relations: Any = relations_of(request.inputs, "--input")
    if request.given:
        if relations:
            raise UserError(
                "command-line", place="--relations", found="--input beside it", needed="relations in the file alone"
            )
        relations = request.given
    options |= {"save_relations": request.save, "save_rules": request.rules}
    outputs = relations_of(request.outputs, "--output")
    names = request.first, request.second
    models = [":" in name and not isfile(name) for name in names]  # a configuration may be longer than a path
    if not any(models):
        first, second = (read_graph(name) for name in names)
        return compare(first, second, relations=relations, outputs=outputs, **options)
    require_torch()
    sys.path.insert(0, "")
    from tantamount.capture.torch.recipes import built, checkpoint_of_both

    if not all(models):
        model = built(names[0] if models[0] else names[1])
        given = [
            model.model if is_model else read_graph(name, weights=True)
            for name, is_model in zip(names, models, strict=True)
        ]
        return compare(*given, inputs=model.inputs, relations=relations, outputs=outputs, **options)
    one, other = built(names[0]), built(names[1])
    stated = one.stated or other.stated
    return compare(
        one.model,
        other.model,
        inputs=[one.inputs, other.inputs],
        loaders=(one.load, other.load) if stated else None,
        checkpoint=checkpoint_of_both(one, other),
        relations=relations,
        outputs=outputs,
        **options,
    )
