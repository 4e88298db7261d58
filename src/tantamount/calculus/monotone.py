"""Simpler values with the sign of a value: what a comparison of it with 0 is kept as.

A factor that is positive everywhere does not change a sign, nor does a function that grows: ``exp(x) / s < exp(y) / s``
is ``x < y``, and so is ``tanh(x) < tanh(y)``; ``x^3 < 0`` is ``x < 0``.
"""

from __future__ import annotations

from fractions import Fraction

from tantamount.calculus.affine import Index
from tantamount.calculus.atoms import Store
from tantamount.calculus.polynomials import add, polynomial, scale
from tantamount.calculus.products import exact, known_positive, monomial, substitute_polynomial
from tantamount.calculus.terms import Exponent, Factor, Monomial, Polynomial, Term
from tantamount.ops.functions import FUNCTIONS, ROUNDINGS

__all__ = ["argument_of", "grows_strictly", "members_of", "root_of", "with_sign_of"]


def with_sign_of(store: Store, x: Polynomial) -> Polynomial:
    """A polynomial that is negative, 0 and positive where x is, wherever x is defined."""
    rounds = 0
    while True:
        found = _once(store, x)
        rounds += 1
        if found is None or found == x or store.effort.exceeds("sign_depth", rounds):
            return x
        store.fired["monotone-functions"] += 1
        x = found


def argument_of(store: Store, factor: Factor, which: int = 0) -> Polynomial:
    """An argument of a factor's atom, where the factor is."""
    inside = substitute_polynomial(store.atoms[factor.atom].arguments[which], dict(enumerate(factor.at)))
    return polynomial(store, [monomial(store, c, m) for m, c in inside])


def _once(store: Store, x: Polynomial) -> Polynomial | None:
    if not any(m for m, _ in x) or store.effort.exceeds("sign_terms", len(x)):
        return None
    freed = _without_positive(store, x)
    if freed is not None:
        return freed
    if len(x) == 1:
        return _of_one(store, *x[0])
    if len(x) == 2 and x[0].coefficient == -x[1].coefficient:
        return _of_two(store, x[0], x[1])
    return None


def _without_positive(store: Store, x: Polynomial) -> Polynomial | None:
    """x times positive factors, such that none of them is in all terms, or in a denominator; ``None`` if that is so."""
    least: dict[tuple[int, Index], Exponent] = {}
    for k, (m, _) in enumerate(x):
        here = {(f.atom, f.at): f.exponent for f in m if _strips(store, f)}
        for key in {*least, *here}:
            e = here.get(key, 0)
            least[key] = min(e, least.get(key, 0 if k else e))
    factors = tuple(Factor(a, exact(-e), index) for (a, index), e in least.items() if e)
    if not factors:
        return None
    return polynomial(store, [monomial(store, c, (*m, *factors)) for m, c in x])


def _strips(store: Store, f: Factor) -> bool:
    attributes = store.atoms[f.atom].attributes
    return known_positive(store, f) and not (attributes and attributes[0] in ("prime", "infinity"))


def _of_one(store: Store, m: Monomial, c: object) -> Polynomial | None:
    """``c a^e`` for an odd or a broken e as ``c a``; ``c f(u)`` as ``c u`` where f keeps the sign."""
    others = [f for f in m if not known_positive(store, f)]
    if len(others) != 1:
        return None
    (factor,) = others
    a, e, index = factor
    if e.denominator == 1 and e % 2 == 0:
        return None
    if e != 1 or len(m) > 1:
        return polynomial(store, [monomial(store, c, (Factor(a, 1, index),))])  # type: ignore[arg-type]
    declared = FUNCTIONS.get(store.atoms[a].op)
    if declared is not None and declared.keeps_sign and declared.arity == 1:
        return scale(argument_of(store, factor), c)  # type: ignore[arg-type]
    return None


def _of_two(store: Store, one: Term, other: Term) -> Polynomial | None:
    """``c f(u) - c f(v)`` as ``c u - c v`` for a function f that grows strictly."""
    c = one.coefficient
    u, v = _exponent(store, one.monomial), _exponent(store, other.monomial)
    if u is not None and v is not None and one.monomial and other.monomial:
        return scale(add(store, u, scale(v, -1)), c)
    if len(one.monomial) != 1 or len(other.monomial) != 1:
        return None
    f, g = one.monomial[0], other.monomial[0]
    if f.exponent != g.exponent:
        return None
    e = f.exponent
    if e != 1:
        if e < 0 or (e.denominator == 1 and e % 2 == 0):
            return None
        bases = [monomial(store, s, (Factor(h.atom, 1, h.at),)) for h, s in ((f, c), (g, -c))]
        return polynomial(store, bases)
    op = store.atoms[f.atom].op
    if op != store.atoms[g.atom].op or not grows_strictly(op):
        return None
    return scale(add(store, argument_of(store, f), scale(argument_of(store, g), -1)), c)


def grows_strictly(op: str) -> bool:
    """True for a function of one number that gives larger numbers larger values; roundings give some the same."""
    declared = FUNCTIONS.get(op)
    if declared is None or declared.integer or declared.arity != 1 or op in ROUNDINGS.values():  # these grow in steps
        return op == "log"
    return declared.growing


def _exponent(store: Store, m: Monomial) -> Polynomial | None:
    """u of a product of exponentials ``exp(u)``; ``None`` for another product."""
    total: Polynomial = ()
    for factor in m:
        if store.atoms[factor.atom].op != "exp":
            return None
        total = add(store, total, scale(argument_of(store, factor), factor.exponent))
    return total


def root_of(x: Polynomial) -> Monomial | None:
    """u, if x is ``u^2`` for a product u."""
    if len(x) != 1 or x[0].coefficient != 1 or not x[0].monomial:
        return None
    if any(f.exponent.denominator != 1 or f.exponent % 2 for f in x[0].monomial):
        return None
    return tuple(f._replace(exponent=int(f.exponent) // 2) for f in x[0].monomial)


def members_of(store: Store, factor: Factor) -> list[Polynomial] | None:
    """The values whose maximum a factor is: of a maximum of a few values, or of an absolute value, which is that of u
    and -u; ``None`` for another factor."""
    atom = store.atoms[factor.atom]
    if atom.op == "polynomial" and factor.exponent == Fraction(1, 2):
        root = root_of(argument_of(store, factor))
        u = None if root is None else polynomial(store, [monomial(store, 1, root)])
        return None if u is None else [u, scale(u, -1)]
    if atom.op != "max" or factor.exponent != 1:
        return None
    formal = argument_of(store, factor)
    if any(len(m) != 1 or store.atoms[m[0].atom].op != "element" for m, _ in formal):
        return None
    if store.effort.exceeds("maximum_members", len(formal)):
        return None
    return [argument_of(store, m[0]) for m, _ in formal]
