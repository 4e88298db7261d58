"""Products multiplied out on demand.

Sums are multiplied out at the top and inside the summands there, and the exponents of exponentials. All of it is
bounded; what would grow beyond a bound stays as it is.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Mapping, Set
from functools import partial
from math import prod

from tantamount.calculus import powers
from tantamount.calculus.answers import GaveUp
from tantamount.calculus.atoms import Store
from tantamount.calculus.boxes import Box
from tantamount.calculus.polynomials import add, multiply, pinned, polynomial, scale
from tantamount.calculus.products import exact, substitute_factors
from tantamount.calculus.sums import close, flatten, signature
from tantamount.calculus.terms import Exponent, Factor, Flat, Polynomial, Term, single
from tantamount.errors import Unsupported

__all__ = ["MANY", "Axes", "distribute", "products_out", "spend"]

MANY = 1 << 64  # terms: nobody counts further
Axes = Box | Mapping[int, tuple[int, int]]  # the intervals of axes 0, 1, ..., or of some by number


def distribute(store: Store, x: Polynomial, box: Axes = ()) -> Polynomial:
    """The Polynomial with products of sums multiplied out, also inside its summands and the exponents of exp: a
    polynomial in atoms. What would grow beyond a bound stays as it is. ``box`` bounds the axes, for what guards may
    conclude."""
    out = x
    for _ in range(store.effort.bounds.expansion_depth):
        new = _exponents(store, products_out(store, out, box), box)
        if new == out:
            return out
        out = new
    store.effort.hit("expansion_depth")
    return out


def products_out(store: Store, x: Polynomial, box: Axes, most: int = MANY) -> Polynomial:
    """Products multiplied out, sums of sums before the sums inside them, and what not all terms share before what they
    do, as long as there are at most so many terms: what cancels then is not multiplied out further. Programs that name
    their sums at different places differ in the outer ones only."""
    height = _height(store, x)
    while height:
        kept = _shared(store, x)
        new = _each(store, x, partial(_opened, store, height, box, kept))
        if new == x and kept:
            kept = frozenset[tuple[int, Exponent]]()
            new = _each(store, x, partial(_opened, store, height, box, kept))
        if new is None or len(new) > most:
            return x
        x, height = new, min(height if kept else height - 1, _height(store, new))
    return x


def _shared(store: Store, x: Polynomial) -> frozenset[tuple[int, Exponent]]:
    """The powers of atoms that all terms have, be it inside of a sum."""
    found = [frozenset(signature(store, m)) for m, _ in x]
    return found[0].intersection(*found[1:]) if len(found) > 1 else frozenset()


def _exponents(store: Store, x: Polynomial, box: Axes) -> Polynomial:
    """The exponents of exponentials multiplied out."""
    new = _each(store, x, lambda t: _exponentials_of(store, t, box))
    return x if new is None else new


def _each(store: Store, x: Polynomial, of: Callable[[Term], Polynomial]) -> Polynomial | None:
    """Every term replaced; ``None`` if that would be too long."""
    parts: list[Polynomial] = []
    total = 0
    for term in x:
        part = of(term)
        total += len(part)
        if store.effort.exceeds("expanded_terms", total):
            return None
        parts.append(part)
    return polynomial(store, (t for part in parts for t in part))


def _exponentials_of(store: Store, term: Term, box: Axes) -> Polynomial:
    m, c = term
    exponentials = [f for f in m if store.atoms[f.atom].op == "exp"]
    if not exponentials:
        return (term,)
    out: Polynomial = (Term(tuple(f for f in m if store.atoms[f.atom].op != "exp"), c),)
    for factor in _exponentials(store, exponentials, box):
        out = add(store, *(multiply(store, (t,), factor) for t in out))
    return out


def _exponentials(store: Store, factors: list[Factor], box: Axes) -> list[Polynomial]:
    """Exponentials with their exponents multiplied out. Exponents of which parts merge become one:
    ``exp(sum[b<2] x[b]) exp(-x[0]) = exp(x[1])``."""
    out: list[Polynomial] = []
    exponents: list[Polynomial] = []
    for a, e, index in factors:
        argument = pinned(store, store.atoms[a].arguments[0], dict(enumerate(index)))
        expanded = _exponents(store, products_out(store, argument, box), box)
        factor: Polynomial = single(a, index, exponent=e)
        if expanded != argument:
            with contextlib.suppress(Unsupported):
                factor = powers.exponential(store, scale(expanded, e))
                argument = expanded
        out.append(factor)
        exponents.append(scale(argument, e))
    if len(factors) > 1:
        together = add(store, *exponents)
        if len(together) < sum(map(len, exponents)):
            with contextlib.suppress(Unsupported):
                return [powers.exponential(store, together)]
    return out


def _opened(store: Store, height: int, box: Axes, kept: Set[tuple[int, Exponent]], term: Term) -> Polynomial:
    """A term with its sums of sums of this height multiplied out, and no others, nor those that are ``kept``."""
    if not any(_height_of(store, f) >= height for f in term.monomial):
        return (term,)
    others = tuple(f for f in term.monomial if store.atoms[f.atom].op != "exp")
    pending = [flatten(store, others, term.coefficient)]

    def opens(f: Factor) -> bool:
        return _height_of(store, f) == height and (f.atom, f.exponent) not in kept and _is_sum(store, f)

    opened = [f for f in pending[0].factors if opens(f)]
    if not opened or store.effort.exceeds("expanded_terms", _count(store, opened)):
        return (term,)
    done: list[Flat] = []
    while pending:
        current = pending.pop()
        chosen = next(filter(opens, current.factors), None)
        if chosen is None:
            done.append(current)
            continue
        store.fired["multiplying-out"] += 1
        a, e, index = chosen
        rest = list(current.factors)
        rest.remove(chosen)
        if e != 1:
            rest.append(Factor(a, exact(e - 1), index))
        replace = dict(enumerate(index))
        for n, d in store.atoms[a].arguments[0]:
            factors = (*rest, *substitute_factors(n, replace))
            pending.append(flatten(store, factors, exact(current.coefficient * d), current.ranges))
    spend(store, sum(len(f.factors) + len(f.ranges) for f in done))
    out = polynomial(store, (t for f in done for t in close(store, f, box or None)))
    for a, e, index in (f for f in term.monomial if store.atoms[f.atom].op == "exp"):
        out = add(store, *(multiply(store, (t,), single(a, index, exponent=e)) for t in out))
    return out


def spend(store: Store, effort: int) -> None:
    """Give a search up that becomes too long (outside of a search nothing is counted)."""
    store.effort.check()
    if store.left is None:
        return
    store.left -= effort
    if store.left < 0:
        most = store.effort.bounds.search_effort
        store.effort.hit("search_effort", most - store.left)
        raise GaveUp(f"a search that takes more than {most} factors")


def _count(store: Store, sums: Iterable[Factor]) -> int:
    """The number of terms that a product of sums has, before equal ones are added; at most :data:`MANY`."""
    return min(MANY, prod(len(store.atoms[f.atom].arguments[0]) ** int(f.exponent) for f in sums))


def _height(store: Store, x: Polynomial) -> int:
    """How many sums of sums lie inside each other in the products of a Polynomial."""
    return max((_height_of(store, f) for m, _ in x for f in m), default=0)


def _height_of(store: Store, f: Factor) -> int:
    """That of a factor: of a sum to a whole power, or of a summed product."""
    op = store.atoms[f.atom].op
    if op not in ("polynomial", "sum") or not isinstance(f.exponent, int) or f.exponent < 1:
        return 0
    inside = store.memo.heights.get(f.atom)
    if inside is None:
        inside = store.memo.heights[f.atom] = _height(store, store.atoms[f.atom].arguments[0])
    return inside + (op == "polynomial")


def _is_sum(store: Store, f: Factor) -> bool:
    """True if a factor is a sum to a whole power that is multiplied out."""
    if store.atoms[f.atom].op != "polynomial" or not isinstance(f.exponent, int) or f.exponent < 1:
        return False
    return not store.effort.exceeds("multiplied_power", f.exponent)
