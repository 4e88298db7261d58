"""Parameters are computed from a checkpoint where they are read."""

from __future__ import annotations

from support.jobs import graph_of
from tantamount.comparison.prologue import when_read


def test_parameters_are_loaded_before_their_first_reader_but_for_draws() -> None:
    graph = graph_of(
        """x: float32[4]
        w: float32[4]
        a = mul(w, 2)
        r = aten.rand.default([4])
        b = mul(a, r)
        c = mul(w, 3)
        d = mul(c, c)
        y = mul(x, x)
        z = mul(y, b)
        q = mul(z, d)
        -> q"""
    )
    ordered = when_read(graph, {"a", "r", "b", "c", "d"})
    assert [node.name for node in ordered.nodes] == ["x", "w", "r", "y", "a", "b", "z", "c", "d", "q"]
