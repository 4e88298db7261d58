"""Places above messages between ranks: the rank that is wrong is named, not the one that gets what it sends."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.jobs import job_files
from tantamount import read_job
from tantamount.answers import refine
from tantamount.verdict import Verdict

WHOLE = """
    x: float32[4, 3]
    w: float32[3, 3]
    v: float32[3, 3]
    h = mm(x, w)
    t = aten.tanh.default(h)
    u = aten.gelu.default(t)
    y = mm(u, v)
    z = aten.exp.default(y)
    -> z
"""
FIRST = """
    x: float32[4, 3]
    w: float32[3, 3]
    v: float32[3, 3]
    h = mm(x, w)
    t = aten.tanh.default(h)
    u = aten.gelu.default(t)
    s = _c10d_functional.isend.default(u, 1, 0, "pp")
    -> h
"""
SECOND = """
    x: float32[4, 3]
    w: float32[3, 3]
    v: float32[3, 3]
    e = aten.empty.memory_format([4, 3])
    r = _c10d_functional.irecv.default(e, 0, 0, "pp")
    g = _c10d_functional.wait_tensor.default(r)
    y = mm(g, v)
    z = aten.exp.default(y)
    -> z
"""


@pytest.mark.parametrize(
    ("right", "wrong", "place", "rank", "kind"),
    [
        ("gelu.default(t)", "relu.default(t)", "u", 0, "operation"),
        ("tanh.default(h)", "sigmoid.default(h)", "t", 0, "operation"),
        ("t = aten.tanh.default(h)", "t = aten.mul.Tensor(h, 1.0)", "t", 0, "missing"),
        ("isend.default(u", "isend.default(t", "t", 0, "missing"),
        ("exp.default(y)", "neg.default(y)", "z", 1, "operation"),
    ],
)
def test_the_rank_that_sends_what_is_wrong(
    right: str, wrong: str, place: str, rank: int, kind: str, tmp_path: Path
) -> None:
    texts = [text.replace(right, wrong) for text in (FIRST, SECOND)]
    tables = '[inputs]\ndefault = "Replicate()"\n[outputs]\nz = "rank(1)"\n'
    report = refine(read_job(job_files(tmp_path, WHOLE, texts, tables, {"pp": 2}, {"pp": ("pp",)})))
    assert report.verdict is Verdict.REFUTED
    found = report.mismatch
    assert found is not None
    assert (found.implementation, found.kind) == (place, kind), found.headline
    assert found.rank == rank, found.headline


TWICE = """
    x0: float32[4, 3]
    x1: float32[4, 3]
    w: float32[3, 3]
    h0 = mm(x0, w)
    h1 = mm(x1, w)
    {}
"""
STAGES = (
    TWICE.format(
        """s0 = _c10d_functional.isend.default(h0, 1, 0, "pp")
    s1 = _c10d_functional.isend.default(h1, 1, 1, "pp")
    -> w"""
    ),
    TWICE.format(
        """e0 = aten.empty.memory_format([4, 3])
    e1 = aten.empty.memory_format([4, 3])
    r0 = _c10d_functional.irecv.default(e0, 0, 0, "pp")
    g0 = _c10d_functional.wait_tensor.default(r0)
    r1 = _c10d_functional.irecv.default(e1, 0, 1, "pp")
    g1 = _c10d_functional.wait_tensor.default(r1)
    z0 = aten.exp.default(g0)
    z1 = aten.tanh.default(g1)
    t = mul(z0, z1)
    -> t"""
    ),
)


@pytest.mark.parametrize(
    ("exchanged", "what", "hint"),
    [
        (("h0, 1, 0", "h1, 1, 0"), "s0 sends h1 and s1 sends h0", "send h0 by s0 and h1 by s1 on rank 0"),
        (("e0, 0, 0", "e0, 0, 1"), "s1 sends h1 and s0 sends h0", "send h0 by s1 and h1 by s0 on rank 0"),
        (("exp.default(g0", "exp.default(g1"), "s0 sends h0 and s1 sends h1", "send h1 by s0 and h0 by s1 on rank 0"),
    ],
)
def test_messages_in_the_wrong_order(exchanged: tuple[str, str], what: str, hint: str, tmp_path: Path) -> None:
    """Sent, received and read in the wrong order: which of them was meant nobody can tell."""
    others = {
        "h0, 1, 0": ("h1, 1, 1", "h0, 1, 1"),
        "e0, 0, 0": ("e1, 0, 1", "e1, 0, 0"),
        "exp.default(g0": ("tanh.default(g1", "tanh.default(g0"),
    }
    whole = TWICE.format("z0 = aten.exp.default(h0)\n    z1 = aten.tanh.default(h1)\n    t = mul(z0, z1)\n    -> t")
    texts = [text.replace(*exchanged).replace(*others[exchanged[0]]) for text in STAGES]
    tables = '[inputs]\ndefault = "Replicate()"\n[outputs]\nt = "rank(1)"\n'
    report = refine(read_job(job_files(tmp_path, whole, texts, tables, {"pp": 2}, {"pp": ("pp",)})))
    assert report.mismatch is not None
    assert report.mismatch.headline == (
        f"{what} from rank 0 to rank 1, in the wrong order: each is needed in place of the other"
    )
    assert report.mismatch.hint == hint
