"""Whether ranks are copies of one program was asked node by node, and ended in a KeyError where a later rank has no
node of that name: causal ring attention on four ranks, whose ranks skip different blocks."""

from __future__ import annotations

from pathlib import Path

from support.jobs import job_files
from tantamount import read_job
from tantamount.answers import refine
from tantamount.proof.simplified import simplified
from tantamount.verdict import Verdict

SPEC = "x: float32[4, 3]\nw: float32[4, 3]\ny = mul(x, w)\n-> y"
LONG = "x: float32[2, 3]\nw: float32[2, 3]\none = mul(x, w)\ntwice = add(one, one)\ny = {y}\n-> y"
SHORT = "x: float32[2, 3]\nw: float32[2, 3]\ny = mul(x, w)\n-> y"
TABLES = '[inputs]\ndefault = "Shard(0)"\n[outputs]\ny = "Shard(0)"'


def _verdict(folder: Path, y: str) -> Verdict:
    ranks = [LONG.format(y=y), SHORT]
    job = read_job(job_files(folder, SPEC, ranks, TABLES, {"cp": 2}, {"cp": ("cp",)}))
    assert simplified(job) == []  # which long programs are asked for
    return refine(job).verdict


def test_a_node_that_only_the_first_rank_has(tmp_path: Path) -> None:
    (tmp_path / "right").mkdir()
    (tmp_path / "wrong").mkdir()
    assert _verdict(tmp_path / "right", "div(twice, 2)") is Verdict.PROVED
    assert _verdict(tmp_path / "wrong", "div(twice, 4)") is Verdict.REFUTED
