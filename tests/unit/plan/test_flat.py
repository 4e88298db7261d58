"""The composition of parts against the same plan as one job: all microbatches, layers and ranks in one program."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support.flat_plans import flat_job
from support.plans import verified, write_plan
from support.training_steps import Steps, training_step
from tantamount import refine
from tantamount.answers import verify_plan
from tantamount.capture.torch.llama.experts import ExpertShape
from tantamount.capture.torch.llama.plan import write_plan as write_model_plan
from tantamount.capture.torch.llama.spread import Degrees
from tantamount.plan.flat import verify_job
from tantamount.plan.read import read_plan
from tantamount.plan.rolled import rolled
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


def _on_two_stages(table: dict[str, Any]) -> None:
    table["model"] = {"pieces": ["first", "layer * 2", "last"], "stages": ["first, layer 0", "layer 1, last"]}


@pytest.mark.parametrize("stages", [_on_one_stage, _on_two_stages])
@pytest.mark.parametrize("wrong", [None, *WRONG])
def test_a_small_plan_is_proved_flat_with_the_same_relations(
    tmp_path: Path, wrong: str | None, stages: Callable[[dict[str, Any]], None]
) -> None:
    path = write_plan(tmp_path, {} if wrong is None else {wrong: WRONG[wrong]}, stages)
    checked = prove(flat_job(read_plan(path)), Options(cut=False)).check(expand=False)
    assert len(checked) == 6  # a loss, and what five parameters become
    flat = {output.name: output.verdict for output in checked}
    report = verified(path)
    assert (report.verdict is Verdict.PROVED) == (set(flat.values()) == {Verdict.PROVED}), (report.text(), flat)
    assert report.proved == (wrong is None)


def test_experts_to_whose_ranks_tokens_are_sent_are_proved_flat(tmp_path: Path) -> None:
    """That the weights of the chosen experts do not add up to 0 is seen across parts, too."""
    shape = ExpertShape(1, 8, 2, 6, 4, 2, 4, kv_heads=2, head=4)
    degrees = Degrees(dp=1, tp=1, pp=1, ep=2, microbatches=1, batch=2, seq=2, optimizer="sgd", dispatch=True)
    path = write_model_plan(tmp_path, "experts", shape, degrees)
    checked = prove(flat_job(read_plan(path)), Options(cut=False)).check()
    assert {output.verdict for output in checked} == {Verdict.PROVED}, checked
    assert verify_plan(path).proved


@pytest.mark.parametrize(
    "how",
    [Steps(layers=8), Steps(layers=2, mb=3), Steps(layers=3, pp=3, mb=4), Steps(layers=2, pp=2, mb=2, dp=2, tp=2)],
)
def test_stages_and_microbatches_of_a_job_are_seen(how: Steps, tmp_path: Path) -> None:
    found = rolled(training_step(tmp_path, how))
    assert (found.stages, found.microbatches) == (how.pp, how.mb)


def test_a_job_is_a_plan_of_the_pieces_that_it_has(tmp_path: Path) -> None:
    report = verify_job(training_step(tmp_path, Steps(layers=12, dp=2)), refine)
    assert report.verdict is Verdict.PROVED, report.text()
    assert (report.stages, report.microbatches) == (1, 1)
    assert report.pieces > 4
    assert any(note.startswith("proved piece by piece: ") for note in report.notes)
