"""Canonical names for bound variables and canonical order of factors, by colour refinement as in graph canonisation.

Two products that differ only by the names of their bound variables, the direction in which a bound variable runs, or
the order of their factors get the same result. Axis parts, range sizes and offsets break ties only, in this order, so
that a shard and the whole are named alike.

Where variables stay tied, each of the first tied class is singled out in turn, and the least of the products that come
out is taken (McKay, *Practical graph isomorphism*). Two ways that come out at one product are a symmetry of it: what a
symmetry maps to a choice that was tried already comes out at the same product and is not tried. So n factors that can
all be exchanged for each other take in the order of n * n refinements, not n!.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

from tantamount.calculus.affine import Coordinate, Index, substitute_index, variable
from tantamount.calculus.terms import Factor, Factors
from tantamount.effort import Effort

__all__ = ["Names", "bound_variables", "canonical"]

Named = tuple[Factors, tuple[int, ...]]
_Incidence = tuple[tuple[tuple[tuple[int, int], ...], ...], ...]  # by factor and coordinate: (variable, |stride|)
_Colors = tuple[tuple[int, ...], tuple[int, ...]]  # of factors, of variables


@dataclass(slots=True)
class Names:
    """The names that were given before: products by themselves, and the colours of skeletons (products without axes,
    offsets and ranges), which shards and layers share. ``refined`` counts the refinements that were computed."""

    named: dict[tuple[Factors, tuple[int, ...]], Named] = field(
        default_factory=dict[tuple[Factors, tuple[int, ...]], Named]
    )
    skeletons: dict[Any, _Colors] = field(default_factory=dict[Any, _Colors])
    refined: int = 0


def _ranks(keys: Sequence[Any]) -> list[int]:
    order = {key: k for k, key in enumerate(sorted(set(keys)))}
    return [order[key] for key in keys]


def _axes(index: Index) -> tuple[Any, ...]:
    return tuple([tuple([p for p in parts if p[0] >= 0]) for parts, _ in index])


def _offsets(index: Index) -> tuple[int, ...]:
    return tuple([offset for _, offset in index])


def _centers(index: Index, ranges: Sequence[int]) -> tuple[int, ...]:
    """Twice the middle of what each coordinate runs through as its bound variables do: whatever their directions."""
    return tuple([2 * c + sum(s * (ranges[-1 - v] - 1) for v, s in parts if v < 0) for parts, c in index])


class _Coloring:
    """Colours of factors and variables; ``refine`` makes them as fine as their incidence allows."""

    __slots__ = ("factor", "incidence", "names", "variable")

    def __init__(self, names: Names, incidence: _Incidence, colors: tuple[Sequence[int], Sequence[int]]) -> None:
        self.names = names
        self.incidence = incidence
        self.factor, self.variable = [*colors[0]], [*colors[1]]

    def refine(self) -> None:
        self.names.refined += 1
        incidence = self.incidence
        count = len(set(self.factor)) + len(set(self.variable))
        while True:
            color = self.variable
            self.factor = _ranks([
                (c, tuple([tuple(sorted([(color[j], s) for j, s in parts])) for parts in rows]))
                for c, rows in zip(self.factor, incidence, strict=True)
            ])  # fmt: skip
            seen: list[list[tuple[int, int, int]]] = [[] for _ in color]
            for c, rows in zip(self.factor, incidence, strict=True):
                for k, parts in enumerate(rows):
                    for j, s in parts:
                        seen[j].append((c, k, s))
            self.variable = _ranks([(c, tuple(sorted(s))) for c, s in zip(color, seen, strict=True)])
            found = len(set(self.factor)) + len(set(self.variable))
            if found == count:
                return
            count = found

    def single_out(self, j: int) -> _Coloring:
        """Finer colours, with the variable j before those that it was tied with."""
        tied = self.variable[j]
        split = [2 * c + (c == tied and k != j) for k, c in enumerate(self.variable)]
        choice = _Coloring(self.names, self.incidence, (self.factor, split))
        choice.refine()
        return choice

    def split(self, factor: Sequence[Any] | None = None, variable: Sequence[Any] | None = None) -> None:
        """Finer colours, by these keys."""
        if factor is not None:
            self.factor = _ranks([*zip(self.factor, factor, strict=True)])
        if variable is not None:
            self.variable = _ranks([*zip(self.variable, variable, strict=True)])
        self.refine()

    def tied(self) -> list[int]:
        """The variables of the first colour that several have; empty if every one has its own."""
        classes: dict[int, list[int]] = {}
        for j, c in enumerate(self.variable):
            classes.setdefault(c, []).append(j)
        return next((classes[c] for c in sorted(classes) if len(classes[c]) > 1), list[int]())

    @property
    def discrete(self) -> bool:
        return len(set(self.variable)) == len(self.variable)


def canonical(effort: Effort, factors: Factors, ranges: Sequence[int], names: Names | None = None) -> Named:
    """The same product with bound variables ``-1 .. -m`` (over ``0..ranges``) renamed, reversed and ordered
    canonically. ``names`` remembers."""
    if not ranges:
        return tuple(sorted(factors, key=lambda f: (f.atom, f.exponent, _axes(f.at), _offsets(f.at)))), ()
    known = names if names is not None else Names()
    key = (factors, tuple(ranges))
    found = known.named.get(key)
    if found is None:
        found = known.named[key] = _canonical(effort, factors, ranges, known)
    return found


def _canonical(effort: Effort, factors: Factors, ranges: Sequence[int], names: Names) -> Named:
    coloring = _of_skeleton(factors, len(ranges), names)
    if not coloring.discrete:
        coloring.split(factor=[_axes(f.at) for f in factors])
    if not coloring.discrete:
        coloring.split(variable=ranges)
    if not coloring.discrete:
        coloring.split(factor=[_centers(f.at, ranges) for f in factors])
    if coloring.discrete:
        return _encode(effort, coloring, factors, ranges)
    return _Search(effort, factors, ranges).least(coloring)


def _of_skeleton(factors: Factors, count: int, names: Names) -> _Coloring:
    """The colours that atoms, exponents and incidence give."""
    incidence: _Incidence = tuple([
        tuple([tuple([(-1 - v, abs(s)) for v, s in parts if v < 0]) for parts, _ in index]) for _, _, index in factors
    ])  # fmt: skip
    kinds = tuple([(a, e) for a, e, _ in factors])
    found = names.skeletons.get((kinds, incidence, count))
    if found is not None:
        return _Coloring(names, incidence, found)
    coloring = _Coloring(names, incidence, (_ranks(kinds), [0] * count))
    coloring.refine()
    names.skeletons[kinds, incidence, count] = (tuple(coloring.factor), tuple(coloring.variable))
    return coloring


# ------------------------------------------------------------------------------------------------ ties
class _Search:
    """The least product that singling out tied variables leads to, up to the bound on how many are looked at."""

    def __init__(self, effort: Effort, factors: Factors, ranges: Sequence[int]) -> None:
        self.effort, self.factors, self.ranges = effort, factors, ranges
        self.left = effort.bounds.tied_names
        self.leaves: dict[Named, list[int]] = {}  # the first order of the variables that came out at a product
        self.symmetries: list[list[int]] = []  # as the image of every variable

    def least(self, coloring: _Coloring) -> Named:
        tied = coloring.tied()
        if not tied:
            return self._leaf(coloring)
        found: list[Named] = []
        tried: list[int] = []
        for j in tied:
            if self._like_one_of(tried, j, coloring):
                continue
            if self.left <= 0 and found:
                self.effort.hit("tied_names")
                break
            choice = coloring.single_out(j)
            if tried:  # any one way from here: if it comes out where another one did, all of them do
                before = len(self.symmetries)
                first = self._leaf(self._first(choice))
                if len(self.symmetries) > before and self._like_one_of(tried, j, coloring):
                    found.append(first)
                    continue
            tried.append(j)
            found.append(self.least(choice))
        return min(found)

    def _first(self, coloring: _Coloring) -> _Coloring:
        while tied := coloring.tied():
            coloring = coloring.single_out(tied[0])
        return coloring

    def _leaf(self, coloring: _Coloring) -> Named:
        self.effort.check()
        self.left -= 1
        product = _encode(self.effort, coloring, self.factors, self.ranges)
        order = coloring.variable  # the name of every variable
        known = self.leaves.setdefault(product, order)
        if known != order:
            owner = {name: j for j, name in enumerate(known)}
            self.symmetries.append([owner[name] for name in order])
        return product

    def _like_one_of(self, tried: Sequence[int], j: int, coloring: _Coloring) -> bool:
        """True if symmetries that keep the colours map j to a variable that was tried."""
        if not tried:
            return False
        root = [*range(len(self.ranges))]

        def find(k: int) -> int:
            while root[k] != k:
                root[k] = k = root[root[k]]
            return k

        color = coloring.variable
        for image in self.symmetries:
            if all(color[k] == color[other] for k, other in enumerate(image)):
                for k, other in enumerate(image):
                    root[find(k)] = find(other)
        return find(j) in {find(k) for k in tried}


# ------------------------------------------------------------------------------------------------ writing it down
def _encode(effort: Effort, coloring: _Coloring, factors: Factors, ranges: Sequence[int]) -> Named:
    """The product with its variables named by their colours, all different, each in the direction that is least."""
    order = sorted(range(len(ranges)), key=coloring.variable.__getitem__)
    sizes = tuple([ranges[old] for old in order])
    replace: dict[int, Coordinate] = {-1 - old: variable(-1 - new) for new, old in enumerate(order)}
    named = [
        (color, Factor(a, e, substitute_index(index, replace)))
        for color, (a, e, index) in zip(coloring.factor, factors, strict=True)
    ]
    if all(s > 0 for _, (_, _, index) in named for parts, _ in index for v, s in parts if v < 0):
        named.sort(key=_color_and_place)
        return tuple([factor for _, factor in named]), sizes
    return min(_written(named, sizes, backward) for backward in _directions(effort, named, sizes)), sizes


def _directions(effort: Effort, named: Sequence[tuple[int, Factor]], sizes: Sequence[int]) -> list[frozenset[int]]:
    """The variables that run backwards: the choices that nothing tells apart.

    A variable runs forward in the first factor that it is in, in an order of the factors that directions have no part
    in. Factors that are tied in that order do not say it; then it is the direction in which all factors together,
    with the directions that were chosen before, are least."""
    places = [_place(item, sizes) for item in named]
    order = sorted(range(len(named)), key=places.__getitem__)
    decided: dict[int, bool] = {}
    for _, tied in groupby(order, key=places.__getitem__):
        first, *others = tied
        if others:
            continue
        for parts, _ in named[first][1].at:
            for v, s in parts:
                if v < 0:
                    decided.setdefault(v, s < 0)
    found = [frozenset(v for v, backward in decided.items() if backward)]
    settled = set(decided)
    for v in [-1 - k for k in range(len(sizes)) if -1 - k not in decided]:
        settled.add(v)
        choices = [turned for backward in found for turned in (backward, backward | {v})]
        keys = [_turned(places, named, settled, backward) for backward in choices]
        least = min(keys)
        alike = [c for c, key in zip(choices, keys, strict=True) if key == least]
        found = [*effort.first("tied_names", alike)] or alike[:1]
    return found


def _place(item: tuple[int, Factor], sizes: Sequence[int]) -> tuple[Any, ...]:
    color, factor = item
    strides = tuple([tuple([(-v, abs(s)) for v, s in parts if v < 0]) for parts, _ in factor.at])
    return color, _axes(factor.at), strides, _centers(factor.at, sizes)


def _turned(
    places: Sequence[Any], named: Sequence[tuple[int, Factor]], settled: set[int], backward: frozenset[int]
) -> list[Any]:
    """The factors without the directions that are not settled, in an order that does not depend on the others."""
    return sorted(
        (place, tuple([tuple([(s < 0) != (v in backward) for v, s in parts if v in settled]) for parts, _ in f.at]))
        for place, (_, f) in zip(places, named, strict=True)
    )


def _written(named: Sequence[tuple[int, Factor]], sizes: Sequence[int], backward: frozenset[int]) -> Factors:
    reverse: dict[int, Coordinate] = {v: variable(v, -1, sizes[-1 - v] - 1) for v in backward}
    turned = [(color, Factor(a, e, substitute_index(index, reverse))) for color, (a, e, index) in named]
    turned.sort(key=_color_and_place)
    return tuple([factor for _, factor in turned])


def _color_and_place(item: tuple[int, Factor]) -> tuple[Any, ...]:
    color, factor = item
    return (color, _axes(factor.at), _bound(factor.at), _offsets(factor.at))


def _bound(index: Index) -> tuple[Any, ...]:
    return tuple([tuple([(-v, abs(s), s) for v, s in parts if v < 0]) for parts, _ in index])


def bound_variables(factor: Factor) -> set[int]:
    """The bound variables that a factor's index mentions."""
    return {v for parts, _ in factor.at for v, _ in parts if v < 0}
