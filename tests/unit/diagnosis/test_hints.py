"""Hints are changes of lines with which the job is proved; what is no such change is not printed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from support.jobs import job_files
from support.sayings import check_sentences, formulas, unclear
from tantamount import read_job
from tantamount.answers import refine
from tantamount.diagnosis import localise
from tantamount.diagnosis.hints import Hint, followed, passed_on, proved_with, reduced
from tantamount.ir.job import Job
from tantamount.limits import Limits
from tantamount.proof import prove
from tantamount.verdict import Mismatch, Verdict

WHOLE = '[inputs]\ndefault = "Replicate()"\n[outputs]\ndefault = "Replicate()"\n'
ROWS = '[inputs]\nx = "Shard(0)"\ndefault = "Replicate()"\n[outputs]\ndefault = "Replicate()"\n'


def written(folder: Path, specification: str, ranks: list[str], tables: str, axes: dict[str, int]) -> Job:
    groups = {name: (name,) for name in axes} | {"all": tuple(axes)}
    return read_job(job_files(folder, specification, ranks, tables, axes, groups))


def found(job: Job, limits: Limits | None = None) -> Mismatch:
    report = refine(job) if limits is None else refine(job, limits=limits)
    assert report.verdict is Verdict.REFUTED
    assert report.mismatch is not None
    check_sentences(job, report)
    return report.mismatch


LOSS = "x: float32[{n}, 6]\nq = mul(x, x)\ns = aten.sum.default(q)\n{more}-> y"


def test_a_sum_over_several_axes(tmp_path: Path) -> None:
    tables = '[inputs]\nx = ["Shard(0)", "Shard(0)"]\n[outputs]\ndefault = ["Replicate()", "Replicate()"]\n'
    ranks = [LOSS.format(n=2, more="y = div(s, 48)\n")] * 4
    job = written(tmp_path, LOSS.format(n=8, more="y = div(s, 48)\n"), ranks, tables, {"dp": 2, "tp": 2})
    said = found(job)
    assert (said.implementation, said.kind) == ("s", "unreduced")
    assert said.hint == "all_reduce, or reduce_scatter, s over dp and tp"
    lines = dict.fromkeys(((rank, "s") for rank in range(4)), reduced("sum", ("dp", "tp")))
    assert refine(followed(job, Hint("", lines))).verdict is Verdict.PROVED


def test_hints_are_proved_over_the_store_of_another_proof_as_alone(tmp_path: Path) -> None:
    """What the proof of the wrong program has computed proves no wrong change, and is not changed by a right one."""
    ranks = [LOSS.format(n=4, more="y = div(s, 48)\n")] * 2
    job = written(tmp_path, LOSS.format(n=8, more="y = div(s, 48)\n"), ranks, ROWS, {"tp": 2})
    proof = prove(job)
    changes = {"sum": reduced("sum", ("tp",)), "avg": reduced("avg", ("tp",)), "max": reduced("max", ("tp",)),
               "passed on": passed_on("q")}  # fmt: skip
    for _ in range(2):  # the second time, all forms are there
        for how, line in changes.items():
            hint = Hint("", dict.fromkeys(((rank, "s") for rank in range(2)), line))
            effort, computed = proof.store.effort, proof.shared.computed
            assert proved_with(job, hint, proof, ["y"], 60.0) is (how == "sum")
            assert not proved_with(job, hint, proof, [], 60.0)  # of no output all is proved, whatever is changed
            assert proof.store.effort is effort
            assert proof.shared.computed - computed <= 2  # what follows from the change
        assert all(output.verdict is not Verdict.PROVED for output in proof.check())


@pytest.mark.parametrize(
    ("more", "place", "hint"),
    [
        ('r = all_reduce(s, "sum", "tp")\ny = div(r, 480)\n', "y", "48 instead of 480 in y"),
        ('q1 = all_reduce(s, "sum", "tp")\nr = all_reduce(q1, "sum", "tp")\ny = div(r, 48)\n', "r", "leave out r"),
    ],
)
def test_an_output_of_one_number_that_is_a_multiple(tmp_path: Path, more: str, place: str, hint: str) -> None:
    specification = LOSS.format(n=8, more="y = div(s, 48)\n")
    said = found(written(tmp_path, specification, [LOSS.format(n=4, more=more)] * 2, ROWS, {"tp": 2}))
    assert (said.implementation, said.hint) == (place, hint)


def test_operands_in_the_wrong_order(tmp_path: Path) -> None:
    text = "x: float32[4, 4]\nw: float32[4, 4]\nm = mm({})\ny = aten.sin.default(m)\n-> y"
    said = found(written(tmp_path, text.format("x, w"), [text.format("w, x")], WHOLE, {}))
    assert said.headline == "m reads w, x in the wrong order: x, w is needed"
    assert said.hint == "x, w instead of w, x in m"


NORM = (
    "x: float32[{n}, 6]\nq = mul(x, x)\ns = aten.sum.default(q)\n{more}n = aten.sqrt.default({of})\ny = div(x, n)\n-> y"
)


def test_a_sum_that_the_specification_computes_in_another_way(tmp_path: Path) -> None:
    """The norm of all rows is the root of a sum over ranks; the specification has no such sum."""
    whole = "x: float32[8, 6]\nn = aten.linalg_vector_norm.default(x)\ny = div(x, n)\n-> y"
    tables = '[inputs]\nx = "Shard(0)"\n[outputs]\ndefault = "Shard(0)"\n'
    said = found(written(tmp_path, whole, [NORM.format(n=4, more="", of="s")] * 2, tables, {"tp": 2}))
    assert (said.implementation, said.kind) == ("s", "unreduced")
    assert said.headline.startswith("a sum over tp is missing after s: every rank holds its own share")
    assert said.hint == "all_reduce s over tp"


RING = "x: float32[2, 6]\nw: float32[6, 4]\na = mm(x, w)\nb = mm(x, w)\ny = cat([{}], 0)\n-> y"


def test_what_another_rank_has_and_did_not_send(tmp_path: Path) -> None:
    """Every rank multiplies all rows by its columns, its own rows and those that it should be sent."""
    tables = '[inputs]\nx = "Shard(0)"\nw = "Shard(1)"\n[outputs]\ndefault = "Shard(1)"\n'
    whole = "x: float32[4, 6]\nw: float32[6, 8]\ny = mm(x, w)\n-> y"
    said = found(written(tmp_path, whole, [RING.format("a, b"), RING.format("b, a")], tables, {"tp": 2}))
    assert (said.implementation, said.kind, said.hint) == ("b", "offset", "")
    assert "rank 0 reads x (which is x[0:2]) where x[2:4] is needed, which rank 1 has" in said.headline


SCALED = "x: float32[32, 48]\nw: float32[48, 32]\nm = mm(x, w)\nd = mul(m, {})\ny = aten.sin.default(d)\n-> y"
SMALL = Limits(witness_elements=2_000)  # less than the job takes: both programs are executed at smaller shapes


def test_numbers_are_those_of_the_job_where_it_is_executed_at_smaller_shapes(tmp_path: Path) -> None:
    right = 32**-0.5
    job = written(tmp_path, SCALED.format(right), [SCALED.format(right / 2)], WHOLE, {})
    said = found(job, SMALL)
    assert said.headline == "d multiplies by 0.0883883 where 0.176777 is needed: the result is 2 times too small"
    assert said.hint == "0.176777 instead of 0.0883883 in d"


def test_positions_are_those_of_the_job_where_it_is_executed_at_smaller_shapes(tmp_path: Path) -> None:
    text = "x: float32[32, 64]\nw: float32[32, 32]\na = slice(x, 1, {})\nm = mm(a, w)\ny = aten.sin.default(m)\n-> y"
    said = found(written(tmp_path, text.format("32, 64"), [text.format("0, 32")], WHOLE, {}), SMALL)
    assert said.headline == "a takes x[:, 0:32] where the specification's a is needed"
    assert said.hint == "32:64 instead of 0:32 along dimension 1 in a"


def test_a_hint_with_which_the_job_is_not_proved_is_not_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "x: float32[4, 6]\nd = div(x, {})\ny = aten.sin.default(d)\n-> y"
    job = written(tmp_path, text.format(4), [text.format(2)], WHOLE, {})
    told = localise.account
    assert found(job).hint == "4 instead of 2 in d"

    def worse(*args: object) -> object:
        return replace(told(*args), hint=Hint("leave out d", {(0, "d"): passed_on("x")}))  # type: ignore[arg-type]

    monkeypatch.setattr(localise, "account", worse)
    assert found(job).hint == ""


def test_nothing_to_cut_tensors_without_elements_into(tmp_path: Path) -> None:
    """Windows of empty tensors, and of none at all."""
    text = (
        "x: float32[4, 6]\ne: float32[0, 6]\nf = mul(e, 2)\nc = cat([x, f], 0)\nd = mul(c, {})\n"
        "y = aten.sin.default(d)\n-> y, f"
    )
    assert found(written(tmp_path, text.format(3), [text.format(5)], WHOLE, {})).hint == "3 instead of 5 in d"


def test_what_a_formula_is() -> None:
    assert formulas("mm_1 (a/b.py:12) reads x[0:2] + y where w is needed") == ["mm_1", "x[0:2] + y", "w"]
    assert formulas("a sum over tp is missing") == ["a"]


def test_whose_a_name_is(tmp_path: Path) -> None:
    text = "x: float32[4, 6]\nm = mul(x, x)\ny = aten.sin.default(m)\n-> y"
    job = written(tmp_path, text, [text], WHOLE, {})
    assert unclear("y reads m where x is needed", job) == []
    assert unclear("y reads x where m[0:2] is needed", job) == ["m"]
    assert unclear("y reads x where the specification's m[0:2] is needed", job) == []
