"""Hints which tensors belong together: independent of ranks and sizes, blocks of rows, other tensors by rank."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from support.equal_layers import layered
from support.jobs import job_files
from tantamount import read_job
from tantamount.calculus.calculus import Calculus
from tantamount.correspond import alignment
from tantamount.correspond.alignment import align
from tantamount.effort import Effort
from tantamount.ir.job import Job
from tantamount.ir.relation import Replicate, Shard
from tantamount.limits import Bounds, Limits
from tantamount.ops.classes import rank_classes
from tantamount.proof import Options, prove
from tantamount.proof.cuts import SOURCE, Aligned, Candidates, Window
from tantamount.proof.inputs import build_inputs
from tantamount.reduction import LONG, NotReduced, folded, sketch
from tantamount.verdict import Verdict


def candidates(job: Job, effort: Effort | None = None) -> Candidates:
    store = Calculus(effort or Effort())
    classes = rank_classes(job.implementation, job.mesh)
    return align(store, job, build_inputs(store, job), classes, Limits())


def test_two_ranks_stand_for_a_long_axis(tmp_path: Path) -> None:
    job = layered(tmp_path, 2, tp=16, dp=32, width=8)
    small = sketch(job, ["dp", "tp"], Effort())
    assert small.mesh.axes == {"dp": 2, "tp": 2}
    assert len(small.implementation) == 4
    type_ = small.specification.by_name["h1"].type
    assert type_ is not None
    assert type_.shape == (4, 4)
    found = candidates(job)
    assert found[0, "h1"][0] == Aligned(("h1",), (Shard(0), Shard(1)))
    assert found[0, "x2"][0] == Aligned(("x2",), (Shard(0), Replicate()))


def test_axes_that_relations_name_ranks_of_are_not_shrunk(tmp_path: Path) -> None:
    whole = "x: float32[8]\ny = tanh(x)\n-> y"
    rank = "x: float32[1]\ny = tanh(x)\n-> y"
    parts = ", ".join(f"rank({k})" for k in range(8))
    tables = f'[inputs]\nx = "concat({parts}, dim=0)"\n[outputs]\ny = "Shard(0)"\n'
    job = read_job(job_files(tmp_path, whole, [rank] * 8, tables, {"tp": 8}, {}))
    with pytest.raises(NotReduced):
        sketch(job, ["tp"], Effort())
    assert candidates(job)[0, "y"] == (Aligned(("y",), (Shard(0),)),)


def test_sketches_cut_constants(tmp_path: Path) -> None:
    numbers = [k * 7 % 5 for k in range(64)]
    head = f"x: float32[4096, 64]\nw: float32[64, 2048]\nc = constant float32[64] {numbers}"
    text = f"{head}\nb = lift(c)\ny = mul(x, b)\nz = mm(y, w)\n-> z"
    everything = '[inputs]\ndefault = "Replicate()"\n[outputs]\nz = "Replicate()"\n'
    small = sketch(read_job(job_files(tmp_path, text, [text], everything, {}, {})), (), Effort()).specification
    (constant,) = small.constants.values()
    assert constant.type.shape[0] < 64
    assert list(constant.data) == numbers[: constant.type.shape[0]]


def test_where_a_smaller_program_parts_the_job_is_executed_at_its_own_sizes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A slice that ends at a number of its own may end elsewhere in a sketch: no output is aligned then. That costs no
    more than a bound."""
    text = "x: float32[256, 256]\nw: float32[256, 256]\nz = mm(x, w)\ny = slice(z, 0, 0, {})\n-> y"
    job = read_job(job_files(tmp_path, text.format(128), [text.format(128)], SAME, {}, {}))
    (tmp_path / "other").mkdir()
    parted = [text.replace("256", "64").format(n) for n in (32, 20)]
    smaller = read_job(job_files(tmp_path / "other", parted[0], parted[1:], SAME, {}, {}))
    monkeypatch.setattr(alignment, "sketch", lambda *_, **__: smaller)
    assert candidates(job)[0, "y"][0].names == ("y",)
    few = Effort(bounds=replace(Bounds(), realigned_work=10_000_000))
    assert (0, "y") not in candidates(job, few)


def test_a_number_of_heads_keeps_nothing_else_large(tmp_path: Path) -> None:
    """What is longer stays longer in a sketch where that can be executed; else there is one without."""
    text = (
        "x: float32[8192, 4096]\nw: float32[4096, 4096]\nh = mm(x, w)\nv = view(h, [8192, 64, 1, 64])\n"
        "e = expand(v, [8192, 64, 32, 64])\nm = view(e, [8192, 131072])\nu = transpose(h, 0, 1)\n"
        "s = mm(h, u)\nt = tanh(s)\n-> m, t"
    )
    everything = '[inputs]\ndefault = "Replicate()"\n[outputs]\nm = "Replicate()"\nt = "Replicate()"\n'
    job = read_job(job_files(tmp_path, text, [text], everything, {}, {}))
    sizes = [
        next(
            node.type.shape[0] for node in sketch(job, (), Effort(), ordered=ordered).specification.inputs if node.type
        )
        for ordered in (True, False)
    ]
    assert sizes[0] > sizes[1], sizes


def test_pieces_of_all_ranks_are_seen_as_a_view(tmp_path: Path) -> None:
    """One piece for every rank has no form on fewer ranks; what is made of the pieces keeps its name."""
    whole = "x: float32[16, 24]\nw: float32[24, 24]\nh = mm(x, w)\ny = tanh(h)\n-> y"
    pieces = "".join(f"g{k} = getitem(c, {k})\n" for k in range(8))
    rank = (
        'x: float32[16, 3]\nw: float32[24, 24]\na = all_gather(x, 8, "tp")\nc = aten.split.Tensor(a, 16, 0)\n'
        f"{pieces}b = cat([{', '.join(f'g{k}' for k in range(8))}], 1)\nh = mm(b, w)\ny = tanh(h)\n-> y"
    )
    tables = '[inputs]\nx = "Shard(1)"\nw = "Replicate()"\n[outputs]\ny = "Replicate()"\n'
    job = read_job(job_files(tmp_path, whole, [rank] * 8, tables, {"tp": 8}, {"tp": ("tp",)}))
    assert sketch(folded(job, LONG), ["tp"], Effort()).mesh.axes == {"tp": 2}
    assert candidates(job)[0, "h"] == (Aligned(("h",), (Replicate(),)),)


MICRO = """
    x: float32[4, 6]
    w: float32[6, 6]
    x0 = slice(x, 0, 0, 2)
    x1 = slice(x, 0, 2, 4)
    h0 = mm(x0, w)
    g0 = gelu(h0)
    t0 = tanh(g0)
    h1 = mm(x1, w)
    g1 = gelu(h1)
    t1 = tanh(g1)
    y = cat([t0, t1], 0)
    -> y
"""
WHOLE = "x: float32[4, 6]\nw: float32[6, 6]\nh = mm(x, w)\ng = gelu(h)\ny = tanh(g)\n-> y"
SAME = '[inputs]\ndefault = "Replicate()"\n[outputs]\ny = "Replicate()"\n'


def test_microbatches_are_blocks_of_rows(tmp_path: Path) -> None:
    job = read_job(job_files(tmp_path, WHOLE, [MICRO], SAME, {}, {}))
    assert candidates(job)[0, "g1"] == (Aligned(("g",), (), Window(0, 2, 1, True)),)
    proof = prove(job, Options(cut=True, align=align))
    assert {a.attributes[1] for a in proof.store.atoms if a.op == "leaf" and a.attributes[0] == SOURCE} >= {"h", "g"}
    assert [output.verdict for output in proof.check()] == [Verdict.PROVED]


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("[t0, t1]", "[t1, t0]"),
        ("[t0, t1]", "[t0, t0]"),
        ("slice(x, 0, 2, 4)", "slice(x, 0, 1, 3)"),
        ("gelu(h1)", "relu(h1)"),
    ],
)
def test_wrong_microbatches_are_never_proved(tmp_path: Path, right: str, wrong: str) -> None:
    assert right in MICRO
    job = read_job(job_files(tmp_path, WHOLE, [MICRO.replace(right, wrong)], SAME, {}, {}))
    (output,) = prove(job, Options(cut=True, align=align)).check()
    assert output.verdict is not Verdict.PROVED


@pytest.mark.parametrize(("order", "proved"), [("[t0, t1]", True), ("[t1, t0]", False)])
def test_each_rank_may_hold_another_tensor(tmp_path: Path, order: str, proved: bool) -> None:
    rank = "x: float32[2, 6]\nw: float32[6, 6]\nh = mm(x, w)\ng = gelu(h)\nt = tanh(g)\n-> y=t"
    tables = '[inputs]\nx = "Shard(0)"\nw = "Replicate()"\n[outputs]\ny = "Shard(0)"\n'
    job = read_job(job_files(tmp_path, MICRO.replace("[t0, t1]", order), [rank] * 2, tables, {"dp": 2}, {}))
    assert candidates(job)[0, "g"] == (Aligned(("g0", "g1"), (Replicate(),)),)
    (output,) = prove(job, Options(cut=True, align=align)).check()
    assert (output.verdict is Verdict.PROVED) == proved
    more = {(0, "g"): (Aligned(("g0", "g1", "g1"), (Replicate(),)),)}  # as if there were three ranks
    (output,) = prove(job, Options(cut=True, align=lambda *_: more)).check()
    assert (output.verdict is Verdict.PROVED) == proved
