"""``gelu(x, approximate="tanh")`` divides by the root of pi / 2, of which nothing knew that it is not 0: two programs
with it were UNKNOWN, "the specification may be finite where its normal form is not defined"."""

from __future__ import annotations

import pytest

from support.jobs import typed_graph
from tantamount.ir.job import Job
from tantamount.ir.mesh import Mesh
from tantamount.ir.relation import Expectation, InputRelation
from tantamount.refinement import refine_job

GELU = 'x: float32[4]\nz = mul(x, 1.0)\ny = aten.gelu.default(z, approximate="tanh")\n-> y'


@pytest.mark.parametrize(
    ("other", "proved"),
    [
        (GELU.replace("1.0", "1"), True),
        (GELU.replace("1.0", "2"), False),
        (GELU.replace("aten.gelu", "aten.silu").replace(', approximate="tanh"', ""), False),
        ("x: float32[4]\np = aten.deg2rad.default(x)\nl = aten.rsqrt.default(p)\ny = mul(l, 0)\n-> y", False),
    ],
)
def test_gelu_is_equal_to_itself(other: str, proved: bool) -> None:
    graphs = typed_graph(GELU), typed_graph(other)
    outputs = {"y": Expectation("y", (), text="Replicate()")}
    job = Job("gelu", graphs[0], (graphs[1],), Mesh(), {"x": InputRelation("x", ())}, outputs)
    answer = refine_job(job)
    assert answer.proved is proved
    assert [one.name for one in answer.assumptions if proved] == (["real-arithmetic"] if proved else [])
