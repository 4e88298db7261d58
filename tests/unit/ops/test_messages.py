"""Messages between ranks that run different programs: who gets what, and what hangs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from tantamount.errors import UserError
from tantamount.ir.graph import Argument, Graph, Node, Output, Ref, Source
from tantamount.ir.mesh import Mesh
from tantamount.ir.types import DType, TensorType
from tantamount.ops.check import check_graph
from tantamount.semantics.interpret import Evaluation, interpret_ranks

PAIR = Mesh({"pp": 2}, {"pp": ("pp",)})
GRID = Mesh({"dp": 2, "pp": 2}, {"pp": ("pp",), "world": ("dp", "pp")})
X = TensorType((2, 3), DType.FLOAT64)


class Program:
    """A graph under construction: input ``x``, then one node per call."""

    def __init__(self, rank: int, *, shape: Sequence[int] = (2, 3)) -> None:
        self.nodes = [Node("x", "input", "x", type=TensorType(tuple(shape), DType.FLOAT64))]
        self.rank = rank

    def call(self, name: str, target: str, *args: Argument) -> Program:
        source = Source("pipeline.py", 10 + len(self.nodes))
        self.nodes.append(Node(name, "call", target, args, source=source))
        return self

    def send(self, name: str, value: str, peer: int, tag: int = 0, group: str = "pp") -> Program:
        return self.call(name, "_c10d_functional.isend.default", Ref(value), peer, tag, group)

    def receive(self, name: str, peer: int, tag: int = 0, group: str = "pp", buffer: str = "x") -> Program:
        return self.call(name, "_c10d_functional.irecv.default", Ref(buffer), peer, tag, group)

    def wait(self, name: str, value: str) -> Program:
        return self.call(name, "_c10d_functional.wait_tensor.default", Ref(value))

    def scale(self, name: str, value: str, by: float) -> Program:
        return self.call(name, "aten.mul.Tensor", Ref(value), by)

    def graph(self) -> Graph:
        outputs = tuple(Output(node.name, node.name) for node in self.nodes if "batch" not in node.name)
        return Graph(tuple(self.nodes), outputs, path=f"rank{self.rank}.json")


def execute(programs: Sequence[Program], mesh: Mesh = PAIR) -> list[Evaluation]:
    graphs = [program.graph() for program in programs]
    sizes = {name: mesh.group_size(name) for name in mesh.groups}
    for graph in graphs:
        check_graph(graph, sizes)
    return interpret_ranks(graphs, mesh, [given(program) for program in programs])


def given(program: Program) -> Mapping[str, Any]:
    type_ = program.nodes[0].type
    assert type_ is not None
    return {"x": np.arange(float(np.prod(type_.shape))).reshape(type_.shape) + 100 * program.rank}


def test_a_message_arrives() -> None:
    first = Program(0).scale("y", "x", 3.0).send("s", "y", 1)
    second = Program(1).receive("r", 0).wait("w", "r").scale("z", "w", 2.0)
    found = execute([first, second])
    np.testing.assert_array_equal(found[1].array("z"), 6 * given(first)["x"])
    assert found[0].array("s").shape == (0,)


def test_the_kth_send_belongs_to_the_kth_receive_of_its_tag() -> None:
    first = Program(0).scale("a", "x", 2.0).scale("b", "x", 3.0).scale("c", "x", 5.0)
    first.send("s1", "a", 1).send("s2", "b", 1, tag=7).send("s3", "c", 1)
    second = Program(1).receive("t", 0, tag=7).receive("r1", 0).receive("r2", 0)
    found = execute([first, second])[1]
    x = given(first)["x"]
    for name, factor in (("t", 3), ("r1", 2), ("r2", 5)):
        np.testing.assert_array_equal(found.array(name), factor * x)


def test_receives_posted_before_sends_do_not_wait_for_each_other() -> None:
    ranks = [Program(rank).receive("r", 1 - rank).send("s", "x", 1 - rank).wait("w", "r") for rank in range(2)]
    found = execute(ranks)
    for rank in range(2):
        np.testing.assert_array_equal(found[rank].array("w"), given(ranks[1 - rank])["x"])


def test_peers_are_positions_in_the_group() -> None:
    """In the grid [[0, 1], [2, 3]], position 1 of rank 2's pipeline is rank 3."""
    ranks = [
        Program(rank).send("s", "x", 1) if rank % 2 == 0 else Program(rank).receive("r", 0).scale("z", "r", 1.0)
        for rank in range(4)
    ]
    found = execute(ranks, GRID)
    np.testing.assert_array_equal(found[1].array("z"), given(ranks[0])["x"])
    np.testing.assert_array_equal(found[3].array("z"), given(ranks[2])["x"])


def test_a_message_keeps_its_elements_in_a_buffer_of_another_shape() -> None:
    first, second = Program(0).send("s", "x", 1), Program(1, shape=(6,)).receive("r", 0)
    np.testing.assert_array_equal(execute([first, second])[1].array("r"), given(first)["x"].reshape(6))


def test_a_batch_has_a_result_for_each_message() -> None:
    def batch(rank: int) -> Program:
        program = Program(rank)
        program.call(
            "batch", "_c10d_functional.batch_p2p_ops.default",
            ("irecv", "isend"), (1 - rank, 1 - rank), (0, 0), (Ref("x"), Ref("x")), "pp",
        )  # fmt: skip
        return program.call("r", "getitem", Ref("batch"), 0).wait("w", "r")

    ranks = [batch(rank) for rank in range(2)]
    found = execute(ranks)
    for rank in range(2):
        np.testing.assert_array_equal(found[rank].array("w"), given(ranks[1 - rank])["x"])


def test_an_item_of_a_batch_does_not_wait_for_the_batch() -> None:
    first = Program(0)
    first.call(
        "batch", "_c10d_functional.batch_p2p_ops.default", ("irecv",), (1,), (0,), (Ref("x"),), "pp"
    ).call("r", "getitem", Ref("batch"), 0).send("s", "x", 1).wait("w", "r")  # fmt: skip
    second = Program(1).receive("r", 0).wait("w", "r").send("s", "w", 0)
    np.testing.assert_array_equal(execute([first, second])[0].array("w"), given(first)["x"])


def test_messages_among_collectives() -> None:
    """Rank 1 gets a message between two reductions that all ranks take part in."""
    reduce = "_c10d_functional.all_reduce.default"
    first = Program(0).call("a", reduce, Ref("x"), "sum", "pp").send("s", "a", 1)
    first.call("b", reduce, Ref("x"), "sum", "pp")
    second = Program(1).call("a", reduce, Ref("x"), "sum", "pp").receive("r", 0).scale("z", "r", 2.0)
    second.call("b", reduce, Ref("z"), "sum", "pp")
    found = execute([first, second])
    x, y = given(first)["x"], given(second)["x"]
    np.testing.assert_array_equal(found[0].array("b"), x + 2 * (x + y))


def test_splits_that_differ_by_rank() -> None:
    """Rank 0 sends one row to itself and two to rank 1, rank 1 sends all of its one row to rank 0."""
    exchange = "_c10d_functional.all_to_all_single.default"
    first = Program(0, shape=(3, 2)).call("y", exchange, Ref("x"), (1, 1), (1, 2), "pp")
    second = Program(1, shape=(1, 2)).call("y", exchange, Ref("x"), (2, 0), (1, 0), "pp")
    found = execute([first, second])
    x, y = given(first)["x"], given(second)["x"]
    np.testing.assert_array_equal(found[0].array("y"), np.concatenate([x[:1], y]))
    np.testing.assert_array_equal(found[1].array("y"), x[1:])


def test_splits_that_contradict_each_other() -> None:
    exchange = "_c10d_functional.all_to_all_single.default"
    ranks = [Program(rank, shape=(4, 2)).call("y", exchange, Ref("x"), (1, 3), (1, 3), "pp") for rank in range(2)]
    with pytest.raises(UserError, match=r"member 0 expects parts of sizes \[1, 3\] and is sent \[1, 1\]"):
        execute(ranks)


# ---------------------------------------------------------------------------------------------- what hangs
def refused(programs: Sequence[Program], mesh: Mesh = PAIR) -> str:
    with pytest.raises(UserError) as caught:
        execute(programs, mesh)
    return str(caught.value)


def test_a_send_that_nobody_receives() -> None:
    text = refused([Program(0).send("s", "x", 1), Program(1).scale("y", "x", 2.0)])
    assert "rank 0 has finished: nothing answers isend s to rank 1" in text
    assert "pipeline.py:11" in text
    assert "rank 1 has finished" in text


def test_a_receive_that_nobody_sends() -> None:
    text = refused([Program(0), Program(1).receive("r", 0).wait("w", "r")])
    assert "rank 1 waits in w (pipeline.py:12): nothing answers irecv r from rank 0" in text


def test_another_tag_is_another_message() -> None:
    text = refused([Program(0).send("s", "x", 1, tag=3), Program(1).receive("r", 0, tag=4).wait("w", "r")])
    assert "isend s to rank 1, tag 3" in text
    assert "irecv r from rank 0, tag 4" in text


def test_ranks_that_both_receive_first() -> None:
    ranks = [Program(rank).receive("r", 1 - rank).wait("w", "r").send("s", "w", 1 - rank) for rank in range(2)]
    text = refused(ranks)
    assert "rank 0 waits in w" in text
    assert "rank 1 waits in w" in text


def test_ranks_that_both_wait_for_their_sends_first() -> None:
    ranks = [Program(rank).send("s", "x", 1 - rank).wait("v", "s").receive("r", 1 - rank) for rank in range(2)]
    assert "rank 0 waits in v (pipeline.py:12): nothing answers isend s to rank 1" in refused(ranks)


def test_a_message_against_a_collective() -> None:
    first = Program(0).call("a", "_c10d_functional.all_reduce.default", Ref("x"), "sum", "pp").send("s", "a", 1)
    second = Program(1).receive("r", 0).wait("w", "r")
    second.call("a", "_c10d_functional.all_reduce.default", Ref("x"), "sum", "pp")
    text = refused([first, second])
    assert "rank 0 waits in a for ranks [0, 1]" in text
    assert "rank 1 waits in w" in text


def test_a_buffer_of_another_size() -> None:
    text = refused([Program(0).send("s", "x", 1), Program(1, shape=(7,)).receive("r", 0)])
    assert "float64[7] on rank 1" in text
    assert "float64[2, 3], which s sends on rank 0" in text


def test_a_peer_outside_the_group() -> None:
    assert "peers are positions in the group" in refused([Program(0).send("s", "x", 2), Program(1)])


def test_a_specification_sends_nothing() -> None:
    with pytest.raises(UserError, match="a message in a process group of one rank"):
        check_graph(Program(0).send("s", "x", 0).graph(), None)
