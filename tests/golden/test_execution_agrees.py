"""The examples, proved and executed: execution agrees with every proved output and relation, folded or rank by rank."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.cross_check import cross_check
from tantamount import read_job
from tantamount.answers import refine
from tantamount.verdict import Verdict

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


@pytest.mark.parametrize("fold", [None, False])
@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*/*.toml")), ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_execution_agrees_with_whatever_is_proved(path: Path, fold: bool | None) -> None:
    # Of an output that is wrong, a search for a proof ends nowhere: little effort shows as much as all of it.
    found = cross_check(read_job(path), fold=fold, effort="low" if path.stem == "wrong" else "normal")
    assert found.executed > 0
    assert found.relations > 0
    assert (found.disagreements, found.undefined, found.untested, found.skipped) == ((), (), (), "")


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*/wrong.toml")), ids=lambda path: path.parent.name)
def test_wrong_examples_come_with_a_counterexample(path: Path) -> None:
    report = refine(read_job(path))
    assert report.verdict is Verdict.REFUTED
    assert report.counterexample is not None
