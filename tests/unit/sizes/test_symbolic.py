"""Sizes with symbols: whatever is computed with them is computed for all sizes that satisfy the noted conditions."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tantamount.errors import InternalError, Unsupported
from tantamount.sizes.domain import Domain, SizeProblem, Symbol, implied, parse_condition, parse_size
from tantamount.sizes.search import find_sizes, small_sizes
from tantamount.sizes.symbolic import (
    Condition,
    Size,
    Space,
    common_divisor,
    factored,
    holds,
    is_size,
    simplified,
    whole_part,
)

SMALL = [{"B": b, "S": s} for b in range(1, 9) for s in range(1, 9)]


def _value(x: Any, at: dict[str, int]) -> Any:
    if not isinstance(x, Size):
        return x
    value = Fraction(0)
    for powers, c in x.polynomial:
        value += c * math.prod((Fraction(at[name]) ** e for name, e in powers), start=Fraction(1))
    return value


# a program: a list of instructions over a stack of integers, that also branches
_BINARY = ["+", "-", "*", "//", "%", "max", "min", "if<", "if==", "if<=", "ifdivides"]
programs = st.lists(
    st.one_of(st.sampled_from(["B", "S"]), st.integers(1, 6), st.sampled_from(_BINARY)), min_size=3, max_size=14
)


def _run(program: list[Any], b: Any, s: Any) -> tuple[list[Any], list[object]]:
    stack: list[Any] = [1, b, s]
    path: list[object] = []
    for step in program:
        if step in ("B", "S"):
            stack.append(b if step == "B" else s)
        elif isinstance(step, int):
            stack.append(step)
        elif len(stack) > 1:
            y, x = stack.pop(), stack.pop()
            if step == "+":
                stack.append(x + y)
            elif step == "-":
                stack.append(x - y)
            elif step == "*":
                stack.append(x * y)
            elif step in ("//", "%"):
                if y <= 0:
                    path.append("no divisor")
                    continue
                stack.extend(divmod(x, y) if step == "//" else [x % y])
            elif step in ("max", "min"):
                stack.append(max(x, y) if step == "max" else min(x, y))
            elif step == "if<":
                path.append(x < y)
                stack.append(x if path[-1] else y)
            elif step == "if<=":
                path.append(x <= y)
                stack.append(x if path[-1] else y)
            elif step == "if==":
                path.append(x == y)
                stack.append(x if path[-1] else y)
            elif y > 0:
                path.append(not x % y)
                stack.append(x // y if path[-1] else y)
    return stack, path


@settings(max_examples=400, deadline=None)
@given(program=programs, b=st.integers(1, 8), s=st.integers(1, 8))
def test_a_program_takes_the_same_way_wherever_the_conditions_hold(program: list[Any], b: int, s: int) -> None:
    space = Space({"B": b, "S": s})
    try:
        stack, path = _run(program, space.symbols["B"], space.symbols["S"])
    except Unsupported:
        return
    conditions = list(space.conditions)
    assert all(holds(c, {"B": b, "S": s}) for c in conditions)
    for at in SMALL:
        if all(holds(c, at) for c in conditions):
            other, way = _run(program, at["B"], at["S"])
            assert way == path
            assert [_value(x, at) for x in stack] == other


@settings(max_examples=300, deadline=None)
@given(
    kind=st.sampled_from(["zero", "nonzero", "positive", "nonnegative", "whole"]),
    terms=st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2), st.integers(-4, 4)), min_size=1, max_size=4),
    low=st.tuples(st.integers(1, 4), st.integers(1, 4)),
    step=st.integers(1, 3),
    scale=st.integers(1, 4),
)
def test_what_is_said_to_follow_does(
    kind: str, terms: list[tuple[int, int, int]], low: tuple[int, int], step: int, scale: int
) -> None:
    space = Space({"B": 1, "S": 1})
    b, s = (space.symbols[name] for name in "BS")
    size: Any = sum((c * b**i * s**j for i, j, c in terms), start=Fraction(0)) / (scale if kind == "whole" else 1)
    if not is_size(size):
        return
    condition = simplified(kind, size.polynomial)
    multiple = simplified("whole", (((("S", 1),), Fraction(1, step)),))
    domain = Domain((Symbol("B", 7, low[0]), Symbol("S", 6, low[1])), (multiple,) if multiple else ())
    inside = [at for at in SMALL if domain.contains(at)]
    truth = [_truth(kind, _value(size, at)) for at in inside]
    if condition is None:
        assert len(set(truth)) == 1  # it holds of all sizes, or of none
    else:
        assert [holds(condition, at) for at in inside] == truth
        if implied(domain, condition):
            assert all(truth)
    reduced = Domain(domain.symbols, (*domain.conditions, *([condition] if condition else []))).reduced()
    whole = Domain(domain.symbols, (*domain.conditions, *([condition] if condition else [])))
    assert [reduced.contains(at) for at in SMALL] == [whole.contains(at) for at in SMALL]


def _truth(kind: str, value: Fraction) -> bool:
    return {
        "zero": value == 0,
        "nonzero": value != 0,
        "positive": value > 0,
        "nonnegative": value >= 0,
        "whole": value.denominator == 1,
    }[kind]


def test_a_size_never_becomes_a_number() -> None:
    s: Any = Space({"S": 6}).symbols["S"]
    for use in (range, int, float, lambda x: [1, 2][x], lambda x: [0] * x, lambda x: math.gcd(x, 2), Fraction):
        with pytest.raises((Unsupported, TypeError)):
            use(s)


def test_sizes_of_two_runs_do_not_meet() -> None:
    a, b = (Space({"S": 6}).symbols["S"] for _ in range(2))
    with pytest.raises(InternalError):
        _ = a + b
    with pytest.raises(InternalError):
        _ = {a, b}


def test_equal_polynomials_are_one_key_and_others_are_not() -> None:
    space = Space({"B": 6, "S": 6})
    b, s = space.symbols["B"], space.symbols["S"]
    assert {b * s: 1}[s * b] == 1
    assert {b, s, b + s - s} == {b, s}
    assert not space.conditions  # tables ask nothing


def test_numbers_of_products_and_sums() -> None:
    space = Space({"B": 5, "S": 7})
    b, s = space.symbols["B"], space.symbols["S"]
    assert factored([(2 * b * s, 1), (s, -2)]) == (2, ((s, -1), (b, 1)))
    assert factored([(b * s - b, 1), (s - 1, -1)]) == (1, ((b, 1),))
    assert factored([(s - 1, 1), (s * s - 2 * s + 1, -1)]) == (1, ((s - 1, -1),))
    assert common_divisor(6 * b, 4 * s) == 2
    assert whole_part(s + Fraction(1, 2)) == s


DOMAIN = Domain((Symbol("B", 74, 2), Symbol("S", 246, 2)), (Condition("whole", (((("S", 1),), Fraction(1, 2)),)),))


@pytest.mark.parametrize(
    ("text", "shown"),
    [("2*B*S", "2*B*S"), ("S//2", "S/2"), ("(B*S)//S", "B"), ("S + B - S", "B"), ("3", "3"), ("B**2*2", "2*B**2")],
)
def test_sizes_as_text(text: str, shown: str) -> None:
    value = parse_size(text, DOMAIN)
    assert str(value) == shown
    assert parse_size(str(value), DOMAIN) == value


@pytest.mark.parametrize(
    "text", ["S//4", "B/3", "T", "__import__('os')", "S.x", "1.5", "S[0]", "B**99", "(", "S\0", "B//0"]
)
def test_what_is_no_size(text: str) -> None:
    with pytest.raises(SizeProblem):
        parse_size(text, DOMAIN)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("S % 2 == 0", "S % 2 == 0"),
        ("3*S % 2 == 0", "S % 2 == 0"),
        ("B*S >= B", "S >= 1"),
        ("S > 4", "S >= 5"),
        ("8 >= S", "S <= 8"),
        ("B != S", "S != B"),
        ("B*S - 4 == 0", "B*S == 4"),
    ],
)
def test_conditions_as_text(text: str, shown: str) -> None:
    condition = parse_condition(text, DOMAIN)
    assert str(condition) == shown
    again = parse_condition(shown, DOMAIN)
    assert again is not None
    assert all(holds(again, at) == holds(condition, at) for at in SMALL if condition)


def test_bounds_become_ranges() -> None:
    found = [parse_condition(text, DOMAIN) for text in ("S >= 3", "S != 4", "B <= 9", "B*S >= 4", "S % 2 == 0")]
    domain = Domain(DOMAIN.symbols, tuple(c for c in found if c)).reduced()
    assert str(domain) == "2 <= B <= 9, S >= 6, S % 2 == 0"


def test_sizes_outside_of_what_is_covered() -> None:
    pytest.importorskip("z3", reason="the extra smt")
    distinct, equal = (parse_condition(text, DOMAIN) for text in ("B != S", "B == S"))
    small = parse_condition("S <= 8", DOMAIN)
    large = parse_condition("S >= 9", DOMAIN)
    assert None not in (distinct, equal, small, large)
    found = find_sizes(DOMAIN, [[distinct]]).sizes
    assert found is not None
    assert found["B"] == found["S"]
    assert find_sizes(DOMAIN, [[distinct], [equal]]).none
    assert find_sizes(DOMAIN, [[small], [distinct, large]]).sizes is not None
    assert find_sizes(DOMAIN, [[small], [large]]).none


def test_small_sizes_differ_first() -> None:
    points = list(itertools.islice(small_sizes(DOMAIN), 3))
    assert all(DOMAIN.contains(p) for p in points)
    assert points[0] == {"B": 3, "S": 2} or points[0] == {"B": 2, "S": 4} or points[0]["B"] != points[0]["S"]
