"""Graphs executed in their own dtypes, and with some roundings left out."""

from __future__ import annotations

import numpy as np
import pytest

from support.jobs import typed_graph
from tantamount.errors import Unsupported
from tantamount.semantics.native import Native

X = {"x": np.array([1 / 3, -2.0])}


def test_what_is_rounded_and_what_is_handed_on() -> None:
    graph = typed_graph(
        "x: float64[2]\nb = aten._to_copy.default(x, dtype=bfloat16)\nr = aten.relu.default(b)\n"
        "h = mul(r, 0.5)\ny = aten._to_copy.default(h, dtype=float32)\n-> y"
    )
    native = Native(graph, X)
    assert native.rounding == ("b",)  # maxima, halves and wider types lose nothing
    assert native.values.array("y") == pytest.approx([0.166992, 0], abs=1e-6)
    assert native.without(("b",)).array("y") == pytest.approx([1 / 6, 0], abs=1e-15)
    assert native.without(()).array("y") == pytest.approx(native.values.array("y"), abs=0)


def test_every_rounding_that_is_not_left_out_stays() -> None:
    graph = typed_graph("x: float64[2]\nb = aten._to_copy.default(x, dtype=bfloat16)\ny = mul(b, b)\n-> y")
    native = Native(graph, X)
    assert native.rounding == ("b", "y")
    left = {names: float(native.without(names).array("y")[0]) for names in ((), ("b",), ("y",), ("b", "y"))}
    assert left["b", "y"] == pytest.approx(1 / 9, abs=1e-15)
    assert left["y",] == float(native.values.array("b")[0]) ** 2
    assert left["b",] == left[()] == 0.111328125  # of bfloat16


def test_a_type_without_a_format_is_refused() -> None:
    graph = typed_graph("x: float64[2]\nb = aten._to_copy.default(x, dtype=float8_e5m2)\n-> b")
    with pytest.raises(Unsupported, match="float8_e5m2"):
        Native(graph, X)
