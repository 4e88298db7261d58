"""Which mesh axes are folded: those that no program depends on, and that no message crosses."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tantamount.errors import UserError
from tantamount.ir.graph import Argument, Graph, Node, Output, Ref
from tantamount.ir.mesh import Mesh
from tantamount.ir.types import DType, TensorType
from tantamount.ops.classes import rank_classes
from tantamount.semantics.interpret import interpret_ranks

AXES = {"pp": 2, "dp": 2, "tp": 2}
MESH = Mesh(AXES, {**{name: (name,) for name in AXES}, "all": tuple(AXES), "pair": ("pp", "tp"), "none": ()})
Calls = list[tuple[str, tuple[Argument, ...]]]


def graphs(program: Callable[[int, int, int], Calls], mesh: Mesh = MESH) -> list[Graph]:
    """One graph per rank: an input ``x``, then the calls on it."""
    found: list[Graph] = []
    for rank in range(mesh.world_size):
        nodes = [Node("x", "input", "x", type=TensorType((2, 2), DType.FLOAT64))]
        for target, args in program(*mesh.coordinates(rank)):
            nodes.append(Node(f"n{len(nodes)}", "call", target, (Ref("x"), *args)))
        found.append(Graph(tuple(nodes), (Output("out", nodes[-1].name),), path=f"rank {rank}"))
    return found


def send(peer: int, group: str, tag: int = 0) -> tuple[str, tuple[Argument, ...]]:
    return "_c10d_functional.isend.default", (peer, tag, group)


def receive(peer: int, group: str, tag: int = 0) -> tuple[str, tuple[Argument, ...]]:
    return "_c10d_functional.irecv.default", (peer, tag, group)


def exchanged(pp: int, group: str, peer: int, tag: int = 0) -> Calls:
    """The first stage sends to the second."""
    return [send(peer, group, tag)] if pp == 0 else [receive(peer, group, tag)]


PROGRAMS: dict[str, tuple[Callable[[int, int, int], Calls], tuple[str, ...]]] = {
    "one": (lambda pp, dp, tp: [("aten.sin.default", ())], ("pp", "dp", "tp")),
    "numbers": (lambda pp, dp, tp: [("aten.mul.Tensor", (float(4 * pp + 2 * dp + tp),))], ("pp", "dp", "tp")),
    "a_number_of_another_kind": (lambda pp, dp, tp: [("aten.mul.Tensor", (dp or 0.5,))], ("pp", "tp")),
    "stages": (lambda pp, dp, tp: [("aten.sin.default" if pp else "aten.cos.default", ())], ("dp", "tp")),
    "a_corner": (lambda pp, dp, tp: [("aten.sin.default" if dp * tp else "aten.cos.default", ())], ("pp",)),
    "groups": (
        lambda pp, dp, tp: [("_c10d_functional.all_reduce.default", ("sum", "dp" if tp else "all"))],
        ("pp", "dp"),
    ),
    "messages": (lambda pp, dp, tp: exchanged(pp, "pp", 1 - pp), ("dp", "tp")),
    "messages_in_the_world": (lambda pp, dp, tp: exchanged(pp, "all", 4 * (1 - pp) + 2 * dp + tp), ("dp", "tp")),
    "messages_that_cross": (lambda pp, dp, tp: exchanged(pp, "all", 4 * (1 - pp) + 2 * dp + 1 - tp), ("dp",)),
    "tags": (lambda pp, dp, tp: exchanged(pp, "pp", 1 - pp, tag=dp), ("tp",)),
    "a_ring": (lambda pp, dp, tp: [send(1 - dp, "dp"), receive(1 - dp, "dp")], ("pp", "tp")),
    "a_ring_around_stages": (
        lambda pp, dp, tp: [*([("aten.sin.default", ())] * tp), send(1 - dp, "dp"), receive(1 - dp, "dp")],
        ("pp",),
    ),
    "splits_of_a_pair": (
        lambda pp, dp, tp: [
            ("aten.sin.default" if pp else "aten.cos.default", ()),
            ("_c10d_functional.all_to_all_single.default", ((), (), "pair")),
        ],
        ("dp",),
    ),
}  # fmt: skip


@pytest.mark.parametrize(("program", "folded"), PROGRAMS.values(), ids=PROGRAMS)
def test_axes_that_are_folded(program: Callable[[int, int, int], Calls], folded: tuple[str, ...]) -> None:
    classes = rank_classes(graphs(program), MESH)
    assert tuple(classes[0].mesh.axes) == folded
    assert sorted(rank for one in classes for rank in one.ranks) == list(range(8))
    for one in classes:
        assert one.mesh.groups["all"] == folded
        assert one.leader == min(one.ranks)
        along = [k for k, name in enumerate(MESH.names) if name in folded]
        here = [MESH.coordinates(rank) for rank in one.ranks]
        assert [tuple(at[k] for k in along) for at in here] == [
            one.mesh.coordinates(k) for k in range(one.mesh.world_size)
        ]
        assert len({tuple(at[k] for k in range(3) if k not in along) for at in here}) == 1


def test_nothing_is_folded_if_nobody_wants_it() -> None:
    classes = rank_classes(graphs(PROGRAMS["one"][0]), MESH, fold=False)
    assert [one.ranks for one in classes] == [(rank,) for rank in range(8)]


def test_a_message_to_nobody_is_found_where_messages_are_matched() -> None:
    programs = graphs(lambda pp, dp, tp: exchanged(pp, "pp", 7))
    assert len(rank_classes(programs, MESH)) == 8
    with pytest.raises(UserError) as caught:
        interpret_ranks(programs, MESH, [{"x": np.zeros((2, 2))} for _ in programs])
    assert caught.value.code == "message-peer"
