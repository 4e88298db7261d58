"""An infinity that became a number again (1 / (1 / x), sign(1 / x)) was forgotten, or taken for one that stays:
programs that are finite there were UNKNOWN against themselves, and one that is not was PROVED against one that is."""

import pytest

from support.singular import FAMILIES, Family, Pair, agree, verdict
from tantamount.verdict import Verdict

NOTHING = next(family for family in FAMILIES if family.name == "nothing but x")
ADAM = next(family for family in FAMILIES if family.name == "Adam")
XYM = Family("x and a mask", "x: float32[3, 4]\ny: float32[3, 4]\nm: bool[3, 4]\n", ())

# Not finite for some y, though their product with 0 is 0 wherever they are.
POISONS = (
    "recip(y)", "log(y)", "sqrt(y)", "rsqrt(y)", "mul(y, recip(y))", "sub(recip(y), recip(y))", "recip(log(exp(y)))",
    "log(recip(recip(y)))", "recip(recip(recip(y)))", "sqrt(recip(y))", "log(sqrt(mul(y, y)))", "exp(recip(y))",
    "exp(neg(log(y)))", "recip(mul(y, tanh(y)))", "div(y, mul(y, y))", "mul(y, power(y, -2))", "abs(recip(y))",
    "tanh(div(y, mul(y, y)))", "tanh(log(neg(mul(y, y))))", "sigmoid(sqrt(y))", "recip(sign(y))", "log(sign(y))",
    "recip(add(recip(y), neg(recip(y))))", "add(recip(recip(y)), mul(y, recip(y)))", "power(sqrt(y), 2)",
    "sum_(recip(y))", "softmax(log(mul(y, 0)))", "logsumexp(log(mul(y, 0)))", "maximum(recip(y), y)",
    "recip(sum_(mul(y, y)))", "recip(sum_(relu(y)))", "recip(neg(sub(decay(0.5, y), 1)))",
    "recip(sub(decay(0.5, y), 1))", "recip(sub(exp(y), exp(mul(y, 2))))", "where(gt(y, 0), y, recip(y))",
    "xlogy(y, sqrt(y))",
)  # fmt: skip
MASKED = (
    "amax(fill(y, m, -inf))", "softmax(fill(y, m, -inf))", "neg(fill(y, m, -inf))", "log(amax(exp(fill(y, m, -inf))))",
    "maximum(neg(fill(y, m, -inf)), y)", "floor(fill(y, m, -inf))", "recip(sum_(m))", "sub(s, amax(s))",
)  # fmt: skip


def _poisoned(family: Family, poison: str) -> Pair:
    return Pair(family, "mul(x, 1)", f"add(x, mul0({poison}))")


@pytest.mark.parametrize("poison", POISONS)
def test_what_is_not_finite_somewhere_does_not_vanish(poison: str) -> None:
    pytest.importorskip("torch")
    pair = _poisoned(NOTHING, poison)
    assert not agree(pair)
    assert verdict(pair)[0] is not Verdict.PROVED


@pytest.mark.parametrize("poison", MASKED)
def test_what_is_masked_does_not_vanish(poison: str) -> None:
    pytest.importorskip("torch")
    pair = _poisoned(Family(XYM.name, XYM.inputs, (), (("s", "fill(y, m, -inf)"),)), poison)
    assert not agree(pair)
    assert verdict(pair)[0] is not Verdict.PROVED


@pytest.mark.parametrize(
    ("specification", "implementation"),
    [
        ("add(x, mul0(sign(recip(y))))", "add(x, mul0(recip(y)))"),  # the sign of an infinity is a number
        ("recip(add(recip(y), 2))", "div(y, mul(add(mul(y, 2), 1), mul(y, recip(y))))"),
        ("exp(neg(recip(mul(y, y))))", "mul(exp(neg(recip(mul(y, y)))), mul(y, recip(y)))"),
    ],
)
def test_a_number_is_not_taken_for_an_infinity(specification: str, implementation: str) -> None:
    pytest.importorskip("torch")
    pair = Pair(NOTHING, specification, implementation)
    assert not agree(pair)
    assert verdict(pair)[0] is not Verdict.PROVED


@pytest.mark.parametrize(
    ("specification", "implementation"),
    [
        ("recip(recip(x))", "mul(x, 1)"),
        ("mul(x, 1)", "recip(recip(x))"),
        ("recip(add(recip(y), 1))", "recip(neg(sub(neg(recip(y)), 1)))"),
        ("recip(recip(mul(x, y)))", "mul(x, recip(recip(y)))"),
        ("exp(log(relu(x)))", "relu(x)"),
        ("relu(x)", "exp(log(relu(x)))"),
        ("sqrt(relu(x))", "recip(rsqrt(relu(x)))"),
        ("log(mul(exp(x), recip(recip(recip(recip(relu(y)))))))", "log(mul(exp(x), relu(y)))"),
    ],
)
def test_zeros_that_come_back_are_zeros(specification: str, implementation: str) -> None:
    pytest.importorskip("torch")
    pair = Pair(NOTHING, specification, implementation)
    assert agree(pair)
    found, reason = verdict(pair)
    assert found is Verdict.PROVED, reason


def test_a_step_of_adam() -> None:
    pytest.importorskip("torch")
    capturable, plain, rooted, guarded, _, folded = ADAM.programs
    for one, other in ((capturable, capturable), (capturable, plain), (plain, rooted), (rooted, folded)):
        pair = Pair(ADAM, one, other)
        assert agree(pair)
        found, reason = verdict(pair)
        assert found is Verdict.PROVED, f"{pair}: {reason}"
    for other in (capturable, plain, rooted, folded):  # not finite before the first step, where the guarded one is
        pair = Pair(ADAM, guarded, other)
        assert not agree(pair)
        assert verdict(pair)[0] is not Verdict.PROVED
