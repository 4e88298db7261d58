"""Comparisons of numbers that both programs know are decided where rounding leaves no doubt, and only there."""

from __future__ import annotations

import pytest

from support.jobs import graph_of
from tantamount.comparison.decided import with_decided_comparisons
from tantamount.comparison.programs import pair_of
from tantamount.comparison.rounding import exact_constants
from tantamount.ir.graph import Graph
from tantamount.ir.job import Job
from tantamount.refinement import refine_job
from tantamount.verdict import Verdict

X = {"x": {"relation": 'rank(0, "x")'}}
SCALED = """
    x: float32[8]
    i = aten.arange.default(8)
    e = aten.div.Tensor(i, 8)
    f = aten.pow.Scalar(10000.0, e)
    long = aten.gt.Scalar(f, {})
    h = mul(f, 0.5)
    w = aten.where.self(long, h, f)
    y = mul(x, w)
    -> y
"""
BY_HAND = """
    x: float32[8]
    i = aten.arange.default(8)
    e = aten.div.Tensor(i, 8)
    f = aten.pow.Scalar(10000.0, e)
    a = slice(f, 0, 0, {0})
    b = slice(f, 0, {0}, 8)
    h = mul(b, 0.5)
    w = cat([a, h], 0)
    y = mul(x, w)
    -> y
"""


def pair(threshold: str, first: int) -> Job:
    return pair_of(graph_of(SCALED.format(threshold)), graph_of(BY_HAND.format(first)), inputs=X, guess=False).job


@pytest.mark.parametrize(("threshold", "first"), [("50.0", 4), ("99.9", 4), ("100.1", 5), ("0.5", 0), ("4000.0", 8)])
def test_what_rounding_does_not_touch_is_decided(threshold: str, first: int) -> None:
    job, assumed = with_decided_comparisons(pair(threshold, first))
    assert not assumed
    assert refine_job(job).verdict is Verdict.PROVED


def test_another_place_is_another_program() -> None:
    job, _ = with_decided_comparisons(pair("50.0", 5))
    assert refine_job(job).verdict is Verdict.REFUTED


@pytest.mark.parametrize("threshold", ["100.0", "1000.0000000000001"])
def test_a_tie_is_not_decided(threshold: str) -> None:
    """``10000 ** (4 / 8)`` is 100, and the float64 of it may be a neighbour."""
    job = pair(threshold, 4)
    assert with_decided_comparisons(job)[0] is job


def test_rounded_numbers_are_not_taken_for_exact_ones() -> None:
    """The cosine of 1e-9 is below 1, and its float64 is 1."""
    text = (
        "x: float32[1]\ni = aten.full.default([1], 1e-09)\nc = aten.cos.default(i)\nb = aten.lt.Scalar(c, 1.0)\n-> x, b"
    )
    graph: Graph = graph_of(text)
    assert "b" not in exact_constants(graph)
    assert exact_constants(graph)["c"].tolist() == [1.0]
