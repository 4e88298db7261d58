"""Texts of generated modules that were not read as Python reads them: of several nested functions of one name (which is
what nnScaler writes where it recomputes several parts) the last one stood for all; an assignment to an attribute, an
import under another name, and a method of the runtime that is defined anew were passed over, as was a reducer that
begins its sum before the last microbatch. A wrong plan could have been proved."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.generated_plans import pipeline, tensor_parallel, write_modules
from tantamount.answers import verify_plan
from tantamount.capture.nnscaler.modules import read_folder
from tantamount.capture.nnscaler.steps import Steps, follow
from tantamount.errors import UserError
from tantamount.limits import Limits
from tantamount.plan.result import PlanReport
from tantamount.verdict import Verdict

FIRST = "        silu_4 = torch.nn.functional.silu(linear_3, inplace=False)\n        del linear_3\n"
SECOND = "        pow_9 = torch.pow(sub_8, 2)\n        sum_10 = torch.sum(pow_9)\n"


def _recomputed(rank: int, body: str = "torch.nn.functional.silu(linear_3, inplace=False)") -> str:
    """Two recomputed parts, both called ``recompute``."""
    first = (
        f"        def recompute(linear_3):\n            silu_4 = {body}\n            return silu_4\n"
        "        silu_4 = ckpt.checkpoint(recompute, linear_3, use_reentrant=False)\n        del linear_3\n"
    )
    second = (
        "        def recompute(sub_8):\n            pow_9 = torch.pow(sub_8, 2)\n            return pow_9\n"
        "        pow_9 = ckpt.checkpoint(recompute, sub_8, use_reentrant=False)\n        sum_10 = torch.sum(pow_9)\n"
    )
    text = tensor_parallel(rank)
    assert text.count(FIRST) == text.count(SECOND) == 1
    return text.replace(FIRST, first).replace(SECOND, second)


def _verified(folder: Path) -> PlanReport:
    pytest.importorskip("torch")
    return verify_plan(folder, model=f"{folder / 'tiny_model.py'}:with_sample")


def _followed(folder: Path) -> Steps:
    return follow(read_folder(folder, Limits()))


def test_each_nested_function_has_its_own_body(tmp_path: Path) -> None:
    right = _verified(write_modules(tmp_path / "right", _recomputed, 4))
    assert right.verdict is Verdict.PROVED, right.text()
    wrong = _verified(
        write_modules(tmp_path / "wrong", lambda rank: _recomputed(rank, "torch.nn.functional.relu(linear_3)"), 4)
    )
    assert wrong.verdict is Verdict.REFUTED, wrong.text()
    assert "relu" in wrong.text()


@pytest.mark.parametrize(
    ("old", "new", "found"),
    [
        ("        silu_4 = ", "        self.a_weight_1 = torch.zeros(2, 3)\n        silu_4 = ", "self.a_weight_1"),
        ("        silu_4 = ", "        torch = linear_3\n        silu_4 = ", "torch"),
        ("import _operator", "import operators as _operator", "_operator"),
        ("import torch\n", "from torch import nn as torch\n", "torch"),
        ("class GenModel", "torch.sum = torch.mean\n\n\nclass GenModel", "torch.sum"),
        ("class GenModel", "torch = None\n\n\nclass GenModel", "torch"),
        ("    def segment1", "    def zero_grad(self):\n        pass\n\n    def segment1", "zero_grad"),
        ("    def segment1", "    def segment1(self):\n        return\n\n    def segment1", "segment1"),
        ("    def segment1", "    @torch.no_grad()\n    def segment1", "segment1"),
        ("module.ParallelModule", "module.Other", "GenModel"),
        ("    model.zero_grad()\n", "    model.zero_grad()\n    model.segment1 = None\n", "model.segment1"),
        ("    model.zero_grad()\n", "    other.zero_grad()\n", "other.zero_grad"),
        ("    model.zero_grad()\n", "    with torch.no_grad():\n        model.zero_grad()\n", "zero_grad"),
        (", 1)\n", ", 1, 2)\n", "add_full_map"),
        ("1, True, 'a", "1, False, 'a", "add_full_map"),
        ("        silu_4 = ", "        del linear_4\n        silu_4 = ", "linear_4"),
    ],
)
def test_what_would_change_the_meaning_of_the_rest_is_refused(old: str, new: str, found: str, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    folder = write_modules(tmp_path / "plan", pipeline, 2, {0: (old, new)})
    with pytest.raises(UserError) as raised:
        _verified(folder)
    assert raised.value.code == "plan-nnscaler"
    assert found in raised.value.found


ASYNC = "init_params=True, *, async_op=True,"


def _reduced(rank: int) -> str:
    """A pipeline whose stages have one reducer each, over the rank alone, that begins as soon as it can."""
    attribute = ("a_weight_1", "b_weight_2")[rank]
    reducer = (
        f"        self.wreducer7 = nnscaler.runtime.adapter.Reducer(ranks=[{rank}], async_op=async_op)\n"
        f"        self.wreducer7.add_param(self.{attribute})\n        self.add_reducer(self.wreducer7)\n"
    )
    method = "    def reducer7(self):\n        self.wreducer7.sync_grads()\n        return\n"
    call = "    _ = nnscaler.runtime.executor.aexecute(model.reducer7, *(), requires_grad=False)\n"
    begin = ("    def segment1", "    def adapter2")[rank]
    end = "    sum_10 = nnscaler.runtime.executor.aexecute(model.adapter4"
    text = pipeline(rank).replace("init_params=True, *, async_op=False,", ASYNC)
    assert all(part in text for part in (begin, end, ASYNC))
    return text.replace(begin, f"{reducer}\n{method}\n{begin}", 1).replace(end, call + end, 1)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("", "", ""),
        ("skip_reducer = True", "skip_reducer = False", "microbatch 1 adds to gradients that wreducer7 has reduced"),
        ("skip_reducer = False", "skip_reducer = True", "skip_reducer is set"),
        (
            "    nnscaler.flags.RuntimeFlag.skip_reducer = False\n    _ = nnscaler.runtime.executor.backward('s1', (), "
            "(silu_5, ), (gsilu_5, ))\n",
            "    _ = nnscaler.runtime.executor.backward('s1', (), (silu_5, ), (gsilu_5, ))\n"
            "    nnscaler.flags.RuntimeFlag.skip_reducer = False\n",
            "wreducer7 has not begun its sum",
        ),
    ],
)
def test_sums_that_begin_when_all_gradients_are_there(old: str, new: str, said: str, tmp_path: Path) -> None:
    folder = write_modules(tmp_path / "plan", _reduced, 2, {0: (old, new)} if old else None)
    found = _followed(folder)
    assert bool(found.wrong) == bool(said), found.wrong
    assert said in " ".join(found.wrong)
    if said:
        assert "gencode0.py" in found.wrong[0]
