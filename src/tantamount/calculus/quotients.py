"""The floor of a value that is affine in the positions, such as ``floor(i / 4)`` in an index computation.

An axis that a stride ``p / q`` meets is split into ``n / q`` blocks of q: within a block the quotient does not change,
across blocks it is affine again. What no block structure explains is cut where the floor steps, along one axis. Of a
divisor that is a size, multiples are taken out.
"""

from __future__ import annotations

from fractions import Fraction
from math import ceil, floor, lcm

from tantamount.calculus.atoms import Store
from tantamount.calculus.comparisons import split_affine
from tantamount.calculus.forms import Box, Form, Piece, canonical, number_of, split_axis
from tantamount.calculus.polynomials import add, affine_polynomial, constant, scale
from tantamount.calculus.powers import function
from tantamount.calculus.products import is_integer
from tantamount.calculus.terms import Polynomial
from tantamount.sizes.symbolic import is_one, is_size, never_below, taken_out

__all__ = ["floor_of", "quotient"]


def floor_of(store: Store, form: Form) -> Form | None:
    """``floor`` of every element, if each is affine in the positions up to whole numbers; else ``None``."""
    if any(not _whole_rest(store, x) for _, x in form.pieces):
        return None
    for axis in reversed(range(len(form.sizes))):
        block = lcm(*(split_affine(x)[1].get(axis, Fraction(0)).denominator for _, x in form.pieces))
        if 1 < block < form.sizes[axis] and form.sizes[axis] % block == 0:
            form = split_axis(form, axis, block)
    pieces: list[Piece] = []
    for box, x in form.pieces:
        steps = _steps(store, box, x)
        if steps is None:
            return None
        pieces.extend((cell, _floored(store, x, value)) for cell, value in steps)
    return canonical(store, form.dims, pieces)


def _whole_rest(store: Store, x: Polynomial) -> bool:
    rest, parts, offset = split_affine(x)
    if any(map(is_size, (offset, *parts.values()))):
        return False
    return not rest or is_integer(store, rest)


def _nearest(q: Fraction) -> int:
    return floor(q + Fraction(1, 2))


def _floored(store: Store, x: Polynomial, value: int) -> Polynomial:
    """The whole strides of x, and ``value`` for the floor of what remains of them."""
    rest, parts, offset = split_affine(x)
    whole = {v: _nearest(q) for v, q in parts.items()}
    affine = affine_polynomial({v: Fraction(s) for v, s in whole.items() if s}, Fraction(_nearest(offset) + value))
    return add(store, rest, affine)


def _steps(store: Store, box: Box, x: Polynomial) -> list[tuple[Box, int]] | None:
    """The box cut where the floor of the remaining fractional part is constant, with its value there."""
    _, parts, offset = split_affine(x)
    small = {v: q - _nearest(q) for v, q in parts.items() if q.denominator > 1}
    shift = offset - _nearest(offset)
    ends = [(q * box[v][0], q * (box[v][1] - 1)) for v, q in small.items()]
    low, high = shift + sum(min(e) for e in ends), shift + sum(max(e) for e in ends)
    if floor(low) == floor(high):
        return [(box, floor(low))]
    count = floor(high) - floor(low) + 1
    if len(small) != 1 or is_size(count) or store.effort.exceeds("floor_steps", count):
        return None
    ((axis, q),) = small.items()
    out: list[tuple[Box, int]] = []
    at, end = box[axis]
    while at < end:
        value = floor(shift + q * at)
        # the first position after ``at`` with another floor
        stop = ceil((value + 1 - shift) / q) if q > 0 else floor((value - shift) / q) + 1
        stop = min(stop, end)
        out.append(((*box[:axis], (at, stop), *box[axis + 1 :]), value))
        at = stop
    return out


def quotient(store: Store, x: Form, y: Form) -> Form | None:
    """``floor(x / y)`` for a number y other than 0, or a size of which x has a multiple as a summand."""
    divisor = number_of(y)
    if divisor is None:
        return _by_size(store, x, y)
    if not divisor:
        return None
    return floor_of(store, Form(x.dims, tuple((box, scale(value, 1 / divisor)) for box, value in x.pieces)))


def _by_size(store: Store, x: Form, y: Form) -> Form | None:
    """``floor((q d + r) / d) = q + floor(r / d)`` for a size d and a whole q, and ``floor(r / d) = 0`` where
    ``0 <= r < d`` whatever the sizes are."""
    found = {value for _, value in y.pieces}
    rest, strides, size = split_affine(found.pop()) if len(found) == 1 else ((), {}, 0)
    if rest or strides or not is_size(size):
        return None
    if any(not is_integer(store, value) for _, value in x.pieces):
        return None
    for axis in reversed(range(len(x.sizes))):
        met = {split_affine(value)[1].get(axis, Fraction(0)) for _, value in x.pieces}
        stride = abs(met.pop()) if len(met) == 1 else 0
        block, left = taken_out(size, stride) if stride else (1, 0)
        count, over = taken_out(x.sizes[axis], block) if is_size(block) and not left else (1, 0)
        if not over and not is_one(count) and not is_one(block):  # no form has an axis that is 1 at the hints
            x = split_axis(x, axis, block)
    pieces: list[Piece] = []
    changed = False
    for box, value in x.pieces:
        rest, strides, offset = split_affine(value)
        divided = {v: taken_out(s, size) for v, s in strides.items()}
        whole, left = taken_out(offset, size)
        parts = {v: r for v, (_, r) in divided.items()}
        remainder = add(store, rest, affine_polynomial(parts, left))
        quotient = affine_polynomial({v: q for v, (q, _) in divided.items()}, whole)
        ends = [(s * box[v][0], s * (box[v][1] - 1)) for v, s in parts.items() if s]
        falls = [a if never_below(b, a) else b for a, b in ends]
        rises = [b if never_below(b, a) else a for a, b in ends]
        inside = all(never_below(a, b) or never_below(b, a) for a, b in ends) and not rest
        if inside and never_below(left + sum(falls), 0) and never_below(size - 1, left + sum(rises)):
            remainder = ()
        changed |= remainder != value
        floored = function(store, "floor_divide", (remainder, constant(size))) if remainder else ()
        pieces.append((box, add(store, quotient, floored)))
    return canonical(store, x.dims, pieces) if changed else None
