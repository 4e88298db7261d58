"""Recorded tensors of numbers as views of leaves: equal numbers at equal places are equal elements.

Programs record the same numbers in different layouts: cosines once, twice beside each other (``cat(c, c)``), each one
repeated, with dimensions of size 1, turned around, or some rows of them on each rank. All of these are views of one
tensor. A table is therefore reduced to what is left without dimensions of size 1, without repetitions along a
dimension (the whole of it, ``c c``, or every row, ``a a b b``), and looked up among those that are known. What is
found has the same number at every place, so nothing is assumed.
"""

from __future__ import annotations

from math import prod

from tantamount.calculus import forms
from tantamount.calculus.atoms import Store, ValueFacts
from tantamount.calculus.forms import Form
from tantamount.ir.types import Kind, Shape
from tantamount.ops.algebra import Number

__all__ = ["recorded"]

Data = tuple[Number, ...]


def recorded(store: Store, data: Data, shape: Shape, kind: Kind) -> Form:
    """The form of a tensor of recorded numbers (in row-major order) of the given shape: a view of a leaf."""
    core, left = data, tuple(size for size in shape if size != 1)
    # where a number repeats along a dimension: (copies of the whole, what repeats, copies of each)
    pattern: list[tuple[int, int, int]] = []
    for d in range(len(left)):
        core, found = _without_copies(core, left, d)
        left = (*left[:d], found[1], *left[d + 1 :])
        pattern.append(found)
    rest = tuple(size for size in left if size != 1)
    form = _known(store, core, rest)
    if form is None:
        form = _leaf(store, core, rest, kind)
    if any(found != (1, size, 1) for found, size in zip(pattern, left, strict=True)):
        apart = tuple(size for _, size, _ in pattern for size in (1, size, 1))
        form = forms.expand(forms.reshape(store, form, apart), tuple(size for found in pattern for size in found))
    return forms.reshape(store, form, shape)


def _without_copies(data: Data, shape: Shape, d: int) -> tuple[Data, tuple[int, int, int]]:
    """The numbers without copies along dimension d, and (m, n, k): the whole of n rows is there m times, every row k
    times, so that the dimension has ``m n k`` rows."""
    size, inner = shape[d], prod(shape[d + 1 :])
    outer = prod(shape[:d])
    if not data:
        return data, (1, size, 1)
    period = next(p for p in range(1, size + 1) if size % p == 0 and _repeats(data, outer, size, inner, p))
    if period < size:
        data = _rows(data, outer, size, inner, range(period))
    each = next(k for k in range(period, 0, -1) if period % k == 0 and _is_repeated(data, outer, period, inner, k))
    if each > 1:
        data = _rows(data, outer, period, inner, range(0, period, each))
    return data, (size // period, period // each, each)


def _repeats(data: Data, outer: int, size: int, inner: int, period: int) -> bool:
    """True if row i along a dimension is row ``i mod period``."""
    if period == size:
        return True
    if data[0] != data[period * inner]:
        return False
    block, shift = size * inner, period * inner
    return all(
        data[o * block : (o + 1) * block - shift] == data[o * block + shift : (o + 1) * block] for o in range(outer)
    )


def _is_repeated(data: Data, outer: int, size: int, inner: int, each: int) -> bool:
    """True if row i along a dimension is row ``i - i mod each``."""
    if each == 1:
        return True
    if data[0] != data[inner]:
        return False
    step = each * inner
    return all(data[at : at + inner] * each == data[at : at + step] for at in range(0, outer * size * inner, step))


def _rows(data: Data, outer: int, size: int, inner: int, rows: range) -> Data:
    """Some rows along a dimension."""
    block = size * inner
    return tuple(
        x for o in range(outer) for r in rows for x in data[o * block + r * inner : o * block + (r + 1) * inner]
    )


def _known(store: Store, data: Data, shape: Shape) -> Form | None:
    """The numbers as a part of a known table along one dimension, or as the transpose of one."""
    for (known, numbers), atom in store.leaves.tables.items():
        if len(known) != len(shape):
            continue
        for d in range(max(len(shape), 1)):
            start = _start(numbers, known, data, shape, d)
            if start is not None:
                whole = forms.leaf_form(atom, known)
                return forms.slice_form(store, whole, d, start, start + shape[d], 1) if shape else whole
        if len(shape) == 2 and known == shape[::-1] and _transposed(numbers, known) == data:
            return forms.permute(store, forms.leaf_form(atom, known), (1, 0))
    return None


def _start(numbers: Data, known: Shape, data: Data, shape: Shape, d: int) -> int | None:
    """The row along dimension d of a known table at which the numbers begin; ``None`` if they are no part of it."""
    if not shape:
        return 0 if numbers == data else None
    if (*known[:d], *known[d + 1 :]) != (*shape[:d], *shape[d + 1 :]) or shape[d] > known[d]:
        return None
    outer, inner = prod(shape[:d]), prod(shape[d + 1 :])
    block, row = known[d] * inner, shape[d] * inner
    for start in range(known[d] - shape[d] + 1):
        at = start * inner
        if all(numbers[o * block + at : o * block + at + row] == data[o * row : (o + 1) * row] for o in range(outer)):
            return start
    return None


def _transposed(numbers: Data, known: Shape) -> Data:
    rows, columns = known
    return tuple(numbers[i * columns + j] for j in range(columns) for i in range(rows))


def _leaf(store: Store, data: Data, shape: Shape, kind: Kind) -> Form:
    lowest = min(data, default=0) if not any(isinstance(v, float) for v in data) else -1
    span = (int(min(data)), int(max(data))) if data and kind is Kind.INT else None
    facts = ValueFacts(lowest > 0, lowest >= 0, kind is not Kind.FLOAT, kind is Kind.BOOL, span)
    atom = store.leaf("table", (shape, data), shape, facts)
    store.leaves.tables[shape, data] = atom
    return forms.leaf_form(atom, shape)
