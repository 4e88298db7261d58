"""Plans of models whose pipelines have degrees of their own (`plan new --beside`): proved, right on numbers, and
refuted where a slice goes to a wrong rank."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import tomli_w

from support.plan_run import run_plan
from tantamount.answers import verify_plan
from tantamount.capture.documents import parse_toml
from tantamount.capture.fields import Place
from tantamount.errors import UserError
from tantamount.limits import limits_from_environment
from tantamount.plan.mutants import plan_mutants, write_mutant
from tantamount.plan.read import read_plan
from tantamount.plan.wiring import joints_of
from tantamount.verdict import Verdict

torch = pytest.importorskip("torch")

SIZES = {"layers": 2, "hidden": 16, "heads": 4, "kv_heads": 4, "ffn": 8, "vocab": 16}
DEGREES = {"dp": 2, "tp": 2, "pp": 2, "microbatches": 2, "batch": 8, "seq": 4, "optimizer": "sgd"}


def _plan(folder: Path, *beside: str, **degrees: Any) -> Path:
    from tantamount.capture import new_plan  # pyright: ignore[reportAttributeAccessIssue]

    return new_plan("llama", SIZES, {**DEGREES, "beside": beside, **degrees}, folder)


def test_a_pipeline_beside_another_is_proved(tmp_path: Path) -> None:
    """Its ranks have other parts of the state than those of the first, and of its blocks another order."""
    path = _plan(tmp_path, "dp=1,tp=4", zero=1, zero_first=True)
    report = verify_plan(path)
    assert report.verdict is Verdict.PROVED, report.text()
    assert max(run_plan(read_plan(path)).values()) < 1e-12
    own = read_plan(path).parts["layer_own"].job  # each gradient is added up once
    sums = [node for node in own.implementation[0].nodes if "all_reduce" in node.target]
    assert len(sums) == len(own.outputs)
    sent = [*islice((one for one in plan_mutants(read_plan(path)) if " is sent " in one.what), 3)]
    for k, mutant in enumerate(sent):  # whoever takes the same slice is no other rank
        wrong = read_plan(write_mutant(mutant, path, tmp_path / f"{k}"))
        assert any(joint.problem for joint in joints_of(wrong)), mutant.what
    place = Place("plan", str(path), limits_from_environment())
    table = cast("dict[str, Any]", parse_toml(path.read_text(), place))
    entry = table["part"]["layer_sum"]["inputs"]["s_q"][1]
    assert entry["sent"]["ranks"] == ["0+1", "2+3", "0+1", "2+3"]
    entry["sent"]["ranks"] = ["0+1", "2+3", "2+3", "0+1"]
    path.write_text(tomli_w.dumps(table))
    problems = [joint.mistake for joint in joints_of(read_plan(path)) if joint.problem]
    assert len(problems) == 1
    assert problems[0].endswith("rank 2 is sent [8:16, 0:16] of the whole, and takes [0:8, 0:16] of it for granted")
    assert max(run_plan(read_plan(path)).values()) > 1e-6


def test_a_pipeline_of_another_number_of_ranks_is_proved(tmp_path: Path) -> None:
    path = _plan(tmp_path, "tp=1", zero=3, sp=True)
    report = verify_plan(path)
    assert report.verdict is Verdict.PROVED, report.text()
    assert "12 ranks (on devices of 4, 4, 2, 2)" in report.text()
    assert max(run_plan(read_plan(path)).values()) < 1e-12


@pytest.mark.parametrize(
    ("beside", "degrees", "words"),
    [
        (("dp=x",), {}, "degrees of dp, ep, cp, tp"),
        (("pp=2",), {}, "degrees of dp, ep, cp, tp"),
        (("ep=2",), {}, "a model with experts"),
        (("tp=3",), {}, "a multiple of 3"),
        (("tp=1",), {"microbatches": 3, "batch": 12}, "a multiple of 2"),
        (("tp=1",), {"tied": True}, "leave --tied out"),
        (("tp=1",), {"sized": True}, "leave --sized out"),
        (("tp=1",), {"layouts": ("head:dp=4,tp=1",)}, "leave --layout out"),
        (("tp=1",), {"schedule": "dualpipe"}, "leave --schedule dualpipe out"),
    ],
)
def test_what_cannot_be_beside_is_refused(
    beside: tuple[str, ...], degrees: dict[str, Any], words: str, tmp_path: Path
) -> None:
    with pytest.raises(UserError) as error:
        _plan(tmp_path, *beside, **degrees)
    assert error.value.code == "plan-sizes"
    assert words in str(error.value)


def test_slices_are_right_if_arrays_that_are_put_together_are() -> None:
    from tantamount.capture.torch.llama.beside import sent_slices
    from tantamount.capture.torch.llama.spread import Degrees, Weight

    whole = np.arange(24)
    for first in ((1, 1, 1), (2, 1, 2), (1, 3, 4), (4, 1, 3)):
        for other in ((1, 1, 1), (1, 2, 3), (3, 1, 4), (2, 2, 1)):
            ends: list[Weight] = []
            for dp, cp, tp in (first, other):
                degrees = Degrees(dp, tp, 1, 1, 1, 1, cp=cp)
                ends.append(Weight("w", (24,), {"tp": 0} if tp > 1 else {}, (), None, degrees))
            have, need = ([np.split(whole, at[2])[k % at[2]] for k in range(at[0] * at[1] * at[2])]
                          for at in (first, other))  # fmt: skip
            texts, dim = sent_slices(*ends)
            assert dim == 0
            assert len(texts) == len(need)
            for text, wanted in zip(texts, need, strict=True):
                got = [_slice(have, term) for term in text.split("+")]
                assert np.array_equal(np.concatenate(got), wanted), (first, other, text)


def _slice(have: list[Any], term: str) -> Any:
    rank, _, rest = term.partition("[")
    part, _, count = rest.rstrip("]").partition("/")
    return np.split(have[int(rank)], int(count or 1))[int(part or 0)]
