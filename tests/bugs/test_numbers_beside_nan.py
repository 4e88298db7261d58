"""Operators that have numbers where a product with zeros, or a difference of infinities, has none.

A running sum does not read what comes later, an average no element of another window; the logarithm of a sum of
exponentials of nothing but minus infinity is minus infinity. A matrix of zeros and ones in their place makes NaN.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from support.jobs import job_files
from tantamount import read_job, refine
from tantamount.verdict import Verdict

_QUOTIENT = "x: float32[4]\ny: float32[4]\nd = div(x, y)\n"
_MASKED = "x: float32[4]\nb: bool[4]\nt = masked_fill(x, b, -inf)\n"
_RAMP = "o = aten.ones.default([4, 4])\nl = aten.tril.default(o)\nc = view(d, [4, 1])\np = mm(l, c)\nu = view(p, [4])"
_SHIFTED = "m = aten.amax.default(t, [0])\ns = sub(t, m)\ne = aten.exp.default(s)\nq = aten.sum.default(e)\n"
WRONG = {
    "running sum": (_QUOTIENT, "u = aten.cumsum.default(d, 0)", _RAMP),
    "average": (
        _QUOTIENT,
        "v = view(d, [1, 1, 4])\na = aten.avg_pool1d.default(v, [2], [2])\nu = view(a, [2])",
        "k = aten.arange.default(4)\nh = aten.lt.Scalar(k, 2)\nhh = mul(d, h)\nf = aten.sum.default(hh)\n"
        "n = aten.ge.Scalar(k, 2)\nnn = mul(d, n)\ng = aten.sum.default(nn)\n"
        "p = aten.stack.default([f, g])\nu = mul(p, 0.5)",
    ),
    "logarithm of a sum": (
        _MASKED,
        "r = aten.logsumexp.default(t, [0])\nu = aten.exp.default(r)",
        _SHIFTED + "g = aten.exp.default(m)\nu = mul(q, g)",
    ),
    "logarithm of two": (
        _MASKED,
        "r = aten.logaddexp.default(t, t)\nu = aten.exp.default(r)",
        "s = sub(t, t)\ne = aten.exp.default(s)\nq = add(e, e)\ng = aten.exp.default(t)\nu = mul(q, g)",
    ),
}


def _verdict(folder: Path, inputs: str, specification: str, implementation: str) -> Verdict:
    names = [line.split(":")[0] for line in inputs.splitlines() if ":" in line]
    tables = "[inputs]\n" + "".join(f'{name} = "Replicate()"\n' for name in names) + '[outputs]\nu = "Replicate()"\n'
    programs = [f"{inputs}{body}\n-> u" for body in (specification, implementation)]
    return refine(read_job(job_files(folder, programs[0], programs[1:], tables, {}, {}))).verdict


@pytest.mark.parametrize("what", WRONG)
def test_a_product_with_zeros_is_not_taken_for_what_reads_nothing_there(tmp_path: Path, what: str) -> None:
    inputs, specification, implementation = WRONG[what]
    assert _verdict(tmp_path, inputs, specification, implementation) is not Verdict.PROVED


@pytest.mark.parametrize(
    ("inputs", "specification", "implementation"),
    [
        ("d: float32[4]\n", "u = aten.cumsum.default(d, 0)", _RAMP),
        (
            _MASKED,
            "r = aten.logsumexp.default(t, [0])\nu = aten.exp.default(r)",
            "e = aten.exp.default(t)\nu = aten.sum.default(e)",
        ),
    ],
)
def test_where_all_are_numbers_they_are_the_same(
    tmp_path: Path, inputs: str, specification: str, implementation: str
) -> None:
    assert _verdict(tmp_path, inputs, specification, implementation) is Verdict.PROVED
