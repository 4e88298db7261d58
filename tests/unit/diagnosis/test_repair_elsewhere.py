"""The bugs of ``test_repair`` in HLO and with declared operators: the same is said, for it is said of facts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support.jobs import job_files
from support.sayings import check_sentences
from tantamount import read_job
from tantamount.answers import refine
from tantamount.ir.graph import CustomOperator
from tantamount.verdict import Mismatch, Verdict

ADDITION = "add {\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n  ROOT c = f32[] add(a, b)\n}\n\n"
GROUPS = {1: "{{0}}", 2: "{{0,1}}"}


def module(body: str) -> str:
    lines = [line.strip() for line in body.strip().splitlines()]
    lines[-1] = f"ROOT {lines[-1]}"
    return f"HloModule m\n\n{ADDITION}ENTRY main {{\n" + "\n".join(f"  {line}" for line in lines) + "\n}\n"


def refuted(path: Path) -> Mismatch:
    job = read_job(path)
    report = refine(job)
    assert report.verdict is Verdict.REFUTED
    assert report.mismatch is not None
    check_sentences(job, report)
    return report.mismatch


def hlo(folder: Path, specification: str, implementation: str, relations: tuple[str, ...] = ()) -> Mismatch:
    """``relations``: of the inputs over two ranks; none: one rank."""
    (folder / "spec.hlo").write_text(module(specification))
    (folder / "impl.hlo").write_text(module(implementation))
    mesh = "mesh = { tp = 2 }\n" if relations else "mesh = {}\n"
    inputs = "\n".join(f"parameter{k} = {json.dumps(text)}" for k, text in enumerate(relations))
    (folder / "job.toml").write_text(
        f'format = "job/1"\n[spec]\ngraph = "spec.hlo"\n[impl]\ngraph = "impl.hlo"\n{mesh}'
        f'[inputs]\n{inputs or "default = " + json.dumps("Replicate()")}\n[outputs]\ndefault = "Replicate()"\n'
    )
    return refuted(folder / "job.toml")


X = "x = f32[4,6] parameter(0)\n"
W = "w = f32[6,8] parameter(1)\n"
DOT = "lhs_contracting_dims={1}, rhs_contracting_dims={0}"
# what is wrong -> specification, implementation (one rank), the node that is named, what the headline says
IN_HLO = {
    "divides again": (
        X + "c = f32[] constant(4)\nb = f32[4,6] broadcast(c), dimensions={}\nd = f32[4,6] divide(x, b)\n"
        "y = f32[4,6] sine(d)",
        X + "c = f32[] constant(4)\nb = f32[4,6] broadcast(c), dimensions={}\nd = f32[4,6] divide(x, b)\n"
        "e = f32[4,6] divide(d, b)\ny = f32[4,6] sine(e)",
        "e", "e divides by 4 again, after d: it comes out 4 times too small",
    ),
    "another number": (
        X + "c = f32[] constant(6)\nb = f32[4,6] broadcast(c), dimensions={}\nd = f32[4,6] multiply(x, b)\n"
        "y = f32[4,6] sine(d)",
        X + "c = f32[] constant(3)\nb = f32[4,6] broadcast(c), dimensions={}\nd = f32[4,6] multiply(x, b)\n"
        "y = f32[4,6] sine(d)",
        "d", "d multiplies by 3 where 6 is needed: the result is 2 times too small",
    ),
    "an operator too many": (
        X + "y = f32[4,6] exponential(x)",
        X + "r = f32[4,6] tanh(x)\ny = f32[4,6] exponential(r)",
        "r", "r applies tanh, and the specification does not",
    ),
    "an operator missing": (
        X + W + "s = f32[4,6] logistic(x)\nt = f32[4,6] transpose(s), dimensions={0,1}\n"
        f"y = f32[4,8] dot(t, w), {DOT}",
        X + W + f"y = f32[4,8] dot(x, w), {DOT}",
        "parameter0", "the implementation uses parameter0 as it is: logistic is missing",
    ),
    "the wrong shard": (
        X + W + f"y = f32[4,8] dot(x, w), {DOT}",
        X + W + "a = f32[6,4] slice(w), slice={[0:6], [0:4]}\nb = f32[6,4] slice(w), slice={[0:6], [0:4]}\n"
        f"p = f32[4,4] dot(x, a), {DOT}\nq = f32[4,4] dot(x, b), {DOT}\n"
        "y = f32[4,8] concatenate(p, q), dimensions={1}",
        "b", "b takes parameter1[:, 0:4] where parameter1[:, 4:8] is needed",
    ),
    "a summand left out": (
        X + W + f"m = f32[4,8] dot(x, w), {DOT}\ny = f32[4,8] sine(m)",
        X + W + "x0 = f32[4,3] slice(x), slice={[0:4], [0:3]}\nx1 = f32[4,3] slice(x), slice={[0:4], [3:6]}\n"
        "w0 = f32[3,8] slice(w), slice={[0:3], [0:8]}\nw1 = f32[3,8] slice(w), slice={[3:6], [0:8]}\n"
        f"p = f32[4,8] dot(x0, w0), {DOT}\nq = f32[4,8] dot(x1, w1), {DOT}\ny = f32[4,8] sine(p)",
        "p", "a sum is missing: each of p and q holds one summand of the specification's m",
    ),
    "another operator": (
        X + "s = f32[4,6] sine(x)\ny = f32[4,6] exponential(s)",
        X + "s = f32[4,6] cosine(x)\ny = f32[4,6] exponential(s)",
        "s", "s applies cosine to parameter0 where the specification applies sine",
    ),
    "rows in another order": (
        X + W + f"m = f32[4,8] dot(x, w), {DOT}\ny = f32[4,8] sine(m)",
        X + W + f"m = f32[4,8] dot(x, w), {DOT}\na = f32[2,8] slice(m), slice={{[0:2], [0:8]}}\n"
        "b = f32[2,8] slice(m), slice={[2:4], [0:8]}\nc = f32[4,8] concatenate(b, a), dimensions={0}\n"
        "y = f32[4,8] sine(c)",
        "c", "c joins b, a in the wrong order: a, b is needed",
    ),
    "an addition too many": (
        X + "v = f32[4,6] parameter(1)\nd = f32[4,6] add(x, v)\ny = f32[4,6] sine(d)",
        X + "v = f32[4,6] parameter(1)\nd = f32[4,6] add(x, v)\ne = f32[4,6] add(d, v)\ny = f32[4,6] sine(e)",
        "e", "parameter1 is added 2 times, by d and e: e must not",
    ),
}  # fmt: skip


@pytest.mark.parametrize("bug", IN_HLO)
def test_a_bug_in_hlo(tmp_path: Path, bug: str) -> None:
    specification, implementation, place, headline = IN_HLO[bug]
    found = hlo(tmp_path, specification, implementation)
    assert found.headline.startswith(headline)
    assert found.implementation == place
    assert found.hint


def test_a_missing_all_reduce_in_hlo(tmp_path: Path) -> None:
    found = hlo(
        tmp_path,
        X + W + f"m = f32[4,8] dot(x, w), {DOT}\ny = f32[4,8] sine(m)",
        f"x = f32[4,3] parameter(0)\nw = f32[3,8] parameter(1)\nm = f32[4,8] dot(x, w), {DOT}\ny = f32[4,8] sine(m)",
        ("Shard(1)", "Shard(0)"),
    )
    assert found.implementation == "m"
    assert "a sum over tp is missing after m: every rank holds one summand of the specification's m" in found.headline


def test_a_sum_for_a_mean_in_hlo(tmp_path: Path) -> None:
    mean = (
        "x = f32[{n},6] parameter(0)\nz = f32[] constant(0)\nr = f32[6] reduce(x, z), dimensions={{0}}, to_apply=add\n"
        "c = f32[] constant({n})\nd = f32[6] broadcast(c), dimensions={{}}\nm = f32[6] divide(r, d)\n"
    )
    found = hlo(
        tmp_path,
        mean.format(n=8) + "y = f32[6] sine(m)",
        mean.format(n=4) + f"g = f32[6] all-reduce(m), replica_groups={GROUPS[2]}, to_apply=add\ny = f32[6] sine(g)",
        ("Shard(0)",),
    )
    assert "2 times too large" in found.headline or "divides by 4 where 8 is needed" in found.headline


OPERATORS = (
    CustomOperator("my.halve", "x, by=2", "x / by"),
    CustomOperator("my.shift", "x, y", "x + y"),
    CustomOperator("my.bend", "x", "tanh(x)"),
    CustomOperator("my.kernel", "x", labels="... [d] -> ... [d]"),
    CustomOperator("my.point", "x", labels="... -> ..."),
)
EVERYTHING = '[inputs]\ndefault = "Replicate()"\n[outputs]\ndefault = "Replicate()"\n'
DECLARED = {
    "divides again": (
        "x: float32[4, 6]\nd = my.halve(x, 4)\ny = my.kernel(d)\n-> y",
        "x: float32[4, 6]\nd = my.halve(x, 4)\ne = my.halve(d, 4)\ny = my.kernel(e)\n-> y",
        "e", "e divides by 4 again, after d: it comes out 4 times too small",
    ),
    "another number": (
        "x: float32[4, 6]\nd = my.halve(x, 6)\ny = my.kernel(d)\n-> y",
        "x: float32[4, 6]\nd = my.halve(x, 3)\ny = my.kernel(d)\n-> y",
        "d", "d divides by 3 where 6 is needed: the result is 2 times too large",
    ),
    "an operator too many": (
        "x: float32[4, 6]\ny = my.kernel(x)\n-> y",
        "x: float32[4, 6]\nr = my.bend(x)\ny = my.kernel(r)\n-> y",
        "r", "r applies bend, and the specification does not",
    ),
    "an addition too many": (
        "x: float32[4, 6]\nv: float32[4, 6]\nd = my.shift(x, v)\ny = my.kernel(d)\n-> y",
        "x: float32[4, 6]\nv: float32[4, 6]\nd = my.shift(x, v)\ne = my.shift(d, v)\ny = my.kernel(e)\n-> y",
        "e", "v is added 2 times, by d and e: e must not",
    ),
    "an opaque operator missing": (
        "x: float32[4, 6]\nw: float32[6, 5]\ns = my.point(x)\ny = mm(s, w)\n-> y",
        "x: float32[4, 6]\nw: float32[6, 5]\ny = mm(x, w)\n-> y",
        "x", "the implementation uses x as it is: point is missing",
    ),
    "an opaque operator on a summand": (
        "x: float32[4, 6]\nw: float32[6, 8]\nm = mm(x, w)\ny = my.kernel(m)\n-> y",
        "x: float32[4, 6]\nw: float32[6, 8]\nx0 = slice(x, 1, 0, 3)\nx1 = slice(x, 1, 3, 6)\nw0 = slice(w, 0, 0, 3)\n"
        "w1 = slice(w, 0, 3, 6)\np = mm(x0, w0)\nq = mm(x1, w1)\ny = my.kernel(p)\n-> y",
        "p", "a sum is missing: each of p and q holds one summand of the specification's m",
    ),
}  # fmt: skip


@pytest.mark.parametrize("bug", DECLARED)
def test_a_bug_with_declared_operators(tmp_path: Path, bug: str) -> None:
    specification, implementation, place, headline = DECLARED[bug]
    found = refuted(job_files(tmp_path, specification, [implementation], EVERYTHING, {}, {"tp": ()}, OPERATORS))
    assert found.headline.startswith(headline)
    assert found.implementation == place
    assert found.hint
