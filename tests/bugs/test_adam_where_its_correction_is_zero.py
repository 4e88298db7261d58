"""A step of Adam divides by ``1 - beta^t`` for two betas, and by products with infinities where these are 0.

The record of where its result is undefined said that it may be finite there: that both corrections are 0 at the same t,
and that an infinity times the root of 0 is NaN, was not seen. So correct steps on shards were UNKNOWN.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from support.jobs import job_files
from tantamount import read_job
from tantamount.proof import Options, prove
from tantamount.verdict import Verdict

STEP = """
    p: float32[4, 4]
    m: float32[4, 4]
    v: float32[4, 4]
    t: float32[]
    one = add(t, 1)
    p1 = aten.pow.Scalar(0.9, one)
    p2 = aten.pow.Scalar(0.999, one)
    a = aten.rsub.Scalar(p1, 1)
    b = aten.rsub.Scalar(p2, 1)
    r = aten.reciprocal.default(a)
    rate = mul(r, 0.01)
    neg = aten.neg.default(rate)
    s = aten.sqrt.default(b)
    size = mul(s, neg)
    q = aten.sqrt.default(v)
    d = div(q, size)
    i = aten.reciprocal.default(neg)
    e = mul(i, 0.00000001)
    f = add(d, e)
    new = aten.addcdiv.default(p, m, f)
    -> new
"""


def verdict(folder: Path, specification: str, implementation: str) -> Verdict:
    half = implementation.replace("[4, 4]", "[2, 4]")
    tables = '[inputs]\ndefault = "Shard(0)"\nt = "Replicate()"\n[outputs]\nnew = "Shard(0)"'
    job = read_job(job_files(folder, specification, [half, half], tables, {"dp": 2}, {}))
    (report,) = prove(job, Options()).check()
    return report.verdict


def test_a_step_on_shards_is_proved(tmp_path: Path) -> None:
    assert verdict(tmp_path, STEP, STEP) is Verdict.PROVED


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("p2 = aten.pow.Scalar(0.999, one)", "p2 = aten.pow.Scalar(0.999, t)"),
        ("p2 = aten.pow.Scalar(0.999, one)", "p2 = aten.pow.Scalar(0.99, one)"),
        ("0.00000001", "0.0000001"),
    ],
)
def test_another_step_is_not(old: str, new: str, tmp_path: Path) -> None:
    assert verdict(tmp_path, STEP, STEP.replace(old, new)) is not Verdict.PROVED


OPEN = {
    "corrections that are 0 at different steps": ("p2 = aten.pow.Scalar(0.999, one)", "p2 = aten.pow.Scalar(0.999, t)"),
    "a correction of base 1, which is always 0": ("p2 = aten.pow.Scalar(0.999, one)", "p2 = aten.pow.Scalar(1.0, one)"),
    "an infinity that meets no zero": ("s = aten.sqrt.default(b)", "s = add(b, 1)"),
}


@pytest.mark.parametrize("name", OPEN)
def test_an_infinity_that_may_become_a_number_stays_open(name: str, tmp_path: Path) -> None:
    """Against itself on shards: where 1 / infinity is finite, the normal form says nothing."""
    program = STEP.replace(*OPEN[name])
    assert verdict(tmp_path, program, program) is not Verdict.PROVED


def test_exponents_are_compared_exactly(tmp_path: Path) -> None:
    """1 - (4/2)^t and 1 - (1/2)^t are 0 at the same t, and positive on different sides of it."""
    root = (
        "    x: float32[]\n    w: float32[4, 4]\n    c = aten.pow.Scalar({base}, x)\n    a = aten.rsub.Scalar(c, 1)\n"
    )
    tail = "    b = aten.{call}.default(a)\n    new = mul(w, b)\n    -> new\n"
    tables = '[inputs]\ndefault = "Replicate()"\n[outputs]\nnew = "Replicate()"'
    for call, base, other, wanted in (
        ("relu", "2.0", "0.5", False),
        ("sign", "2.0", "2.0", True),
    ):
        pair = [(root + tail).format(base=one, call=call) for one in (base, other)]
        job = read_job(job_files(tmp_path, pair[0], [pair[1]], tables, {"r": 1}, {}))
        (report,) = prove(job, Options()).check()
        assert (report.verdict is Verdict.PROVED) == wanted
