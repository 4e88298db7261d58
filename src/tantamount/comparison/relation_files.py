"""Relations as a file: what was found is saved, edited and given again.

``[checkpoint]`` has the shapes of a checkpoint's tensors, ``[first]`` and ``[second]`` say what the parameters of the
two models are made of them: an expression, or one with ``times`` and ``plus``. A file of programs without loaders has
``[inputs]`` and ``[outputs]`` as a job has them. Nothing of a file is executed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from math import prod
from pathlib import Path
from typing import Any, cast

import numpy as np

from tantamount.capture.documents import parse_toml
from tantamount.capture.fields import Place, nearest, shown
from tantamount.capture.files import read_text
from tantamount.correspond.index_maps import numbered, shape_of
from tantamount.correspond.lifting import LEAST, Sample, lifted
from tantamount.correspond.numbering import Source, parameter_of_rest
from tantamount.errors import UserError
from tantamount.ir.relation import (
    Arranged,
    Concat,
    Expression,
    Permute,
    RankTensor,
    Reshape,
    Slice,
    Sum,
    rank_tensors,
    unresolved,
)  # fmt: skip
from tantamount.ir.relation_text import parse_relation
from tantamount.ir.relation_types import RelationProblem, resolve
from tantamount.ir.types import DType, Shape, TensorType
from tantamount.limits import Limits, limits_from_environment
from tantamount.ops.relations import evaluate
from tantamount.semantics.reference import Reference
from tantamount.writing import write_file

__all__ = [
    "FORMAT",
    "GivenRelations",
    "document_of_inputs",
    "document_of_sources",
    "lifted_relations",
    "read_relations",
    "rests",
    "save_relations",
]

FORMAT = "relations/1"
_TABLES = ("format", "checkpoint", "first", "second", "inputs", "outputs")
Sides = tuple[Mapping[str, Shape], Mapping[str, Shape]]
"""The shapes of the parameters of both models, by name."""

_HEAD = "# Read by `tantamount compare --relations`: edit what is wrong.\n"


@dataclass(frozen=True)
class GivenRelations:
    """The content of a file. ``first`` and ``second``: sources of parameters in tensors of a checkpoint, whose shapes
    are ``checkpoint``; ``inputs`` and ``outputs`` as a job has them; ``notes`` on what was read into it."""

    path: str
    checkpoint: Mapping[str, Shape] = field(default_factory=dict[str, Shape])
    first: Mapping[str, Source] = field(default_factory=dict[str, Source])
    second: Mapping[str, Source] = field(default_factory=dict[str, Source])
    inputs: Mapping[str, Any] = field(default_factory=dict[str, Any])
    outputs: Mapping[str, Any] = field(default_factory=dict[str, Any])
    notes: tuple[str, ...] = ()

    @property
    def of_models(self) -> bool:
        """True if the file is about parameters of models and a checkpoint."""
        return bool(self.checkpoint)


def lifted_relations(given: Sequence[GivenRelations], shapes: Mapping[str, Shape], *, sides: Sides) -> GivenRelations:
    """The relations of the models at hand, lifted from files for at least three smaller sizes: ``shapes`` are those of
    the checkpoint's tensors, ``sides`` those of the parameters of both. Raises :class:`UserError` where the files do
    not agree on one formula."""
    sources: list[dict[str, Source]] = []
    for side, parameters in zip(("first", "second"), sides, strict=True):
        found: dict[str, Source] = {}
        several = [one.first if side == "first" else one.second for one in given]
        for name in several[0]:
            place = f"{given[0].path}: [{side}] {name}"
            ways = [one[name] for one in several if name in one]
            kinds = {(way.factor, way.shift) for way in ways}
            samples = [
                Sample(way.expression, shape_of(way.expression, one.checkpoint), one.checkpoint)
                for way, one in zip(ways, given, strict=False)
                if way.expression is not None
            ]
            alike = len(samples) == len(given) and len(kinds) == 1 and name in parameters
            expression = lifted(samples, parameters[name], shapes) if alike else None
            if expression is None or shape_of(expression, shapes) != parameters[name]:
                seen = ", ".join(str(way.expression) for way in ways)
                raise UserError(
                    "compare-relations", place=place,
                    found=seen if name in parameters else "no parameter of that name",
                    needed=f"one formula at {LEAST} sizes or more, which gives the parameter's shape",
                    hint="save the relations at sizes that keep the proportions of the model, and change all of them",
                )  # fmt: skip
            factor, shift = kinds.pop()
            found[name] = Source(expression, factor, shift)
        sources.append(found)
    path = ", ".join(one.path for one in given)
    notes = tuple(dict.fromkeys(note for one in given for note in one.notes))
    return GivenRelations(path, dict(shapes), sources[0], sources[1], notes=notes)


def rests(given: GivenRelations, sides: Sides) -> dict[str, Shape]:
    """The shapes of the tensors that hold what nothing is loaded into: those of the parameters that they are in."""
    found: dict[str, Shape] = {}
    for sources, parameters in zip((given.first, given.second), sides, strict=True):
        for parameter, source in sources.items():
            names = () if source.expression is None else rank_tensors(source.expression)
            of_it = [tensor.name for tensor in names if parameter_of_rest(tensor.name or "") == parameter]
            found |= {name: parameters[parameter] for name in of_it if name and parameter in parameters}
    return found


# ------------------------------------------------------------------------------------------------ writing
def document_of_sources(
    shapes: Mapping[str, Shape], first: Mapping[str, Source], second: Mapping[str, Source]
) -> dict[str, Any]:
    """The document of two models' sources. Parameters whose values are no multiples of single elements are left out:
    nothing but a loader says what they are."""
    return {
        "format": FORMAT,
        "checkpoint": {name: list(shape) for name, shape in shapes.items()},
        "first": _sources(first),
        "second": _sources(second),
    }


def document_of_inputs(inputs: Mapping[str, Any], outputs: Mapping[str, Any]) -> dict[str, Any]:
    """The document of the relations of two programs, as a job has them."""
    return {"format": FORMAT, "inputs": dict(inputs), "outputs": dict(outputs)}


def _sources(found: Mapping[str, Source]) -> dict[str, Any]:
    written: dict[str, Any] = {}
    for name, source in found.items():
        if source.expression is None:
            continue
        text = str(source.expression)
        if source.exact:
            written[name] = text
            continue
        written[name] = {"relation": text, "times": str(source.factor), "plus": str(source.shift)}
    return written


def save_relations(path: Path, document: Mapping[str, Any]) -> None:
    """Write a file of relations. Raises :class:`UserError` where it cannot be written."""
    lines = [_HEAD]
    for key, value in document.items():
        if not isinstance(value, Mapping):
            lines.append(f"{key} = {_value(value)}\n")
            continue
        table = cast("Mapping[str, Any]", value)
        lines.append(f"\n[{key}]\n")
        lines.extend(f"{json.dumps(name)} = {_value(item)}\n" for name, item in table.items())
    write_file(path, "".join(lines))


def _value(value: object) -> str:
    """A value as TOML, in one line."""
    if isinstance(value, str):
        plain = "'" not in value and value.isprintable()
        return f"'{value}'" if plain else json.dumps(value)
    if isinstance(value, Mapping):
        table = cast("Mapping[str, Any]", value)
        return "{ " + ", ".join(f"{json.dumps(key)} = {_value(item)}" for key, item in table.items()) + " }"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(_value(item) for item in cast("list[Any]", value)) + "]"
    return json.dumps(value)


# ------------------------------------------------------------------------------------------------ reading
def read_relations(path: Path, limits: Limits | None = None) -> GivenRelations:
    """The content of a file of relations. Raises :class:`UserError` for files of another format, unknown tables, and
    expressions that do not fit the checkpoint."""
    limits = limits or limits_from_environment()
    top = Place("job", str(path), limits)
    table = top.table(parse_toml(read_text(path, limits), top))
    if table.get("format") != FORMAT:
        raise top.at("format").wrong(
            shown(table.get("format")), f'"{FORMAT}"', hint="--save-relations writes such a file"
        )
    for key in table:
        if key not in _TABLES:
            raise top.wrong(shown(key), f"one of {', '.join(_TABLES)}", hint=nearest(key, _TABLES))
    shapes: dict[str, Shape] = {}
    for name, shape in top.at("checkpoint").table(table.get("checkpoint", {})).items():
        place = top.at("checkpoint").at(name)
        sizes = place.list(shape, "a list of sizes")
        if not all(isinstance(n, int) and not isinstance(n, bool) and n >= 0 for n in sizes):
            raise place.wrong(shown(shape), "a list of sizes, such as [8, 4]")
        shapes[name] = tuple(cast("list[int]", sizes))
    sides = [
        {
            name: _source(value, top.at(side).at(name), shapes)
            for name, value in top.at(side).table(table.get(side, {})).items()
        }
        for side in ("first", "second")
    ]
    inputs, outputs = (top.at(key).table(table.get(key, {})) for key in ("inputs", "outputs"))
    if not shapes and (sides[0] or sides[1] or not inputs):
        raise top.wrong("no [checkpoint]" if sides[0] or sides[1] else "nothing", "[checkpoint], or [inputs]")
    return GivenRelations(str(path), shapes, sides[0], sides[1], inputs, outputs)


def _source(value: object, place: Place, shapes: Mapping[str, Shape]) -> Source:
    factor, shift = Fraction(1), Fraction(0)
    text: object = value
    if isinstance(value, dict):
        table = cast("dict[str, object]", value)
        for key in table:
            if key not in ("relation", "times", "plus"):
                raise place.wrong(shown(key), "relation, times or plus")
        text = table.get("relation")
        factor, shift = (
            _number(table.get("times", 1), place.at("times")),
            _number(table.get("plus", 0), place.at("plus")),
        )
    written = place.string(
        text, "an expression, such as 'rank(0, \"w\")[0:4]', or a table with relation, times and plus"
    )
    parsed = parse_relation(written, place.text, place.limits)
    if not isinstance(parsed, (RankTensor, Slice, Concat, Sum, Permute, Reshape, Arranged)):
        raise place.wrong(shown(written), "an expression: one program has no placements")

    def tensor(named: RankTensor) -> tuple[RankTensor, TensorType]:
        if named.rank != 0 or named.name is None or named.name not in shapes:
            raise place.wrong(
                str(named),
                "rank(0, NAME) with the name of a tensor of the checkpoint",
                hint=nearest(named.name or "", shapes),
            )
        return named, TensorType(shapes[named.name], DType.FLOAT32)

    try:
        expression, _ = resolve(parsed, tensor)
    except RelationProblem as problem:
        raise place.wrong(str(problem), "an expression that fits the shapes of the checkpoint") from None
    expression = _plain(expression, place, shapes)
    return Source(expression, factor, shift, sources=_numbers(expression, shapes, place.limits))


def _number(value: object, place: Place) -> Fraction:
    if isinstance(value, (int, str)) and not isinstance(value, bool) and len(str(value)) < 400:
        try:
            return Fraction(value)
        except (ValueError, ZeroDivisionError):
            pass
    raise place.wrong(shown(value), 'a whole number, or a fraction as a text: "1/8"')


def _plain(expression: Expression, place: Place, shapes: Mapping[str, Shape]) -> Expression:
    """The expression; sums are refused."""
    if isinstance(expression, RankTensor):
        return expression
    if isinstance(expression, Sum):
        raise place.wrong(
            str(expression), "one element of the checkpoint behind every element", hint="a loader may add"
        )
    if isinstance(expression, Concat):
        return Concat(tuple(_plain(part, place, shapes) for part in expression.parts), expression.dim)
    inner = _plain(expression.operand, place, shapes)
    if isinstance(expression, Slice):
        return Slice(inner, expression.bounds)
    if isinstance(expression, Permute):
        return Permute(inner, expression.dims)
    if isinstance(expression, Reshape):
        return Reshape(inner, expression.shape)
    raise unresolved(expression)


def _numbers(expression: Expression, shapes: Mapping[str, Shape], limits: Limits) -> Any:
    """The number of the checkpoint's element behind each element; ``None`` of checkpoints that are too large."""
    if sum(map(prod, shapes.values())) > limits.constant_elements:
        return None
    used = {tensor.name for tensor in rank_tensors(expression)}
    values = {
        whole.name: np.arange(whole.start, whole.stop, dtype=np.int64).reshape(whole.shape)
        for whole in numbered(shapes)
        if whole.name in used
    }
    return evaluate(Reference(), expression, lambda _, name: values[name], "")
