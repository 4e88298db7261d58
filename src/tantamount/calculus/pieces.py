"""Forms: piecewise Polynomials over a tensor's index space, and what makes their pieces canonical.

Every dimension is a product of axes (mixed radix, the last varies fastest; a dimension of size 1 has none). The index
space is cut into disjoint boxes that cover it; each carries a Polynomial over the axes, numbered 0, 1, ... through the
dimensions. On a box that is one point wide along an axis, the Polynomial has that point substituted.

An axis whose size is made of symbols may be one point wide at some of them: a form with such an axis is the same
function there, only not the shortest one. So ``is_one``, ``same`` and ``divided_evenly`` ask where both answers are
right, and no proof is for fewer sizes because of them.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from math import prod

from tantamount.calculus.affine import Coordinate, Index, fixed, variable
from tantamount.calculus.atoms import Store
from tantamount.calculus.boxes import Box
from tantamount.calculus.polynomials import pinned
from tantamount.calculus.products import substitute_polynomial
from tantamount.calculus.terms import Factor, Polynomial, Term, single, sole_number
from tantamount.ir.types import Shape
from tantamount.sizes.symbolic import is_one, same

__all__ = [
    "Box", "Form", "Piece", "axes_of", "canonical", "constant_form", "identity", "intersect", "leaf_form", "mergeable",
    "merged", "number_of", "pin",
]  # fmt: skip

Piece = tuple[Box, Polynomial]


@dataclass(frozen=True)
class Form:
    """``dims[d]`` are the axis sizes (none is the number 1) of dimension d; an empty dimension is ``(0,)``
    and has no pieces.

    ``undefined`` says where the program that computed it is undefined (:mod:`tantamount.calculus.definedness`); it is
    no part of the function that the form is."""

    dims: tuple[tuple[int, ...], ...]
    pieces: tuple[Piece, ...]
    undefined: Form | None = field(default=None, compare=False, repr=False)

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        return tuple(size for dim in self.dims for size in dim)

    @cached_property
    def shape(self) -> Shape:
        return tuple(prod(dim) for dim in self.dims)

    def start(self, dim: int) -> int:
        """The number of the first axis of a dimension."""
        return sum(len(d) for d in self.dims[:dim])

    def coordinate(self, dim: int) -> Coordinate:
        """The index along a dimension as an affine map of its axes."""
        first = self.start(dim)
        parts: list[tuple[int, int]] = []
        stride = 1
        for k in reversed(range(len(self.dims[dim]))):
            parts.append((first + k, stride))
            stride *= self.dims[dim][k]
        return Coordinate(tuple(reversed(parts)), 0)


def axes_of(shape: Shape) -> tuple[tuple[int, ...], ...]:
    """The axes of a tensor of this shape whose dimensions are one axis each, or none of size 1."""
    return tuple(() if is_one(size) else (size,) for size in shape)


def constant_form(shape: Shape, x: Polynomial) -> Form:
    """The same Polynomial (over axes numbered as for ``shape``) everywhere."""
    dims = axes_of(shape)
    sizes = [size for dim in dims for size in dim]
    return Form(dims, () if 0 in sizes else ((tuple((0, size) for size in sizes), x),))


def identity(shape: Shape) -> Index:
    """The index of a tensor of this shape at its own axes; a dimension of size 1 has none."""
    axes = itertools.count()
    return tuple(fixed(0) if is_one(size) else variable(next(axes)) for size in shape)


def leaf_form(leaf: int, shape: Shape) -> Form:
    """The tensor of this shape whose elements are those of a leaf atom."""
    return constant_form(shape, single(leaf, identity(shape)))


def number_of(form: Form) -> Fraction | None:
    """The number that every element of a form is, if it is one."""
    found = {x for _, x in form.pieces}
    if len(found) != 1:
        return None
    number = sole_number(found.pop())
    return None if number is None else Fraction(number)


def intersect(a: Box, b: Box) -> Box | None:
    """The box of the points that are in both boxes; ``None`` if there are none."""
    out = tuple((max(x[0], y[0]), min(x[1], y[1])) for x, y in zip(a, b, strict=True))
    return None if any(low >= high for low, high in out) else out


def pin(store: Store, box: Box, x: Polynomial, sizes: Sequence[int]) -> Polynomial:
    """The Polynomial with axes along which the box is one point wide substituted."""
    points: dict[int, Coordinate] = {
        k: fixed(low)
        for k, ((low, high), size) in enumerate(zip(box, sizes, strict=True))
        if is_one(high - low) and not is_one(size)
    }
    return pinned(store, x, points, box) if points else x


# ------------------------------------------------------------------------------------------------ canonical pieces
def canonical(store: Store, dims: tuple[tuple[int, ...], ...], pieces: Sequence[Piece]) -> Form:
    """Coalesce adjacent boxes that carry the same function, and axes of a dimension that only occur as their
    product."""
    sizes = tuple(size for dim in dims for size in dim)
    if len(pieces) > 1:
        pieces = _coalesce(store, [(box, pin(store, box, x, sizes)) for box, x in pieces], len(sizes))
    elif pieces:
        box, x = pieces[0]
        pieces = [(box, pin(store, box, x, sizes))]
    return _merge_axes(dims, list(pieces))


def _coalesce(store: Store, pieces: list[Piece], axes: int) -> list[Piece]:
    changed = True
    while changed and len(pieces) > 1:
        changed = False
        for axis in range(axes):
            rows: dict[Box, list[Piece]] = {}
            for piece in pieces:
                rows.setdefault(piece[0][:axis] + piece[0][axis + 1 :], []).append(piece)
            if len(rows) == len(pieces):
                continue
            out: list[Piece] = []
            for row in rows.values():
                row.sort(key=lambda p: p[0][axis])
                current = row[0]
                for piece in row[1:]:
                    joined = _join(store, current, piece, axis)
                    if joined is None:
                        out.append(current)
                        current = piece
                    else:
                        current = joined
                        changed = True
                out.append(current)
            pieces = out
    return sorted(pieces, key=lambda p: p[0])


def _join(store: Store, p: Piece, q: Piece, axis: int) -> Piece | None:
    """One piece for two neighbours along an axis, if one Polynomial describes both."""
    joined = _joined(store, p, q, axis)
    store.fired["joined-boxes"] += joined is not None
    return joined


def _joined(store: Store, p: Piece, q: Piece, axis: int) -> Piece | None:
    (low, middle), (start, high) = p[0][axis], q[0][axis]
    if not same(middle, start):
        return None
    box = (*p[0][:axis], (low, high), *p[0][axis + 1 :])
    if p[1] == q[1]:
        return box, p[1]
    p_unit, q_unit = is_one(middle - low), is_one(high - start)
    if p_unit and q_unit:
        line = _interpolate(p[1], q[1], axis, low)
        if (
            line is None
            or pinned(store, line, {axis: fixed(low)}) != p[1]
            or pinned(store, line, {axis: fixed(start)}) != q[1]
        ):
            return None
        return box, line
    if p_unit and pinned(store, q[1], {axis: fixed(low)}) == p[1] and _is_defined(store, q[1], axis, low):
        return box, q[1]
    if q_unit and pinned(store, p[1], {axis: fixed(start)}) == q[1] and _is_defined(store, p[1], axis, start):
        return box, p[1]
    return None


def _is_defined(store: Store, x: Polynomial, axis: int, point: int) -> bool:
    """True if x may be used at ``axis = point``, outside the box it was made for: no term with a divisor vanishes.
    A guard that is 0 would hide a divisor that is 0 there too, and the sum of such terms may cancel the divisor."""
    return all(
        all(e > 0 for _, e, _ in term.monomial) or bool(pinned(store, (term,), {axis: fixed(point)})) for term in x
    )


def _interpolate(x: Polynomial, y: Polynomial, axis: int, low: int) -> Polynomial | None:
    """The Polynomial that is x at ``axis = low`` and y at ``low + 1``, if they differ in offsets only. Exact at those
    two points."""
    if len(x) != len(y):
        return None
    out: list[Term] = []
    for (m, c), (n, d) in zip(x, y, strict=True):
        if c != d or len(m) != len(n):
            return None
        factors: list[Factor] = []
        for (a, e, index), (b, g, other) in zip(m, n, strict=True):
            if a != b or e != g:
                return None
            coordinates: list[Coordinate] = []
            for (parts, offset), (parts2, offset2) in zip(index, other, strict=True):
                if parts != parts2:
                    return None
                step = offset2 - offset
                coordinates.append(
                    Coordinate(tuple(sorted([*parts, (axis, step)])) if step else parts, offset - low * step)
                )
            factors.append(Factor(a, e, tuple(coordinates)))
        out.append(Term(tuple(factors), c))
    return tuple(out)


def _merge_axes(dims: tuple[tuple[int, ...], ...], pieces: list[Piece]) -> Form:
    first = 0
    kept: list[tuple[int, ...]] = []
    for dim in dims:
        sizes = list(dim)
        k = 0
        while k + 1 < len(sizes):
            a, inner = first + k, sizes[k + 1]
            if all(mergeable(piece, a, inner) for piece in pieces):
                pieces = [merged(piece, a, inner) for piece in pieces]
                sizes[k : k + 2] = [sizes[k] * inner]
            else:
                k += 1
        kept.append(tuple(sizes))
        first += len(sizes)
    return Form(tuple(kept), tuple(pieces))


def mergeable(piece: Piece, a: int, inner: int) -> bool:
    """True if axes a and a+1, of size ``inner``, occur as their product ``a * inner + (a+1)`` only."""
    box, x = piece
    if box[a + 1] != (0, inner):
        return False
    if is_one(box[a][1] - box[a][0]):
        return True
    for m, _ in x:
        for _, _, index in m:
            for parts, _ in index:
                s = t = 0
                for v, stride in parts:
                    if v == a:
                        s = stride
                    elif v == a + 1:
                        t = stride
                if s != t * inner:
                    return False
    return True


def merged(piece: Piece, a: int, inner: int) -> Piece:
    """Axes a and a+1 replaced by their joint axis w = a * inner + (a+1). Where a is one point: a+1 = w - a * inner."""
    box, x = piece
    low, high = box[a]
    replace: dict[int, Coordinate] = {v: variable(v - 1) for v in range(a + 2, len(box))}
    unit = is_one(high - low)
    replace[a] = fixed(low if unit else 0)
    replace[a + 1] = variable(a, 1, -low * inner if unit else 0)
    return (*box[:a], (low * inner, high * inner), *box[a + 2 :]), substitute_polynomial(x, replace)
