"""A search for a counterexample that is interrupted: where both programs agree at first, what is equal is proved before
anything else is executed, and what differs further away is refuted all the same."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.jobs import job_files
from tantamount import read_job
from tantamount.execution import plans
from tantamount.refinement.job import refine_job
from tantamount.verdict import Report, Verdict

INPUTS = '[inputs]\nx = "Replicate()"\n[outputs]\ny = "Replicate()"'


def _refined(folder: Path, specification: str, implementation: str) -> Report:
    head = "x: float32[256]\n"
    rank = head + implementation
    return refine_job(read_job(job_files(folder, head + specification, [rank, rank], INPUTS, {"tp": 2}, {})))


def test_what_differs_on_large_numbers_alone_is_refuted(tmp_path: Path) -> None:
    """Both are 0 on standard normal numbers, which come first."""
    far = "s = sub(x, 20)\nr = relu(s)\n"
    report = _refined(tmp_path, far + "y = mul(r, 3)\n-> y", far + "y = mul(r, r)\n-> y")
    assert report.verdict is Verdict.REFUTED
    assert report.counterexample is not None


def test_what_is_equal_is_executed_on_few_inputs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    executions = 0
    execute = plans.execute

    def counted(*arguments: object, **named: object) -> object:
        nonlocal executions
        executions += 1
        return execute(*arguments, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(plans, "execute", counted)
    whole = "a = add(x, 1)\nb = sub(x, 1)\nc = mul(a, b)\ny = aten.exp.default(c)\n-> y"
    parts = "a = mul(x, x)\nb = sub(a, 1)\nc = mul(b, b)\nd = aten.sqrt.default(c)\ne = relu(b)\n"
    parts += "f = mul(e, 2)\ng = sub(f, d)\ny = aten.exp.default(g)\n-> y"
    report = _refined(tmp_path, whole, parts)
    assert report.verdict is Verdict.PROVED
    assert executions == 2
