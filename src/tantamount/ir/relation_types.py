"""Shapes of relations: what part of a tensor a placement puts on a rank, and the type of a clean expression."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import prod

from tantamount.ir.arrangements import ARRANGEMENTS, dimension
from tantamount.ir.mesh import Mesh
from tantamount.ir.relation import (
    Arranged,
    Bounds,
    Concat,
    Expression,
    Permute,
    Placement,
    RankTensor,
    RelationProblem,
    Reshape,
    Shard,
    Slice,
    Sum,
)
from tantamount.ir.types import Shape, TensorType

__all__ = ["RelationProblem", "box_at", "chunk", "local_box", "local_shape", "normalise_placements", "resolve"]

_OPERAND = RankTensor(0)  # stands for the operand of a row of the arrangements


def chunk(start: int, stop: int, parts: int, index: int) -> tuple[int, int]:
    """Part ``index`` of ``start..stop`` cut into ``parts`` as ``torch.chunk`` does (the last parts may be empty)."""
    size = -(-(stop - start) // parts)
    return min(start + index * size, stop), min(start + (index + 1) * size, stop)


def local_box(shape: Shape, placements: tuple[Placement, ...], mesh: Mesh, rank: int) -> tuple[tuple[int, int], ...]:
    """The part ``(start, stop)`` per dimension of a tensor that ``rank`` holds. Mesh axes cut one after the other, the
    first axis outermost; ``placements`` (normalised) has one entry per axis."""
    return box_at(shape, placements, mesh.sizes, mesh.coordinates(rank))


def box_at(
    shape: Shape, placements: tuple[Placement, ...], sizes: Sequence[int], coordinates: Sequence[int]
) -> tuple[tuple[int, int], ...]:
    """The part of a tensor that the rank at some coordinates of a mesh holds, as :func:`local_box` does."""
    box = [(0, size) for size in shape]
    for placement, parts, index in zip(placements, sizes, coordinates, strict=True):
        if isinstance(placement, Shard):
            box[placement.dim] = chunk(*box[placement.dim], parts, index)
    return tuple(box)


def local_shape(shape: Shape, placements: tuple[Placement, ...], mesh: Mesh, rank: int) -> Shape:
    """The shape of that part."""
    return tuple(stop - start for start, stop in local_box(shape, placements, mesh, rank))


def normalise_placements(shape: Shape, placements: tuple[Placement, ...]) -> tuple[Placement, ...]:
    """Dimensions counted from the front. Raises :class:`RelationProblem` for a dimension that the tensor lacks."""
    return tuple(
        Shard(dimension(placement.dim, len(shape), str(placement))) if isinstance(placement, Shard) else placement
        for placement in placements
    )


def resolve(
    expression: Expression, tensor: Callable[[RankTensor], tuple[RankTensor, TensorType]]
) -> tuple[Expression, TensorType]:
    """The expression with names, dimensions and slice bounds made explicit, and its type.

    ``tensor`` gives the full name and type of an implementation tensor. Raises :class:`RelationProblem` where shapes
    do not fit; slices beyond the end are a problem here, unlike in Python.
    """
    return _resolved(expression, tensor)


def _resolved(
    expression: Expression, tensor: Callable[[RankTensor], tuple[Expression, TensorType]]
) -> tuple[Expression, TensorType]:
    if isinstance(expression, RankTensor):
        return tensor(expression)
    if isinstance(expression, (Concat, Sum)):
        parts, types = zip(*(_resolved(part, tensor) for part in expression.parts), strict=True)
        if isinstance(expression, Sum):
            return Sum(parts), _sum_type(types)
        return _concat(expression, parts, types)
    operand, type_ = _resolved(expression.operand, tensor)
    if isinstance(expression, Slice):
        return _slice(expression, operand, type_)
    if isinstance(expression, Arranged):
        meaning = ARRANGEMENTS[expression.function].meaning(_OPERAND, type_.shape, expression.arguments)
        return _resolved(meaning, lambda _: (operand, type_))
    if isinstance(expression, Permute):
        dims = tuple(dimension(dim, len(type_.shape), f"permute with dimension {dim}") for dim in expression.dims)
        if sorted(dims) != list(range(len(type_.shape))):
            raise RelationProblem(f"permute {list(expression.dims)} of {type_}")
        return Permute(operand, dims), TensorType(tuple(type_.shape[dim] for dim in dims), type_.dtype)
    return _reshape(expression, operand, type_)


def _common(types: tuple[TensorType, ...], what: str) -> TensorType:
    first = types[0]
    for other in types:
        if other.dtype.kind is not first.dtype.kind or len(other.shape) != len(first.shape):
            raise RelationProblem(f"{what} of {first} and {other}")
    return first


def _sum_type(types: tuple[TensorType, ...]) -> TensorType:
    first = _common(types, "sum")
    for other in types:
        if other.shape != first.shape:
            raise RelationProblem(f"sum of {first} and {other}")
    return first


def _concat(
    expression: Concat, parts: tuple[Expression, ...], types: tuple[TensorType, ...]
) -> tuple[Expression, TensorType]:
    first = _common(types, "concat")
    dim = dimension(expression.dim, len(first.shape), f"concat along dimension {expression.dim}")
    for other in types:
        if any(a != b for k, (a, b) in enumerate(zip(first.shape, other.shape, strict=True)) if k != dim):
            raise RelationProblem(f"concat along dimension {dim} of {first} and {other}")
    shape = (*first.shape[:dim], sum(other.shape[dim] for other in types), *first.shape[dim + 1 :])
    return Concat(parts, dim), TensorType(shape, first.dtype)


def _slice(expression: Slice, operand: Expression, type_: TensorType) -> tuple[Expression, TensorType]:
    if len(expression.bounds) > len(type_.shape):
        raise RelationProblem(f"{len(expression.bounds)} slices of {type_} in {expression}")
    padded: tuple[Bounds, ...] = (*expression.bounds, *((None, None, 1),) * (len(type_.shape) - len(expression.bounds)))
    bounds: list[Bounds] = []
    shape: list[int] = []
    for dim, ((start, stop, step), size) in enumerate(zip(padded, type_.shape, strict=True)):
        low = 0 if start is None else start + size if start < 0 else start
        high = size if stop is None else stop + size if stop < 0 else stop
        if not 0 <= low <= high <= size:
            text = f"{'' if start is None else start}:{'' if stop is None else stop}"
            raise RelationProblem(f"slice {text} of dimension {dim}, which has size {size}, in {expression}")
        bounds.append((low, high, step))
        shape.append(-(-(high - low) // step))
    return replace(expression, operand=operand, bounds=tuple(bounds)), TensorType(tuple(shape), type_.dtype)


def _reshape(expression: Reshape, operand: Expression, type_: TensorType) -> tuple[Expression, TensorType]:
    total, sizes = prod(type_.shape), list(expression.shape)
    if sizes.count(-1) == 1:
        rest = prod(size for size in sizes if size != -1)
        if rest > 0 and total % rest == 0:
            sizes[sizes.index(-1)] = total // rest
    if any(size < 0 for size in sizes) or prod(sizes) != total:
        raise RelationProblem(f"reshape of {type_} ({total} elements) to {list(expression.shape)}")
    return Reshape(operand, tuple(sizes)), TensorType(tuple(sizes), type_.dtype)
