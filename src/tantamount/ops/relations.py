"""The meaning of relations, once, under any interpretation: of arrays, of residues, of normal forms.

A *stacked* value has one leading dimension per mesh axis, then the local dimensions: what every rank holds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from math import prod

from tantamount.errors import Unsupported
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
    Shard,
    Slice,
    Sum,
    operands,
    rank_tensors,
    unresolved,
    with_operands,
)
from tantamount.ir.relation_types import local_box
from tantamount.ir.types import Kind, Shape
from tantamount.ops.algebra import Interpretation, Number, Value

__all__ = [
    "Held", "Pair", "collapse", "distribute", "evaluate", "even", "first_summands", "has_sum", "held_names", "pairs",
    "part", "reduced",
]  # fmt: skip

Held = Callable[[int, str], Value]  # what a rank holds under a name


@dataclass(frozen=True, slots=True)
class Pair:
    """Two values of one shape that a relation says are equal. ``wanted`` lies at ``origin`` of the whole tensor;
    ``ranks`` hold what ``found`` is made of (of an expression: none in particular). ``where`` is one clause for
    messages."""

    wanted: Value
    found: Value
    where: str
    origin: tuple[int, ...] = ()
    ranks: tuple[int, ...] = ()


def pairs(
    on: Interpretation, whole: Value, shape: Shape, relation: InputRelation | Expectation, mesh: Mesh, held: Held
) -> Iterator[Pair]:
    """Everything that a relation says of the whole tensor, rank by rank."""
    name = relation.name
    if relation.placements is not None:
        for box, members in _holders(shape, relation.placements, mesh):
            values = [held(rank, name) for rank in members]
            found = reduced(on, values, relation.placements, mesh)
            origin = tuple(low for low, _ in box)
            yield Pair(part(on, whole, shape, box), found, f"rank {members[0]}", origin, tuple(members))
    elif relation.expression is not None:
        yield Pair(whole, evaluate(on, relation.expression, held, name), "the ranks' tensors put together")
    for a, b in relation.equal:
        left, right = (evaluate(on, term, held, name) for term in (a, b))
        yield Pair(left, right, f"{a} and {b}", (), tuple(rank for rank, _ in _terms(b, name)))


def part(on: Interpretation, whole: Value, shape: Shape, box: Sequence[tuple[int, int]]) -> Value:
    """A box of a tensor: one ``(start, stop)`` per dimension."""
    return _cut(on, whole, shape, tuple((low, high, 1) for low, high in box))


# ---------------------------------------------------------------------------------------------- placements, stacked
def even(shape: Shape, placements: Sequence[Placement], sizes: Sequence[int]) -> bool:
    """True if every sharded dimension divides into equal parts."""
    left = list(shape)
    for placement, size in zip(placements, sizes, strict=True):
        if isinstance(placement, Shard):
            if left[placement.dim] % size:
                return False
            left[placement.dim] //= size
    return True


def distribute(
    on: Interpretation, whole: Value, shape: Shape, placements: Sequence[Placement], sizes: Sequence[int]
) -> Value:
    """The parts of a whole tensor that the ranks hold under ``Shard`` and ``Replicate`` placements (even parts),
    stacked.

    Mesh axes cut a dimension one after the other, the first one outermost, as DTensor does."""
    local = list(shape)
    digits: list[list[int]] = [[] for _ in local]  # mesh axes that cut each dimension
    for axis, (placement, size) in enumerate(zip(placements, sizes, strict=True)):
        if isinstance(placement, Shard):
            digits[placement.dim].append(axis)
            local[placement.dim] //= size
    split: list[int] = []
    where: dict[int, int] = {}
    last: list[int] = []
    for d, size in enumerate(local):
        for axis in digits[d]:
            where[axis] = len(split)
            split.append(sizes[axis])
        last.append(len(split))
        split.append(size)
    value = on.reshape(whole, tuple(split))
    value = on.permute(value, (*(where[axis] for axis in range(len(sizes)) if axis in where), *last))
    lead = tuple(sizes[axis] if axis in where else 1 for axis in range(len(sizes)))
    return on.expand(on.reshape(value, (*lead, *local)), (*sizes, *local))


def collapse(on: Interpretation, stacked: Value, placements: Sequence[Placement], sizes: Sequence[int]) -> Value:
    """The stacked value with the mesh axes whose placement is ``Partial`` reduced: sums and averages first, then
    maxima, then minima. The other mesh axes stay in front."""
    dims = list(range(len(stacked.shape)))
    kinds = {axis: p.reduction for axis, p in enumerate(placements) if isinstance(p, Partial)}
    for group in (("sum", "avg"), ("max",), ("min",)):
        chosen = [axis for axis, kind in kinds.items() if kind in group]
        if not chosen:
            continue
        positions = [dims.index(axis) for axis in chosen]
        dims = [d for d in dims if d not in chosen]
        if "sum" in group:
            labels = tuple(range(len(stacked.shape)))
            stacked = on.contract([(stacked, labels)], tuple(k for k in labels if k not in positions))
            count = prod(sizes[axis] for axis in chosen if kinds[axis] == "avg")
            stacked = stacked if count == 1 else _scaled(on, stacked, Fraction(1, count))
        elif "max" in group:
            stacked = on.maximum_over(stacked, tuple(positions))
        else:
            stacked = _scaled(on, on.maximum_over(_scaled(on, stacked, -1), tuple(positions)), -1)
    return stacked


# ---------------------------------------------------------------------------------------------- rank by rank
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
    then minima, the last axis first. Raises :class:`Unsupported` where ranks hold different shapes."""
    if len({tuple(value.shape) for value in values}) > 1:
        raise Unsupported("partial tensors of different shapes")
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
    raise unresolved(expression)


def _cut(on: Interpretation, x: Value, shape: Shape, bounds: tuple[tuple[int, int, int], ...]) -> Value:
    for dim, (low, high, step) in enumerate(bounds):
        if (low, high, step) != (0, shape[dim], 1):
            x = on.slice(x, dim, low, high, step)
    return x


def held_names(relation: InputRelation | Expectation, ranks: int) -> list[tuple[int, str]]:
    """The tensors that a relation speaks of, as ranks and names of what they hold."""
    if relation.placements is not None:
        found = [(rank, relation.name) for rank in range(ranks)]
    else:
        found = [] if relation.expression is None else [*_terms(relation.expression, relation.name)]
    return found + [term for pair in relation.equal for side in pair for term in _terms(side, relation.name)]


def _terms(expression: Expression, name: str) -> Iterator[tuple[int, str]]:
    for tensor in rank_tensors(expression):
        yield tensor.rank, name if tensor.name is None else tensor.name


def first_summands(expression: Expression) -> Expression:
    """The expression with the first part of every sum in place of the sum: of labels (who holds an element), a sum
    means nothing."""
    if isinstance(expression, Sum):
        return first_summands(expression.parts[0])
    return with_operands(expression, [first_summands(part) for part in operands(expression)])


def has_sum(relation: InputRelation | Expectation) -> bool:
    """True if the whole is computed from the ranks' tensors, not only put together."""
    if relation.placements is not None:
        return any(isinstance(p, Partial) for p in relation.placements)
    pending = [] if relation.expression is None else [relation.expression]
    while pending:
        item = pending.pop()
        if isinstance(item, Sum):
            return True
        pending.extend(operands(item))
    return False
