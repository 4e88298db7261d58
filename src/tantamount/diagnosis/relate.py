"""Relations between the value that a tensor has and the value that it should have."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from tantamount.correspond.values import Box, close, direction, rows_of, windows
from tantamount.diagnosis.replay import Place
from tantamount.diagnosis.value_matches import Part, ValueMatches
from tantamount.semantics.reference import Array

__all__ = ["Addend", "Rows", "addend", "known_rows", "rows_along", "unreached"]


@dataclass(frozen=True)
class Addend:
    """The wanted value is the value plus ``factor`` times a tensor of the implementation (``places``; their sum, if
    there are several), or plus the ``constant``."""

    factor: float
    places: tuple[Place, ...] = ()
    constant: float | None = None


@dataclass(frozen=True)
class Rows:
    """A tensor has the rows ``held`` of ``tensor`` along dimension ``dim``; ``wanted`` are needed."""

    tensor: str
    dim: int
    held: tuple[int, ...]
    wanted: tuple[int, ...]


def addend(matches: ValueMatches, place: Place, wanted: Array) -> Addend | None:
    """The tensor, or the sum over one class, that is added too often or too seldom; ``None`` if there is none."""
    value = matches.value(place)
    if value.dtype.kind != "f" or value.shape != wanted.shape:
        return None
    if not (np.isfinite(value).all() and np.isfinite(wanted).all()):
        return None
    difference = np.asarray(wanted - value)
    if close(difference, np.zeros_like(difference)):
        return None
    first = difference.reshape(-1)[0]
    if difference.size > 1 and close(difference, np.full_like(difference, first)):
        return Addend(1.0, constant=float(first))
    above = matches.replay.above([place])
    for part in _shapes(difference):
        key = direction(part)
        best: Addend | None = None
        summed: Addend | None = None
        for places, total in _tensors(matches, part.shape) if key is not None else ():
            other = direction(total)
            if key is None or other is None or other[0] != key[0] or place in places:
                continue
            factor = key[1] / other[1]
            factor = round(factor) if abs(factor - round(factor)) < 1e-6 else factor
            if difference.size == 1 and abs(factor) != 1:
                continue  # of single numbers any is a multiple of any
            found = Addend(factor, places)
            if abs(factor) == 1 and (places[0] not in above or factor < 0):
                if len(places) == 1:
                    return found  # what never gets there, or is there once too often, says most
                summed = summed or found
            if best is None or (abs(factor) == 1 and abs(best.factor) != 1):
                best = found
        if summed is not None or best is not None:
            return summed or best
    return None


def _shapes(difference: Array) -> Iterator[Array]:
    """The difference, and the row or column that it repeats."""
    yield difference
    for dim in range(difference.ndim):
        if difference.shape[dim] > 1:
            row = np.take(difference, [0], axis=dim)
            if close(difference, np.broadcast_to(row, difference.shape)):
                yield row.reshape(tuple(n for k, n in enumerate(difference.shape) if k != dim))


def _tensors(matches: ValueMatches, shape: tuple[int, ...]) -> Iterator[tuple[tuple[Place, ...], Array]]:
    size = int(np.prod(shape))
    for c in matches.everything:
        fitting = [p for p in c.places if matches.value(p).size == size and matches.value(p).dtype.kind == "f"]
        for place in fitting:
            yield (place,), matches.value(place).reshape(shape)
        for origin in {matches.origin[p] for p in fitting}:
            same = [p for p in fitting if matches.origin[p] == origin]
            if len(same) > 1:
                yield tuple(same), np.sum(np.stack([matches.value(p).reshape(shape) for p in same]), axis=0)


def rows_along(matches: ValueMatches, value: Array, wanted: Array, names: Sequence[str]) -> Rows | None:
    """The rows, or columns, of one tensor that a value has and should have; ``None`` where no tensor has them all."""
    if value.shape != wanted.shape or value.dtype.kind != "f":
        return None
    for name in names:
        whole = matches.replay.wanted(name)
        if whole is None or whole.ndim != value.ndim or whole.dtype.kind != "f":
            continue
        for dim in range(value.ndim):
            rest = [n for k, n in enumerate(value.shape) if k != dim]
            if value.shape[dim] < 2 or rest != [n for k, n in enumerate(whole.shape) if k != dim] or not rest:
                continue
            table, held, needed = (np.moveaxis(x, dim, 0) for x in (whole, value, wanted))
            rows, right = rows_of(table, held), rows_of(table, needed)
            if rows is not None and right is not None and rows != right:
                return Rows(name, dim, rows, right)
    return None


def known_rows(whole: Array, value: Array, dim: int) -> tuple[int | None, ...]:
    """For each row of a value the number of the row of a tensor that it is; ``None`` for others."""
    rows = [rows_of(np.moveaxis(whole, dim, 0), row[None]) for row in np.moveaxis(value, dim, 0)]
    return tuple(None if row is None else row[0] for row in rows)


def unreached(matches: ValueMatches, place: Place, wanted: Part) -> list[Part]:
    """Parts of inputs that the specification's tensor depends on, and that the place is not computed from at all, nor
    what is added to it, if it is a product with a part of a sum."""
    found: list[Part] = []
    above = matches.replay.above(_added_up(matches, place))
    for name in sorted(matches.whole_origin[wanted[0]]):
        whole = matches.replay.wanted(name)
        if whole is None or whole.dtype.kind != "f" or whole.ndim == 0:
            continue
        reached = np.zeros(whole.shape, dtype=bool)
        for c in matches.classes:
            for other in c.places:
                part = matches.aligned(other) if other in above else None
                if part is not None and part[0] == name and _first(matches, other):
                    if part[1] is None or len(part[1]) != whole.ndim:
                        reached[...] = True
                    else:
                        reached[tuple(slice(low, high) for low, high in part[1])] = True
        box = _box(~reached)
        if box is not None and reached.any() and _matters(matches, name, ~reached, wanted, place):
            found.append((name, box))
    return found


def _added_up(matches: ValueMatches, place: Place) -> list[Place]:
    """The place, and, of a product that is reduced by a sum further down, the same one on the ranks that take part."""
    facts, replay = matches.facts(place), matches.replay
    if facts.linear and not facts.elementwise and place in matches.reduced_later:
        below = replay.below([place])
        for one in replay.order:
            if one[0] == place[0] and one in below and matches.facts(one).collective and matches.facts(one).sums:
                return [(rank, place[1]) for rank, _ in replay.partners[one] if (rank, place[1]) in replay.operands]
    return [place]


def _first(matches: ValueMatches, place: Place) -> bool:
    """True if a part of an input is used for something, not only cut into smaller parts."""
    users = matches.replay.readers.get(place, ())
    return any(matches.target(user) != "getitem" and not matches.cuts(user) for user in users) or not users


def _box(missing: Array) -> Box | None:
    """The box that elements fill; ``None`` if they fill none."""
    if not missing.any():
        return None
    spans: list[tuple[int, int]] = []
    for dim in range(missing.ndim):
        rows = np.flatnonzero(missing.any(axis=tuple(k for k in range(missing.ndim) if k != dim)))
        spans.append((int(rows[0]), int(rows[-1]) + 1))
    box = tuple(spans)
    return box if missing[tuple(slice(low, high) for low, high in box)].all() else None


def _matters(matches: ValueMatches, name: str, where: Array, wanted: Part, place: Place) -> bool:
    """True if the specification's tensor changes with these elements of an input."""
    on = dict(matches.replay.given.specification)
    on[name] = np.where(where, on[name] + 1.0, on[name])
    changed = matches.replay.specification(on).get(wanted[0])
    shape = matches.value(place).shape
    if not isinstance(changed, np.ndarray):
        return False
    now = next((part for box, part in windows(matches.effort, changed, shape) if box == wanted[1]), None)
    before = matches.part(wanted, shape)
    return now is not None and before is not None and not close(now, before)
