"""A row of which everything is masked: attention and the safe softmax are 0 there, a plain softmax is NaN. Both were
read as a softmax that is undefined there, so that a program that drops the guard was PROVED."""

import pytest

from support.singular import FAMILIES, Pair, agree, verdict
from tantamount.verdict import Verdict

SOFTMAX = next(family for family in FAMILIES if family.name == "masked softmax")
ATTENTION = next(family for family in FAMILIES if family.name == "attention")


@pytest.mark.parametrize(
    ("specification", "implementation", "expected"),
    [
        ("safe(s)", "softmax(s)", Verdict.REFUTED),
        ("fill(softmax(s), m, 0)", "softmax(s)", Verdict.REFUTED),
        ("safe(s)", "where(all_(eq(s, -inf)), zeros(s), softmax(s))", Verdict.PROVED),
        ("where(all_(eq(s, -inf)), zeros(s), softmax(s))", "safe(s)", Verdict.PROVED),
        ("fill(softmax(s), m, 0)", "safe(s)", Verdict.PROVED),
        ("softmax(s)", "safe(s)", Verdict.PROVED),
        ("softmax(s)", "softmax(s)", Verdict.PROVED),
    ],
)
def test_softmax(specification: str, implementation: str, expected: Verdict) -> None:
    pytest.importorskip("torch")
    pair = Pair(SOFTMAX, specification, implementation)
    assert agree(pair) == (expected is Verdict.PROVED)
    found, reason = verdict(pair)
    assert found is expected, reason


@pytest.mark.parametrize(
    ("specification", "implementation", "expected"),
    [
        ("sdpa(q, k, v, m)", "mm(softmax4(c), v)", Verdict.REFUTED),
        ("sdpa(q, k, v, m)", "mm(safe4(c), v)", Verdict.PROVED),
        ("sdpa(q, k, v, m)", "sdpa(q, k, v, b)", Verdict.PROVED),
        ("mm(softmax4(c), v)", "sdpa(q, k, v, m)", Verdict.PROVED),
        ("mm(fill(softmax4(c), not_(m), 0), v)", "sdpa(q, k, v, m)", Verdict.PROVED),
    ],
)
def test_attention(specification: str, implementation: str, expected: Verdict) -> None:
    pytest.importorskip("torch")
    pair = Pair(ATTENTION, specification, implementation)
    assert agree(pair) == (expected is Verdict.PROVED)
    found, reason = verdict(pair)
    assert found is expected, reason


def test_an_implementation_is_not_assumed_to_be_defined() -> None:
    pytest.importorskip("torch")
    family = next(family for family in FAMILIES if family.name == "nothing but x")
    pair = Pair(family, "mul(x, 1)", "div(mul(x, y), y)")
    found, reason = verdict(pair)
    assert found is Verdict.REFUTED
    assert "undefined on rank 0" in reason


def test_an_unknown_names_the_operator() -> None:
    family = next(family for family in FAMILIES if family.name == "infinities that become numbers")
    found, reason = verdict(Pair(family, "tanh(recip(y))", "neg(tanh(neg(recip(y))))"))
    assert found is Verdict.UNKNOWN
    assert reason.endswith("the specification may be finite where its normal form is not defined because of n0")
