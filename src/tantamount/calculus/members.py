"""Values that are never negative for a reason that no interval of a part shows.

A sum of what is not negative is no less than one of its members, ``sum over a of exp(x_a) >= exp(x_j)``; a maximum is
no less than its members and no less than their mean; and a quadratic form is a sum of squares if elimination leaves
squares with positive factors: ``x^2 - 2 x y + y^2 = (x - y)^2``.
"""

from __future__ import annotations

from fractions import Fraction

from tantamount.calculus import signs
from tantamount.calculus.affine import Coordinate, substitute_index
from tantamount.calculus.atoms import Store
from tantamount.calculus.infinities import unbounded
from tantamount.calculus.naming import bound_variables
from tantamount.calculus.polynomials import add
from tantamount.calculus.products import is_positive, monomial
from tantamount.calculus.spans import interval
from tantamount.calculus.terms import IOTA, Factor, Monomial, Polynomial, Ranges, Term
from tantamount.sizes.symbolic import is_size

__all__ = ["never_negative", "position_in"]


def never_negative(store: Store, x: Polynomial, box: Ranges) -> bool:
    """True if x was shown to be at least 0 wherever it is defined, on a box of the axes."""
    if len(x) < 2 or any(is_size(c) for _, c in x) or not any(c < 0 for _, c in x):
        return False
    if store.effort.exceeds("member_terms", len(x)):
        return False
    if unbounded(store, x):
        return False
    return _is_sum_of_squares(store, x) or _covers_members(store, x, box)


# ------------------------------------------------------------------------------------------------ members
def _covers_members(store: Store, x: Polynomial, box: Ranges) -> bool:
    """x without a sum or a maximum, and without a member of it or all of them, is not negative."""
    for total in x:
        if total.coefficient <= 0 or len(total.monomial) != 1 or total.monomial[0].exponent != 1:
            continue
        (factor,) = total.monomial
        op = store.atoms[factor.atom].op
        for part in x:
            if part.coefficient >= 0 or total.coefficient + part.coefficient < 0:
                continue
            covered = (
                _not_negative(store, factor) and _is_member(store, factor, part.monomial, box)
                if op == "sum"
                else op == "max" and _is_of_maximum(store, factor, part.monomial, box)
            )
            if not covered:
                continue
            rest = tuple(t for t in x if t not in (total, part))
            left = add(store, rest, (Term(total.monomial, total.coefficient + part.coefficient),))
            if _at_least_zero(store, left, box) or never_negative(store, left, box):
                return True
        if op == "max" and _covers_mean(store, x, total, factor):
            return True
    return False


def _at_least_zero(store: Store, x: Polynomial, box: Ranges) -> bool:
    low = signs.enclosure(store, x, box).low
    return low.at >= 0


def _not_negative(store: Store, factor: Factor) -> bool:
    return is_positive(store, store.atoms[factor.atom].summand)


def _is_member(store: Store, total: Factor, m: Monomial, box: Ranges) -> bool:
    """True if a product is a summand of a sum over one range."""
    atom = store.atoms[total.atom]
    if len(atom.ranges) != 1 or is_size(atom.ranges[0]):
        return False
    here = dict(enumerate(total.at))
    summand = tuple(Factor(b, e, substitute_index(at, here)) for b, e, at in atom.summand)
    for f in summand:
        for g in m:
            if g.atom != f.atom or g.exponent != f.exponent:
                continue
            v = position_in(f, g)
            if v is None:
                continue
            span = interval(v, box, ())
            if span is None or span[0] < 0 or span[1] >= atom.ranges[0]:
                continue
            if any(w < 0 for w, _ in v.parts):
                continue
            put = {-1: v}
            member, c = monomial(store, 1, [Factor(b, e, substitute_index(at, put)) for b, e, at in summand])
            if c == 1 and member == m:
                return True
    return False


def position_in(f: Factor, g: Factor, axis: int = -1) -> Coordinate | None:
    """The value of a variable of the one factor with which it is the other factor; ``None`` if none is seen."""
    for ours, theirs in zip(f.at, g.at, strict=True):
        parts = dict(ours.parts)
        step = parts.pop(axis, 0)
        if abs(step) != 1:
            continue
        difference = dict(theirs.parts)
        for v, s in parts.items():
            difference[v] = difference.get(v, 0) - s
        offset = theirs.offset - ours.offset
        return Coordinate(tuple(sorted((v, s * step) for v, s in difference.items() if s)), offset * step)
    return None


def _element_sum(store: Store, maximum: Factor) -> Factor | None:
    """The sum over a row, of which a maximum is the greatest summand; ``None`` if the maximum is of something else."""
    atom = store.atoms[maximum.atom]
    elements = atom.arguments[0]
    if len(elements) != 1 or elements[0].coefficient != 1 or len(elements[0].monomial) != 1:
        return None
    (row,) = elements[0].monomial
    inner = store.atoms[row.atom]
    if inner.op != "sum" or len(inner.summand) != 1 or store.atoms[inner.summand[0].atom].op != "element":
        return None
    return Factor(row.atom, 1, substitute_index(row.at, dict(enumerate(maximum.at))))


def _member_terms(store: Store, row: Factor) -> tuple[Polynomial, int] | None:
    """The member of the set of a maximum over one range, with the bound variable -1, and the length of the range."""
    atom = store.atoms[row.atom]
    if len(atom.ranges) != 1 or is_size(atom.ranges[0]):
        return None
    (element,) = atom.summand
    at = substitute_index(element.at, dict(enumerate(row.at)))
    argument = store.atoms[element.atom].arguments[0]
    here = dict(enumerate(at))
    member = tuple(
        Term(tuple(Factor(f.atom, f.exponent, substitute_index(f.at, here)) for f in m), c) for m, c in argument
    )
    return member, atom.ranges[0]


def _is_of_maximum(store: Store, maximum: Factor, m: Monomial, box: Ranges) -> bool:
    """True if a product is a member of the set of a maximum."""
    row = _element_sum(store, maximum)
    found = None if row is None else _member_terms(store, row)
    if found is None or len(found[0]) != 1 or found[0][0].coefficient != 1:
        return False
    (member, _), size = found[0][0], found[1]
    for f in member:
        for g in m:
            if g.atom != f.atom or g.exponent != f.exponent:
                continue
            v = position_in(f, g)
            if v is None or any(w < 0 for w, _ in v.parts):
                continue
            span = interval(v, box, ())
            if span is None or span[0] < 0 or span[1] >= size:
                continue
            one, c = monomial(store, 1, [Factor(b, e, substitute_index(at, {-1: v})) for b, e, at in member])
            if c == 1 and one == m:
                return True
    return False


def _covers_mean(store: Store, x: Polynomial, total: Term, maximum: Factor) -> bool:
    """True if x is ``c n max over a of x_a - c sum over a of x_a`` for n members."""
    row = _element_sum(store, maximum)
    found = None if row is None else _member_terms(store, row)
    if found is None or len(x) != 2 or len(found[0]) != 1 or found[0][0].coefficient != 1:
        return False
    other = next(t for t in x if t != total)
    if total.coefficient + other.coefficient * found[1] != 0 or len(other.monomial) != 1:
        return False
    (sum_,) = other.monomial
    atom = store.atoms[sum_.atom]
    if atom.op != "sum" or sum_.exponent != 1 or atom.ranges != (found[1],):
        return False
    here = dict(enumerate(sum_.at))
    summand = tuple(sorted(Factor(b, e, substitute_index(at, here)) for b, e, at in atom.summand))
    return summand == tuple(sorted(found[0][0].monomial))


# ------------------------------------------------------------------------------------------------ squares
def _is_sum_of_squares(store: Store, x: Polynomial) -> bool:
    """True if x is a quadratic form in factors, and 1, that is not negative: all pivots of its elimination are."""
    variables: list[Factor | None] = []
    entries: dict[tuple[int, int], Fraction] = {}

    def number(f: Factor | None) -> int:
        if f not in variables:
            variables.append(f)
        return variables.index(f)

    for m, c in x:
        parts: list[Factor | None] = []
        for f in m:
            if f.exponent not in (1, 2) or f.atom == IOTA or bound_variables(f):
                return False
            parts += [f._replace(exponent=1)] * int(f.exponent)
        if len(parts) > 2:
            return False
        i, j = sorted(number(p) for p in [*parts, None, None][:2])
        entries[i, j] = entries.get((i, j), Fraction(0)) + Fraction(c)
    n = len(variables)
    if store.effort.exceeds("member_variables", n):
        return False
    form = [
        [entries.get((min(i, j), max(i, j)), Fraction(0)) / (1 if i == j else 2) for j in range(n)] for i in range(n)
    ]
    for k in range(n):
        pivot = form[k][k]
        if pivot < 0 or (pivot == 0 and any(form[k][j] for j in range(k, n))):
            return False
        if pivot == 0:
            continue
        for i in range(k + 1, n):
            for j in range(k + 1, n):
                form[i][j] -= form[i][k] * form[k][j] / pivot
        for i in range(k + 1, n):
            form[i][k] = form[k][i] = Fraction(0)
    return True
