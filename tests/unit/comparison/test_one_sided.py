"""Opaque operators that one of two programs calls: no difference of the function that stands in for them counts."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.jobs import job_files
from tantamount.answers import Answer, compare
from tantamount.capture.job import read_job
from tantamount.ir.graph import CustomOperator
from tantamount.verdict import Verdict

KERNEL = CustomOperator("my.kernel", "x, layer", labels="n [d] -> n [d]")
EVERYTHING = '[inputs]\ndefault = "Replicate()"\n[outputs]\ndefault = "Replicate()"\n'
TANH = "x: float32[3, 4]\ny = aten.tanh.default(x)\n-> y"
CALL = 'x: float32[3, 4]\ny = my.kernel(x, "a")\n-> y'


def compared(folder: Path, first: str, second: str) -> Answer:
    return compare(read_job(job_files(folder, first, [second], EVERYTHING, {}, {}, (KERNEL,))))


@pytest.mark.parametrize(("first", "second"), [(TANH, CALL), (CALL, TANH), (CALL, CALL.replace('"a"', '"b"'))])
def test_nothing_is_refuted_by_what_stands_in_for_a_kernel(tmp_path: Path, first: str, second: str) -> None:
    found = compared(tmp_path, first, second)
    assert found.verdict is Verdict.UNKNOWN
    assert any("one program only calls my.kernel" in note for note in found.notes), found.notes


def test_a_kernel_that_both_call_tells_them_apart(tmp_path: Path) -> None:
    twice = 'x: float32[3, 4]\nt = aten.mul.Tensor(x, 2)\ny = my.kernel(t, "a")\n-> y'
    assert compared(tmp_path, CALL, twice).verdict is Verdict.REFUTED
    assert compared(tmp_path, CALL, CALL).verdict is Verdict.PROVED


def test_an_output_that_no_such_kernel_is_read_for_is_refuted(tmp_path: Path) -> None:
    beside = 'x: float32[3, 4]\nz = my.kernel(x, "a")\ny = aten.sin.default(x)\n-> y'
    assert compared(tmp_path, TANH, beside).verdict is Verdict.REFUTED
