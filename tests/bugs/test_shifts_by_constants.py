"""A shift by a constant divides by a power of two that was not known to be a number, let alone not 0: whatever compared
or sorted the result was UNKNOWN, even against itself."""

from __future__ import annotations

import pytest

from support.jobs import typed_graph
from tantamount.ir.job import Job
from tantamount.ir.mesh import Mesh
from tantamount.ir.relation import InputRelation
from tantamount.proof import prove
from tantamount.proof.questions import layout_of

SHIFTED = "i: int64[5]\nh = aten.bitwise_right_shift.Tensor_Scalar(i, 1)\ny = aten.argmax.default(h, 0)\n-> y"


@pytest.mark.parametrize("other", [SHIFTED, SHIFTED.replace("Tensor_Scalar(i, 1)", "Tensor_Scalar(i, 2)")])
def test_what_follows_a_shift(other: str) -> None:
    job = Job("shift", typed_graph(SHIFTED), (typed_graph(other),), Mesh(), {"i": InputRelation("i", ())}, {})
    assert (layout_of(prove(job), "y", "y") == ()) is (other == SHIFTED)
