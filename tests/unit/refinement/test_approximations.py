"""Approximations that a job declares: the verdict is up to them, and to nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from support.jobs import job_files
from tantamount import compare, read_job, refine
from tantamount.answers import verify_plan
from tantamount.cli.main import app
from tantamount.errors import UserError
from tantamount.verdict import Verdict

WHOLE = "x: float32[8, 6]\nw: float32[6, 4]\nn = aten.mean.dim(x, [0], True)\nc = sub(x, n)\ny = mm(c, w)\n-> y"
LOCAL = WHOLE.replace("[8, 6]", "[4, 6]")
TABLES = """
    [inputs]
    x = "Shard(0)"
    w = "Replicate()"
    [outputs]
    y = "Shard(0)"
"""
STATISTICS = """
    [approximate.statistics]
    kind = "local-statistic"
    nodes = ["n"]
    over = ["dp"]
"""


def _job(folder: Path, rank: str = LOCAL, more: str = STATISTICS, whole: str = WHOLE, tables: str = TABLES) -> Path:
    return job_files(folder, whole, [rank, rank], tables + more, {"dp": 2}, {"dp": ("dp",)})


def test_what_is_proved_up_to_an_approximation_has_the_exit_code_of_unknown(tmp_path: Path) -> None:
    report = refine(read_job(_job(tmp_path)))
    assert (report.verdict, report.exit_code, report.refused) == (Verdict.UNKNOWN, 3, ("approximate",))
    assert [output.verdict for output in report.outputs] == [Verdict.PROVED]
    assert str(report).startswith("PROVED up to statistics  ")
    assert "statistics: local-statistic (n) of the rows of a rank along dp" in str(report)


def test_an_approximation_that_is_accepted(tmp_path: Path) -> None:
    job = read_job(_job(tmp_path))
    report = refine(job, accept=["statistics"])
    assert (report.verdict, report.exit_code) == (Verdict.PROVED, 0)
    assert any(one.name == "approximate" for one in report.assumptions)
    assert refine(job, accept=["statistics"], strict=True).refused == ("approximate",)
    with pytest.raises(UserError, match="statistcs"):
        refine(job, accept=["statistcs"])


def test_without_the_declaration_it_is_wrong(tmp_path: Path) -> None:
    assert refine(read_job(_job(tmp_path, more=""))).verdict is Verdict.REFUTED


@pytest.mark.parametrize(("is_", "was"), [("add(x, n)", "sub(x, n)"), ("aten.mean.dim(x, [1]", "aten.mean.dim(x, [0]")])
def test_nothing_else_may_be_wrong(is_: str, was: str, tmp_path: Path) -> None:
    assert refine(read_job(_job(tmp_path, LOCAL.replace(was, is_))), accept=["statistics"]).verdict is Verdict.REFUTED


def test_the_command_line(tmp_path: Path) -> None:
    path = str(_job(tmp_path))
    found = CliRunner().invoke(app, ["refine", path])
    assert (found.exit_code, found.output.startswith("PROVED up to statistics")) == (3, True)
    assert CliRunner().invoke(app, ["refine", path, "--accept", "statistics"]).exit_code == 0
    assert CliRunner().invoke(app, ["refine", path, "--accept", "other"]).exit_code == 2
    page = tmp_path / "page.html"
    assert CliRunner().invoke(app, ["refine", path, "--html", str(page)]).exit_code == 3
    assert CliRunner().invoke(app, ["refine", path, "--accept", "statistics", "--certificate", "c.json"]).exit_code == 2
    assert CliRunner().invoke(app, ["plan", "verify", path]).exit_code == 3
    assert CliRunner().invoke(app, ["plan", "verify", path, "--accept", "statistics"]).exit_code == 0


def test_a_job_as_a_plan(tmp_path: Path) -> None:
    path = _job(tmp_path)
    report = verify_plan(path)
    assert (report.verdict, report.exit_code) == (Verdict.PROVED, 3)
    assert report.text().startswith("PROVED up to statistics")
    assert verify_plan(path, accept=["statistics"]).exit_code == 0
    with pytest.raises(UserError, match="declares: statistics"):
        verify_plan(path, accept=["other"])


def test_comparisons_have_none(tmp_path: Path) -> None:
    """Of one rank, as comparisons are: a mask that leaves rows out."""
    whole = "x: float32[8, 6]\ny = mul(x, 2)\n-> y"
    masked = "x: float32[8, 6]\nm = lt(x, 9)\nz = mul(x, 2)\ny = mul(z, m)\n-> y"
    choice = '[approximate.choice]\nkind = "restricted-choice"\nnodes = ["m"]\n'
    tables = '[inputs]\nx = "Replicate()"\n[outputs]\ny = "Replicate()"\n'
    job = read_job(job_files(tmp_path, whole, [masked], tables + choice, {"r": 1}, {"r": ("r",)}))
    assert refine(job, accept=["choice"]).verdict is Verdict.PROVED
    with pytest.raises(UserError) as raised:
        compare(job)
    assert raised.value.code == "job-approximate"


@pytest.mark.parametrize(
    ("more", "found"),
    [
        (STATISTICS.replace('"n"', '"y"'), "neither a mean nor a sum"),
        (STATISTICS.replace('"n"', '"nothing"'), "which no operator of"),
        (STATISTICS.replace('["dp"]', '["pp"]'), "over pp"),
        (STATISTICS.replace("local-statistic", "restricted-choice"), "over dp"),
        (STATISTICS.replace("local-statistic", "stale-gradient"), "stale-gradient"),
        (STATISTICS + "    other = 1\n", "other"),
    ],
)
def test_what_is_no_approximation(more: str, found: str, tmp_path: Path) -> None:
    with pytest.raises(UserError) as raised:
        read_job(_job(tmp_path, more=more))
    assert found in str(raised.value)


def test_ranks_would_drift_apart(tmp_path: Path) -> None:
    """Every rank would have a mean of its own rows where all should have one."""
    whole = "x: float32[8, 6]\nn = aten.mean.dim(x, [0], True)\n-> n"
    tables = '[inputs]\nx = "Shard(0)"\n[outputs]\nn = "Replicate()"\n'
    path = _job(tmp_path, whole.replace("8", "4"), STATISTICS, whole, tables)
    with pytest.raises(UserError, match="which they have alike"):
        read_job(path)
