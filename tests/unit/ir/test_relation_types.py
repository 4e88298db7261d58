"""What placements and clean expressions mean for shapes."""

from __future__ import annotations

from itertools import pairwise

import pytest

from tantamount.ir.mesh import Mesh
from tantamount.ir.relation import Concat, Partial, Permute, RankTensor, Replicate, Reshape, Shard, Slice
from tantamount.ir.relation_text import parse_relation
from tantamount.ir.relation_types import RelationProblem, chunk, local_box, local_shape, normalise_placements, resolve
from tantamount.ir.types import DType, TensorType
from tantamount.limits import Limits


@pytest.mark.parametrize(
    ("size", "parts", "sizes"),
    [
        (10, 4, [3, 3, 3, 1]),
        (8, 4, [2, 2, 2, 2]),
        (5, 4, [2, 2, 1, 0]),
        (3, 4, [1, 1, 1, 0]),
        (0, 2, [0, 0]),
        (7, 1, [7]),
    ],
)
def test_chunk_follows_torch(size: int, parts: int, sizes: list[int]) -> None:
    boxes = [chunk(0, size, parts, index) for index in range(parts)]
    assert [stop - start for start, stop in boxes] == sizes
    assert boxes[0][0] == 0
    assert all(a[1] == b[0] for a, b in pairwise(boxes))
    assert boxes[-1][1] == size


def test_local_boxes_on_two_axes() -> None:
    mesh = Mesh({"dp": 2, "tp": 2})
    boxes = [local_box((8, 4), (Shard(0), Shard(1)), mesh, rank) for rank in range(4)]
    assert boxes == [((0, 4), (0, 2)), ((0, 4), (2, 4)), ((4, 8), (0, 2)), ((4, 8), (2, 4))]


def test_one_dimension_cut_twice_first_axis_outermost() -> None:
    mesh = Mesh({"dp": 2, "tp": 2})
    boxes = [local_box((6,), (Shard(0), Shard(0)), mesh, rank)[0] for rank in range(4)]
    assert boxes == [(0, 2), (2, 3), (3, 5), (5, 6)]


def test_replicate_and_partial_keep_the_shape() -> None:
    assert local_shape((4, 2), (Replicate(), Partial()), Mesh({"a": 3, "b": 2}), 5) == (4, 2)


def test_placements_count_from_the_front() -> None:
    assert normalise_placements((4, 2), (Shard(-1), Replicate())) == (Shard(1), Replicate())
    with pytest.raises(RelationProblem, match=r"Shard\(2\) of a tensor with 2 dimensions"):
        normalise_placements((4, 2), (Shard(2),))


TENSORS = {
    "a": TensorType((4, 6), DType.FLOAT32),
    "b": TensorType((2, 6), DType.BFLOAT16),
    "i": TensorType((4, 6), DType.INT64),
}


def _resolve(text: str) -> tuple[object, TensorType]:
    def tensor(term: RankTensor) -> tuple[RankTensor, TensorType]:
        name = term.name or "a"
        return RankTensor(term.rank, name), TENSORS[name]

    expression = parse_relation(text, "x", Limits())
    assert not isinstance(expression, (Replicate, Shard, Partial))
    return resolve(expression, tensor)


@pytest.mark.parametrize(
    ("text", "shape"),
    [
        ("rank(0)", (4, 6)),
        ("rank(0)[1:3]", (2, 6)),
        ("rank(0)[:, -2:]", (4, 2)),
        ("rank(0)[::3, 1:6:2]", (2, 3)),
        ("rank(0)[2:2]", (0, 6)),
        ('concat(rank(0), rank(1, "b"), dim=0)', (6, 6)),
        ("concat(rank(0), rank(1), dim=-1)", (4, 12)),
        ("sum(rank(0), rank(1))", (4, 6)),
        ("transpose(rank(0), 0, -1)", (6, 4)),
        ("unflatten(rank(0), -1, [3, 2])", (4, 3, 2)),
        ("unflatten(transpose(rank(0), 0, 1)[0:2], 1, [2, 2])", (2, 2, 2)),
        ("permute(rank(0), [1, 0])", (6, 4)),
        ("reshape(rank(0), [2, -1, 3])", (2, 4, 3)),
        ("reshape(rank(0), [24])", (24,)),
    ],
)
def test_shapes(text: str, shape: tuple[int, ...]) -> None:
    assert _resolve(text)[1].shape == shape


def test_resolved_expressions_are_explicit() -> None:
    assert _resolve("rank(2)[:, -2:]")[0] == Slice(RankTensor(2, "a"), ((0, 4, 1), (4, 6, 1)))
    assert _resolve("concat(rank(0), dim=-1)")[0] == Concat((RankTensor(0, "a"),), 1)
    assert _resolve("transpose(rank(0), 0, -1)")[0] == Permute(RankTensor(0, "a"), (1, 0))
    assert _resolve("unflatten(rank(0), 1, [3, 2])")[0] == Reshape(RankTensor(0, "a"), (4, 3, 2))
    assert _resolve("reshape(rank(0), [-1, 8])")[0] == Reshape(RankTensor(0, "a"), (3, 8))


@pytest.mark.parametrize(
    ("text", "clause"),
    [
        ("rank(0)[0:5]", "slice 0:5 of dimension 0, which has size 4"),
        ("rank(0)[3:2]", "slice 3:2"),
        ("rank(0)[-5:]", "slice -5:"),
        ("rank(0)[:, :, :]", "3 slices of float32[4, 6]"),
        ("concat(rank(0), rank(1), dim=2)", "concat along dimension 2 of a tensor with 2 dimensions"),
        ('concat(rank(0), rank(1, "b"), dim=1)', "concat along dimension 1 of float32[4, 6] and bfloat16[2, 6]"),
        ('sum(rank(0), rank(1, "b"))', "sum of float32[4, 6] and bfloat16[2, 6]"),
        ('sum(rank(0), rank(1, "i"))', "sum of float32[4, 6] and int64[4, 6]"),
        ("transpose(rank(0), 0, 2)", "transpose with dimension 2"),
        ("unflatten(rank(0), 2, [6])", "unflatten of dimension 2 of a tensor with 2 dimensions"),
        ("unflatten(rank(0), 1, [4, 2])", "unflatten of dimension 1, which has size 6, to [4, 2]"),
        ("unflatten(rank(0), 1, [-3, -2])", "unflatten of dimension 1"),
        ("permute(rank(0), [0, 0])", "permute [0, 0]"),
        ("permute(rank(0), [0])", "permute [0]"),
        ("reshape(rank(0), [5, -1])", "reshape of float32[4, 6] (24 elements) to [5, -1]"),
        ("reshape(rank(0), [-1, -1])", "reshape"),
        ("reshape(rank(0), [-2, -12])", "reshape"),
        ("reshape(rank(0), [0, -1])", "reshape"),
    ],
)
def test_what_does_not_fit(text: str, clause: str) -> None:
    with pytest.raises(RelationProblem) as caught:
        _resolve(text)
    assert clause in str(caught.value)
