"""All ranks executed at once: the same numbers as rank by rank."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from support.graphs_of_samples import called
from support.training_steps import Steps, training_step
from tantamount.errors import TantamountError
from tantamount.ir.graph import Graph, Node, Output, Ref
from tantamount.ir.mesh import Mesh
from tantamount.ir.types import TensorType
from tantamount.samples.operators.table import SAMPLES, Operand, Sample
from tantamount.semantics.interpret import Evaluation, interpret_ranks, random_inputs
from tantamount.semantics.stacked import interpret_stacked

MESH = Mesh({"a": 2, "b": 3}, {"a": ("a",), "b": ("b",), "both": ("b", "a")})


def both(graph: Graph, mesh: Mesh) -> tuple[list[Evaluation] | None, list[Evaluation]]:
    graphs = [graph] * mesh.world_size
    inputs = [random_inputs(graph, seed) for seed in range(mesh.world_size)]
    with np.errstate(all="ignore"):
        return interpret_stacked(graphs, mesh, inputs), interpret_ranks(graphs, mesh, inputs)


def compared(found: list[Evaluation], wanted: list[Evaluation]) -> None:
    for one, other in zip(found, wanted, strict=True):
        for name, value in other.values_by_node.items():
            mine = one.values_by_node[name]
            for x, y in zip(*(v if isinstance(v, tuple) else (v,) for v in (mine, value)), strict=True):
                assert (x is None) == (y is None), name
                if x is not None and y is not None:
                    assert isinstance(x, np.ndarray)
                    np.testing.assert_allclose(x, y, rtol=1e-9, atol=1e-12, err_msg=name)


def test_every_operator_gives_the_same_numbers() -> None:
    mesh, together = Mesh({"a": 2}, {}), 0
    for sample in SAMPLES[::11]:
        try:
            found, wanted = both(called(sample), mesh)
        except TantamountError:
            continue
        if found is not None:
            together += 1
            compared(found, wanted)
    assert together > 90


COLLECTIVES = (
    ("all_reduce.default", ("sum",)),
    ("all_gather_into_tensor.default", (None,)),
    ("reduce_scatter_tensor.default", ("sum", None)),
    ("broadcast.default", (1,)),
    ("all_to_all_single.default", (None, None)),
)


@pytest.mark.parametrize("group", ["a", "b", "both"])
@pytest.mark.parametrize(("name", "more"), COLLECTIVES, ids=[name for name, _ in COLLECTIVES])
def test_collectives_give_the_same_numbers(name: str, more: tuple[Any, ...], group: str) -> None:
    size = MESH.group_size(group)
    sizes = tuple(size if one is None else one for one in more)
    if name.startswith("all_to_all"):
        sizes = tuple((6 // size,) * size for _ in sizes)
    x = Node("x", "input", "x", type=TensorType((6, 2), SAMPLES[0].args[0].dtype))
    y = Node("y", "call", f"_c10d_functional.{name}", (Ref("x"), *sizes, group))
    found, wanted = both(Graph((x, y), (Output("y", "y"),)), MESH)
    assert found is not None
    compared(found, wanted)


def test_a_whole_training_step(tmp_path: Any) -> None:
    job = training_step(tmp_path, Steps(layers=2, tp=2, dp=2))
    inputs = [random_inputs(graph, rank) for rank, graph in enumerate(job.implementation)]
    found = interpret_stacked(job.implementation, job.mesh, inputs)
    assert found is not None
    compared(found, interpret_ranks(job.implementation, job.mesh, inputs))


def test_what_is_drawn_is_executed_rank_by_rank() -> None:
    graph = called(Sample("aten.native_dropout.default", (Operand((4, 4)), 0.5, True)))
    inputs = [random_inputs(graph, 0)] * 2
    assert interpret_stacked([graph] * 2, Mesh({"a": 2}, {}), inputs) is None


def step(factor: float, group: str) -> Graph:
    """A product that is added up over a group, with a number of its own."""
    x = Node("x", "input", "x", type=TensorType((4,), SAMPLES[0].args[0].dtype))
    y = Node("y", "call", "aten.mul.Scalar", (Ref("x"), factor))
    z = Node("z", "call", "_c10d_functional.all_reduce.default", (Ref("y"), "sum", group))
    return Graph((x, y, z, Node("e", "call", "aten.exp.default", (Ref("z"),))), (Output("e", "e"),))


@pytest.mark.parametrize("group", ["a", "b", "both"])
@pytest.mark.parametrize("noise", [0, 1])
def test_ranks_are_executed_together_along_the_axes_that_they_have_one_program_along(group: str, noise: int) -> None:
    """Two programs along a, one along b: the numbers of a program are not those of another."""
    one, other = step(2.0, group), step(3.0, group)
    graphs = [one] * 3 + [other] * 3
    inputs = [random_inputs(one, seed) for seed in range(6)]
    found = interpret_stacked(graphs, MESH, inputs, noise=noise)
    assert found is not None
    compared(found, interpret_ranks(graphs, MESH, inputs, noise=noise))
    exact = interpret_ranks(graphs, MESH, inputs)
    assert all(np.array_equal(x.array("e"), y.array("e")) for x, y in zip(found, exact, strict=True)) == (not noise)


def test_what_is_noted_inside_of_a_collective_is_noted() -> None:
    graph = step(1e200, "a")
    x = np.full(4, 1e200)
    found = interpret_stacked([graph] * 6, MESH, [{"x": x}] * 6)
    assert found is not None
    assert "overflow" in found[0].left_range


def test_ranks_with_other_programs_are_executed_rank_by_rank() -> None:
    one, other = (called(Sample("aten.mul.Scalar", (Operand((4,)), factor))) for factor in (2, 3))
    inputs = [random_inputs(one, 0)] * 2
    assert interpret_stacked([one, other], Mesh({"a": 2}, {}), inputs) is None
