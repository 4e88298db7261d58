"""Relations on arrays: what a placement or a clean expression says about the values that ranks hold."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tantamount.errors import Unsupported
from tantamount.ir.mesh import Mesh
from tantamount.ir.relation import Expectation, InputRelation
from tantamount.ops.arrays import spread
from tantamount.ops.relations import Pair, evaluate, first_summands, pairs
from tantamount.semantics.reference import Array, Reference

__all__ = ["Comparison", "Held", "comparisons"]

Held = Callable[[int, str], Array]  # what a rank holds under a name of the implementation


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

    Raises :class:`Unsupported` where shapes do not fit, those on record among them."""
    if isinstance(relation, Expectation) and relation.problem:
        raise Unsupported(relation.problem)
    try:
        found = list(pairs(Reference(), whole, whole.shape, relation, mesh, held))
    except ValueError:  # of NumPy: what is put together or summed does not fit
        raise Unsupported("ranks hold tensors of shapes that do not fit together") from None
    return [_comparison(pair, relation, held) for pair in found]


def _comparison(pair: Pair, relation: Expectation | InputRelation, held: Held) -> Comparison:
    if pair.wanted.shape != pair.found.shape:
        raise Unsupported(f"shape {list(pair.found.shape)} where {list(pair.wanted.shape)} is needed")
    if pair.ranks:
        ranks = spread(np.asarray(pair.ranks[0]), pair.found.shape)
    elif relation.expression is not None:  # an expression has its elements from several ranks
        labels = first_summands(relation.expression)
        ranks = evaluate(Reference(), labels, lambda r, name: np.full(held(r, name).shape, r), relation.name)
    else:
        ranks = spread(np.asarray(0), pair.found.shape)
    return Comparison(pair.wanted, pair.found, ranks, pair.origin or (0,) * pair.wanted.ndim)
