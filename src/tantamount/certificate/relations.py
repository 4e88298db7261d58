"""What a relation says of values, under any interpretation: of arrays, of residues, of the numbers of elements."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import product

from tantamount.ir.mesh import Mesh
from tantamount.ir.relation import (
    Concat,
    Expectation,
    Expression,
    InputRelation,
    Partial,
    Permute,
    Placement,
    RankTensor,
    Reshape,
    Slice,
    Sum,
)
from tantamount.ir.relation_types import local_box
from tantamount.ir.types import Kind, Shape
from tantamount.ops.algebra import Interpretation, Number, Value

__all__ = ["Held", "Pair", "evaluate", "has_sum", "held_names", "pairs", "reduced"]

Held = Callable[[int, str], Value]  # what a rank holds under a name


@dataclass(frozen=True, slots=True)
class Pair:
    """Two values that a relation says are equal. ``where`` is one clause for messages."""

    wanted: Value
    found: Value
    where: str


def pairs(
    on: Interpretation, whole: Value, shape: Shape, relation: InputRelation | Expectation, mesh: Mesh, held: Held
) -> Iterator[Pair]:
    """Everything that a relation says of the whole tensor, rank by rank."""
    name = relation.name
    if relation.placements is not None:
        for box, members in _holders(shape, relation.placements, mesh):
            wanted = _cut(on, whole, shape, tuple((low, high, 1) for low, high in box))
            values = [held(rank, name) for rank in members]
            yield Pair(wanted, reduced(on, values, relation.placements, mesh), f"rank {members[0]}")
    elif relation.expression is not None:
        yield Pair(whole, evaluate(on, relation.expression, held, name), "the ranks' tensors put together")
    for a, b in relation.equal:
        left, right = (held(term.rank, term.name or name) for term in (a, b))
        yield Pair(left, right, f"{a} and {b}")


def _holders(
    shape: Shape, placements: Sequence[Placement], mesh: Mesh
) -> Iterator[tuple[tuple[tuple[int, int], ...], list[int]]]:
    """For every coordinate of the axes that are not ``Partial``: the part of the whole, and the ranks that have it."""
    partial = [axis for axis, p in enumerate(placements) if isinstance(p, Partial)]
    fixed = [range(1) if axis in partial else range(size) for axis, size in enumerate(mesh.sizes)]
    for lead in product(*fixed):
        members: list[int] = []
        for digits in product(*(range(mesh.sizes[axis]) for axis in partial)):
            here = list(lead)
            for axis, digit in zip(partial, digits, strict=True):
                here[axis] = digit
            members.append(mesh.rank(tuple(here)))
        yield local_box(shape, tuple(placements), mesh, members[0]), members


def reduced(on: Interpretation, values: Sequence[Value], placements: Sequence[Placement], mesh: Mesh) -> Value:
    """The values of the ranks along the ``Partial`` axes (row-major) made one: sums and averages first, then maxima,
    then minima, the last axis first."""
    kinds = [(p.reduction, size) for p, size in zip(placements, mesh.sizes, strict=True) if isinstance(p, Partial)]
    axes = list(range(len(kinds)))
    table = dict(zip(product(*(range(size) for _, size in kinds)), values, strict=True))
    for group in (("sum", "avg"), ("max",), ("min",)):
        for axis in [k for k in reversed(axes) if kinds[k][0] in group]:
            position = axes.index(axis)
            lines: dict[tuple[int, ...], list[Value]] = {}
            for digits, value in table.items():
                lines.setdefault((*digits[:position], *digits[position + 1 :]), []).append(value)
            table = {digits: _together(on, kinds[axis][0], line) for digits, line in lines.items()}
            axes.remove(axis)
    return table[()]


def _together(on: Interpretation, reduction: str, values: Sequence[Value]) -> Value:
    if reduction == "min":
        return _scaled(on, _together(on, "max", [_scaled(on, value, -1) for value in values]), -1)
    total = values[0]
    for value in values[1:]:
        total = on.maximum(total, value) if reduction == "max" else on.add(total, value)
    return _scaled(on, total, Fraction(1, len(values))) if reduction == "avg" else total


def _scaled(on: Interpretation, x: Value, factor: Number) -> Value:
    shape: Shape = x.shape
    kind = Kind.INT if getattr(x, "dtype", None) is not None and x.dtype.kind in "ib" else Kind.FLOAT
    scalar = on.reshape(on.constant(factor, kind), (1,) * len(shape))
    return on.mul(x, on.expand(scalar, shape))


def evaluate(on: Interpretation, expression: Expression, held: Held, name: str) -> Value:
    """The value of a resolved clean expression; ``name`` is what it is about where it names no tensor."""
    if isinstance(expression, RankTensor):
        return held(expression.rank, name if expression.name is None else expression.name)
    if isinstance(expression, (Concat, Sum)):
        parts = [evaluate(on, part, held, name) for part in expression.parts]
        if isinstance(expression, Sum):
            return _together(on, "sum", parts)
        filled = [part for part in parts if part.shape[expression.dim]]
        return on.concat(filled, expression.dim) if filled else parts[0]
    x = evaluate(on, expression.operand, held, name)
    if isinstance(expression, Slice):
        return _cut(on, x, x.shape, tuple((low or 0, high or 0, step) for low, high, step in expression.bounds))
    if isinstance(expression, Reshape):
        return on.reshape(x, expression.shape)
    if isinstance(expression, Permute):
        return on.permute(x, expression.dims)
    order = list(range(len(x.shape)))
    order[expression.dim0], order[expression.dim1] = order[expression.dim1], order[expression.dim0]
    return on.permute(x, tuple(order))


def _cut(on: Interpretation, x: Value, shape: Shape, bounds: tuple[tuple[int, int, int], ...]) -> Value:
    for dim, (low, high, step) in enumerate(bounds):
        if (low, high, step) != (0, shape[dim], 1):
            x = on.slice(x, dim, low, high, step)
    return x


def held_names(relation: InputRelation | Expectation, ranks: int) -> list[tuple[int, str]]:
    """What a relation speaks of: ranks, and names of what they hold."""
    if relation.placements is not None:
        found = [(rank, relation.name) for rank in range(ranks)]
    else:
        found = [] if relation.expression is None else [*_terms(relation.expression, relation.name)]
    return found + [(term.rank, term.name or relation.name) for pair in relation.equal for term in pair]


def _terms(expression: Expression, name: str) -> Iterator[tuple[int, str]]:
    if isinstance(expression, RankTensor):
        yield expression.rank, name if expression.name is None else expression.name
    elif isinstance(expression, (Concat, Sum)):
        for part in expression.parts:
            yield from _terms(part, name)
    else:
        yield from _terms(expression.operand, name)


def has_sum(relation: InputRelation | Expectation) -> bool:
    """Whether the whole is computed from the ranks' tensors, not only put together."""
    if relation.placements is not None:
        return any(isinstance(p, Partial) for p in relation.placements)
    pending = [] if relation.expression is None else [relation.expression]
    while pending:
        item = pending.pop()
        if isinstance(item, Sum):
            return True
        if isinstance(item, Concat):
            pending.extend(item.parts)
        elif not isinstance(item, RankTensor):
            pending.append(item.operand)
    return False
