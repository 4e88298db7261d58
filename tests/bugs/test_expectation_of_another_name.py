"""An output that is expected to be a tensor of another name, or of another rank, and is wrong because a sum is missing.

Looking for the place asked the first rank for a node of the output's own name, and ended in an internal error."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.jobs import job_files
from tantamount import read_job
from tantamount.answers import refine
from tantamount.verdict import Verdict

SPECIFICATION = "x: float32[4, 6]\nw: float32[6, 8]\np = mm(x, w)\ny = relu(p)\n-> wanted=y"
RANK = "x: float32[4, 3]\nw: float32[3, 8]\np = mm(x, w)\ny = relu(p)\n-> {name}=y"


@pytest.mark.parametrize("expected", ['rank(0, "found")', 'rank(1, "found")', 'rank(1, "here")'])
def test_the_place_is_found(expected: str, tmp_path: Path) -> None:
    names = ("found", "here") if "here" in expected else ("found", "found")
    ranks = [RANK.format(name=name) for name in names]
    tables = f"[inputs]\nx = 'Shard(1)'\nw = 'Shard(0)'\n[outputs]\nwanted = '{expected}'"
    report = refine(read_job(job_files(tmp_path, SPECIFICATION, ranks, tables, {"tp": 2}, {"g": ("tp",)})))
    assert report.verdict is Verdict.REFUTED
    assert report.mismatch is not None
    assert "a sum over tp" in report.mismatch.difference or "here" in expected
