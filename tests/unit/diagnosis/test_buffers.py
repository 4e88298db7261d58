"""Places inside buffers of several tensors, and other changes that only some ranks, rows or runs of a line need."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from support.jobs import job_files
from support.starts import start_of
from tantamount import read_job
from tantamount.answers import refine
from tantamount.correspond.values import Parts, placements
from tantamount.ir.job import Job
from tantamount.ir.mesh import Mesh
from tantamount.verdict import Mismatch, Verdict


def job(folder: Path, specification: str, ranks: list[str], tables: str, axis: str = "dp") -> Job:
    return read_job(job_files(folder, specification, ranks, tables, {axis: len(ranks)}, {axis: (axis,)}))


def mismatch(one: Job) -> Mismatch:
    report = refine(one)
    assert report.verdict is Verdict.REFUTED
    assert report.mismatch is not None
    return report.mismatch


# The gradients of two weights, of the mean over the batch, each rank's of its own part: averaged in one buffer.
BOTH_GRADIENTS = """
    x: float32[{rows}, 3]
    w: float32[3, 2]
    v: float32[2, 2]
    h = mm(x, w)
    t = aten.tanh.default(h)
    y = mm(t, v)
    g = mul(y, 0.25)
    gt = aten.t.default(t)
    {dv} = mm(gt, g)
    vt = aten.t.default(v)
    dt = mm(g, vt)
    s = mul(t, t)
    c = sub(dt, s)
    {step}
    xt = aten.t.default(x)
    {dw} = mm(xt, e)
"""
STEP = "e = mul(c, dt)"
GRADIENTS = BOTH_GRADIENTS.format(rows=4, dv="dv", dw="dw", step=STEP) + "-> dw, dv\n"
IN_ONE_BUFFER = """
    fw = aten.view.default(pw, [-1])
    fv = aten.view.default(pv, [-1])
    flat = aten.cat.default([fw, fv])
    both = _c10d_functional.all_reduce.default(flat, "sum", "dp")
    aw = aten.slice.Tensor(both, 0, {low}, {high})
    av = aten.slice.Tensor(both, 0, 6, 10)
    dw = aten.view.default(aw, [3, 2])
    dv = aten.view.default(av, [2, 2])
    -> dw, dv
"""
BATCH = '[inputs]\nx = "Shard(0)"\ndefault = "Replicate()"\n[outputs]\ndefault = "Replicate()"\n'


@pytest.mark.parametrize(
    ("changed", "place", "kind", "hint"),
    [
        ({"low": 2, "high": 8}, "aw", "offset", "0:6 instead of 2:8 along dimension 0 in aw"),
        ({"low": 1, "high": 7}, "aw", "offset", "0:6 instead of 1:7 along dimension 0 in aw"),
        ({"step": "b = mul(c, dt)\n    e = mul(b, dt)"}, "e", "extra", "leave out e"),
        ({"step": "e = mul(c, c)"}, "e", "operand", "dt instead of c in e"),
    ],
    ids=["another_block", "off_by_one", "applied_twice", "another_tensor"],
)
def test_a_place_in_a_buffer_of_several_gradients(
    tmp_path: Path, changed: dict[str, Any], place: str, kind: str, hint: str
) -> None:
    """No value of the buffer is one of the specification's; what the right output is computed from is right."""
    rank = BOTH_GRADIENTS.format(rows=2, dv="pv", dw="pw", step=changed.get("step", STEP))
    rank += IN_ONE_BUFFER.format(low=changed.get("low", 0), high=changed.get("high", 6))
    found = mismatch(job(tmp_path, GRADIENTS, [rank, rank], BATCH))
    assert (found.implementation, found.kind) == (place, kind), found.headline
    assert found.hint == hint


# A step over all parameters in one row, of which each rank updates its shard.
STEPPED = """
    p: float32[4, 3]
    q: float32[4]
    f: float32[4, 3]
    g: float32[4]
    df = mul(f, 0.1)
    dg = mul(g, 0.1)
    a = sub(p, df)
    b = sub(q, dg)
    -> a, b
"""
SHARD = """
    p: float32[4, 3]
    q: float32[4]
    f: float32[4, 3]
    g: float32[4]
    fp = aten.view.default(p, [-1])
    ff = aten.view.default(f, [-1])
    values = aten.cat.default([fp, q])
    grads = aten.cat.default([ff, g])
    mine = aten.slice.Tensor(values, 0, {0}, {1})
    step = aten.slice.Tensor(grads, 0, {2}, {3})
    scaled = mul(step, 0.1)
    new = sub(mine, scaled)
    every = _c10d_functional.all_gather_into_tensor.default(new, 2, "dp")
    ra = aten.slice.Tensor(every, 0, 0, 12)
    a = aten.view.default(ra, [4, 3])
    b = aten.slice.Tensor(every, 0, 12, 16)
    -> a, b
"""
SAME = '[inputs]\ndefault = "Replicate()"\n[outputs]\ndefault = "Replicate()"\n'


def test_the_shard_of_an_optimizer_that_is_off_by_one_on_one_rank(tmp_path: Path) -> None:
    found = mismatch(job(tmp_path, STEPPED, [SHARD.format(1, 9, 0, 8), SHARD.format(8, 16, 8, 16)], SAME))
    assert (found.implementation, found.kind, found.rank) == ("mine", "offset", 0), found.headline
    assert found.headline == "mine on rank 0 takes values[1:9] where values[0:8] is needed"
    assert found.hint == "0:8 instead of 1:9 along dimension 0 in mine on rank 0"


HALVES = """
    x: float32[4, 6]
    w: float32[6, 2]
    s = aten.sin.default(x)
    g = mul(s, 3)
    y = mm(g, w)
    -> y
"""
ONE_HALF = """
    x: float32[4, 6]
    w: float32[3, 2]
    s = aten.sin.default(x)
    g = mul(s, 3)
    both = aten.split.Tensor(g, 3, 1)
    one = getitem(both, 0)
    other = getitem(both, 1)
    p = mm({half}, w)
    y = _c10d_functional.all_reduce.default(p, "sum", "tp")
    -> y
"""
HALF = '[inputs]\nx = "Replicate()"\nw = "Shard(0)"\n[outputs]\ndefault = "Replicate()"\n'


def test_both_ranks_take_the_half_of_the_first(tmp_path: Path) -> None:
    rank = ONE_HALF.format(half="one")
    found = mismatch(job(tmp_path, HALVES, [rank, rank], HALF, "tp"))
    assert (found.implementation, found.rank, found.kind) == ("both", 1, "offset"), found.headline
    assert found.hint == "other instead of one on rank 1"


LOSS = """
    z: float32[3, 4]
    y = aten._log_softmax.default(z, -1, False)
    -> y
"""
OF_A_SHARD = """
    z: float32[3, 2]
    m = aten.amax.default(z, [-1], True)
    {most}
    d = sub(z, {read})
    e = aten.exp.default(d)
    r = aten.sum.dim_IntList(e, [-1], True)
    s = _c10d_functional.all_reduce.default(r, "sum", "tp")
    l = aten.log.default(s)
    y = sub(d, l)
    -> y
"""
COLUMNS = '[inputs]\nz = "Shard(1)"\n[outputs]\ny = "Shard(1)"\n'


def test_the_maximum_over_ranks_is_missing_though_the_specification_has_none(tmp_path: Path) -> None:
    rank = OF_A_SHARD.format(most="", read="m")
    found = mismatch(job(tmp_path, LOSS, [rank, rank], COLUMNS, "tp"))
    assert (found.implementation, found.kind) == ("m", "unreduced"), found.headline
    assert found.hint == "all_reduce (max) m over tp"


ROWS_ = """
    x: float32[4, 3]
    h = aten.sin.default(x)
    r = add(x, h)
    y = aten.cos.default(r)
    -> y
"""
MICROBATCHES = """
    x: float32[4, 3]
    x0 = aten.slice.Tensor(x, 0, 0, 2)
    x1 = aten.slice.Tensor(x, 0, 2, 4)
    h0 = aten.sin.default(x0)
    h1 = aten.sin.default(x1)
    y0 = aten.cos.default(h0)
    y1 = aten.cos.default(h1)
    y = aten.cat.default([y0, y1])
    -> y
"""


def test_what_every_microbatch_lacks_is_said_of_its_own_rows(tmp_path: Path) -> None:
    found = mismatch(job(tmp_path, ROWS_, [MICROBATCHES, MICROBATCHES], SAME, "pp"))
    assert (found.implementation, found.kind) == ("h0", "missing"), found.headline


def test_masked_values_are_multiples_only_together_with_the_others() -> None:
    scores = np.random.default_rng(5).standard_normal((4, 6))
    mask = np.where(np.tri(4, 6, 2) > 0, 0.0, -3.4e38)
    known = Parts[str]()
    known.add("masked", scores + mask)
    assert list(known.multiples(2 * scores + mask)) == []
    assert list(known.multiples(2 * (scores + mask))) == [("masked", pytest.approx(2))]


def test_two_axes_cut_one_dimension_in_either_order() -> None:
    mesh = Mesh({"dp": 2, "tp": 2})
    found = [tuple(box[0] for box in boxes) for boxes, _ in placements(np.arange(8.0), (2,), mesh)]
    assert ((0, 2), (2, 4), (4, 6), (6, 8)) in found
    assert ((0, 2), (4, 6), (2, 4), (6, 8)) in found


def test_a_parameter_that_is_twice_as_large_is_no_share_of_a_mean(tmp_path: Path) -> None:
    """Gradients are twice as large on each of two ranks, until they are averaged; a parameter must not be."""
    text = """
        x: float32[{rows}, 3]
        w: float32[3, 2]
        v: float32[2, 2]
        h = mm(x, w)
        t = aten.tanh.default(h)
        y = mm(t, v)
        g = mul(y, {share})
        tt = aten.t.default(t)
        {dv} = mm(tt, g)
        k = {k}
        kt = aten.t.default(k)
        dt = mm(g, kt)
        c = aten.tanh_backward.default(dt, t)
        xt = aten.t.default(x)
        {dw} = mm(xt, c)
    """
    averaged = 'dw = _c10d_functional.all_reduce.default(pw, "avg", "dp")\n'
    averaged += 'dv = _c10d_functional.all_reduce.default(pv, "avg", "dp")\n-> dw, dv'
    whole = text.format(rows=4, share=0.25, k="aten.clone.default(v)", dv="dv", dw="dw") + "-> dw, dv"
    rank = text.format(rows=2, share=0.5, k="add(v, v)", dv="pv", dw="pw") + averaged
    found = mismatch(job(tmp_path, whole, [rank, rank], BATCH))
    assert (found.implementation, found.hint) == ("k", "leave out k"), found.headline


# The gradients of three weights, of the mean over the batch; each rank's are twice as large, until they are averaged.
OF_THREE = """
    x: float32[{rows}, 3]
    w: float32[3, 2]
    u: float32[2, 2]
    v: float32[2, 2]
    h = mm(x, w)
    t = aten.tanh.default(h)
    z = mm(t, u)
    y = mm(z, v)
    g = mul(y, {share})
    zt = aten.t.default(z)
    {dv} = mm(zt, g)
    vt = aten.t.default(v)
    dz = mm(g, vt)
    tt = aten.t.default(t)
    {du} = mm(tt, dz)
    ut = aten.t.default(u)
    dt = mm(dz, ut)
    c = {step}
    xt = aten.t.default(x)
    {dw} = mm(xt, c)
"""
AVERAGED = """
    fw = aten.view.default(pw, [-1])
    fu = aten.view.default(pu, [-1])
    fv = aten.view.default(pv, [-1])
    flat = aten.cat.default([{order}])
    all = _c10d_functional.all_reduce.default(flat, "avg", "dp")
    aw = aten.slice.Tensor(all, 0, 0, 6)
    au = aten.slice.Tensor(all, 0, 6, 10)
    av = aten.slice.Tensor(all, 0, 10, 14)
    dw = aten.view.default(aw, [3, 2])
    du = aten.view.default(au, [2, 2])
    dv = aten.view.default(av, [2, 2])
    -> dw, du, dv
"""
BACKWARD = "aten.tanh_backward.default(dt, t)"


@pytest.mark.parametrize(
    ("step", "order", "place", "hint"),
    [
        ("aten.alias.default(dt)", "fw, fu, fv", "c", "apply tanh_backward first"),
        (BACKWARD, "fv, fu, fw", "flat", "fw, fu, fv instead of fv, fu, fw in flat"),
    ],
    ids=["step_missing", "reversed"],
)
def test_a_place_among_shares_of_a_mean(tmp_path: Path, step: str, order: str, place: str, hint: str) -> None:
    whole = OF_THREE.format(rows=4, share=0.25, step=BACKWARD, dw="dw", du="du", dv="dv") + "-> dw, du, dv"
    rank = OF_THREE.format(rows=2, share=0.5, step=step, dw="pw", du="pu", dv="pv") + AVERAGED.format(order=order)
    found = mismatch(job(tmp_path, whole, [rank, rank], BATCH))
    assert (found.implementation, found.hint) == (place, hint), found.headline


def test_a_gradient_that_is_copied_back_after_the_mean_is_a_share(tmp_path: Path) -> None:
    """What the mean is copied into is not read: before the mean there is nothing but shares of it."""
    whole = BOTH_GRADIENTS.format(rows=4, dv="dv", dw="dw", step="e = mul(dt, s)")
    local = BOTH_GRADIENTS.replace("0.25", "0.5").format(rows=2, dv="pv", dw="pw", step="e = aten.alias.default(dt)")
    copied = "".join(
        f'm{name} = all_reduce(p{name}, "avg", "dp")\n    d{name} = aten.copy.default(p{name}, m{name})\n    '
        for name in "wv"
    )
    start = start_of(job(tmp_path, f"{whole}-> dw, dv", [f"{local}{copied}-> dw, dv"] * 2, BATCH), ["dw", "dv"])
    assert start.matches.share((0, "dt")) is not None
    assert [start.matches.classes[k].first for k in start.location.frontier] == [(0, "pw")]
