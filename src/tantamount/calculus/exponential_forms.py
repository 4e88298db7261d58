"""Hyperbolic tangents as what they are made of, ``tanh(u) = 2 / (1 + exp(-2 u)) - 1``, and logarithms of sums in which
no exponential divides, ``log(1 + exp(-u)) = log(exp(u) + 1) - u``.

A sigmoid, a SiLU and a logistic are written with exponentials; a tanh is an atom of its own, which is shorter. Where
two programs differ, both are written with exponentials.
"""

from __future__ import annotations

from tantamount.calculus import powers
from tantamount.calculus.affine import Index
from tantamount.calculus.atoms import Store
from tantamount.calculus.polynomials import add, constant, pinned, polynomial, scale
from tantamount.calculus.products import exact, monomial
from tantamount.calculus.rebuild import Rebuild
from tantamount.calculus.terms import ONE, Factor, Polynomial, Rational, Term, factors_of, sole_factor
from tantamount.errors import Unsupported

__all__ = ["as_exponentials"]


def as_exponentials(store: Store, x: Polynomial, box: object = ()) -> Polynomial:
    """The Polynomial with exponentials in place of hyperbolic tangents, and logarithms as above, at any depth."""
    if not any(_has_exponentials(store, f.atom, set()) for f in factors_of(x)):
        return x
    try:
        return _Exponential(store, budget=store.effort.bounds.recomputed_factors, box=box).polynomial(x)  # type: ignore[arg-type]
    except Unsupported:
        return x


def _has_exponentials(store: Store, number: int, seen: set[int]) -> bool:
    if number in seen:
        return False
    seen.add(number)
    atom = store.atoms[number]
    return atom.op in ("tanh", "log") or any(
        _has_exponentials(store, f.atom, seen) for f in factors_of(*atom.arguments)
    )


class _Exponential(Rebuild):
    def _compute(self, factor: Factor) -> Polynomial:
        store = self.store
        a, e, index = store.follow(factor)
        atom = store.atoms[a]
        if atom.op == "log":
            argument = self.polynomial(pinned(store, atom.arguments[0], dict(enumerate(index))))
            return powers.power(store, _logarithm(store, powers.logarithm(store, argument)), e)
        if atom.op != "tanh":
            return super()._compute(factor)
        argument = self.polynomial(pinned(store, atom.arguments[0], dict(enumerate(index))))
        below = add(store, ONE, powers.exponential(store, scale(argument, -2)))
        store.fired["tanh-as-exponentials"] += 1
        value = add(store, scale(powers.power(store, below, -1), 2), constant(-1))
        return powers.power(store, value, e)


def _logarithm(store: Store, x: Polynomial) -> Polynomial:
    """A sum with ``u + log(y)`` in place of every ``log(exp(u) y)``, for a positive sum y in which no exponential is a
    divisor, or in all terms."""
    parts: list[Polynomial] = []
    for m, c in x:
        atom = store.atoms[m[0].atom] if len(m) == 1 and m[0].exponent == 1 else None
        if atom is None or atom.op != "log":
            parts.append((Term(m, c),))
            continue
        y = pinned(store, atom.arguments[0], dict(enumerate(m[0].at)))
        factor = sole_factor(y)
        if factor is not None and factor.exponent == 1 and store.atoms[factor.atom].op == "polynomial":
            y = pinned(store, store.atoms[factor.atom].arguments[0], dict(enumerate(factor.at)))
        shared = _shared_exponentials(store, y) if powers.strictly_positive(store, y) else []
        if not shared:
            parts.append((Term(m, c),))
            continue
        store.fired["tanh-as-exponentials"] += 1
        for f in shared:
            inside = pinned(store, store.atoms[f.atom].arguments[0], dict(enumerate(f.at)))
            parts.append(scale(inside, f.exponent * c))
        inverse = [f._replace(exponent=exact(-f.exponent)) for f in shared]
        left = polynomial(store, [monomial(store, d, (*n, *inverse)) for n, d in y])
        parts.append(scale(powers.logarithm(store, left), c))
    return add(store, *parts)


def _shared_exponentials(store: Store, x: Polynomial) -> list[Factor]:
    """The exponentials that divide a term, or are in all, with the least exponent that they have."""
    least: dict[tuple[int, Index], Rational] = {}
    for k, (m, _) in enumerate(x):
        here = {(f.atom, f.at): f.exponent for f in m if store.atoms[f.atom].op == "exp"}
        for key in {*least, *here}:
            e = here.get(key, 0)
            least[key] = min(e, least.get(key, 0 if k else e))
    return [Factor(a, e, at) for (a, at), e in sorted(least.items()) if e] if len(x) > 1 else []
