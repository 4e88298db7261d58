"""Places above messages between ranks: the rank that is wrong is named, not the one that gets what it sends."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.jobs import job_files
from tantamount import read_job
from tantamount.answers import refine
from tantamount.verdict import Verdict

WHOLE = """
    x: float32[4, 3]
    w: float32[3, 3]
    v: float32[3, 3]
    h = mm(x, w)
    t = aten.tanh.default(h)
    u = aten.gelu.default(t)
    y = mm(u, v)
    z = aten.exp.default(y)
    -> z
"""
FIRST = """
    x: float32[4, 3]
    w: float32[3, 3]
    v: float32[3, 3]
    h = mm(x, w)
    t = aten.tanh.default(h)
    u = aten.gelu.default(t)
    s = _c10d_functional.isend.default(u, 1, 0, "pp")
    -> h
"""
SECOND = """
    x: float32[4, 3]
    w: float32[3, 3]
    v: float32[3, 3]
    e = aten.empty.memory_format([4, 3])
    r = _c10d_functional.irecv.default(e, 0, 0, "pp")
    g = _c10d_functional.wait_tensor.default(r)
    y = mm(g, v)
    z = aten.exp.default(y)
    -> z
"""


@pytest.mark.parametrize(
    ("right", "wrong", "place", "rank", "kind"),
    [
        ("gelu.default(t)", "relu.default(t)", "u", 0, "operation"),
        ("tanh.default(h)", "sigmoid.default(h)", "t", 0, "operation"),
        ("t = aten.tanh.default(h)", "t = aten.mul.Tensor(h, 1.0)", "t", 0, "missing"),
        ("isend.default(u", "isend.default(t", "t", 0, "missing"),
        ("exp.default(y)", "neg.default(y)", "z", 1, "operation"),
    ],
)
def test_the_rank_that_sends_what_is_wrong(
    right: str, wrong: str, place: str, rank: int, kind: str, tmp_path: Path
) -> None:
    texts = [text.replace(right, wrong) for text in (FIRST, SECOND)]
    tables = '[inputs]\ndefault = "Replicate()"\n[outputs]\nz = "rank(1)"\n'
    report = refine(read_job(job_files(tmp_path, WHOLE, texts, tables, {"pp": 2}, {"pp": ("pp",)})))
    assert report.verdict is Verdict.REFUTED
    found = report.mismatch
    assert found is not None
    assert (found.implementation, found.kind) == (place, kind), found.headline
    assert found.rank == rank, found.headline
