"""Operators that add up or choose among many elements: reductions, products of matrices, convolutions, norms."""

from __future__ import annotations

from math import prod

import numpy as np

from tantamount.fuzz.draft import Draft
from tantamount.fuzz.samplers.registry import sampler
from tantamount.ir.graph import Ref
from tantamount.ir.types import DType, Kind
from tantamount.semantics.rounding import FORMATS

__all__: list[str] = []

NUMBERS = (Kind.FLOAT, Kind.INT)


@sampler("aten.sum.dim_IntList", weight=1.5)
@sampler("aten.amax.default", "aten.amin.default", weight=1)
def reduce(d: Draft, target: str) -> str | None:
    """Over one, two or all dimensions."""
    x = d.pick(NUMBERS, lambda x: x.rank >= 1 and (0 not in x.shape or target == "aten.sum.dim_IntList"))
    if x is None:
        return None
    return d.call(target, Ref(x), d.axes(d.values[x].rank), d.random.random() < 0.4)


@sampler("aten.mean.dim", weight=1)
def mean(d: Draft, target: str) -> str | None:
    """Over dimensions whose sizes are a power of two, mostly."""
    x = d.pick((Kind.FLOAT,), lambda x: x.rank >= 1 and 0 not in x.shape)
    if x is None:
        return None
    shape = d.values[x].shape
    dims = d.axes(len(shape))
    count = prod(shape[k] for k in dims)
    if count & (count - 1) and d.random.random() < 0.8:
        return None
    return d.call(target, Ref(x), dims, d.random.random() < 0.4)


@sampler("aten.any.dim", "aten.all.dim", weight=0.3)
def quantifier(d: Draft, target: str) -> str | None:
    """Of booleans."""
    x = d.pick((Kind.BOOL,), lambda x: x.rank >= 1 and 0 not in x.shape)
    return None if x is None else d.call(target, Ref(x), d.axis(x), d.random.random() < 0.4)


@sampler("aten.argmax.default", "aten.argmin.default", weight=0.8)
def place(d: Draft, target: str) -> str | None:
    """The place of the extreme element, of numbers that are all different."""
    x = d.pick(NUMBERS, lambda x: x.rank >= 1 and 0 not in x.shape and x.value.exact)
    if x is None:
        return None
    value = d.values[x]
    k = d.axis(x)
    if np.unique(np.sort(value.value.array, k), axis=k).shape[k] != value.shape[k] or _tied(value.value.array, k):
        size = prod(value.shape)
        reach = 0 if value.dtype.kind is Kind.INT else 1 << min(FORMATS[value.dtype].precision, 10)
        low, high = (-reach, reach) if reach else value.dtype.bounds
        if d.policy.integer_limit is not None and not reach:
            low, high = max(low, -d.policy.integer_limit), min(high, d.policy.integer_limit)
        if size > min(high - low, 1000):
            return None
        first = d.random.choice((max(low, -(size // 2)), max(low, high - size), low))
        x = d.leaf(value.shape, value.dtype, first + d.numpy.permutation(size).reshape(value.shape))
    return d.call(target, Ref(x), k, d.random.random() < 0.4)


def _tied(x: np.ndarray, k: int) -> bool:
    ranked = np.sort(x, axis=k)
    return bool(np.any(np.diff(ranked, axis=k) == 0))


@sampler("aten.cumsum.default", weight=0.6)
def running(d: Draft, target: str) -> str | None:
    """Running sums."""
    x = d.pick(NUMBERS, lambda x: x.rank >= 1 and 0 not in x.shape)
    return None if x is None else d.call(target, Ref(x), d.axis(x))


def _float(d: Draft) -> DType:
    return d.random.choice([dtype for dtype in (*d.dtypes, *d.policy.dtypes) if dtype.is_float] or [DType.FLOAT32])


@sampler("aten.mm.default", weight=2.5)
def mm(d: Draft, target: str) -> str | None:
    """Products of matrices."""
    x = d.pick((Kind.FLOAT,), lambda x: x.rank == 2)
    if x is None:
        x = d.leaf(d.shape(2), _float(d))
    value = d.values[x]
    if d.random.random() < 0.5:
        y = d.pick((), lambda y: y.dtype is value.dtype and y.rank == 2 and y.shape[0] == value.shape[1])
        return d.call(target, Ref(x), Ref(y or d.leaf((value.shape[1], d.random.choice(d.sizes)), value.dtype)))
    y = d.pick((), lambda y: y.dtype is value.dtype and y.rank == 2 and y.shape[1] == value.shape[0])
    return d.call(target, Ref(y or d.leaf((d.random.choice(d.sizes), value.shape[0]), value.dtype)), Ref(x))


@sampler("aten.bmm.default", weight=1)
def bmm(d: Draft, target: str) -> str | None:
    """Products of matrices in a batch."""
    x = d.pick((Kind.FLOAT,), lambda x: x.rank == 3)
    if x is None:
        x = d.leaf(d.shape(3), _float(d))
    b, _, k = d.values[x].shape
    dtype = d.values[x].dtype
    y = d.pick((), lambda y: y.dtype is dtype and y.rank == 3 and y.shape[:2] == (b, k))
    return d.call(target, Ref(x), Ref(y or d.leaf((b, k, d.random.choice(d.sizes)), dtype)))


@sampler("aten.matmul.default", weight=0.8)
def matmul(d: Draft, target: str) -> str | None:
    """Products of tensors of any ranks: matrices, vectors, and batches of matrices, whose sizes broadcast."""
    r = d.random
    x = d.pick((Kind.FLOAT,), lambda x: x.rank >= 1)
    if x is None:
        return None
    value = d.values[x]
    turned = value.rank >= 2 and r.random() < 0.3  # the second factor
    inner, other = value.shape[-2 if turned else -1], r.choice(d.sizes)
    if r.random() < 0.25:
        shape: tuple[int, ...] = (inner,)
    else:
        batch = value.shape[:-2] if r.random() < 0.5 else () if value.rank > 1 else (r.choice(d.sizes),)
        batch = tuple(1 if r.random() < 0.2 else size for size in batch)
        shape = (*batch, other, inner) if turned else (*batch, inner, other)
    y = d.leaf(shape, value.dtype)
    return d.call(target, *((Ref(y), Ref(x)) if turned else (Ref(x), Ref(y))))


_LETTERS = "abcdefgh"


@sampler("aten.einsum.default", weight=0.6)
def einsum(d: Draft, target: str) -> str | None:
    """Sums of products of one or two tensors: over any dimensions, in any order of those that are left."""
    r = d.random
    x = d.pick((Kind.FLOAT,), lambda x: 1 <= x.rank <= 4)
    if x is None:
        return None
    value = d.values[x]
    letters = [*_LETTERS[: value.rank]]
    terms, operands, sizes = [letters], [x], dict(zip(letters, value.shape, strict=True))
    if r.random() < 0.85:
        shared = r.sample(letters, r.randint(0, len(letters)))
        own = [*_LETTERS[value.rank : value.rank + r.choice((0, 1, 1, 2))]]
        sizes.update({letter: r.choice(d.sizes) for letter in own})
        second = r.sample([*shared, *own], len(shared) + len(own))
        if second:
            terms.append(second)
            operands.append(d.leaf(tuple(sizes[letter] for letter in second), value.dtype))
    left = r.sample([*sizes], r.randint(0, min(4, len(sizes))))
    if r.random() < 0.5:
        terms, operands = terms[::-1], operands[::-1]
    equation = f"{','.join(map(''.join, terms))}->{''.join(left)}"
    return d.call(target, equation, tuple(map(Ref, operands)))


@sampler("aten.addmm.default", weight=0.5)
def addmm(d: Draft, target: str) -> str | None:
    """A bias and a product."""
    x = d.pick((Kind.FLOAT,), lambda x: x.rank == 2)
    if x is None:
        return None
    value, n = d.values[x], d.random.choice(d.sizes)
    bias, y = d.leaf((n,), value.dtype), d.leaf((value.shape[1], n), value.dtype)
    return d.call(target, Ref(bias), Ref(x), Ref(y))


@sampler("aten.convolution.default", weight=0.8)
def convolution(d: Draft, target: str) -> str | None:
    """In one or two dimensions, with strides, padding, dilation and groups."""
    r = d.random
    dims = r.choice((1, 2, 2))
    x = d.pick((Kind.FLOAT,), lambda x: x.rank == dims + 2 and 0 not in x.shape and min(x.shape[2:]) >= 3)
    if x is None:
        x = d.leaf(
            (r.choice((1, 2)), r.choice((1, 2, 3, 4, 8)), *(r.choice((5, 8, 9)) for _ in range(dims))), _float(d)
        )
    value = d.values[x]
    channels = value.shape[1]
    groups = r.choice([n for n in (1, 1, 2, channels) if channels % n == 0])
    kernel = tuple(r.choice((1, 2, 3)) for _ in range(dims))
    weight = d.leaf((groups * r.choice((1, 2, 3)), channels // groups, *kernel), value.dtype)
    bias = Ref(d.leaf((d.values[weight].shape[0],), value.dtype)) if r.random() < 0.4 else None
    stride, padding = (r.choice((1, 1, 2)),) * dims, (r.choice((0, 1)),) * dims
    dilation = (r.choice((1, 1, 2)),) * dims if min(value.shape[2:]) >= 5 else (1,) * dims
    return d.call(target, Ref(x), Ref(weight), bias, stride, padding, dilation, False, (0,) * dims, groups)


@sampler("aten.max_pool2d.default", "aten.avg_pool2d.default", weight=0.5)
def pool(d: Draft, target: str) -> str | None:
    """Windows of two or three."""
    x = d.pick((Kind.FLOAT,), lambda x: x.rank == 4 and min(x.shape[2:]) >= 3 and 0 not in x.shape)
    if x is None:
        x = d.leaf((1, d.random.choice((1, 3, 8)), d.random.choice((4, 5, 8)), d.random.choice((4, 7, 8))), _float(d))
    size = d.random.choice((2, 2, 3))
    padding = d.random.choice((0, 0, 1)) if target == "aten.max_pool2d.default" else 0
    return d.call(target, Ref(x), (size, size), (d.random.choice((1, 2)),) * 2, (padding, padding))


@sampler("aten.softmax.int", weight=0.4)
def softmax(d: Draft, target: str) -> str | None:
    """Along one dimension."""
    x = d.pick((Kind.FLOAT,), lambda x: x.rank >= 1 and 0 not in x.shape and x.value.total <= 64)
    return None if x is None else d.call(target, Ref(x), d.axis(x))


@sampler("aten.layer_norm.default", weight=0.3)
def layer_norm(d: Draft, target: str) -> str | None:
    """Over the last dimension, with and without scale."""
    x = d.pick((Kind.FLOAT,), lambda x: x.rank >= 1 and 0 not in x.shape and x.shape[-1] >= 4)
    if x is None:
        return None
    value = d.values[x]
    row = (value.shape[-1],)
    if d.random.random() < 0.5:
        return d.call(target, Ref(x), row)
    return d.call(target, Ref(x), row, Ref(d.leaf(row, value.dtype)), Ref(d.leaf(row, value.dtype)))
