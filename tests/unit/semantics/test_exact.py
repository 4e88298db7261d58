"""Programs computed as machines do: wrapped integers, rounded floats, and what is known of every result."""

from __future__ import annotations

import numpy as np
import pytest

from support.jobs import typed_graph
from tantamount.ir.types import DType
from tantamount.ops.algebra import Tensor
from tantamount.semantics.exact import Discontinuous, Exact, Held, evaluate
from tantamount.semantics.rounding import rounded, wrapped


def held(text: str, interpretation: Exact | None = None, **inputs: object) -> Held:
    graph = typed_graph(text)
    arrays = {name: np.asarray(value) for name, value in inputs.items()}
    found = evaluate(graph, arrays, interpretation)[graph.outputs[0].node]
    assert isinstance(found, Tensor)
    return found.value


def test_integers_wrap_around_after_every_operator() -> None:
    exact = Exact()
    text = "x: int8[4]\ny = aten.abs.default(x)\nz = add(y, y)\n-> z"
    assert held(text, exact, x=[-128, 127, 64, -1]).array.tolist() == [0, -2, -128, 2]
    assert exact.wraps == 2
    assert held("x: uint8[2]\ny = aten.neg.default(x)\n-> y", x=[0, 1]).array.tolist() == [0, 255]
    assert held("x: int64[2]\ny = mul(x, x)\n-> y", x=[2**32 + 1, 2**62]).array.tolist() == [2**33 + 1, 0]


def test_the_least_integer_is_no_exception() -> None:
    low = -(2**63)
    text = "x: int64[2]\ny: int64[2]\nz = aten.minimum.default(x, y)\n-> z"
    assert held(text, x=[low, 5], y=[0, 7]).array.tolist() == [low, 5]


def test_what_integers_never_reach_does_not_count_as_wrapping() -> None:
    exact = Exact()
    held("x: int8[2]\ny = add(x, 1)\n-> y", exact, x=[-128, 3])
    assert exact.wraps == 1  # 129 may have been reached, for all that the bound says
    exact = Exact()
    held("x: int8[2]\ny = add(x, 1)\n-> y", exact, x=[-100, 3])
    assert exact.wraps == 0


@pytest.mark.parametrize(
    ("value", "dtype", "expected"),
    [
        (2049.0, DType.FLOAT16, 2048.0),
        (70000.0, DType.FLOAT16, np.inf),
        (257.0, DType.BFLOAT16, 256.0),
        (259.0, DType.BFLOAT16, 260.0),
        (2.0**24 + 1, DType.FLOAT32, 2.0**24),
        (2.0**-133, DType.BFLOAT16, 2.0**-133),
        (2.0**-135, DType.BFLOAT16, 0.0),
        (3.4e38, DType.BFLOAT16, np.inf),
    ],
)
def test_floats_are_rounded_to_the_nearest_ties_to_even(value: float, dtype: DType, expected: float) -> None:
    assert rounded(np.array([value, -value]), dtype).tolist() == [expected, -expected]


def test_unbounded_integers_are_wrapped() -> None:
    assert wrapped(np.array([2**70 + 5, -(2**63) - 1], dtype=object), DType.INT64).tolist() == [5, 2**63 - 1]


def test_sums_are_exact_as_long_as_every_partial_sum_is() -> None:
    text = "x: float16[64, 16]\nw: float16[16, 4]\ny = mm(x, w)\n-> y"
    assert held(text, x=np.full((64, 16), 3), w=np.full((16, 4), 5)).exact
    lost = held(text, x=np.full((64, 16), 15), w=np.full((16, 4), 15))  # up to 3600, above 2^11
    assert not lost.exact
    assert lost.error >= 2  # the spacing there


def test_the_bound_is_of_all_terms_and_not_of_their_sum() -> None:
    text = "x: float16[2]\ny = mul(x, 1024)\nz = sub(y, y)\n-> z"
    assert not held(text, x=[2, 2]).exact  # 2048 + 2048 on the way to 0


def test_means_over_a_power_of_two_are_exact_and_others_are_not() -> None:
    text = "x: float32[{}]\ny = aten.mean.dim(x, [0])\n-> y"
    assert held(text.format(8), x=np.arange(8)).exact
    assert not held(text.format(7), x=np.arange(7)).exact


def test_what_is_inexact_may_not_jump() -> None:
    text = "x: float32[3]\ny = aten.exp.default(x)\nz = aten.floor.default(y)\n-> z"
    with pytest.raises(Discontinuous):
        held(text, x=[1, 2, 3])
    assert held("x: float32[3]\ny = aten.floor.default(x)\n-> y", x=[1.5, 2, 3]).exact


def test_error_bounds_hold_of_another_way_of_computing() -> None:
    text = "x: float32[8, 33]\ny = softmax(x, 1, False)\nz = aten.sigmoid.default(y)\n-> z"
    x = np.random.default_rng(0).integers(-5, 6, (8, 33))
    found = held(text, x=x)
    e = np.exp(x.astype(np.float32))
    other = np.float32(1) / (np.float32(1) + np.exp(-(e / e.sum(1, keepdims=True, dtype=np.float32))))
    assert 0 < found.error < 1e-4
    assert np.max(np.abs(other - found.array)) <= found.error


def test_places_among_equal_elements_are_flagged() -> None:
    exact = Exact()
    held("x: float32[3]\ny = aten.argmax.default(x, 0)\n-> y", exact, x=[1, 2, 2])
    assert [flag.what for flag in exact.flags] == ["tie"]
    exact = Exact()
    held("x: float32[3]\ny = aten.argmax.default(x, 0)\n-> y", exact, x=[1, 1, 2])
    assert exact.flags == []
