"""Tensors recognised by their values: wholes, windows, multiples. Whatever is found by values is found here.

Everything is compared by a few random projections: they are linear, so that multiples and sums are recognised, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache, reduce
from itertools import product
from math import isfinite, isinf, isnan, prod
from typing import Generic, TypeVar, cast

import numpy as np

from tantamount.effort import Effort
from tantamount.ir.layouts import layouts
from tantamount.ir.mesh import Mesh
from tantamount.ir.relation import Shard
from tantamount.ir.relation_types import box_at
from tantamount.semantics.reference import Array

__all__ = [
    "Box", "Parts", "added_up", "close", "cut", "direction", "fingerprint", "parted_as", "placements", "rows_of",
    "summable", "totals", "windows",
]  # fmt: skip

P = TypeVar("P")
Box = tuple[tuple[int, int], ...]

_PROJECTIONS = 3
_DIGITS = 6
_ROUNDING = 1e-9  # of the largest element
_SAME = 1e-6  # by how much the scales of equal tensors may differ, relative to them
_INFINITY = 123456.789  # times the largest number stands for it in projections
_HUGE = 30.0  # times an ordinary element: beside what is larger the others are compared once more
_CANCELLED = (1e-18, 1e-12)  # of the largest element: what is left of numbers that cancel out, which nothing decides
_NEAR_SLOPE = 1e-5  # relative to a slope: keys that are the same have slopes that differ by less
_TOGETHER = 1 << 18  # elements of tensors that are looked at as one
_LOOKED_AT = 1024  # elements that say what an ordinary one is


@lru_cache(maxsize=512)
def _weights(size: int) -> Array:
    return np.random.default_rng([size, 7]).standard_normal((_PROJECTIONS, size))


def fingerprint(value: Array) -> tuple[tuple[int, ...], str]:
    """A key that equal tensors of one shape have in common: the shape, and a random projection to some digits.
    ``value`` holds real numbers."""
    return value.shape, f"{float(_weights(value.size)[0] @ value.reshape(-1)):.{_DIGITS}e}"


def direction(value: Array) -> tuple[tuple[str, ...], float] | None:
    """A key that a tensor has in common with its multiples, and its scale among them; ``None`` of zeros, and without a
    finite projection. What is not a number (roots of what is negative) says where it is, the rest says the rest."""
    flat = np.asarray(value, dtype=np.float64).reshape(-1)
    if not flat.size:
        return None
    magnitudes = np.abs(flat)
    largest = float(magnitudes.max())
    holes: tuple[str, ...] = ()
    if isnan(largest):
        missing = np.isnan(flat)
        if missing.all():
            return None
        holes = (f"{float(_weights(flat.size)[0] @ missing):.{_DIGITS}e}",)
        flat = np.where(missing, 0.0, flat)
        magnitudes = np.abs(flat)
        largest = float(magnitudes.max())
    if isinf(largest):  # masks
        largest = _INFINITY * (float(magnitudes[np.isfinite(flat)].max(initial=0.0)) or 1.0)
        flat = np.where(np.isinf(flat), np.copysign(largest, flat), flat)
        magnitudes = np.abs(flat)
    with np.errstate(over="ignore", invalid="ignore"):  # the largest numbers of a type
        projected = [float(x) for x in _weights(flat.size) @ flat]
    ordinary = _median(magnitudes[:: max(1, flat.size // _LOOKED_AT)])
    rest: Array | None = None
    if ordinary and largest > _HUGE * ordinary:
        limit = float(_limits(magnitudes[None], np.array([largest]))[0])
        rest = _weights(flat.size) @ np.clip(flat, -limit, limit) if limit else None
    return _direction(projected, largest, rest, holes)


def _directions(rows: Array) -> list[tuple[tuple[str, ...], float] | None]:
    """:func:`direction` of each of several tensors of one size, laid out in rows, at the cost of about one."""
    count, size = rows.shape
    rows = np.asarray(rows, dtype=np.float64)
    if not size:
        return [None] * count
    magnitudes = np.abs(rows)
    largest = magnitudes.max(axis=1)
    ordered = np.sort(magnitudes[:, :: max(1, size // _LOOKED_AT)], axis=1)
    zeros = np.count_nonzero(ordered == 0, axis=1)
    some = ordered.shape[1] - zeros
    middle: Array = np.minimum(zeros + some // 2, ordered.shape[1] - 1)
    below: Array = np.where(some % 2 == 0, np.maximum(middle - 1, 0), middle)
    lower, upper = (np.take_along_axis(ordered, at[:, None], axis=1)[:, 0] for at in (below, middle))
    with np.errstate(all="ignore"):
        ordinary = np.where(some > 0, (upper + lower) / 2, 0.0)
        projected = np.einsum("ij,kj->ik", rows, _weights(size))
        huge = (ordinary > 0) & (largest > _HUGE * ordinary)
        limits = np.zeros(count)
        limits[huge] = _limits(magnitudes[huge], largest[huge])
        huge, limit = limits > 0, limits[limits > 0, None]
        cut_off = np.einsum("ij,kj->ik", np.clip(rows[huge], -limit, limit), _weights(size))
    rest = dict(zip(np.flatnonzero(huge).tolist(), cut_off, strict=True))
    finite = np.isfinite(largest)
    return [
        _direction(numbers, float(most), rest.get(k)) if whole else direction(row)
        for k, (row, numbers, most, whole) in enumerate(zip(rows, projected.tolist(), largest, finite, strict=True))
    ]


def _direction(
    projected: Sequence[float], largest: float, rest: Array | None, holes: tuple[str, ...] = ()
) -> tuple[tuple[str, ...], float] | None:
    """The key and the scale of a tensor by its projections; ``rest``: those of what is left where it is cut off."""
    scale = projected[0]
    if not all(map(isfinite, projected)) or abs(scale) < 1e-12 * max(1.0, largest) or scale == 0:
        return None
    key = tuple([f"{x / scale:.{_DIGITS}e}" for x in projected[1:]]) + holes
    if rest is not None:  # beside masked elements the others say nothing
        key += tuple([f"{x / rest[0]:.{_DIGITS}e}" for x in rest[1:]]) if rest[0] else ()
        key += (f"{rest[0] / scale:.{_DIGITS}e}",)  # twice the others beside the same masked ones is no multiple
    return key, scale


def _limits(magnitudes: Array, largest: Array) -> Array:
    """The numbers at which rows of elements, whose sizes are given, are cut off so that huge ones conceal none of the
    others: the largest element that is not huge; 0 where the others are rounding errors, which say nothing. (A multiple
    of the median would not do: where most elements are rounding errors, so is the median.)"""
    others = np.where(magnitudes * _HUGE < largest[:, None], magnitudes, 0.0).max(axis=1, initial=0.0)
    low, high = _CANCELLED
    return np.where((others > low * largest) & (others < high * largest), 0.0, others)


def _median(sizes: Array) -> float:
    """The median of the numbers other than 0 among some that are not negative; 0 if there are none."""
    some = sizes[sizes > 0]
    if not some.size:
        return 0.0
    middle = some.size // 2
    if some.size % 2:
        some.partition(middle)
        return float(some[middle])
    some.partition((middle - 1, middle))
    return float(some[middle - 1] + some[middle]) / 2


def close(a: Array, b: Array) -> bool:
    """Equal but for rounding; of the same shape."""
    if a.shape != b.shape:
        return False
    x, y = np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64)
    with np.errstate(all="ignore"):
        apart = float(np.abs(x - y).max(initial=0.0))
    if isfinite(apart):  # then both are
        return apart <= _ROUNDING * max(float(np.abs(x).max(initial=0.0)), 1e-300)
    largest = max(float(np.abs(x[np.isfinite(x)]).max(initial=0.0)), 1e-300)
    with np.errstate(all="ignore"):
        same = (x == y) | (np.abs(x - y) <= _ROUNDING * largest) | (np.isnan(x) & np.isnan(y))
    return bool(same.all())


def summable(values: Sequence[Array]) -> bool:
    """True if tensors may be summands of one: there are several, and they are no replicas."""
    if len(values) < 2 or not all(v.size and v.shape == values[0].shape for v in values):
        return False
    return not all(close(v, values[0]) for v in values[1:])


def added_up(values: Sequence[Array]) -> Array:
    """The sum of tensors of one shape."""
    return np.asarray(reduce(np.add, values) if values[0].dtype.kind == "f" else np.sum(np.stack(values), axis=0))


def totals(groups: Sequence[Sequence[Array]]) -> list[Array | None]:
    """The sum of each of several groups of tensors; ``None`` of those that are not :func:`summable`. Groups of as many
    tensors of one shape are added up at the cost of about one."""
    found: list[Array | None] = [None] * len(groups)
    alike: dict[object, list[int]] = {}
    for k, values in enumerate(groups):
        first = values[0]
        kind = first.shape, first.dtype
        if (
            len(values) > 1
            and first.size
            and first.dtype.kind == "f"
            and all((v.shape, v.dtype) == kind for v in values)
        ):
            alike.setdefault((len(values), *kind), []).append(k)
            continue
        with np.errstate(invalid="ignore"):
            found[k] = added_up(values) if summable(values) else None
    for numbers in alike.values():
        size = len(groups[numbers[0]]) * groups[numbers[0]][0].size
        step = max(1, _TOGETHER // size)
        for begin in range(0, len(numbers), step):
            some = numbers[begin : begin + step]
            members = [np.stack([groups[k][j] for k in some]) for j in range(len(groups[some[0]]))]
            with np.errstate(all="ignore"):  # an infinity of a mask on one rank, another one on the next
                added = reduce(np.add, members)
                apart = [_most(one - members[0]) for one in members[1:]]
                near = [
                    a <= _ROUNDING * np.maximum(_most(one), 1e-300) for a, one in zip(apart, members[1:], strict=True)
                ]
            same: Array = np.asarray(np.all(near, axis=0))
            finite: Array = np.asarray(np.isfinite(apart).all(axis=0))
            for at, k in enumerate(some):
                if not same[at] if finite[at] else summable(groups[k]):
                    found[k] = added[at]
    return found


def _most(rows: Array) -> Array:
    """The largest element of each of several tensors, by size."""
    return np.asarray(np.abs(rows).reshape(len(rows), -1).max(axis=1))


def windows(effort: Effort, whole: Array, shape: tuple[int, ...]) -> Iterator[tuple[Box | None, Array]]:
    """The parts of a tensor that have a shape (dimensions of size 1 do not count): the whole (without a box) or equal
    blocks, in order. A part without elements is none of a tensor that has some."""
    if whole.size == prod(shape):
        yield None, whole.reshape(shape)
        return
    if not prod(shape):
        return
    local = tuple(n for n in shape if n != 1)
    squeezed = whole.reshape(tuple(n for n in whole.shape if n != 1))
    if len(local) < squeezed.ndim and len(shape) == whole.ndim:
        local, squeezed = shape, whole
    if len(local) != squeezed.ndim or any(n > m or m % n for n, m in zip(local, squeezed.shape, strict=True)):
        return
    counts = [m // n for n, m in zip(local, squeezed.shape, strict=True)]
    if effort.exceeds("repair_windows", prod(counts)):
        return
    sizes = [size for both in zip(counts, local, strict=True) for size in both]
    blocks = squeezed.reshape(sizes).transpose([*range(0, len(sizes), 2), *range(1, len(sizes), 2)])
    ranges = [[(k * n, (k + 1) * n) for k in range(count)] for n, count in zip(local, counts, strict=True)]
    yield from zip(product(*ranges), blocks.reshape(-1, *shape), strict=True)


def parted_as(effort: Effort, whole: Array, shapes: Sequence[tuple[int, ...]]) -> tuple[int, ...] | None:
    """The first of some shapes in which a tensor has parts: see :func:`windows`."""
    return next((shape for shape in shapes if next(windows(effort, whole, shape), None) is not None), None)


def cut(value: Array, box: Box) -> Array:
    """The elements of a box."""
    return value[tuple(slice(low, high) for low, high in box)]


def placements(whole: Array, shape: tuple[int, ...], mesh: Mesh) -> Iterator[tuple[Sequence[Box], Sequence[Array]]]:
    """Layouts of DTensor under which every rank holds a tensor of a shape: which part of the whole it holds, and its
    values. Axes that cut one dimension do so in the order of the mesh, or the other way round (FSDP2 cuts what tensor
    parallelism has cut)."""
    for chosen in layouts(whole.shape, mesh.sizes, local=shape):
        dims = [one.dim for one in chosen if isinstance(one, Shard)]
        orders = [slice(None), slice(None, None, -1)] if len(set(dims)) < len(dims) else [slice(None)]
        for order in orders:
            at = [mesh.coordinates(rank)[order] for rank in range(mesh.world_size)]
            boxes = [box_at(whole.shape, chosen[order], mesh.sizes[order], here) for here in at]
            yield boxes, [cut(whole, box) for box in boxes]


class Parts(Generic[P]):
    """Tensors under names of the caller's choice, found again by their values: those that a tensor equals, and those
    that it is a multiple of. They are of one shape and kind of element, and equal but for rounding."""

    def __init__(self) -> None:
        self._found: dict[object, list[tuple[P, float]]] = {}
        self._holed: set[tuple[int, ...]] = set()  # shapes of those in which something is not a number
        self._slopes: dict[tuple[int, str], list[float]] = {}  # by size and kind: what multiples have in common
        self._sorted: dict[tuple[int, str], Array] = {}

    def add(self, part: P, value: Array) -> None:
        """Remember a tensor; one without finite numbers is not found again."""
        self._add(part, value, *_key(value))
        if _holes(value):
            self._holed.add(value.shape)

    def add_all(self, parts: Sequence[tuple[P, Array]]) -> None:
        """Remember several tensors of one shape and kind of element, at the cost of about one."""
        values = [value for _, value in parts]
        if values and _holes(np.stack(values)):
            self._holed.add(values[0].shape)
        for (part, value), key in zip(parts, _keys(values), strict=True):
            self._add(part, value, *key)

    def _add(self, part: P, value: Array, key: object, scale: float) -> None:
        if key is not None:
            if key not in self._found and scale:
                kind = value.size, value.dtype.kind
                self._slopes.setdefault(kind, []).append(_slope_of(key))
                self._sorted.pop(kind, None)
            self._found.setdefault(key, []).append((part, scale))

    def multiples(self, value: Array) -> Iterator[tuple[P, float]]:
        """The tensors of which a tensor is a multiple, and which multiple it is, in the order in which they were added.
        None of zeros; of a single number only those that it equals, since any two numbers are multiples."""
        return self._multiples(value, *(_key(value) if self._may_have(value) else (None, 0.0)))

    def multiples_of_all(self, values: Sequence[Array]) -> list[Iterator[tuple[P, float]]]:
        """:meth:`multiples` of each of several tensors, at the cost of about one for each shape and kind of element. Of
        a wrong program much may be not a number: that is not looked for where nothing like it was added."""
        return [self._multiples(value, *key) for value, key in zip(values, _keys(values, self._near), strict=True)]

    def _near(self, values: Sequence[Array], rows: Array) -> Array:
        """True for each of several tensors of one size and kind, which are also laid out in ``rows``, whose key may be
        that of one that was added: its slope is the same to more digits than a key has."""
        kind = values[0].size, values[0].dtype.kind
        if kind not in self._sorted:
            self._sorted[kind] = np.sort(np.array(self._slopes.get(kind, ()), dtype=np.float64))
        known, slopes = self._sorted[kind], _slopes(rows)
        apart = _NEAR_SLOPE * np.abs(slopes)
        with np.errstate(invalid="ignore"):
            found = np.searchsorted(known, slopes - apart) < np.searchsorted(known, slopes + apart, "right")
        for k in np.flatnonzero(~np.isfinite(slopes)).tolist():  # masks, and what is not a number: one by one
            found[k] = self._may_have(values[k])
        return np.asarray(found)

    def _may_have(self, value: Array) -> bool:
        return value.shape in self._holed or not _holes(value)

    def _multiples(self, value: Array, key: object, scale: float) -> Iterator[tuple[P, float]]:
        for part, one in self._found.get(key, ()) if key is not None and scale else ():
            if value.size > 1 or abs(scale / one - 1) < _SAME:
                yield part, scale / one

    def equal(self, value: Array) -> Iterator[P]:
        """The tensors that a tensor equals, in the order in which they were added."""
        return self._equal(*_key(value))

    def equal_of_all(self, values: Sequence[Array]) -> list[Iterator[P]]:
        """:meth:`equal` of each of several tensors, at the cost of about one for each shape and kind of element."""
        return [self._equal(*key) for key in _keys(values)]

    def _equal(self, key: object, scale: float) -> Iterator[P]:
        for part, one in self._found.get(key, ()) if key is not None else ():
            if scale == one or (one and abs(scale / one - 1) < _SAME):
                yield part


def _holes(value: Array) -> bool:
    """True if something in a tensor is not a number."""
    return value.dtype.kind == "f" and bool(np.isnan(value).any())


def _key(value: Array) -> tuple[object, float]:
    """The key of a tensor's multiples of one shape and kind, and the tensor's scale: 0 of zeros; ``None`` of what is
    not finite."""
    return _key_of(value, direction(value))


def _keys(
    values: Sequence[Array], near: Callable[[Sequence[Array], Array], Array] | None = None
) -> list[tuple[object, float]]:
    """:func:`_key` of several tensors, at the cost of about one for each size and kind of element; ``None`` of those
    that are not ``near`` what matters."""
    alike: dict[tuple[int, str], list[int]] = {}
    for k, value in enumerate(values):
        alike.setdefault((value.size, value.dtype.kind), []).append(k)
    found: dict[int, tuple[object, float]] = {}
    for (size, _), numbers in alike.items():
        step = max(1, _TOGETHER // max(1, size))
        for begin in range(0, len(numbers), step):
            some = numbers[begin : begin + step]
            rows = np.stack([values[k].reshape(-1) for k in some])
            if near is not None and size:
                kept = near([values[k] for k in some], rows)
                found |= dict.fromkeys([k for k, one in zip(some, kept, strict=True) if not one], (None, 0.0))
                some, rows = [k for k, one in zip(some, kept, strict=True) if one], rows[kept]
            found |= {k: _key_of(values[k], one) for k, one in zip(some, _directions(rows), strict=True)}
    return [found[k] for k in range(len(values))]


def _slopes(rows: Array) -> Array:
    """The first number of the key of each of several tensors, laid out in rows; of those that are not finite, or
    vanish, it is no finite number."""
    with np.errstate(all="ignore"):
        first, other = np.einsum("ij,kj->ki", np.asarray(rows, dtype=np.float64), _weights(rows.shape[1])[:2])
        return np.asarray(other / first)


def _slope_of(key: object) -> float:
    """The first number of the key of what is not zero."""
    return float(cast("tuple[object, str, tuple[str, ...]]", key)[2][0])


def _key_of(value: Array, found: tuple[tuple[str, ...], float] | None) -> tuple[object, float]:
    """:func:`_key`, of a tensor whose direction was found."""
    if found is not None:
        return (value.shape, value.dtype.kind, found[0]), found[1]
    return (None if value.any() else (value.shape, value.dtype.kind)), 0.0  # NaN is true


def rows_of(whole: Array, value: Array) -> tuple[int, ...] | None:
    """The rows (of the first dimension) of a tensor that another one has, by number; ``None`` if it has others as
    well."""
    known = Parts[int]()
    known.add_all([(k, np.asarray(row)) for k, row in enumerate(whole)])
    found = [next(same, None) for same in known.equal_of_all([np.asarray(row) for row in value])]
    return None if any(k is None for k in found) else tuple(k for k in found if k is not None)
