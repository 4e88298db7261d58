"""Masks that are written out row by row are taken for the bands that they are, and for nothing else."""

from __future__ import annotations

import pytest

from support.jobs import typed_graph
from tantamount.answers import compare
from tantamount.comparison.written_masks import with_masks_as_bands
from tantamount.ir.job import Job
from tantamount.ir.mesh import Mesh
from tantamount.ir.relation import Expectation, InputRelation

SIZE = 6
SOFTMAX = "x = add(s, m)\ny = aten._softmax.default(x, -1, False)\n-> y"


def written(window: int, wrong: dict[int, int] | None = None) -> str:
    """A mask of a window, row by row; ``wrong`` rows begin elsewhere."""
    lines = ["s: float32[6, 6]", "m0 = aten.full.default([6, 6], -inf, dtype=float32)"]
    for k in range(SIZE):
        start = (wrong or {}).get(k, max(0, k - window + 1))
        lines += [
            f"r{k} = aten.select.int(m{k}, 0, {k})",
            f"z{k} = aten.full.default([{k + 1 - start}], 0.0, dtype=float32)",
            f"w{k} = aten.slice_scatter.default(r{k}, z{k}, 0, {start}, {k + 1})",
            f"m{k + 1} = aten.select_scatter.default(m{k}, w{k}, 0, {k})",
        ]
    return "\n".join([*lines, f"m = aten.clone.default(m{SIZE})", SOFTMAX])


def compared(window: int) -> str:
    return f"""
        s: float32[6, 6]
        i = aten.arange.default(6)
        j = aten.unsqueeze.default(i, 1)
        d = sub(j, i)
        a = aten.ge.Scalar(d, 0)
        b = aten.lt.Scalar(d, {window})
        k = aten.logical_and.default(a, b)
        n = aten.logical_not.default(k)
        x = aten.masked_fill.Scalar(s, n, -inf)
        y = aten._softmax.default(x, -1, False)
        -> y
    """


def job_of(first: str, second: str) -> Job:
    graphs = typed_graph(first), typed_graph(second)
    outputs = {"y": Expectation("y", (), text="Replicate()")}
    return Job("masks", graphs[0], (graphs[1],), Mesh(), {"s": InputRelation("s", ())}, outputs)


@pytest.mark.parametrize("window", [2, SIZE])
def test_a_window_that_is_written_out(window: int) -> None:
    job = job_of(compared(window), written(window))
    changed, assumed = with_masks_as_bands(job)
    assert assumed == ()
    assert changed.specification is job.specification
    assert len(changed.implementation[0].by_name["m"].args) == 2  # a reshape of a comparison
    assert compare(job).proved


def test_another_window_differs() -> None:
    assert not compare(job_of(compared(3), written(2))).proved


def test_what_is_no_band_stays() -> None:
    job = job_of(written(2, {4: 1}), written(2, {4: 1}))
    assert with_masks_as_bands(job) == (job, ())


def test_what_depends_on_inputs_or_is_short_stays() -> None:
    given = written(2).replace("m0 = aten.full.default([6, 6], -inf, dtype=float32)", "m0 = mul(s, 0)")
    for job in (job_of(given, given), job_of(compared(2), compared(2))):
        assert with_masks_as_bands(job) == (job, ())
