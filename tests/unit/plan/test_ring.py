"""Rings of ranks with causal attention: a layer of a plan whose ranks run programs of different structure."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from support.jobs import typed_graph
from tantamount.capture.late import late
from tantamount.correspond.alignment import align
from tantamount.effort import Effort
from tantamount.ir.graph import Graph
from tantamount.plan.prove import part_checker
from tantamount.plan.read import read_plan
from tantamount.plan.result import PartReport
from tantamount.plan.wiring import joints_of
from tantamount.refinement.job import refine_differing, refine_job
from tantamount.verdict import Verdict

torch = pytest.importorskip("torch")

from tantamount.capture.torch.llama import context  # noqa: E402
from tantamount.capture.torch.llama.model import Shape  # noqa: E402
from tantamount.capture.torch.llama.plan import write_plan  # noqa: E402
from tantamount.capture.torch.llama.spread import Degrees  # noqa: E402

LLAMA = Shape(1, 16, 4, 2, 4, 6)  # two heads of queries for each of keys
RING = Degrees(1, 1, 1, microbatches=1, batch=1, seq=6, optimizer="sgd", cp=2, context="ring")


def _checked(folder: Path, shape: Shape, degrees: Degrees) -> PartReport:
    """The report on the layer of a plan that is written to a folder."""
    small = Effort(0.05)
    refine, differing = partial(refine_job, doubtful=True, effort=small), partial(refine_differing, effort=small)
    check = part_checker(refine, Effort(), differing, align)
    return check(read_plan(write_plan(folder, "ring", shape, degrees)).parts["layer"])


def test_a_causal_ring_is_proved_and_one_that_keeps_gradients_is_refuted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = _checked(tmp_path / "right", LLAMA, RING)
    assert found.verdict is Verdict.PROVED, [(output.name, output.reason) for output in found.outputs]
    assert not [joint for joint in joints_of(read_plan(tmp_path / "right" / "plan.toml")) if joint.problem]
    monkeypatch.setattr(context, "_handed", lambda grad, ranks: grad)
    wrong = _checked(tmp_path / "wrong", LLAMA, RING)
    assert wrong.verdict is Verdict.REFUTED
    assert {output.name for output in wrong.outputs if output.verdict is Verdict.REFUTED} >= {"d_k", "d_v", "d_x"}


def test_ranks_that_come_to_gradients_in_other_views_meet_in_one_leaf(tmp_path: Path) -> None:
    """Two rows and one head on a rank: its own block of the gradient of the values is a part of what the specification
    has head by head, and of what it makes of that for the product with the other factor of the weight's gradient."""
    found = _checked(tmp_path, Shape(1, 8, 2, 2, 4, 6), replace(RING, tp=2, batch=2))
    assert found.verdict is Verdict.PROVED, [(output.name, output.reason) for output in found.outputs]


def test_what_another_rank_passes_on_is_late_as_well() -> None:
    """A gradient that a rank puts into a collective comes out on all, whatever else they do; calls are told apart."""

    def graph(text: str) -> Graph:
        return typed_graph(text)

    first = graph(
        'x: float32[2]\nd: float32[2]\na = all_reduce(x, "sum", "cp")\nb = all_reduce(d, "sum", "cp")\ny = mul(a, 2)\n'
        "-> y, b"
    )
    second = graph(
        'x: float32[2]\nd: float32[2]\na = all_reduce(x, "sum", "cp")\nb = all_reduce(x, "sum", "cp")\n'
        "y = mul(a, 2)\nz = mul(b, 2)\n-> y, z"
    )
    assert late([first, second], {"d"}) == [{"d", "b"}, {"d", "b", "z"}]
    assert late([second], {"d"}) == [{"d"}]
