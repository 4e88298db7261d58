"""The composition of parts against the same plan as one job: all microbatches, layers and ranks in one program."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from support.flat_plans import flat_job
from support.plans import verified, write_plan
from tantamount.plan.read import read_plan
from tantamount.proof import Options, prove
from tantamount.verdict import Verdict

WRONG = {
    "layer": ('all_reduce(share, "sum", "tp")', "mul(share, 1)"),
    "layer_reduce": ('all_reduce(d_b, "sum", "dp")', "mul(d_b, 1)"),
    "last": ("div.Tensor(x, 32)", "div.Tensor(x, 16)"),
}


def _on_one_stage(table: dict[str, Any]) -> None:
    table["mesh"]["axes"] |= {"pp": 1}
    table["model"] = {"pieces": ["first", "layer * 2", "last"]}


@pytest.mark.parametrize("wrong", [None, *WRONG])
def test_a_small_plan_is_proved_flat_with_the_same_relations(tmp_path: Path, wrong: str | None) -> None:
    path = write_plan(tmp_path, {} if wrong is None else {wrong: WRONG[wrong]}, _on_one_stage)
    checked = prove(flat_job(read_plan(path)), Options(cut=False)).check(expand=False)
    assert len(checked) == 6  # a loss, and what five parameters become
    flat = {output.name: output.verdict for output in checked}
    report = verified(path)
    assert (report.verdict is Verdict.PROVED) == (set(flat.values()) == {Verdict.PROVED}), (report.text(), flat)
    assert report.proved == (wrong is None)
