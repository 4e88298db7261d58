"""Wrong programs on many ranks are explained on a few of them, in words that are true of all."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.equal_layers import layered
from support.jobs import job_files
from tantamount import Verdict, read_job, refine
from tantamount.answers import Answer


def answer(folder: Path, old: str, new: str, **mesh: int) -> Answer:
    return refine(layered(folder, 3, rank=lambda k, text: text.replace(old, new) if k == 1 else text, **mesh))


@pytest.mark.parametrize(
    ("old", "new", "place", "words"),
    [
        ("t1 = tanh(a1)", "t1 = relu(a1)", "t1", "relu"),
        ('r1 = all_reduce(o1, "sum", "tp")', "r1 = mul(o1, 1.0)", "o1", "over tp"),
    ],
)
def test_many_ranks_are_explained_as_a_few(tmp_path: Path, old: str, new: str, place: str, words: str) -> None:
    found = answer(tmp_path, old, new, tp=8, dp=64)
    assert found.verdict is Verdict.REFUTED
    assert found.mismatch is not None
    assert place in (found.mismatch.implementation, found.mismatch.specification)
    assert words in found.mismatch.headline + found.mismatch.difference
    assert found.counterexample is not None
    assert found.counterexample.sizes[64] == (3,)
    assert any("dp 64 -> 3, tp 8 -> 3" in note for note in found.notes)
    assert found.outputs[0].verdict is Verdict.REFUTED


def test_words_that_are_true_of_two_ranks_only_are_not_told(tmp_path: Path) -> None:
    whole = "x: float32[128, 4]\nh = tanh(x)\nm = aten.sum.dim_IntList(h, [0])\nl = tanh(m)\n-> l"
    rank = """
        x: float32[2, 4]
        h = tanh(x)
        p = aten.sum.dim_IntList(h, [0])
        q = mul(p, 0.5)
        m = all_reduce(q, "sum", "dp")
        l = tanh(m)
        -> l
    """
    tables = '[inputs]\nx = "Shard(0)"\n[outputs]\nl = "Replicate()"\n'
    half = refine(read_job(job_files(tmp_path, whole, [rank] * 64, tables, {"dp": 64}, {"dp": ["dp"]})))
    assert half.verdict is Verdict.REFUTED
    assert half.mismatch is not None
    assert "0.5" in half.mismatch.headline + half.mismatch.difference + half.mismatch.hint
    again = rank.replace("mul(p, 0.5)", "mul(p, 1.0)").replace("tanh(m)", "tanh(g)")
    again = again.replace("        l =", '        g = all_reduce(m, "sum", "dp")\n        l =')
    twice = refine(read_job(job_files(tmp_path, whole, [again] * 64, tables, {"dp": 64}, {"dp": ["dp"]})))
    assert twice.verdict is Verdict.REFUTED
    assert twice.mismatch is not None
    text = twice.mismatch.headline + twice.mismatch.difference + twice.mismatch.hint
    assert "2 times" not in text
    assert "3 times" not in text
