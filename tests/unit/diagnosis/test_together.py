"""Changes that are computed together give what each of them gives alone."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from support.jobs import job_files
from tantamount import read_job
from tantamount.diagnosis.replay import Changes, Place, Replay
from tantamount.execution.plans import Scale, draw, plan_execution
from tantamount.limits import Limits
from tantamount.proof import prove

TABLES = '[inputs]\nx = "Shard(0)"\nw = "Replicate()"\n[outputs]\ny = "Replicate()"\nz = "Shard(0)"\n'
PROGRAM = """x: float32[{n}, 6]
w: float32[6, 6]
h = aten.mm.default(x, w)
d = aten.native_dropout.default(h, 0.5, True)
k = getitem(d, 0)
q = mul(k, {c})
o = aten.ones_like.default(q)
z = mul(q, o)
s = aten.sum.default(z)
{y}
-> y, z"""


@pytest.fixture
def replay(tmp_path: Path) -> Replay:
    ranks = [PROGRAM.format(n=2, c=3, y='y = _c10d_functional.all_reduce.default(s, "sum", "tp")')] * 2
    specification = PROGRAM.format(n=4, c=2, y="y = mul(s, 1)")
    job = read_job(job_files(tmp_path, specification, ranks, TABLES, {"tp": 2}, {"tp": ("tp",)}))
    proof = prove(job)
    plan = plan_execution(proof.store, job, proof.inputs, proof.specification, proof.implementation, Limits())
    return Replay(plan, draw(plan, 1, Scale()), 1)


def changes_of(replay: Replay) -> list[Changes]:
    """On both ranks, on one, of an input, and of what lies below and above another change."""
    both: list[Place] = [(0, "z"), (1, "z")]
    values = {place: replay.held(place) for place in replay.order}
    scaled = {place: value * (2 / 3) for place, value in values.items() if value is not None}
    return [
        {place: scaled[place] for place in both},
        {(1, "z"): scaled[1, "z"]},
        {(0, "x"): scaled[0, "x"]},
        {(0, "s"): scaled[0, "s"], (1, "s"): scaled[1, "s"]},
        {(0, "k"): scaled[0, "k"], (1, "k"): scaled[1, "k"]},
    ]


def test_outputs(replay: Replay) -> None:
    changes = changes_of(replay)
    outputs = ["y", "z"]
    alone = [replay.wrong(outputs, one) for one in changes]
    spent = replay.effort
    assert replay.wrong_of_all(outputs, changes) == alone
    assert replay.effort - spent < spent / 2  # at the cost of about one
    assert alone[0] == {"y": 0, "z": 0}
    assert alone[1]["z"] > 0


def test_what_is_near(replay: Replay) -> None:
    changes = changes_of(replay)
    alone = [replay.nearby(one, 4) for one in changes]
    together = replay.nearby_of_all(changes, 4)
    for one, other in zip(alone, together, strict=True):
        assert one is not None
        assert other is not None
        assert one.keys() == other.keys()
        for place, tensor in one.items():
            assert tensor.type == other[place].type
            np.testing.assert_allclose(np.asarray(tensor.value), np.asarray(other[place].value), rtol=1e-12)


def test_what_cannot_be_computed_together_is_computed_alone(replay: Replay) -> None:
    changes: list[Changes] = [{(0, "k"): np.ones((2, 6))}, {(0, "k"): np.ones((3, 3))}]
    assert [one is None for one in replay.wrong_of_all(["y"], changes)] == [False, False]
    assert replay.nearby_of_all(changes, 4)[0] is not None
