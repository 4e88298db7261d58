"""``Shard(0)`` of a number, or ``Shard(5)`` of a matrix, as what ranks have of an output: the plan ended with a
traceback, where programs were executed and where messages between other numbers of ranks were compared."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from support.plans import GROUPS, write_plan
from tantamount.answers import verify_plan
from tantamount.verdict import Verdict


@pytest.mark.parametrize("dim", [0, -1, 5])
@pytest.mark.parametrize("tensor", ["squares", "g_w"])
def test_an_output_without_the_dimension_is_refuted(tensor: str, dim: int, tmp_path: Path) -> None:
    cut: dict[str, Any] = {"tp": f"Shard({dim})"}

    def edit(table: dict[str, Any]) -> None:
        table["part"]["first_reduce"]["outputs"][tensor] = cut

    report = verify_plan(write_plan(tmp_path, {}, edit))
    assert report.verdict is Verdict.REFUTED, report.text()
    (part,) = (one for one in report.parts if one.verdict is not Verdict.PROVED)
    (output,) = (one for one in part.outputs if one.verdict is Verdict.REFUTED)
    assert (part.part, output.name) == ("first_reduce", tensor)
    assert output.reason.startswith("the expectation cannot hold: ")


def test_what_is_sent_to_other_ranks_has_its_dimensions(tmp_path: Path) -> None:
    """The last stage has two ranks, those before it four."""

    def edit(table: dict[str, Any]) -> None:
        parts = table["part"]
        parts["last"]["layout"] = "narrow"
        table["mesh"] |= {
            "layouts": {"narrow": {"axes": {"dp": 2}}},
            "messages": [{"to": "narrow", "ranks": ["0", "2"]}, {"from": "narrow", "ranks": [0, 0, 1, 1]}],
        }
        table["model"]["stages"] = ["first, layer 0-2", "last"]
        parts["layer"]["outputs"]["y"] = {"microbatch": "Shard(0)", "dp": "Shard(5)"}
        table["finish"] = {}
        for name in ("first_reduce", "first_update", "layer_reduce", "layer_update", "norm"):
            del parts[name]

    report = verify_plan(write_plan(tmp_path, {}, edit, groups={**GROUPS, "world": 6}))
    assert report.verdict is Verdict.REFUTED, report.text()
    assert any(joint.problem == "Shard(5) of float32[16, 4]" for joint in report.joints), report.text(verbose=True)
