"""Operands that should be other values of the implementation, and functions whose results say nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.jobs import job_files
from support.sayings import check_sentences
from tantamount import read_job
from tantamount.answers import refine
from tantamount.verdict import Verdict

TABLES = '[inputs]\nx = "Replicate()"\n[outputs]\ny = "Replicate()"'
SPECIFICATION = "x: float32[4, 6]\ny = aten._log_softmax.default(x, -1, False)\n-> y=y"


def softmax(function: str = "exp", summed: str = "e") -> str:
    """A softmax by hand: nothing in it but its result corresponds to anything."""
    return (
        "x: float32[4, 6]\nm = aten.amax.default(x, [-1], True)\ns = sub(x, m)\n"
        f"e = aten.{function}.default(s)\nt = aten.sum.dim_IntList({summed}, [-1], True)\n"
        "l = aten.log.default(t)\nz = sub(s, l)\n-> y=z"
    )


def test_the_right_program_is_proved(tmp_path: Path) -> None:
    job = read_job(job_files(tmp_path, SPECIFICATION, [softmax()], TABLES, {}, {}))
    assert refine(job).verdict is Verdict.PROVED


@pytest.mark.parametrize(
    ("wrong", "place", "words", "hint"),
    [
        (softmax(summed="s"), "t", "t reads s where e is needed, which nothing reads", "e instead of s in t"),
        (softmax("relu"), "e", "e applies relu to s where exp is needed", "exp instead of relu in e"),
    ],
    ids=["one step too early", "zeros"],
)
def test_what_gives_no_numbers_is_named(tmp_path: Path, wrong: str, place: str, words: str, hint: str) -> None:
    """The logarithm of what is not positive: every output is undefined, and nothing after the mistake corresponds."""
    job = read_job(job_files(tmp_path, SPECIFICATION, [wrong], TABLES, {}, {}))
    report = refine(job)
    assert report.verdict is Verdict.REFUTED
    assert report.mismatch is not None
    check_sentences(job, report)
    assert (report.mismatch.implementation, report.mismatch.headline) == (place, words)
    assert report.mismatch.hint == hint
