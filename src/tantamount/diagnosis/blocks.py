"""Blocks that are cut out of tensors: where they are, and changes by which others are."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from tantamount.correspond.values import close
from tantamount.diagnosis.classes import Class
from tantamount.diagnosis.edits import Edit, EditKind
from tantamount.diagnosis.replay import Place
from tantamount.diagnosis.value_matches import ValueMatches
from tantamount.ir.graph import references
from tantamount.semantics.reference import Array

__all__ = ["Span", "blocks", "span"]

_ROUNDING = 1e-6  # relative: which elements may be the same number, computed in two ways


class Span(NamedTuple):
    """Positions ``low`` to ``high`` along a dimension."""

    dim: int
    low: int
    high: int


def span(matches: ValueMatches, whole: Array, part: Array) -> Span | None:
    """The place of a part in a tensor of as many dimensions, of which it is shorter in one."""
    if whole.ndim != part.ndim:
        return None
    dims = [k for k, (n, m) in enumerate(zip(whole.shape, part.shape, strict=True)) if n != m]
    if len(dims) != 1:
        return None
    (dim,) = dims
    if matches.effort.exceeds("repair_positions", whole.shape[dim] - part.shape[dim]):
        return None
    moved, wanted = np.moveaxis(whole, dim, 0), np.moveaxis(part, dim, 0)
    count = len(wanted)
    rest = tuple(range(1, moved.ndim))
    alike: Array = np.asarray(np.isclose(moved, wanted[0], rtol=_ROUNDING, atol=0.0).all(axis=rest))
    for low in np.flatnonzero(alike[: len(moved) - count + 1]).tolist():
        if close(moved[low : low + count], wanted):
            return Span(dim, low, low + count)
    return None


def blocks(matches: ValueMatches, c: Class) -> Iterator[Edit]:
    """The edits by which other blocks are cut out: one position further, or the block beside; on all ranks, or one."""
    places = [place for place in c.places if matches.facts(place).piece and matches.node(place).op == "call"]
    cut: dict[Place, tuple[Array, Span]] = {}
    for place in places if matches.node(c.first).target != "getitem" else ():
        whole = matches.value((place[0], next(iter(references(matches.node(place))))))
        at = span(matches, whole, matches.value(place)) if matches.value(place).size else None
        if at is not None:
            cut[place] = (whole, at)
    for name in matches.effort.first("repair_members", list(dict.fromkeys(name for _, name in cut))):
        line = [place for place in cut if place[1] == name]
        sizes = {at.high - at.low for _, at in (cut[place] for place in line)}
        for step in dict.fromkeys((1, -1, *sizes, *(-size for size in sizes))):
            changes: dict[Place, Array] = {}
            for place in line:
                whole, at = cut[place]
                low, high = at.low + step, at.high + step
                if low >= 0 and high <= whole.shape[at.dim]:
                    value = np.asarray(np.take(whole, np.arange(low, high), at.dim))
                    changes |= {} if close(value, matches.value(place)) else {place: value}
            alone = [{place: value} for place, value in changes.items()] if len(changes) > 1 else []
            for some in [changes, *matches.effort.first("repair_members", alone)] if changes else ():
                yield Edit(EditKind.BLOCK, tuple(some), some, number=step)
