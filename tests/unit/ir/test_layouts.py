"""Placements under which a tensor can lie on a mesh."""

from __future__ import annotations

from tantamount.ir.layouts import layouts
from tantamount.ir.relation import Partial, Replicate, Shard

R, P = Replicate(), Partial()


def test_all_of_one_axis_simplest_first() -> None:
    assert layouts((4, 6), (2,)) == [(R,), (Shard(0),), (Shard(1),)]
    assert layouts((4, 6), (2,), partial=True) == [(R,), (Shard(0),), (Shard(1),), (P,)]
    assert layouts((3, 6), (2,)) == [(R,), (Shard(1),)]


def test_those_with_a_local_shape() -> None:
    assert layouts((4, 6), (2, 2), local=(2, 3)) == [(Shard(0), Shard(1)), (Shard(1), Shard(0))]
    assert layouts((4, 6), (2, 2), local=(1, 6)) == [(Shard(0), Shard(0))]
    assert layouts((4, 6), (2, 2), local=(4, 6), partial=True) == [(R, R), (R, P), (P, R), (P, P)]
    assert layouts((4, 6), (2, 2), local=(4, 5)) == []
    assert layouts((4, 6), (2,), local=(24,)) == []


def test_an_axis_of_one_rank_and_no_mesh() -> None:
    assert layouts((4,), (1,), partial=True) == [(R,)]
    assert layouts((4,), ()) == [()]


def test_parts_are_never_empty() -> None:
    assert layouts((0,), (2,)) == [(R,)]
