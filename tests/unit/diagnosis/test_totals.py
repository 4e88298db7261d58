"""Sums over ranks, found again by their values."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.jobs import job_files
from tantamount import read_job
from tantamount.diagnosis.replay import Replay
from tantamount.diagnosis.totals import Totals
from tantamount.execution.plans import Scale, draw
from tantamount.execution.reduced import planned
from tantamount.proof import Options

SPECIFICATION = """
    x: float32[4, 6]
    w: float32[6, 8]
    h = mm(x, w)
    t = aten.tanh.default(h)
    z = aten.log.default(h)
    -> t
"""
RANK = """
    x: float32[2, 3]
    w: float32[3, 8]
    h = mm(x, w)
    r = all_reduce(h, "sum", "tp")
    u = aten.neg.default(h)
    t = aten.tanh.default(r)
    -> t
"""


@pytest.mark.parametrize(
    ("name", "nodes"),
    [
        ("h", {"h"}),  # over the second axis, a part of the rows
        ("t", set()),  # what is no sum is none of the summands of anything
        ("z", None),  # logarithms of negative numbers say nothing
    ],
)
def test_what_may_hold_summands(name: str, nodes: set[str] | None, tmp_path: Path) -> None:
    tables = """
[inputs]
x = ["Shard(0)", "Shard(1)"]
w = ["Replicate()", "Shard(0)"]
[outputs]
t = ["Shard(0)", "Replicate()"]
"""
    path = job_files(tmp_path, SPECIFICATION, [RANK] * 4, tables, {"dp": 2, "tp": 2}, {"tp": ("tp",)})
    plan = planned(read_job(path), Options())
    assert Totals(Replay(plan, draw(plan, 0, Scale()), 0)).like(name) == nodes
