"""Softplus and its threshold."""

from __future__ import annotations

import pytest

from support.jobs import typed_graph
from tantamount.answers import compare
from tantamount.ir.job import Job
from tantamount.ir.mesh import Mesh
from tantamount.ir.relation import Expectation, InputRelation
from tantamount.verdict import Verdict

FORMULA = "x: float32[4]\ne = aten.exp.default(x)\ny = aten.log1p.default(e)\n-> y"
SOFTPLUS = "x: float32[4]\ny = aten.softplus.default(x)\n-> y"
STEEP = "x: float32[4]\nb = mul(x, 2)\ne = aten.exp.default(b)\nl = aten.log1p.default(e)\ny = mul(l, 0.5)\n-> y"


def compared(first: str, second: str, strict: bool = False) -> tuple[bool, list[str]]:
    graphs = typed_graph(first), typed_graph(second)
    outputs = {"y": Expectation("y", (), text="Replicate()")}
    job = Job("softplus", graphs[0], (graphs[1],), Mesh(), {"x": InputRelation("x", ())}, outputs)
    answer = compare(job, strict=strict)
    return answer.proved, [one.name for one in answer.assumptions if one.name == "softplus-threshold"]


def test_the_formula_is_softplus_up_to_its_threshold() -> None:
    assert compared(SOFTPLUS, FORMULA) == (True, ["softplus-threshold"])
    assert compared(FORMULA, SOFTPLUS) == (True, ["softplus-threshold"])
    assert compared(SOFTPLUS.replace("(x)", "(x, 2)"), STEEP) == (True, ["softplus-threshold"])


def test_two_softplus_need_no_assumption() -> None:
    assert compared(SOFTPLUS, SOFTPLUS) == (True, [])
    assert compared(SOFTPLUS, SOFTPLUS.replace("(x)", "(x, 1, 20)")) == (True, [])


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (SOFTPLUS.replace("(x)", "(x, 1, 2)"), FORMULA),
        (SOFTPLUS.replace("(x)", "(x, 2)"), FORMULA),
        (SOFTPLUS.replace("(x)", "(x, 1, 2)"), SOFTPLUS),
    ],
)
def test_a_threshold_that_matters_and_another_slope_differ(first: str, second: str) -> None:
    assert not compared(first, second)[0]


def test_strict_keeps_the_threshold() -> None:
    assert compared(SOFTPLUS, FORMULA, strict=True) == (False, [])


def test_a_difference_is_told_at_an_operator_that_was_given() -> None:
    """Softplus is compared as its formula; its steps are nobody's nodes."""
    first = "x: float32[4]\ny = aten.log_sigmoid_forward.default(x)\nz = getitem(y, 0)\n-> z"
    second = "x: float32[4]\nn = aten.neg.default(x)\ny = aten.softplus.default(n)\n-> y"
    graphs = typed_graph(first), typed_graph(second)
    outputs = {"z": Expectation("y", (), text="Replicate()")}
    job = Job("signs", graphs[0], (graphs[1],), Mesh(), {"x": InputRelation("x", ())}, outputs)
    answer = compare(job)
    assert answer.verdict is Verdict.REFUTED
    assert answer.mismatch is not None
    assert (answer.mismatch.implementation, answer.mismatch.implementation_operator) == ("y", "aten.softplus.default")
