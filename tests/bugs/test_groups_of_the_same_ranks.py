"""Two groups of the same ranks that ranks call crosswise: the first call of one rank met the first of the other, of
another group, and ``x`` of one added to ``y`` of the other was PROVED to be the sum of ``x``."""

from __future__ import annotations

from pathlib import Path

import pytest

import tantamount as tt
from support.jobs import job_files
from tantamount.errors import UserError

SPEC = "x: float32[4]\ny: float32[4]\na = mul(x, 1)\nb = mul(y, 1)\n-> a, b"
RANK = 'x: float32[4]\ny: float32[4]\na = all_reduce(x, "sum", "{}")\nb = all_reduce(y, "sum", "{}")\n-> a, b'
TABLES = '[inputs]\ndefault = "Partial(\\"sum\\")"\n[outputs]\ndefault = "Replicate()"'


def job(folder: Path, *names: tuple[str, str]) -> Path:
    groups = {name: ("dp",) for pair in names for name in pair}
    return job_files(folder, SPEC, [RANK.format(*pair) for pair in names], TABLES, {"dp": 2}, groups)


def test_groups_of_the_same_ranks_are_called_in_one_order(tmp_path: Path) -> None:
    assert tt.refine(tt.read_job(job(tmp_path, ("g", "h"), ("g", "h")))).proved
    assert tt.refine(tt.read_job(job(tmp_path, ("1", "2"), ("3", "4")))).proved  # frameworks number them apart
    with pytest.raises(UserError, match="one order"):
        tt.read_job(job(tmp_path, ("g", "h"), ("h", "g")))
