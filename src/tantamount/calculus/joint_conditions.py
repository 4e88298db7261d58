"""Several conditions on one whole number of data, as one: a mask, and what is looked up beneath it.

A rank with labels of its own looks up ``z[clamp(t - l, 0, n - 1)]`` and keeps what ``l <= t < l + n`` says. Neither
condition says at which t an element v is kept; both together do: ``[clamp(t - l, 0, n - 1) == v] [l <= t < l + n]`` is
``[t == l + v]``. The product is a condition on t alone, so it is written as the intervals in which t lies
(:mod:`tantamount.calculus.conditions_on_numbers`, where it is shown).
"""

from __future__ import annotations

from collections.abc import Mapping

from tantamount.calculus.affine import Coordinate, Index, variable
from tantamount.calculus.atoms import Store
from tantamount.calculus.conditions_on_numbers import intervals_of, number_of
from tantamount.calculus.products import substitute_factors
from tantamount.calculus.terms import IOTA, Factor, Flat, Polynomial, Ranges, Term, factors_of
from tantamount.sizes.symbolic import is_size

__all__ = ["one_condition"]


def one_condition(store: Store, flat: Flat, box: Ranges) -> list[Flat] | None:
    """The product with its conditions on one whole number written as intervals, if one of them is an equality of
    something that is computed from the number; ``None`` if there is none such, or no other way to write them."""
    equalities = [f for f in flat.factors if f.exponent == 1 and _computed_from(store, f.atom) is not None]
    if not equalities or box is None or any(map(is_size, flat.ranges)):
        return None
    known = dict(box if isinstance(box, Mapping) else enumerate(box))
    axes = store.posing_axes(((0, n) for n in flat.ranges), (*known, *_variables(flat)))
    away: dict[int, Coordinate] = {-1 - j: variable(axis) for j, axis in enumerate(axes)}
    back: dict[int, Coordinate] = {axis: variable(-1 - j) for j, axis in enumerate(axes)}
    here = {**known, **axes}
    lifted = {f: substitute_factors((f,), away)[0] for f in flat.factors if f.exponent == 1}
    for factor in equalities:
        place = _place(store, lifted[factor])
        if place is None:
            continue
        same = [f for f, there in lifted.items() if _place(store, there) == place]
        if len(same) < 2:
            continue
        found = _written(store, (Term(tuple(sorted(lifted[f] for f in same)), 1),), here)
        if found is None:
            continue
        if not found:
            return []
        (term,) = found
        rest = tuple(f for f in flat.factors if f not in same)
        store.fired["written-conditions"] += 1
        return [flat._replace(factors=(*rest, *substitute_factors(term.monomial, back)))]
    return None


def _written(store: Store, c: Polynomial, box: Mapping[int, tuple[int, int]]) -> Polynomial | None:
    """A product of conditions as another product; ``None`` where that is not known."""
    used = {v for f in factors_of(c) for parts, _ in f.at for v, _ in parts}
    if not used <= box.keys():
        return None
    key = c, tuple((v, box[v]) for v in sorted(used))
    found = store.memo.conditions.get(key)
    if found is None:
        store.memo.conditions[key] = c  # while it is looked at, it stays as it is
        found = store.memo.conditions[key] = intervals_of(store, c, {v: box[v] for v in used}, single_numbers=True)
    one = len(found) <= 1 and all(term.coefficient == 1 for term in found)
    return found if one and found != c else None


def _computed_from(store: Store, number: int) -> int | None:
    """The one leaf, of whole numbers, that the quantity of an equality is computed from; ``None`` if the atom is none
    such, or compares the leaf as it is."""
    memo = store.memo.compared_numbers
    if number not in memo:
        atom = store.atoms[number]
        leaf = None
        if atom.op == "equal" and any(_is_computed(store, f) for f in factors_of(atom.arguments[0])):
            leaf = _only_leaf(store, number)
        memo[number] = leaf
    return memo[number]


def _is_computed(store: Store, factor: Factor) -> bool:
    return factor.atom != IOTA and store.atoms[factor.atom].op != "leaf"


def _only_leaf(store: Store, number: int) -> int | None:
    """The leaf of whole numbers that alone is inside an atom."""
    found: set[int] = set()
    seen: set[int] = set()
    pending = [number]
    while pending:
        at = pending.pop()
        if at in seen or at == IOTA:
            continue
        seen.add(at)
        atom = store.atoms[at]
        if atom.op == "leaf":
            found.add(at)
        if len(found) > 1:
            return None
        pending += [f.atom for f in factors_of(*atom.arguments)]
    leaf = next(iter(found), None)
    return leaf if leaf is not None and store.atoms[leaf].facts.integer else None


def _place(store: Store, factor: Factor) -> tuple[int, Index] | None:
    """The whole number, as a leaf at an index, that alone decides a boolean factor without bound variables."""
    atom = store.atoms[factor.atom]
    boolean = atom.facts.boolean and atom.op in ("less", "equal", "polynomial")
    return number_of(store, (Term((factor,), 1),)) if boolean else None


def _variables(flat: Flat) -> set[int]:
    return {v for f in flat.factors for parts, _ in f.at for v, _ in parts if v >= 0}
