"""Bugs of the field, each as a pair: ``bug.toml`` (what was shipped) and ``ok.toml`` (what repairs it).

The bug is refuted by an input on which the executed programs differ, the repair is proved; and whatever is proved of
either, execution agrees with it. ``known_bugs.toml`` says which node is to blame, and what kind of difference it is."""

from __future__ import annotations

import os
import tomllib
from pathlib import Path

import pytest

from support.cross_check import cross_check
from support.sayings import check_sentences
from tantamount import read_job
from tantamount.answers import refine
from tantamount.ir.job import Job
from tantamount.verdict import Verdict

_ROOT = Path(__file__).resolve().parents[2]
_BUGS = Path(os.environ.get("TANTAMOUNT_SHARED") or _ROOT.parent / "shared") / "bugs"
BLAMED = tomllib.loads((Path(__file__).parent / "known_bugs.toml").read_text(encoding="utf-8"))
NAMES = sorted(path.parent.name for path in _BUGS.glob("*/bug.toml"))


def _agrees(job: Job) -> None:
    found = cross_check(job)
    assert found.executed > 0
    assert not found.skipped
    assert (found.disagreements, found.undefined, found.untested) == ((), (), ())


@pytest.mark.skipif(not NAMES, reason=f"no known bugs: {_BUGS} is absent (set TANTAMOUNT_SHARED)")
def test_the_corpus_is_there() -> None:
    assert len(NAMES) >= 37
    assert sorted(BLAMED) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_the_bug_is_refuted_by_an_input(name: str) -> None:
    job = read_job(_BUGS / name / "bug.toml")
    report = refine(job)
    assert report.verdict is Verdict.REFUTED
    assert report.exit_code == 1
    example = report.counterexample
    assert example is not None
    assert set(example.inputs) == {node.name for node in job.specification.inputs}
    assert abs(example.expected - example.actual) > 1e-6
    found = report.mismatch
    assert found is not None
    check_sentences(job, report)
    assert {"place": found.implementation, "kind": found.kind} == BLAMED[name], found.headline
    _agrees(job)


@pytest.mark.parametrize("name", NAMES)
def test_the_repair_is_proved(name: str) -> None:
    job = read_job(_BUGS / name / "ok.toml")
    report = refine(job)
    assert report.verdict is Verdict.PROVED
    assert report.counterexample is None
    _agrees(job)
