"""Ranks in lock step: what collectives give on a 2 x 2 mesh, and ranks whose collectives do not fit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from tantamount.errors import UserError
from tantamount.ir.graph import Argument, Graph, Node, Output, Ref
from tantamount.ir.mesh import Mesh
from tantamount.ir.types import DType, TensorType
from tantamount.semantics.interpret import Evaluation, interpret_ranks

MESH = Mesh({"dp": 2, "tp": 2}, {"dp": ("dp",), "tp": ("tp",), "world": ("dp", "tp"), "turned": ("tp", "dp"), "me": ()})
ROWS = {"dp": [[0, 2], [1, 3]], "tp": [[0, 1], [2, 3]], "world": [[0, 1, 2, 3]], "turned": [[0, 2, 1, 3]]}
Call = tuple[str, tuple[Argument, ...]]


def calling(*calls: Call, path: str = "rank.json") -> Graph:
    """``x`` of shape (4, 3), then one call after the other, each on the result before it."""
    nodes = [Node("x", "input", "x", type=TensorType((4, 3), DType.FLOAT64))]
    for k, (name, attributes) in enumerate(calls):
        nodes.append(Node(f"y{k}", "call", f"_c10d_functional.{name}.default", (Ref(nodes[-1].name), *attributes)))
    return Graph(tuple(nodes), (Output("y", nodes[-1].name),), path=path)


def inputs() -> list[dict[str, Any]]:
    return [{"x": np.arange(12.0).reshape(4, 3) + 100 * rank} for rank in range(4)]


def everywhere(*calls: Call) -> list[Evaluation]:
    return interpret_ranks([calling(*calls)] * 4, MESH, inputs())


def members(group: str, rank: int) -> Sequence[int]:
    return next(row for row in ROWS[group] if rank in row)


@pytest.mark.parametrize("group", list(ROWS))
@pytest.mark.parametrize(("kind", "reduce"), [("sum", np.sum), ("avg", np.mean), ("max", np.max), ("min", np.min)])
def test_all_reduce(group: str, kind: str, reduce: Any) -> None:
    found = everywhere(("all_reduce", (kind, group)))
    for rank in range(4):
        wanted = reduce([inputs()[other]["x"] for other in members(group, rank)], axis=0)
        np.testing.assert_allclose(found[rank].array("y0"), wanted)


@pytest.mark.parametrize("group", list(ROWS))
def test_all_gather_follows_the_order_of_the_group(group: str) -> None:
    found = everywhere(("all_gather_into_tensor", (len(ROWS[group][0]), group)))
    for rank in range(4):
        wanted = np.concatenate([inputs()[other]["x"] for other in members(group, rank)])
        np.testing.assert_array_equal(found[rank].array("y0"), wanted)


@pytest.mark.parametrize("group", list(ROWS))
def test_reduce_scatter_follows_the_order_of_the_group(group: str) -> None:
    size = len(ROWS[group][0])
    found = everywhere(("reduce_scatter_tensor", ("sum", size, group)))
    for rank in range(4):
        row = members(group, rank)
        total = sum(inputs()[other]["x"] for other in row)
        np.testing.assert_array_equal(found[rank].array("y0"), np.split(total, size)[row.index(rank)])


def test_all_to_all() -> None:
    found = everywhere(("all_to_all_single", ((), (), "world")))
    for rank in range(4):
        wanted = np.stack([inputs()[other]["x"][rank] for other in range(4)])
        np.testing.assert_array_equal(found[rank].array("y0"), wanted)


@pytest.mark.parametrize("group", list(ROWS))
def test_broadcast_takes_a_position_in_the_group(group: str) -> None:
    found = everywhere(("broadcast", (1, group)))
    for rank in range(4):
        np.testing.assert_array_equal(found[rank].array("y0"), inputs()[members(group, rank)[1]]["x"])


def test_a_group_of_no_axes_is_the_rank_alone() -> None:
    found = everywhere(("all_reduce", ("sum", "me")))
    for rank in range(4):
        np.testing.assert_array_equal(found[rank].array("y0"), inputs()[rank]["x"])


def test_one_reduction_after_the_other_is_the_reduction_of_both() -> None:
    found = everywhere(("all_reduce", ("sum", "tp")), ("all_reduce", ("sum", "dp")))
    whole = everywhere(("all_reduce", ("sum", "world")))
    for rank in range(4):
        np.testing.assert_array_equal(found[rank].array("y1"), whole[rank].array("y0"))


def test_groups_advance_independently() -> None:
    """Ranks 0 and 1 reduce twice over tp before they meet the others, who reduce once."""
    twice = calling(("all_reduce", ("sum", "tp")), ("all_reduce", ("sum", "tp")), ("all_reduce", ("sum", "dp")))
    once = calling(("all_reduce", ("sum", "tp")), ("all_reduce", ("sum", "dp")))
    found = interpret_ranks([twice, twice, once, once], MESH, inputs())
    x = [given["x"] for given in inputs()]
    np.testing.assert_array_equal(found[0].array("y2"), 2 * (x[0] + x[1]) + x[2] + x[3])
    np.testing.assert_array_equal(found[3].array("y1"), found[0].array("y2"))


REDUCE: Call = ("all_reduce", ("sum", "tp"))


@pytest.mark.parametrize(
    ("odd", "found"),
    [
        (("all_reduce", ("max", "tp")), "reduce_op"),
        (("reduce_scatter_tensor", ("sum", 2, "tp")), "reduce_scatter_tensor"),
    ],
)
def test_another_collective_at_the_same_position(odd: Call, found: str) -> None:
    graphs = [calling(REDUCE), calling(odd, path="rank1.json"), calling(REDUCE), calling(REDUCE)]
    with pytest.raises(UserError, match=found) as caught:
        interpret_ranks(graphs, MESH, inputs())
    assert caught.value.code == "collective-mismatch"
    assert caught.value.place.startswith("rank1.json: node y0")
    assert "on rank 0" in caught.value.found
    assert "on rank 1" in caught.value.found


def test_another_shape_at_the_same_position() -> None:
    nodes = list(calling(REDUCE).nodes)
    nodes.insert(1, Node("part", "call", "aten.select.int", (Ref("x"), 0, 0)))
    nodes[2] = Node("y0", "call", nodes[2].target, (Ref("part"), *nodes[2].args[1:]))
    narrow = Graph(tuple(nodes), (Output("y", "y0"),), path="narrow.json")
    with pytest.raises(UserError) as caught:
        interpret_ranks([calling(REDUCE), narrow, calling(REDUCE), calling(REDUCE)], MESH, inputs())
    assert caught.value.code == "collective-mismatch"
    assert "float64[3]" in caught.value.found
    assert "float64[4, 3]" in caught.value.found


def deadlock(graphs: Sequence[Graph]) -> UserError:
    with pytest.raises(UserError) as caught:
        interpret_ranks(graphs, MESH, inputs())
    assert caught.value.code == "collective-deadlock"
    return caught.value


def test_ranks_that_wait_for_each_other() -> None:
    other: Call = ("all_reduce", ("sum", "dp"))
    first, second = calling(REDUCE, other), calling(other, REDUCE)
    error = deadlock([first, second, second, first])
    assert "rank 0 waits in y0 for ranks [0, 1]" in error.found
    assert "rank 1 waits in y0 for ranks [1, 3]" in error.found


def test_a_rank_that_never_calls() -> None:
    error = deadlock([calling(REDUCE), calling(), calling(REDUCE), calling(REDUCE)])
    assert "rank 0 waits in y0 for ranks [0, 1]" in error.found
    assert "has finished" in error.found


def test_members_in_another_order() -> None:
    graphs = [calling(("all_gather_into_tensor", (4, group))) for group in ("world", "turned", "world", "world")]
    assert "rank 1 waits in y0 for ranks [0, 2, 1, 3]" in deadlock(graphs).found


def test_an_unknown_group() -> None:
    with pytest.raises(UserError, match="'pp'") as caught:
        everywhere(("all_reduce", ("sum", "pp")))
    assert caught.value.code == "group-unknown"


def test_a_group_size_that_the_mesh_contradicts() -> None:
    with pytest.raises(UserError, match="group_size 3"):
        everywhere(("all_gather_into_tensor", (3, "tp")))


def test_one_graph_per_rank() -> None:
    with pytest.raises(UserError, match="3 graphs") as caught:
        interpret_ranks([calling()] * 3, MESH, inputs()[:3])
    assert caught.value.code == "mesh-size"
