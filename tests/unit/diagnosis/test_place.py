"""The place where two programs part: named by values where no change repairs, and changes that are tried there."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from support.jobs import job_files
from support.starts import start_of
from tantamount import read_job
from tantamount.answers import refine
from tantamount.diagnosis.kinds import KINDS
from tantamount.diagnosis.parted import Parted, unrepaired
from tantamount.execution.witness import search
from tantamount.ir.job import Job
from tantamount.limits import Limits
from tantamount.proof import prove
from tantamount.verdict import Mismatch, Verdict

EVERYTHING = '[inputs]\ndefault = "Replicate()"\n[outputs]\ndefault = "Replicate()"\n'


def job(folder: Path, specification: str, ranks: list[str], tables: str = EVERYTHING) -> Job:
    mesh = {} if len(ranks) == 1 else {"tp": len(ranks)}
    return read_job(job_files(folder, specification, ranks, tables, mesh, {"tp": tuple(mesh)}))


def mismatch(one: Job) -> Mismatch:
    report = refine(one)
    assert report.verdict is Verdict.REFUTED
    assert report.mismatch is not None
    return report.mismatch


@pytest.fixture
def nothing_repairs(monkeypatch: pytest.MonkeyPatch) -> None:
    for kind, row in KINDS.items():
        monkeypatch.setitem(KINDS, kind, replace(row, find=lambda matches, c: iter(())))  # type: ignore[arg-type]


NORM = """
    x: float32[4, 6]
    s = mul(x, x)
    m = aten.mean.dim(s, [-1], True)
    e = add(m, 1e-06)
    r = aten.rsqrt.default(e)
    y = mul(x, r)
    -> y
"""


def test_another_epsilon_is_found_before_a_proof_takes_more_effort(tmp_path: Path) -> None:
    proof = prove(job(tmp_path, NORM, [NORM.replace("1e-06", "1.1e-06")]))
    found = search(proof, proof.check(expand=False), Limits(), agreeing=2)
    assert found.counterexample is not None


BIASED = """
    x: float32[4, 6]
    w: float32[6, 8]
    b: float32[8]
    m = {first}
    a = aten.gelu.default(m)
    y = mul(a, 3)
    -> y
"""
ROWS = '[inputs]\nx = "Shard(1)"\nw = "Shard(0)"\nb = "Replicate()"\n[outputs]\ndefault = "Replicate()"\n'
REDUCED = """
    x: float32[4, 3]
    w: float32[3, 8]
    b: float32[8]
    p = aten.addmm.default(b, x, w)
    m = _c10d_functional.all_reduce.default(p, "sum", "tp")
    a = aten.gelu.default(m)
    y = mul(a, 3)
    -> y
"""


def test_what_every_rank_adds_before_a_sum_is_said_with_a_hint_that_is_proved(tmp_path: Path) -> None:
    specification = BIASED.format(first="aten.addmm.default(b, x, w)")
    found = mismatch(job(tmp_path, specification, [REDUCED, REDUCED], ROWS))
    assert (found.implementation, found.kind) == ("p", "extra")
    assert found.headline == "p adds b on every rank, before the sum over tp: it is added 2 times"
    assert found.hint == "add b once, after the sum over tp"


SOFTMAX = "x: float32[4, 6]\ny = aten._log_softmax.default(x, -1, False)\n-> y"
COMPOSED = """
    x: float32[4, 6]
    a = aten.amax.default(x, [-1], True)
    d = sub(x, a)
    e = aten.exp.default(d)
    s = aten.sum.dim_IntList(e, [-1], True)
    l = aten.log.default(s)
    y = sub(d, l)
    -> y
"""


def test_another_function_is_named_where_the_specification_has_no_such_step(tmp_path: Path) -> None:
    found = mismatch(job(tmp_path, SOFTMAX, [COMPOSED.replace("aten.exp", "aten.tanh")]))
    assert found.headline == "e applies tanh to d where exp is needed"
    assert found.hint == "exp instead of tanh in e"


MASKED = """
    x: float32[4, 4]
    o = aten.ones.default([4, 4])
    t = aten.tril.default(o, 0)
    k = aten.eq.Scalar(t, 0)
    f = aten.masked_fill.Scalar(x, k, -1e4)
    y = aten._softmax.default(f, -1, False)
    -> y
"""


def test_the_number_that_makes_a_mask_is_named_above_the_mask(tmp_path: Path) -> None:
    found = mismatch(job(tmp_path, MASKED, [MASKED.replace("(o, 0)", "(o, 1)")]))
    assert found.headline == "t has 1 in tril where 0 is needed"
    assert found.hint == "0 instead of 1 in t"


@pytest.mark.usefixtures("nothing_repairs")
def test_where_no_change_repairs_the_first_value_that_is_none_of_the_specifications_is_named(tmp_path: Path) -> None:
    layers = "\n".join(f"a{k} = mm(a{k - 1}, w)\nb{k} = aten.tanh.default(a{k})" for k in range(1, 4))
    layers = layers.replace("mm(a", "mm(b").replace("b0", "x")
    text = f"x: float32[6, 6]\nw: float32[6, 6]\n{layers}\n-> b3"
    found = mismatch(job(tmp_path, text, [text.replace("mm(b1, w)", "mm(w, b1)")]))
    assert found.implementation == "a2"


@pytest.mark.usefixtures("nothing_repairs")
def test_memory_that_nothing_was_written_to_is_named(tmp_path: Path) -> None:
    text = "x: float32[4, 6]\ns = aten.sin.default(x)\nt = mul(s, x)\nu = aten.exp.default(t)\n-> u"
    memory = "x: float32[4, 6]\ne = aten.empty.memory_format([4, 6])\nt = mul(e, x)\nu = aten.exp.default(t)\n-> u"
    found = mismatch(job(tmp_path, text, [memory]))
    assert (found.implementation, found.kind) == ("e", "missing")
    assert found.headline == "e is read by t, and no input decides it: it comes of e"


@pytest.mark.usefixtures("nothing_repairs")
def test_where_one_rank_alone_is_wrong_its_counterpart_is_that_of_the_others(tmp_path: Path) -> None:
    text = "x: float32[{rows}, 6]\na = aten.gelu.default(x)\nb = mul(a, 3)\nc = aten.exp.default(b)\n-> c"
    ranks = [text.format(rows=2), text.format(rows=2).replace("gelu", "tanh")]
    tables = '[inputs]\nx = "Shard(0)"\n[outputs]\nc = "Shard(0)"\n'
    found = mismatch(job(tmp_path, text.format(rows=4), ranks, tables))
    assert (found.specification, found.implementation) == ("a", "a")


@pytest.mark.usefixtures("nothing_repairs")
def test_what_only_moves_elements_is_passed_where_forms_say_how_the_next_value_differs(tmp_path: Path) -> None:
    text = """
        x: float32[4, 6]
        g: float32[4, 6]
        w: float32[4, 5]
        h: float32[6, 5]
        m = mul(x, g)
        t = {moved}
        y = mm(t, w)
        v = aten.tanh.default(y)
        z = mm(m, h)
        -> v, z
    """
    moved = ("aten.permute.default(x, [1, 0])", "aten.transpose.int(m, 0, 1)")
    specification, wrong = (text.format(moved=one) for one in moved)
    found = mismatch(job(tmp_path, specification, [wrong]))
    assert (found.kind, found.specification, found.implementation) == ("extra", "y", "y")


@pytest.mark.usefixtures("nothing_repairs")
def test_a_part_is_compared_whatever_dimensions_of_size_one_it_has(tmp_path: Path) -> None:
    specification = "x: float32[4, 6]\na = aten.exp.default(x)\nb = aten.tanh.default(a)\n-> b"
    other = """
        x: float32[4, 6]
        u = aten.unsqueeze.default(x, 0)
        d = mul(u, 2)
        a = aten.exp.default(d)
        v = aten.squeeze.dim(a, 0)
        b = aten.tanh.default(v)
        -> b
    """
    assert mismatch(job(tmp_path, specification, [other])).equations


def test_a_number_that_is_another_one_of_the_specification_by_chance(tmp_path: Path) -> None:
    """A correction of Adam's step that is taken from 1 twice is the power again, which the specification has, too."""
    text = """
        g: float32[3]
        s: float32[]
        b = aten.pow.Scalar(0.9, s)
        c = aten.rsub.Scalar(b, 1)
        r = aten.reciprocal.default(c)
        y = mul(g, r)
        -> y
    """
    wrong = text.replace("c = aten.rsub.Scalar(b, 1)", "a = aten.rsub.Scalar(b, 1)\n        c = aten.rsub.Scalar(a, 1)")
    found = mismatch(job(tmp_path, text, [wrong, wrong]))
    assert (found.implementation, found.kind, found.hint) == ("c", "extra", "leave out c"), found.headline


def test_steps_of_its_own_in_layers_that_are_right_are_not_the_place(tmp_path: Path) -> None:
    """Each layer multiplies by three times its weight, and divides: no such tensor is the specification's."""
    theirs = "a{0} = mm(h{1}, w{0})\nh{0} = aten.tanh.default(a{0})\n"
    ours = "s{0} = mul(w{0}, 3)\nm{0} = mm(h{1}, s{0})\na{0} = div(m{0}, 3)\nh{0} = aten.tanh.default(a{0})\n"
    inputs = (
        "x: float32[{rows}, 6]\nw1: float32[6, 6]\nw2: float32[6, 6]\nw3: float32[6, 6]\nh0 = aten.sin.default(x)\n"
    )
    whole, rank = (inputs + "".join(layer.format(k, k - 1) for k in (1, 2, 3)) + "-> h3" for layer in (theirs, ours))
    tables = '[inputs]\nx = "Shard(0)"\ndefault = "Replicate()"\n[outputs]\ndefault = "Shard(0)"\n'
    wrong = rank.replace("tanh.default(a2)", "tanh.default(h1)").format(rows=2)
    start = start_of(job(tmp_path, whole.format(rows=4), [wrong, wrong], tables), ["h3"])
    found = unrepaired(Parted(start.matches, start.parting, start.suspects))
    assert found is not None
    assert found.place == (0, "h2")


def test_what_no_input_decides_stands_for_what_inputs_decide(tmp_path: Path) -> None:
    """The probabilities are uniform: everything above them is a constant, as masks are."""
    text = """
        x: float32[4, 4]
        w: float32[4, 4]
        o = aten.ones.default([4, 4])
        d = div({0}, 2)
        t = aten.tril.default(o, 0)
        k = aten.eq.Scalar(t, 0)
        f = aten.masked_fill.Scalar(d, k, -1e4)
        p = aten._softmax.default(f, -1, False)
        y = mm(p, w)
        -> y
    """
    found = mismatch(job(tmp_path, text.format("x"), [text.format("o")]))
    assert found.implementation == "d", found.headline
    assert found.hint


def test_what_follows_in_steps_of_its_own_may_be_wrong_as_well(tmp_path: Path) -> None:
    """The specification is one operator where the implementation has many: the first of these is named, and that what
    is wrong may be one of the others."""
    specification = "x: float32[4, 6]\nl = aten._log_softmax.default(x, 1, False)\ny = aten.sum.default(l)\n-> y"
    rank = """
        x: float32[4, 6]
        m = aten.amax.default(x, [1], True)
        c = sub(x, m)
        e = aten.exp.default(c)
        p = mul(e, c)
        q = aten.cos.default(p)
        s = aten.sum.dim_IntList(q, [1], True)
        g = aten.log.default(s)
        o = sub(c, g)
        y = aten.sum.default(o)
        -> y
    """
    tables = '[inputs]\nx = "Replicate()"\n[outputs]\ny = "Replicate()"\n'
    report = refine(read_job(job_files(tmp_path, specification, [rank] * 2, tables, {"dp": 2}, {"dp": ("dp",)})))
    assert report.mismatch is not None
    assert report.mismatch.difference.startswith(
        "both sides go on in steps of their own, and what is wrong may come later: "
    )
