"""Reductions: sums of products over bound variables, boxed as atoms, and the merging of partial sums.

A *flat* term is ``coefficient * SUM over bound variables of a product of factors`` in prenex form. :func:`close` turns
it into monomials: factors free of bound variables stay outside, every connected component of the rest becomes one
``sum`` atom. So a sum has one representation for every exponent, and ``(sum y) * (sum y)**-1`` cancels. :func:`merge`
adds flat terms of one shape as weighted sets of points, so partial sums of shards become the sum of the whole.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import permutations
from math import prod
from typing import Any, NamedTuple

from tantamount.calculus.affine import Coordinate, fixed, substitute, variable
from tantamount.calculus.atoms import Store, ValueFacts
from tantamount.calculus.boxes import Weighted, combination, decompose, independent, progression
from tantamount.calculus.naming import bound_variables, canonical
from tantamount.calculus.products import (
    exact,
    is_nonnegative,
    is_positive,
    is_symbolic_number,
    monomial,
    substitute_factors,
    substitute_polynomial,
)
from tantamount.calculus.terms import IOTA, Exponent, Factor, Factors, Flat, Ranges, Rational, Term, factors_of
from tantamount.effort import Effort
from tantamount.sizes.symbolic import is_one, is_size

__all__ = ["Flat", "close", "flatten", "merge", "signature"]


def signature(store: Store, factors: Factors) -> tuple[tuple[int, Exponent], ...]:
    """The multiset of (atom, exponent) after opening sums: terms that could merge agree in it."""
    if all(store.atoms[a].op != "sum" for a, _, _ in factors):
        return tuple((a, e) for a, e, _ in factors)  # already sorted
    found: list[tuple[int, Exponent]] = []
    for a, e, _ in factors:
        found.extend(store.atoms[a].signature if e == 1 else ((a, e),))
    return tuple(sorted(found))


def _open(store: Store, factor: Factor, start: int) -> tuple[Factors, tuple[int, ...]]:
    """The summand of a sum atom at an index, bound variables numbered from ``start``."""
    atom = store.atoms[factor.atom]
    replace: dict[int, Coordinate] = dict(enumerate(factor.at))
    for j in range(len(atom.ranges)):
        replace[-1 - j] = variable(-1 - start - j)
    return substitute_factors(atom.summand, replace), atom.ranges


def flatten(
    store: Store, factors: Factors, coefficient: Rational, ranges: tuple[int, ...] = (), only_bound: bool = False
) -> Flat:
    """Open every first power of a sum (with ``only_bound``, those whose coordinates mention a bound variable) that is
    not too long: a product of n matrices is a sum of products of n factors, and a power of a power soon has thousands.
    """
    pending = list(factors)
    done: list[Factor] = []
    while pending:
        factor = pending.pop()
        atom = store.atoms[factor.atom]
        if (
            atom.op == "sum"
            and factor.exponent == 1
            and (not only_bound or bound_variables(factor))
            and not store.effort.exceeds("opened_factors", len(atom.summand))
        ):
            inner, extra = _open(store, factor, len(ranges))
            ranges = (*ranges, *extra)
            pending.extend(inner)
        else:
            done.append(factor)
    return Flat(coefficient, tuple(done), ranges)


def close(store: Store, flat: Flat, box: Ranges = None) -> list[Term]:
    """The flat term as monomials (several where a lone sum of terms is summed term by term)."""
    out: list[Term] = []
    work = [flat]
    while work:
        store.effort.check()
        current = _normalised(store, work.pop())
        if current is None:
            continue
        more = store.simplify(current, box)
        if more is not None:
            store.fired["guards"] += 1
            work.extend(more)
            continue
        parts = _distribute(store, current)
        if parts is not None:
            store.fired["linear-sums"] += 1
            work.extend(parts)
            continue
        fewer = _without_place(store, current, box)
        if fewer is not None:
            store.fired["found-once"] += 1
            work.append(fewer)  # other variables of what was left out may be nowhere else: each counts its range
            continue
        out.append(_box(store, current, box))
    return [term for term in out if term.coefficient]


def _normalised(store: Store, flat: Flat) -> Flat | None:
    """Combine factors, open nested sums, drop unit and unused bound variables, merge mixed-radix pairs."""
    flat = flatten(store, flat.factors, flat.coefficient, flat.ranges, only_bound=True)
    factors, coefficient = monomial(store, flat.coefficient, flat.factors)
    if not coefficient or 0 in flat.ranges:
        return None
    units: dict[int, Coordinate] = {-1 - j: fixed(0) for j, n in enumerate(flat.ranges) if is_one(n)}
    if units:
        factors, coefficient = monomial(store, coefficient, substitute_factors(factors, units))
    used = {v for f in factors for v in bound_variables(f)}
    live: dict[int, int] = {}
    for j, n in enumerate(flat.ranges):
        if -1 - j in used:
            live[-1 - j] = n
        elif is_size(n):
            factors = (*factors, Factor(IOTA, 1, (fixed(n),)))
        elif n != 1:
            coefficient *= n
    before = len(live)
    store.fired["unused-variables"] += before < len(flat.ranges) - len(units)
    factors, live = _merge_radix(store.effort, factors, live)
    store.fired["digits"] += len(live) < before
    rename: dict[int, Coordinate] = {v: variable(-1 - j) for j, v in enumerate(live)}
    factors, coefficient = monomial(store, coefficient, substitute_factors(factors, rename))
    return Flat(coefficient, factors, tuple(live.values()))


def _vectors(factors: Factors, live: dict[int, int]) -> dict[int, dict[tuple[int, int], int]]:
    vectors: dict[int, dict[tuple[int, int], int]] = {v: {} for v in live}
    for i, (_, _, index) in enumerate(factors):
        for k, (parts, _) in enumerate(index):
            for v, s in parts:
                if v < 0:
                    vectors[v][i, k] = s
    return vectors


def _merge_radix(effort: Effort, factors: Factors, live: dict[int, int]) -> tuple[Factors, dict[int, int]]:
    """``u`` and ``v`` with stride(u) = n_v * stride(v) everywhere are the digits of one variable of range n_u * n_v.
    Variables first run in the direction in which their first stride is positive."""
    vectors = _vectors(factors, live)
    flips: dict[int, Coordinate] = {v: variable(v, -1, live[v] - 1) for v, d in vectors.items() if d[min(d)] < 0}
    if flips:
        factors = substitute_factors(factors, flips)
        vectors = _vectors(factors, live)
    live = dict(live)
    changed = len(live) > 1
    while changed:
        changed = False
        for u, v in permutations(live, 2):
            effort.check()
            if vectors[u].keys() == vectors[v].keys() and all(
                s == vectors[v][key] * live[v] for key, s in vectors[u].items()
            ):
                factors = substitute_factors(factors, {u: fixed(0)})
                live[v] *= live.pop(u)
                changed = len(live) > 1
                break
    return factors, live


def _components(flat: Flat) -> tuple[list[Factor], list[tuple[list[Factor], list[int]]]]:
    """Factors without bound variables, and the connected components of the others with their variables."""
    free: list[Factor] = []
    groups: list[tuple[list[Factor], set[int]]] = []
    for factor in flat.factors:
        bound = bound_variables(factor)
        if not bound:
            free.append(factor)
            continue
        joined: tuple[list[Factor], set[int]] = ([factor], bound)
        rest: list[tuple[list[Factor], set[int]]] = []
        for group in groups:
            (members, variables) = group
            if variables & joined[1]:
                joined = (members + joined[0], variables | joined[1])
            else:
                rest.append(group)
        groups = [*rest, joined]
    return free, [(factors, sorted(bound, reverse=True)) for factors, bound in groups]


def _distribute(store: Store, flat: Flat) -> list[Flat] | None:
    """A sum whose summand is one multi-term Polynomial, or a one-hot contraction of one, is linear: sum each term by
    itself."""
    if not flat.ranges:
        return None
    _, components = _components(flat)
    for factors, _ in components:
        linear = [f for f in factors if store.atoms[f.atom].op == "polynomial" and f.exponent == 1]
        if len(factors) > 1:
            hot = {v for f in factors if _at_most_one(store, f) for v in bound_variables(f)}
            linear = [f for f in linear if bound_variables(f) & hot]
            if not all(f in linear or store.atoms[f.atom].facts.boolean for f in factors):
                linear = []
        if not linear:
            continue
        chosen = linear[0]
        others = list(flat.factors)
        others.remove(chosen)
        inner = store.atoms[chosen.atom].arguments[0]
        replace = dict(enumerate(chosen.at))
        return [
            Flat(exact(flat.coefficient * c), (*others, *substitute_factors(m, replace)), flat.ranges) for m, c in inner
        ]
    return None


def _without_place(store: Store, flat: Flat, box: Ranges) -> Flat | None:
    """The sum without a ``SUM_v [O_v == u] = 1``, for a permutation O and a position u, or a ``SUM_v [t == v] = 1``
    where t, which may have other bound variables, is known to lie in the range of v; ``None`` if it has neither."""
    if not any(store.atoms[f.atom].op == "equal" for f in flat.factors):
        return None
    for j, n in enumerate(flat.ranges):
        touching = [f for f in flat.factors if -1 - j in bound_variables(f)] if n > 1 else []
        if len(touching) == 1 and (
            store.permuted(touching[0], -1 - j, n, box, flat.ranges)
            or _found_once(store, touching[0], -1 - j, flat.ranges, box)
        ):
            rest = tuple(f for f in flat.factors if f is not touching[0])
            return Flat(flat.coefficient, rest, (*flat.ranges[:j], 1, *flat.ranges[j + 1 :]))
    return None


def _found_once(store: Store, factor: Factor, v: int, ranges: tuple[int, ...], box: Ranges) -> bool:
    """True if a one-hot factor holds for exactly one v, whatever other variables of the sum it has. Only where two
    polynomials are compared: see :meth:`Calculus.covered`."""
    others = sorted(bound_variables(factor) - {v}, reverse=True)
    if not others or not isinstance(box, Mapping) or store.atoms[factor.atom].op != "equal" or factor.exponent != 1:
        return False
    axes = store.fresh_axes(len(others))
    posing: dict[int, Coordinate] = {u: variable(axis) for u, axis in zip(others, axes, strict=True)}
    (alone,) = substitute_factors((factor,), {v: variable(-1), **posing})
    intervals = {axis: (0, ranges[-1 - u]) for u, axis in zip(others, axes, strict=True)}
    return store.covered(alone, ranges[-1 - v], {**box, **intervals})


def _box(store: Store, flat: Flat, box: Ranges) -> Term:
    free, components = _components(flat)
    coefficient = flat.coefficient
    for factors, bound in components:
        rename: dict[int, Coordinate] = {v: variable(-1 - j) for j, v in enumerate(bound)}
        named = substitute_factors(tuple(factors), rename)
        local, ranges = canonical(store.effort, named, [flat.ranges[-1 - v] for v in bound], store.memo.names)
        store.fired["bound-names"] += local != named
        if _covers(store, local, ranges, box):
            store.fired["found-once"] += 1
            continue
        ignoring = _found_or_ignored(store, local, ranges, box)
        if ignoring is not None:
            store.fired["ignored-labels"] += 1
            free.extend(ignoring)
            continue
        free.append(_sum_atom(store, local, ranges))
    return monomial(store, coefficient, free)


def _covers(store: Store, factors: Factors, ranges: tuple[int, ...], box: Ranges) -> bool:
    """``SUM_v [t == v] = 1`` where it is known that t lies in the range of v."""
    if len(factors) != 1 or len(ranges) != 1 or store.atoms[factors[0].atom].op != "equal":
        return False
    return store.covered(factors[0], ranges[0], box)


def _found_or_ignored(store: Store, factors: Factors, ranges: tuple[int, ...], box: Ranges) -> Factors | None:
    """``SUM_v [t == v] = 1 - [t == k]`` where it is known that t lies in the range of v or is k."""
    if len(factors) != 1 or len(ranges) != 1 or not store.ranges.assumed or not _at_most_one(store, factors[0]):
        return None
    return store.found_or_ignored(factors[0], ranges[0], box)


def _at_most_one(store: Store, factor: Factor) -> bool:
    """True if ``factor`` is ``[t + s v == 0]`` with t free of the bound variable v and s != 0: true for one v at
    most."""
    atom = store.atoms[factor.atom]
    if atom.op != "equal" or factor.exponent != 1:
        return False
    replace = dict(enumerate(factor.at))
    rest, affine = substitute_polynomial(atom.arguments[0], replace), substitute(atom.position, replace)
    return any(v < 0 for v, _ in affine.parts) and not any(map(bound_variables, factors_of(rest)))


def _sum_atom(store: Store, factors: Factors, ranges: tuple[int, ...]) -> Factor:
    atoms = [store.atoms[a] for a, _, _ in factors]
    one_hot = len(atoms) == 1 and len(ranges) == 1 and _at_most_one(store, factors[0])
    facts = ValueFacts(
        positive=is_positive(store, factors) or _of_chosen_positives(store, factors, ranges),
        nonnegative=is_nonnegative(store, factors),
        integer=all(
            x.facts.integer and f.exponent.denominator == 1 and f.exponent > 0
            for x, f in zip(atoms, factors, strict=True)
        ),
        boolean=one_hot,
    )
    store.fired["sums-as-atoms"] += 1
    number, index = store.summation(factors, ranges, facts)
    return Factor(number, 1, index)


def _of_chosen_positives(store: Store, factors: Factors, ranges: tuple[int, ...]) -> bool:
    """True if a sum is one of positive numbers of which a single ``[t == v]`` chooses some, where it is known wherever
    the sum is defined that t lies in the range of v: for each value of the other variables one summand is left, which
    is positive."""
    guards = [f for f in factors if f.exponent == 1 and store.atoms[f.atom].op == "equal"]
    if len(guards) != 1 or not all(ranges) or not is_positive(store, tuple(f for f in factors if f is not guards[0])):
        return False
    for j, n in enumerate(ranges):
        exchanged: dict[int, Coordinate] = {-1 - j: variable(-1), -1: variable(-1 - j)}
        if store.covered(substitute_factors((guards[0],), exchanged)[0], n, None):
            return True
    return False


# ------------------------------------------------------------------------------------------------ merging partial sums
class _Points(NamedTuple):
    """A weighted set of points: ``origin + sum(t_v * v)`` for t in a box, one ``(vector, size)`` per bound variable."""

    origin: tuple[int, ...]
    vectors: tuple[tuple[tuple[int, ...], int], ...]  # sorted by vector
    weight: Rational


_Shape = tuple[tuple[int, Exponent, tuple[Any, ...]], ...]


def merge(store: Store, terms: Sequence[Term], box: Ranges = None) -> list[Term]:
    """Terms of one signature with partial sums merged wherever their points fit together."""
    shapes: dict[tuple[Factors, _Shape], list[tuple[_Points, Term]]] = {}
    for m, c in terms:
        flat = _normalised(store, flatten(store, m, c))
        if flat is None:
            continue
        sizes = tuple(f for f in flat.factors if is_symbolic_number(f))
        rest = tuple(f for f in flat.factors if f not in sizes)
        factors, ranges = canonical(store.effort, rest, flat.ranges, store.memo.names)
        shape = tuple(
            (a, e, tuple(tuple(p for p in parts if p[0] >= 0) for parts, _ in index)) for a, e, index in factors
        )
        shapes.setdefault((sizes, shape), []).append((_points(factors, ranges, flat.coefficient), Term(m, c)))
    out: list[Term] = []
    for (sizes, shape), members in shapes.items():
        before = [points for points, _ in members]
        after = _merge_points(store.effort, before) if len(members) > 1 else before
        if len(after) == len(before) and set(after) == set(before):
            out.extend(term for _, term in members)
            continue
        store.fired["weighted-sums"] += 1
        for points in after:
            flat = _flat(shape, points)
            out.extend(close(store, flat._replace(factors=(*flat.factors, *sizes)), box))
    return out


def _points(factors: Factors, ranges: tuple[int, ...], weight: Rational) -> _Points:
    vectors: list[list[int]] = [[] for _ in ranges]
    origin: list[int] = []
    for _, _, index in factors:
        for parts, offset in index:
            origin.append(offset)
            row = dict(parts)
            for j, vector in enumerate(vectors):
                vector.append(row.get(-1 - j, 0))
    return _Points(tuple(origin), tuple(sorted((tuple(v), n) for v, n in zip(vectors, ranges, strict=True))), weight)


def _flat(shape: _Shape, points: _Points) -> Flat:
    slot = 0
    factors: list[Factor] = []
    for a, e, axes in shape:
        index: list[Coordinate] = []
        for parts in axes:
            bound = [(-1 - j, v[slot]) for j, (v, _) in enumerate(points.vectors) if v[slot]]
            index.append(Coordinate(tuple(sorted([*bound, *parts])), points.origin[slot]))
            slot += 1
        factors.append(Factor(a, e, tuple(index)))
    return Flat(points.weight, tuple(factors), tuple(n for _, n in points.vectors))


def _merge_points(effort: Effort, items: list[_Points]) -> list[_Points]:
    """The canonical boxes of a weighted set of points. Small sets are recomputed from their points, so that the result
    does not depend on the order in which they were added up; large ones rely on their vectors agreeing."""
    items = _fixpoint(effort, items)
    if (
        len(items) > 1
        and not any(is_size(n) for item in items for _, n in item.vectors)
        and not effort.exceeds("merged_points", _points_of(items))
    ):
        items = _fixpoint(effort, [point for item in items for point in _explode(item)])
    return items


def _points_of(items: list[_Points]) -> int:
    return sum(prod(n for _, n in item.vectors) for item in items)


def _fixpoint(effort: Effort, items: list[_Points]) -> list[_Points]:
    for _ in range(effort.bounds.merge_rounds):
        effort.check()
        before = set(items)
        items = [_radix(item) for item in _discover(_sweep(items))]
        if len(items) == len(before) and set(items) == before:
            return items
    effort.hit("merge_rounds")
    return items


def _explode(item: _Points) -> list[_Points]:
    origins = [item.origin]
    for v, n in item.vectors:
        origins = [tuple(a + k * d for a, d in zip(origin, v, strict=True)) for origin in origins for k in range(n)]
    return [_Points(origin, (), item.weight) for origin in origins]


def _sweep(items: list[_Points]) -> list[_Points]:
    """Add boxes over the same vectors (a box without a vector is one point wide along it) and decompose canonically."""
    groups: dict[tuple[tuple[int, ...], ...], list[_Points]] = {}
    out: list[_Points] = []
    for item in sorted(items, key=lambda p: (-len(p.vectors), p)):
        names = tuple(v for v, _ in item.vectors)
        if len(set(names)) != len(names):
            out.append(item)  # not a set of boxes in independent directions
            continue
        home = names
        if names not in groups:
            for wider in groups:
                if len(wider) > len(names) and set(names) <= set(wider):
                    difference = [a - b for a, b in zip(item.origin, groups[wider][0].origin, strict=True)]
                    if combination(wider, difference) is not None:
                        home = wider
                        break
        groups.setdefault(home, []).append(item)
    for names, members in groups.items():
        classes: list[tuple[tuple[int, ...], list[Weighted]]] = []
        for item in members:
            sizes = dict(item.vectors)
            for origin, boxes in classes:
                t = combination(names, [a - b for a, b in zip(item.origin, origin, strict=True)])
                if t is not None:
                    boxes.append((tuple((k, k + sizes.get(v, 1)) for k, v in zip(t, names, strict=True)), item.weight))
                    break
            else:
                box = tuple((0, sizes.get(v, 1)) for v in names)
                classes.append((item.origin, [(box, item.weight)]))
        for origin, boxes in classes:
            for box, weight in decompose(boxes):
                start = list(origin)
                for (low, _), v in zip(box, names, strict=True):
                    start = [s + low * x for s, x in zip(start, v, strict=True)]
                vectors = tuple(
                    (v, high - low) for (low, high), v in zip(box, names, strict=True) if not is_one(high - low)
                )
                out.append(_Points(tuple(start), vectors, exact(weight)))
    return out


def _discover(items: list[_Points]) -> list[_Points]:
    """Equal boxes whose origins form a progression gain a bound variable."""
    groups: dict[tuple[Any, Rational], list[_Points]] = {}
    for item in items:
        groups.setdefault((item.vectors, item.weight), []).append(item)
    out: list[_Points] = []
    for (vectors, weight), members in groups.items():
        origins = {m.origin for m in members}
        if len(members) == 1 or len(origins) != len(members):
            out.extend(members)
            continue
        for first, step, count in progression(sorted(origins)):
            if count == 1 or not _may_add(vectors, step, count):
                out.extend(
                    _Points(tuple(a + k * d for a, d in zip(first, step, strict=True)), vectors, weight)
                    for k in range(count)
                )
                continue
            if next(d for d in step if d) < 0:
                first = tuple(a + (count - 1) * d for a, d in zip(first, step, strict=True))
                step = tuple(-d for d in step)
            out.append(_Points(first, tuple(sorted([*vectors, (step, count)])), weight))
    return out


def _may_add(vectors: tuple[tuple[tuple[int, ...], int], ...], step: tuple[int, ...], count: int) -> bool:
    """A new vector must be independent of the others, or be the lower digit of one of them."""
    if not vectors or any(v == tuple(count * x for x in step) for v, _ in vectors):
        return True
    return independent([*(v for v, _ in vectors), step])


def _radix(item: _Points) -> _Points:
    vectors = list(item.vectors)
    if len(vectors) < 2:
        return item
    totals = {v: sum(v) for v, _ in vectors}
    for (u, n), (v, m) in permutations(vectors, 2):
        if totals[u] == m * totals[v] and u == tuple(m * x for x in v):
            rest = [w for w in vectors if w not in ((u, n), (v, m))]
            return _radix(_Points(item.origin, tuple(sorted([*rest, (v, n * m)])), item.weight))
    return item
