"""Rotary embeddings with complex numbers: against real arithmetic, sharded over heads, and wrong in one place."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.jobs import job_files
from tantamount import read_job
from tantamount.answers import refine
from tantamount.verdict import Report, Verdict

SPEC = """
x: float32[6, 4, 8]
angles: float32[6, 4]
one = aten.ones_like.default(angles)
turn = aten.polar.default(one, angles)
pairs = view(x, [6, 4, 4, 2])
z = aten.view_as_complex.default(pairs)
turn4 = unsqueeze(turn, 1)
turned = mul(z, turn4)
real = aten.view_as_real.default(turned)
y = view(real, [6, 4, 8])
-> y
"""
REAL = """
x: float32[6, 2, 8]
angles: float32[6, 4]
even = slice(x, 2, 0, 8, 2)
odd = slice(x, 2, 1, 8, 2)
c = aten.cos.default(angles)
s = aten.sin.default(angles)
c4 = unsqueeze(c, 1)
s4 = unsqueeze(s, 1)
a = mul(even, c4)
b = mul(odd, s4)
re = sub(a, b)
d = mul(even, s4)
e = mul(odd, c4)
im = add(d, e)
both = aten.stack.default([re, im], -1)
y = view(both, [6, 2, 8])
-> y
"""
COMPLEX = SPEC.replace("x: float32[6, 4, 8]", "x: float32[6, 2, 8]").replace("[6, 4, 4, 2]", "[6, 2, 4, 2]")
COMPLEX = COMPLEX.replace("view(real, [6, 4, 8])", "view(real, [6, 2, 8])")
HEADS = '[inputs]\nx = "Shard(1)"\nangles = "Replicate()"\n[outputs]\ny = "Shard(1)"'

GIVEN = """
x: complex64[4, 6]
w: complex64[6, 3]
y = mm(x, w)
back = aten._conj.default(y)
mirrored = transpose(back, 0, 1)
-> mirrored
"""
PART = GIVEN.replace("x: complex64[4, 6]", "x: complex64[4, 3]").replace("w: complex64[6, 3]", "w: complex64[3, 3]")
SUMMED = PART.replace("back =", 'sum_ = all_reduce(y, "sum", "tp")\nback =').replace(
    "_conj.default(y)", "_conj.default(sum_)"
)
SUMS = '[inputs]\nx = "Shard(1)"\nw = "Shard(0)"\n[outputs]\nmirrored = "Replicate()"'


def judged(folder: Path, specification: str, implementation: str, tables: str, fold: bool | None = None) -> Report:
    path = job_files(folder, specification, [implementation] * 2, tables, {"tp": 2}, {"tp": ("tp",)})
    return refine(read_job(path), fold=fold)


@pytest.mark.parametrize("fold", [True, False])
@pytest.mark.parametrize("implementation", [REAL, COMPLEX])
def test_rotary_embedding(tmp_path: Path, implementation: str, fold: bool) -> None:
    assert judged(tmp_path, SPEC, implementation, HEADS, fold).verdict is Verdict.PROVED


@pytest.mark.parametrize(
    ("implementation", "old", "new"),
    [
        (REAL, "re = sub(a, b)", "re = add(a, b)"),
        (REAL, "stack.default([re, im], -1)", "stack.default([im, re], -1)"),
        (COMPLEX, "turn4 = unsqueeze(turn, 1)", "conj = aten._conj.default(turn)\nturn4 = unsqueeze(conj, 1)"),
        (
            COMPLEX,
            "turn4 = unsqueeze(turn, 1)",
            "cast = aten._to_copy.default(turn, dtype=float32)\nturn4 = unsqueeze(cast, 1)",
        ),
    ],
)
def test_wrong_rotary_embedding(tmp_path: Path, implementation: str, old: str, new: str) -> None:
    assert old in implementation
    report = judged(tmp_path, SPEC, implementation.replace(old, new), HEADS)
    assert report.verdict is Verdict.REFUTED
    assert report.counterexample is not None


@pytest.mark.parametrize("fold", [True, False])
def test_complex_inputs_outputs_and_collectives(tmp_path: Path, fold: bool) -> None:
    """Complex tensors are sharded, summed over ranks and compared as pairs of real numbers."""
    assert judged(tmp_path, GIVEN, SUMMED, SUMS, fold).verdict is Verdict.PROVED


@pytest.mark.parametrize(
    ("old", "new"),
    [("_conj.default(sum_)", "_conj.default(y)"), ("aten._conj.default", "aten.alias.default")],
)
def test_wrong_complex_sum(tmp_path: Path, old: str, new: str) -> None:
    report = judged(tmp_path, GIVEN, SUMMED.replace(old, new), SUMS)
    assert report.verdict is Verdict.REFUTED
    assert report.counterexample is not None
