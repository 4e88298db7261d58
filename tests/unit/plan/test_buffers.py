"""Vectors that hold many tensors are taken apart where parts of them are read, and compute what they did."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch import Tensor  # noqa: E402
from torch.fx.experimental.proxy_tensor import make_fx  # noqa: E402

from tantamount.capture.torch.training.buffers import without_buffers  # noqa: E402
from tantamount.capture.torch.training.ranks import capture_side  # noqa: E402

aten = torch.ops.aten


def run(x: Tensor, y: Tensor, z: Tensor) -> tuple[Tensor, ...]:
    """Three gradients in one vector, of which the second is replaced; read where they are, and across them."""
    whole = torch.empty(20)
    for start, part in ((0, x), (6, y), (14, z), (6, y * 3)):
        whole = aten.slice_scatter(whole, aten.view(part, [part.numel()]), 0, start, start + part.numel())
    scaled = aten.div(aten.mul(whole, 0.5), 4.0)
    first, second, third = (aten.slice(scaled, 0, a, b) for a, b in ((0, 6), (6, 14), (14, 20)))
    both = torch.cat([aten.view(first, [2, 3]).reshape(-1), third])
    return aten.view(second, [4, 2]), aten.slice(scaled, 0, 5, 9), aten.slice(both, 0, 6, 12), aten.slice(z, 0, 1, 3)


def test_parts_are_read_without_the_rest() -> None:
    given = torch.rand(2, 3), torch.rand(4, 2), torch.rand(6)
    traced = make_fx(run)(*given)
    wanted = traced(*given)
    before = [node.target for node in traced.graph.nodes]
    without_buffers(traced.graph)
    traced.graph.lint()
    traced.recompile()
    for found, one in zip(traced(*given), wanted, strict=True):
        assert torch.equal(found, one)
    reads = [node for node in traced.graph.nodes if node.target is aten.slice.Tensor]
    assert len(reads) == 2  # across two tensors, and of what was no buffer
    output = next(node for node in traced.graph.nodes if node.op == "output")
    read, _, _, _ = output.args[0]
    chain = read
    while chain.op == "call_function":
        assert chain.target is not aten.slice_scatter.default
        chain = chain.args[0]
    assert before.count(aten.slice.Tensor) == 6


def test_sums_over_ranks_are_those_of_parts() -> None:
    c10d = torch.ops._c10d_functional

    def reduced(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        whole = aten.slice_scatter(torch.empty(5), x, 0, 0, 2)
        whole = aten.slice_scatter(whole, y, 0, 2, 5)
        summed = c10d.wait_tensor(c10d.all_reduce(whole, "sum", "dp"))
        return aten.slice(summed, 0, 0, 2), aten.slice(summed, 0, 2, 5)

    graph = make_fx(reduced, tracing_mode="fake")(torch.rand(2), torch.rand(3)).graph
    without_buffers(graph)
    sums = [node for node in graph.nodes if node.target is c10d.all_reduce.default]
    assert [node.args for node in sums] == [(one, "sum", "dp") for one in graph.find_nodes(op="placeholder")]
    assert not graph.find_nodes(op="call_function", target=aten.slice_scatter.default)


def test_parts_of_a_sum_over_ranks_meet_their_places() -> None:
    """Ranks that put a vector together in different orders add up ``a`` and ``b``, as they did before it was taken
    apart, whatever they read first. Where they read other parts, the vector stays whole."""

    def operands(uneven: bool) -> list[list[str]]:
        def build(rank: int) -> Any:
            def run(a: Tensor, b: Tensor) -> dict[str, Tensor]:
                whole = torch.cat((b, a) if rank else (a, b))
                torch.distributed.all_reduce(whole)
                if uneven and rank:
                    return {"a": whole[3:].clone(), "b": torch.cat([whole[:1], whole[1:3]])}
                return {"a": whole[3:].clone(), "b": whole[:3].clone()} if rank else {"a": whole[:3], "b": whole[3:]}

            return run, (), {"kwargs": {"a": torch.empty(3), "b": torch.empty(3)}}

        side = capture_side(build, {"dp": 2}, "a test")
        return [[n.args[0].name for n in p.graph.nodes if "all_reduce" in str(n.target)] for p in side.programs]

    assert operands(uneven=False) == [["a", "b"], ["b", "a"]]
    assert operands(uneven=True) == [["cat"], ["cat"]]


def test_what_ranks_gather_is_gathered_part_by_part() -> None:
    """FSDP's parameters: columns of the rows that ranks gathered of vectors that hold many tensors."""
    c10d = torch.ops._c10d_functional

    def gathered(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        whole = aten.slice_scatter(torch.empty(5), x, 0, 0, 2)
        whole = aten.slice_scatter(whole, y, 0, 2, 5)
        parts = torch.cat([aten.view(part, [-1]) for part in aten.split_with_sizes(whole, [2, 3])])
        rows = aten.view(c10d.wait_tensor(c10d.all_gather_into_tensor(parts, 4, "dp")), [4, 5])
        return tuple(part.reshape(-1) for part in aten.split_with_sizes(rows, [2, 3], 1))

    graph = make_fx(gathered, tracing_mode="fake")(torch.rand(2), torch.rand(3)).graph
    calls = without_buffers(graph)
    graph.lint()
    gathers = [node for node in graph.nodes if node.target is c10d.all_gather_into_tensor.default]
    assert [node.args for node in gathers] == [(one, 4, "dp") for one in graph.find_nodes(op="placeholder")]
    assert [(call.number, call.part) for call in calls] == [(0, (0, 2)), (0, (2, 5))]
    (output,) = graph.find_nodes(op="output")
    assert [node.meta["val"].shape[0] for node in output.args[0]] == [8, 12]
