"""The operators' definitions in exact arithmetic: on whole numbers it is what the reference computes."""

from __future__ import annotations

import numpy as np
import pytest

from support.jobs import graph_of
from tantamount.certificate import residues
from tantamount.certificate.exact import Exact
from tantamount.certificate.residues import FIELDS, Residues
from tantamount.ir.graph import Graph
from tantamount.ops.algebra import Tensor
from tantamount.ops.execute import run
from tantamount.semantics.interpret import interpret

WHOLE = """
x: float32[3, 4]
w: float32[4, 5]
m = mm(x, w)
t = transpose(m, 0, 1)
s = sum_dims(t, [1], True)
e = expand(s, [5, 3])
d = sub(t, e)
p = mul(d, d)
c = cat([p, t], 0)
k = slice(c, 0, 2, 9, 3)
v = view(k, [9])
-> v
"""


def exactly(graph: Graph, inputs: dict[str, np.ndarray], seed: int = 0) -> dict[str, Residues]:
    of = FIELDS[0]
    on = Exact(of, seed=seed)
    given = {
        node.name: Tensor(node.type.shape, node.type.dtype, residues.of_integers(inputs[node.name], of))
        for node in graph.inputs
        if node.type is not None
    }
    done = run(graph, on, given)
    return {name: value.value for name, value in done.items() if isinstance(value, Tensor)}


def test_on_whole_numbers_it_agrees_with_the_reference() -> None:
    graph = graph_of(WHOLE)
    draw = np.random.default_rng(0)
    inputs = {"x": draw.integers(-9, 10, (3, 4)).astype(float), "w": draw.integers(-9, 10, (4, 5)).astype(float)}
    found, wanted = exactly(graph, inputs), interpret(graph, inputs)
    for node in graph.nodes:
        assert np.array_equal(found[node.name].modp, wanted.array(node.name).astype(np.int64) % FIELDS[0].p), node.name
        assert not found[node.name].loose


@pytest.mark.parametrize(
    ("left", "right", "equal"),
    [
        ("y = softmax(x, 1, False)", "c = add(x, 3)\ny = softmax(c, 1, False)", True),  # a shift changes nothing
        ("y = softmax(x, 1, False)", "c = mul(x, 3)\ny = softmax(c, 1, False)", False),
        ("y = gelu(x)", "c = add(x, 0)\ny = gelu(c)", True),
        ("y = gelu(x)", "y = relu(x)", False),
        ("a = tanh(x)\ny = mul(a, -1)", "b = mul(x, -1)\ny = tanh(b)", True),  # odd
        ("a = mul(x, x)\ny = add(a, x)", "a = add(x, 1)\ny = mul(a, x)", True),
    ],
)
def test_identities_hold_and_others_do_not(left: str, right: str, equal: bool) -> None:
    inputs = {"x": np.random.default_rng(1).integers(-1000, 1000, (3, 4)).astype(float)}
    values = [exactly(graph_of(f"x: float32[3, 4]\n{text}\n-> y"), inputs, seed=5)["y"] for text in (left, right)]
    assert np.array_equal(values[0].modp, values[1].modp) == equal
