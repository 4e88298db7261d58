"""Sums, products and choices of elements, in the normal form of :mod:`tantamount.smt.terms`.

All functions take the table first. They are right where both sides are defined; what a rewrite forgets of where that is
goes into ``Table.lost``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction
from math import inf
from typing import cast

from tantamount.errors import Unsupported
from tantamount.smt.terms import Condition, Element, Exact, Table, Term, domain_of, whole

__all__ = [
    "add", "content", "enter_factors", "enter_power", "mul", "product_of", "scaled", "sum_of", "where",
]  # fmt: skip


_PLAIN = frozenset({"var", "cut", "exp", "fn", "max", "row", "log"})  # neither sums, products nor choices


def add(t: Table, parts: Iterable[tuple[Exact, Element]]) -> Element:
    """``sum of c * x``."""
    constant: Exact = 0
    found: dict[Term, Exact] = {}
    infinity = 0.0
    choice: list[tuple[Exact, Term]] = []
    for c, x in parts:
        if type(x) is not Term:
            if type(x) is float:
                if c == 0 or infinity == -(x if c > 0 else -x):
                    return t.undefined()
                infinity = x if c > 0 else -x
            else:
                constant += c * x  # type: ignore[operator]
        elif not c:
            t.lose(x)
        elif x.infinite:
            choice.append((c, x))
        elif x.op == "sum":
            constant += c * x.args[0]
            for term, k in x.args[1]:
                _collect(t, found, term, c * k)
        else:
            _collect(t, found, x, c)
    if infinity:
        for term in found:
            t.lose(term)
        return infinity
    if choice:
        return _add_to_choice(t, choice, [(1, whole(constant)), *((c, t) for t, c in found.items())])
    return sum_of(t, whole(constant), found)


def _collect(t: Table, found: dict[Term, Exact], term: Term, c: Exact) -> None:
    old = found.get(term)
    if old is None:
        found[term] = c
        return
    new = old + c
    if new:
        found[term] = new
    else:
        del found[term]
        t.lose(term)


def sum_of(t: Table, constant: Exact, found: dict[Term, Exact]) -> Element:
    """The sum of a number and of multiples of terms that are no sums; no coefficient is 0."""
    if not found:
        return constant
    items = sorted(found.items(), key=lambda item: item[0].number) if len(found) > 1 else list(found.items())
    term, c = items[0]
    if len(items) == 1 and not constant and c == 1:
        return term
    pairs = tuple((term, whole(c)) for term, c in items)
    integer = type(constant) is int and all(type(c) is int and term.integer for term, c in pairs)
    boolean = len(items) == 1 and term.boolean and constant == 1 and c == -1
    return t.make("sum", constant, pairs, integer=integer, boolean=boolean)


def _add_to_choice(t: Table, choice: list[tuple[Exact, Term]], rest: list[tuple[Exact, Element]]) -> Element:
    """``where(m, x, -inf) + y`` is ``where(m, x + y, -inf)``."""
    if len(choice) > 1:
        raise Unsupported("a sum of several choices of infinities")
    ((c, chosen),) = choice
    condition, x, y = chosen.args
    return where(t, condition, add(t, [(c, x), *rest]), add(t, [(c, y), *rest]))


def mul(t: Table, xs: Sequence[Element]) -> Element:
    """The product of all."""
    if len(xs) == 2:
        a, b = xs
        if type(a) is Term and type(b) is Term and a is not b and a.op in _PLAIN and b.op in _PLAIN:
            return product_of(t, {a: 1, b: 1})
    c: Exact = 1
    found: dict[Term, Exact] = {}
    infinity = False
    for x in xs:
        if type(x) is Term:
            if x.infinite:
                return _mul_of_choice(t, x, [y for y in xs if y is not x])
            c = c * enter_factors(t, x, 1, found)
        elif type(x) is float:
            infinity, c = True, c * (1 if x > 0 else -1)
        else:
            c = c * cast(Exact, x)
    if infinity:
        if found:
            raise Unsupported("an infinity times a number that is not known")
        return t.undefined() if not c else inf if c > 0 else -inf
    if not c:
        for base, exponent in found.items():
            t.lose(product_of(t, {base: exponent}))
        return 0
    return scaled(t, whole(c), product_of(t, found))


def scaled(t: Table, c: Exact, x: Element) -> Element:
    """``c * x`` of finite numbers."""
    if type(x) is not Term:
        return whole(c * cast(Exact, x))
    return x if c == 1 else add(t, [(c, x)])


def _mul_of_choice(t: Table, chosen: Term, others: list[Element]) -> Element:
    if any(type(y) is Term and not y.boolean for y in others):
        raise Unsupported("an infinity under a condition times a number that is not known")
    condition, x, y = chosen.args
    return where(t, condition, mul(t, [x, *others]), mul(t, [y, *others]))


def enter_factors(t: Table, x: Term, times: Exact, found: dict[Term, Exact]) -> Exact:
    """Enter the factors of ``x ** times`` (of whole ``times``, or where that is sound); its coefficient."""
    if x.op == "prod":
        for base, exponent in x.args:
            enter_power(t, found, base, exponent, times)
        return 1
    if x.op == "sum" and not x.boolean:  # 1 - b is a factor of its own: a product of booleans is one
        c, factors, rest = content(t, x)
        for base, exponent in factors:
            enter_power(t, found, base, exponent, times)
        if type(rest) is Term:
            if rest.op == "prod":
                enter_factors(t, rest, times, found)
            else:
                enter_power(t, found, rest, 1, times)
        return Fraction(c) ** int(times)
    enter_power(t, found, x, 1, times)
    return 1


def enter_power(t: Table, found: dict[Term, Exact], base: Term, exponent: Exact, times: Exact) -> None:
    """Multiply the factors found by ``(base ** exponent) ** times``."""
    new = whole(exponent * times)
    old = found.get(base)
    total = new if old is None else whole(old + new)
    if base.boolean and isinstance(total, int) and total > 1:
        total = 1
    kept = domain_of(base, total)
    for one in (exponent, new, 1 if old is None else old):
        lost = domain_of(base, one)
        if lost and lost != kept and kept != "positive":
            t.lost.setdefault(Condition(lost, base), "")
    if total:
        found[base] = total
    else:
        found.pop(base, None)
        t.lose(base)


def product_of(t: Table, found: dict[Term, Exact]) -> Element:
    """The product of powers of terms that are neither sums with a coefficient nor products."""
    if not found:
        return 1
    if len(found) == 1:
        ((base, exponent),) = found.items()
        if exponent == 1:
            return base
        items = [(base, exponent)]
    else:
        items = sorted(found.items(), key=lambda item: item[0].number)
    whole = all(type(e) is int and e > 0 and b.integer for b, e in items)
    boolean = all(b.boolean for b, _ in items) and whole
    return t.make("prod", *items, integer=whole, boolean=boolean)


def content(t: Table, x: Term) -> tuple[Exact, tuple[tuple[Term, Exact], ...], Element]:
    """A sum as coefficient * powers of exps * a sum that has neither in common: of unique form."""
    known = t.contents.get(x)
    if known is not None:
        return known
    constant, pairs = cast("tuple[Exact, tuple[tuple[Term, Exact], ...]]", x.args)
    common = _exps(pairs[0][0])
    for term, _ in pairs[1:]:
        mine = _exps(term)
        common = {b: min(common.get(b, 0), mine.get(b, 0)) for b in common.keys() | mine.keys()}
    if constant:
        common = {b: min(e, 0) for b, e in common.items()}
    common = {b: e for b, e in common.items() if e}
    lead = pairs[0][1]
    factors = tuple(sorted(common.items(), key=lambda item: item[0].number))
    inverse = [(b, -e) for b, e in factors]
    if common:
        divided = [(whole(Fraction(c) / lead), _times_exps(t, one, inverse)) for one, c in pairs]
        if constant:
            divided.append((whole(Fraction(constant) / lead), _times_exps(t, None, inverse)))
        rest = add(t, divided)
        if type(rest) is Term and rest.op == "sum" and rest.args[1][0][1] != 1:  # the order of terms has changed
            again = rest.args[1][0][1]
            lead, rest = lead * again, add(t, [(whole(Fraction(1) / again), rest)])
    elif lead != 1:
        rest = add(t, [(whole(Fraction(1) / lead), x)])
    else:
        rest = x
    t.contents[x] = found = (whole(lead), factors, rest)
    return found


def _times_exps(t: Table, term: Term | None, factors: list[tuple[Term, Exact]]) -> Element:
    found: dict[Term, Exact] = {}
    if term is not None:
        found.update(term.args if term.op == "prod" else ((term, 1),))
    for base, exponent in factors:  # never undefined: nothing is lost
        total = found.get(base, 0) + exponent
        if total:
            found[base] = whole(total)
        else:
            found.pop(base, None)
    return product_of(t, found)


def where(t: Table, condition: Element, x: Element, y: Element) -> Element:
    """``x`` where the condition (0 or 1) holds, else ``y``."""
    if type(condition) is not Term:
        return x if condition else y
    if condition.op == "sum" and condition.args[0] == 1 and len(condition.args[1]) == 1:
        ((opposite, c),) = condition.args[1]
        if c == -1:  # 1 - b
            condition, x, y = opposite, y, x
    if x is y or (type(x) is not Term and type(y) is not Term and x == y):
        t.lose(condition)
        return x
    if x == 1 and y == 0 and type(x) is int:
        return condition
    if x == 0 and y == 1 and type(y) is int:
        return add(t, [(1, 1), (-1, condition)])
    if type(x) is Term and x.op == "ite" and x.args[0] is condition:
        x = x.args[1]
    if type(y) is Term and y.op == "ite" and y.args[0] is condition:
        y = y.args[2]
    kinds = [(one.integer, one.boolean) if type(one) is Term else (type(one) is int, one in (0, 1)) for one in (x, y)]
    infinite = any(type(one) is float or (type(one) is Term and one.infinite) for one in (x, y))
    return t.make(
        "ite", condition, x, y,
        integer=all(k for k, _ in kinds), boolean=all(b for _, b in kinds), infinite=infinite,
    )  # fmt: skip


def _exps(term: Term) -> dict[Term, Exact]:
    if term.op == "exp":
        return {term: 1}
    if term.op == "prod":
        return {base: e for base, e in term.args if base.op == "exp"}
    return {}
