"""Placements and clean expressions on arrays, element by element."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from tantamount.errors import Unsupported
from tantamount.execution.arrays import comparisons
from tantamount.ir.mesh import Mesh
from tantamount.ir.relation import (
    Concat,
    Expectation,
    Partial,
    Permute,
    Placement,
    RankTensor,
    Replicate,
    Shard,
    Slice,
    Sum,
)
from tantamount.semantics.reference import Array

WHOLE = np.arange(21.0).reshape(7, 3)


def holds(relation: Expectation, sizes: Sequence[int], ranks: Sequence[Array], whole: Array = WHOLE) -> bool:
    mesh = Mesh({f"m{k}": size for k, size in enumerate(sizes)})
    sides = comparisons(whole, relation, mesh, lambda rank, _: ranks[rank])
    assert sides
    return all(np.array_equal(c.wanted, c.found) for c in sides)


def placed(*placements: Placement) -> Expectation:
    return Expectation("y", placements)


def test_replicate_compares_every_rank() -> None:
    assert holds(placed(Replicate()), [2], [WHOLE, WHOLE])
    assert not holds(placed(Replicate()), [2], [WHOLE, WHOLE + 1])


def test_uneven_shards_are_cut_as_chunk_does() -> None:
    parts = [WHOLE[0:2], WHOLE[2:4], WHOLE[4:6], WHOLE[6:7]]
    assert holds(placed(Shard(0)), [4], parts)
    with pytest.raises(Unsupported):
        holds(placed(Shard(0)), [4], [WHOLE[0:1], *parts[1:]])


def test_two_axes_cut_one_dimension_the_first_outermost() -> None:
    whole = np.arange(8.0)
    assert holds(placed(Shard(0), Shard(0)), [2, 2], [whole[0:2], whole[2:4], whole[4:6], whole[6:8]], whole)
    assert not holds(placed(Shard(0), Shard(0)), [2, 2], [whole[0:2], whole[4:6], whole[2:4], whole[6:8]], whole)


@pytest.mark.parametrize(("reduction", "second"), [("sum", 0.75), ("avg", 1.75), ("max", 0.5), ("min", 3.0)])
def test_partial_reduces_over_its_axis_alone(reduction: str, second: float) -> None:
    whole = np.full((2, 2), {"sum": 1.0, "avg": 1.0, "max": 1.0, "min": 0.25}[reduction])
    first = {"sum": 0.25, "avg": 0.25, "max": 1.0, "min": 0.25}[reduction]
    one, two = np.full((1, 2), first), np.full((1, 2), second)
    relation = placed(Partial(reduction), Shard(0))
    assert holds(relation, [2, 2], [one, one, two, two], whole)
    assert not holds(relation, [2, 2], [one * 8, one, two, two], whole)


def test_expressions_and_which_rank_an_element_comes_from() -> None:
    ranks = [WHOLE[:4].T.copy(), np.concatenate([WHOLE[4:], WHOLE[:1]])]
    tail = Slice(RankTensor(1, None), ((0, 3, 1), (0, 3, 1)))
    relation = Expectation("y", None, Concat((Permute(RankTensor(0, None), (1, 0)), tail), 0))
    assert holds(relation, [2], ranks)
    (side,) = comparisons(WHOLE, relation, Mesh({"tp": 2}), lambda rank, _: ranks[rank])
    assert side.rank[:, 0].tolist() == [0, 0, 0, 0, 1, 1, 1]


def test_sums_of_ranks() -> None:
    relation = Expectation("y", None, Sum((RankTensor(0, None), RankTensor(1, None))))
    assert holds(relation, [2], [WHOLE - 3, np.full_like(WHOLE, 3)])
    assert not holds(relation, [2], [WHOLE, np.full_like(WHOLE, 3)])


def test_equalities_are_compared_as_well() -> None:
    equal = ((RankTensor(0, None), RankTensor(1, None)),)
    relation = Expectation("y", None, RankTensor(0, None), equal)
    assert holds(relation, [2], [WHOLE, WHOLE])
    assert not holds(relation, [2], [WHOLE, WHOLE + 1])
