"""Pieces for every rank, put together along another dimension: seen as a view and a permutation, the same values; and
what that is for: a wrong part of a plan is refuted on few ranks, however many there are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from support.jobs import typed_graph
from tantamount.capture.job import job_of
from tantamount.effort import Effort
from tantamount.ir.graph import Graph, Ref
from tantamount.ir.job import Job
from tantamount.ir.mesh import Mesh
from tantamount.plan.parts import Part, Runs
from tantamount.plan.prove import part_checker
from tantamount.reduction.folded import folded
from tantamount.reduction.meshes import shortened
from tantamount.refinement.job import refine_job
from tantamount.verdict import Verdict

torch = pytest.importorskip("torch")

PIECES = 8
SPLIT = "s = aten.split.Tensor(x, {length}, {dim})\n" + "\n".join(f"g{k} = getitem(s, {k})" for k in range(PIECES))


def pieces(order: list[int], dim: int, along: int, shape: tuple[int, ...], more: str = "") -> Graph:
    """A program that takes a tensor apart and puts the pieces together in some order."""
    listed = ", ".join(f"h{k}" if more and k == 3 else f"g{k}" for k in order)
    split = SPLIT.format(length=shape[dim] // PIECES, dim=dim)
    text = f"x: float32{list(shape)}\n{split}\n{more}\ny = cat([{listed}], {along})\n-> y"
    return typed_graph(text)


def values(graph: Graph, x: Any) -> Any:
    """The output of a program, by PyTorch."""
    known: dict[str, Any] = {"x": x}

    def read(argument: Any) -> Any:
        if isinstance(argument, tuple):
            return [read(one) for one in argument]
        return known[argument.name] if isinstance(argument, Ref) else argument

    for node in graph.nodes:
        if node.target == "getitem":
            known[node.name] = read(node.args[0])[node.args[1]]
        elif node.op == "call":
            name, overload = node.target.split(".")[1:]
            known[node.name] = getattr(getattr(torch.ops.aten, name), overload)(*map(read, node.args))
    return known[graph.outputs[0].node]


def alone(graph: Graph) -> Job:
    return Job("", graph, (graph,), Mesh(), {}, {})


@pytest.mark.parametrize(("dim", "along"), [(0, 0), (1, 0), (0, 1), (1, 2), (2, 1), (-1, -3), (2, 2)])
def test_it_computes_the_same(dim: int, along: int) -> None:
    shape = (8, 16, 24)
    graph = pieces([*range(PIECES)], dim, along, shape)
    (other,) = folded(alone(graph), 4).programs
    assert [node.target for node in other.nodes if node.op == "call"] == [
        "aten.reshape.default", "aten.permute.default", "aten.reshape.default",
    ]  # fmt: skip
    x = torch.randn(shape)
    assert torch.equal(values(graph, x), values(other, x))
    assert [node.type.shape for node in other.nodes if node.type][-1] == tuple(values(graph, x).shape)


@pytest.mark.parametrize(
    ("order", "more"),
    [
        ([1, 0, *range(2, PIECES)], ""),  # in another order
        ([*range(PIECES - 1)], ""),  # not all of them
        ([0, *range(PIECES - 1)], ""),  # one twice
        ([*range(PIECES)], "h3 = mul(g3, 1)"),  # one is no piece
        ([*range(PIECES)], "h3 = mul(g3, 3)"),  # though it has the number of one
    ],
)
def test_other_orders_are_left_as_they_are(order: list[int], more: str) -> None:
    graph = pieces(order, 1, 0, (8, 16), more)
    job = alone(graph)
    assert folded(job, 4) is job


# ---------------------------------------------------------------------------------------------- a part of ZeRO
def zero(ranks: int, kind: str, order: list[int]) -> Part:
    """A gradient that is reduced and scattered along its second dimension."""
    rows, columns = 6, 4 * ranks
    split = "s = aten.split.Tensor(d, 4, 1)\n" + "\n".join(f"g{k} = getitem(s, {k})" for k in range(ranks))
    listed = ", ".join(f"g{k}" for k in order)
    text = f"""d: float32[{rows}, {columns}]
        {split}
        c = cat([{listed}], 0)
        r = reduce_scatter(c, "{kind}", {ranks}, "dp")
        g = mul(r, 1)
        -> g"""
    groups: Mapping[str, int] = {"dp": ranks}
    graphs = {
        "spec": typed_graph(f"d: float32[{rows}, {columns}]\ng = mul(d, 1)\n-> g"), "impl": typed_graph(text, groups),
    }  # fmt: skip
    document = {
        "format": "job/1", "spec": {"graph": "spec"},
        "impl": {"graph": "impl", "mesh": {"dp": ranks}, "groups": {"dp": ["dp"]}},
        "inputs": {"d": ['Partial("sum")']}, "outputs": {"g": ["Shard(1)"]},
    }  # fmt: skip
    return Part("reduce", Runs.PIECE, job_of(document, graphs, "zero"))


@pytest.mark.parametrize("ranks", [32, 96])
def test_wrong_parts_of_many_ranks_are_refuted_on_few(ranks: int) -> None:
    right = zero(ranks, "sum", [*range(ranks)])
    assert shortened(right.job, ["dp"], Effort()).mesh.world_size == 2
    check = part_checker(refine_job)
    assert check(right).verdict is Verdict.PROVED
    found = check(zero(ranks, "max", [*range(ranks)]))
    assert (found.verdict, found.reduced) == (Verdict.REFUTED, "looked at on dp 2, at smaller sizes")


def test_pieces_in_another_order_are_never_made_fewer() -> None:
    wrong = zero(32, "sum", [1, 0, *range(2, 32)])
    assert shortened(wrong.job, ["dp"], Effort()) is wrong.job
    assert part_checker(refine_job)(wrong).verdict is Verdict.REFUTED
