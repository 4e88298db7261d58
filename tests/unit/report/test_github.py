"""GitHub's workflow commands: escaping above all."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from support.reports import proved, refuted, unknown
from tantamount.ir.graph import Source
from tantamount.report import github
from tantamount.report.annotations import annotate
from tantamount.report.outcomes import Outcome


def commands(*outcomes: Outcome) -> str:
    return github.commands(annotate(outcomes, Path.cwd()))


def test_one_command_for_every_job_that_is_not_proved() -> None:
    shown = commands(proved(), refuted(), unknown()).splitlines()
    assert [line.partition("::")[2].partition(" ")[0] for line in shown] == ["error", "warning"]
    assert shown[0].startswith(
        "::error file=impl.py,line=40,title=tantamount%3A wrong.toml"
        "::loss: a factor: 2x too large%0A(sum of two means)%0A"
    )
    assert "specification: mean: spec.py:7%0A" in shown[0]
    assert shown[1].startswith("::warning file=open.toml,line=1,title=tantamount%3A open.toml::")


@pytest.mark.parametrize(
    ("name", "escaped"),
    [("a,b:c%", "a%2Cb%3Ac%25"), ("a\r\n::error::x", "a\\r\\n%3A%3Aerror%3A%3Ax"), ("\x1b[2J", "\\x1b[2J")],
)
def test_properties_are_escaped(name: str, escaped: str) -> None:
    found = refuted().mismatch
    assert found is not None
    mismatch = replace(found, implementation_source=Source(name, 3), specification_source=None)
    shown = commands(replace(refuted(), mismatch=mismatch))
    assert shown.count("\n") == 1
    assert shown.startswith(f"::error file={escaped},line=3,title=")


def test_text_is_escaped() -> None:
    found = refuted().mismatch
    assert found is not None
    mismatch = replace(found, difference="100%\n::add-mask::x\r\x1b", headline="h")
    shown = commands(replace(refuted(), mismatch=mismatch))
    assert shown.count("\n") == 1
    assert "::h%0A100%25%0A::add-mask::x%0A\\x1b%0A" in shown


def test_the_word_that_ends_a_fence_cannot_be_guessed() -> None:
    (begin, end), (other, _) = github.fence(), github.fence()
    word = end.strip().strip(":")
    assert len(word) == 32
    assert begin == f"::stop-commands::{word}\n"
    assert begin != other
