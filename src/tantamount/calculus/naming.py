"""Canonical names for bound variables and canonical order of factors, by colour refinement as in graph canonisation.

Two products that differ only by the names of their bound variables, the direction in which a bound variable runs, or
the order of their factors get the same result. Axis parts, range sizes and offsets break ties only, in this order, so
that a shard and the whole are named alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tantamount.calculus.affine import Coordinate, Index, substitute_index, variable
from tantamount.calculus.terms import Factor, Factors
from tantamount.effort import Effort

__all__ = ["canonical"]


def _ranks(keys: Sequence[Any]) -> list[int]:
    order = {key: k for k, key in enumerate(sorted(set(keys)))}
    return [order[key] for key in keys]


def _axes(index: Index) -> tuple[Any, ...]:
    return tuple(tuple(p for p in parts if p[0] >= 0) for parts, _ in index)


def _offsets(index: Index) -> tuple[int, ...]:
    return tuple(offset for _, offset in index)


class _Coloring:
    """Colours of factors and variables; ``refine`` makes them as fine as their incidence allows."""

    def __init__(self, factors: Factors, count: int) -> None:
        self.incidence = [
            [[(-1 - v, abs(s)) for v, s in parts if v < 0] for parts, _ in index] for _, _, index in factors
        ]
        self.factor = _ranks([(a, e) for a, e, _ in factors])
        self.variable = [0] * count

    def copy(self) -> _Coloring:
        other = object.__new__(_Coloring)
        other.incidence, other.factor, other.variable = self.incidence, list(self.factor), list(self.variable)
        return other

    def refine(self) -> None:
        count = -1
        while True:
            self.factor = _ranks([
                (color, tuple(tuple(sorted((self.variable[j], s) for j, s in parts)) for parts in rows))
                for color, rows in zip(self.factor, self.incidence, strict=True)
            ])  # fmt: skip
            seen: list[list[tuple[int, int, int]]] = [[] for _ in self.variable]
            for color, rows in zip(self.factor, self.incidence, strict=True):
                for k, parts in enumerate(rows):
                    for j, s in parts:
                        seen[j].append((color, k, s))
            self.variable = _ranks([(c, tuple(sorted(s))) for c, s in zip(self.variable, seen, strict=True)])
            found = len(set(self.factor)) + len(set(self.variable))
            if found == count:
                return
            count = found

    @property
    def discrete(self) -> bool:
        return len(set(self.variable)) == len(self.variable)


def canonical(effort: Effort, factors: Factors, ranges: Sequence[int]) -> tuple[Factors, tuple[int, ...]]:
    """The same product with bound variables ``-1 .. -m`` (over ``0..ranges``) renamed, reversed and ordered
    canonically."""
    if not ranges:
        return tuple(sorted(factors, key=lambda f: (f.atom, f.exponent, _axes(f.at), _offsets(f.at)))), ()
    coloring = _Coloring(factors, len(ranges))
    coloring.refine()
    if not coloring.discrete:
        coloring.factor = _ranks([(c, _axes(f.at)) for c, f in zip(coloring.factor, factors, strict=True)])
        coloring.refine()
    if not coloring.discrete:
        coloring.variable = _ranks([(c, n) for c, n in zip(coloring.variable, ranges, strict=True)])
        coloring.refine()
    if not coloring.discrete:
        coloring.factor = _ranks([(c, _offsets(f.at)) for c, f in zip(coloring.factor, factors, strict=True)])
        coloring.refine()
    leaves = [coloring] if coloring.discrete else _individualise(effort, coloring, [effort.bounds.tied_names])
    return min(_encode(leaf, factors, ranges) for leaf in leaves)


def _individualise(effort: Effort, coloring: _Coloring, budget: list[int]) -> list[_Coloring]:
    """All discrete colourings reached by singling out each member of the first tied class in turn (bounded)."""
    tied = min(c for c in coloring.variable if coloring.variable.count(c) > 1)
    found: list[_Coloring] = []
    for j, c in enumerate(coloring.variable):
        if c != tied:
            continue
        if budget[0] <= 0 and found:
            effort.hit("tied_names")
            break
        effort.check()
        budget[0] -= 1
        choice = coloring.copy()
        choice.variable = [2 * x + (x == tied and k != j) for k, x in enumerate(choice.variable)]
        choice.refine()
        found.extend([choice] if choice.discrete else _individualise(effort, choice, budget))
    return found


def _encode(coloring: _Coloring, factors: Factors, ranges: Sequence[int]) -> tuple[Factors, tuple[int, ...]]:
    order = sorted(range(len(ranges)), key=coloring.variable.__getitem__)
    name = {old: -1 - new for new, old in enumerate(order)}
    sizes = tuple(ranges[old] for old in order)
    replace: dict[int, Coordinate] = {-1 - old: variable(new) for old, new in name.items()}
    named = [
        (color, Factor(a, e, substitute_index(index, replace)))
        for color, (a, e, index) in zip(coloring.factor, factors, strict=True)
    ]
    named.sort(key=_color_and_place)
    reverse: dict[int, Coordinate] = {}
    decided: set[int] = set()
    for _, (_, _, index) in named:
        for parts, _ in index:
            for v, s in parts:
                if v < 0 and v not in decided:
                    decided.add(v)
                    if s < 0:
                        reverse[v] = variable(v, -1, sizes[-1 - v] - 1)
    if reverse:
        named = [(color, Factor(a, e, substitute_index(index, reverse))) for color, (a, e, index) in named]
        named.sort(key=_color_and_place)
    return tuple(factor for _, factor in named), sizes


def _color_and_place(item: tuple[int, Factor]) -> tuple[Any, ...]:
    color, factor = item
    return (color, _axes(factor.at), _bound(factor.at), _offsets(factor.at))


def _bound(index: Index) -> tuple[Any, ...]:
    return tuple(tuple((-v, abs(s), s) for v, s in parts if v < 0) for parts, _ in index)


def bound_variables(factor: Factor) -> set[int]:
    """The bound variables that a factor's index mentions."""
    return {v for parts, _ in factor.at for v, _ in parts if v < 0}
