"""A group that every rank calls by a name of its own is one group: ranks run one program."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.jobs import job_files
from tantamount.answers import refine
from tantamount.capture.job import read_job
from tantamount.verdict import Verdict


@pytest.mark.parametrize("keyword", [False, True])
def test_names_of_groups_do_not_matter(tmp_path: Path, keyword: bool) -> None:
    def rank(alone: str, both: str) -> str:
        name = f'group_name="{both}"' if keyword else f'"{both}"'
        return (
            f'x: float32[4]\na = all_reduce(x, "sum", "{alone}")\n'
            f'y = _c10d_functional.all_reduce.default(a, "sum", {name})\n-> y'
        )

    groups = {"1": (), "12": ("tp",), "3": (), "13": ("tp",)}
    path = job_files(
        tmp_path, "x: float32[4]\ny = aten.mul.Tensor(x, 2)\n-> y", [rank("1", "12"), rank("3", "13")],
        '[inputs]\ndefault = "Replicate()"\n[outputs]\ny = "Replicate()"', {"tp": 2}, groups,
    )  # fmt: skip
    job = read_job(path)
    assert [node.args for node in job.implementation[0].nodes] == [node.args for node in job.implementation[1].nodes]
    report = refine(job)
    assert report.statistics.folded
    assert report.verdict is Verdict.PROVED
    assert refine(job, fold=False).verdict is Verdict.PROVED
