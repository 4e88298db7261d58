"""The [inputs] and [outputs] tables of a job: relations parsed, and fitted to the tensors that they are about."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import cast

from tantamount.capture.fields import Fields, Place, nearest, shown
from tantamount.errors import UserError
from tantamount.ir.graph import Graph
from tantamount.ir.mesh import Mesh
from tantamount.ir.relation import (
    OUTPUT,
    Equality,
    Expectation,
    Expression,
    InputRelation,
    Partial,
    Placement,
    RankTensor,
    Replicate,
    Shard,
    rank_tensors,
)
from tantamount.ir.relation_text import parse_equalities, parse_relation
from tantamount.ir.relation_types import RelationProblem, local_shape, normalise_placements, resolve
from tantamount.ir.types import TensorType
from tantamount.ops.relations import even

__all__ = ["Side", "read_expectation", "read_input"]

_TABLE = ("name", "placement", "relation", "equal")


@dataclass(frozen=True)
class Side:
    """The tensors that relations may name: ``tensors[rank]`` maps the name of an implementation input (or output) to
    its type; ``what`` is ``input`` or ``output``; ``graphs`` for messages; ``unsized`` names, for every rank, the
    tensors whose types data decide."""

    what: str
    tensors: Sequence[Mapping[str, TensorType]]
    graphs: Sequence[Graph]
    mesh: Mesh
    unsized: Sequence[frozenset[str]] = ()

    @cached_property
    def different(self) -> tuple[int, ...]:
        """The first rank of every program that ranks run."""
        first: dict[tuple[int, int], int] = {}
        for rank, (graph, tensors) in enumerate(zip(self.graphs, self.tensors, strict=True)):
            first.setdefault((id(graph), id(tensors)), rank)
        return tuple(first.values())

    def decided(self, rank: int, name: str) -> bool:
        """True if the tensor's type is known, or there is no such tensor."""
        return not 0 <= rank < len(self.unsized) or name not in self.unsized[rank]

    def find(self, rank: int, name: str, place: Place) -> TensorType:
        """Raises :class:`UserError` if there is no such rank or tensor."""
        if rank == OUTPUT:
            raise place.wrong(f'output("{name}")', "tensors of ranks: rank(i)", code="unknown-rank")
        if rank >= len(self.tensors):
            ranks = f"ranks 0 to {len(self.tensors) - 1}" if len(self.tensors) > 1 else "rank 0, the only one"
            raise place.wrong(f"rank({rank})", ranks, code="unknown-rank")
        found = self.tensors[rank].get(name)
        if found is None:
            raise self._unknown(rank, name, place)
        return found

    def _unknown(self, rank: int, name: str, place: Place) -> UserError:
        return place.wrong(
            f"no {self.what} {shown(name)} in {self.graphs[rank].path} (rank {rank})",
            f"the name of an implementation {self.what}",
            code=f"unknown-{self.what}",
            hint=f"{nearest(name, self.tensors[rank])}; another name is given as {{ name = ..., placement = ... }}",
        )


@dataclass(frozen=True)
class _Parsed:
    """One entry as written."""

    name: str
    placements: tuple[Placement, ...] | None
    expression: Expression | None
    equal: tuple[Equality, ...]
    text: str


def read_input(tensor: str, type_: TensorType, value: object, place: Place, side: Side) -> InputRelation:
    """The relation of one specification input. Raises :class:`UserError` where syntax, names or shapes are wrong."""
    parsed = _parse(tensor, value, place, side.mesh)
    if parsed is None:
        raise place.wrong('"infer"', "a placement or expression: what an input is cannot be inferred")
    try:
        if parsed.placements is not None:
            parsed = replace(parsed, placements=_fit_placements(parsed, type_, place, side))
        if parsed.expression is not None:
            parsed = replace(parsed, expression=_fit_expression(parsed.expression, parsed.name, type_, place, side))
        equal = _fit_equal(parsed, place, side)
    except RelationProblem as problem:
        raise place.wrong(
            f"{parsed.text}: {problem}",
            f"a relation that fits the specification input {tensor}: {type_}",
            code="relation-shape",
        ) from None
    return InputRelation(parsed.name, parsed.placements, parsed.expression, equal, parsed.text)


def read_expectation(tensor: str, type_: TensorType | None, value: object, place: Place, side: Side) -> Expectation:
    """The expectation that a job states of one specification output. Shapes that contradict it are not the job's fault
    (the implementation may be wrong): they are told in ``problem``. Where data decide a type (``type_`` is ``None``, or
    an implementation's), nothing is said about shapes. Raises :class:`UserError` for syntax and names."""
    parsed = _parse(tensor, value, place, side.mesh)
    if parsed is None:
        return Expectation(tensor)
    names = [(rank, parsed.name) for rank in side.different] if parsed.placements is not None else []
    mentioned = [*rank_tensors(parsed.expression)] if parsed.expression is not None else []
    mentioned += [term for pair in parsed.equal for side_ in pair for term in rank_tensors(side_)]
    names += [(term.rank, parsed.name if term.name is None else term.name) for term in mentioned]
    decided = [(rank, name) for rank, name in names if side.decided(rank, name)]
    for rank, name in decided:
        side.find(rank, name, place)
    if type_ is None or len(decided) < len(names):
        return Expectation(parsed.name, parsed.placements, parsed.expression, parsed.equal, parsed.text)
    placements, expression, equal, found = parsed.placements, parsed.expression, parsed.equal, ""
    try:
        if placements is not None:
            placements = _fit_placements(parsed, type_, place, side)
        if expression is not None:
            expression = _fit_expression(expression, parsed.name, type_, place, side)
        equal = _fit_equal(parsed, place, side)
    except RelationProblem as problem:
        found = str(problem)
    return Expectation(parsed.name, placements, expression, equal, parsed.text, found)


# ---------------------------------------------------------------------------------------------- parsing
def _parse(tensor: str, value: object, place: Place, mesh: Mesh) -> _Parsed | None:
    """``None`` for ``"infer"``."""
    if not isinstance(value, dict):
        if value == "infer":
            return None
        placements, expression, text = _relation(value, place, mesh)
        return _Parsed(tensor, placements, expression, (), text)
    fields = Fields.of(cast("object", value), place, _TABLE)
    name = fields.at("name").name(fields.get("name")) if "name" in fields else tensor
    if ("placement" in fields) == ("relation" in fields):
        raise place.wrong(
            "both `placement` and `relation`" if "placement" in fields else "neither `placement` nor `relation`",
            "one of them",
        )
    key = "placement" if "placement" in fields else "relation"
    placements, expression, text = _relation(fields.get(key), fields.at(key), mesh)
    if (key == "placement") != (placements is not None):
        raise fields.at(key).wrong(text, f"a {'placement' if key == 'placement' else 'clean expression'} under `{key}`")
    return _Parsed(name, placements, expression, _equal(fields), text)


def _equal(fields: Fields) -> tuple[Equality, ...]:
    if "equal" not in fields:
        return ()
    place = fields.at("equal")
    pairs: list[Equality] = []
    for item in place.list(fields.get("equal"), 'a list of equations such as "rank(0) == rank(1)"'):
        pairs += parse_equalities(_text(item, place), place.text, place.limits)
    return tuple(pairs)


def _text(value: object, place: Place) -> str:
    """A relation as text: its length is checked against ``expression_length``, not ``string_length``."""
    if not isinstance(value, str):
        raise place.wrong(shown(value), 'a relation in quotes, such as "Shard(0)"')
    return value


def _relation(value: object, place: Place, mesh: Mesh) -> tuple[tuple[Placement, ...] | None, Expression | None, str]:
    """Placements (one per mesh axis) or an expression, and the text of either."""
    if isinstance(value, list):
        items = place.list(cast("object", value))
        parsed = [parse_relation(_text(item, place), place.text, place.limits) for item in items]
        placements = [item for item in parsed if isinstance(item, (Replicate, Shard, Partial))]
        if len(placements) != len(parsed):
            raise place.wrong("an expression in a list", "placements in a list, or one expression alone")
        if len(placements) != len(mesh.axes):
            axes = ", ".join(mesh.names) or "none"
            raise place.wrong(
                f"{len(placements)} placements", f"{len(mesh.axes)}, one per mesh axis ({axes})", code="placement-count"
            )
        return tuple(placements), None, f"[{', '.join(map(str, placements))}]"
    text = _text(value, place)
    if text == "infer":
        raise place.wrong('"infer"', "a placement or an expression: infer stands alone, as an output's whole value")
    relation = parse_relation(text, place.text, place.limits)
    if not isinstance(relation, (Replicate, Shard, Partial)):
        return None, relation, str(relation)
    if isinstance(relation, Replicate):
        return (relation,) * len(mesh.axes), None, str(relation)
    if len(mesh.axes) != 1:
        axes = ", ".join(mesh.names) or "none"
        raise place.wrong(
            str(relation),
            f"one placement per mesh axis ({axes})"
            if mesh.axes
            else "Replicate() or an expression: the mesh has no axes",
            code="placement-count",
            hint=f"for example {[str(relation), *['Replicate()'] * (len(mesh.axes) - 1)]}" if mesh.axes else "",
        )
    return (relation,), None, str(relation)


# ---------------------------------------------------------------------------------------------- fitting
def _same_kind(a: TensorType, b: TensorType, what: str) -> None:
    if a.dtype.kind is not b.dtype.kind:
        raise RelationProblem(f"{what} is {b}, of another kind of number than {a.dtype}")


def _holds(whole: TensorType, part: TensorType, what: str, side: Side) -> None:
    """Inputs of an integer type of 8 or 16 bits cannot hold what a wider one does."""
    if side.what == "input" and part.dtype.is_narrow and not part.dtype.holds(whole.dtype):
        raise RelationProblem(f"{what} is {part}, which does not hold every number of {whole.dtype}")


def _fit_placements(parsed: _Parsed, type_: TensorType, place: Place, side: Side) -> tuple[Placement, ...]:
    placements = normalise_placements(type_.shape, parsed.placements or ())
    alike = even(type_.shape, placements, side.mesh.sizes)  # then all ranks hold parts of one shape
    for rank in side.different if alike else range(len(side.graphs)):
        found = side.find(rank, parsed.name, place)
        wanted = local_shape(type_.shape, placements, side.mesh, rank)
        if found.shape != wanted:
            path = side.graphs[rank].path
            raise RelationProblem(f"{parsed.name} is {found} on rank {rank} ({path}), not of shape {list(wanted)}")
        _same_kind(type_, found, f"{parsed.name} on rank {rank}")
        _holds(type_, found, f"{parsed.name} on rank {rank}", side)
    return placements


def _fit_expression(written: Expression, name: str, type_: TensorType, place: Place, side: Side) -> Expression:
    def tensor(term: RankTensor) -> tuple[RankTensor, TensorType]:
        full = RankTensor(term.rank, name if term.name is None else term.name)
        of = side.find(full.rank, full.name or "", place)
        if of.dtype.kind is type_.dtype.kind:
            _holds(type_, of, str(full), side)
        return full, of

    expression, found = resolve(written, tensor)
    if found.shape != type_.shape:
        raise RelationProblem(f"the expression has shape {list(found.shape)}, not {list(type_.shape)}")
    _same_kind(type_, found, "the expression")
    return expression


def _fit_equal(parsed: _Parsed, place: Place, side: Side) -> tuple[Equality, ...]:
    def tensor(term: RankTensor) -> tuple[RankTensor, TensorType]:
        full = RankTensor(term.rank, parsed.name if term.name is None else term.name)
        return full, side.find(full.rank, full.name or "", place)

    pairs: list[Equality] = []
    for pair in parsed.equal:
        (left, a), (right, b) = (resolve(term, tensor) for term in pair)
        if a.shape != b.shape or a.dtype.kind is not b.dtype.kind:
            raise RelationProblem(f"{left} is {a} but {right} is {b}: they cannot be equal")
        pairs.append((left, right))
    return tuple(pairs)
