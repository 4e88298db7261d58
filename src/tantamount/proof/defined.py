"""Checks that an implementation is defined wherever its specification is.

Both programs' forms say where they are undefined (:mod:`tantamount.calculus.records`). A proof needs two things of
every element, wherever the specification may be finite: the specification's form must be its value, and the
implementation must have a value, which must be the form's. So what a record says has to be implied by what leaves the
specification no finite value; but for zeros of which the form says that they are zeros.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from tantamount.calculus.affine import Coordinate, Index, variable
from tantamount.calculus.atoms import Store
from tantamount.calculus.compare import solve
from tantamount.calculus.expand import equal_polynomials
from tantamount.calculus.forms import Box, Form, aligned, constant_form, intersect, pin
from tantamount.calculus.infinities import unbounded
from tantamount.calculus.kinds import all_zero, is_strong
from tantamount.calculus.partial import is_zero
from tantamount.calculus.polynomials import add, as_factors, polynomial
from tantamount.calculus.products import substitute_factors
from tantamount.calculus.rebuild import Rebuild, refresh
from tantamount.calculus.records import body, kind_of, sites_of
from tantamount.calculus.sums import flatten
from tantamount.calculus.terms import ZERO, Factor, Factors, Flat, Polynomial, Term
from tantamount.errors import Unsupported
from tantamount.sizes.symbolic import is_size

__all__ = ["undefined_clause"]


def undefined_clause(store: Store, wanted: Form, found: Form) -> str | None:
    """``None`` if the implementation's tensor is defined wherever the specification's is finite; else one clause that
    names a node. Both forms have one shape, and their records are compared element by element."""
    if wanted.undefined is None and found.undefined is None:
        return None
    none = constant_form(wanted.shape, ZERO)
    forms = aligned(store, [wanted.undefined or none, found.undefined or none, wanted])
    sizes = forms[0].sizes
    for cell, polynomials in _cells(forms):
        a, b, value = (refresh(store, pin(store, cell, x, sizes)) for x in polynomials)
        excluded = [body(store, t) for t in a if is_strong(kind_of(store, t))]
        shown: list[Factors] = []  # more, each of which holds only where one of those does
        for mine, terms in ((True, a), (False, b)):
            for term in sorted(terms, key=lambda t: len(t.monomial)):
                kind, conditions = kind_of(store, term), body(store, term)
                if mine and is_strong(kind):
                    continue
                if all_zero(kind, or_undefined=mine) and (
                    _vanishes(store, value, conditions, cell)
                    or any(
                        all_zero(kind_of(store, t), or_undefined=not mine) and set(body(store, t)) <= set(conditions)
                        for t in (b if mine else a)
                    )
                ):
                    continue
                if any(set(other) <= set(conditions) for other in shown):
                    continue
                if not _implied(store, conditions, excluded, cell) and not _never(store, conditions, cell):
                    return _clause(store, conditions, mine)
                shown.append(conditions)
    return None


def _never(store: Store, conditions: Factors, box: Box) -> bool:
    """True if the conditions, computed anew on the box, hold nowhere: a permutation leaves nothing unwritten, and
    groups that end at the last row no row."""
    both: Polynomial = (Term(conditions, 1),)
    try:
        rebuild = Rebuild(store, budget=store.effort.bounds.recomputed_factors, box=box)
        return not rebuild.polynomial(both) or equal_polynomials(store, both, ZERO, box).proved
    except Unsupported:
        return False


def _cells(forms: Sequence[Form]) -> Iterator[tuple[Box, list[Polynomial]]]:
    """The common boxes of aligned forms' pieces, with the polynomial of each form there."""
    first, *others = forms
    for box, x in first.pieces:
        if not others:
            yield box, [x]
            continue
        for other, ys in _cells(others):
            cell = intersect(box, other)
            if cell is not None:
                yield cell, [x, *ys]


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


def _vanishes(store: Store, x: Polynomial, conditions: Factors, box: Box) -> bool:
    """True if a form is 0 wherever some conditions hold: one of them is that a factor of it is 0."""
    if not x:
        return True
    if unbounded(store, x):
        return False
    for factor in as_factors(store, x)[1]:
        if factor.exponent <= 0:
            continue
        zero = is_zero(store, polynomial(store, [Term((factor._replace(exponent=1),), 1)], box), box)
        if zero:
            c, needed = as_factors(store, zero)
            if c == 1 and set(needed) <= set(conditions):
                return True
    return False


def _implied(store: Store, conditions: Factors, excluded: list[Factors], box: Box) -> bool:
    """True if a condition holds only where one of the others does, at the same element."""
    if any(set(other) <= set(conditions) for other in excluded):
        return True
    if any(_instance(store, conditions, other, box) for other in excluded):
        return True
    if not excluded:
        return False
    if _follows(store, [(f, 1) for f in conditions], excluded, {}):
        return True
    whole: Polynomial = polynomial(store, [Term(other, 1) for other in excluded], box)
    both = add(store, whole, (Term(conditions, 1),), box=box)
    rounds = 0
    while both != whole:
        found = polynomial(store, [Term(m, 1) for m, _ in both], box)  # true where both are
        rounds += 1
        if found == both or store.effort.exceeds("implied_rounds", rounds):
            return _same_condition(store, conditions, excluded, box)
        both = found
    return True


def _same_condition(store: Store, conditions: Factors, excluded: Sequence[Factors], box: Box) -> bool:
    """True if a conjunction that applies the same operators is equal by what makes values equal: the k-th of a row is
    the one that ``topk`` or a sort has found."""
    ops = sorted(store.atoms[f.atom].op for f in conditions)
    alike = [other for other in excluded if sorted(store.atoms[f.atom].op for f in other) == ops]
    return any(
        equal_polynomials(store, (Term(conditions, 1),), (Term(other, 1),), box).proved
        for other in store.effort.first("conditions_compared", alike)
    )


_Known = Mapping[tuple[int, Index], int]  # booleans at places, with their truth values


def _follows(
    store: Store, premises: Sequence[tuple[Factor, int]], excluded: Sequence[Factors], known: _Known, depth: int = 0
) -> bool:
    """True if one of some conjunctions holds whenever all premises do, by cases: propositional reasoning over booleans,
    conjunctions and their negations."""
    known = dict(known)
    pending = list(premises)
    open_: list[tuple[Factor, int]] = []
    settled = False
    while not settled:
        settled = True
        open_ = []
        for factor, value in pending:
            found = _truth(store, factor, known)
            if found is not None and found != value:
                return True  # the premises contradict each other
            if found is not None:
                continue
            inner = _negated(store, factor)
            unknown = [f for f in inner or () if _truth(store, f, known) is None]
            if inner is None:
                known[factor.atom, factor.at] = value
                settled = False
            elif value == 0 or len(unknown) == 1:  # all of them hold; one of them does not
                open_.extend((f, 1 - value) for f in unknown)
                settled = False
            else:
                open_.append((factor, value))
        pending = open_
    left: list[list[Factor]] = []
    for conjunction in excluded:
        truths = [_truth(store, f, known) for f in conjunction]
        if 0 not in truths:
            left.append([f for f, truth in zip(conjunction, truths, strict=True) if truth is None])
    if not all(left):
        return True
    if not left or store.effort.exceeds("implied_cases", depth + 1):
        return False
    case = min(left, key=len)[0]  # not all of them are known
    while (inner := _negated(store, case)) is not None:
        case = next(f for f in inner if _truth(store, f, known) is None)
    return all(_follows(store, [*pending, (case, value)], excluded, known, depth + 1) for value in (1, 0))


def _negated(store: Store, factor: Factor) -> Factors | None:
    """The conjunction that a boolean is the negation of; ``None`` if it is not written as one."""
    atom = store.atoms[factor.atom]
    if atom.op not in ("polynomial", "not") or not atom.facts.boolean:
        return None
    inner = atom.arguments[0]
    if len(inner) != 2 or inner[0] != Term((), 1) or inner[1].coefficient != -1:
        return None
    return substitute_factors(inner[1].monomial, dict(enumerate(factor.at)))


def _truth(
    store: Store, factor: Factor, known: _Known, found: dict[tuple[int, Index], int | None] | None = None
) -> int | None:
    """The truth value of a boolean, if it follows from those that are known. ``found`` has those of the booleans that
    were looked at on the way: what is inside of several of them is looked at once."""
    found = {} if found is None else found
    key = factor.atom, factor.at
    if key not in found:
        inner = _negated(store, factor)
        if inner is None:
            found[key] = known.get(key)
        else:
            truths = [_truth(store, f, known, found) for f in inner]
            found[key] = 1 if 0 in truths else None if None in truths else 0
    return found[key]


def _instance(store: Store, conditions: Factors, other: Factors, box: Box) -> bool:
    """True if ``conditions`` is one summand of ``other``, or a sum of such, with more conditions or without:
    ``t[i] u[i]`` of ``SUM_j t[j]``."""
    mine, theirs = flatten(store, conditions, 1), flatten(store, other, 1)
    needed = {factor.atom for factor in theirs.factors}
    if any(is_size(n) for n in (*mine.ranges, *theirs.ranges)):
        return False
    if set(theirs.factors) <= set(mine.factors) and _within(theirs, mine.ranges):
        return True
    n = len(box)

    def opened(factors: Factors, count: int) -> Polynomial:
        axes: dict[int, Coordinate] = {-1 - j: variable(n + j) for j in range(count)}
        return polynomial(store, [Term(substitute_factors(factors, axes), 1)])

    y = opened(tuple(factor for factor in mine.factors if factor.atom in needed), len(mine.ranges))
    x = opened(theirs.factors, len(theirs.ranges))
    here: Box = (*box, *((0, size) for size in mine.ranges))
    there: Box = (*box, *((0, size) for size in theirs.ranges))
    solution = solve(store, there, x, here, y, anywhere=True)
    if solution is None:
        return False
    used = {v for m, _ in x for _, _, index in m for parts, _ in index for v, _ in parts}
    return all(solution.get(v) == variable(v) or v not in used or box[v][1] - box[v][0] == 1 for v in range(n))


def _within(theirs: Flat, ranges: tuple[int, ...]) -> bool:
    """True if each index that the factors of a sum read is one of it, where it takes no more values than that."""
    used = {-1 - v for f in theirs.factors for parts, _ in f.at for v, _ in parts if v < 0}
    return all(j < len(ranges) and ranges[j] <= theirs.ranges[j] for j in used)
