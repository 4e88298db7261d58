"""Indices that count from the end were taken to be out of range: what a program reads there was assumed not to
matter, though eager reads it. ``x[torch.arange(n) - 1]`` was PROVED to be ``x`` moved by one, its first element kept,
and ``x[i - 1]`` to be ``x[(i - 1).clamp(min=0)]``."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from support.decided import Pair, check, verdict_of
from support.jobs import job_files
from tantamount import read_job
from tantamount.answers import refine
from tantamount.ir.job import Job

X, I = "x: float32[6]; ", "i: int64[3]; "
AROUND = "a = slice(x, 0, 5, 6); b = slice(x, 0, 0, 5); z = cat([a, b]); -> z"
KEPT = "a = slice(x, 0, 0, 1); b = slice(x, 0, 0, 5); z = cat([a, b]); -> z"
READ = "r = aten.arange.default(6); p = sub(r, 1); z = index(x, [p]); -> z"
PUT = "y: float32[3]; r = aten.arange.default(3); p = sub(r, 1); z = aten.index_put.default(x, [p], y{}); -> z"
FIRST = "y: float32[3]; r = aten.arange.default(3); p = aten.clamp_min.default(r, 0); z = aten.index_put.default(x, [p], y{}); -> z"  # noqa: E501
TWICE = "r = aten.arange.default(3); a = add(r, 5); p = aten.remainder.Scalar(a, 6); z = aten.index_put.default(x, [p], y{}); -> z"  # noqa: E501
FILL = "r = aten.arange.default(2); p = sub(r, 1); z = aten.index_fill.int_Scalar(x, 0, p, 0.0); -> z"

PAIRS = (
    Pair("read", X + READ, X + AROUND, "PROVED"),
    Pair("read from the start", X + READ, X + KEPT, "REFUTED"),
    Pair("computed from an argument", X + I + "j = sub(i, 1); z = index(x, [j]); -> z",
         X + I + "j = sub(i, 1); p = aten.clamp_min.default(j, 0); z = index(x, [p]); -> z", "REFUTED"),
    # what a program is given, token numbers or labels, is assumed to be counted from the start, which is printed
    Pair("of an argument", X + I + "z = index(x, [i]); -> z",
         X + I + "p = aten.clamp_min.default(i, 0); z = index(x, [p]); -> z", "PROVED"),
    Pair("of an argument of the implementation", X + I + "p = aten.clamp.default(i, -6, 5); z = index(x, [p]); -> z",
         X + I + "z = index(x, [i]); -> z", "UNKNOWN"),
    Pair("of an argument, written out", X + I + "z = index(x, [i]); -> z",
         X + I + "m = aten.lt.Scalar(i, 0); j = add(i, 6); k = aten.where.self(m, j, i); z = index(x, [k]); -> z",
         "PROVED"),
    Pair("written", X + PUT.format(""), X + "y: float32[3]; " + TWICE.format(""), "UNKNOWN"),
    Pair("written from the start", X + PUT.format(""), X + FIRST.format(""), "REFUTED"),
    Pair("added", X + PUT.format(", True"), X + "y: float32[3]; " + TWICE.format(", True"), "PROVED"),
    Pair("added from the start", X + PUT.format(", True"), X + FIRST.format(", True"), "REFUTED"),
    Pair("filled", X + FILL, X + "a = slice(x, 0, 1, 5); z = pad(a, [1, 1], 0.0); -> z", "PROVED"),
    Pair("filled from the start", X + FILL, X + "a = slice(x, 0, 1, 6); z = pad(a, [1, 0], 0.0); -> z", "REFUTED"),
    Pair("too far from the end", X + I + "p = aten.clamp.default(i, -6, 5); z = index(x, [p]); -> z",
         X + I + "p = aten.clamp.default(i, -6, 5); q = sub(p, 6); z = index(x, [q]); -> z", "REFUTED"),
    # an implementation that fails where the specification does not
    Pair("a step before the first", X + I + "p = aten.clamp.default(i, -6, -5); z = index(x, [p]); -> z",
         X + I + "p = aten.clamp.default(i, -7, -5); z = index(x, [p]); -> z", "UNKNOWN"),
)  # fmt: skip


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair.name)
def test_what_counts_from_the_end(pair: Pair, tmp_path: Path) -> None:
    check(pair, tmp_path)


FROM_START = "indices that the specification is given are not negative, though PyTorch counts such from the end"


def _texts(pair: Pair, folder: Path) -> list[str]:
    report = verdict_of(pair, folder)
    assert report.verdict.name == "PROVED"
    return [a.text for a in report.assumptions if a.name == "index-range"]


def test_what_is_assumed_of_an_argument_is_printed(tmp_path: Path) -> None:
    pair = next(pair for pair in PAIRS if pair.name == "of an argument")
    assert _texts(pair, tmp_path) == ["indices of the specification are in range (0 <= i < n)", FROM_START]


READS = "z = index(x, [i]); -> z"
MOVED = "a = slice(x, 0, 0, 6); j = aten.view.default(i, [3]); z = index(a, [j]); -> z"


def test_nothing_is_assumed_where_both_programs_do_the_same_with_negative_ones(tmp_path: Path) -> None:
    """What is read as an index into n elements, and as nothing else, may as well be what it is modulo n."""
    assert FROM_START not in _texts(Pair("", X + I + READS, X + I + MOVED, "PROVED"), tmp_path)


OTHERWISE = {
    "in another size": "a = cat([x, x]); z = index(a, [i]); -> z",
    "compared": "m = ge(i, 0); f = aten._to_copy.default(m, dtype=float32); a = index(x, [i]); z = mul(a, f); -> z",
    "by an operator that takes no negative ones": "z = aten.index_select.default(x, 0, i); -> z",
}  # fmt: skip


@pytest.mark.parametrize("how", OTHERWISE)
def test_what_reads_negative_ones_otherwise_rests_on_the_assumption(how: str, tmp_path: Path) -> None:
    assert FROM_START in _texts(Pair("", X + I + READS, X + I + OTHERWISE[how], "PROVED"), tmp_path)


def test_what_a_program_gives_away_is_not_an_index_only(tmp_path: Path) -> None:
    pair = Pair("", X + I + "z = index(x, [i]); -> z, k=i", X + I + "z = index(x, [i]); -> z, k=i", "PROVED")
    assert FROM_START in _texts(pair, tmp_path)


def test_what_another_piece_computes_is_not_given(tmp_path: Path) -> None:
    """A piece of a program, or a part of a plan, takes whole numbers from the one before: those may be negative."""

    def job_of(implementation: str, computed: frozenset[str]) -> Job:
        programs = ["\n".join((X + I + text).split(";")) for text in (READS, implementation)]
        relations = '[inputs]\ndefault = "Replicate()"\n[outputs]\ndefault = "Replicate()"'
        job = read_job(job_files(tmp_path, programs[0], programs[1:], relations, {}, {}))
        return replace(job, specification=replace(job.specification, computed=computed))

    clamped = "p = aten.clamp_min.default(i, 0); z = index(x, [p]); -> z"
    assert refine(job_of(clamped, frozenset())).verdict.name == "PROVED"
    assert refine(job_of(clamped, frozenset({"i"}))).verdict.name == "REFUTED"
    assert refine(job_of(READS, frozenset({"i"}))).verdict.name == "PROVED"
