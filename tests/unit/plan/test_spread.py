"""Ways to spread a model: their parts are proved, and those of a wrong way are refuted. Whole layers take longer:
benchmarks/plan_ways.py has them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import tomli_w

from support.jobs import typed_graph
from tantamount.capture.graph_document import graph_document
from tantamount.capture.programs import write_document
from tantamount.effort import Effort
from tantamount.plan.prove import part_checker
from tantamount.plan.read import read_plan
from tantamount.plan.result import PartReport
from tantamount.refinement.job import refine_job
from tantamount.verdict import Verdict

torch = pytest.importorskip("torch")

from tantamount.capture.torch.llama import steps  # noqa: E402
from tantamount.capture.torch.llama.model import Shape  # noqa: E402
from tantamount.capture.torch.llama.plan import parts_of, write_part  # noqa: E402
from tantamount.capture.torch.llama.ranks import Ranks  # noqa: E402
from tantamount.capture.torch.llama.spread import Degrees  # noqa: E402

closely = partial(refine_job, doubtful=True, effort=Effort(0.05))  # words are not what is tested here
LLAMA = Shape(2, 8, 2, 2, 4, 6)
BASE = Degrees(dp=2, tp=1, pp=2, microbatches=1, batch=2, seq=4, optimizer="sgd")


def _checked(folder: Path, shape: Any, degrees: Degrees, name: str) -> PartReport:
    """The verdict on one part, in a plan whose model is a stand-in for the one that it belongs to."""
    part = next(part for part in parts_of(shape, degrees) if part.name == name)
    folder.mkdir(exist_ok=True)
    write_document(folder / "any.json.gz", graph_document(typed_graph("w: float32[2]\nd_w = mul(w, 1)\n-> d_w")))
    stand_in = {
        "spec": "any.json.gz", "impl": "any.json.gz", "parameters": {"w": "d_w"},
        "inputs": {"w": "Replicate()"}, "outputs": {"d_w": {"microbatch": 'Partial("sum")'}},
    }  # fmt: skip
    written = write_part(folder, part)
    if written.get("kind") == "piece":
        written["of"] = "any"
    table = {
        "format": "plan/1", "mesh": {"axes": degrees.mesh, "pipeline": "pp"},
        "model": {"pieces": ["any", "any"], "stages": ["any 0", "any 1"], "tied": {"word": {"any": "w"}}},
        "part": {"any": stand_in, name: written},
    }  # fmt: skip
    (folder / "plan.toml").write_text(tomli_w.dumps(table))
    return part_checker(closely)(read_plan(folder / "plan.toml").parts[name])


@dataclass(frozen=True)
class _Case:
    """A part that is right, and ways to make it wrong: what is put in the place of a function, and the outputs that are
    not right then."""

    part: str
    shape: Any = LLAMA
    degrees: Degrees = BASE
    wrong: dict[str, tuple[Any, str, Callable[..., Any], str]] = field(default_factory=dict[str, Any])


def _first_of_all(ranks: Ranks, axis: str) -> int:
    return 0 if axis == "tied" else ranks.at.get(axis, 0)


def _own(x: Any, dim: int, group: Any) -> Any:
    """Not gathered: the own part, as often as there are ranks."""
    return x if group is None else torch.cat([x] * group.size(), dim)


CASES = {
    "sequence": _Case("head", LLAMA, replace(BASE, tp=2, sp=True, zero=2)),
    "two copies": _Case(
        "word_reduce", LLAMA, replace(BASE, tied=True),
        {"the norm has both copies": (Ranks, "rank", _first_of_all, "squares_tp")},
    ),
    "masters": _Case(
        "head_update", LLAMA, replace(BASE, zero=1, optimizer="adamw"),
        {"a shard that is not gathered": (steps, "gathered", _own, "new_norm")},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_a_way_to_spread_a_model_is_proved_and_its_twins_are_refuted(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = CASES[name]
    report = _checked(tmp_path / "right", case.shape, case.degrees, case.part)
    assert report.verdict is Verdict.PROVED, [(output.name, output.reason) for output in report.outputs]
    for twin, (owner, function, instead, output) in case.wrong.items():
        with monkeypatch.context() as patch:
            patch.setattr(owner, function, instead)
            found = _checked(tmp_path / twin.replace(" ", "_"), case.shape, case.degrees, case.part)
        assert found.verdict is Verdict.REFUTED, twin
        assert output in {o.name for o in found.outputs if o.verdict is Verdict.REFUTED}, twin
