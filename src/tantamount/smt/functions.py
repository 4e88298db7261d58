"""Powers, exponentials, logarithms, maxima and comparisons of elements."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from math import inf
from typing import cast

from tantamount.errors import Unsupported
from tantamount.smt.arithmetic import (
    add,
    content,
    enter_factors,
    enter_power,
    mul,
    product_of,
    scaled,
    sum_of,
    where,
)  # fmt: skip
from tantamount.smt.terms import Condition, Element, Exact, Table, Term, whole

__all__ = ["equal", "exp", "less", "log", "maximum", "power"]


def power(t: Table, x: Element, exponent: Fraction) -> Element:
    """``x ** exponent``, the real power."""
    e = whole(exponent)
    if type(x) is not Term:
        return _power_of_number(t, x, e)
    if not e:
        t.lose(x)
        return 1
    if x.infinite:
        raise Unsupported("a power of an infinity under a condition")
    found: dict[Term, Exact] = {}
    if type(e) is int:
        return scaled(t, enter_factors(t, x, e, found), product_of(t, found))
    c = _root(t, x, cast(Fraction, e), found)
    return mul(t, [c, product_of(t, found)])


def _root(t: Table, x: Term, e: Fraction, found: dict[Term, Exact]) -> Element:
    """Enter the factors of a power that is not whole: positive numbers and exps come out, nothing else does."""
    c: Exact = 1
    rest: Element = x
    if x.op == "sum":
        c, factors, rest = content(t, x)
        if c < 0:
            c, rest = -c, mul(t, [-1, rest])
        for base, exponent in factors:
            enter_power(t, found, base, exponent, e)
    if type(rest) is Term and rest.op == "prod":
        inner: dict[Term, Exact] = {}
        for base, exponent in rest.args:
            if base.op in ("exp", "num"):
                enter_power(t, found, base, exponent, e)
            else:
                inner[base] = exponent
        rest = product_of(t, inner)
    if type(rest) is Term:
        enter_power(t, found, rest, 1, e)
    elif rest != 1:
        c = c * cast(Exact, rest)
    return _power_of_number(t, c, e)


def _power_of_number(t: Table, x: Exact | float, e: Exact) -> Element:
    if isinstance(x, float):
        if not e:
            return 1
        return 0 if e < 0 else x if x > 0 or (type(e) is int and e % 2) else inf if type(e) is int else t.undefined()
    if type(e) is int:
        return t.undefined() if not x and e < 0 else whole(Fraction(x) ** e)
    if x < 0 or (not x and e < 0):
        return t.undefined()
    root = _exact_root(Fraction(x), e.denominator)
    if root is not None:
        return whole(root**e.numerator)
    if x < 1:
        x, e = whole(1 / Fraction(x)), -e
    return t.make("prod", (t.make("num", x), e))


def exp(t: Table, x: Element) -> Element:
    """``exp(a + b) = exp(a) exp(b)`` where b is a maximum or a logarithm: what stable softmaxes subtract."""
    if type(x) is not Term:
        if type(x) is float:
            return 0 if x < 0 else inf
        return 1 if not x else product_of(t, {t.make("exp", 1): whole(cast(Exact, x))})
    if x.infinite:
        condition, a, b = x.args
        return where(t, condition, exp(t, a), exp(t, b))
    found: dict[Term, Exact] = {}
    constant, pairs = x.args if x.op == "sum" else (0, ((x, 1),))
    factor: Exact = 1
    rest: dict[Term, Exact] = {}
    for term, c in pairs:
        if term.op == "log":
            factor = factor * _exp_of_log(t, term, c, found)
        elif term.op == "max":
            enter_power(t, found, t.make("exp", term), 1, c)
        else:
            rest[term] = c
    if rest:
        lead = next(iter(rest.values()))
        inner = sum_of(t, 0, {term: whole(Fraction(c) / lead) for term, c in rest.items()})
        enter_power(t, found, t.make("exp", inner), 1, lead)
    if constant:
        enter_power(t, found, t.make("exp", 1), 1, constant)
    return scaled(t, whole(factor), product_of(t, found))


def _exp_of_log(t: Table, x: Term, c: Exact, found: dict[Term, Exact]) -> Exact:
    """Enter ``exp(c * log(u)) = u ** c``, u being positive; its coefficient."""
    inner = x.args[0]
    if type(inner) is not Term:
        enter_power(t, found, t.make("num", inner), 1, c)
        return 1
    t.lost.setdefault(Condition("positive", inner), "")
    if type(c) is int:
        return enter_factors(t, inner, c, found)
    enter_power(t, found, inner, 1, c) if inner.op not in ("sum", "prod") else enter_power(
        t, found, t.make("exp", x), 1, c
    )
    return 1


def log(t: Table, x: Element) -> Element:
    """``log(x)``; factors that are powers of exps, and positive coefficients, come out."""
    if type(x) is not Term:
        if type(x) is float:
            return inf if x > 0 else t.undefined()
        if cast(Exact, x) <= 0:
            return t.undefined() if cast(Exact, x) < 0 else -inf
        return 0 if x == 1 else t.make("log", x)
    if x.infinite:
        raise Unsupported("the logarithm of an infinity under a condition")
    c: Exact = 1
    factors: tuple[tuple[Term, Exact], ...] = ()
    rest: Element = x
    if x.op == "sum":
        c, factors, rest = content(t, x)
        if c < 0:
            c, rest = -c, mul(t, [-1, rest])
    parts: list[tuple[Exact, Element]] = [(e, base.args[0]) for base, e in factors]
    if type(rest) is Term and rest.op == "exp":
        parts.append((1, rest.args[0]))
        rest = 1
    if type(rest) is Term and rest.op == "prod":
        parts += [(e, base.args[0]) for base, e in rest.args if base.op == "exp"]
        rest = product_of(t, {base: e for base, e in rest.args if base.op != "exp"})
    if type(rest) is not Term:
        c, rest = c * cast(Exact, rest), 1
        if c < 0:
            return t.undefined()
    if c != 1:
        parts.append((1, log(t, whole(c))))
    if type(rest) is Term:
        parts.append((1, t.make("log", rest)))
    return add(t, parts)


def maximum(t: Table, xs: Iterable[Element]) -> Element:
    """The greatest of a set, which is not empty."""
    found: dict[Term, None] = {}
    most: Exact | float = -inf
    for x in xs:
        for one in x.args if type(x) is Term and x.op == "max" else (x,):
            if type(one) is Term:
                found[one] = None
            else:
                most = max(most, cast("Exact | float", one))
    if most == inf or not found:
        for term in found:
            t.lose(term)
        return most
    if len(found) == 1 and most == -inf:
        return next(iter(found))
    terms = sorted(found, key=lambda term: term.number)
    numbers = () if most == -inf else (most,)
    integer = all(t.integer for t in terms) and all(type(n) is int for n in numbers)
    return t.make("max", *numbers, *terms, integer=integer)


def less(t: Table, x: Element, y: Element) -> Element:
    """1 where ``x < y``, else 0."""
    if type(x) is float or type(y) is float:
        if type(x) is Term or type(y) is Term:
            for one in (x, y):
                if type(one) is Term and one.infinite:
                    condition, a, b = one.args
                    sides = [(v, y) if one is x else (x, v) for v in (a, b)]
                    return where(t, condition, less(t, *sides[0]), less(t, *sides[1]))
            t.lose(x)
            t.lose(y)
            bound, strict = (x, -inf) if type(x) is float else (y, inf)
            return int(bound == strict)
        return int(cast(float, x) < cast(float, y))
    d = add(t, [(1, y), (-1, x)])
    if type(d) is not Term:
        return int(cast(Exact, d) > 0)
    if d.infinite:
        condition, a, b = d.args
        return where(t, condition, less(t, 0, a), less(t, 0, b))
    lead = d.args[1][0][1] if d.op == "sum" else 1
    return t.make("pos", scaled(t, whole(1 / abs(Fraction(lead))), d), boolean=True)


def equal(t: Table, x: Element, y: Element) -> Element:
    """1 where ``x == y``, else 0."""
    if type(x) is float or type(y) is float:
        if type(x) is Term or type(y) is Term:
            chosen = x if type(x) is Term else y
            if cast(Term, chosen).infinite:
                condition, a, b = cast(Term, chosen).args
                other = y if chosen is x else x
                return where(t, condition, equal(t, a, other), equal(t, b, other))
            t.lose(chosen)
            return 0
        return int(x == y)
    d = add(t, [(1, x), (-1, y)])
    if type(d) is not Term:
        return int(not d)
    if d.infinite:
        condition, a, b = d.args
        return where(t, condition, equal(t, a, 0), equal(t, b, 0))
    if d.boolean:
        return add(t, [(1, 1), (-1, d)])
    if d.op == "sum" and len(d.args[1]) == 1 and d.args[1][0][0].boolean:
        ((b, c),) = d.args[1]
        return where(t, b, int(d.args[0] + c == 0), int(d.args[0] == 0))
    lead = d.args[1][0][1] if d.op == "sum" else 1
    return t.make("zero", scaled(t, whole(1 / Fraction(lead)), d), boolean=True)


def _exact_root(x: Fraction, n: int) -> Fraction | None:
    """The rational n-th root of a number that is not negative, if it has one."""
    found: list[int] = []
    for value in (x.numerator, x.denominator):
        guess = _integer_root(value, n)
        if guess**n != value:
            return None
        found.append(guess)
    return Fraction(*found)


def _integer_root(value: int, n: int) -> int:
    if value < 2:
        return value
    low, high = 1, 1 << (value.bit_length() // n + 1)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if middle**n <= value else (low, middle)
    return low
