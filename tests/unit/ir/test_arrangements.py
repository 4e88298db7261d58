"""Every row of the relation language that is made of others: what it means, and that jobs can say it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pytest

from support.jobs import job_files
from tantamount import Verdict, read_job
from tantamount.answers import refine
from tantamount.certificate.check import check_certificate
from tantamount.ir.arrangements import ARRANGEMENTS
from tantamount.ir.relation import RankTensor
from tantamount.ir.relation_text import parse_relation
from tantamount.ir.relation_types import resolve
from tantamount.ir.types import DType, TensorType
from tantamount.limits import Limits
from tantamount.ops.relations import evaluate
from tantamount.semantics.reference import Array, Reference

WHOLE = np.arange(24.0).reshape(2, 3, 4)
# Row -> its arguments, and what NumPy makes of the same.
MEANINGS: Mapping[str, tuple[str, Callable[[Array], Array]]] = {
    "transpose": ("0, -1", lambda x: np.swapaxes(x, 0, -1)),
    "unflatten": ("2, [2, 2]", lambda x: x.reshape(2, 3, 2, 2)),
}


@pytest.mark.parametrize("name", ARRANGEMENTS)
def test_a_row_means_what_numpy_makes(name: str) -> None:
    arguments, meaning = MEANINGS[name]
    text = f"{name}(rank(0), {arguments})"
    written = parse_relation(text, "x", Limits())
    assert str(written) == text
    resolved, type_ = resolve(written, lambda _: (RankTensor(0, "x"), TensorType(WHOLE.shape, DType.FLOAT64)))  # type: ignore[arg-type]
    found = evaluate(Reference(), resolved, lambda rank, _: WHOLE, "x")
    assert type_.shape == found.shape
    assert np.array_equal(found, meaning(WHOLE))


def test_jobs_say_it_of_inputs_and_outputs(tmp_path: Path) -> None:
    rank = "x: float32[4, 6]\ny = relu(x)\n-> y"
    said = "unflatten(rank(0), 1, [2, 3])"
    tables = f"[inputs]\nx = {said!r}\n[outputs]\ny = {said!r}\n"
    task = read_job(job_files(tmp_path, "x: float32[4, 2, 3]\ny = relu(x)\n-> y", [rank], tables, {}, {}))
    report = refine(task)
    assert report.verdict is Verdict.PROVED, str(report)
    (output,) = report.outputs
    assert str(output.relation) == f"y = {said}"
    report.save_certificate(tmp_path / "proof.json")
    assert check_certificate(tmp_path / "proof.json").exit_code == 0


def test_what_is_arranged_otherwise_is_refuted(tmp_path: Path) -> None:
    tables = "[inputs]\nx = 'transpose(rank(0), 0, 1)'\n[outputs]\ny = 'rank(0)'\n"
    graph = "x: float32[4, 4]\ny = relu(x)\n-> y"
    report = refine(read_job(job_files(tmp_path, graph, [graph], tables, {}, {})))
    assert report.verdict is Verdict.REFUTED, str(report)
