"""Conditions that are made of the same parts were walked through once for every way to a part: where a quotient is
undefined, each quotient of it is, and of twenty in one another there are a million ways to the first."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.jobs import job_files
from support.nested_shapes import nested_shapes
from tantamount import read_job
from tantamount.effort import Effort
from tantamount.refinement.job import refine_job
from tantamount.verdict import Verdict

TABLES = '[inputs]\ndefault = "Replicate()"\n[outputs]\ndefault = "Replicate()"'


@pytest.mark.parametrize("wrong", [False, True])
def test_quotients_in_one_another(wrong: bool, tmp_path: Path) -> None:
    shape = next(shape for shape in nested_shapes() if shape.name == "quotients of sums")
    second = shape.wrong if wrong else shape.equal
    job = job_files(tmp_path, shape.program, [second], TABLES, {"r": 1}, {})
    report = refine_job(read_job(job), effort=Effort(seconds=60.0))
    assert "limit-timeout" not in [limit.name for limit in report.limits]
    assert (report.verdict is Verdict.REFUTED) is wrong
