"""Maxima of booleans, which tell whether any mask of a row holds: 1 in a product with one of the masks."""

from __future__ import annotations

from collections.abc import Sequence

from tantamount.calculus.affine import Coordinate, Index, coordinate, fixed, substitute_index, variable
from tantamount.calculus.atoms import Store
from tantamount.calculus.comparisons import interval
from tantamount.calculus.products import substitute_polynomial
from tantamount.calculus.sums import flatten
from tantamount.calculus.terms import Factor, Flat, Polynomial, Ranges, Term

__all__ = ["some_hold"]

_FIRST = 1 << 16  # bound variables of a set are numbered from here on, apart from those of the product


def some_hold(
    store: Store, flat: Flat, literals: Sequence[tuple[Factor, int]], box: Ranges
) -> dict[tuple[int, Index], int]:
    """The maxima of booleans inside the factors of a product of which a literal is a member, each with its value 1.

    ``literals`` are booleans, each with the value that it has where the product is not 0."""
    known = store.memo.boolean_maxima
    if not known or not literals:
        return {}
    out: dict[tuple[int, Index], int] = {}
    for factor in flat.factors:
        for number, index in _maxima(store, factor):
            if (number, index) in out:
                continue
            elements = substitute_polynomial(store.atoms[number].arguments[0], dict(enumerate(index)))
            if any(_is_member(store, term, literals, flat.ranges, box) for term in elements):
                out[number, index] = 1
                store.fired["some-mask-holds"] += 1
    return out


def _maxima(store: Store, factor: Factor) -> list[tuple[int, Index]]:
    """The maxima of booleans inside a factor, at indices that do not depend on what is bound inside it."""
    known = store.memo.boolean_maxima
    found: list[tuple[int, Index]] = []
    pending: list[tuple[int, Index]] = [(factor.atom, factor.at)]
    while pending:
        number, index = pending.pop()
        atom = store.atoms[number]
        if number in known:
            found.append((number, index))
            continue
        if atom.op in ("leaf", "sum", "max", "element", "pair") or not any(a in known for a in atom.guards):
            continue
        replace = dict(enumerate(index))
        for x in atom.arguments:
            for m, _ in x:
                pending.extend((a, substitute_index(at, replace)) for a, _, at in m)
    return found


def _is_member(
    store: Store, term: Term, literals: Sequence[tuple[Factor, int]],
    ranges: tuple[int, ...], box: Ranges,
) -> bool:  # fmt: skip
    """True if the literals say that one member of a set of booleans, ``element`` atoms summed over a range, holds."""
    inner = flatten(store, term.monomial, 1)
    if len(inner.factors) != 1 or store.atoms[inner.factors[0][0]].op != "element":
        return False
    a, _, index = inner.factors[0]
    # what the set binds gets numbers of its own: those of the product are bound outside
    bound = {v for parts, _ in index for v, _ in parts if v < 0} if inner.ranges else set[int]()
    outside = {v for f in term.monomial for parts, _ in f.at for v, _ in parts if v < 0}
    if outside and inner.ranges:
        return False
    apart: dict[int, Coordinate] = {v: variable(_FIRST - 1 - v) for v in bound}
    inside = dict(enumerate(substitute_index(index, apart)))
    member: Polynomial = substitute_polynomial(store.atoms[a].arguments[0], inside)
    free = {_FIRST + j: n for j, n in enumerate(inner.ranges)}
    if len(member) == 1 and member[0][1] == 1:
        wanted = [(f, 1) for f in member[0][0]]
    elif len(member) == 2 and member[0] == Term((), 1) and member[1][1] == -1 and len(member[1][0]) == 1:
        wanted = [(member[1][0][0], 0)]
    else:
        return False
    opened: list[tuple[Factor, int]] = []
    for f, value in wanted:
        atom = store.atoms[f.atom]
        x = atom.arguments[0] if atom.op == "polynomial" else ()
        if len(x) == 2 and x[0] == Term((), 1) and x[1][1] == -1 and len(x[1][0]) == 1:
            (b, e, at) = x[1][0][0]
            opened.append((Factor(b, e, substitute_index(at, dict(enumerate(f.at)))), 1 - value))
        else:
            opened.append((f, value))
    return _matched(opened, literals, free, {}, ranges, box)


def _matched(
    wanted: list[tuple[Factor, int]], literals: Sequence[tuple[Factor, int]], free: dict[int, int],
    chosen: dict[int, Coordinate], ranges: tuple[int, ...], box: Ranges,
) -> bool:  # fmt: skip
    if not wanted:
        return True
    (a, _, index), value = wanted[0]
    for (b, _, at), known in literals:
        if a != b or value != known:
            continue
        found = _unified(index, at, free, chosen, ranges, box)
        if found is not None and _matched(wanted[1:], literals, free, found, ranges, box):
            return True
    return False


def _unified(
    left: Index, right: Index, free: dict[int, int], chosen: dict[int, Coordinate], ranges: tuple[int, ...], box: Ranges
) -> dict[int, Coordinate] | None:
    """Values of the free variables, in their ranges, for which two indices are the same."""
    chosen = dict(chosen)
    for a, b in zip(substitute_index(left, chosen), right, strict=True):
        parts = dict(b[0])
        for v, s in a[0]:
            parts[v] = parts.get(v, 0) - s
        rest = coordinate({v: s for v, s in parts.items() if v not in free}, b[1] - a[1])
        unknown = [(v, -parts[v]) for v in parts if v in free and parts[v]]
        if not unknown:
            if rest != fixed(0):
                return None
            continue
        if len(unknown) > 1 or unknown[0][0] in chosen:
            return None
        v, stride = unknown[0]
        if any(s % stride for _, s in rest[0]) or rest[1] % stride:
            return None
        value = coordinate({w: s // stride for w, s in rest[0]}, rest[1] // stride)
        span = interval(value, box, ranges)
        if span is None or span[0] < 0 or span[1] >= free[v]:
            return None
        chosen[v] = value
    return chosen
