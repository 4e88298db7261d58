"""Labels that lie in a range or are ignored: sums over the range, where what is known of labels spares one value."""

from __future__ import annotations

from collections.abc import Iterable

from tantamount.calculus.affine import Coordinate, coordinate
from tantamount.calculus.atoms import Store
from tantamount.calculus.comparisons import compare, comparison, fact_about
from tantamount.calculus.naming import bound_variables
from tantamount.calculus.polynomials import add, as_factors, constant, multiply, scale
from tantamount.calculus.products import substitute_factors
from tantamount.calculus.rebuild import refresh, refresh_ranges
from tantamount.calculus.terms import ONE, Factor, Factors, Polynomial, Ranges, factors_of

__all__ = ["are_labels", "found_or_ignored", "known_unless", "spared", "unless"]


def found_or_ignored(store: Store, factor: Factor, size: int, box: Ranges) -> Factors | None:
    """The factors of ``SUM_{v < size} [t + s v + r == 0]`` where this is ``1 - [t == k]``, or ``(1 - [t == k])
    (1 - [t == l])`` and so on.

    That is so if ``t (1 - [t == k])`` is known to be one of the numbers that ``-s v - r`` goes through, and k is none
    of them: where ``t != k`` it is t that is one of them, and exactly one v fits; where ``t == k`` none does. A loss
    states the fact when it replaces ignored labels before it looks up their logits."""
    guard = comparison(store, factor)
    if guard is None or guard.op != "equal" or not guard.rest or set(dict(guard.affine.parts)) != {-1}:
        return None
    stride, offset = dict(guard.affine.parts)[-1], guard.affine.offset
    if abs(stride) != 1 or any(map(bound_variables, factors_of(guard.rest))):
        return None
    low, high = (-offset - size + 1, -offset) if stride == 1 else (-offset, -offset + size - 1)
    for values in spared(store):
        if any(low <= k <= high for k in values):
            continue
        counted = unless(store, guard.rest, values, box)
        known = known_unless(store, guard.rest, counted, box)
        if known is not None and low <= known[0] and known[1] <= high:
            weight, factors = as_factors(store, counted)
            return factors if weight == 1 else None
    return None


def are_labels(store: Store, x: Polynomial) -> bool:
    """True if some labels are ignored, and all that x compares is whether something is a number. (Labels of a shard are
    compared with its ends: sums over these are left as they are, to be part of sums over all.)"""
    pending, found = list(factors_of(x)), False
    while spared(store) and pending:
        atom = store.atoms[pending.pop().atom]
        if atom.op == "less":
            return False
        found |= atom.op == "equal"
        pending += factors_of(*atom.arguments)
    return found


def known_unless(store: Store, t: Polynomial, counted: Polynomial, box: Ranges) -> tuple[int, int] | None:
    """The recorded least and greatest value of ``t counted``, ``counted`` being :func:`unless` of some values."""
    refresh_ranges(store)
    return fact_about(store, refresh(store, multiply(store, t, counted)), box)


def unless(store: Store, t: Polynomial, values: Iterable[int], box: Ranges) -> Polynomial:
    """``(1 - [t == k]) (1 - [t == l]) ...`` for all values: 1 where t is none of them."""
    found = ONE
    for k in values:
        found = multiply(store, found, add(store, ONE, scale(compare(store, "equal", t, constant(k), box), -1)))
    return found


def spared(store: Store) -> tuple[tuple[int, ...], ...]:
    """The values of facts about ``t (1 - [t == k]) (1 - [t == l]) ...``: each alone, and all of one fact."""
    memo = store.ranges.spared
    facts = store.ranges.assumed
    found = memo.get(len(facts))
    if found is None:
        together = {tuple(sorted(_valuesspared(store, x))) for x, _, _ in facts}
        alone = {(k,) for values in together for k in values}
        found = memo[len(facts)] = tuple(sorted(alone | together - {()}))
    return found


def _valuesspared(store: Store, x: Polynomial) -> set[int]:
    found: set[int] = set()
    for m, _ in x:
        for a, _, index in m:
            atom = store.atoms[a]
            if atom.op != "polynomial" or not atom.facts.boolean:
                continue
            replace: dict[int, Coordinate] = dict(enumerate(index))
            for inner, _ in atom.arguments[0]:
                for f in substitute_factors(inner, replace):
                    guard = comparison(store, f)
                    if (
                        guard is not None
                        and guard.op == "equal"
                        and guard.affine == coordinate({}, guard.affine.offset)
                    ):
                        found.add(-guard.affine.offset)
    return found
