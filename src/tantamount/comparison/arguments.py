"""The arguments of :func:`tantamount.compare` as a pair of programs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from tantamount.comparison.models import (
    Side,
    call_of,
    each_inputs,
    models_as_given,
    models_of,
    pair_of_models,
)
from tantamount.comparison.more_layers import with_more_layers
from tantamount.comparison.programs import Apart, Pair, pair_of
from tantamount.comparison.recorded_weights import has_weights, pair_with_weights
from tantamount.comparison.relation_files import GivenRelations, lifted_relations, read_relations, rests
from tantamount.comparison.words import problem_of_two
from tantamount.errors import UserError
from tantamount.ir.graph import Graph
from tantamount.ir.job import Job
from tantamount.ir.types import Shape
from tantamount.semantics.survey import index_bounds

__all__ = ["pair_to_compare"]


def pair_to_compare(
    first: object,
    second: object,
    inputs: Sequence[Any] | Mapping[str, Any] | None,
    loaders: Sequence[Any] | None,
    checkpoint: Mapping[str, Sequence[int]] | None,
    relations: Mapping[str, Any] | str | Path | Sequence[str | Path] | None,
    outputs: Mapping[str, Any] | None,
) -> Pair:
    """The arguments of :func:`tantamount.compare` as a pair of programs. Raises :class:`UserError`, in words of two."""
    try:
        return _pair_to_compare(first, second, inputs, loaders, checkpoint, relations, outputs)
    except UserError as problem:
        raise problem_of_two(problem) from problem


def _pair_to_compare(
    first: object,
    second: object,
    inputs: Sequence[Any] | Mapping[str, Any] | None,
    loaders: Sequence[Any] | None,
    checkpoint: Mapping[str, Sequence[int]] | None,
    relations: Mapping[str, Any] | str | Path | Sequence[str | Path] | None,
    outputs: Mapping[str, Any] | None,
) -> Pair:
    if isinstance(first, Job):
        if second is not None or relations or outputs or inputs is not None or loaders is not None:
            raise UserError("job-arguments", place="compare", found="a job with more", needed="compare(job) alone")
        return Pair(first, {})
    models = _is_model(first), _is_model(second)
    if relations is not None and not isinstance(relations, Mapping):
        files = [relations] if isinstance(relations, (str, Path)) else list(relations)
        several = [read_relations(Path(file)) for file in files]
        given = several[0] if len(several) == 1 else _lifted((first, second), models, several, checkpoint)
        if given.of_models:
            return _as_given((first, second), models, inputs, given, outputs)
        wanted = {**given.outputs, **(outputs or {})}
        programs: list[object] = [first, second]
        if inputs is not None and all(models):
            programs = [capture_of(model, one) for model, one in zip(programs, each_inputs(inputs), strict=True)]
        try:
            return _pair_to_compare(programs[0], programs[1], inputs, None, checkpoint, given.inputs, wanted)
        except UserError as problem:
            raise problem.within(given.path) from problem
    if loaders is not None:
        if not all(models) or len(loaders) != 2 or inputs is None:
            raise UserError(
                "compare-programs", place="compare", found="loaders, and not two models with inputs",
                needed="compare(model, model, inputs=(...), loaders=(load, load))",
            )  # fmt: skip
    elif all(models) and inputs is not None and _alike(first, second):
        loaders = (None, None)
    if loaders is not None:
        sides = models_of((first, second), inputs, loaders, checkpoint)
        pair = pair_of_models(*sides, relations=relations, outputs=outputs)
        executed = partial(_distance, (first, second), loaders, each_inputs(inputs), sides, pair)
        return replace(pair, distance=executed)
    recorded = first if isinstance(first, Graph) else second if isinstance(second, Graph) else None
    if recorded is not None and any(models) and has_weights(recorded):
        graph_first = recorded is first
        given = call_of(each_inputs(inputs)[1 if graph_first else 0])
        return pair_with_weights(recorded, second if graph_first else first, given, graph_first, relations, outputs)
    if any(models):
        each = each_inputs(inputs)
        captured = [
            capture_of(program, given) if is_model else program
            for program, is_model, given in zip((first, second), models, each, strict=True)
        ]
        first, second = captured
    return pair_of(first, second, inputs=relations, outputs=outputs)


def _is_model(program: object) -> bool:
    """True for a module of PyTorch, and for a function of JAX with its parameters."""
    return hasattr(program, "state_dict") or hasattr(program, "state_shapes")


def capture_of(model: object, given: Any) -> object:
    """The captured program of a model on its example inputs."""
    from tantamount.capture.torch.models import captured

    return captured(model, *call_of(given))


def _lifted(
    sides: tuple[object, object],
    models: tuple[bool, bool],
    several: Sequence[GivenRelations],
    checkpoint: Mapping[str, Sequence[int]] | None,
) -> GivenRelations:
    """The relations of two models that files of relations at smaller sizes say, of fewer layers, too. The checkpoint's
    shapes are those given, or those of the state dict that has its names."""
    from tantamount.capture.torch.models import parameter_shapes, state_shapes

    if not all(models) or not all(one.of_models for one in several):
        raise UserError(
            "compare-relations", place=several[0].path if several else "relations", found=f"{len(several)} files",
            needed="one file, or files for smaller models of the same kind",
        )  # fmt: skip
    more = next(((one, key) for one in several for key in ("inputs", "outputs") if getattr(one, key)), None)
    if more is not None:
        raise UserError(
            "compare-relations", place=f"{more[0].path}: [{more[1]}]", found="relations for other sizes",
            needed="parameters alone ([checkpoint], [first], [second]) in files that relations are lifted from",
        )  # fmt: skip
    shapes: dict[str, Shape] = {name: tuple(shape) for name, shape in (checkpoint or {}).items()}
    parameters = parameter_shapes(sides[0]), parameter_shapes(sides[1])
    several = [with_more_layers(one, *parameters, tuple(shapes)) for one in several]
    free = rests(several[0], parameters)
    for side in sides:
        own = {**state_shapes(side), **free}
        if not shapes and own.keys() >= several[0].checkpoint.keys():
            shapes = {name: own[name] for name in several[0].checkpoint}
    if not shapes:
        raise UserError(
            "compare-checkpoint", place="compare", found="no model whose state dict the checkpoint is",
            needed="the names and shapes of the checkpoint's tensors: checkpoint={name: shape}",
        )  # fmt: skip
    return lifted_relations(several, shapes, sides=parameters)


def _as_given(
    sides: tuple[object, object],
    models: tuple[bool, bool],
    inputs: Any,
    given: GivenRelations,
    outputs: Mapping[str, Any] | None,
) -> Pair:
    """Two models whose parameters are made of a checkpoint as a file says."""
    if not all(models) or inputs is None:
        raise UserError(
            "compare-programs", place=given.path, found="parameters of models, and not two models with inputs",
            needed="compare(model, model, inputs=(...), relations=FILE)",
            hint="a file for graphs has [inputs]: --save-relations writes one",
        )  # fmt: skip
    made = models_as_given(sides, inputs, given)
    try:
        pair = pair_of_models(
            *made, relations=given.inputs, outputs={**given.outputs, **(outputs or {})}, given_by=given.path
        )
    except UserError as problem:
        raise problem.within(given.path) from problem
    return replace(pair, notes=(*pair.notes, *given.notes))


def _distance(
    models: Sequence[Any],
    loaders: Sequence[Any],
    inputs: Sequence[Any],
    sides: tuple[Side, Side, dict[str, Shape]],
    pair: Pair,
    seed: int,
) -> Apart | None:
    """By how much the outputs differ where both models are executed as they are (see :mod:`capture.torch.running`)."""
    from tantamount.capture.torch.running import distance

    *programs, shapes = sides
    first, _ = programs
    bounds = index_bounds(first.program.graph)
    found = distance(
        models, loaders, [call_of(one) for one in inputs], shapes, [bounds.get(n) for n in first.arguments()], seed
    )
    if found is None:
        return None
    given = [
        {name: found.checkpoint[tensor] for tensor, name in held.items() if tensor in found.checkpoint}
        | dict(zip(side.arguments(), drawn, strict=True))
        for side, held, drawn in zip(programs, pair.tensors, found.arguments, strict=True)
    ]
    return Apart(found.distance, found.largest, found.precision, (given[0], given[1]))


def _alike(first: Any, second: Any) -> bool:
    """True if a state dict of the one is a state dict of the other: then it is a checkpoint that both load. Exported
    programs, which have a state dict, too, load nothing."""
    from tantamount.capture.torch.models import state_shapes

    if hasattr(first, "graph_signature") or hasattr(second, "graph_signature"):
        return False
    return state_shapes(first) == state_shapes(second)
