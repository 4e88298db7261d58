"""Mistakes of parallel programs in the words of those who make them."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.jobs import job_files
from support.sayings import check_sentences
from tantamount import read_job
from tantamount.answers import refine
from tantamount.effort import Effort
from tantamount.reduction.meshes import shortened
from tantamount.verdict import Mismatch, Verdict

EVERYTHING = '[inputs]\ndefault = "Replicate()"\n[outputs]\ndefault = "Replicate()"\n'
SPLIT = '[inputs]\nx = "Shard(0)"\ng = "Shard(0)"\ndefault = "Replicate()"\n[outputs]\ndefault = "Replicate()"\n'


def mismatch(folder: Path, specification: str, ranks: list[str], tables: str = EVERYTHING) -> Mismatch:
    mesh = {} if len(ranks) == 1 else {"dp": len(ranks)}
    job = read_job(job_files(folder, specification, ranks, tables, mesh, {"dp": tuple(mesh)}))
    report = refine(job)
    assert report.verdict is Verdict.REFUTED
    assert report.mismatch is not None
    check_sentences(job, report)
    return report.mismatch


def linears(wide: int, reduced: str) -> str:
    text, x = "x: float32[4, 6]\n", "x"
    for k in range(2):
        text += f"u{k}: float32[6, {wide}]\nd{k}: float32[{wide}, 6]\nb{k}: float32[6]\n"
        text += f"h{k} = mm({x}, u{k})\nf{k} = aten.gelu.default(h{k})\np{k} = aten.addmm.default(b{k}, f{k}, d{k})\n"
        text += reduced.format(k=k) + f"x{k} = add({x}, {'r' if reduced else 'p'}{k})\n"
        x = f"x{k}"
    return f"{text}y = aten.sin.default(x1)\n-> y"


def test_a_bias_on_every_rank_is_one_in_every_layer(tmp_path: Path) -> None:
    """``F.linear(x, w, b)`` under row parallelism, in two layers: no one change repairs the output, so no hint."""
    rows = "".join(f'u{k} = "Shard(1)"\nd{k} = "Shard(0)"\n' for k in range(2))
    tables = f'[inputs]\n{rows}default = "Replicate()"\n[outputs]\ndefault = "Replicate()"\n'
    rank = linears(4, 'r{k} = all_reduce(p{k}, "sum", "dp")\n')
    found = mismatch(tmp_path, linears(8, ""), [rank] * 2, tables)
    assert (found.implementation, found.kind, found.hint) == ("p0", "extra", "")
    assert found.headline == "r0 has b0 2 times: p0 adds it on every rank"


def test_swapped_microbatches(tmp_path: Path) -> None:
    inputs = "x: float32[8, 6]\nt: float32[8, 5]\nw: float32[6, 5]\n"
    whole = "m = mm(x, w)\nd = sub(m, t)\ns = mul(d, d)\ny = aten.sum.default(s)\n-> y"
    parts = "".join(
        f"x{k} = slice(x, 0, {4 * k}, {4 * k + 4})\nt{k} = slice(t, 0, {4 - 4 * k}, {8 - 4 * k})\nm{k} = mm(x{k}, w)\n"
        f"d{k} = sub(m{k}, t{k})\ns{k} = mul(d{k}, d{k})\na{k} = aten.sum.default(s{k})\n"
        for k in range(2)
    )
    found = mismatch(tmp_path, inputs + whole, [f"{inputs}{parts}y = add(a0, a1)\n-> y"])
    assert (found.implementation, found.kind) == ("t0", "offset")
    assert found.headline == "t0 takes t[4:8] where t[0:4] is needed"


STEP = "x: float32[{n}, 6]\ng: float32[{n}, 5]\nw: float32[6, 5]\nt = aten.t.default(x)\ndw = mm(t, g)\n{more}-> y"
UPDATE = "n = mul({of}, 0.01)\ny = sub(w, n)\n"
GRADIENTS = {  # of a sum over all rows
    "divided by the number of ranks": (
        'r = all_reduce(dw, "sum", "dp")\nq = div(r, 2)\n' + UPDATE.format(of="q"), "q",
        "q divides by 2 once too often: it comes out 2 times too small",
    ),
    "averaged over the ranks": (
        'r = all_reduce(dw, "avg", "dp")\n' + UPDATE.format(of="r"), "r",
        "r takes the mean over dp where the sum over dp is needed: it comes out 2 times too small",
    ),
}  # fmt: skip


@pytest.mark.parametrize("how", GRADIENTS)
def test_gradients_scaled_by_the_number_of_ranks(tmp_path: Path, how: str) -> None:
    more, place, headline = GRADIENTS[how]
    ranks = [STEP.format(n=4, more=more)] * 2
    found = mismatch(tmp_path, STEP.format(n=8, more=UPDATE.format(of="dw")), ranks, SPLIT)
    assert (found.implementation, found.kind) == (place, "factor")
    assert found.headline.startswith(headline)


def test_a_tensor_of_the_specification_is_called_so_where_both_have_the_name(tmp_path: Path) -> None:
    specification = "x: float32[4, 6]\nm = mul(x, x)\nn = aten.sin.default(m)\ny = mul(n, m)\n-> y"
    other = "x: float32[4, 6]\nn = mul(x, x)\nm = aten.sin.default(n)\ny = mul(m, m)\n-> y"
    found = mismatch(tmp_path, specification, [other])
    assert "the specification's" in found.headline


def test_formulas_in_headlines_are_short(tmp_path: Path) -> None:
    names = "".join(f"{chr(97 + k)}: float32[4, 4]\n" for k in range(8))
    product = "".join(
        f"{chr(105 + k)} = mm({chr(97 + k) if not k else chr(104 + k)}, {chr(98 + k)})\n" for k in range(7)
    )
    specification = f"{names}{product}y = aten.atan2.default(o, a)\nz = mul(y, o)\n-> z"
    implementation = f"{names}{product}y = aten.atan2.default(a, o)\nv = aten.exp.default(y)\nz = mul(v, n)\n-> z"
    found = mismatch(tmp_path, specification, [implementation])
    assert len(found.headline) < 250, found.headline


def attention_like(heads: int, layers: int, *, ranks: bool) -> str:
    """Layers with a fused weight for three projections, and a norm at the end."""
    n, x = 2 * heads, "x"
    text = "x: float32[4, 6]\ng: float32[6]\n"
    for k in range(layers):
        text += f"w{k}: float32[6, {3 * n}]\nd{k}: float32[{n}, 6]\nh{k} = mm({x}, w{k})\n"
        for j, name in enumerate("qkv"):
            text += f"{name}{k} = slice(h{k}, 1, {j * n}, {j * n + n})\n"
        text += f"s{k} = mul(q{k}, k{k})\nt{k} = aten.sigmoid.default(s{k})\na{k} = mul(t{k}, v{k})\n"
        text += f"o{k} = mm(a{k}, d{k})\n" + (f'c{k} = all_reduce(o{k}, "sum", "dp")\n' if ranks else "")
        text += f"x{k} = add({x}, {'c' if ranks else 'o'}{k})\n"
        x = f"x{k}"
    norm = f"p = mul({x}, {x})\nm = aten.mean.dim(p, [1], True)\nr = aten.rsqrt.default(m)\nz = mul({x}, r)\n"
    return f"{text}{norm}y = mul(z, g)\n-> y"


@pytest.mark.parametrize("layers", [1, 2])
def test_a_fused_weight_that_is_cut_as_one_is_named_where_it_is_split_first(tmp_path: Path, layers: int) -> None:
    rows = "".join(f'w{k} = "Shard(1)"\nd{k} = "Shard(0)"\n' for k in range(layers))
    tables = f'[inputs]\n{rows}default = "Replicate()"\n[outputs]\ndefault = "Replicate()"\n'
    ranks = [attention_like(2, layers, ranks=True)] * 2
    found = mismatch(tmp_path, attention_like(4, layers, ranks=False), ranks, tables)
    assert (found.implementation, found.kind, found.hint) == ("k0", "offset", "")
    assert found.headline.startswith("k0 takes the specification's h0[:, 4:8] where the specification's k0[:, 0:4] is")


def rotated(first: int) -> str:
    """Keys that are rotated, through two operands, before they meet the queries."""
    return (
        f"x: float32[4, 6]\nw: float32[6, 12]\nc: float32[4, 4]\nm = mm(x, w)\nq = slice(m, 1, 0, 4)\n"
        f"k = slice(m, 1, {first}, {first + 4})\na = slice(k, 1, 0, 2)\nb = slice(k, 1, 2, 4)\n"
        "n = aten.neg.default(b)\nh = cat([n, a], 1)\ni = mul(h, c)\nj = aten.add.Tensor(k, i)\nd = slice(q, 1, 0, 2)\n"
        "e = slice(q, 1, 2, 4)\nf = aten.neg.default(e)\ng = cat([f, d], 1)\n"
        "l = mul(g, c)\no = aten.add.Tensor(q, l)\np = mul(j, o)\ny = aten.sin.default(p)\n-> y, j"
    )


def test_a_part_that_is_another_one_is_named_where_it_is_cut(tmp_path: Path) -> None:
    """All that comes of the part is found in the specification, too: as what comes of the other one."""
    found = mismatch(tmp_path, rotated(4), [rotated(0)])
    assert (found.implementation, found.kind) == ("k", "offset")
    assert found.headline.startswith("k takes the specification's m[:, 0:4] where the specification's k is needed")
    assert found.hint == "4:8 instead of 0:4 along dimension 1 in k"


FEWER = {
    "a division by the number of ranks": (
        's = all_reduce(x, "sum", "dp")\ny = aten.div.Tensor(s, 8)',
        "y divides by 8 once too often: it comes out 8 times too small",
    ),
    "a mean": (
        'y = all_reduce(x, "avg", "dp")',
        "y takes the mean over dp where the sum over dp is needed: it comes out 8 times too small",
    ),
    "a number": (
        's = all_reduce(x, "sum", "dp")\nt = mul(s, 0.7)\ny = aten.sin.default(t)',
        "t multiplies by 0.7 where 0.35 is needed: the result is 2 times too large",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", FEWER)
def test_numbers_of_a_job_that_is_looked_at_on_fewer_ranks_are_its_own(case: str, tmp_path: Path) -> None:
    """Eight ranks are looked at on two: what is said of numbers and of meshes holds for all eight."""
    lines, words = FEWER[case]
    rank = f"x: float32[16, 6]\n{lines}\n-> y"
    same = "x: float32[16, 6]\ny = mul(x, 1)\n-> y"
    other = "x: float32[16, 6]\nt = mul(x, 0.35)\ny = aten.sin.default(t)\n-> y"
    tables = '[inputs]\nx = \'Partial("sum")\'\n[outputs]\ndefault = "Replicate()"\n'
    written = job_files(tmp_path, other if case == "a number" else same, [rank] * 8, tables, {"dp": 8}, {"dp": ("dp",)})
    small = shortened(read_job(written), ["dp"], Effort())
    assert small.mesh.axes == {"dp": 2}
    report = refine(small)
    assert report.mismatch is not None
    assert report.mismatch.headline == words
    assert "2 is the size of" not in report.mismatch.difference


def test_a_sum_over_ranks_that_is_made_and_not_used(tmp_path: Path) -> None:
    same = "x: float32[4, 6]\nw: float32[6, 8]\nv: float32[8, 6]\nh = mm(x, w)\np = mm(h, v)\ny = add(x, p)\n-> y"
    rank = same.replace("6, 8", "6, 4").replace("8, 6", "4, 6").replace("y = ", 's = all_reduce(p, "sum", "dp")\ny = ')
    tables = '[inputs]\nx = "Replicate()"\nw = "Shard(1)"\nv = "Shard(0)"\n[outputs]\ndefault = "Replicate()"\n'
    found = mismatch(tmp_path, same, [rank.replace("-> y", "z = mul(s, 1)\n-> y, z")] * 2, tables)
    assert found.headline.startswith("a sum over dp is missing after p: ")
    assert found.headline.endswith(", and y uses it as if it were the whole")


LAYER = """
    x: float32[{rows}, 16]
    u: float32[16, {wide}]
    d: float32[{wide}, 16]
    d_y: float32[{rows}, 16]
    h = mm(x, u)
    a = aten.relu.default(h)
    at = aten.t.default(a)
    d_d = mm(at, d_y)
    dt = aten.t.default(d)
    d_a = mm(d_y, dt)
    d_h = aten.threshold_backward.default(d_a, a, 0)
    xt = aten.t.default(x)
    d_u = mm(xt, d_h)
    ut = aten.t.default(u)
    d_b = mm(d_h, ut)
    {reduced}d_x = add(d_y, d_b)
    -> d_x, d_u, d_d
"""


def test_a_rank_that_adds_its_own_summand_alone(tmp_path: Path) -> None:
    """It is said which sum is needed, not which copy lacks which summand."""
    rows, sums = '"Shard(0)", "Shard(0)"', "'Partial(\"sum\")', 'Partial(\"sum\")'"
    tables = f"""
        [inputs]
        x = [{rows}, "Replicate()"]
        d_y = [{rows}, "Replicate()"]
        u = ["Replicate()", "Replicate()", "Shard(1)"]
        d = ["Replicate()", "Replicate()", "Shard(0)"]
        [outputs]
        d_x = [{rows}, "Replicate()"]
        d_u = [{sums}, "Shard(1)"]
        d_d = [{sums}, "Shard(0)"]
    """
    rank = LAYER.format(rows=4, wide=16, reduced='e = all_reduce(d_b, "sum", "tp")\n    ')
    mesh = {"mb": 2, "dp": 2, "tp": 2}
    files = job_files(
        tmp_path, LAYER.format(rows=16, wide=32, reduced=""), [rank] * 8, tables, mesh, {axis: (axis,) for axis in mesh}
    )
    report = refine(read_job(files))
    assert report.mismatch is not None
    told = "a sum over tp is missing after d_b: every rank holds one summand of the specification's d_b"
    assert report.mismatch.headline == f"{told}, and d_x uses it as if it were the whole"
