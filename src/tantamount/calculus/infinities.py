"""Symbolic infinities: where they stand in a polynomial. They leave it through ``exp`` and ``maximum`` only."""

from __future__ import annotations

from typing import NamedTuple

from tantamount.calculus.atoms import Store, ValueFacts
from tantamount.calculus.pieces import Form
from tantamount.calculus.polynomials import add, multiply, polynomial, scale
from tantamount.calculus.products import is_boolean, known_positive
from tantamount.calculus.terms import ONE, Monomial, Polynomial, Ranges, Term, factors_of, single, sole_power

__all__ = [
    "Split", "infinite_signs", "infinity", "infinity_atom", "is_negative_infinity", "is_real", "masked_by",
    "may_conceal", "split_infinity", "unbounded",
]  # fmt: skip


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


def may_conceal(store: Store, x: Polynomial) -> bool:
    """True if an infinity occurs in a sum or in its maxima (not inside an exponential or another function): a maximum
    of what a mask leaves nothing of is minus infinity, though none is in sight."""
    memo = store.memo.infinity_inside

    def inside(number: int) -> bool:
        found = memo.get(number)
        if found is None:
            atom = store.atoms[number]
            found = number == infinity_atom(store)
            if atom.op in ("polynomial", "sum", "max", "element"):
                found = any(inside(a) for y in atom.arguments for m, _ in y for a, _, _ in m)
            memo[number] = found
        return found

    return any(inside(a) for m, _ in x for a, _, _ in m)


def is_real(store: Store, form: Form) -> bool:
    """True if every element is a real number, whatever the inputs are: neither undefined nor infinite (the minus
    infinity of a mask is part of a form, of which there is no record)."""
    return form.undefined is None and not any(unbounded(store, x) for _, x in form.pieces)


def infinite_signs(store: Store, x: Polynomial) -> set[bool]:
    """The signs of the infinite terms of a sum (``True``: minus)."""
    return {c < 0 for m, c in x if any(_infinite(store, a) for a, _, _ in m)}


class Split(NamedTuple):
    """A value that is an infinity of one sign where a boolean holds, and a finite one elsewhere."""

    sign: int
    where: Polynomial
    finite: Polynomial

    def nowhere(self, store: Store) -> Polynomial:
        """The boolean that holds where the value is finite."""
        return add(store, ONE, scale(self.where, -1))


def masked_by(store: Store, m: Monomial) -> Monomial | None:
    """The boolean factors of an infinite product, which is that infinity where they are 1: a positive factor does not
    change it. ``None`` if something else is a factor."""
    infinite = infinity_atom(store)
    rest = tuple(f for f in m if f.atom != infinite and not known_positive(store, f))
    strange = any(f.exponent != 1 for f in m if f.atom == infinite) or sum(f.atom == infinite for f in m) != 1
    return None if strange or (rest and not is_boolean(store, (Term(rest, 1),))) else rest


def split_infinity(store: Store, x: Polynomial, box: Ranges) -> Split | None:
    """x apart, where it is an infinity; ``None`` if that is not known, or it is of both signs."""
    finite: list[Term] = []
    nowhere, found = ONE, set[bool]()
    for m, c in x:
        if not unbounded(store, (Term(m, c),)):
            finite.append(Term(m, c))
            continue
        rest = masked_by(store, m)
        if rest is None:
            return None
        found.add(c > 0)
        nowhere = multiply(store, nowhere, add(store, ONE, scale((Term(rest, 1),), -1)), box)
    if len(found) != 1:
        return None
    where = add(store, ONE, scale(nowhere, -1))
    return Split(1 if True in found else -1, where, polynomial(store, finite))


def _infinite(store: Store, number: int) -> bool:
    memo = store.memo.infinite
    found = memo.get(number)
    if found is None:
        atom = store.atoms[number]
        found = atom.op in ("polynomial", "sum") and unbounded(store, atom.arguments[0])
        found = memo[number] = found or number == infinity_atom(store)
    return found
