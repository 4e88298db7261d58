"""What is said of a counterexample: the place, the difference, and the change that repairs it. One small bug each."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.jobs import job_files
from support.sayings import check_sentences
from tantamount import read_job
from tantamount.answers import refine
from tantamount.verdict import Mismatch, Verdict

EVERYTHING = '[inputs]\ndefault = "Replicate()"\n[outputs]\ndefault = "Replicate()"\n'


def mismatch(folder: Path, specification: str, implementation: str | list[str], tables: str = EVERYTHING) -> Mismatch:
    ranks = [implementation] if isinstance(implementation, str) else implementation
    mesh = {} if len(ranks) == 1 else {"tp": len(ranks)}
    job = read_job(job_files(folder, specification, ranks, tables, mesh, {"tp": tuple(mesh)}))
    report = refine(job)
    assert report.verdict is Verdict.REFUTED
    assert report.mismatch is not None
    check_sentences(job, report)
    return report.mismatch


LINEAR = """
    x: float32[4, 6]
    w: float32[6, 8]
    b: float32[8]
    m = mm(x, w)
    y = add(m, b)
    -> y
"""

# what is wrong -> specification, implementation (one rank), the node that is named, what the headline says
ALONE = {
    "divides again": (
        "x: float32[4, 6]\nd = div(x, 4)\ny = aten.sin.default(d)\n-> y",
        "x: float32[4, 6]\nd = div(x, 4)\ne = div(d, 4)\ny = aten.sin.default(e)\n-> y",
        "e", "e divides by 4 again, after d: it comes out 4 times too small",
    ),
    "another number": (
        "x: float32[4, 6]\nd = mul(x, 6)\ny = aten.sin.default(d)\n-> y",
        "x: float32[4, 6]\nd = mul(x, 3)\ny = aten.sin.default(d)\n-> y",
        "d", "d multiplies by 3 where 6 is needed: the result is 2 times too small",
    ),
    "an operator too many": (
        "x: float32[4, 6]\ny = aten.exp.default(x)\n-> y",
        "x: float32[4, 6]\nr = aten.relu.default(x)\ny = aten.exp.default(r)\n-> y",
        "r", "r applies relu, and the specification does not",
    ),
    "an operator missing": (
        "x: float32[4, 6]\nw: float32[6, 5]\ng: float32[6]\n"
        "s = aten.sigmoid.default(x)\nq = mul(s, g)\ny = mm(q, w)\n-> y",
        "x: float32[4, 6]\nw: float32[6, 5]\ng: float32[6]\ny = mm(x, w)\n-> y",
        "x", "the implementation uses x as it is: sigmoid -> mul (g is never used) is missing",
    ),
    "the wrong shard": (
        "x: float32[4, 6]\nw: float32[6, 8]\ny = mm(x, w)\n-> y",
        "x: float32[4, 6]\nw: float32[6, 8]\na = slice(w, 1, 0, 4)\nb = slice(w, 1, 0, 4)\n"
        "p = mm(x, a)\nq = mm(x, b)\ny = cat([p, q], 1)\n-> y",
        "b", "b takes w[:, 0:4] where w[:, 4:8] is needed",
    ),
    "a bias on both": (
        LINEAR,
        "x: float32[4, 6]\nw: float32[6, 8]\nb: float32[8]\nx0 = slice(x, 1, 0, 3)\nx1 = slice(x, 1, 3, 6)\n"
        "w0 = slice(w, 0, 0, 3)\nw1 = slice(w, 0, 3, 6)\np = aten.addmm.default(b, x0, w0)\n"
        "q = aten.addmm.default(b, x1, w1)\n"
        "y = add(p, q)\n-> y",
        "p", "y has b 2 times: p and q each add it",
    ),
    "a summand left out": (
        "x: float32[4, 6]\nw: float32[6, 8]\nm = mm(x, w)\ny = aten.sin.default(m)\n-> y",
        "x: float32[4, 6]\nw: float32[6, 8]\nx0 = slice(x, 1, 0, 3)\nx1 = slice(x, 1, 3, 6)\nw0 = slice(w, 0, 0, 3)\n"
        "w1 = slice(w, 0, 3, 6)\np = mm(x0, w0)\nq = mm(x1, w1)\ny = aten.sin.default(p)\n-> y",
        "p", "a sum is missing: each of p and q holds one summand of the specification's m",
    ),
    "another input": (
        "x: float32[4, 6]\nw: float32[6, 8]\nv: float32[6, 8]\ny = mm(x, w)\n-> y",
        "x: float32[4, 6]\nw: float32[6, 8]\nv: float32[6, 8]\ny = mm(x, v)\n-> y",
        "v", "v stands where w is needed: the implementation never reads w",
    ),
    "part of an input never read": (
        "x: float32[4, 6]\nq = mul(x, x)\ny = aten.sum.default(q)\n-> y",
        "x: float32[4, 6]\na = slice(x, 0, 0, 2)\nq = mul(a, a)\ny = aten.sum.default(q)\n-> y",
        "y", "y is computed without x[2:4], which the specification's y depends on",
    ),
    "another operator": (
        "x: float32[4]\ns = aten.sin.default(x)\ny = aten.exp.default(s)\n-> y",
        "x: float32[4]\ns = aten.cos.default(x)\ny = aten.exp.default(s)\n-> y",
        "s", "s applies cos to x where the specification applies sin",
    ),
    "rows in another order": (
        "x: float32[4, 6]\nw: float32[6, 5]\nm = mm(x, w)\ny = aten.sin.default(m)\n-> y",
        "x: float32[4, 6]\nw: float32[6, 5]\nm = mm(x, w)\na = slice(m, 0, 0, 2)\nb = slice(m, 0, 2, 4)\n"
        "c = cat([b, a])\ny = aten.sin.default(c)\n-> y",
        "c", "c joins b, a in the wrong order: a, b is needed",
    ),
}  # fmt: skip


# each is a change of one line that was replayed; where none was found, nothing is said
HINTS = {
    "divides again": "leave out e",
    "another number": "6 instead of 3 in d",
    "an operator too many": "leave out r",
    "an operator missing": "apply sigmoid -> mul first",
    "the wrong shard": "4:8 instead of 0:4 along dimension 1 in b",
    "a bias on both": "add b once, after the sum over ranks",
    "a summand left out": "combine p and q first: all_reduce over the ranks that hold them",
    "another input": "w instead of v",
    "another operator": "sin instead of cos in s",
    "rows in another order": "a, b instead of b, a in c",
}


@pytest.mark.parametrize("bug", ALONE)
def test_the_change_that_repairs_is_said(tmp_path: Path, bug: str) -> None:
    specification, implementation, place, headline = ALONE[bug]
    found = mismatch(tmp_path, specification, implementation)
    assert (found.implementation, found.rank) == (place, None)
    assert found.headline.startswith(headline)
    assert found.hint == HINTS.get(bug, "")


SUMMAND = """
    x: float32[4, 3]
    w: float32[3, 8]
    m = mm(x, w)
    {reduced}
    y = aten.sin.default({summed})
    -> y
"""
SHARDED = '[inputs]\nx = "Shard(1)"\nw = "Shard(0)"\n[outputs]\ndefault = "Replicate()"\n'
WHOLE = "x: float32[4, 6]\nw: float32[6, 8]\nm = mm(x, w)\ny = aten.sin.default(m)\n-> y"


def test_a_missing_reduction_names_the_mesh_axis_and_the_collective(tmp_path: Path) -> None:
    found = mismatch(tmp_path, WHOLE, [SUMMAND.format(reduced="", summed="m")] * 2, SHARDED)
    assert found.implementation == "m"
    assert "a sum over tp is missing after m: every rank holds one summand of the specification's m" in found.headline
    assert "all_reduce" in found.hint
    assert "over tp" in found.hint


def test_a_sum_for_a_mean_is_a_factor_of_the_size_of_the_axis(tmp_path: Path) -> None:
    specification = "x: float32[8, 6]\nm = aten.mean.dim(x, [0])\ny = aten.sin.default(m)\n-> y"
    rank = 'x: float32[4, 6]\nm = aten.mean.dim(x, [0])\nr = all_reduce(m, "sum", "tp")\ny = aten.sin.default(r)\n-> y'
    tables = '[inputs]\nx = "Shard(0)"\n[outputs]\ndefault = "Replicate()"\n'
    found = mismatch(tmp_path, specification, [rank] * 2, tables)
    assert "2 times too large" in found.headline
    assert "2 is the size of tp" in found.difference


def test_one_rank_that_is_wrong_is_named(tmp_path: Path) -> None:
    specification = "x: float32[4, 6]\nw: float32[4, 6]\nm = mul(x, w)\ny = aten.sin.default(m)\n-> y"
    first = "x: float32[2, 6]\nw: float32[4, 6]\na = slice(w, 0, 0, 2)\nm = mul(x, a)\ny = aten.sin.default(m)\n-> y"
    tables = '[inputs]\nx = "Shard(0)"\nw = "Replicate()"\n[outputs]\ndefault = "Shard(0)"\n'
    found = mismatch(tmp_path, specification, [first] * 2, tables)
    assert (found.implementation, found.rank) == ("a", 1)
    assert "a on rank 1 takes w[0:2] where w[2:4] is needed" in found.headline


def test_the_relation_that_an_input_should_have_is_proved(tmp_path: Path) -> None:
    """Both ranks load the halves of a weight in the other order than the job says."""
    rank = 'x: float32[4, 6]\nw: float32[6, 4]\nm = mm(x, w)\ny = all_gather(m, 2, "tp")\n-> y'
    tables = '[inputs]\nx = "Replicate()"\nw = "concat(rank(1), rank(0), dim=1)"\n[outputs]\ny = "Replicate()"\n'
    specification = (
        "x: float32[4, 6]\nw: float32[6, 8]\nm = mm(x, w)\na = slice(m, 1, 0, 4)\nb = slice(m, 1, 4, 8)\n"
        "y = cat([a, b], 0)\n-> y"
    )
    found = mismatch(tmp_path, specification, [rank] * 2, tables)
    assert found.implementation == "w"
    assert found.headline == "input w: rank 0 holds w[:, 4:8] where w[:, 0:4] is needed"
    assert found.hint == "it would be proved if w were Shard(1)"


def test_nothing_is_said_to_be_repaired_by_chance(tmp_path: Path) -> None:
    """Two numbers that are wrong in ways that no one change repairs: the formulas are compared instead."""
    found = mismatch(
        tmp_path,
        "x: float32[4]\na = aten.sin.default(x)\nb = aten.cos.default(x)\n"
        "y = aten.atan2.default(a, b)\nz = mul(y, 3)\n-> y, z",
        "x: float32[4]\na = aten.sin.default(x)\nb = aten.exp.default(x)\nc = mul(b, 2)\n"
        "y = aten.atan2.default(a, c)\nz = mul(y, 5)\n-> y, z",
    )
    assert found.headline
    assert "instead of exp" not in found.hint
