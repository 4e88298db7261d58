"""Two axes as one where their pieces are no intervals of it: zeros between the elements of a row, rows in turn.

The element at ``w = a k + b`` of the joint axis, b < k, is ``sum[a', b'] x(a', b') [w == a' k + b']``: exactly one
summand is not 0. What a number of boxes could say of a number of rows, this says of any.
"""

from __future__ import annotations

from collections.abc import Sequence

from tantamount.calculus.affine import Coordinate, coordinate, variable
from tantamount.calculus.atoms import Store
from tantamount.calculus.comparisons import compare
from tantamount.calculus.pieces import Box, Piece, intersect
from tantamount.calculus.polynomials import add, iota, multiply, sum_over
from tantamount.calculus.products import substitute_polynomial
from tantamount.calculus.terms import Polynomial
from tantamount.errors import Unsupported
from tantamount.sizes.symbolic import is_one

__all__ = ["interleaved"]


def interleaved(store: Store, pieces: Sequence[Piece], axes: int, first: int, outer: int, inner: int) -> list[Piece]:
    """Pieces that cover a space of so many ``axes``, with ``first`` and the next one, of sizes ``outer`` and
    ``inner``, as one axis. Raises :class:`Unsupported` if they differ in the other axes in more than one way."""
    rows: dict[Box, list[Piece]] = {}
    for box, x in pieces:
        rows.setdefault((*box[:first], *box[first + 2 :]), []).append((box, x))
    boxes = list(rows)
    if any(intersect(a, b) for k, a in enumerate(boxes) for b in boxes[:k]):
        raise Unsupported("a layout of rows in turn that are cut elsewhere, too")
    store.fired["rows-in-turn"] += 1
    out: list[Piece] = []
    for others, row in rows.items():
        here = (*others[:first], (0, outer * inner), *others[first:])
        found = [_spread(store, piece, here, axes - 1, first, inner) for piece in row]
        out.append((here, add(store, *found, box=here)))
    return out


def _spread(store: Store, piece: Piece, here: Box, axes: int, first: int, inner: int) -> Polynomial:
    """``sum[a, b] x(a, b) [w == a inner + b]`` over the piece's a and b, which are axes behind all others first. An
    axis along which the piece is one point wide is that point."""
    box, x = piece
    replace: dict[int, Coordinate] = {v: variable(v - 1) for v in range(first + 2, len(box))}
    summed: dict[int, tuple[int, int]] = {}
    parts: dict[int, int] = {}
    offset = 0
    for axis, stride in ((first, inner), (first + 1, 1)):
        low, high = box[axis]
        if is_one(high - low):
            offset += low * stride
            continue
        at = axes + len(summed)
        replace[axis] = variable(at)
        summed[at] = low, high
        parts[at] = stride
    cell = (*here, *summed.values())
    place = iota(coordinate(parts, offset))
    guard = compare(store, "equal", place, iota(variable(first)), cell)
    value = multiply(store, guard, substitute_polynomial(x, replace), cell)
    return sum_over(store, value, summed, cell) if summed else value
