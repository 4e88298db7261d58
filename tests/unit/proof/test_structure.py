"""Programs that are the same up to names cost no normal form; what only looks the same is no such program."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from support.adversarial import commuted, tower
from support.jobs import job_files
from tantamount import read_job
from tantamount.answers import refine
from tantamount.ir.job import Job
from tantamount.proof import Options, Proof, prove
from tantamount.proof.structure import SOURCE
from tantamount.verdict import Verdict


def job(
    folder: Path,
    first: str,
    second: str | Sequence[str],
    inputs: str = 'default = "Replicate()"',
    outputs: str = 'default = "Replicate()"',
    more: str = "",
    groups: Mapping[str, tuple[str, ...]] | None = None,
) -> Job:
    ranks = [second] if isinstance(second, str) else second
    tables = f"[inputs]\n{inputs}\n[outputs]\n{outputs}\n{more}"
    return read_job(job_files(folder, first, ranks, tables, {"r": len(ranks)}, groups or {}))


def operators(proof: Proof) -> set[str]:
    """The kinds of atoms that were made, except those of leaves."""
    return {atom.op for atom in proof.store.atoms} - {"leaf"}


def is_same(proof: Proof) -> bool:
    return any(kind == SOURCE for kind, _ in proof.store.leaves.numbers)


@pytest.mark.parametrize("seed", range(3))
def test_a_program_and_itself_take_no_normal_form(seed: int, tmp_path: Path) -> None:
    text = tower(97, seed)
    proof = prove(job(tmp_path, text, text), Options())
    assert all(report.verdict is Verdict.PROVED for report in proof.check())
    assert not operators(proof)


def test_operands_that_can_be_exchanged_have_no_order(tmp_path: Path) -> None:
    text = tower(97, 4)
    other = commuted(text)
    assert other != text
    proof = prove(job(tmp_path, text, other), Options())
    assert all(report.verdict is Verdict.PROVED for report in proof.check())
    assert not operators(proof)


X = "x: float32[4, 4]\nw: float32[4, 4]\n"
LOOK_ALIKE = {
    "operands of a difference": ("y = sub(x, w)\n-> y", "y = sub(w, x)\n-> y"),
    "operands of a product": ("y = mm(x, w)\n-> y", "y = mm(w, x)\n-> y"),
    "operands of a sum with a factor": ("y = add(x, w, alpha=2)\n-> y", "y = add(w, x, alpha=2)\n-> y"),
    "an attribute": ("y = softmax(x, 1, False)\n-> y", "y = softmax(x, 0, False)\n-> y"),
    "a number": ("y = mul(x, 2)\n-> y", "y = mul(x, 3)\n-> y"),
    "an item": (
        "a, b = aten.split.Tensor(x, 2)\ny = add(a, 1)\n-> y",
        "a, b = aten.split.Tensor(x, 2)\ny = add(b, 1)\n-> y",
    ),
    "a recorded constant": (
        "c = constant float32[4] [1, 2, 3, 4]\ny = add(x, c)\n-> y",
        "c = constant float32[4] [1, 2, 3, 5]\ny = add(x, c)\n-> y",
    ),
    "memory that is not written": ("y = aten.empty_like.default(x)\n-> y",) * 2,
    "random numbers": ("n = aten.rand_like.default(x)\ny = add(x, n)\n-> y",) * 2,
    "dropout": ("d, keep = native_dropout(x, 0.5, True)\n-> d",) * 2,
    "what dropout is part of": (
        "d, keep = native_dropout(x, 0.5, True)\ne = mm(d, w)\ny = add(e, x)\n-> y",
        "d, keep = native_dropout(x, 0.5, True)\ne = mm(d, w)\ny = add(x, e)\n-> y",
    ),
}


@pytest.mark.parametrize("name", LOOK_ALIKE)
def test_what_only_looks_the_same_is_not(name: str, tmp_path: Path) -> None:
    first, second = LOOK_ALIKE[name]
    made = job(tmp_path, X + first, X + second)
    assert not is_same(prove(made, Options()))
    assert refine(made).verdict is not Verdict.PROVED


def test_a_copy_is_what_is_copied_and_a_conversion_is_not(tmp_path: Path) -> None:
    """What a normal form is not defined for (a root of 0 that a relu takes away) is the same in both, copies or not."""
    text = X + "r = aten.rsqrt.default(w)\np = mul(x, r)\nd = aten.detach.default(p)\ny = relu(d)\n-> y"
    copied = X + "c = aten._to_copy.default(w)\nr = aten.rsqrt.default(c)\nk = aten.clone.default(r)\np = mul(x, k)\n"
    made = job(tmp_path, text, copied + "y = relu(p)\n-> y")
    proof = prove(made, Options())
    assert is_same(proof)
    assert all(report.verdict is Verdict.PROVED for report in proof.check())
    halves = copied.replace("copy.default(w)", "copy.default(w, dtype=float16)") + "y = relu(p)\n-> y"
    assert not is_same(prove(job(tmp_path, text, halves), Options()))


def test_inputs_are_those_that_the_relation_says(tmp_path: Path) -> None:
    """The same program, but its two inputs are exchanged on the way in."""
    text = X + "y = sub(x, w)\n-> y"
    crossed = 'x = { name = "w", placement = "Replicate()" }\nw = { name = "x", placement = "Replicate()" }'
    made = job(tmp_path, text, text, inputs=crossed)
    assert not is_same(prove(made, Options()))
    assert refine(made).verdict is not Verdict.PROVED


def test_the_same_masks_are_an_assumption_that_is_printed(tmp_path: Path) -> None:
    first, second = LOOK_ALIKE["what dropout is part of"]
    made = job(tmp_path, X + first, X + second, more='[assume]\ndropout = "same mask"')
    proof = prove(made, Options())
    assert is_same(proof)
    assert all(report.verdict is Verdict.PROVED for report in proof.check())
    assert "dropout" in {assumption.name for assumption in proof.assumptions()}


def test_dropouts_in_another_order_have_other_masks(tmp_path: Path) -> None:
    first = "a, k = native_dropout(x, 0.5, True)\nb, l = native_dropout(w, 0.5, True)\ny = sub(a, b)\n-> y"
    second = "b, l = native_dropout(w, 0.5, True)\na, k = native_dropout(x, 0.5, True)\ny = sub(a, b)\n-> y"
    made = job(tmp_path, X + first, X + second, more='[assume]\ndropout = "same mask"')
    assert not is_same(prove(made, Options()))
    assert refine(made).verdict is not Verdict.PROVED


def test_every_output_must_be_the_same(tmp_path: Path) -> None:
    first, second = "y = mul(x, x)\nz = sub(x, w)\n-> y, z", "y = mul(x, x)\nz = sub(w, x)\n-> y, z"
    made = job(tmp_path, X + first, X + second)
    assert not is_same(prove(made, Options()))
    assert {o.name: o.verdict is Verdict.PROVED for o in refine(made).outputs} == {"y": True, "z": False}


def test_every_rank_must_run_it(tmp_path: Path) -> None:
    """Two ranks, replicas of the specification; then one with another number."""
    text = X + "a = mm(x, w)\ny = mul(a, 2)\n-> y"
    proof = prove(job(tmp_path, text, [text, text]), Options())
    assert is_same(proof)
    assert all(report.verdict is Verdict.PROVED for report in proof.check())
    made = job(tmp_path, text, [text, text.replace("mul(a, 2)", "mul(a, 3)")])
    assert not is_same(prove(made, Options()))
    assert refine(made).verdict is not Verdict.PROVED


def test_what_other_ranks_have_a_part_in_is_computed(tmp_path: Path) -> None:
    text = X + 'a = mm(x, w)\ny = all_reduce(a, "sum", "g")\n-> y'
    made = job(tmp_path, text, [text, text], groups={"g": ("r",)})
    assert not is_same(prove(made, Options()))
    assert refine(made).verdict is not Verdict.PROVED


def test_a_part_is_not_the_whole(tmp_path: Path) -> None:
    text = X + "y = mul(x, w)\n-> y"
    made = job(tmp_path, text, [text, text], outputs="y = \"Partial('sum')\"")
    assert not is_same(prove(made, Options()))
    assert refine(made).verdict is not Verdict.PROVED
