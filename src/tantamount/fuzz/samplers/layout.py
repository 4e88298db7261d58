"""Operators that move elements: views, joins, cuts, padding, indexing."""

from __future__ import annotations

from math import prod

import numpy as np

from tantamount.fuzz.draft import Draft
from tantamount.fuzz.samplers.registry import sampler
from tantamount.ir.graph import Ref
from tantamount.ir.types import DType
from tantamount.ops.algebra import Tensor

__all__: list[str] = []


@sampler("aten.permute.default", weight=2.5)
def permute(d: Draft, target: str) -> str | None:
    """A random order of the dimensions."""
    x = d.pick((), lambda x: x.rank >= 2)
    if x is None:
        return None
    order = list(range(d.values[x].rank))
    d.random.shuffle(order)
    return d.call(target, Ref(x), tuple(order))


@sampler("aten.transpose.int", weight=0.7)
def transpose(d: Draft, target: str) -> str | None:
    """Two dimensions exchanged."""
    x = d.pick((), lambda x: x.rank >= 2)
    if x is None:
        return None
    a, b = d.random.sample(range(d.values[x].rank), 2)
    return d.call(target, Ref(x), a, b - d.values[x].rank if d.random.random() < 0.3 else b)


@sampler("aten.reshape.default", weight=2)
def reshape(d: Draft, target: str) -> str | None:
    """Dimensions joined, split, or both."""
    x = d.pick((), lambda x: prod(x.shape) > 0)
    if x is None:
        return None
    shape = list(d.values[x].shape)
    for _ in range(d.random.choice((1, 1, 2))):
        if len(shape) >= 2 and d.random.random() < 0.5:
            k = d.random.randrange(len(shape) - 1)
            shape[k : k + 2] = [shape[k] * shape[k + 1]]
        elif shape:
            k = d.random.randrange(len(shape))
            divisors = [n for n in range(1, shape[k] + 1) if shape[k] % n == 0]
            n = d.random.choice(divisors)
            shape[k : k + 1] = [n, shape[k] // n]
    return d.call(target, Ref(x), tuple(shape))


@sampler("aten.expand.default", weight=0.7)
def expand(d: Draft, target: str) -> str | None:
    """Sizes 1 repeated, and a new dimension in front."""
    x = d.pick((), lambda x: x.rank <= 4)
    if x is None:
        return None
    shape = [d.random.choice(d.sizes) if size == 1 else size for size in d.values[x].shape]
    if d.random.random() < 0.5:
        shape.insert(0, d.random.choice((1, 2, 3)))
    return d.call(target, Ref(x), tuple(shape))


@sampler("aten.slice.Tensor", weight=2)
def slices(d: Draft, target: str) -> str | None:
    """A part, sometimes with a step."""
    x = d.pick((), lambda x: x.rank >= 1 and max(x.shape) >= 2)
    if x is None:
        return None
    shape = d.values[x].shape
    k = d.axis(x, [k for k, size in enumerate(shape) if size >= 2])
    length = d.length(x, k)
    start = d.random.randrange(shape[k] - length + 1)
    stop = start + length
    step = d.random.choice((1, 1, 1, 2, 3))
    return d.call(target, Ref(x), k, start, stop, step)


@sampler("aten.flip.default", weight=0.6)
def flip(d: Draft, target: str) -> str | None:
    """Some dimensions backwards."""
    x = d.pick((), lambda x: x.rank >= 1)
    if x is None:
        return None
    rank = d.values[x].rank
    return d.call(target, Ref(x), tuple(sorted(d.random.sample(range(rank), d.random.randrange(1, rank + 1)))))


@sampler("aten.roll.default", weight=0.3)
def roll(d: Draft, target: str) -> str | None:
    """One dimension turned."""
    x = d.pick((), lambda x: x.rank >= 1 and prod(x.shape) > 0)
    if x is None:
        return None
    return d.call(target, Ref(x), (d.random.choice((1, 2, -1)),), (d.axis(x),))


@sampler("aten.cat.default", weight=2)
def cat(d: Draft, target: str) -> str | None:
    """Two or three tensors one after the other."""
    x = d.pick((), lambda x: x.rank >= 1)
    if x is None:
        return None
    value = d.values[x]
    k = d.axis(x)
    parts = [x]
    rest = (*value.shape[:k], *value.shape[k + 1 :])

    def fits(y: Tensor) -> bool:
        return y.dtype is value.dtype and y.rank == value.rank and (*y.shape[:k], *y.shape[k + 1 :]) == rest

    for _ in range(d.random.choice((1, 1, 2))):
        found = d.pick((), fits)
        if found is None or d.random.random() < 0.3:
            found = d.leaf((*value.shape[:k], d.random.choice((1, *d.sizes)), *value.shape[k + 1 :]), value.dtype)
        parts.append(found)
    d.random.shuffle(parts)
    return d.call(target, tuple(Ref(part) for part in parts), k)


@sampler("aten.split_with_sizes.default", weight=0.8)
def split(d: Draft, target: str) -> str | None:
    """Consecutive parts, of which one or all are used."""
    x = d.pick((), lambda x: x.rank >= 1 and max(x.shape) >= 2)
    if x is None:
        return None
    shape = d.values[x].shape
    k = d.axis(x, [k for k, size in enumerate(shape) if size >= 2])
    cut = d.random.randrange(1, shape[k])
    made = d.call(target, Ref(x), (cut, shape[k] - cut), k)
    if made is None:
        return None
    first = d.item(made, 0)
    return first if d.random.random() < 0.3 else d.item(made, 1)


@sampler("aten.stack.default", weight=0.4)
def stack(d: Draft, target: str) -> str | None:
    """Tensors of one shape in a new dimension."""
    x = d.pick((), lambda x: x.rank <= 3)
    if x is None:
        return None
    value = d.values[x]
    y = d.pick((), lambda y: y.type == value.type) or x
    return d.call(target, (Ref(x), Ref(y)), d.random.randrange(value.rank + 1))


@sampler("aten.unsqueeze.default", weight=0.6)
def unsqueeze(d: Draft, target: str) -> str | None:
    """A new dimension of size 1."""
    x = d.pick((), lambda x: x.rank <= 3)
    return None if x is None else d.call(target, Ref(x), d.random.randrange(d.values[x].rank + 1))


@sampler("aten.squeeze.dim", weight=0.4)
def squeeze(d: Draft, target: str) -> str | None:
    """A dimension of size 1 less."""
    x = d.pick((), lambda x: 1 in x.shape)
    return None if x is None else d.call(target, Ref(x), d.values[x].shape.index(1))


@sampler("aten.select.int", weight=0.7)
def select(d: Draft, target: str) -> str | None:
    """One place of a dimension."""
    x = d.pick((), lambda x: x.rank >= 1 and 0 not in x.shape)
    if x is None:
        return None
    k = d.axis(x)
    size = d.values[x].shape[k]
    return d.call(target, Ref(x), k, d.random.randrange(-size, size))


@sampler("aten.constant_pad_nd.default", weight=1)
def pad(d: Draft, target: str) -> str | None:
    """A number around the last dimensions; sometimes cut off instead."""
    x = d.pick((), lambda x: x.rank >= 1 and x.dtype is not DType.BOOL and min(x.shape) > 0)
    if x is None:
        return None
    low = -1 if min(d.values[x].shape) > 2 and d.random.random() < 0.2 else 0
    widths = tuple(d.random.randrange(low, 3) for _ in range(2 * d.random.randrange(1, min(d.values[x].rank, 2) + 1)))
    if len(widths) == 2:
        d.axis(x, (d.values[x].rank - 1,))
    return d.call(target, Ref(x), widths, d.random.choice((0, 0, 1)))


@sampler("aten.repeat.default", weight=0.4)
def repeat(d: Draft, target: str) -> str | None:
    """Tiles."""
    x = d.pick((), lambda x: 1 <= x.rank <= 3)
    return None if x is None else d.call(target, Ref(x), tuple(d.random.choice((1, 2)) for _ in d.values[x].shape))


@sampler("aten.index_select.default", weight=0.8)
def index_select(d: Draft, target: str) -> str | None:
    """Places of a dimension, given by an input or a constant."""
    x = d.pick((), lambda x: x.rank >= 1 and 0 not in x.shape)
    if x is None or DType.INT64 not in d.policy.dtypes:
        return None
    k = d.axis(x)
    count = d.random.choice(d.sizes)
    index = d.leaf((count,), DType.INT64, np.asarray(d.numpy.integers(0, d.values[x].shape[k], (count,))))
    return d.call(target, Ref(x), k, Ref(index))


@sampler("aten.gather.default", weight=0.5)
def gather(d: Draft, target: str) -> str | None:
    """Elements of a dimension, for every element another place."""
    x = d.pick((), lambda x: x.rank >= 1 and 0 not in x.shape)
    if x is None or DType.INT64 not in d.policy.dtypes:
        return None
    value = d.values[x]
    k = d.axis(x)
    shape = (*value.shape[:k], d.random.choice((1, *d.sizes)), *value.shape[k + 1 :])
    if prod(shape) > d.policy.largest:
        return None
    index = d.leaf(shape, DType.INT64, np.asarray(d.numpy.integers(0, value.shape[k], shape)))
    return d.call(target, Ref(x), k, Ref(index))


@sampler("aten.tril.default", "aten.triu.default", weight=0.3)
def triangle(d: Draft, target: str) -> str | None:
    """One triangle of matrices."""
    x = d.pick((), lambda x: x.rank >= 2)
    return None if x is None else d.call(target, Ref(x), d.random.choice((0, 0, 1, -1)))
