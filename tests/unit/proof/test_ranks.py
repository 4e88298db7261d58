"""A node whose attributes differ by rank is evaluated once for ranks that have the same ones."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from support.jobs import job_files
from tantamount import read_job
from tantamount.answers import refine
from tantamount.ir.job import Job
from tantamount.proof import ranks
from tantamount.verdict import Verdict

MESH = {"dp": 3, "tp": 2, "cp": 2}
TABLES = """[inputs]
x = { placement = ["Shard(0)", "Replicate()", "Shard(2)"] }
[outputs]
y = { placement = ["Shard(0)", "Shard(1)", "Shard(2)"] }"""
WHOLE = "x: float32[6, 4, 8]\ny = mul(x, 2)\n-> y"


def _job(folder: Path, *starts: int) -> Job:
    """The specification doubles a tensor; a rank doubles its part along dimension 1, which begins where ``starts`` says
    for its coordinate along tp, the axis in the middle."""
    program = "x: float32[2, 4, 4]\npart = aten.slice.Tensor(x, 1, {}, {})\ny = mul(part, 2)\n-> y"
    texts = [program.format(start, start + 2) for start in starts]
    groups = {axis: (axis,) for axis in MESH}
    folder.mkdir()
    job = read_job(job_files(folder, WHOLE, [texts[k // 2 % 2] for k in range(12)], TABLES, MESH, groups))
    first = {graph.by_name["part"].args: graph for graph in reversed(job.implementation)}
    return replace(job, implementation=tuple(first[graph.by_name["part"].args] for graph in job.implementation))


def test_ranks_with_the_same_attributes_are_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []
    before = ranks._LocalView.__init__

    def counted(self: object, *args: object) -> None:
        seen.append(1)
        before(self, *args)  # pyright: ignore[reportArgumentType, reportCallIssue]

    monkeypatch.setattr(ranks._LocalView, "__init__", counted)
    assert refine(_job(tmp_path / "right", 0, 2)).verdict is Verdict.PROVED
    assert len(seen) == 2, "one for each coordinate along tp"
    assert refine(_job(tmp_path / "wrong", 2, 0)).verdict is Verdict.REFUTED
    assert refine(_job(tmp_path / "first", 0, 0)).verdict is Verdict.REFUTED
