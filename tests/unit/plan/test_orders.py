"""ZeRO cuts over dp what tp has cut along the same dimension, as FSDP does: parts of parts."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tantamount import verify_plan
from tantamount.capture.orders import Order
from tantamount.plan.read import read_plan
from tantamount.plan.wiring import joints_of
from tantamount.verdict import Verdict

torch = pytest.importorskip("torch")

from tantamount.capture.torch.llama.model import Shape  # noqa: E402
from tantamount.capture.torch.llama.plan import write_plan  # noqa: E402
from tantamount.capture.torch.llama.spread import Degrees  # noqa: E402

GRID = "Shard(0, [0, 2, 1, 3])"


def test_parts_of_parts_are_proved_and_must_be_the_same_everywhere(tmp_path: Path) -> None:
    degrees = Degrees(2, 2, 1, microbatches=2, batch=4, seq=4, optimizer="adamw", zero=3, zero_first=True)
    right = write_plan(tmp_path / "right", "fsdp", Shape(1, 8, 2, 2, 4, 8), degrees)
    text = right.read_text("utf-8")
    assert GRID in text
    assert verify_plan(right).verdict is Verdict.PROVED
    wrong = Path(shutil.copytree(right.parent, tmp_path / "wrong")) / "plan.toml"
    wrong.write_text(text.replace(GRID, "Shard(0)"), "utf-8")  # dp first, as a mesh of dp and tp has it
    found = verify_plan(wrong)
    assert {part.part for part in found.parts if part.verdict is Verdict.REFUTED} >= {"embedding", "layer", "head"}
    update = text.index("[part.layer_update]")
    wrong.write_text(text[:update] + text[update:].replace(GRID, "Shard(0)"), "utf-8")
    found = verify_plan(wrong)
    assert found.verdict is Verdict.REFUTED
    assert "order 0, 2, 1, 3" in " ".join(joint.problem for joint in found.joints)


def test_state_that_is_computed_anew_and_not_replaced_is_not_proved(tmp_path: Path) -> None:
    """Without the line that says so nothing replaced Adam's second moment, on either side, and the plan was PROVED."""
    path = write_plan(tmp_path / "plan", "adam", Shape(1, 8, 2, 2, 4, 8), Degrees(1, 2, 1, 1, 2, 4, optimizer="adamw"))
    text = path.read_text("utf-8")
    assert 'new_v_gate = "v_gate"\n' in text
    path.write_text(text.replace('new_v_gate = "v_gate"\n', ""), "utf-8")
    (joint,) = (joint for joint in joints_of(read_plan(path)) if joint.problem)
    assert joint.problem == "nothing updates v_gate of layer, which is state, and nothing takes new_v_gate"
    assert not joint.wrong  # a constant, maybe


def test_a_grid_is_told_from_other_orders() -> None:
    assert Order(0, (0, 2, 1, 3)).grid == (2, 2)
    assert Order(0, (0, 3, 1, 4, 2, 5)).grid == (3, 2)
    assert Order(0, (0, 2, 4, 1, 3, 5)).grid == (2, 3)
    assert Order(0, (0, 3, 1, 2)).grid is None
    assert Order(0, (0, 1, 2, 3)).grid is None
