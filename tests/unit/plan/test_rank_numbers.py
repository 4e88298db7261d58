"""Parts that are looked at on fewer ranks: a number that is one of ranks makes no difference that the part has not."""

from __future__ import annotations

from typing import Any

import pytest

from support.jobs import typed_graph
from tantamount.capture.job import job_of
from tantamount.effort import Effort
from tantamount.plan.parts import Part, Runs
from tantamount.plan.prove import part_checker
from tantamount.plan.rank_numbers import with_fewer
from tantamount.reduction.meshes import shortened
from tantamount.refinement.job import refine_job
from tantamount.verdict import Verdict

RANKS = 8


def part(kind: str, mine: str, theirs: str = "mul(r, 1)") -> Part:
    """Gradients that are scattered over ranks: asinh by its name, and by a logarithm, which is not proved."""
    given = f"d: float32[{4 * RANKS}, 6]\ne: float32[{4 * RANKS}, 6]\n"
    root = "a = mul(e, e)\nb = add(a, 1)\nc = aten.sqrt.default(b)\nl = add(e, c)\nh = aten.log.default(l)\n"
    spec = f"{given}h = aten.asinh.default(e)\nt = mul(d, h)\ng = {mine}\n-> g"
    rank = f'{given}{root}t = mul(d, h)\nr = reduce_scatter(t, "{kind}", {RANKS}, "dp")\ng = {theirs}\n-> g'
    document: dict[str, Any] = {
        "format": "job/1",
        "spec": {"graph": "spec"},
        "impl": {"graph": "impl", "mesh": {"dp": RANKS}, "groups": {"dp": ["dp"]}},
        "inputs": {"d": ['Partial("sum")'], "e": ["Replicate()"]},
        "outputs": {"g": ["Shard(0)"]},
    }
    graphs = {"spec": typed_graph(spec), "impl": typed_graph(rank, {"dp": RANKS})}
    return Part("reduce", Runs.PIECE, job_of(document, graphs, "reduce"))


RIGHT = [("avg", f"mul(t, {1 / RANKS})", "mul(r, 1)"), ("avg", "mul(t, 1)", f"mul(r, {RANKS})")]
WRONG = [
    ("sum", f"mul(t, {1 / RANKS})", "mul(r, 1)"),
    ("avg", "mul(t, 1)", "mul(r, 1)"),
    ("sum", "mul(t, 1)", "mul(r, 2)"),
]


@pytest.mark.parametrize("how", RIGHT)
def test_a_mean_over_ranks_is_not_refuted_beside_their_number(how: tuple[str, str, str]) -> None:
    assert part_checker(refine_job)(part(*how)).verdict is Verdict.UNKNOWN


@pytest.mark.parametrize("how", WRONG)
def test_what_is_wrong_is_refuted_on_fewer_ranks(how: tuple[str, str, str]) -> None:
    assert part_checker(refine_job)(part(*how)).verdict is Verdict.REFUTED


def test_numbers_of_ranks_are_made_smaller_with_them() -> None:
    job = part("avg", f"mul(t, {1 / RANKS})", "mul(r, 24)").job
    small = shortened(job, ["dp"], Effort())
    ranks = small.mesh.axes["dp"]
    assert ranks < RANKS
    other = with_fewer(small, job)
    assert other is not None
    assert other.specification.by_name["g"].args[1] == 1 / ranks
    assert other.implementation[0].by_name["g"].args[1] == 24 * ranks / RANKS
    assert with_fewer(small, small) is None
    assert with_fewer(shortened(left := part("avg", "mul(t, 0.3)", "mul(r, 5)").job, ["dp"], Effort()), left) is None
