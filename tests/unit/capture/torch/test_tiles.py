"""Tensors as the parts that ranks hold: placements where they are, expressions where not."""

from __future__ import annotations

import pytest

pytest.importorskip("torch", reason="captures need PyTorch")

from tantamount.capture.torch.megatron.sizes import Sizes
from tantamount.capture.torch.tiles import Box, Tile, expression_of, placement_of
from tantamount.errors import UserError
from tantamount.ir.mesh import Mesh


def whole(box: Box, rank: int, name: str = "w") -> Tile:
    """A rank's tensor that is all of one part."""
    shape = tuple(stop - start for start, stop in box)
    return Tile(box, rank, name, tuple((0, size) for size in shape), shape)


def test_parts_that_are_cut_evenly_are_placements() -> None:
    rows = [whole(((0, 2), (0, 3)), 0), whole(((2, 4), (0, 3)), 1)]
    assert placement_of(rows, "w", (4, 3), Mesh({"tp": 2})) == "Shard(0)"
    both = [whole(((0, 4), (0, 3)), rank) for rank in range(2)]
    assert placement_of(both, "w", (4, 3), Mesh({"tp": 2})) == "Replicate()"
    four = [*rows, *(whole(tile.box, tile.rank + 2) for tile in rows)]
    assert placement_of(four, "w", (4, 3), Mesh({"dp": 2, "tp": 2})) == ["Replicate()", "Shard(0)"]


def test_parts_in_another_order_are_no_placement() -> None:
    exchanged = [whole(((2, 4), (0, 3)), 0), whole(((0, 2), (0, 3)), 1)]
    assert placement_of(exchanged, "w", (4, 3), Mesh({"tp": 2})) is None
    assert expression_of(exchanged, "w", (4, 3)) == "concat(rank(1), rank(0), dim=0)"


def test_halves_of_a_gated_unit() -> None:
    tiles = [
        Tile(((4 * half + 2 * rank, 4 * half + 2 * rank + 2),), rank, "w", ((2 * half, 2 * half + 2),), (4,))
        for half in range(2)
        for rank in range(2)
    ]
    assert placement_of(tiles, "w", (8,), Mesh({"tp": 2})) is None
    assert expression_of(tiles, "w", (8,)) == "concat(rank(0)[0:2], rank(1)[0:2], rank(0)[2:4], rank(1)[2:4], dim=0)"


def test_replicas_are_stated_to_be_equal() -> None:
    tiles = [whole(((0, 2),), 0, "expert.0"), whole(((0, 2),), 1, "expert.1")]
    assert expression_of(tiles, "expert.0", (2,)) == {
        "relation": "rank(0)",
        "equal": ['rank(0) == rank(1, "expert.1")'],
    }


def test_parts_with_a_gap_or_an_overlap_are_nothing() -> None:
    assert expression_of([whole(((0, 2),), 0), whole(((3, 4),), 1)], "w", (4,)) is None
    assert expression_of([whole(((0, 3),), 0), whole(((2, 4),), 1)], "w", (4,)) is None
    assert expression_of([whole(((0, 2),), 0)], "w", (4,)) is None


@pytest.mark.parametrize(
    ("sizes", "mesh"),
    [
        (Sizes(), {"tp": 1}),
        (Sizes(tensor=2), {"tp": 2}),
        (Sizes(tensor=2, data=4), {"dp": 4, "tp": 2}),
        (Sizes(data=2, expert=2), {"dp": 2}),
        (Sizes(tensor=2, data=4, expert=2), {"dp_edp": 2, "dp_ep": 2, "tp": 2}),
        (Sizes(tensor=4, data=4, expert=4, expert_tensor=2), {"dp_edp": 2, "dp_ep": 2, "tp_ep": 2, "tp_etp": 2}),
    ],
)
def test_mesh_of_sizes(sizes: Sizes, mesh: dict[str, int]) -> None:
    assert list(sizes.mesh().items()) == list(mesh.items())


@pytest.mark.parametrize(
    "wrong", [{"tensor": 0}, {"data": 2, "expert": 3}, {"tensor": 3, "data": 4, "expert_tensor": 2}]
)
def test_sizes_that_do_not_divide_are_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(UserError) as problem:
        Sizes(**wrong)
    assert problem.value.code == "capture-mesh"
    assert f"{next(iter(wrong))} = " in problem.value.found
