"""From where every element of a tensor comes to a clean expression that says so: slices, reshapes, permutations, joins.

A tensor of an implementation is often a view of tensors of a checkpoint: rows interleaved, three matrices joined, a
kernel flattened. Given the number of the source of every element, :func:`expression_of` finds such an expression, and
evaluates it again: what it returns gives these numbers, exactly.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import prod

import numpy as np
from numpy.typing import NDArray

from tantamount.ir.relation import Concat, Expression, Permute, RankTensor, Reshape, Slice, rank_tensors
from tantamount.ir.types import Shape
from tantamount.ops.relations import evaluate
from tantamount.semantics.reference import Reference

__all__ = ["Numbers", "Whole", "expression_of", "numbered", "shape_of"]

Numbers = NDArray[np.int64]
_FEW = 3  # joints along a dimension: of more, a pattern is looked for that repeats
_PIECES = 4096  # of one expression: more are no layout


@dataclass(frozen=True, slots=True)
class Whole:
    """A tensor whose elements have the numbers from ``start`` on, row-major."""

    name: str
    shape: Shape
    start: int

    @property
    def stop(self) -> int:
        return self.start + prod(self.shape)


def numbered(shapes: Mapping[str, Shape]) -> tuple[Whole, ...]:
    """Tensors whose elements are numbered one after the other, from 0 on."""
    found: list[Whole] = []
    start = 0
    for name, shape in shapes.items():
        found.append(Whole(name, shape, start))
        start = found[-1].stop
    return tuple(found)


def expression_of(sources: Numbers, wholes: Sequence[Whole]) -> Expression | None:
    """A clean expression over tensors of rank 0 whose elements have these numbers; ``None`` where none is found.
    ``sources`` has any shape with at least one element; every number must be that of an element of ``wholes``."""
    filled = [whole for whole in wholes if whole.stop > whole.start]
    found = _Search(filled).build(sources) if sources.size and filled else None
    if found is None:
        return None
    values = {
        w.name: np.arange(w.start, w.stop, dtype=np.int64).reshape(w.shape) for w in filled if w.name in _names(found)
    }
    again = evaluate(Reference(), found, lambda _, name: values[name], "")
    return found if again.shape == sources.shape and bool((again == sources).all()) else None


def _names(expression: Expression) -> set[str]:

    return {tensor.name or "" for tensor in rank_tensors(expression)}


class _Search:
    def __init__(self, wholes: Sequence[Whole]) -> None:
        self.wholes = wholes
        self.starts = np.array([whole.start for whole in wholes])
        self.pieces = 0

    def build(self, sources: Numbers) -> Expression | None:
        """The expression, as one strided view, or else as parts that are joined along a dimension."""
        self.pieces += 1
        if self.pieces > _PIECES:
            return None
        owner = np.searchsorted(self.starts, sources, side="right") - 1
        first = int(owner.reshape(-1)[0])
        if bool((owner == first).all()):
            whole = self.wholes[first]
            found = _strided(sources - whole.start, whole)
            if found is not None:
                return found
        cuts = [_cuts(sources, owner, dim) for dim in range(sources.ndim)]
        dims = [dim for dim, places in enumerate(cuts) if places]
        if not dims:
            return None
        dim = min(dims, key=lambda dim: len(cuts[dim]))
        if len(cuts[dim]) > _FEW:
            period = _period(sources, owner, dim, len(cuts[dim]))
            if period:
                found = self.build(_folded(sources, dim, period))
                return None if found is None else _reshaped(found, sources.shape)
        edges = [0, *cuts[dim], sources.shape[dim]]
        parts: list[Expression] = []
        for start, stop in pairwise(edges):
            part = self.build(sources[(slice(None),) * dim + (slice(start, stop),)])
            if part is None:
                return None
            parts.append(part)
        return Concat(tuple(parts), dim)


def _folded(values: Numbers, dim: int, period: int) -> Numbers:
    """The values with a dimension as two, the inner one of size ``period``."""
    size = values.shape[dim]
    return values.reshape(*values.shape[:dim], size // period, period, *values.shape[dim + 1 :])


def _period(sources: Numbers, owner: Numbers, dim: int, cuts: int) -> int:
    """The inner size of a dimension as two of which one is cut less often than the dimension itself; 0 if none is."""
    size = sources.shape[dim]
    best = (cuts, 0)
    for period in (p for p in range(2, size) if size % p == 0):
        folded, owners = _folded(sources, dim, period), _folded(owner, dim, period)
        needed = len(_cuts(folded, owners, dim + 1))
        outer = folded[(slice(None),) * (dim + 1) + (0,)], owners[(slice(None),) * (dim + 1) + (0,)]
        if not _cuts(*outer, dim):
            best = min(best, (needed, period))
    return best[1]


def _reshaped(tensor: Expression, shape: Shape) -> Expression:
    """A reshape, of which one that comes before it is no part."""
    return Reshape(tensor.operand if isinstance(tensor, Reshape) else tensor, tuple(shape))


def _cuts(sources: Numbers, owner: Numbers, dim: int) -> list[int]:
    """The positions along a dimension where another tensor begins, or the step to the next element changes."""
    if sources.shape[dim] < 2:
        return []
    steps = np.moveaxis(np.diff(sources, axis=dim), dim, 0).reshape(sources.shape[dim] - 1, -1)
    same = np.moveaxis(np.diff(owner, axis=dim), dim, 0).reshape(sources.shape[dim] - 1, -1)
    even = (steps == steps[:, :1]).all(axis=1) & (same == 0).all(axis=1) & (steps[:, 0] > 0)
    cuts: list[int] = []
    step: int | None = None
    for k in range(len(steps)):
        if even[k] and (step is None or int(steps[k, 0]) == step):
            step = int(steps[k, 0])
        else:
            cuts.append(k + 1)
            step = None
    return cuts


# ---------------------------------------------------------------------------------------------- strided views
_Digit = tuple[int, int]  # how many elements, and the step between them in the whole tensor, flat


def _digits(line: Numbers) -> list[_Digit] | None:
    """The positions along a line (the first is 0) as a mixed-radix number, slowest digit first."""
    if len(line) == 1:
        return []
    step = int(line[1])
    if step <= 0:
        return None
    off = np.flatnonzero(line != np.arange(len(line)) * step)
    run = int(off[0]) if len(off) else len(line)
    if run == len(line):
        return [(run, step)]
    if len(line) % run or not bool((line.reshape(-1, run) == line[::run, None] + line[:run]).all()):
        return None
    outer = _digits(line[::run])
    return None if outer is None else [*outer, (run, step)]


@dataclass(frozen=True, slots=True)
class _Axis:
    """An axis of what is built so far: its size, where in it what is wanted begins, and the digits that run along it,
    each by its place in the result, with the step along this axis; slowest first."""

    size: int
    base: int
    digits: tuple[tuple[int, int, int], ...]  # place, count, step


def _strided(flat: Numbers, whole: Whole) -> Expression | None:
    """A view of one tensor whose elements have these flat positions."""
    base = int(flat.reshape(-1)[0])
    lines = [flat[(0,) * d + (slice(None),) + (0,) * (flat.ndim - d - 1)] - base for d in range(flat.ndim)]
    total = np.array(base)
    for d, line in enumerate(lines):
        total = total + line.reshape((-1,) + (1,) * (flat.ndim - d - 1))
    if not np.array_equal(np.broadcast_to(total, flat.shape), flat):
        return None
    digits: list[_Digit] = []
    for line in lines:
        found = _digits(line)
        if found is None:
            return None
        digits += found
    strides = [prod(whole.shape[d + 1 :]) for d in range(len(whole.shape))]
    fine: list[tuple[int, int, int]] = []  # dimension of the whole, count, step along it
    for count, step in digits:
        split = _along(count, step, whole.shape, strides)
        if split is None:
            return None
        fine += split
    axes: list[_Axis] = []
    for d, size in enumerate(whole.shape):
        own = [(place, count, step) for place, (dim, count, step) in enumerate(fine) if dim == d]
        own.sort(key=lambda digit: -digit[2])
        axes.append(_Axis(size, base // strides[d] % size, tuple(own)))
    return _view(RankTensor(0, whole.name), axes, len(fine), flat.shape)


def _along(count: int, step: int, shape: Shape, strides: Sequence[int]) -> list[tuple[int, int, int]] | None:
    """A digit as digits along single dimensions of a tensor, slowest first."""
    dims = [d for d, size in enumerate(shape) if size > 1 and strides[d] <= step]
    if not dims:
        return None
    d = dims[0]
    if step % strides[d]:
        return None
    room = strides[d] * shape[d]
    if (count - 1) * step < room:
        return [(d, count, step // strides[d])]
    if room % step or count % (room // step):
        return None
    inner = room // step
    outer = _along(count // inner, room, shape, strides)
    return None if outer is None else [*outer, (d, inner, step // strides[d])]


def _view(tensor: Expression, axes: Sequence[_Axis], digits: int, shape: Shape) -> Expression | None:
    """Slices and reshapes until every axis has one digit; then the axes in the order of the result."""
    while True:
        bounds: list[tuple[int, int, int]] = []
        sizes: list[int] = []
        rest: list[_Axis] = []
        for axis in axes:
            if len(axis.digits) < 2:
                count, step = axis.digits[0][1:] if axis.digits else (1, 1)
                bounds.append((axis.base, axis.base + (count - 1) * step + 1, step))
                sizes.append(count)
                rest.append(_Axis(count, 0, tuple((place, count, 1) for place, _, _ in axis.digits)))
                continue
            (place, count, step), *inner = axis.digits
            extent = 1 + sum((n - 1) * m for _, n, m in inner)
            low = min(axis.base, axis.size - count * step)
            if low < 0 or axis.base - low + extent > step:
                return None
            bounds.append((low, low + count * step, 1))
            sizes += [count, step]
            rest += [_Axis(count, 0, ((place, count, 1),)), _Axis(step, axis.base - low, tuple(inner))]
        if any(bound != (0, axis.size, 1) for bound, axis in zip(bounds, axes, strict=True)):
            tensor = Slice(tensor, tuple(bounds))
        if len(rest) == len(axes):
            break
        tensor = _reshaped(tensor, tuple(sizes))
        axes = rest
    order = [
        next(k for k, axis in enumerate(rest) if any(p == place for p, _, _ in axis.digits)) for place in range(digits)
    ]
    if order != sorted(order):
        order += [k for k, axis in enumerate(rest) if not axis.digits]
        tensor = Permute(tensor, tuple(order))
    else:
        order = list(range(len(rest)))
    now = tuple(rest[k].size for k in order)
    return tensor if now == tuple(shape) else _reshaped(tensor, shape)


def shape_of(expression: Expression, shapes: Mapping[str, Shape]) -> Shape:
    """The shape of what an expression gives, from those of the tensors by name. Slices must have one entry per
    dimension."""
    if isinstance(expression, RankTensor):
        return shapes[expression.name or ""]
    if isinstance(expression, Reshape):
        return expression.shape
    if isinstance(expression, Concat):
        parts = [shape_of(part, shapes) for part in expression.parts]
        d = expression.dim
        return (*parts[0][:d], sum(part[d] for part in parts), *parts[0][d + 1 :])
    if isinstance(expression, Permute):
        inner = shape_of(expression.operand, shapes)
        return tuple(inner[d] for d in expression.dims)
    if isinstance(expression, Slice):
        return tuple(len(range(low or 0, high or 0, step)) for low, high, step in expression.bounds)
    raise ValueError(f"{type(expression).__name__} is no view")
