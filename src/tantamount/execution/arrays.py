"""Relations on arrays: what a placement or a clean expression says about the values that ranks hold."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np

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
    Slice,
    Sum,
    Transpose,
)
from tantamount.ir.relation_types import local_box
from tantamount.semantics.reference import Array

__all__ = ["Comparison", "Held", "comparisons", "evaluate_arrays"]

Held = Callable[[int, str], Array]  # what a rank holds under a name of the implementation

_REDUCE: Mapping[str, Callable[[Array], Array]] = {
    "sum": lambda x: np.sum(x, axis=0),
    "avg": lambda x: np.mean(x, axis=0),
    "max": lambda x: np.max(x, axis=0),
    "min": lambda x: np.min(x, axis=0),
}


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two arrays of one shape that the relation says are equal: ``wanted`` lies at ``origin`` of the whole tensor,
    ``found`` is what ``rank`` holds (for every element, if ranks differ)."""

    wanted: Array
    found: Array
    rank: Array
    origin: tuple[int, ...]


def comparisons(whole: Array, relation: Expectation | InputRelation, mesh: Mesh, held: Held) -> list[Comparison]:
    """Everything that must be equal if ``relation`` holds of ``whole``.

    Raises :class:`Unsupported` where shapes do not fit."""
    out: list[Comparison] = []
    if relation.placements is not None:
        out.extend(_placed(whole, relation.placements, mesh, lambda rank: held(rank, relation.name)))
    elif relation.expression is not None:
        value = evaluate_arrays(relation.expression, held, relation.name)
        ranks = evaluate_arrays(
            relation.expression, lambda rank, name: np.full(held(rank, name).shape, rank), relation.name, first=True
        )
        out.append(_compare(whole, value, ranks, (0,) * whole.ndim))
    for a, b in relation.equal:
        left, right = held(a.rank, a.name or relation.name), held(b.rank, b.name or relation.name)
        out.append(_compare(left, right, np.full(right.shape, b.rank), (0,) * left.ndim))
    return out


def _compare(wanted: Array, found: Array, rank: Array, origin: tuple[int, ...]) -> Comparison:
    if wanted.shape != found.shape:
        raise Unsupported(f"shape {list(found.shape)} where {list(wanted.shape)} is needed")
    return Comparison(wanted, found, rank, origin)


def _placed(
    whole: Array, placements: Sequence[Placement], mesh: Mesh, held: Callable[[int], Array]
) -> list[Comparison]:
    """One comparison for every coordinate of the axes that are not ``Partial``."""
    out: list[Comparison] = []
    partial = [axis for axis, p in enumerate(placements) if isinstance(p, Partial)]
    for lead in product(*(range(1) if axis in partial else range(size) for axis, size in enumerate(mesh.sizes))):
        box = local_box(whole.shape, tuple(placements), mesh, mesh.rank(lead))
        wanted = whole[tuple(slice(low, high) for low, high in box)]
        members: list[int] = []
        for digits in product(*(range(mesh.sizes[axis]) for axis in partial)):
            here = list(lead)
            for axis, digit in zip(partial, digits, strict=True):
                here[axis] = digit
            members.append(mesh.rank(tuple(here)))
        arrays = [held(rank) for rank in members]
        if len({x.shape for x in arrays}) > 1:
            raise Unsupported("partial tensors of different shapes")
        found = np.stack(arrays).reshape((*(mesh.sizes[axis] for axis in partial), *arrays[0].shape))
        left = [placements[axis] for axis in partial]
        for kinds in (("sum", "avg"), ("max",), ("min",)):
            for position in range(len(left) - 1, -1, -1):
                p = left[position]
                if isinstance(p, Partial) and p.reduction in kinds:
                    found = _REDUCE[p.reduction](np.moveaxis(found, position, 0))
                    del left[position]
        out.append(_compare(wanted, found, np.full(found.shape, members[0]), tuple(low for low, _ in box)))
    return out


def evaluate_arrays(expression: Expression, held: Held, name: str, first: bool = False) -> Array:
    """The value of a resolved clean expression; with ``first`` a sum is its first part (labels instead of values)."""
    if isinstance(expression, RankTensor):
        return held(expression.rank, name if expression.name is None else expression.name)
    if isinstance(expression, (Concat, Sum)):
        parts = [evaluate_arrays(item, held, name, first) for item in expression.parts]
        if isinstance(expression, Concat):
            return np.concatenate(parts, axis=expression.dim)
        return parts[0] if first else np.sum(np.stack(parts), axis=0)
    operand = evaluate_arrays(expression.operand, held, name, first)
    if isinstance(expression, Slice):
        return operand[tuple(slice(*bounds) for bounds in expression.bounds)]
    if isinstance(expression, Transpose):
        return np.swapaxes(operand, expression.dim0, expression.dim1)
    if isinstance(expression, Permute):
        return np.transpose(operand, expression.dims)
    return operand.reshape(expression.shape)
