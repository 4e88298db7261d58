"""Two models with loaders as a pair of programs on one checkpoint: no relation of weights is written or guessed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, cast

import numpy as np

from tantamount.capture.fields import nearest
from tantamount.capture.programs import Program
from tantamount.comparison.inlined import Loading
from tantamount.comparison.programs import Pair, pair_of
from tantamount.comparison.prologue import from_checkpoint
from tantamount.comparison.relation_files import GivenRelations, document_of_sources
from tantamount.correspond.index_maps import Whole, expression_of, numbered, shape_of
from tantamount.correspond.numbering import RUNS, Source, loads, sources_of
from tantamount.errors import UserError
from tantamount.ir.relation import Expression
from tantamount.ir.types import Shape
from tantamount.semantics.reference import Array
from tantamount.verdict import Assumption, Relation

__all__ = ["Side", "call_of", "each_inputs", "models_as_given", "models_of", "pair_of_models"]


@dataclass(frozen=True)
class Side:
    """A captured model. ``sources``: where a checkpoint's tensors go, by parameter; ``state`` are the names of its
    parameters and buffers (``buffers``), and all other inputs of the program are arguments, in order. ``loading``: the
    captured loader, where it does more to some parameters than to move and scale elements."""

    name: str
    program: Program
    sources: Mapping[str, Source]
    state: frozenset[str]
    buffers: frozenset[str]
    loading: Loading | None = None

    def arguments(self) -> list[str]:
        """The names of the arguments that are tensors, in order."""
        return [node.name for node in self.program.graph.inputs if node.name not in self.state]

    def unloaded(self) -> dict[str, Shape]:
        """The shapes of the tensors that parameters have elements of which nothing is loaded into, by name."""
        found = {source.rest: source.sources for source in self.sources.values() if source.rest}
        return {name: numbers.shape for name, numbers in found.items() if numbers is not None}


def pair_of_models(
    first: Side,
    second: Side,
    shapes: Mapping[str, Shape],
    *,
    relations: Mapping[str, Any] | None = None,
    outputs: Mapping[str, Any] | None = None,
    given_by: str = "",
) -> Pair:
    """The job that both programs compute the same of one checkpoint, whose tensors have these shapes, and of the same
    arguments, the k-th of the one being the k-th of the other. ``given_by``: the file that has the sources, if no
    loader was run. Raises :class:`UserError`."""
    arguments = first.arguments(), second.arguments()
    if len(arguments[0]) != len(arguments[1]):
        raise UserError(
            "compare-arguments", place="compare",
            found=f"arguments {', '.join(arguments[0]) or 'none'} and {', '.join(arguments[1]) or 'none'}",
            needed="as many tensors among the arguments of the one as of the other",
            hint="wrap one of the models in a module that takes what the other takes",
        )  # fmt: skip
    shapes = {**shapes, **first.unloaded(), **second.unloaded()}
    dtypes = dict.fromkeys(shapes, "float32")
    programs: list[Program] = []
    used: list[dict[str, str]] = []
    for side in (first, second):
        kept = {name: source for name, source in side.sources.items() if source.expression is not None}
        program, inputs = from_checkpoint(side.program, kept, shapes, dtypes, side.loading)
        programs.append(program)
        used.append(inputs)
    given: dict[str, Any] = {
        name: {"relation": f"rank(0, {_quoted(used[1][tensor])})"}
        for tensor, name in used[0].items()
        if tensor in used[1]
    }
    given |= {x: {"relation": f"rank(0, {_quoted(y)})"} for x, y in zip(*arguments, strict=True)}
    pair = pair_of(*programs, inputs={**given, **(relations or {})}, outputs=outputs, guess=False)
    notes = [note for side in (first, second) for note in _problems(side)]
    weights = _weights(first, second)
    document = document_of_sources(shapes, first.sources, second.sources)
    known = f"parameters of the first program that are made of those of the second: {len(weights)} (-v shows how)"
    text = (
        f"the loaders do to every checkpoint what they did to {RUNS} of numbers, where every element of a parameter "
        "was found to be the same multiple of the same element, exactly"
    )
    if given_by:
        notes = [f"what parameters are made of is what {given_by} says: no loader was run", *notes]
    return replace(
        pair,
        notes=(*([known] if weights else []), *notes),
        weights=weights,
        assumptions=() if given_by else (Assumption("loaders", text),),
        document=document,
        tensors=(used[0], used[1]),
    )


def _problems(side: Side) -> list[str]:
    """Sentences about what the loader of a side does not determine."""
    wanted = {node.name for node in side.program.graph.inputs}
    out: list[str] = []
    for name, source in side.sources.items():
        if source.rest and name in wanted:
            out.append(f"{source.rest}, of the {side.name} program, may be anything: {source.problem}")
        if source.expression is not None or name not in wanted or (name in side.buffers and source.absent):
            continue
        if side.loading is not None and side.loading.computes(name):
            out.append(f"{name} of the {side.name} program is what its captured loader computes: {source.problem}")
            continue
        out.append(f"{name} of the {side.name} program may be anything: {source.problem}")
    return out


def _weights(first: Side, second: Side) -> tuple[Relation, ...]:
    """Every parameter of the first program as an expression of those of the second, times a number and plus one, where
    both come from the checkpoint: from parameters that hold it as the first does, if there are any."""
    own = {node.name for node in second.program.graph.inputs}
    held = {name: source for name, source in second.sources.items() if source.sources is not None and name in own}
    wholes = numbered({name: s.sources.shape for name, s in held.items() if s.sources is not None})
    alike: dict[tuple[Fraction, Fraction], list[Whole]] = {}
    for whole in wholes:
        alike.setdefault((held[whole.name].factor, held[whole.name].shift), []).append(whole)
    last = max(map(_highest, (*first.sources.values(), *held.values())), default=0)
    places = {way: _places(found, held, last) for way, found in alike.items()}
    out: list[Relation] = []
    for node in first.program.graph.inputs:
        source = first.sources.get(node.name)
        if source is None or source.expression is None:
            continue
        same = [way for way in alike if way == (source.factor, source.shift)]
        for way in (*same, *(way for way in alike if way not in same)):
            expression = _composed(source, alike[way], places[way])
            if expression is not None:
                factor = source.factor / way[0]
                shift = source.shift - factor * way[1]
                text = str(expression) + (f" * {factor}" if factor != 1 else "")
                out.append(Relation(node.name, text + (f" + {shift}" if shift else ""), ""))
                break
    return tuple(out)


def _places(wholes: Sequence[Whole], held: Mapping[str, Source], last: int) -> Array:
    """The first place at which some parameters hold each element of the checkpoint, up to number ``last``; -1 for
    those that they hold nowhere."""
    places = np.full(last + 1, -1)
    for whole in reversed(wholes):
        numbers = held[whole.name].sources
        if numbers is not None:
            loaded = numbers.reshape(-1) >= 0
            places[numbers.reshape(-1)[loaded]] = np.arange(whole.start, whole.stop)[loaded]
    return places


def _composed(source: Source, wholes: Sequence[Whole], places: Array) -> Expression | None:
    """The elements of the checkpoint behind a parameter as an expression of other parameters that hold them."""
    if source.sources is None or not source.sources.size:
        return None
    mapped = np.where(source.sources < 0, -1, places[source.sources])
    return expression_of(mapped, wholes) if (mapped >= 0).all() else None


def _highest(source: Source) -> int:
    return 0 if source.sources is None or not source.sources.size else int(source.sources.max())


def _quoted(name: str) -> str:
    return '"' + name.replace("\\", "\\\\").replace('"', '\\"') + '"'


def models_of(
    models: Sequence[Any], inputs: Any, loaders: Sequence[Any], checkpoint: Mapping[str, Sequence[int]] | None
) -> tuple[Side, Side, dict[str, Shape]]:
    """Two PyTorch models, captured on the same example inputs (a tuple of arguments, or a dict of keywords; or a pair
    of such, in a list), with their loaders, and the shapes of the checkpoint: those given, or those of the state dict
    of the model that has no loader of its own. Raises :class:`UserError`."""
    from tantamount.capture.torch.models import (
        captured,
        is_foreign,
        loader_of,
        loading_of,
        state_names,
        state_shapes,
        with_tables,
    )

    shapes: dict[str, Shape] = {name: tuple(shape) for name, shape in (checkpoint or {}).items()}
    if not shapes:
        plain = [model for model, load in zip(models, loaders, strict=True) if load is None]
        if not plain:
            raise UserError(
                "compare-checkpoint", place="compare", found="two loaders, and no checkpoint",
                needed="the names and shapes of the checkpoint's tensors: checkpoint={name: shape}",
            )  # fmt: skip
        shapes = state_shapes(plain[0])
    each = each_inputs(inputs)
    sides: list[Side] = []
    for name, model, load, given in zip(("first", "second"), models, loaders, each, strict=True):
        parameters, buffers = state_names(model)
        taken = [source.rest for side in sides for source in side.sources.values()]
        sources = sources_of(loads(loader_of(model, load, name), shapes), taken)
        absent = frozenset(name for name, source in sources.items() if source.absent)
        program = with_tables(captured(model, *call_of(given)), model, buffers & absent)
        wanted = {node.name for node in program.graph.inputs}
        mixed = any(s.expression is None and not s.absent for n, s in sources.items() if n in wanted)
        loading = Loading(*loading_of(model, load, shapes)) if mixed and not is_foreign(model) else None
        sides.append(Side(name, program, sources, parameters | buffers, buffers, loading))
    return sides[0], sides[1], shapes


def models_as_given(models: Sequence[Any], inputs: Any, given: GivenRelations) -> tuple[Side, Side, dict[str, Shape]]:
    """Two PyTorch models, captured on the same example inputs, with their parameters made of a checkpoint as a file
    says. Raises :class:`UserError` for parameters that the models do not have, and shapes that are not theirs."""
    from tantamount.capture.torch.models import captured, state_names, with_tables

    sides: list[Side] = []
    for name, model, sources, one in zip(
        ("first", "second"), models, (given.first, given.second), each_inputs(inputs), strict=True
    ):
        parameters, buffers = state_names(model)
        program = with_tables(captured(model, *call_of(one)), model, buffers - sources.keys())
        shapes = {node.name: node.type.shape for node in program.graph.inputs if node.type is not None}
        for parameter, source in sources.items():
            place = f"{given.path}: [{name}] {parameter}"
            if parameter not in parameters | buffers:
                raise UserError(
                    "compare-relations",
                    place=place,
                    found="no parameter of that name",
                    needed="a parameter of the model",
                    hint=nearest(parameter, parameters),
                )
            shape = None if source.expression is None else shape_of(source.expression, given.checkpoint)
            if parameter in shapes and shape != shapes[parameter]:
                raise UserError(
                    "compare-relations", place=place, found=f"{source.expression} of shape {list(shape or ())}",
                    needed=f"the parameter's shape, {list(shapes[parameter])}",
                )  # fmt: skip
        missing = {
            parameter: Source(None, problem=f"{given.path} does not say what it is", absent=parameter in buffers)
            for parameter in parameters | buffers
            if parameter not in sources
        }
        sides.append(Side(name, program, {**sources, **missing}, parameters | buffers, buffers))
    return sides[0], sides[1], dict(given.checkpoint)


def each_inputs(inputs: Any) -> list[Any]:
    """Example inputs for both programs: the same, or those of a list of two."""
    pair = cast("list[Any]", inputs) if isinstance(inputs, list) else []
    return pair if len(pair) == 2 else [inputs, inputs]


def call_of(given: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Positional and keyword arguments."""
    if isinstance(given, Mapping):
        return (), dict(cast("Mapping[str, Any]", given))
    return tuple(cast("Sequence[Any]", given or ())), {}
