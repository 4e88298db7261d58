"""What ranks do to their parts of a maximum: right for functions that grow, wrong for those that fall."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.jobs import job_files
from tantamount import read_job
from tantamount.answers import refine
from tantamount.verdict import Verdict

TABLES = """[inputs]
default = "Replicate()"
x = 'Partial("max")'
[outputs]
y = 'Partial("max")'"""
GROWING = {
    "scaled": "y = mul(x, 2)",
    "shifted": "z = mul(x, 3)\ny = sub(z, 1)",
    "by a positive input": "e = aten.exp.default(s)\ny = mul(x, e)",
    "exp": "y = aten.exp.default(x)",
    "sigmoid": "y = aten.sigmoid.default(x)",
    "of what is negated": "n = aten.neg.default(x)\ne = aten.exp.default(n)\ny = mul(e, -3)",
    "tanh of sigmoid": "z = aten.sigmoid.default(x)\ny = aten.tanh.default(z)",
    "a reciprocal of what falls": (
        "n = mul(x, -2)\ne = aten.exp.default(n)\na = add(e, 5)\ny = aten.reciprocal.default(a)"
    ),
}
FALLING = {
    "scaled": "y = mul(x, -2)",
    "by an input": "y = mul(x, s)",
    "exp": "n = aten.neg.default(x)\ny = aten.exp.default(n)",
    "sigmoid": "n = aten.neg.default(x)\ny = aten.sigmoid.default(n)",
    "of what is negated": "e = aten.exp.default(x)\ny = mul(e, -3)",
    "a reciprocal of what grows": "e = aten.exp.default(x)\na = add(e, 5)\ny = aten.reciprocal.default(a)",
    "a square": "y = mul(x, x)",
}


def _verdict(folder: Path, lines: str) -> Verdict:
    text = f"x: float32[4, 3]\ns: float32[]\n{lines}\n-> y"
    return refine(read_job(job_files(folder, text, [text] * 2, TABLES, {"tp": 2}, {"tp": ("tp",)}))).verdict


@pytest.mark.parametrize("name", GROWING)
def test_what_grows_is_proved(name: str, tmp_path: Path) -> None:
    assert _verdict(tmp_path, GROWING[name]) is Verdict.PROVED


@pytest.mark.parametrize("name", FALLING)
def test_what_falls_is_refuted(name: str, tmp_path: Path) -> None:
    assert _verdict(tmp_path, FALLING[name]) is Verdict.REFUTED
