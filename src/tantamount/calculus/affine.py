"""Affine index maps and the lattices they span.

A coordinate of an atom is an affine map of variables, ``offset + sum(stride * variable)``, kept as ``(parts, offset)``
with ``parts`` sorted by variable and free of zero strides. Variables ``>= 0`` are axes of a form or coordinates of an
atom, variables ``< 0`` are bound by a sum (``-1`` is the first). Parts come first so that tuples sort by axes first and
by offset last: an order that shifting by a shard's offset does not disturb.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from functools import lru_cache
from math import lcm
from typing import Any, NamedTuple, cast

from tantamount.sizes.symbolic import common_divisor, is_size, rational, whole

__all__ = [
    "Coordinate",
    "Index",
    "Lattice",
    "coordinate",
    "fixed",
    "lattice",
    "meet",
    "substitute",
    "substitute_index",
    "variable",
]


class Coordinate(NamedTuple):
    """``offset + sum(stride * variable)``: ``parts`` are the (variable, stride)."""

    parts: tuple[tuple[int, int], ...]
    offset: int


Index = tuple[Coordinate, ...]
# Makes a named tuple in half the time that its class takes: for what substitution makes by the hundred thousand.
raw = cast("Callable[[Any, Any], Any]", tuple.__new__)  # pyright: ignore[reportUnknownMemberType]


def variable(number: int, stride: int = 1, offset: int = 0) -> Coordinate:
    """``offset + stride * variable``."""
    return raw(Coordinate, (((number, stride),), offset))


def fixed(value: int) -> Coordinate:
    """The coordinate that has one value, whatever the variables."""
    return Coordinate((), value)


def coordinate(parts: Mapping[int, int], offset: int) -> Coordinate:
    """The canonical coordinate with these strides."""
    return raw(Coordinate, (tuple(sorted([(v, s) for v, s in parts.items() if s])), offset))


def substitute(c: Coordinate, replace: Mapping[int, Coordinate]) -> Coordinate:
    """``c`` with some variables replaced by affine maps; the others stay."""
    parts, offset = c
    if len(parts) == 1:  # most coordinates are one variable: the image is in order already
        v, s = parts[0]
        image = replace.get(v)
        if image is None:
            return c
        if s == 1:
            return raw(Coordinate, (image.parts, offset + image.offset)) if offset else image
        return raw(Coordinate, (tuple([(w, s * t) for w, t in image.parts]), offset + s * image.offset))
    total: dict[int, int] = {}
    changed = False
    for v, s in parts:
        image = replace.get(v)
        if image is None:
            total[v] = total.get(v, 0) + s
            continue
        changed = True
        offset += s * image.offset
        for w, t in image.parts:
            total[w] = total.get(w, 0) + s * t
    return coordinate(total, offset) if changed else c


def substitute_index(index: Index, replace: Mapping[int, Coordinate]) -> Index:
    """:func:`substitute` in every coordinate."""
    return tuple([substitute(c, replace) for c in index])  # a list: half the time of a generator


# --------------------------------------------------------------------------------------------------- lattices
class Lattice(NamedTuple):
    """A coset ``base + {columns @ z : z integer}`` of a saturated sublattice of Z^n, in canonical form.

    ``columns`` is in column echelon form: ``pivots[i]`` is the first row in which column i is non-zero, that entry is
    positive and pivots increase. ``base`` is reduced modulo the columns. Two cosets are equal iff these data are.
    """

    columns: tuple[tuple[int, ...], ...]
    pivots: tuple[int, ...]
    base: tuple[int, ...]

    def solve(self, index: Sequence[Coordinate]) -> Index | None:
        """The integer affine z with ``base + columns @ z = index``, or ``None``."""
        rows = [(dict(parts), offset - b) for (parts, offset), b in zip(index, self.base, strict=True)]
        found: list[Coordinate] = []
        for column, pivot in zip(self.columns, self.pivots, strict=True):
            parts, offset = rows[pivot]
            d = column[pivot]
            if offset % d or any(s % d for s in parts.values()):
                return None
            z = {v: s // d for v, s in parts.items() if s}
            k = offset // d
            found.append(Coordinate(tuple(sorted(z.items())), k))
            for j in range(pivot, len(rows)):
                m = column[j]
                if m:
                    row, o = rows[j]
                    for v, s in z.items():
                        row[v] = row.get(v, 0) - m * s
                    rows[j] = (row, o - m * k)
        if any(o or any(parts.values()) for parts, o in rows):
            return None
        return tuple(found)

    def coordinates(self) -> Index:
        """The points of the coset as an index over its own coordinates z (variables 0, 1, ...)."""
        return tuple(
            coordinate({k: column[j] for k, column in enumerate(self.columns)}, b) for j, b in enumerate(self.base)
        )


def lattice(index: Sequence[Coordinate]) -> Lattice:
    """The smallest saturated coset that contains the image of an index: every point with integer coordinates in the
    affine span. Saturation makes ``x[2 * i]`` and ``x[i]`` the same lattice."""
    columns: dict[int, dict[int, int]] = {}
    for j, (parts, _) in enumerate(index):
        for v, s in parts:
            columns.setdefault(v, {})[j] = s
    vectors = tuple(sorted({_dense(c, len(index)) for c in columns.values()}))
    basis, pivots = _saturated(vectors)
    return _coset(basis, pivots, [offset for _, offset in index])


def _dense(column: Mapping[int, int], n: int) -> tuple[int, ...]:
    return tuple(column.get(j, 0) for j in range(n))


def _coset(basis: tuple[tuple[int, ...], ...], pivots: tuple[int, ...], point: list[int]) -> Lattice:
    """The coset of ``point``, its base reduced so that every pivot entry lies in [0, pivot value)."""
    for column, pivot in zip(basis, pivots, strict=True):
        q = point[pivot] // column[pivot]
        if q:
            point = [p - q * c for p, c in zip(point, column, strict=True)]
    return Lattice(basis, pivots, tuple(point))


def _saturated(vectors: tuple[tuple[int, ...], ...]) -> tuple[tuple[tuple[int, ...], ...], tuple[int, ...]]:
    """The lattice of :func:`_basis`, remembered for numbers; sizes belong to one run, and a cache outlives it."""
    return _basis(vectors) if any(is_size(x) for v in vectors for x in v) else _basis_of_numbers(vectors)


def _basis(vectors: tuple[tuple[int, ...], ...]) -> tuple[tuple[tuple[int, ...], ...], tuple[int, ...]]:
    """Echelon basis of all integer vectors in the rational span, with the pivot positions.

    Over Q the reduced echelon basis B is unique. If it is integral it is the answer. Otherwise the integer points are
    B z for z in the dual of the lattice that the rows of B generate together with the unit vectors.
    """
    whole_numbers = _integral_echelon(vectors)
    if whole_numbers is not None:
        return whole_numbers
    echelon = _reduced_echelon([[rational(x) for x in v] for v in vectors])
    if all(x.denominator == 1 for v in echelon for x in v):
        basis = tuple(tuple(whole(x) for x in v) for v in echelon)
    else:
        rank = len(echelon)
        rows = [[v[j] for v in echelon] for j in range(len(vectors[0]))]
        scale = lcm(*(x.denominator for row in rows for x in row))
        generated = _hermite([[whole(x * scale) for x in row] for row in rows])
        inverse = _inverse([[rational(x) / scale for x in row] for row in generated])
        dual = [[inverse[i][k] for i in range(rank)] for k in range(rank)]  # rows: z-vectors with B z integral
        points = [[whole(sum(z[i] * echelon[i][j] for i in range(rank))) for j in range(len(vectors[0]))] for z in dual]
        basis = tuple(tuple(v) for v in _hermite(points))
    return basis, tuple(next(j for j, x in enumerate(v) if x) for v in basis)


_basis_of_numbers = lru_cache(maxsize=4096)(_basis)


def _integral_echelon(
    vectors: tuple[tuple[int, ...], ...],
) -> tuple[tuple[tuple[int, ...], ...], tuple[int, ...]] | None:
    """The reduced echelon basis and its pivots, if computing it takes no fractions: which most strides do not."""
    if any(type(x) is not int for v in vectors for x in v):
        return None
    rows = [[*v] for v in vectors]
    done: list[list[int]] = []
    pivots: list[int] = []
    for k in range(len(rows[0]) if rows else 0):
        live = [row for row in rows if row[k]]
        if not live:
            continue
        pivot = min(live, key=lambda row: abs(row[k]))
        rows = [row for row in rows if row is not pivot]
        d = pivot[k]
        if d != 1:
            if any(x % d for x in pivot):
                return None
            pivot = [x // d for x in pivot]
        for each in (rows, done):
            for j, row in enumerate(each):
                m = row[k]
                if m:
                    each[j] = [x - m * y for x, y in zip(row, pivot, strict=True)]
        done.append(pivot)
        pivots.append(k)
    return tuple(map(tuple, done)), tuple(pivots)


def _reduced_echelon(rows: list[list[Fraction]]) -> list[list[Fraction]]:
    done: list[list[Fraction]] = []
    width = len(rows[0]) if rows else 0
    for k in range(width):
        pivot = next((r for r in rows if r[k]), None)
        if pivot is None:
            continue
        rows.remove(pivot)
        d = pivot[k]
        pivot = [x / d for x in pivot]
        rows = [[x - r[k] * y for x, y in zip(r, pivot, strict=True)] for r in rows]
        done = [[x - r[k] * y for x, y in zip(r, pivot, strict=True)] for r in done]
        done.append(pivot)
    return done


def _hermite(rows: list[list[int]]) -> list[list[int]]:
    """Row Hermite normal form (echelon, positive pivots, entries above a pivot reduced); zero rows dropped."""
    done: list[list[int]] = []
    width = len(rows[0]) if rows else 0
    rows = [r for r in rows if any(r)]
    for k in range(width):
        live: list[list[int]] = [r for r in rows if r[k]]
        while len(live) > 1:
            live.sort(key=lambda r: abs(r[k]))
            head = live[0]
            for r in live[1:]:
                q = r[k] // head[k]
                for j in range(width):
                    r[j] -= q * head[j]
            live = [r for r in live if r[k]]
        if not live:
            continue
        head = live[0]
        rows = [r for r in rows if r is not head and any(r)]
        if head[k] < 0:
            head = [-x for x in head]
        for r in done:
            q = r[k] // head[k]
            if q:
                for j in range(width):
                    r[j] -= q * head[j]
        done.append(head)
    return done


def _inverse(matrix: list[list[Fraction]]) -> list[list[Fraction]]:
    n = len(matrix)
    rows = [[*row, *(Fraction(int(i == j)) for j in range(n))] for i, row in enumerate(matrix)]
    return [row[n:] for row in _reduced_echelon(rows)]


def meet(a: Lattice, b: Lattice) -> bool:
    """True if two cosets have a point in common: ``a.columns z - b.columns w = b.base - a.base`` for integers."""
    rows = len(a.base)
    difference = [y - x for x, y in zip(a.base, b.base, strict=True)]
    vectors = [list(c) for c in (*a.columns, *b.columns)]
    for j in range(rows):
        if difference[j] and not any(v[j] for v in vectors):
            return False
    for head in _hermite(vectors):
        k = next(j for j, x in enumerate(head) if x)
        q, rest = divmod(difference[k], head[k])
        if rest:
            return False
        difference = [x - q * y for x, y in zip(difference, head, strict=True)]
    return not any(difference)


def span(a: Lattice, b: Lattice) -> Lattice:
    """The smallest saturated coset that contains two cosets with a point in common."""
    vectors = tuple(sorted({*a.columns, *b.columns}))
    basis, pivots = _saturated(vectors)
    return _coset(basis, pivots, list(a.base))


def content(values: Sequence[Fraction | int]) -> Fraction:
    """The positive rational g such that all ``values / g`` are integers without a common divisor (without a common
    number as divisor, where values are symbolic)."""
    numerator = 0
    denominator = 1
    for value in values:
        numerator = common_divisor(numerator, value.numerator)
        denominator = lcm(denominator, value.denominator)
    return Fraction(numerator, denominator)
