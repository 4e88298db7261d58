"""Whole graphs: inputs, constants, several results, flags with their node, random inputs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tantamount.errors import UserError
from tantamount.ir.graph import Argument, Constant, Graph, Node, Output, Ref
from tantamount.ir.mesh import Mesh
from tantamount.ir.types import DType, TensorType
from tantamount.semantics.interpret import interpret, interpret_ranks, random_constants, random_inputs
from tantamount.semantics.reference import Flag

F32, I64, B = DType.FLOAT32, DType.INT64, DType.BOOL


def given(name: str, *shape: int, dtype: DType = F32) -> Node:
    return Node(name, "input", name, type=TensorType(shape, dtype))


def call(name: str, target: str, *args: Argument) -> Node:
    return Node(name, "call", target, args)


def constant(name: str, *shape: int) -> Node:
    return Node(name, "constant", f"_{name}", type=TensorType(shape, F32))


def graph(*nodes: Node, **more: Any) -> Graph:
    return Graph(nodes, (Output("out", nodes[-1].name),), **more)


def test_every_node_has_a_value() -> None:
    found = interpret(
        graph(
            given("x", 2, 3),
            call("parts", "aten.split_with_sizes.default", Ref("x"), (1, 2), 1),
            call("right", "getitem", Ref("parts"), 1),
            call("small", "aten.lt.Scalar", Ref("right"), 2.5),
            call("count", "aten.sum.default", Ref("small")),
        ),
        {"x": np.arange(6).reshape(2, 3)},
    )
    assert list(found) == ["x", "parts", "right", "small", "count"]
    assert found.array("x").dtype == np.float64
    np.testing.assert_array_equal(found.array("right"), [[1, 2], [4, 5]])
    assert found.array("small").dtype == np.bool_
    assert found.array("count") == 2
    assert found.array("count").dtype == np.int64
    parts = found["parts"]
    assert isinstance(parts, tuple)
    assert len(parts) == 2
    with pytest.raises(KeyError, match="several results"):
        found.array("parts")
    assert found.flags == ()


ADD = graph(given("x", 2), constant("c", 2), call("y", "aten.add.Tensor", Ref("x"), Ref("c")))


def test_constants() -> None:
    x = {"x": np.zeros(2)}
    recorded = graph(*ADD.nodes, constants={"_c": Constant(TensorType((2,), F32), (1.0, 2.5))})
    np.testing.assert_array_equal(interpret(recorded, x, constants=7).array("y"), [1, 2.5])
    np.testing.assert_array_equal(interpret(ADD, x, constants=7).array("y"), [7, 7])
    named = random_constants([ADD, ADD], 0)
    np.testing.assert_array_equal(interpret(ADD, x, constants=named).array("y"), named["_c"])
    for nothing in (None, {}):
        with pytest.raises(UserError) as caught:
            interpret(ADD, x, constants=nothing)
        assert caught.value.code == "constant-missing"
    with pytest.raises(UserError) as caught:
        interpret(ADD, x, constants={"_c": np.zeros(3)})
    assert caught.value.code == "constant-type"


@pytest.mark.parametrize(
    ("inputs", "code", "text"),
    [
        ({}, "input-missing", "input x"),
        ({"x": np.zeros(3)}, "input-type", r"float64\[3\]"),
        ({"x": np.zeros(2, dtype=complex)}, "input-type", "complex128"),
    ],
)
def test_inputs_that_do_not_fit(inputs: Any, code: str, text: str) -> None:
    with pytest.raises(UserError, match=text) as caught:
        interpret(ADD, inputs, constants=0)
    assert caught.value.code == code


def test_floats_are_not_integers() -> None:
    with pytest.raises(UserError, match=r"needed: int64\[2\]"):
        interpret(graph(given("i", 2, dtype=I64)), {"i": np.zeros(2)})


EMBEDDING = graph(
    given("w", 5, 2),
    given("i", 3, dtype=I64),
    call("e", "aten.embedding.default", Ref("w"), Ref("i")),
    call("s", "aten.sum.default", Ref("e")),
)


def test_flags_name_their_node() -> None:
    found = interpret(EMBEDDING, {"w": np.ones((5, 2)), "i": np.array([0, 5, 9])})
    assert found.flags == (Flag("out-of-range", 2, "e"),)
    assert np.isnan(found.array("s"))


def test_flags_name_their_node_on_every_rank() -> None:
    w = np.ones((5, 2))
    given_to = [{"w": w, "i": np.array([0, 1, 2])}, {"w": w, "i": np.array([0, 1, 9])}]
    first, second = interpret_ranks([EMBEDDING] * 2, Mesh({"tp": 2}), given_to)
    assert first.flags == ()
    assert second.flags == (Flag("out-of-range", 1, "e"),)


def test_unknowns_differ_between_ranks() -> None:
    empty = graph(call("e", "aten.empty.memory_format", (4,)))
    first, second = interpret_ranks([empty] * 2, Mesh({"tp": 2}), [{}, {}])
    assert not np.any(first.array("e") == second.array("e"))


def test_random_inputs_follow_types_and_bounds() -> None:
    everything = graph(given("x", 40), given("i", 400, dtype=I64), given("j", 400, dtype=I64), given("b", 40, dtype=B))
    found = random_inputs(everything, 3, {"i": 50})
    assert {name: value.dtype.kind for name, value in found.items()} == {"x": "f", "i": "i", "j": "i", "b": "b"}
    assert (found["i"].min(), found["i"].max()) == (0, 49)
    assert (found["j"].min(), found["j"].max()) == (0, 3)
    again, other = random_inputs(everything, 3, {"i": 50}), random_inputs(everything, 4)
    assert all(np.array_equal(found[name], again[name]) for name in found)
    assert not np.array_equal(found["x"], other["x"])
