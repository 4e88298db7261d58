"""Ranks whose programs have different nodes, the first of which cuts its input into blocks."""

from __future__ import annotations

from pathlib import Path

from support.jobs import job_files
from tantamount.answers import refine
from tantamount.capture.job import read_job
from tantamount.proof.microbatches import copies_of
from tantamount.verdict import Verdict

SPECIFICATION = "x: float32[4, 2]\ny = mul(x, 2)\n-> y"
FIRST = """
x: float32[4, 2]
a = aten.slice.Tensor(x, 0, 0, 2)
b = aten.slice.Tensor(x, 0, 2, 4)
u = mul(a, 2)
v = mul(b, 2)
y = aten.cat.default([u, v])
-> y
"""
SECOND = "x: float32[4, 2]\nw = mul(x, 2)\ny = mul(w, 1)\n-> y"


def test_no_node_of_one_is_looked_for_in_the_other(tmp_path: Path) -> None:
    tables = '[inputs]\nx = "Replicate()"\n[outputs]\ny = "Replicate()"'
    job = read_job(job_files(tmp_path, SPECIFICATION, [FIRST, SECOND], tables, {"pp": 2}, {}))
    assert copies_of(job) is None
    assert refine(job).verdict is Verdict.PROVED
