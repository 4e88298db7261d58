"""Memory that nobody wrote was a number: ``x + 0 * torch.empty_like(x)`` was PROVED to be x, and is NaN where the
memory happens to hold one."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.jobs import job_files
from tantamount import read_job
from tantamount.answers import refine
from tantamount.verdict import Report, Verdict

EMPTY = (
    "aten.empty_like.default(x)",
    "aten.empty.memory_format([4], dtype=float32)",
    "aten.new_empty.default(x, [4])",
    "aten.empty_strided.default([4], [1], dtype=float32)",
)


def report(folder: Path, specification: str, implementation: str) -> Report:
    texts = [f"x: float32[4]\nm: bool[4]\n{body}\n-> y" for body in (specification, implementation)]
    tables = '[inputs]\nx = "Replicate()"\nm = "Replicate()"\n[outputs]\ny = "Replicate()"'
    return refine(read_job(job_files(folder, texts[0], [texts[1]], tables, {"tp": 1}, {})))


@pytest.mark.parametrize("empty", EMPTY)
@pytest.mark.parametrize("use", ["z = mul(e, 0)", "z = sub(e, e)", "a = relu(e)\nz = mul(a, 0)"])
def test_nothing_is_proved_of_what_it_holds(use: str, empty: str, tmp_path: Path) -> None:
    found = report(tmp_path, "y = mul(x, 1)", f"e = {empty}\n{use}\ny = add(x, z)")
    assert found.verdict is Verdict.UNKNOWN
    assert "e may be undefined" in (found.outputs[0].reason or "")


@pytest.mark.parametrize("use", [
    "y = aten.copy.default(e, x)",
    "a = slice(x, 0, 0, 2)\nb = slice(x, 0, 2, 4)\nc = aten.slice_scatter.default(e, a, 0, 0, 2)\n"
    "y = aten.slice_scatter.default(c, b, 0, 2, 4)",
    "a = aten.where.self(m, x, e)\ny = aten.where.self(m, a, x)",
])  # fmt: skip
def test_what_is_written_before_it_is_read_is_proved(use: str, tmp_path: Path) -> None:
    found = report(tmp_path, "y = mul(x, 1)", f"e = aten.empty_like.default(x)\n{use}")
    assert found.verdict is Verdict.PROVED, str(found)
    assert {a.name for a in found.assumptions} == {"real-arithmetic"}
