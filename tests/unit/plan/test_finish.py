"""What follows the step of a generated plan: to updated parameters and state, or refuted at its line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from support.generated_plans import pipeline, tensor_parallel, write_modules
from tantamount.answers import verify_plan
from tantamount.errors import UserError
from tantamount.plan.result import PlanReport
from tantamount.verdict import Verdict

pytest.importorskip("torch")

FINISH = """
import torch
import torch.distributed as dist


class Clipped:
    def optimizer(self, parameters):
        return torch.optim.AdamW(parameters, lr=1e-3)

    def gradients(self, parameters):
        for p in parameters.values():
            p.grad /= 8
        self.clip(parameters, sum(p.grad.square().sum() for p in parameters.values()))

    def rank_gradients(self, parameters, rank):
        for p in parameters.values():
            p.grad /= 8
        squares = sum(p.grad.square().sum() / rank.copies(name) for name, p in parameters.items())
        dist.all_reduce(squares, group=rank.everyone)
        self.clip(parameters, squares)

    def clip(self, parameters, squares):
        factor = torch.clamp(1.0 / (squares.sqrt() + 1e-6), max=1.0)
        for p in parameters.values():
            p.grad *= factor
"""


def _verified(folder: Path, finish: str = FINISH) -> PlanReport:
    (folder / "finish.py").write_text(finish)
    return verify_plan(
        folder, model=f"{folder / 'tiny_model.py'}:with_sample", finish=f"{folder / 'finish.py'}:Clipped"
    )


def _zero(rank: int) -> str:
    return tensor_parallel(rank).replace("zero=False", "zero=True")


@pytest.mark.parametrize(
    ("module", "ranks"), [(tensor_parallel, 4), (_zero, 4), (pipeline, 2)], ids=["tp", "zero", "pp"]
)
def test_new_parameters_and_state_are_proved(module: Callable[[int], str], ranks: int, tmp_path: Path) -> None:
    report = _verified(write_modules(tmp_path / "plan", module, ranks))
    assert report.verdict is Verdict.PROVED, report.text()
    iteration, finish = report.parts
    assert {output.name for output in iteration.outputs} == {"loss", "grad a.weight", "grad b.weight"}
    kinds = ("", "exp_avg of ", "exp_avg_sq of ", "step of ")
    assert {output.name for output in finish.outputs} == {f"new {kind}{w}.weight" for kind in kinds for w in "ab"}
    assert "finite-joints" in {assumption.name for assumption in report.assumptions}
    assert "next one" in report.notes[0]


@pytest.mark.parametrize(
    ("module", "old", "new"),
    [
        (tensor_parallel, " / rank.copies(name)", ""),
        (_zero, "        dist.all_reduce(squares, group=rank.everyone)\n", ""),
        (pipeline, "p.grad /= 8\n        squares", "p.grad /= 4\n        squares"),
    ],
    ids=["copies are counted twice", "the norm is not reduced", "another divisor"],
)
def test_a_mistake_is_found_at_its_line(module: Callable[[int], str], old: str, new: str, tmp_path: Path) -> None:
    ranks = 2 if module is pipeline else 4
    assert FINISH.count(old) == 1
    report = _verified(write_modules(tmp_path / "plan", module, ranks), FINISH.replace(old, new))
    assert report.verdict is Verdict.REFUTED, report.text()
    iteration, finish = report.parts
    assert (iteration.verdict, finish.verdict) == (Verdict.PROVED, Verdict.REFUTED)
    assert "finish.py" in report.text()


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("def optimizer", "def no_optimizer", "without `optimizer(parameters)`"),
        ("AdamW(parameters", "AdamW(parameters[:1]", "other parameters"),
        ("class Clipped", "class Other", "Clipped"),
        ("def gradients", "def no_gradients", "rank_gradients without gradients"),
    ],
)
def test_what_cannot_be_used_is_refused(old: str, new: str, said: str, tmp_path: Path) -> None:
    folder = write_modules(tmp_path / "plan", tensor_parallel, 4)
    with pytest.raises(UserError) as raised:
        _verified(folder, FINISH.replace(old, new))
    assert raised.value.code == "plan-finish"
    assert said in str(raised.value)
