"""Plans of models whose pieces have degrees of their own (`plan new --layout`): proved, right on numbers, and refuted
where what is between two layouts is wrong."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest

from support.plan_run import run_plan
from tantamount.answers import verify_plan
from tantamount.effort import Effort
from tantamount.errors import UserError
from tantamount.plan.prove import part_checker
from tantamount.plan.read import read_plan
from tantamount.refinement.job import refine_job
from tantamount.verdict import Verdict

torch = pytest.importorskip("torch")

closely = part_checker(partial(refine_job, doubtful=True, effort=Effort(0.05)))  # words are not what is tested here
SIZES = {"layers": 2, "hidden": 8, "heads": 2, "kv_heads": 2, "ffn": 4, "vocab": 8}
DEGREES = {"dp": 2, "tp": 2, "pp": 2, "microbatches": 2, "batch": 8, "seq": 4, "optimizer": "adamw"}
ENDS = ("embedding:dp=4,tp=1", "head:dp=1,tp=4")


def _plan(folder: Path, **degrees: Any) -> Path:
    from tantamount.capture import new_plan  # pyright: ignore[reportAttributeAccessIssue]

    return new_plan("llama", SIZES, {**DEGREES, "layouts": ENDS, **degrees}, folder)


def test_pieces_with_degrees_of_their_own_are_proved(tmp_path: Path) -> None:
    path = _plan(tmp_path, sp=True, zero=1)
    report = verify_plan(path)
    assert report.verdict is Verdict.PROVED, report.text()
    assert {"embedding_to_layer", "layer_to_head"} <= {part.part for part in report.parts}
    assert max(run_plan(read_plan(path)).values()) < 1e-9
    assert [len(stage) for stage in read_plan(path).stages] == [3, 3]


def test_losses_of_layers_pass_between_layouts(tmp_path: Path) -> None:
    """What layers add is a sum over more ranks where rows are cut by more, and each has its share."""
    from tantamount.capture.torch.llama.experts import ExpertShape
    from tantamount.capture.torch.llama.plan import Degrees, write_plan
    from tantamount.plan.wiring import joints_of

    shape = ExpertShape(2, 8, 2, 6, 4, 2, 4, kv_heads=2, head=4, dense=1, ffn=4)
    layouts = {"moe": {"tp": 1, "ep": 2}}
    degrees = Degrees(**{**DEGREES, "pp": 1, "optimizer": "sgd"}, aux_loss=0.01, layouts=layouts)
    plan = read_plan(write_plan(tmp_path, "experts", shape, degrees))
    assert plan.parts["moe"].layout == "moe"
    assert not [joint for joint in joints_of(plan) if joint.problem]
    assert max(run_plan(plan).values()) < 1e-9


def test_a_wrong_exchange_between_layouts_is_refuted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tantamount.capture.torch.llama import layouts, ranks, steps

    def first(x: Any, dim: int, place: ranks.Ranks, axis: str) -> Any:
        return x.chunk(place.size(axis), dim)[0]

    def own(x: Any, dim: int, group: Any) -> Any:
        return x if group is None else torch.cat([x] * group.size(), dim)

    def not_squares(x: Any, group: Any, kind: str = "sum") -> Any:
        return ranks.total(x, group, kind) if x.ndim or kind != "sum" else x

    for number, (owner, function, instead, place) in enumerate((
        (layouts, "part_of", first, "embedding_to_layer"),
        (layouts, "whole_of", own, "layer_to_head"),
        (steps, "total", not_squares, "layer_reduce"),
    )):  # fmt: skip
        with monkeypatch.context() as patch:
            patch.setattr(owner, function, instead)
            plan = read_plan(_plan(tmp_path / str(number), optimizer="sgd"))
        assert closely(plan.parts[place]).verdict is Verdict.REFUTED, place


def test_layouts_that_cannot_be_are_refused(tmp_path: Path) -> None:
    for more, found in (
        ({"layouts": ["head"]}, "head"),
        ({"layouts": ["head:dp=0"]}, "head:dp=0"),
        ({"layouts": ["head:pp=2"]}, "head:pp=2"),
        ({"layouts": [*ENDS, ENDS[0]]}, ", again"),
        ({"layouts": ["tail:dp=4,tp=1"]}, "tail"),
        ({"layouts": ["head:dp=4"]}, "head on dp 4 x tp 2, 8 ranks"),
        ({"layouts": ["head:dp=3,tp=2"], "tp": 3, "batch": 12}, "layer on dp 2 x tp 3"),
        ({"layouts": ["layer:dp=1,tp=4"]}, "--tp 4 for 2 heads of keys"),
        ({"tied": True}, "--layout with --tied"),
        ({"sized": True}, "--layout with --sized"),
    ):  # fmt: skip
        with pytest.raises(UserError) as refused:
            _plan(tmp_path / "out", **more)
        assert refused.value.code == "plan-sizes"
        assert "--layout" in refused.value.place
        assert found in refused.value.found
        assert refused.value.hint
    assert not (tmp_path / "out").exists()
