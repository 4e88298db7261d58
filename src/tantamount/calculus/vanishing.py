"""Differences that vanish in every case: of comparisons, maxima, absolute values, signs and roundings.

In each case these are what they are there: ``max(x, y)`` is x where ``x - y >= 0``, a comparison is 0 or 1. What is
left of a difference is compared with 0 by linear arithmetic over its products, each taken for a number of which a few
inequalities are known: an enclosure, ``n q <= x <= n q + n - 1`` for a quotient ``q = floor(x / n)``, and the
conditions of the case. A difference of whole numbers that is less than 1 and more than -1 is 0. A case whose conditions
have no solution does not occur.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from math import isinf
from typing import NamedTuple

from tantamount.calculus.affine import Coordinate, Index, substitute_index, variable
from tantamount.calculus.atoms import Facts, Store
from tantamount.calculus.comparisons import comparison, fact_about
from tantamount.calculus.linear import Inequality, unsolvable
from tantamount.calculus.monotone import argument_of, members_of, root_of
from tantamount.calculus.polynomials import add, constant, iota, polynomial, scale
from tantamount.calculus.products import is_integer, monomial
from tantamount.calculus.rebuild import Rebuild
from tantamount.calculus.signs import enclosure
from tantamount.calculus.terms import ONE, ZERO, Factor, Monomial, Polynomial, Term, factors_of, sole_number
from tantamount.errors import Unsupported
from tantamount.ops.functions import MODULI
from tantamount.sizes.symbolic import is_size

__all__ = ["vanishes", "within"]

Axes = Sequence[tuple[int, int]] | Mapping[int, tuple[int, int]]
_ROUNDED = frozenset({"floor", "round", "floor_divide", *MODULI})
_BINDERS = frozenset({"sum", "element", "pair", "fact", "place"})
_MOST_TERMS, _MOST_VARIABLES = 48, 40


class _Condition(NamedTuple):
    """``value >= 0``, ``> 0`` (``strict``) or ``== 0`` (``equal``)."""

    value: Polynomial
    strict: bool = False
    equal: bool = False


class _Case(NamedTuple):
    """What a factor's atom is (``None``: itself), to which power of which it is that, and where."""

    value: Polynomial | None
    conditions: tuple[_Condition, ...]
    times: int = 1


def vanishes(store: Store, x: Polynomial, box: Axes) -> bool:
    """True if x was shown to be 0 wherever it is defined, on a box of the axes."""
    if not x or len(x) > _MOST_TERMS or any(is_size(c) for _, c in x):
        return not x
    known = dict(box if isinstance(box, Mapping) else enumerate(box))
    try:
        if any(_decides(store, f.atom) for f in factors_of(x)) and _Cases(store, known).hold(x, (), frozenset()):
            store.fired["vanishing"] += 1
            return True
        opened = _summands(store, x)
        if opened is not None:
            inside, axes = opened
            decides = any(_decides(store, f.atom) for f in factors_of(inside))
            if decides and _Cases(store, known | axes).hold(inside, (), frozenset()):
                store.fired["vanishing"] += 1
                return True
    except Unsupported:
        pass
    return False


def within(store: Store, x: Polynomial, size: int, box: Axes) -> bool:
    """True if ``0 <= x < size`` was shown of whole numbers, on a box of the axes."""
    if not x or len(x) > _MOST_TERMS or any(is_size(c) for _, c in x) or is_size(size) or not is_integer(store, x):
        return False
    if not any(_decides(store, f.atom) for f in factors_of(x)):
        return False
    try:
        known = dict(box if isinstance(box, Mapping) else enumerate(box))
        return _Cases(store, known, size).hold(x, (), frozenset())
    except Unsupported:
        return False


def _decides(store: Store, number: int) -> bool:
    """True if something inside an atom, though not below what it binds, has cases or is rounded."""
    memo = store.memo.has_cases
    found = memo.get(number)
    if found is None:
        atom = store.atoms[number]
        found = atom.op in ("less", "equal", "max", "sign", "trunc") or atom.op in _ROUNDED
        if not found and atom.op not in _BINDERS:
            found = _is_square(atom.arguments) or any(
                f.exponent.denominator == 2 or _decides(store, f.atom) for f in factors_of(*atom.arguments)
            )
        memo[number] = found
    return found


def _is_square(arguments: tuple[Polynomial, ...]) -> bool:
    return len(arguments) == 1 and root_of(arguments[0]) is not None


def _summands(store: Store, x: Polynomial) -> tuple[Polynomial, dict[int, tuple[int, int]]] | None:
    """What is summed, if every term is a sum over the same ranges: if that vanishes, so does x."""
    ranges: tuple[int, ...] | None = None
    parts: list[tuple[Fraction, list[Factor], Factor]] = []
    for m, c in x:
        sums = [f for f in m if store.atoms[f.atom].op == "sum" and f.exponent == 1]
        if len(sums) != 1 or (ranges is not None and store.atoms[sums[0].atom].ranges != ranges):
            return None
        ranges = store.atoms[sums[0].atom].ranges
        parts.append((c, [f for f in m if f is not sums[0]], sums[0]))  # type: ignore[arg-type]
    if ranges is None or any(is_size(n) for n in ranges):
        return None
    fresh = store.fresh_axes(len(ranges))
    axes = {axis: (0, n) for axis, n in zip(fresh, ranges, strict=True)}
    total: list[Polynomial] = []
    for c, rest, chosen in parts:
        replace: dict[int, Coordinate] = dict(enumerate(chosen.at))
        replace.update({-1 - j: variable(axis) for j, axis in enumerate(fresh)})
        inner = [Factor(b, e, substitute_index(at, replace)) for b, e, at in store.atoms[chosen.atom].summand]
        total.append(polynomial(store, [monomial(store, c, (*rest, *inner))]))
    return add(store, *total), axes


def _by_cofactor(store: Store, x: Polynomial) -> list[Polynomial] | None:
    """x as a sum of products with what is no whole number: the other factors of each, all of which may vanish; ``None``
    if there are no such products."""
    groups: dict[Monomial, list[Term]] = {}
    for m, c in x:
        outer = tuple(f for f in m if not (store.atoms[f.atom].facts.integer and f.exponent > 0))
        groups.setdefault(outer, []).append(Term(tuple(f for f in m if f not in outer), c))
    if set(groups) <= {()}:
        return None
    found = [polynomial(store, [monomial(store, c, m) for m, c in terms]) for terms in groups.values()]
    return None if any(not any(m for m, _ in group) for group in found if group) else [g for g in found if g]


# ------------------------------------------------------------------------------------------------ cases
@dataclass
class _Cases:
    store: Store
    box: dict[int, tuple[int, int]]
    size: int | None = None  # not that x is 0 is to be shown, but that ``0 <= x < size``
    count: int = 0
    _facts: dict[Monomial, list[_Condition]] = field(default_factory=dict[Monomial, "list[_Condition]"])

    def hold(self, x: Polynomial, conditions: tuple[_Condition, ...], settled: frozenset[Factor]) -> bool:
        """True if x is 0 wherever the conditions hold."""
        if not x:
            return self.size != 0
        store = self.store
        store.effort.check()
        self.count += 1
        if store.effort.exceeds("linear_cases", self.count):
            return False
        if len(x) > _MOST_TERMS:
            return False
        switch = next(self._switches(x, settled), None)
        if switch is None:
            if self.size is not None:
                return self._is_below(x, self.size, conditions)
            if self._is_zero(x, conditions) or self._vanishes_by_equality(x, conditions):
                return True
            groups = _by_cofactor(store, x)
            return groups is not None and all(self._is_zero(group, conditions) for group in groups)
        if len(conditions) > 1 and self._unsolvable(conditions):
            return True
        factor, cases = switch
        for case in cases:
            now, own = x, [*conditions, *case.conditions]
            if case.value is not None:
                values = {(factor.atom, factor.at): (case.value, case.times)}
                now = _Replacing(store, values, self.box).polynomial(x)
                own = [c._replace(value=_Replacing(store, values, self.box).polynomial(c.value)) for c in own]
            for one in case.conditions:
                solved = _solved(store, one) if one.equal else None
                if solved is not None:
                    now = _Replacing(store, solved, self.box).polynomial(now)
            done = settled | {factor._replace(exponent=1)} if case.value is None else settled
            if not self.hold(now, tuple(own), done):
                return False
        return True

    def _switches(self, x: Polynomial, settled: frozenset[Factor]) -> Iterator[tuple[Factor, list[_Case]]]:
        """Factors that have cases, at any depth but below what binds, those without others inside first."""
        for factor in factors_of(x):
            yield from self._inside(factor, settled)

    def _inside(self, factor: Factor, settled: frozenset[Factor]) -> Iterator[tuple[Factor, list[_Case]]]:
        store = self.store
        atom = store.atoms[factor.atom]
        if atom.op == "leaf" or factor._replace(exponent=1) in settled:
            return
        if not _decides(store, factor.atom) and factor.exponent.denominator == 1:
            return
        inner: list[Polynomial] = []
        if atom.op == "max":
            members = members_of(store, factor._replace(exponent=1))
            if members is None:
                return
            inner = members
        elif atom.op in ("less", "equal"):
            guard = comparison(store, factor)
            inner = [guard.rest] if guard is not None else []
        elif atom.op not in _BINDERS:
            inner = [argument_of(store, factor, k) for k in range(len(atom.arguments))]
        for one in inner:
            yield from self._switches(one, settled)
        cases = self._cases(factor, inner)
        if cases:
            yield factor, cases

    def _cases(self, factor: Factor, inner: Sequence[Polynomial]) -> list[_Case]:
        store = self.store
        atom = store.atoms[factor.atom]
        if atom.op == "max":
            return [
                _Case(x, tuple(_Condition(add(store, x, scale(y, -1)), j < k) for j, y in enumerate(inner) if j != k))
                for k, x in enumerate(inner)
            ]
        if atom.op in ("less", "equal"):
            guard = comparison(store, factor)
            if guard is None:
                return []
            t = add(store, guard.rest, iota(guard.affine))
            if atom.op == "less":
                return [_Case(ONE, (_Condition(scale(t, -1), True),)), _Case(ZERO, (_Condition(t),))]
            apart = [_Case(ZERO, (_Condition(scale(t, s), True),)) for s in (1, -1)]
            return [_Case(ONE, (_Condition(t, equal=True),)), *apart]
        if atom.op == "sign":
            (u,) = inner
            return [
                _Case(ONE, (_Condition(u, True),)),
                _Case(constant(-1), (_Condition(scale(u, -1), True),)),
                _Case(ZERO, (_Condition(u, equal=True),)),
            ]
        if atom.op == "trunc":
            (u,) = inner
            t: Polynomial = (Term((factor._replace(exponent=1),), 1),)
            rest = add(store, u, scale(t, -1))
            up = (_Condition(u), _Condition(rest), _Condition(add(store, ONE, scale(rest, -1)), True))
            down = (
                _Condition(scale(u, -1), True), _Condition(scale(rest, -1)), _Condition(add(store, ONE, rest), True),
            )  # fmt: skip
            return [_Case(None, up), _Case(None, down)]
        if factor.exponent.denominator == 2 and atom.op == "polynomial":
            root = root_of(inner[0]) if inner else None
            if root is not None:
                u = polynomial(store, [monomial(store, 1, root)])
                low = scale(u, -1)
                return [_Case(u, (_Condition(u),), 2), _Case(low, (_Condition(low, True),), 2)]
        return []

    # -- linear arithmetic
    def _is_zero(self, x: Polynomial, conditions: Sequence[_Condition]) -> bool:
        """True if x is neither positive nor negative."""
        whole = is_integer(self.store, x)
        if not whole and not conditions:
            return False
        if whole:
            g = Fraction(0)
            for _, c in x:
                g = Fraction(_gcd(int(g), int(c)))
            x = scale(x, 1 / g)
        return all(self._unsolvable([*conditions, _Condition(scale(x, s), True)]) for s in (1, -1))

    def _is_below(self, x: Polynomial, size: int, conditions: Sequence[_Condition]) -> bool:
        """True if ``0 <= x < size``."""
        outside = (scale(x, -1), add(self.store, x, constant(1 - size)))  # one of them is positive
        return all(self._unsolvable([*conditions, _Condition(value, True)]) for value in outside)

    def _vanishes_by_equality(self, x: Polynomial, conditions: Sequence[_Condition]) -> bool:
        """True if x is 0 where a value is 0 that is neither positive nor negative."""
        store = self.store
        some = {c.value for c in conditions if not c.strict}
        for one in conditions:
            if one.value and not one.strict and scale(one.value, -1) in some:
                solved = _solved(store, _Condition(one.value, equal=True))
                if solved is not None and not _Replacing(store, solved, self.box).polynomial(x):
                    return True
        return False

    def _unsolvable(self, conditions: Sequence[_Condition]) -> bool:
        """True if no values satisfy the conditions, and what is known of the products in them."""
        store = self.store
        numbers: dict[Monomial, int] = {}
        rows: list[Inequality] = []
        pending: list[Monomial] = []

        def row(condition: _Condition) -> None:
            coefficients: dict[int, Fraction] = {}
            offset = Fraction(0)
            for m, c in condition.value:
                if is_size(c):
                    raise Unsupported("a size in a case")
                if not m:
                    offset += c
                    continue
                if m not in numbers:
                    numbers[m] = len(numbers)
                    pending.append(m)
                coefficients[numbers[m]] = coefficients.get(numbers[m], Fraction(0)) + c
            rows.append(Inequality.of(coefficients, offset, condition.strict))
            if condition.equal:
                rows.append(Inequality.of({v: -c for v, c in coefficients.items()}, -offset))

        for condition in conditions:
            row(condition)
        while pending and len(numbers) <= _MOST_VARIABLES:
            for fact in self._known(pending.pop()):
                row(fact)
        whole = {v for m, v in numbers.items() if is_integer(store, (Term(m, 1),))}
        most = store.effort.bounds.linear_rows
        found = unsolvable(rows, whole, most)
        if found is None:
            store.effort.hit("linear_rows", most + 1)
        return bool(found)

    def _known(self, m: Monomial) -> list[_Condition]:
        found = self._facts.get(m)
        if found is None:
            found = self._facts[m] = [*self._found(m)]
        return found

    def _found(self, m: Monomial) -> Iterator[_Condition]:
        """What holds of a product wherever it is defined."""
        store = self.store
        x: Polynomial = (Term(m, 1),)
        low, high = enclosure(store, x, self.box)
        if not isinf(low.at):
            yield _Condition(add(store, x, constant(-Fraction(low.at))), low.out)
        if not isinf(high.at):
            yield _Condition(add(store, constant(Fraction(high.at)), scale(x, -1)), high.out)
        known = fact_about(store, x, self.box)
        if known is not None:  # an index of the specification, which is assumed to be in range
            yield _Condition(add(store, x, constant(-known[0])))
            yield _Condition(add(store, constant(known[1]), scale(x, -1)))
        if len(m) != 1 or m[0].exponent != 1:
            return
        (factor,) = m
        atom = store.atoms[factor.atom]
        if atom.op == "floor_divide":
            n = sole_number(argument_of(store, factor, 1))
            if n is None or is_size(n) or n == 0:
                return
            rest = add(store, argument_of(store, factor), scale(x, -n))  # x - n q, from 0 to below n
            rest = rest if n > 0 else scale(rest, -1)
            yield _Condition(rest)
            yield _Condition(add(store, constant(abs(n)), scale(rest, -1)), True)
        elif atom.op in ("floor", "round"):
            rest = add(store, argument_of(store, factor), scale(x, -1))
            half = Fraction(1, 2)
            yield _Condition(rest if atom.op == "floor" else add(store, rest, constant(half)))
            yield _Condition(
                add(store, constant(1 if atom.op == "floor" else half), scale(rest, -1)), atom.op == "floor"
            )
        elif atom.op in MODULI:
            size = 1 << MODULI[atom.op]
            inside = argument_of(store, factor)
            a, index = store.apply("floor_divide", (), (inside, constant(size)), Facts(integer=True))
            times = (Term((Factor(a, 1, index),), size),)
            yield _Condition(add(store, inside, scale(x, -1), scale(times, -1)), equal=True)
        elif atom.op == "max":
            for member in members_of(store, factor._replace(exponent=1)) or ():
                yield _Condition(add(store, x, scale(member, -1)))


def _gcd(a: int, b: int) -> int:
    while b:
        a, b = b, a % b
    return abs(a)


def _solved(store: Store, one: _Condition) -> dict[tuple[int, Index], tuple[Polynomial, int]] | None:
    """What an equality makes of one of its atoms."""
    for m, c in one.value:
        if len(m) == 1 and m[0].exponent == 1 and store.atoms[m[0].atom].arity >= 0:
            (factor,) = m
            rest = tuple(term for term in one.value if term.monomial != m)
            if store.atoms[factor.atom].op == "leaf" and not any(f.atom == factor.atom for f in factors_of(rest)):
                if any(store.atoms[f.atom].op not in ("leaf",) for f in factors_of(rest)):
                    continue
                return {(factor.atom, factor.at): (scale(rest, -1 / Fraction(c)), 1)}
    return None


class _Replacing(Rebuild):
    """Computes polynomials anew with atoms at places replaced: by ``value ** times``."""

    def __init__(
        self,
        store: Store,
        values: Mapping[tuple[int, Index], tuple[Polynomial, int]],
        box: Mapping[int, tuple[int, int]],
    ) -> None:
        super().__init__(store, budget=1 << 12, box=box)
        self.values = values
        self.targets = frozenset(a for a, _ in values)
        self._has: dict[int, bool] = {}

    def _concerns(self, factor: Factor) -> bool:
        return self._mentions_target(factor.atom)

    def _mentions_target(self, number: int) -> bool:
        found = self._has.get(number)
        if found is None:
            found = self._has[number] = number in self.targets or any(
                self._mentions_target(f.atom) for f in factors_of(*self.store.atoms[number].arguments)
            )
        return found

    def factor(self, factor: Factor) -> Polynomial:
        """The value of one factor."""
        value = self.values.get((factor.atom, factor.at))
        if value is not None and (value[1] == 1 or (factor.exponent * value[1]).denominator == 1):
            return self._power(value[0], factor.exponent * value[1])
        return super().factor(factor)
