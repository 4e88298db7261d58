"""Equality and ranges case by case: of comparisons, maxima, absolute values, signs, roundings and one-hot sums.

In each case these are what they are there: ``max(x, y)`` is x where ``x - y >= 0``, a comparison is 0 or 1. What is
claimed of a value has to follow there from linear arithmetic (:mod:`tantamount.calculus.conditions`), or the case has
to be impossible. ``docs/design/cases.md`` has the argument.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

from tantamount.calculus.affine import Coordinate, Index, coordinate, substitute_index, variable
from tantamount.calculus.atoms import Store
from tantamount.calculus.comparisons import Comparison, compare, comparison, interval
from tantamount.calculus.conditions import Condition, Reading, fraction_of
from tantamount.calculus.exponential_forms import as_exponentials
from tantamount.calculus.ignored_labels import known_unless, spared, unless
from tantamount.calculus.inequalities import Steps
from tantamount.calculus.infinities import unbounded
from tantamount.calculus.members import position_in
from tantamount.calculus.monotone import argument_of, members_of, root_of, with_sign_of
from tantamount.calculus.naming import bound_variables
from tantamount.calculus.polynomials import add, constant, iota, multiply, polynomial, scale
from tantamount.calculus.products import is_integer, monomial
from tantamount.calculus.rebuild import Rebuild, refresh
from tantamount.calculus.terms import ONE, ZERO, Factor, Monomial, Polynomial, Ranges, Term, factors_of
from tantamount.errors import Unsupported
from tantamount.ops.functions import MODULI
from tantamount.sizes.symbolic import never_below

__all__ = ["never_zero", "place_of", "vanishes", "within"]

_ROUNDED = frozenset({"floor", "round", "floor_divide", *MODULI})
_CHOICES = frozenset({"less", "equal", "max", "sign", "trunc"})
_BINDERS = frozenset({"sum", "element", "pair", "fact", "place"})


class _Case(NamedTuple):
    """The atom that a factor is of (``None``: itself), to which power of which it is that, and where."""

    value: Polynomial | None
    conditions: tuple[Condition, ...]
    times: int = 1


_Conditions = tuple[Condition, ...]
_Claim = Callable[["_Search", Polynomial, _Conditions], bool]


# ------------------------------------------------------------------------------------------------ what is asked
def vanishes(store: Store, x: Polynomial, box: Ranges) -> bool:
    """True if x was shown to be 0 wherever it is defined, on a box of the axes."""
    if not x:
        return True
    if _holds(store, x, _known(box), _Search.is_zero):
        return True
    if _vanishes_inside(store, x, box):
        return True
    groups = _by_ranges(store, x)
    return bool(groups) and all(_vanishes_inside(store, group, box) for group in groups)


def _vanishes_inside(store: Store, x: Polynomial, box: Ranges) -> bool:
    """True if the summand of sums over the same ranges was shown to be 0."""
    opened = _summands(store, x, _known(box))
    return opened is not None and _holds(store, opened[0], _known(box) | opened[1], _Search.is_zero)


def _by_ranges(store: Store, x: Polynomial) -> list[Polynomial]:
    """The terms of x that are sums over the same ranges, for each of several: if all of these vanish, so does x."""
    groups: dict[tuple[int, ...], list[Term]] = {}
    for term in x:
        sums = [f for f in term.monomial if store.atoms[f.atom].op == "sum" and f.exponent == 1]
        if len(sums) != 1:
            return []
        groups.setdefault(store.atoms[sums[0].atom].ranges, []).append(term)
    return [tuple(group) for group in groups.values()] if len(groups) > 1 else []


def within(store: Store, x: Polynomial, size: int | None, box: Ranges) -> bool:
    """True if ``0 <= x`` was shown, and ``x < size`` unless that is ``None``, on a box of the axes."""

    def holds(search: _Search, value: Polynomial, conditions: _Conditions) -> bool:
        outside = [Condition(scale(value, -1), strict=True)]
        if size is not None:
            outside.append(Condition(add(store, value, constant(-size))))
        return all(search.reading.refutes([*conditions, one]) for one in outside)

    return not unbounded(store, x) and _holds(store, x, _known(box), holds)


def never_zero(store: Store, x: Polynomial, box: Ranges) -> bool:
    """True if x was shown to be other than 0 on a box of the axes."""

    def holds(search: _Search, value: Polynomial, conditions: _Conditions) -> bool:
        return search.reading.refutes([*conditions, Condition(value, equal=True)])

    return not unbounded(store, x) and _holds(store, x, _known(box), holds)


def _known(box: Ranges) -> dict[int, tuple[int, int]]:
    return {} if box is None else dict(box if isinstance(box, Mapping) else enumerate(box))


def _holds(store: Store, x: Polynomial, box: dict[int, tuple[int, int]], claim: _Claim) -> bool:
    """True if something is there to be told apart or rounded, and the claim holds in every case.

    Cases are put in for atoms by their numbers, so x must not have an atom under two of them: one that was joined with
    another since would keep its number inside x, its case would change nothing and be taken again and again."""
    x = refresh(store, x)
    if not any(_decides(store, f) for f in factors_of(x)):
        return False
    if store.effort.exceeds("case_terms", len(x)) or store.effort.exceeds("case_work", _work(store, x)):
        return False  # forms of whole models are no question of cases
    steps = Steps(store.effort)
    try:
        found = _Search(store, box, claim, steps, Reading(store, box, steps)).holds(x, (), frozenset())
    except Unsupported:
        return False
    store.fired["cases"] += found
    return found


def _decides(store: Store, factor: Factor) -> bool:
    """True if something in a factor, though not below what it binds, has cases or is rounded."""
    if _atom_decides(store, factor.atom):
        return True
    atom = store.atoms[factor.atom]
    return factor.exponent.denominator == 2 and atom.op == "polynomial" and root_of(atom.arguments[0]) is not None


def _atom_decides(store: Store, number: int) -> bool:
    memo = store.memo.has_cases
    found = memo.get(number)
    if found is None:
        atom = store.atoms[number]
        if atom.op == "sum":
            found = len(atom.summand) == 1 and store.atoms[atom.summand[0].atom].op == "equal"
        else:
            found = atom.op in _CHOICES or atom.op in _ROUNDED
        if not found and atom.op not in _BINDERS:
            found = any(_is_truth(store, f) or _decides(store, f) for f in factors_of(*atom.arguments))
        memo[number] = found
    return found


def _is_truth(store: Store, factor: Factor) -> bool:
    """True if a factor is an element of a boolean tensor. That decides something where a function is applied to it; its
    products are in normal form without cases."""
    return store.atoms[factor.atom].op == "leaf" and store.atoms[factor.atom].facts.boolean


def _summands(
    store: Store, x: Polynomial, box: Mapping[int, tuple[int, int]]
) -> tuple[Polynomial, dict[int, tuple[int, int]]] | None:
    """The summand and the ranges, if every term is a sum over the same ranges: if that vanishes, so does x. A term that
    is a summand of a sum over one range but for comparisons, ``x_(j+1)``, is ``sum over a of [a = j + 1] x_a``."""
    ranges: tuple[int, ...] | None = None
    parts: list[tuple[Fraction | int, list[Factor], Factor]] = []
    loose: list[Term] = []
    for m, c in x:
        sums = [f for f in m if store.atoms[f.atom].op == "sum" and f.exponent == 1]
        if not sums:
            loose.append(Term(m, c))
            continue
        if len(sums) != 1 or (ranges is not None and store.atoms[sums[0].atom].ranges != ranges):
            return None
        ranges = store.atoms[sums[0].atom].ranges
        parts.append((c, [f for f in m if f is not sums[0]], sums[0]))
    if ranges is None or (loose and len(ranges) > 1):
        return None
    fresh = store.fresh_axes(len(ranges))
    total: list[Polynomial] = []
    members: list[list[Factor]] = []
    for c, rest, chosen in parts:
        replace: dict[int, Coordinate] = dict(enumerate(chosen.at))
        replace.update({-1 - j: variable(axis) for j, axis in enumerate(fresh)})
        inner = [Factor(b, e, substitute_index(at, replace)) for b, e, at in store.atoms[chosen.atom].summand]
        member = [f for f in (*rest, *inner) if store.atoms[f.atom].op not in ("less", "equal")]
        if len(member) < len(rest) + len(inner):  # without comparisons there is nothing to be told apart
            members.append(member)
        total.append(polynomial(store, [monomial(store, c, (*rest, *inner))]))
    for m, c in loose:
        found = next((y for y in (_as_summand(store, m, one, fresh, ranges, box) for one in members) if y), None)
        if found is None:
            return None
        total.append(scale(found, c))
    return add(store, *total), {axis: (0, n) for axis, n in zip(fresh, ranges, strict=True)}


def _as_summand(
    store: Store,
    m: Monomial,
    member: Sequence[Factor],
    axes: Sequence[int],
    ranges: Sequence[int],
    box: Mapping[int, tuple[int, int]],
) -> Polynomial | None:
    """``[a = v] member`` for the v in the range of the one axis a at which the member is the product; ``None`` without
    one."""
    (axis,), (size,) = axes, ranges
    for f in member:
        for g in m:
            v = position_in(f, g, axis) if (f.atom, f.exponent) == (g.atom, g.exponent) else None
            span = None if v is None else interval(v, box, ())
            if v is None or span is None or not (never_below(span[0], 0) and never_below(size - 1, span[1])):
                continue
            if monomial(store, 1, [h._replace(at=substitute_index(h.at, {axis: v})) for h in member]) == Term(m, 1):
                chosen = compare(store, "equal", iota(variable(axis)), iota(v), {**box, axis: (0, size)})
                return multiply(store, chosen, polynomial(store, [monomial(store, 1, member)]))
    return None


def _work(store: Store, x: Polynomial) -> int:
    """The steps that a case of x counts as. To build x anew takes time by all places at which atoms occur in it: what
    binds gets fresh axes at each."""
    count, pending, most = 0, [f.atom for f in factors_of(x)], 8 * store.effort.bounds.case_work
    while pending and count < most:
        atom = store.atoms[pending.pop()]
        count += 1
        pending += [f.atom for f in (atom.summand if atom.op == "sum" else factors_of(*atom.arguments))]
    return 1 + (len(x) + count) // 8


# ------------------------------------------------------------------------------------------------ the search
@dataclass
class _Search:
    """A search over the cases of what a polynomial is made of, for one in which a ``claim`` does not hold."""

    store: Store
    box: dict[int, tuple[int, int]]
    claim: _Claim
    steps: Steps
    reading: Reading

    def holds(self, x: Polynomial, conditions: _Conditions, settled: frozenset[Factor]) -> bool:
        """True if the claim holds of x wherever the conditions do; ``settled`` are factors whose case was taken."""
        store = self.store
        store.effort.check()
        if not self.steps.take(_work(store, x)):
            return False
        if not x and self.claim is _Search.is_zero:
            return True
        switch = next(self._switches(x, conditions, settled), None)
        if switch is None:
            return self.claim(self, x, conditions)
        if len(conditions) > 1 and self.reading.refutes(conditions):
            return True
        factor, cases = switch
        for case in cases:
            now, own = x, (*conditions, *case.conditions)
            if case.value is not None:
                replacing = _Replacing(store, {(factor.atom, factor.at): (case.value, case.times)}, self.box)
                now = replacing.polynomial(x)
                own = tuple(c._replace(value=with_sign_of(store, replacing.polynomial(c.value))) for c in own)
            for one in case.conditions:
                now = self._solved(one, now)
            stays = case.value is None or now == x  # or it would be taken for ever
            done = settled | {factor._replace(exponent=1)} if stays else settled
            if not self.holds(now, own, done):
                return False
        return True

    def is_zero(self, x: Polynomial, conditions: _Conditions) -> bool:
        """True if x is 0 where the conditions hold, in which nothing is left to be told apart."""
        if self.reading.is_zero(x, conditions):
            return True
        written = as_exponentials(self.store, x, self.box)
        if written != x and (not written or self.reading.is_zero(written, conditions)):
            return True
        opposite = {c.value for c in conditions if not c.strict}
        for one in conditions:  # ``v >= 0`` and ``-v >= 0``
            both = one.value and not one.strict and scale(one.value, -1) in opposite
            if both and not self._solved(one._replace(equal=True), x):
                return True
        return False

    def _solved(self, one: Condition, x: Polynomial) -> Polynomial:
        """x with an element of a tensor replaced by what an equality between elements says that it is."""
        store = self.store
        if not one.equal:
            return x
        for m, c in one.value:
            if len(m) != 1 or m[0].exponent != 1 or store.atoms[m[0].atom].op != "leaf":
                continue
            (factor,) = m
            rest = tuple(term for term in one.value if term.monomial != m)
            if all(store.atoms[f.atom].op == "leaf" and f.atom != factor.atom for f in factors_of(rest)):
                values = {(factor.atom, factor.at): (scale(rest, -1 / Fraction(c)), 1)}
                return _Replacing(store, values, self.box).polynomial(x)
        return x

    # -- what has cases
    def _switches(
        self, x: Polynomial, conditions: _Conditions, settled: frozenset[Factor]
    ) -> Iterator[tuple[Factor, list[_Case]]]:
        """Factors that have cases, at any depth but below what binds, those without others inside first."""
        for factor in factors_of(x):
            yield from self._inside(factor, conditions, settled)

    def _inside(
        self, factor: Factor, conditions: _Conditions, settled: frozenset[Factor]
    ) -> Iterator[tuple[Factor, list[_Case]]]:
        store = self.store
        atom = store.atoms[factor.atom]
        if _is_truth(store, factor):
            yield factor, [_Case(ONE, ()), _Case(ZERO, ())]
        if atom.op == "leaf" or factor._replace(exponent=1) in settled or not _decides(store, factor):
            return
        place: _Place | None = None
        inner: list[Polynomial] = []
        if atom.op == "max":
            members = members_of(store, factor._replace(exponent=1))
            if members is None:
                return
            inner = members
        elif atom.op in ("less", "equal"):
            guard = comparison(store, factor)
            inner = [guard.rest] if guard is not None else []
        elif atom.op == "sum":
            place = _one_hot(store, factor)
            inner = [place.value] if place is not None else []
        elif atom.op not in _BINDERS:
            inner = [argument_of(store, factor, k) for k in range(len(atom.arguments))]
        for one in inner:
            yield from self._switches(one, conditions, settled)
        cases = self._cases(factor, inner, place, conditions)
        if cases:
            yield factor, cases

    def _cases(
        self, factor: Factor, inner: Sequence[Polynomial], place: _Place | None, conditions: _Conditions
    ) -> list[_Case]:
        """The cases of a factor's atom: one of them holds wherever it is defined. None if it has none."""
        store = self.store
        op = store.atoms[factor.atom].op
        if op == "max":
            return [
                _Case(x, tuple(Condition(add(store, x, scale(y, -1)), j < k) for j, y in enumerate(inner) if j != k))
                for k, x in enumerate(inner)
            ]
        if op in ("less", "equal"):
            guard = comparison(store, factor)
            if guard is None:
                return []
            t = add(store, guard.rest, iota(guard.affine))
            if op == "less":
                return [_Case(ONE, (Condition(scale(t, -1), True),)), _Case(ZERO, (Condition(t),))]
            known = self._unless_ignored(guard, conditions)
            apart = [_Case(ZERO, (Condition(scale(t, s), True), *known)) for s in (1, -1)]
            return [_Case(ONE, (Condition(t, equal=True),)), *apart]
        if op == "sum" and place is not None:
            last = add(store, constant(place.size), constant(-1), scale(place.value, -1))
            outside = [_Case(ZERO, (Condition(scale(v, -1), True),)) for v in (place.value, last)]
            return [_Case(ONE, (Condition(place.value), Condition(last))), *outside]
        if op == "sign":
            (u,) = inner
            return [
                _Case(ONE, (Condition(u, True),)),
                _Case(constant(-1), (Condition(scale(u, -1), True),)),
                _Case(ZERO, (Condition(u, equal=True),)),
            ]
        if op == "trunc":
            return self._truncated(factor, inner[0], conditions)
        if factor.exponent.denominator == 2 and op == "polynomial":
            root = root_of(inner[0])
            if root is not None:
                u = polynomial(store, [monomial(store, 1, root)])
                low = scale(u, -1)
                return [_Case(u, (Condition(u),), 2), _Case(low, (Condition(low, True),), 2)]
        return []

    def _unless_ignored(self, guard: Comparison, conditions: _Conditions) -> tuple[Condition, ...]:
        """Conditions that hold of t where ``[t == k]`` does not: of ``t (1 - [t == k])`` the range is assumed, if
        labels k are ignored; if others are, too, t has to be none of them under the conditions."""
        store = self.store
        if guard.affine.parts or not guard.rest:
            return ()
        for values in spared(store):
            if -guard.affine.offset not in values:
                continue
            known = known_unless(store, guard.rest, unless(store, guard.rest, values, self.box), self.box)
            others = (add(store, guard.rest, constant(-k)) for k in values if k != -guard.affine.offset)
            if known is None or not all(self.reading.refutes((*conditions, Condition(x, equal=True))) for x in others):
                continue
            low, high = (add(store, guard.rest, constant(-end)) for end in known)
            return Condition(low), Condition(scale(high, -1))
        return ()

    def _truncated(self, factor: Factor, u: Polynomial, conditions: _Conditions) -> list[_Case]:
        """``u = above / below`` towards 0: ``t <= u < t + 1`` where u is not negative, else ``t - 1 < u <= t``; with
        both signs of a divisor of which that is not known."""
        store = self.store
        above, below = fraction_of(store, u)
        if below == ONE or self.reading.divides(below, conditions):
            return self._towards_zero(factor, above, below)
        found = [_Case(None, (Condition(below, equal=True),))]  # a mask may pass over it: there it is any number
        for sign in (1, -1):
            there = Condition(scale(below, sign), strict=True)
            self.reading.divides(there.value, (*conditions, there))
            found += [
                case._replace(conditions=(there, *case.conditions))
                for case in self._towards_zero(factor, scale(above, sign), there.value)
            ]
        return found

    def _towards_zero(self, factor: Factor, above: Polynomial, below: Polynomial) -> list[_Case]:
        store = self.store
        t: Polynomial = (Term((factor._replace(exponent=1),), 1),)
        rest = add(store, above, scale(multiply(store, t, below), -1))
        up = Condition(above), Condition(t), Condition(rest), Condition(add(store, below, scale(rest, -1)), True)
        negative = Condition(scale(above, -1), True), Condition(scale(t, -1))
        return [
            _Case(None, up),
            _Case(None, (*negative, Condition(scale(rest, -1)), Condition(add(store, below, rest), True))),
        ]


class _Place(NamedTuple):
    """``SUM_{v < size} [v == value]``, for a whole value."""

    value: Polynomial
    size: int


def _one_hot(store: Store, factor: Factor) -> _Place | None:
    """A sum of one equality read back; ``None`` for another one."""
    atom = store.atoms[factor.atom]
    if len(atom.summand) != 1 or len(atom.ranges) != 1 or atom.summand[0].exponent != 1:
        return None
    inner, _, at = atom.summand[0]
    place = place_of(store, Factor(inner, 1, substitute_index(at, dict(enumerate(factor.at)))))
    return None if place is None else _Place(place, atom.ranges[0])


def place_of(store: Store, guard: Factor) -> Polynomial | None:
    """``-(t + r) / s`` of an equality ``[t + s v + r == 0]``, v being its bound variable -1 and s = 1 or -1, if it is a
    whole number; ``None`` for another factor."""
    read = comparison(store, guard)
    if read is None or read.op != "equal" or not is_integer(store, read.rest):
        return None
    stride = dict(read.affine.parts).get(-1, 0)
    if abs(stride) != 1 or any(bound_variables(f) for f in factors_of(read.rest)):
        return None
    others = coordinate({v: s for v, s in read.affine.parts if v != -1}, read.affine.offset)
    if any(v < 0 for v, _ in others.parts):
        return None
    return scale(add(store, read.rest, iota(others)), -stride)


class _Replacing(Rebuild):
    """Computes polynomials anew with atoms at places replaced: by ``value ** times``. What the budget leaves as it is
    has the same value."""

    bound = "case_factors"

    def __init__(
        self,
        store: Store,
        values: Mapping[tuple[int, Index], tuple[Polynomial, int]],
        box: Mapping[int, tuple[int, int]],
    ) -> None:
        super().__init__(store, budget=store.effort.bounds.case_factors, box=box)
        self.everything = True
        self.values = values
        self.outer = _variables_of(values)
        self.targets = frozenset(a for a, _ in values)
        self._has: dict[int, bool] = {}

    def _concerns(self, factor: Factor) -> bool:
        if (factor.atom, factor.at) in self.values:  # an element of a tensor, too
            return True
        return self._mentions_target(factor.atom) and super()._concerns(factor)

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


def _variables_of(values: Mapping[tuple[int, Index], tuple[Polynomial, int]]) -> frozenset[int]:
    """The variables that what is replaced, or put in for it, mentions."""
    places = [*(at for _, at in values), *(f.at for x, _ in values.values() for f in factors_of(x))]
    return frozenset(v for at in places for parts, _ in at for v, _ in parts)
