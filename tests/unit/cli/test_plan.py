"""``tantamount plan schedule``."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from click.testing import CliRunner, Result

from support.plans import write_plan
from tantamount.cli import limited_plan
from tantamount.cli.main import app
from tantamount.report.outcomes import Failure
from tantamount.verdict import Verdict

from .conftest import CommandLine


def test_a_named_schedule(command: CommandLine, tmp_path: Path) -> None:
    picture = tmp_path / "1f1b.svg"
    done = command("plan", "schedule", "1f1b", "--devices", "4", "--microbatches", "8", "--svg", str(picture))
    assert done.exit_code == 0
    assert done.stdout == (
        "RIGHT  1f1b   4 devices, 4 stages, 8 microbatches, 168 actions\n"
        "  time       33 forward passes (a backward pass is 2, each of its halves 1)\n"
        "  waiting    27.3% of the time of all devices\n"
        "  kept       activations of at most 4, 3, 2, 1 passes, by device\n"
    )
    assert len(ElementTree.parse(picture).findall(".//{*}g")) == 64


def test_a_table_that_is_wrong(command: CommandLine, tmp_path: Path) -> None:
    table = tmp_path / "wrong.csv"
    table.write_text("0F0,0F1,,0B0,0REDUCE_GRAD,0B1\n,1F0,1B0,1F1,1B1,1REDUCE_GRAD\n")
    done = command("plan", "schedule", str(table), "--actions")
    assert done.exit_code == 1
    assert (
        "reduction  device 0: the gradient of 0B1 comes after the reduction of stage 0, which lacks it" in done.stdout
    )
    assert "device 1: 1RECV_F0 1F0 {1SEND" not in done.stdout
    assert "device 1: 1RECV_F0 1F0" in done.stdout


def test_bad_input(command: CommandLine, tmp_path: Path) -> None:
    (tmp_path / "bad.csv").write_text("0F0,nothing\n")
    for asked in (["zigzag"], [str(tmp_path / "bad.csv")], ["interleaved", "-m", "6", "-v", "2"], ["missing.csv"]):
        done = command("plan", "schedule", *asked)
        assert done.exit_code == 2
        assert "error[plan-schedule]" in done.stderr


def test_parts_in_processes_of_their_own(tmp_path: Path) -> None:
    """The same verdicts; and a job, which has no parts, is refused."""
    path = write_plan(tmp_path, {"layer": ('all_reduce(share, "sum", "tp")', "mul(share, 1)")})
    here, there = (CliRunner().invoke(app, ["plan", "verify", str(path), *more]) for more in ((), ("--workers", "2")))
    assert (here.exit_code, there.exit_code) == (1, 1), there.output
    told = [[row.split()[:5] for row in done.stdout.splitlines() if "ED  " in row] for done in (here, there)]
    assert told[0] == told[1]
    assert "REFUTED" in told[1][0]
    refused = CliRunner().invoke(app, ["plan", "verify", "examples/mlp_tp2/job.toml", "--workers", "2"])
    assert refused.exit_code == 2
    assert "a plan of parts" in refused.stderr


def test_plans_are_verified(tmp_path: Path) -> None:
    for name in ("right", "wrong"):
        (tmp_path / name).mkdir()
    right = write_plan(tmp_path / "right")
    wrong = write_plan(tmp_path / "wrong", {}, lambda table: table["model"].update(stages=["first", "layer 0-1, last"]))
    arguments = ["plan", "verify", str(right), str(wrong), "--json", str(tmp_path / "out.json")]
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 1
    assert "PROVED  small   8 ranks (pp 2 x dp 2 x tp 2)" in done.stdout
    assert "    layer 2 is owned by no stage\n" in done.stdout
    documents = [json.loads(line) for line in (tmp_path / "out.json").read_text().splitlines()]
    assert [document["verdict"] for document in documents] == ["PROVED", "REFUTED"]
    assert documents[1]["ownership"] == ["layer 2 is owned by no stage"]


def test_a_plan_that_is_no_plan(tmp_path: Path) -> None:
    path = tmp_path / "plan.toml"
    for text, code in (("plan/1", "plan-missing-key"), ("job/1", "job-missing-key"), ("pair/1", "plan-missing-key")):
        path.write_text(f'format = "{text}"')
        done = CliRunner().invoke(app, ["plan", "verify", str(path)])
        assert done.exit_code == 2
        assert f"error[{code}]" in done.stderr


def test_plans_are_shown(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["plan", "show", str(write_plan(tmp_path))])
    assert done.exit_code == 0
    assert "  stage 1 on device 1: layer 1-2, last 0\n" in done.stdout
    assert (
        '  d_a: layer: d_a -> layer_reduce: d_a: Partial("sum") over dp, Shard(1) over tp   (3 times)\n' in done.stdout
    )


def test_a_plan_that_could_not_be_verified_is_not_written(command: CommandLine, tmp_path: Path) -> None:
    degrees = ["--dp", "2", "--tp", "2", "--pp", "2", "--microbatches", "8", "-o", str(tmp_path / "out")]
    for name in ("zigzag", "dualpipev"):
        done = command("plan", "new", "llama3-8b", *degrees, "--schedule", name)
        assert done.exit_code == 2
        assert "error[plan-schedule]" in done.stderr
        assert not (tmp_path / "out").exists()


def test_refusals_of_plan_new_name_the_option_and_what_to_do(command: CommandLine, tmp_path: Path) -> None:
    for asked, option, found, do in (
        ("--capacity 4", "--capacity", "--capacity 4 of a model without experts", "leave it out, or take"),
        ("--pp 64 -m 64", "--pp", "--pp 64 for 32 layers", "a --pp of at most 32"),
        ("--pp 16 --chunks 3 --schedule interleaved -m 16", "--pp", "--chunks 3 for 32 layers", "at most 10"),
        ("--sized --batch 7 --dp 2", "--batch", "--batch 7, with --sized", "--batch 8"),
        ("--sized --batch 4 --dp 2 -m 4", "--batch", "1 rows for each of 2 ranks in 3 microbatches", "fewer --microb"),
        ("--batch 7 --dp 2 -m 2", "--batch", "--batch 7", "--batch 8; with --sized"),
        ("--tp 16", "--tp", "--tp 16 for 8 heads of keys", "a --tp that divides 8"),
        ("--cp 3", "--seq", "--seq 8192, cut by --cp 3", "--seq 8193"),
        ("--cp 16 --context ulysses", "--context", "--cp 16 for 8 heads", "a smaller --cp"),
        ("--zero 1 --dp 7", "--zero", "table of [128256, 4096], cut along 0 by tp", "another --dp"),
        ("--optimizer lion", "--optimizer", "lion", "adamw"),
    ):  # fmt: skip
        done = command("plan", "new", "llama3-8b", *asked.split(), "-o", str(tmp_path / "out"))
        assert done.exit_code == 2, asked
        assert f" plan new {option}" in done.stderr.splitlines()[0], done.stderr
        assert found in done.stderr, done.stderr
        assert do in done.stderr.partition("help:")[2], done.stderr
        assert not (tmp_path / "out").exists()


def test_a_folder_with_other_files_gets_no_plan(tmp_path: Path) -> None:
    """Two plans are not mixed, and what a user wrote is not lost: not even by force, if anything is beside a plan."""
    (tmp_path / "plan").mkdir()
    plan, mutants = write_plan(tmp_path / "plan"), tmp_path / "mutants"

    def done(*arguments: str) -> int:
        found = CliRunner().invoke(app, ["plan", *arguments])
        assert found.exit_code == 0 or "error[folder-not-empty]" in found.output, found.output
        return found.exit_code

    asked = ("mutate", str(plan.parent), "-o", str(mutants), "--kind", "event")
    assert done(*asked, "--count", "2") == 0
    assert done(*asked, "--count", "1") == 2
    assert sorted(entry.name for entry in mutants.iterdir()) == ["000", "001"]
    (mutants / "000" / "mine").touch()
    assert done(*asked, "--count", "1", "--force") == 2
    (mutants / "000" / "mine").unlink()
    assert done(*asked, "--count", "1", "--force") == 0
    assert sorted(entry.name for entry in mutants.iterdir()) == ["000"]
    (mutants / "001").mkdir()
    (mutants / "001" / "plan.toml").write_text('[part.one]\nspec = "chapter.tex"\nimpl = "chapter.tex"')
    (mutants / "001" / "chapter.tex").touch()
    assert done(*asked, "--count", "1", "--force") == 2, "a table of another tool that has the name of a plan's"
    before = {entry.name for entry in plan.parent.iterdir()}
    assert done("new", "llama3-8b", "-o", str(plan.parent)) == 2
    assert {entry.name for entry in plan.parent.iterdir()} == before


def done_by(*arguments: str) -> Result:
    return CliRunner().invoke(app, arguments)


def test_the_folder_of_a_plan_is_the_plan(tmp_path: Path) -> None:
    plan = write_plan(tmp_path)
    assert "PROVED  small" in done_by("plan", "verify", str(tmp_path)).stdout
    assert "PROVED  small" in done_by("plan", "verify", str(tmp_path), "--timeout", "60").stdout
    assert done_by("plan", "show", str(tmp_path)).exit_code == 0
    for refused in (plan, tmp_path):
        done = done_by("refine", str(refused))
        assert done.exit_code == 2
        assert f"tantamount plan verify {refused}" in done.stderr
    (tmp_path / "empty").mkdir()
    done = done_by("plan", "verify", str(tmp_path / "empty"))
    assert done.exit_code == 2
    assert "a folder without plan.toml" in done.stderr


def test_a_joint_with_one_end_names_no_other(tmp_path: Path) -> None:
    """Of something that nothing gives, or that nothing takes."""
    plan = write_plan(tmp_path, {}, lambda table: table.update(symbols=[]))
    for asked in ("verify", "show"):
        words = done_by("plan", asked, str(plan)).stdout
        assert "lr at layer_update: lr: layer_update takes lr, which nothing before it gives" in words
        assert "between  " not in words
        assert " ->  " not in words


class _Slow:
    """Takes a minute to arrive in another process."""

    def __reduce__(self) -> tuple[Any, ...]:
        return time.sleep, (60,)


def test_a_plan_whose_time_is_limited_is_verified_in_a_process_that_can_be_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_plan(tmp_path)
    found = limited_plan.verify_limited(path, 60, 2000, {"accept": ()}, page=True)
    assert not isinstance(found, Failure)
    report, page = found
    assert report.verdict is Verdict.PROVED
    assert "layer" in page
    monkeypatch.setattr(limited_plan, "GRACE", 0.1)
    found = limited_plan.verify_limited(path, 0.1, None, {"accept": _Slow()}, page=True)
    assert not isinstance(found, Failure)
    report, page = found
    assert (report.verdict, report.exit_code, report.parts) == (Verdict.UNKNOWN, 3, ())
    assert "limit-timeout was hit (0.1 s), and the process had to be ended" in report.text()
    assert "limit-timeout" in page
    assert report.document()["verdict"] == "UNKNOWN"


def test_a_limited_plan_that_is_wrong_is_told_as_any_other(tmp_path: Path) -> None:
    found = limited_plan.verify_limited(tmp_path / "none.toml", 60, None, {})
    assert isinstance(found, Failure)
    assert (found.code, found.exit_code) == ("file-unreadable", 2)


class _Dies:
    """Ends the process that it arrives in."""

    def __reduce__(self) -> tuple[Any, ...]:
        return os._exit, (7,)


def test_a_limited_plan_whose_process_dies_by_itself_is_no_verdict(tmp_path: Path) -> None:
    found = limited_plan.verify_limited(write_plan(tmp_path), 60, None, {"accept": _Dies()})
    assert isinstance(found, Failure)
    assert (found.code, found.exit_code) == ("process-lost", 5)
