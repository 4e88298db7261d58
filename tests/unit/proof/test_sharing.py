"""Calls of one function with the same operands are computed once; what is no such call is computed for every node."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from support.jobs import job_files
from tantamount import read_job
from tantamount.answers import refine
from tantamount.calculus.calculus import Calculus
from tantamount.ir.job import Job
from tantamount.ops.classes import rank_classes
from tantamount.proof.inputs import build_inputs
from tantamount.proof.outputs import check_outputs
from tantamount.proof.ranks import run_implementation
from tantamount.proof.run import RanksRun, SpecificationRun
from tantamount.proof.sharing import Shared
from tantamount.proof.specification import run_specification
from tantamount.verdict import Verdict

X = "x: float32[8, 4]\nw: float32[8, 4]\nt: int64[3]\n"


def job(folder: Path, first: str, ranks: Sequence[str], inputs: str = 'default = "Replicate()"') -> Job:
    tables = f'[inputs]\n{inputs}\n[outputs]\ndefault = "Replicate()"'
    return read_job(job_files(folder, first, ranks, tables, {"r": len(ranks)}, {"g": ("r",)}))


def run(made: Job) -> tuple[Shared, SpecificationRun, RanksRun, int]:
    """Both programs in the calculus, without looking for their structure; and how many calls the first one took."""
    store = Calculus()
    shared = Shared(store)
    inputs = build_inputs(store, made)
    specification = run_specification(store, made, inputs, shared)
    specification.finish(node.name for node in made.specification.nodes)
    computed = shared.computed
    classes = rank_classes(made.implementation, made.mesh)
    return shared, specification, run_implementation(store, made, inputs, specification, classes, shared), computed


def verdicts(made: Job) -> set[Verdict]:
    shared, specification, implementation, _ = run(made)
    return {o.verdict for o in check_outputs(shared.store, made, specification, implementation)}


LAYER = "a = softmax(x, 1, False)\nb = mul(a, w)\nc = aten.exp.default(b)\nd = mul(c, x)\n"


def test_what_both_programs_compute_is_computed_once(tmp_path: Path) -> None:
    made = job(tmp_path, X + LAYER + "y = add(d, x)\n-> y", [X + LAYER + "y = add(x, d)\n-> y"])
    shared, _, _, before = run(made)
    assert (before, shared.computed - before, shared.found) == (5, 1, 4)
    assert verdicts(made) == {Verdict.PROVED}


def test_what_is_equal_is_found_again_though_it_was_computed_otherwise(tmp_path: Path) -> None:
    first = X + "s = add(x, w)\n" + LAYER.replace("(x,", "(s,") + "y = add(d, x)\n-> y"
    shared, _, _, before = run(job(tmp_path, first, [first.replace("add(x, w)", "add(w, x)")]))
    assert shared.computed - before == 1


def test_replicas_compute_what_the_specification_does(tmp_path: Path) -> None:
    program = X + LAYER + "y = add(d, x)\n-> y"
    made = job(tmp_path, program, [program] * 4)
    shared, _, implementation, before = run(made)
    assert shared.computed == before
    assert implementation.folded
    assert verdicts(made) == {Verdict.PROVED}


def test_parts_are_computed_for_themselves(tmp_path: Path) -> None:
    """The same text, but on half of the rows: no form of the specification is the ranks'."""
    half = X.replace("[8, 4]", "[4, 4]") + LAYER.replace("softmax(x, 1", "softmax(x, 0") + "y = add(d, x)\n-> y"
    whole = X + LAYER.replace("softmax(x, 1", "softmax(x, 0") + "y = add(d, x)\n-> y"
    tables = '[inputs]\nx = "Shard(0)"\nw = "Shard(0)"\nt = "Replicate()"\n[outputs]\ny = "Shard(0)"'
    made = read_job(job_files(tmp_path, whole, [half] * 2, tables, {"r": 2}, {}))
    assert Verdict.PROVED not in verdicts(made)


@pytest.mark.parametrize("draw", ["aten.empty_like.default(x)", "aten.rand_like.default(x)"])
def test_what_is_drawn_twice_is_two_things(draw: str, tmp_path: Path) -> None:
    program = f"{X}a = {draw}\nb = {draw}\ny = sub(a, b)\n-> y"
    made = job(tmp_path, X + "y = aten.zeros_like.default(x)\n-> y", [program])
    assert verdicts(made) == {Verdict.UNKNOWN}


def test_two_dropouts_of_one_tensor_have_two_masks(tmp_path: Path) -> None:
    program = X + "a, k = native_dropout(x, 0.5, True)\nb, l = native_dropout(x, 0.5, True)\ny = sub(a, b)\n-> y"
    made = job(tmp_path, X + "y = aten.zeros_like.default(x)\n-> y", [program])
    assert verdicts(made) == {Verdict.UNKNOWN}


def test_an_index_is_checked_where_it_is_read(tmp_path: Path) -> None:
    """The implementation reads one row further than the specification: in a tensor that it has made longer."""
    spec = X + "a = cat([x, w], 0)\ny = index(a, [t])\n-> y"
    same = job(tmp_path, spec, [spec])
    shared, specification, *_ = run(same)
    assert shared.found
    assert verdicts(same) == {Verdict.PROVED}
    assert [site for trace in specification.traces for site in trace.assumed_indices] == ["y"]
    shorter = X + "a = index(x, [t])\nb = mul(a, 0)\nc = cat([x, w], 0)\nd = index(c, [t])\ny = add(d, b)\n-> y"
    made = job(tmp_path, spec, [shorter])
    assert Verdict.PROVED not in verdicts(made)  # an index of 8 or more, which the specification allows
    assert refine(made).verdict is not Verdict.PROVED


def test_numbers_that_differ_by_rank_are_not_shared(tmp_path: Path) -> None:
    first = X + "a = mul(x, 2)\ny = mul(a, w)\n-> y"
    made = job(tmp_path, first, [first, first.replace("mul(x, 2)", "mul(x, 3)")])
    assert Verdict.PROVED not in verdicts(made)


def test_where_a_value_is_undefined_is_part_of_its_form(tmp_path: Path) -> None:
    """0 * (1 / x) is 0 as a form, and undefined where x is 0: what is computed from it is not what 0 gives."""
    spec = X + "z = mul(x, 0)\ny = add(z, w)\n-> y"
    implementation = X + "i = aten.reciprocal.default(x)\nz = mul(i, 0)\ny = add(z, w)\n-> y"
    assert verdicts(job(tmp_path, spec, [implementation])) == {Verdict.UNKNOWN}
