"""Forged certificates are rejected: programs that agree on easy inputs only, and assumptions that were taken out."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from support.certificates import Kept, rejected, reseal, verify
from support.forgeries import BOTH_WAYS, Pair, assumptions_removed, forge, one_sided
from tantamount.certificate.check import check_certificate
from tantamount.certificate.text import render

SOME = [*enumerate(BOTH_WAYS)][::4]  # benchmarks/bench_certificates.py has all of them


@pytest.mark.parametrize(("number", "pair"), SOME, ids=[f"{pair.kind}-{k}" for k, pair in SOME])
def test_another_program_is_rejected_for_its_values(number: int, pair: Pair, tmp_path: Path) -> None:
    made = forge(pair, number % 2 == 0, tmp_path / "job")
    assert made is not None
    problems = verify(made.kept).problems
    assert any(re.match("output y fails|the relation of y fails", problem) for problem in problems), made.what


@pytest.mark.parametrize("number", [0, 4, 19, 38])
def test_one_rank_is_enough(number: int, tmp_path: Path) -> None:
    made = forge(BOTH_WAYS[number], True, tmp_path / "job", (1,))
    assert made is not None
    assert rejected(made.kept), made.what


HONEST = (
    Pair("", "y = aten.floor_divide.default(i, j)", "", True),
    Pair("", "a = aten.remainder.Tensor(i, j)\ny = add(a, u)", "", True),
    Pair("", "a = aten.floor_divide.default(i, 2)\ny = aten.argmax.default(a, 1)", "", True),
    Pair("", "a = div(x, 3)\nk = mul(a, 3)\ny = aten.floor.default(k)", "", False),
    Pair("", "a = softmax(x, 1, False)\ny = aten.gt.Tensor(a, z)", "", False),
)


@pytest.mark.parametrize("pair", HONEST, ids=range(len(HONEST)))
def test_honest_programs_that_decide_are_accepted_and_said_to_be_sampled(pair: Pair, tmp_path: Path) -> None:
    made = forge(replace(pair, right=pair.left), True, tmp_path / "job")
    assert made is not None
    found = verify(made.kept)
    assert (found.problems, found.unchecked) == ((), ())
    assert found.sampled > 20
    text = "\n".join(render(found, verbose=True))
    assert "sampled" in text
    assert "below 0" not in text
    y = found.outputs[0]
    assert y.chance is None


MASKED = "g = aten.gt.Scalar(z, 0)\nb = masked_fill(x, g, -inf)\n"
FAILING = (  # a NaN, an infinity, a quotient that could be cancelled, and a row that is all masked
    Pair("", "y = add(x, 1)", "k = div(z, z)\ny = add(x, k)", False),
    Pair(
        "",
        "y = mul(x, 1)",
        "k = aten.reciprocal.default(z)\nm = aten.eq.Scalar(z, 0)\ny = aten.where.self(m, k, x)",
        False,
    ),
    Pair("", "y = mul(x, 1)", "k = mul(x, x)\nl = div(k, x)\ny = mul(l, 1)", False),
    Pair("", f"{MASKED}y = aten._safe_softmax.default(b, 1)", f"{MASKED}y = softmax(b, 1, False)", False),
)


@pytest.mark.parametrize("failing", FAILING, ids=range(len(FAILING)))
def test_an_implementation_that_fails_where_the_specification_is_finite_is_rejected(
    tmp_path: Path, failing: Pair
) -> None:
    made = forge(failing, True, tmp_path / "job")
    assert made is not None
    assert "output y fails" in "\n".join(verify(made.kept).problems)


DECOMPOSED = "m = aten.amax.default(b, [1], True)\ns = sub(b, m)\ne = aten.exp.default(s)\nk = sum_dims(e, [1], True)\n"


@pytest.mark.parametrize("body", [MASKED + "y = softmax(b, 1, False)", MASKED + DECOMPOSED + "y = div(e, k)"])
def test_a_row_that_is_all_masked_is_a_witness(body: str, tmp_path: Path) -> None:
    made = forge(Pair("", body, body, False), True, tmp_path / "job")
    assert made is not None
    assert verify(made.kept).accepted
    reseal(made.kept, lambda content: content.update(assumptions=content["assumptions"][:1]))
    assert "the assumption domain is missing for y" in rejected(made.kept)


@pytest.mark.parametrize(
    "body",
    [
        "a = sub(x, x)\nb = add(a, 1)\ny = aten.reciprocal.default(b)",  # one, by cancellation
        "a = aten.exp.default(x)\nb = sub(x, x)\nk = add(a, b)\ny = aten.log.default(k)",
    ],
)
def test_what_is_neither_shown_nor_seen_to_fail_is_said(body: str, tmp_path: Path) -> None:
    made = forge(Pair("", body, body, False), True, tmp_path / "job")
    assert made is not None
    assert "domain" not in {entry["name"] for entry in made.kept.content["assumptions"]}
    found = verify(made.kept)
    assert found.accepted
    text = "\n".join(render(found))
    assert re.search(r"not shown to be defined for all inputs, and no counterexample in \d\d+ tries: y", text)


def test_nothing_is_assumed_of_the_implementation(tmp_path: Path) -> None:
    body = "y = div(x, z)"
    made = forge(Pair("", body, body, False), True, tmp_path / "job")
    assert made is not None
    more = {"name": "domain", "text": "where a value of the implementation is not 0", "places": ["y"]}
    reseal(made.kept, lambda content: content["assumptions"].append(more))
    assert "an assumption that no proof makes" in rejected(made.kept)


def test_each_assumption_is_missed(tmp_path: Path) -> None:
    kept = list(one_sided(tmp_path))
    assert len(kept) == 17
    removed = 0
    for number, one in enumerate(kept[::2]):
        assert verify(one).accepted, one.name
        for forged in assumptions_removed(one, tmp_path / f"without-{number}"):
            why = rejected(forged.kept)
            assert "is missing" in why, forged.what
            removed += 1
    assert removed >= 12


def test_the_inputs_depend_on_the_certificate(tmp_path: Path) -> None:
    """So nobody can write a program that is right on the inputs that will be drawn."""
    made = forge(Pair("", "y = mul(x, z)", "y = mul(x, z)", False), True, tmp_path / "job")
    assert made is not None
    first = check_certificate(made.kept.certificate)
    assert first.outputs[0].chance is not None
    assert 0 < first.outputs[0].chance < 1e-15
    again = check_certificate(Kept("", made.kept.job, made.kept.certificate).certificate)
    assert again.outputs[0].sizes == first.outputs[0].sizes
