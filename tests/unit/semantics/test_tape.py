"""Programs executed by their primitives, as these were noted at another execution: the same numbers, bit by bit."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from support.graphs_of_samples import called
from support.training_steps import Steps, training_step
from tantamount.errors import TantamountError
from tantamount.ir.graph import Graph, Node, Output, Ref
from tantamount.ir.mesh import Mesh
from tantamount.ir.types import DType, TensorType
from tantamount.ops.algebra import Interpretation, Tensor
from tantamount.ops.classes import rank_classes
from tantamount.ops.functions import Ties
from tantamount.samples.operators.table import SAMPLES, Operand, Sample
from tantamount.semantics.interpret import Evaluation, input_tensors, interpret, interpret_ranks, random_inputs
from tantamount.semantics.stacked import interpret_stacked, run_changed, run_stacked
from tantamount.semantics.tape import Tape


def same(found: Evaluation, wanted: Evaluation) -> None:
    assert found.keys() == wanted.keys()
    for name, value in wanted.items():
        mine = found[name]
        for x, y in zip(*(v if isinstance(v, tuple) else (v,) for v in (mine, value)), strict=True):
            assert (x is None) == (y is None), name
            if x is not None and y is not None:
                assert x.dtype == y.dtype, name
                assert np.array_equal(x, y, equal_nan=x.dtype.kind == "f"), name
                assert np.array_equal(np.signbit(x), np.signbit(y)) or x.dtype.kind != "f", name
    assert found.flags == wanted.flags
    assert found.left_range == wanted.left_range


def test_every_operator_gives_the_same_numbers() -> None:
    """Also with rounding errors, and where it raises a flag, or data decide something."""
    executed, again = 0, 0
    for sample in SAMPLES[::4]:
        graph, tape = called(sample), Tape()
        with np.errstate(all="ignore"):
            for seed, noise, ties in ((0, 0, Ties.USUAL), (1, 0, Ties.REVERSED), (2, 3, Ties.USUAL)):
                inputs = random_inputs(graph, seed)
                try:
                    wanted = interpret(graph, inputs, seed=seed, noise=noise, ties=ties)
                except TantamountError as problem:
                    with pytest.raises(type(problem)):
                        interpret(graph, inputs, seed=seed, noise=noise, ties=ties, tape=tape)
                    continue
                same(interpret(graph, inputs, seed=seed, noise=noise, ties=ties, tape=tape), wanted)
                executed, again = executed + 1, again + tape.noted
    assert again > 0.9 * executed > 200


def test_what_data_decide_is_executed_anew() -> None:
    graph, tape = called(Sample("aten.nonzero.default", (Operand((6,)),))), Tape()
    for x in ([1.0, 0, 0, 2, 0, 0], [0.0, 1, 1, 1, 1, 0]):
        found = interpret(graph, {"x0": np.array(x)}, tape=tape)
        assert found.array("y")[:, 0].tolist() == [k for k, value in enumerate(x) if value]
    assert not tape.noted


@pytest.mark.parametrize("how", [interpret_ranks, interpret_stacked])
def test_a_training_step_of_several_ranks(tmp_path: Path, how: Callable[..., list[Evaluation]]) -> None:
    job, tape = training_step(tmp_path, Steps(layers=1, tp=2, dp=2)), Tape()
    for seed, noise in ((0, 0), (1, 0), (2, 1)):
        inputs = [random_inputs(graph, seed + rank) for rank, graph in enumerate(job.implementation)]
        found = how(job.implementation, job.mesh, inputs, noise=noise, seed=seed, tape=tape)
        for one, other in zip(found, how(job.implementation, job.mesh, inputs, noise=noise, seed=seed), strict=True):
            same(one, other)
    assert tape.noted


def of_rank(number: int) -> Graph:
    """A program with a number, an operand, and a part, which is none, of its own; and with memory that nobody wrote."""
    x = Node("x", "input", "x", type=TensorType((6, 4), DType.FLOAT32))
    m = Node("m", "call", "aten.mul.Scalar", (Ref("x"), float(number)))
    s = Node("s", "call", "aten.slice.Tensor", (Ref("m"), 0, number, number + 2))
    y = Node("y", "call", "_c10d_functional.all_reduce.default", (Ref("s"), "sum", "tp"))
    e = Node("e", "call", "aten.empty_like.default", (Ref("y"),))
    return Graph((x, m, s, y, e), (Output("y", "y"), Output("e", "e")))


@pytest.mark.parametrize("noise", [0, 2])
def test_ranks_whose_numbers_differ_are_executed_as_one(noise: int) -> None:
    graphs, mesh, tape = [of_rank(1), of_rank(3)], Mesh({"tp": 2}, {"tp": ("tp",)}), Tape()
    for seed in range(3):
        inputs = [random_inputs(graph, seed + rank) for rank, graph in enumerate(graphs)]
        wanted = interpret_ranks(graphs, mesh, inputs, seed=seed)
        found = interpret_stacked(
            graphs, mesh, inputs, seed=seed, noise=noise, tape=tape, classes=rank_classes(graphs, mesh)
        )
        assert found is not None
        for one, other in zip(found, wanted, strict=True):
            for name in other:
                np.testing.assert_allclose(one.array(name), other.array(name), rtol=1e-13)
    assert tape.noted


def test_changes_of_a_class_that_does_not_begin_with_the_rank_of_its_number() -> None:
    """Ranks 0 and 1 run one program, 2 and 3 another: the second class begins with rank 2."""
    x = Node("x", "input", "x", type=TensorType((4,), DType.FLOAT32))
    twice = Node("m", "call", "aten.mul.Scalar", (Ref("x"), 2.0))
    root = Node("m", "call", "aten.tanh.default", (Ref("x"),))
    y = Node("y", "call", "aten.add.Scalar", (Ref("m"), 1.0))
    first, second = (Graph((x, m, y), (Output("y", "y"),)) for m in (twice, root))
    graphs, mesh, tape = [first, first, second, second], Mesh({"a": 2, "b": 2}, {}), Tape()
    classes = rank_classes(graphs, mesh)
    assert [one.ranks for one in classes] == [(0, 1), (2, 3)]
    inputs = [random_inputs(graph, rank) for rank, graph in enumerate(graphs)]
    given = [input_tensors(graph, values) for graph, values in zip(graphs, inputs, strict=True)]
    together = run_stacked(graphs, mesh, given, tape=tape, classes=classes)
    assert together is not None
    changed = [{(3, "m"): np.full(4, float(k))} for k in range(3)]
    asked = [set[str](), {"y"}], [set[str](), {"m"}]
    found = run_changed(tape, classes, together.stacked, changed, *asked, lambda _: lambda *_: None, 0)
    for k, ranks in enumerate(found):
        own, other = ranks[3]["y"], ranks[2]["y"]
        assert isinstance(own, Tensor)
        assert isinstance(other, Tensor)
        assert np.array_equal(own.value, np.full(4, k + 1.0))
        assert np.allclose(other.value, np.tanh(inputs[2]["x"]) + 1)


def test_what_cannot_be_executed_as_one_is_not_tried_again() -> None:
    graph, tape = called(Sample("aten.native_dropout.default", (Operand((4, 4)), 0.5, True))), Tape()
    for _ in range(2):
        assert interpret_stacked([graph] * 2, Mesh({"a": 2}, {}), [random_inputs(graph, 0)] * 2, tape=tape) is None
    assert tape.refused


def test_what_is_too_much_to_be_kept_is_executed_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tantamount.semantics.tape._MOST", 1)
    graph, tape = of_rank(1), Tape()
    for seed in range(2):
        inputs = random_inputs(graph, seed)
        same(interpret(graph, inputs, tape=tape), interpret(graph, inputs))
    assert not tape.noted


def test_all_that_an_interpretation_is_asked_is_noted() -> None:
    from tantamount.semantics.tape import _Noting

    asked = {name for name, _ in inspect.getmembers(Interpretation, inspect.isfunction) if not name.startswith("_")}
    assert asked <= vars(_Noting).keys()
