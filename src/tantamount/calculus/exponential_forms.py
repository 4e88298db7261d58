"""Hyperbolic tangents as what they are made of: ``tanh(u) = 2 / (1 + exp(-2 u)) - 1``.

A sigmoid, a SiLU and a logistic are written with exponentials; a tanh is an atom of its own, which is shorter. Where
only one
of two programs has it, both are written with exponentials.
"""

from __future__ import annotations

from tantamount.calculus import powers
from tantamount.calculus.atoms import Store
from tantamount.calculus.polynomials import add, constant, pinned, scale
from tantamount.calculus.rebuild import Rebuild
from tantamount.calculus.terms import ONE, Factor, Polynomial, factors_of
from tantamount.errors import Unsupported

__all__ = ["as_exponentials"]


def as_exponentials(store: Store, x: Polynomial, box: object = ()) -> Polynomial:
    """The Polynomial with exponentials in place of hyperbolic tangents, at any depth."""
    if not any(_has_tanh(store, f.atom, set()) for f in factors_of(x)):
        return x
    try:
        return _Exponential(store, budget=store.effort.bounds.recomputed_factors, box=box).polynomial(x)  # type: ignore[arg-type]
    except Unsupported:
        return x


def _has_tanh(store: Store, number: int, seen: set[int]) -> bool:
    if number in seen:
        return False
    seen.add(number)
    atom = store.atoms[number]
    return atom.op == "tanh" or any(_has_tanh(store, f.atom, seen) for f in factors_of(*atom.arguments))


class _Exponential(Rebuild):
    def _compute(self, factor: Factor) -> Polynomial:
        store = self.store
        a, e, index = store.follow(factor)
        atom = store.atoms[a]
        if atom.op != "tanh":
            return super()._compute(factor)
        argument = self.polynomial(pinned(store, atom.arguments[0], dict(enumerate(index))))
        below = add(store, ONE, powers.exponential(store, scale(argument, -2)))
        store.fired["tanh-as-exponentials"] += 1
        value = add(store, scale(powers.power(store, below, -1), 2), constant(-1))
        return powers.power(store, value, e)
