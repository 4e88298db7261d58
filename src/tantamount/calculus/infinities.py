"""Symbolic infinities: where they stand in a polynomial. They leave it through ``exp`` and ``maximum`` only."""

from __future__ import annotations

from tantamount.calculus.atoms import Store, ValueFacts
from tantamount.calculus.forms import Form
from tantamount.calculus.terms import Polynomial, factors_of, single, sole_power

__all__ = ["infinite_signs", "infinity", "infinity_atom", "is_negative_infinity", "is_real", "unbounded"]


def infinity_atom(store: Store) -> int:
    """The atom that stands for plus infinity."""
    return store.leaf("infinity", "infinity", (), ValueFacts(positive=True))


def infinity(store: Store, sign: int) -> Polynomial:
    """Plus or minus infinity as a polynomial."""
    return single(infinity_atom(store), (), coefficient=sign)


def is_negative_infinity(store: Store, x: Polynomial) -> bool:
    """True if x is minus infinity everywhere."""
    power = sole_power(x)
    return power is not None and power[1] < 0 and power[0].atom == infinity_atom(store)


def unbounded(store: Store, x: Polynomial) -> bool:
    """True if an infinity occurs in the sum itself (not inside a maximum, an exponential or another function)."""
    return any(_infinite(store, factor.atom) for factor in factors_of(x))


def is_real(store: Store, form: Form) -> bool:
    """True if every element is a real number, whatever the inputs are: neither undefined nor infinite (the minus
    infinity of a mask is part of a form, of which there is no record)."""
    return form.undefined is None and not any(unbounded(store, x) for _, x in form.pieces)


def infinite_signs(store: Store, x: Polynomial) -> set[bool]:
    """The signs of the infinite terms of a sum (``True``: minus)."""
    return {c < 0 for m, c in x if any(_infinite(store, a) for a, _, _ in m)}


def _infinite(store: Store, number: int) -> bool:
    memo = store.memo.infinite
    found = memo.get(number)
    if found is None:
        atom = store.atoms[number]
        found = atom.op in ("polynomial", "sum") and unbounded(store, atom.arguments[0])
        found = memo[number] = found or number == infinity_atom(store)
    return found
