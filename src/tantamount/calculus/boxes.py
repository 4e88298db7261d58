"""Weighted boxes of integer points, canonically decomposed, and progressions of points.

A sum over bound variables is a weighted set of points of an index lattice. Two sums are equal iff the weighted sets
are, whatever boxes they were written with: overlapping, uneven, in any order.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from fractions import Fraction

from tantamount.sizes.symbolic import rational, whole

__all__ = ["Box", "Weighted", "combination", "decompose", "independent", "progression"]

Box = tuple[tuple[int, int], ...]  # one half-open interval per dimension
Weighted = tuple[Box, Fraction | int]


def decompose(boxes: Sequence[Weighted]) -> tuple[Weighted, ...]:
    """The canonical disjoint boxes of a weighted set: slabs along the first dimension, as long as possible, each
    decomposed in the same way. Weights of overlapping boxes add; weight 0 vanishes."""
    if not boxes:
        return ()
    if not boxes[0][0]:
        weight = sum((w for _, w in boxes), start=0)
        return (((), weight),) if weight else ()
    cuts = sorted({x for box, _ in boxes for x in box[0]})
    slabs: list[tuple[int, int, tuple[Weighted, ...]]] = []
    for low, high in itertools.pairwise(cuts):
        rest = decompose([(box[1:], w) for box, w in boxes if box[0][0] <= low and high <= box[0][1]])
        if slabs and slabs[-1][1] == low and slabs[-1][2] == rest:
            slabs[-1] = (slabs[-1][0], high, rest)
        elif rest:
            slabs.append((low, high, rest))
    return tuple((((low, high), *box), w) for low, high, rest in slabs for box, w in rest)


def combination(vectors: Sequence[tuple[int, ...]], target: Sequence[int]) -> tuple[int, ...] | None:
    """The integers t with ``sum(t * vector) = target``, or ``None``; also ``None`` if the vectors are dependent."""
    if not vectors:
        return None if any(target) else ()
    if all(type(x) is int for x in target) and all(type(x) is int for v in vectors for x in v):
        return _of_integers(len(vectors), [[*(v[j] for v in vectors), x] for j, x in enumerate(target)])
    rows = [[rational(v[j]) for v in vectors] + [rational(x)] for j, x in enumerate(target)]
    pivots: list[list[Fraction]] = []
    for k in range(len(vectors)):
        row = next((r for r in rows if r[k]), None)
        if row is None:
            return None
        rows.remove(row)
        row = [x / row[k] for x in row]
        rows = [[x - r[k] * y for x, y in zip(r, row, strict=True)] if r[k] else r for r in rows]
        pivots = [[x - r[k] * y for x, y in zip(r, row, strict=True)] if r[k] else r for r in pivots]
        pivots.append(row)
    if any(r[-1] for r in rows) or any(r[-1].denominator != 1 for r in pivots):
        return None
    return tuple(whole(r[-1]) for r in pivots)


def _of_integers(unknowns: int, rows: list[list[int]]) -> tuple[int, ...] | None:
    """The solution of linear equations (coefficients, then what their sum is) in integers, if there is one and no
    other: elimination without quotients, which takes a fraction of the time that fractions do."""
    pivots: list[list[int]] = []
    for k in range(unknowns):
        row = next((r for r in rows if r[k]), None)
        if row is None:
            return None
        rows.remove(row)
        a = row[k]
        rows = [[a * x - r[k] * y for x, y in zip(r, row, strict=True)] if r[k] else r for r in rows]
        pivots = [[a * x - r[k] * y for x, y in zip(r, row, strict=True)] if r[k] else r for r in pivots]
        pivots.append(row)
    if any(r[-1] for r in rows) or any(r[-1] % r[k] for k, r in enumerate(pivots)):
        return None
    return tuple(r[-1] // r[k] for k, r in enumerate(pivots))


def independent(vectors: Sequence[tuple[int, ...]]) -> bool:
    """True if no vector is a rational combination of the others."""
    return combination(vectors, [0] * len(vectors[0])) is not None


def progression(points: Sequence[tuple[int, ...]]) -> list[tuple[tuple[int, ...], tuple[int, ...], int]]:
    """Distinct points as arithmetic progressions ``(first, step, count)``; every point is in exactly one.

    If some step splits all points into progressions of one length, that is used (smallest points first); collinear
    points otherwise fall into maximal runs of their smallest common step; anything else stays single points."""
    ordered = sorted(points)
    present = set(ordered)
    first = ordered[0]
    for other in ordered[1:]:
        step = tuple(b - a for a, b in zip(first, other, strict=True))
        starts = [p for p in ordered if tuple(a - d for a, d in zip(p, step, strict=True)) not in present]
        count, rest = divmod(len(ordered), len(starts))
        if not rest and count > 1 and all(
            tuple(a + k * d for a, d in zip(p, step, strict=True)) in present for p in starts for k in range(count)
        ):  # fmt: skip
            return [(p, step, count) for p in starts]
    if len(ordered) > 2:
        runs = _collinear(ordered)
        if runs:
            return runs
    return [(p, tuple(0 for _ in p), 1) for p in ordered]


def _collinear(ordered: list[tuple[int, ...]]) -> list[tuple[tuple[int, ...], tuple[int, ...], int]] | None:
    """Maximal runs of points on one line, counted in the smallest difference between neighbours."""
    steps = [tuple(b - a for a, b in zip(p, q, strict=True)) for p, q in itertools.pairwise(ordered)]
    least = min(steps, key=lambda s: [abs(x) for x in s])
    runs: list[tuple[tuple[int, ...], tuple[int, ...], int]] = [(ordered[0], least, 1)]
    for point, step in zip(ordered[1:], steps, strict=True):
        if step == least:
            first, _, count = runs[-1]
            runs[-1] = (first, least, count + 1)
        elif combination([least], step) is None:
            return None
        else:
            runs.append((point, least, 1))
    return runs if any(count > 1 for _, _, count in runs) else None
