"""Attention kernels and their gradients, with heads over ranks."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.jobs import job_files
from tantamount.capture.job import read_job
from tantamount.correspond.alignment import align
from tantamount.proof import Options, prove
from tantamount.proof.outputs import check_outputs
from tantamount.verdict import Verdict

KERNEL = "aten._scaled_dot_product_flash_attention_for_cpu"
FUSED = (
    "o, s = {kernel}.default(q, k, v, 0.0, True)\n"
    "dq, dk, dv = {kernel}_backward.default(do, q, k, v, o, s, 0.0, {causal})\n-> o, dq, dk, dv"
)
PLACED = '[inputs]\ndefault = "Shard(1)"\n[outputs]\ndefault = "Shard(1)"'


def _verdicts(folder: Path, heads: int, causal: str) -> dict[str, Verdict]:
    def inputs(count: int) -> str:
        return "".join(f"{name}: float32[2, {count}, 6, 4]\n" for name in ("q", "k", "v", "do"))

    whole = inputs(4) + FUSED.format(kernel=KERNEL, causal="True")
    part = inputs(heads) + FUSED.format(kernel=KERNEL, causal=causal)
    job = read_job(job_files(folder, whole, [part, part], PLACED, {"tp": 2}, {}))
    sides = prove(job, Options(align=align))
    reports = check_outputs(sides.store, job, sides.specification, sides.implementation)
    return {report.name: report.verdict for report in reports}


@pytest.mark.parametrize("causal", [True, False])
def test_heads_over_ranks(tmp_path: Path, causal: bool) -> None:
    """The gradients are proved, unless the mask of the forward kernel is forgotten."""
    found = _verdicts(tmp_path, 2, str(causal))
    assert found.pop("o") is Verdict.PROVED
    assert {verdict is Verdict.PROVED for verdict in found.values()} == {causal}
