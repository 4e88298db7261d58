"""Plans that nnScaler generated, as they are: read as text, proved, and the one with a line left out refuted there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tantamount.answers import verify_plan
from tantamount.plan.result import PlanReport
from tantamount.verdict import Verdict

pytest.importorskip("torch")

RIGHT = ("l2_dp1_tp2_pp1_mb1_mega", "l2_dp1_tp1_pp2_mb2_mega_gpipe")


@pytest.fixture
def folder(shared: Path) -> Path:
    found = shared / "plans" / "nnscaler"
    if not (found / "llama.py").exists():
        pytest.skip(f"no generated plans: {found} is absent")
    return found


def _verified(folder: Path, name: str) -> PlanReport:
    layers = re.match(r"l(\d+)_", name)
    model = f"{folder / 'llama.py'}:Llama(layers={layers[1] if layers else 2})"
    return verify_plan(folder / name, model=model, data=["ids=int64[2,8]", "labels=int64[2,8]"])


@pytest.mark.parametrize("name", RIGHT)
def test_a_generated_plan_is_proved(name: str, folder: Path) -> None:
    report = _verified(folder, name)
    assert report.verdict is Verdict.PROVED, report.text()


def test_a_backward_sum_that_is_missing_is_refuted(folder: Path) -> None:
    report = _verified(folder, "twin_missing_dgrad")
    assert report.verdict is Verdict.REFUTED, report.text()
    (part,) = report.parts
    assert part.mismatch is not None
