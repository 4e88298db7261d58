"""The functions of the relation language that are made of its others: a row each, which is all that one takes.

A row says how the function is written and, for an operand of a shape, the expression that it is. That is put in its
place where a relation is fitted to its tensors (:func:`tantamount.ir.relation_types.resolve`), so that types, meaning,
proofs, certificates and smaller shapes are those of what it is made of, and nothing else knows its name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod

from tantamount.ir.relation import Argument, Expression, Permute, RankTensor, RelationProblem, Reshape
from tantamount.ir.types import Shape

__all__ = ["ARRANGEMENTS", "INTEGERS", "Arrangement", "dimension"]

DIMENSION, INTEGERS = "a dimension", "a list of integers"


@dataclass(frozen=True, slots=True)
class Arrangement:
    """``signature``: how it is written; ``arguments``: what follows the operand, each :data:`DIMENSION` or
    :data:`INTEGERS`; ``meaning``: the expression that it is, of an operand of a shape. That raises
    :class:`RelationProblem` for what does not fit the shape."""

    signature: str
    arguments: tuple[str, ...]
    meaning: Callable[[RankTensor, Shape, Sequence[Argument]], Expression]


def dimension(dim: Argument, rank: int, what: str) -> int:
    """The dimension, counted from the front. Raises :class:`RelationProblem` for one that ``rank`` dimensions lack."""
    if not isinstance(dim, int) or not -rank <= dim < rank:
        raise RelationProblem(f"{what} of a tensor with {rank} dimensions")
    return dim % rank


def _transpose(x: RankTensor, shape: Shape, arguments: Sequence[Argument]) -> Expression:
    one, other = (dimension(dim, len(shape), f"transpose with dimension {dim}") for dim in arguments)
    order = list(range(len(shape)))
    order[one], order[other] = other, one
    return Permute(x, tuple(order))


def _unflatten(x: RankTensor, shape: Shape, arguments: Sequence[Argument]) -> Expression:
    dim, sizes = arguments
    k = dimension(dim, len(shape), f"unflatten of dimension {dim}")
    parts = sizes if isinstance(sizes, tuple) else (sizes,)
    if min(parts, default=0) < 0 or prod(parts) != shape[k]:
        raise RelationProblem(f"unflatten of dimension {k}, which has size {shape[k]}, to {list(parts)}")
    return Reshape(x, (*shape[:k], *parts, *shape[k + 1 :]))


ARRANGEMENTS: Mapping[str, Arrangement] = {
    "transpose": Arrangement("transpose(t, d0, d1)", (DIMENSION, DIMENSION), _transpose),
    "unflatten": Arrangement("unflatten(t, d, sizes)", (DIMENSION, INTEGERS), _unflatten),
}
