"""Checks that an implementation is defined wherever its specification is.

Both programs' forms say where they are undefined (:mod:`tantamount.calculus.definedness`). A proof needs two things of
every element: wherever the implementation may be undefined, the specification has no finite value; and wherever the
specification's form says nothing of its value (an infinity went into what may give a number), it has no finite value
either.
"""

from __future__ import annotations

from tantamount.calculus.affine import Coordinate, variable
from tantamount.calculus.atoms import Store
from tantamount.calculus.compare import solve
from tantamount.calculus.definedness import SOFT, body, kind_of, sites_of
from tantamount.calculus.forms import Box, Form, aligned, constant_form, intersect, pin
from tantamount.calculus.polynomials import add, polynomial
from tantamount.calculus.products import substitute_factors
from tantamount.calculus.rebuild import refresh
from tantamount.calculus.sums import flatten
from tantamount.calculus.terms import ZERO, Factors, Polynomial, Term
from tantamount.sizes.symbolic import is_size

__all__ = ["undefined_clause"]


def undefined_clause(store: Store, wanted: Form, found: Form) -> str | None:
    """``None`` if the implementation's tensor is defined wherever the specification's is finite; else one clause that
    names a node. Both forms have one shape, and their records are compared element by element."""
    if wanted.undefined is None and found.undefined is None:
        return None
    none = constant_form(wanted.shape, ZERO)
    ours, theirs = aligned(store, [wanted.undefined or none, found.undefined or none])
    sizes = ours.sizes
    for box, x in ours.pieces:
        for other, y in theirs.pieces:
            cell = intersect(box, other)
            if cell is None:
                continue
            a, b = refresh(store, pin(store, cell, x, sizes)), refresh(store, pin(store, cell, y, sizes))
            excluded = [body(store, t) for t in a if kind_of(store, t) != SOFT]
            for mine, terms in ((True, a), (False, b)):
                for term in terms:
                    if mine and kind_of(store, term) != SOFT:
                        continue
                    conditions = body(store, term)
                    if not _implied(store, conditions, excluded, cell):
                        return _clause(store, conditions, mine)
    return None


def _clause(store: Store, conditions: Factors, mine: bool) -> str:
    places = _sites(store, conditions, mine)
    if mine:
        where = f" because of {places}" if places else ""
        return f"the specification may be finite where its normal form is not defined{where}"
    return f"{places or 'a value'} may be undefined where the specification is finite"


def _sites(store: Store, conditions: Factors, mine: bool) -> str:
    """The nodes, of one side if it has some, at which one of the conditions arose."""
    known = sites_of(store)
    pending = [a for a, _, _ in conditions]
    seen: set[int] = set()
    found: dict[str, None] = {}
    while pending:
        number = pending.pop()
        if number in seen:
            continue
        seen.add(number)
        found.update(known.get(number, {}))
        atom = store.atoms[number]
        if atom.op in ("sum", "polynomial", "not"):
            pending.extend(a for x in atom.arguments for m, _ in x for a, _, _ in m)
    own = [site for site in found if site.startswith("specification ") == mine] or list(found)
    return ", ".join(site.removeprefix("specification ") for site in own[:3])


def _implied(store: Store, conditions: Factors, excluded: list[Factors], box: Box) -> bool:
    """True if a condition holds only where one of the others does, at the same element."""
    if any(set(other) <= set(conditions) for other in excluded):
        return True
    if any(_instance(store, conditions, other, box) for other in excluded):
        return True
    if not excluded:
        return False
    whole: Polynomial = polynomial(store, [Term(other, 1) for other in excluded], box)
    both = add(store, whole, (Term(conditions, 1),), box=box)
    for _ in range(3):
        both = polynomial(store, [Term(m, 1) for m, _ in both], box)
    return both == whole


def _instance(store: Store, conditions: Factors, other: Factors, box: Box) -> bool:
    """True if ``conditions`` is one summand of ``other``, or a sum of such: ``t[i]`` of ``SUM_j t[j]``."""
    mine, theirs = flatten(store, conditions, 1), flatten(store, other, 1)
    if any(is_size(n) for n in (*mine.ranges, *theirs.ranges)):
        return False
    n = len(box)

    def opened(factors: Factors, count: int) -> Polynomial:
        axes: dict[int, Coordinate] = {-1 - j: variable(n + j) for j in range(count)}
        return polynomial(store, [Term(substitute_factors(factors, axes), 1)])

    y = opened(mine.factors, len(mine.ranges))
    x = opened(theirs.factors, len(theirs.ranges))
    here: Box = (*box, *((0, size) for size in mine.ranges))
    there: Box = (*box, *((0, size) for size in theirs.ranges))
    solution = solve(store, there, x, here, y, anywhere=True)
    if solution is None:
        return False
    used = {v for m, _ in x for _, _, index in m for parts, _ in index for v, _ in parts}
    return all(solution.get(v) == variable(v) or v not in used or box[v][1] - box[v][0] == 1 for v in range(n))
