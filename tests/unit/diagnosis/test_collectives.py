"""Collectives that reduce in another way, or over other ranks; and lines that differ on one rank of several."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.jobs import job_files
from support.sayings import check_sentences, reads_the_same
from support.starts import start_of
from tantamount import read_job
from tantamount.answers import refine
from tantamount.verdict import Mismatch, Verdict

GROUPS = {"dp": ("dp",), "tp": ("tp",), "both": ("dp", "tp")}


def mismatch(folder: Path, specification: str, ranks: list[str], tables: str, **axes: int) -> Mismatch:
    groups = {name: names for name, names in GROUPS.items() if set(names) <= set(axes)}
    job = read_job(job_files(folder, specification, ranks, tables, axes, groups))
    report = refine(job)
    assert report.verdict is Verdict.REFUTED
    assert report.mismatch is not None
    check_sentences(job, report)
    return report.mismatch


# The gradient of a weight: each rank has the summand of its rows, and its own columns.
SUMMED = "d: float32[4, 6]\ng = mul(d, 3)\ny = aten.sin.default(g)\n-> y"
RANK = 'd: float32[4, {0}]\ns = all_reduce(d, "{1}", "{2}")\ng = mul(s, 3)\ny = aten.sin.default(g)\n-> y'


@pytest.mark.parametrize(
    ("how", "over", "headline", "hint", "kind"),
    [
        ("max", "dp", "s takes the maximum over dp where the sum over dp is needed", "sum instead of max in s",
         "operation"),
        ("avg", "dp", "s takes the mean over dp where the sum over dp is needed: it comes out 2 times too small",
         "sum instead of avg in s", "factor"),
        ("sum", "both", "s takes the sum over dp and tp where the sum over dp is needed",
         "over dp instead of over dp and tp in s", "range"),
        ("sum", "tp", "s takes the sum over tp where the sum over dp is needed", "over dp instead of over tp in s",
         "range"),
    ],
)  # fmt: skip
def test_a_collective_that_reduces_in_another_way(
    how: str, over: str, headline: str, hint: str, kind: str, tmp_path: Path
) -> None:
    tables = '[inputs]\nd = [\'Partial("sum")\', "Shard(1)"]\n[outputs]\ndefault = ["Replicate()", "Shard(1)"]\n'
    ranks = [RANK.format(3, how, over)] * 4
    found = mismatch(tmp_path, SUMMED, ranks, tables, dp=2, tp=2)
    assert (found.implementation, found.kind, found.hint) == ("s", kind, hint), found.headline
    assert found.headline.startswith(headline)


# A softmax by hand, of which the specification has no step: the sums over ranks gain nothing nearby.
WHOLE = "x: float32[3, 8]\nw: float32[3, 8]\np = aten._softmax.default(x, 1, False)\ny = mul(p, w)\n-> y"
BY_HAND = """
    x: float32[3, 4]
    w: float32[3, 4]
    a = aten.amax.default(x, [1], True)
    m = all_reduce(a, "max", "tp")
    c = sub(x, m)
    e = aten.exp.default(c)
    n = aten.sum.dim_IntList(e, [1], True)
    {0}
    p = div(e, s)
    y = mul(p, w)
    -> y
"""
COLUMNS = '[inputs]\ndefault = "Shard(1)"\n[outputs]\ndefault = "Shard(1)"\n'


@pytest.mark.parametrize(
    ("line", "place"),
    [('s = all_reduce(n, "avg", "tp")', "s"), ('s = all_reduce(n, "max", "tp")', "s"), ("s = mul(n, 1.0)", "n")],
)
def test_a_reduction_inside_a_softmax_by_hand(line: str, place: str, tmp_path: Path) -> None:
    found = mismatch(tmp_path, WHOLE, [BY_HAND.format(line)] * 2, COLUMNS, tp=2)
    assert found.implementation == place, found.headline
    assert found.hint


# What comes of the wrong line is another tensor of the specification by chance, for what is added there is nearly 0.
ADDED = """
    x: float32[{0}, 4]
    a = aten.sin.default(x)
    b = aten.exp.default(a)
    s = mul(x, 1e-14)
    {1}
    d = mul(c, 1000)
    e = add(a, d)
    y = aten.tanh.default(e)
    -> y
"""
ROWS = '[inputs]\ndefault = "Shard(0)"\n[outputs]\ndefault = "Shard(0)"\n'


def test_a_rank_that_has_another_tensor_than_all_others(tmp_path: Path) -> None:
    right, wrong = ADDED.format(2, "c = mul(b, a)"), ADDED.format(2, "c = mul(s, a)")
    path = job_files(tmp_path, ADDED.format(8, "c = mul(b, a)"), [right, right, wrong, right], ROWS, {"tp": 4}, {})
    start = start_of(read_job(path), ["y"])
    assert start.matches.aligned((2, "e")) is not None
    assert (2, "s") in start.location.at.values()  # c reads it


def test_sentences_that_tell_apart_what_they_call_by_one_name() -> None:
    for text in ("d has d, d is needed", "d stands where d is needed", "m reads d where d is needed", "a.b is not a.b"):
        assert reads_the_same(text)
    for text in ("d has e, d is needed", "d is not the specification's d", "d stands where the specification's d is"):
        assert not reads_the_same(text)
