"""Expectations over several outputs of both programs."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.jobs import job_files
from tantamount import Verdict, read_job
from tantamount.answers import refine
from tantamount.errors import UserError

SPECIFICATION = """
    x: float32[5, 6]
    w: float32[6, 8]
    v: float32[6, 4]
    q = mm(x, w)
    k = mm(x, v)
    a = sum(q)
    b = sum(k)
    -> q, k, a, b
"""
RANK = """
    x: float32[5, 6]
    w: float32[6, 4]
    v: float32[6, 2]
    u = cat([w, v], 1)
    qk = mm(x, u)
    p = sum(qk)
    total = all_reduce(p, "sum", "tp")
    -> qk, total
"""
INPUTS = '[inputs]\nx = "Replicate()"\nw = "Shard(1)"\nv = "Shard(1)"\n[outputs]\n'
QK = 'concat(rank(0, "qk")[:, 0:4], rank(1, "qk")[:, 0:4], rank(0, "qk")[:, 4:6], rank(1, "qk")[:, 4:6], dim=1)'
TOTAL = '[[expect]]\nspec = \'sum(output("a"), output("b"))\'\nimpl = { name = "total", placement = "Replicate()" }\n'
JOINED = f'[[expect]]\nname = "both"\nspec = \'concat(output("q"), output("k"), dim=1)\'\nimpl = \'{QK}\'\n'


def _job(folder: Path, tables: str) -> Path:
    return job_files(folder, SPECIFICATION, [RANK, RANK], INPUTS + tables, {"tp": 2}, {"tp": ("tp",)})


def test_what_the_outputs_make_together_is_proved(tmp_path: Path) -> None:
    report = refine(read_job(_job(tmp_path, TOTAL + JOINED)))
    assert report.verdict is Verdict.PROVED, str(report)
    assert [(o.name, str(o.relation)) for o in report.outputs] == [
        ('sum(output("a"), output("b"))', 'sum(output("a"), output("b")) = Replicate() of total'),
        ("both", f"both = {QK}"),
    ]


@pytest.mark.parametrize(
    ("tables", "old", "new"),
    [
        (TOTAL, 'output("a"), output("b")', 'output("a"), output("a")'),
        (TOTAL, 'sum(output("a"), output("b"))', 'output("a")'),
        (JOINED, 'output("q"), output("k")', 'output("k"), output("q")'),
        (JOINED, 'rank(0, "qk")[:, 4:6], rank(1, "qk")[:, 4:6]', 'rank(1, "qk")[:, 4:6], rank(0, "qk")[:, 4:6]'),
    ],
)
def test_another_expectation_is_refuted(tmp_path: Path, tables: str, old: str, new: str) -> None:
    report = refine(read_job(_job(tmp_path, tables.replace(old, new))))
    assert report.verdict is Verdict.REFUTED, str(report)


@pytest.mark.parametrize(
    ("old", "new", "code", "found"),
    [
        ('sum(output("a"), output("b"))', "rank(0)", "job-expect", "rank(0)"),
        ('sum(output("a"), output("b"))', "Shard(0)", "job-expect", "Shard(0)"),
        ('output("b")', 'output("c")', "job-unknown-output", 'output("c")'),
        ('output("b")', 'output("q")', "job-relation-shape", "sum of"),
        ("sum(output", "sum(outputs", "relation-syntax", "function 'outputs'"),
        ('{ name = "total", placement = "Replicate()" }', '"infer"', "job-expect", "infer"),
        ('{ name = "total", placement = "Replicate()" }', "'output(\"a\")'", "job-unknown-rank", 'output("a")'),
        ("[[expect]]\n", '[[expect]]\nname = "q"\n', "job-expect", "'q'"),
        ("[[expect]]\n", "[[expect]]\nimplementation = 1\n", "job-unknown-key", "implementation"),
    ],
)
def test_wrong_entries(tmp_path: Path, old: str, new: str, code: str, found: str) -> None:
    with pytest.raises(UserError) as caught:
        read_job(_job(tmp_path, TOTAL.replace(old, new)))
    assert caught.value.code == code
    assert found in caught.value.found
    assert "[[expect]]" in caught.value.place
