"""Counterexamples: which differences count, how simple the input becomes, and what is said where there is none.

``cos(atan(x))^2 (1 + x^2)`` against 1 stands for a truth that the calculus does not prove, so that execution
decides."""

from __future__ import annotations

from math import isnan
from pathlib import Path

import pytest

from support.cross_check import cross_check
from support.jobs import job_files
from support.puzzle import one
from tantamount import read_job
from tantamount.answers import refine
from tantamount.limits import Limits
from tantamount.verdict import Report, Verdict

ONE = one(2, 3)
EVERYTHING = '[inputs]\ndefault = "Replicate()"\n[outputs]\ndefault = "Replicate()"\n'


def report(
    folder: Path,
    specification: str,
    implementation: str | list[str],
    tables: str = EVERYTHING,
    limits: Limits | None = None,
) -> Report:
    ranks = [implementation] if isinstance(implementation, str) else implementation
    mesh = {} if len(ranks) == 1 else {"tp": len(ranks)}
    path = job_files(folder, specification, ranks, tables, mesh, {"tp": tuple(mesh)})
    return refine(read_job(path), limits=limits)


def only(found: Report) -> tuple[Verdict, str]:
    (output,) = found.outputs
    return output.verdict, " ".join((output.reason, *output.notes))


def test_a_factor_is_shown_on_the_simplest_input(tmp_path: Path) -> None:
    found = report(
        tmp_path,
        "x: float32[4]\nw: float32[4, 3]\ny = aten.matmul.default(x, w)\n-> y",
        "x: float32[4]\nw: float32[4, 3]\nv = aten.matmul.default(x, w)\ny = add(v, v)\n-> y",
    )
    example = found.counterexample
    assert found.exit_code == 1
    assert example is not None
    assert sorted(example.inputs["x"]) == [0, 0, 0, 1]
    assert sum(v != 0 for row in example.inputs["w"] for v in row) == 1
    assert (abs(example.expected), abs(example.actual)) == (1, 2)
    assert f"is {example.expected:g} in the specification and {example.actual:g} on rank 0" in found.outputs[0].reason


def test_the_rank_that_differs_is_named(tmp_path: Path) -> None:
    one = "x: float32[3]\ny = mul(x, {})\n-> y"
    found = report(tmp_path, one.format(2), [one.format(2), one.format(3)])
    assert found.counterexample is not None
    assert found.counterexample.rank == 1
    assert (found.counterexample.expected, found.counterexample.actual) == (2, 3)


def test_no_difference_is_no_verdict(tmp_path: Path) -> None:
    verdict, text = only(report(tmp_path, ONE + "-> one", "x: float32[2, 3]\none = aten.ones_like.default(x)\n-> one"))
    assert verdict is Verdict.UNKNOWN
    assert "both sides agree" in text


def test_a_tiny_difference_is_too_small_to_tell(tmp_path: Path) -> None:
    implementation = ONE.replace("one =", "two =") + "one = mul(two, 1.00000001)\n-> one"
    verdict, text = only(report(tmp_path, ONE + "-> one", implementation))
    assert verdict is Verdict.UNKNOWN
    assert "no element differs by more than 1.0e-08 of it: too small to tell" in text


def test_rounding_is_no_difference(tmp_path: Path) -> None:
    large = ONE.replace("one =", "two =") + "a = add(two, 1e12)\none = sub(a, 1e12)\n-> one"
    specification = "x: float32[2, 3]\none = aten.ones_like.default(x)\n-> one"
    assert only(report(tmp_path, specification, large))[0] is Verdict.UNKNOWN


def test_overflow_is_no_difference(tmp_path: Path) -> None:
    """Over the reals e^(5000 x) - e^(5000 x) is 0."""
    implementation = ONE.replace("one =", "two =") + (
        "k = mul(x, 5000)\ne = aten.exp.default(k)\nz = sub(e, e)\none = add(two, z)\n-> one"
    )
    specification = "x: float32[2, 3]\none = aten.ones_like.default(x)\n-> one"
    assert only(report(tmp_path, specification, implementation))[0] is Verdict.UNKNOWN


def test_a_difference_at_single_points(tmp_path: Path) -> None:
    """``x > 0`` and ``x >= 0`` differ at 0 only, which no random number is."""
    text = "x: float32[3]\nm = aten.{}.Scalar(x, 0)\ny = mul(x, x)\nz = add(y, m)\n-> z"
    verdict, why = only(report(tmp_path, text.format("gt"), text.format("ge")))
    assert verdict is Verdict.REFUTED
    assert "is 0 in the specification and 1 on rank 0" in why


def test_numbers_that_rounding_makes_equal_are_no_difference(tmp_path: Path) -> None:
    """``tanh`` of large numbers is rounded to 1: which of them is the greatest, an execution does not know."""
    text = "x: float32[2, 6]\n{}z = aten.argmax.default({}, 1)\n-> z"
    verdict, _ = only(report(tmp_path, text.format("t = tanh(x)\n", "t"), text.format("", "x")))
    assert verdict is Verdict.PROVED


def test_failing_where_the_specification_is_defined(tmp_path: Path) -> None:
    root = "r = aten.sqrt.default(x)\nz = sub(r, r)\no = aten.ones_like.default(x)\n"
    implementation = "x: float32[2, 3]\n" + root + "one = add(o, z)\n-> one"
    found = report(tmp_path, ONE + "-> one", implementation)
    verdict, text = only(found)
    assert verdict is Verdict.REFUTED
    assert "is 1 in the specification and undefined on rank 0" in text
    assert found.counterexample is not None
    assert isnan(found.counterexample.actual)


def test_an_index_out_of_range_is_a_failure(tmp_path: Path) -> None:
    indexed = "i: int64[3]\nt: int64[4]\nj = add(i, {})\nv = aten.index.Tensor(t, [j])\nz = mul(v, 0)\n"
    specification = ONE + indexed.format(0) + "-> one, z"
    implementation = (
        "x: float32[2, 3]\none = aten.ones_like.default(x)\n" + indexed.format(1) + "w = mul(z, z)\n-> one, z"
    )
    tables = '[inputs]\ndefault = "Replicate()"\n[outputs]\none = "Replicate()"\n'
    unrelated = report(tmp_path, specification, implementation, tables)
    assert only(unrelated)[0] is Verdict.UNKNOWN  # `one` does not depend on the index
    added = (text.replace("-> one", "u = add(one, z0)\n-> u") for text in (specification, implementation))
    dependent = report(
        tmp_path,
        *(text.replace("z = mul(v, 0)", "a = aten.sum.default(v)\nz0 = mul(a, 0)\nz = mul(v, 0)") for text in added),
        tables.replace("one", "u"),
    )
    verdict, text = only(dependent)
    assert verdict is Verdict.REFUTED
    assert "on rank 0, v has an index out of range" in text


def test_out_of_range_indices_of_the_specification_are_no_inputs(tmp_path: Path) -> None:
    text = "i: int64[3]\nt: float32[2]\nj = mul(i, 5)\nv = aten.index.Tensor(t, [j])\ny = mul(v, {})\n-> y"
    found = report(tmp_path, text.format(1), text.format(2))
    if found.counterexample is not None:  # all zeros is in range
        assert found.counterexample.inputs["i"] == [0, 0, 0]


def test_what_is_too_large_at_any_shape_is_not_executed_and_says_so(tmp_path: Path) -> None:
    found = report(
        tmp_path, "x: float32[9]\n-> x", "x: float32[9]\ny = add(x, x)\n-> x=y", limits=Limits(witness_elements=4)
    )
    assert only(found)[0] is Verdict.UNKNOWN
    (note,) = found.notes
    assert "no counterexample was looked for" in note
    assert "TANTAMOUNT_LIMIT_WITNESS_ELEMENTS" in note


DROPPED = "x: float32[2, 64]\nd, keep = native_dropout(x, 0.5, True)\ny = mul(d, {})\n-> y"
SAME_MASK = EVERYTHING + '[assume]\ndropout = "same mask"\n'


def test_ranks_use_their_part_of_the_mask(tmp_path: Path) -> None:
    half = DROPPED.replace("[2, 64]", "[1, 64]")
    tables = SAME_MASK.replace("Replicate", "Shard").replace("()", "(0)")
    right = report(tmp_path, DROPPED.format(1), [half.format(1), half.format(1)], tables)
    assert only(right)[0] is Verdict.PROVED
    checked = cross_check(read_job(tmp_path / "job.toml"))
    assert (checked.outputs, checked.disagreements, checked.executed) == (("y",), (), 4)
    wrong = report(tmp_path, DROPPED.format(1), [half.format(1), half.format(3)], tables)
    assert only(wrong)[0] is Verdict.REFUTED
    assert wrong.counterexample is not None
    assert wrong.counterexample.rank == 1


def test_masks_without_a_counterpart_are_no_difference(tmp_path: Path) -> None:
    found = report(tmp_path, DROPPED.format(1), DROPPED.format(1))
    verdict, text = only(found)
    assert verdict is Verdict.UNKNOWN
    assert text.startswith("it depends on which random numbers are the same")
    assert "nothing dropped" in found.notes[0]
    assert only(report(tmp_path, DROPPED.format(1), DROPPED.format(2)))[0] is Verdict.REFUTED


@pytest.mark.parametrize("assumed", ["2", '"same name, same value"'])
def test_unrecorded_constants_have_one_value_on_both_sides(tmp_path: Path, assumed: str) -> None:
    text = "x: float32[3]\nc = constant float32[3]\ny = mul(x, c)\nz = mul(y, {})\n-> z"
    tables = EVERYTHING + f"[assume]\nconstants = {assumed}\n"
    assert only(report(tmp_path, text.format(1), text.format(1), tables))[0] is Verdict.PROVED
    assert not cross_check(read_job(tmp_path / "job.toml")).disagreements
    assert only(report(tmp_path, text.format(1), text.format(2), tables))[0] is Verdict.REFUTED


def test_a_relation_found_elsewhere_does_not_refute_what_execution_confirms(tmp_path: Path) -> None:
    implementation = ONE.replace("one =", "other =") + "one = aten.ones_like.default(x)\n-> one, other"
    verdict, text = only(report(tmp_path, ONE + "-> one", implementation))
    assert verdict is Verdict.UNKNOWN
    assert "both sides agree" in text


@pytest.mark.parametrize("fold", [True, False])
def test_cross_check_sees_a_wrong_claim(tmp_path: Path, fold: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a calculus that finds everything equal, every claim that is false is named."""
    text = "x: float32[3]\ny = mul(x, {})\n-> y"
    path = job_files(tmp_path, text.format(1), [text.format(2)] * 2, EVERYTHING, {"tp": 2}, {"tp": ("tp",)})
    assert not cross_check(read_job(path), fold=fold).disagreements
    monkeypatch.setattr("tantamount.proof.outputs.equal", lambda *_, **__: None)
    found = cross_check(read_job(path), fold=fold)
    assert found.outputs == ("y",)
    assert [text.split(" = ")[0] for text in found.disagreements if not text.startswith("%")] == ["y"]
