"""Vectors that hold many tensors are taken apart where parts of them are read, and compute what they did."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from tantamount.answers import verify_plan
from tantamount.verdict import Verdict

torch = pytest.importorskip("torch")

from torch import Tensor  # noqa: E402
from torch.fx.experimental.proxy_tensor import make_fx  # noqa: E402

from tantamount.capture.torch.pipelining import plan_of_schedule  # noqa: E402
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


def in_step(graph: Any, inputs: list[list[Tensor]]) -> list[list[Tensor]]:
    """The outputs of ranks that run one graph, node by node together."""
    known: list[dict[Any, Any]] = [{} for _ in inputs]
    given = [iter(own) for own in inputs]
    for node in graph.nodes:
        if node.op == "output":
            return [[env[n] for n in node.args[0]] for env in known]
        if node.op == "placeholder":
            made = [next(own) for own in given]
        else:
            args = [torch.fx.map_arg(node.args, env.__getitem__) for env in known]
            name = node.target.__name__.partition(".")[0]
            if name == "wait_tensor":
                made = [own[0] for own in args]
            elif name == "all_gather_into_tensor":
                made = [torch.cat([own[0] for own in args])] * len(args)
            elif name in ("all_reduce", "reduce_scatter_tensor"):
                whole = sum(own[0] for own in args)
                made = [whole] * len(args) if name == "all_reduce" else list(whole.chunk(len(args)))
            else:
                made = [node.target(*own) for own in args]
        for env, one in zip(known, made, strict=True):
            env[node] = one
    raise AssertionError("no output")


def test_what_fsdp_does_with_gradients_is_done_tensor_by_tensor() -> None:
    """Columns of a matrix with a row for each rank, summed, scaled and read: one by one, after a
    second sum, twice; what ranks then have is what they had, number by number."""
    c10d = torch.ops._c10d_functional
    sizes, ranks = (6, 10, 3), 2

    def reduced(*grads: Tensor) -> tuple[Tensor, ...]:
        matrix = torch.cat([aten.view(aten.clone(one), [ranks, -1]) for one in grads], 1)
        scaled = aten.mul(aten.view(matrix, [-1]), 0.5)
        own = c10d.wait_tensor(c10d.reduce_scatter_tensor(scaled, "sum", ranks, "fsdp"))
        twice = aten.div(c10d.wait_tensor(c10d.all_reduce(own, "sum", "fsdp")), 4.0)
        return *(aten.slice(x, 0, a, b) for x in (own, twice) for a, b in ((6, 16), (0, 6), (16, 19), (0, 6))), matrix

    given = [[torch.randint(-9, 9, (ranks, size, 1)).double() for size in sizes] for _ in range(ranks)]
    traced = make_fx(reduced, tracing_mode="fake")(*given[0])
    wanted = in_step(traced.graph, given)
    calls = without_buffers(traced.graph)
    traced.graph.lint()
    for own, before in zip(in_step(traced.graph, given), wanted, strict=True):
        assert all(torch.equal(one, other) for one, other in zip(own, before, strict=True))
    assert [(call.number, call.part) for call in calls] == [(k, p) for k in (0, 1) for p in ((0, 6), (6, 16), (16, 19))]


def test_what_one_rank_adds_up_alone_is_taken_apart_as_well() -> None:
    """Experts that no other rank has: a matrix with one row, and no collective."""

    def kept(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        matrix = torch.cat([aten.view(one, [1, -1]) for one in (x, y)], 1)
        scaled = aten.div(aten.view(matrix, [-1]), 2.0)
        return aten.view(aten.slice(scaled, 0, 0, 6), [2, 3]), aten.slice(scaled, 0, 6, 10)

    given = torch.rand(2, 3), torch.rand(4)
    traced = make_fx(kept)(*given)
    wanted = traced(*given)
    assert without_buffers(traced.graph) == ()
    traced.recompile()
    assert all(torch.equal(found, one) for found, one in zip(traced(*given), wanted, strict=True))
    assert not traced.graph.find_nodes(op="call_function", target=aten.cat.default)


def test_what_cannot_be_taken_apart_stays_whole() -> None:
    """Reads across two gradients; gradients that are converted where they are put together; rows that are not those
    of ranks."""
    c10d = torch.ops._c10d_functional

    def reduced(rows: int, *grads: Tensor) -> Tensor:
        matrix = aten.view(torch.cat([aten.view(one, [rows, -1]) for one in grads], 1), [-1])
        summed = c10d.wait_tensor(c10d.reduce_scatter_tensor(matrix, "sum", 2, "fsdp"))
        return aten.slice(summed, 0, 0 if rows == 2 else 1, 5)

    for rows, second in ((2, torch.rand(8)), (1, torch.rand(8)), (4, torch.rand(8)), (2, torch.rand(8).half())):
        first = torch.rand(12 if second.dtype == torch.half else 8)
        graph = make_fx(lambda *given, n=rows: reduced(n, *given), tracing_mode="fake")(first, second).graph
        assert [call.part for call in without_buffers(graph)] == [None]


class Odd(torch.nn.Module):
    """Parameters whose rows have no length in common."""

    def __init__(self) -> None:
        super().__init__()
        self.up, self.norm, self.down = torch.nn.Linear(6, 22, bias=False), torch.nn.RMSNorm(22), torch.nn.Linear(22, 6)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.down(self.norm(self.up(x)))


def _sharded(module: torch.nn.Module, mesh: Any) -> torch.nn.Module:
    from torch.distributed.fsdp import fully_shard

    return fully_shard(module, mesh=mesh["dp"])


def test_reductions_of_odd_sizes_are_proved_and_wrong_ones_refuted(tmp_path: Path) -> None:
    from torch.distributed.pipelining import ScheduleGPipe

    with torch.device("meta"):
        stages = [[Odd()], [Odd()]]
    path = plan_of_schedule(
        ScheduleGPipe, stages, microbatches=2, mesh={"pp": 2, "dp": 2}, parallelize=_sharded,
        loss=torch.nn.functional.mse_loss, batch=torch.empty(8, 6), target=torch.empty(8, 6),
        optimizer=torch.optim.SGD, folder=tmp_path,
    )  # fmt: skip
    report = verify_plan(path)
    assert report.verdict is Verdict.PROVED, report.text()
    file = tmp_path / "Odd_reduce.json.gz"
    right = json.loads(gzip.decompress(file.read_bytes()))

    def is_sum(node: Any) -> bool:
        return "reduce_scatter" in str(node["target"])

    def scaled(node: Any) -> Any:
        return {**node, "args": [node["args"][0], node["args"][1] * 2]}

    def local(node: Any) -> Any:  # no sum over ranks, but a slice of what this one has
        rows = node["shape"][0]
        return {**node, "target": "aten.slice.Tensor", "args": [node["args"][0], 0, 0, rows]}

    divisions = [n["name"] for n in right["nodes"] if n["op"] == "call_function" and "div" in n["target"]]
    sums = [n["name"] for n in right["nodes"] if n["op"] == "call_function" and is_sum(n)]
    assert len(sums) == 4
    for name, change in ((divisions[0], scaled), (sums[1], local)):
        wrong = {**right, "nodes": [change(node) if node["name"] == name else node for node in right["nodes"]]}
        file.write_bytes(gzip.compress(json.dumps(wrong).encode()))
        report = verify_plan(path)
        wrong_parts = {part.part for part in report.parts if part.verdict is Verdict.REFUTED}
        assert wrong_parts == {"Odd_reduce", "Odd2_reduce"}, report.text()  # they share a file


def test_whole_calls_are_told_with_what_nobody_reads_of_them() -> None:
    """A call that is taken out, and the length of a vector of which a part is read: other ranks must have the same."""
    c10d = torch.ops._c10d_functional

    def told(length: int, more: bool) -> object:
        def reduced(x: Tensor, padding: Tensor) -> Tensor:
            summed = c10d.wait_tensor(c10d.all_reduce(torch.cat([x, padding]), "sum", "dp"))
            if more:
                c10d.wait_tensor(c10d.all_gather_into_tensor(torch.cat([x, padding]), 2, "dp"))
            return aten.slice(summed, 0, 0, 4)

        return without_buffers(make_fx(reduced, tracing_mode="fake")(torch.rand(4), torch.rand(length)).graph)

    first = told(2, False)
    assert first == told(2, False)
    assert first not in (told(3, False), told(2, True))
