"""Reductions over dimensions, running sums, and orders of elements."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import prod

from tantamount.ir.types import DType, Kind
from tantamount.ops.algebra import Doubt, Tensor
from tantamount.ops.builder import Builder, ShapeProblem, exact
from tantamount.ops.definitions.in_place import require_float
from tantamount.ops.doubts import doubtful
from tantamount.ops.table import Integers, operator

OF_PLUS_INFINITY = "the logarithm of a sum with an infinite summand is infinite, and no difference of infinities"
OF_MEANS = "means are computed with the variance: of infinities they are NaN"

__all__ = ["CHOICE", "chosen_order", "count_of", "some", "sorting_order", "take_along", "variance_of"]

_REDUCTION = "reduction"

CHOICE = (
    "which of several equal elements an operator chooses or puts first, where PyTorch does not promise it, depends on "
    "the operator, its arguments and how the elements of the row compare alone, not on whether topk sorts its result; "
    "the order of unsorted results depends on the operator, its arguments and the row alone"
)


# ---------------------------------------------------------------------------------------------- sums and means
def _sum(b: Builder, x: Tensor, dim: Integers | None, keepdim: bool, dtype: DType | None) -> Tensor:
    if dtype is None:
        return b.sum(x, dim, keepdim)
    if dtype is DType.BOOL:
        raise ShapeProblem("a sum of type bool")
    return b.cast(b.sum(b.cast(x, dtype), dim, keepdim), dtype)


@operator("aten.sum.default", category=_REDUCTION)
def sum_all(b: Builder, self: Tensor, *, dtype: DType | None = None) -> Tensor:
    """sum of all elements"""
    return _sum(b, self, None, False, dtype)


@operator("aten.sum.dim_IntList", category=_REDUCTION)
def sum_dim(
    b: Builder, self: Tensor, dim: Integers | None, keepdim: bool = False, *, dtype: DType | None = None
) -> Tensor:
    """sum over the given dimensions (all, if there are none)"""
    return _sum(b, self, dim, keepdim, dtype)


def _mean(b: Builder, x: Tensor, dim: Integers | None, keepdim: bool, dtype: DType | None) -> Tensor:
    return b.mean(require_float(b.cast(x, dtype or x.dtype)), dim, keepdim)


@operator("aten.mean.default", category=_REDUCTION)
def mean_all(b: Builder, self: Tensor, *, dtype: DType | None = None) -> Tensor:
    """sum of all elements, divided by their number"""
    return _mean(b, self, None, False, dtype)


@operator("aten.mean.dim", category=_REDUCTION)
def mean_dim(
    b: Builder, self: Tensor, dim: Integers | None, keepdim: bool = False, *, dtype: DType | None = None
) -> Tensor:
    """sum over the given dimensions (all, if there are none), divided by the number of terms"""
    return _mean(b, self, dim, keepdim, dtype)


def _factors(b: Builder, x: Tensor, dim: int) -> list[Tensor]:
    k = b.dim(x, dim)
    if not x.rank:
        return [x]
    if not 0 < x.shape[k] <= 64:
        raise ShapeProblem(f"a product of {x.shape[k]} elements; 1 to 64 are known")
    return [b.select(x, k, index) for index in range(x.shape[k])]


@operator("aten.prod.default", category=_REDUCTION)
def prod_all(b: Builder, self: Tensor, *, dtype: DType | None = None) -> Tensor:
    """product of all elements (at most 64)"""
    return prod_dim(b, b.reshape(self, (-1,)), 0, dtype=dtype)


@operator("aten.prod.dim_int", category=_REDUCTION)
def prod_dim(b: Builder, self: Tensor, dim: int, keepdim: bool = False, *, dtype: DType | None = None) -> Tensor:
    """product along dim (at most 64 elements)"""
    x = b.cast(self, dtype or (DType.INT64 if self.dtype.is_integral else self.dtype))
    factors = _factors(b, x, dim)
    out = factors[0]
    for factor in factors[1:]:
        out = b.mul(out, factor)
    out = b.cast(out, x.dtype)
    return b.unsqueeze(out, b.dim(x, dim)) if keepdim and x.rank else out


def count_of(b: Builder, x: Tensor, dim: Sequence[int] | None) -> int:
    """The number of elements that a reduction over ``dim`` combines; never 0."""
    count = prod(x.shape[k] for k in b.dims(x, dim))
    if not count:
        raise ShapeProblem(f"a reduction over no elements of {x.type}")
    return count


def variance_of(
    b: Builder, x: Tensor, dim: Sequence[int] | None, correction: float, keepdim: bool
) -> tuple[Tensor, Tensor]:
    """Variance and mean: ``sum (x - mean)^2 / (n - correction)``."""
    count = count_of(b, require_float(x), dim)
    divisor = count - Fraction(exact(correction))
    if divisor <= 0:
        raise ShapeProblem(f"a variance of {count} elements with correction {correction}")
    mean = b.mean(x, dim, keepdim=True)
    total = b.sum(b.power(b.sub(x, mean), 2), dim, keepdim)
    return b.over(total, divisor), mean if keepdim else b.reshape(mean, total.shape)


@operator("aten.var.correction", category=_REDUCTION)
def var(
    b: Builder, self: Tensor, dim: Integers | None = None, *, correction: float | None = None, keepdim: bool = False
) -> Tensor:
    """sum (self - mean)^2 / (n - correction), correction 1 unless given"""
    return variance_of(b, self, dim, 1 if correction is None else correction, keepdim)[0]


@operator("aten.var.dim", category=_REDUCTION)
def var_dim(b: Builder, self: Tensor, dim: Integers | None, unbiased: bool = True, keepdim: bool = False) -> Tensor:
    """sum (self - mean)^2 / (n - 1), or / n if not unbiased"""
    return variance_of(b, self, dim, 1 if unbiased else 0, keepdim)[0]


@operator("aten.var.default", category=_REDUCTION)
def var_all(b: Builder, self: Tensor, unbiased: bool = True) -> Tensor:
    """sum (self - mean)^2 / (n - 1), or / n if not unbiased"""
    return variance_of(b, self, None, 1 if unbiased else 0, False)[0]


@operator("aten.std.correction", category=_REDUCTION)
def std(
    b: Builder, self: Tensor, dim: Integers | None = None, *, correction: float | None = None, keepdim: bool = False
) -> Tensor:
    """the square root of the variance"""
    return b.sqrt(variance_of(b, self, dim, 1 if correction is None else correction, keepdim)[0])


@operator("aten.std.dim", category=_REDUCTION)
def std_dim(b: Builder, self: Tensor, dim: Integers | None, unbiased: bool = True, keepdim: bool = False) -> Tensor:
    """the square root of the variance"""
    return b.sqrt(variance_of(b, self, dim, 1 if unbiased else 0, keepdim)[0])


@operator("aten.var_mean.correction", category=_REDUCTION)
@doubtful(OF_MEANS, Doubt.WHICH)
def var_mean(
    b: Builder, self: Tensor, dim: Integers | None = None, *, correction: float | None = None, keepdim: bool = False
) -> tuple[Tensor, Tensor]:
    """the variance and the mean"""
    return variance_of(b, self, dim, 1 if correction is None else correction, keepdim)


@operator("aten.linalg_vector_norm.default", category=_REDUCTION)
def vector_norm(
    b: Builder,
    self: Tensor,
    ord: float = 2,
    dim: Integers | None = None,
    keepdim: bool = False,
    *,
    dtype: DType | None = None,
) -> Tensor:
    """(sum |self|^ord)^(1/ord); the largest (smallest) |self| for inf (-inf), how many are not zero for 0"""
    x = require_float(b.cast(self, dtype or self.dtype))
    size = b.function("abs", x)
    if ord == 2:
        return b.sqrt(b.sum(b.power(x, 2), dim, keepdim))
    if ord == 1:
        return b.sum(size, dim, keepdim)
    if ord == float("inf"):
        return b.amax(size, dim, keepdim)
    if ord == float("-inf"):
        return _amin(b, size, dim, keepdim)
    if ord == 0:
        return b.cast(b.sum(b.cast(x, DType.BOOL), dim, keepdim), x.dtype)
    order = Fraction(exact(ord))
    if order < 0:
        raise ShapeProblem(f"a norm of order {ord}")
    return b.power(b.sum(b.power(size, order), dim, keepdim), 1 / order)


# ---------------------------------------------------------------------------------------------- extremes
def _amin(b: Builder, x: Tensor, dim: Integers | None, keepdim: bool) -> Tensor:
    if x.dtype is DType.BOOL:
        return b.not_(_amax(b, b.not_(x), dim, keepdim))
    return b.amin(x, dim, keepdim)


def _amax(b: Builder, x: Tensor, dim: Integers | None, keepdim: bool) -> Tensor:
    if x.dtype is DType.BOOL:
        return b.cast(b.amax(b.cast(x, DType.INT64), dim, keepdim), DType.BOOL)
    return b.amax(x, dim, keepdim)


@operator("aten.amax.default", category=_REDUCTION)
def amax(b: Builder, self: Tensor, dim: Integers = (), keepdim: bool = False) -> Tensor:
    """the largest element over the given dimensions (all, if there are none)"""
    return _amax(b, self, dim, keepdim)


@operator("aten.amin.default", category=_REDUCTION)
def amin(b: Builder, self: Tensor, dim: Integers = (), keepdim: bool = False) -> Tensor:
    """the smallest element over the given dimensions (all, if there are none)"""
    return _amin(b, self, dim, keepdim)


@operator("aten.max.default", category=_REDUCTION)
def max_all(b: Builder, self: Tensor) -> Tensor:
    """the largest element"""
    return _amax(b, self, None, False)


@operator("aten.min.default", category=_REDUCTION)
def min_all(b: Builder, self: Tensor) -> Tensor:
    """the smallest element"""
    return _amin(b, self, None, False)


def some(b: Builder, x: Tensor, dim: Integers | None, keepdim: bool, of_all: bool = False) -> Tensor:
    """True where some element over the given dimensions (all, if there are none) is not zero; ``of_all``: whether
    every one is. A boolean, but of uint8 it is a uint8, 0 or 1."""
    truth = b.cast(x, DType.BOOL)
    chosen = b.dims(x, dim)
    if any(x.shape[k] == 0 for k in chosen):
        kept = [1 if k in chosen else size for k, size in enumerate(x.shape) if keepdim or k not in chosen]
        found = b.full(kept, of_all, DType.BOOL)
    else:
        found = _amin(b, truth, chosen, keepdim) if of_all and chosen else truth
        found = _amax(b, truth, chosen, keepdim) if not of_all and chosen else found
    return b.cast(found, DType.UINT8) if x.dtype is DType.UINT8 else found


@operator("aten.any.default", category=_REDUCTION)
def any_all(b: Builder, self: Tensor) -> Tensor:
    """some element is not zero (of uint8: as a uint8)"""
    return some(b, self, None, False)


@operator("aten.any.dim", category=_REDUCTION)
def any_dim(b: Builder, self: Tensor, dim: int, keepdim: bool = False) -> Tensor:
    """some element along dim is not zero (of uint8: as a uint8)"""
    return some(b, self, (dim,), keepdim)


@operator("aten.all.default", category=_REDUCTION)
def all_all(b: Builder, self: Tensor) -> Tensor:
    """no element is zero (of uint8: as a uint8)"""
    return some(b, self, None, False, of_all=True)


@operator("aten.all.dim", category=_REDUCTION)
def all_dim(b: Builder, self: Tensor, dim: int, keepdim: bool = False) -> Tensor:
    """no element along dim is zero (of uint8: as a uint8)"""
    return some(b, self, (dim,), keepdim, of_all=True)


def without_minus_infinity(b: Builder, top: Tensor) -> Tensor:
    """0 where a maximum is minus infinity, by which exponents are not shifted then: the difference would be NaN."""
    return b.where(b.equal(top, -b.infinity), b.number(0, top.dtype), top)


@operator("aten.logsumexp.default", category=_REDUCTION)
@doubtful(OF_PLUS_INFINITY, Doubt.PLUS)
def logsumexp(b: Builder, self: Tensor, dim: Integers, keepdim: bool = False) -> Tensor:
    """log(sum(exp(self))) over the given dimensions"""
    x = b.floating(self)
    top = b.amax(x, dim, keepdim=True)
    top = without_minus_infinity(b, top)
    out = b.add(b.log(b.sum(b.exp(b.sub(x, top)), dim, keepdim=True)), top)
    return out if keepdim else b.squeeze(out, b.dims(x, dim))


# ---------------------------------------------------------------------------------------------- orders
def take_along(b: Builder, x: Tensor, dim: int, index: Tensor) -> Tensor:
    """``y[..., i, ...] = x[..., index[..., i, ...], ...]`` along ``dim``; other dimensions may be shorter in index."""
    if not x.rank:
        return (
            b.reshape(take_along(b, b.reshape(x, (1,)), 0, b.reshape(index, (1,))), ())
            if not index.rank
            else _no_index(x, index)
        )
    if index.rank != x.rank:
        _no_index(x, index)
    k = b.dim(x, dim)
    places: list[Tensor] = []
    for j, size in enumerate(index.shape):
        if j != k and size > x.shape[j]:
            _no_index(x, index)
        shape = [size if i == j else 1 for i in range(x.rank)]
        places.append(index if j == k else b.reshape(b.iota(size), shape))
    return b.gather(x, places)


def _no_index(x: Tensor, index: Tensor) -> Tensor:
    raise ShapeProblem(f"an index {index.type} for {x.type}")


def _row_of(b: Builder, x: Tensor, dim: int) -> tuple[Tensor, int]:
    """x with booleans as numbers, and the dimension along which its elements are put in order."""
    k = b.dim(x, dim)
    if not x.rank or not x.shape[k]:
        raise ShapeProblem(f"an order of the elements of {x.type}")
    return (b.cast(x, DType.INT64) if x.dtype.kind is Kind.BOOL else x), k


def _stable_order(b: Builder, x: Tensor, dim: int, descending: bool) -> Tensor:
    """Positions of the elements along ``dim`` in sorted order, equal elements in the order that they have: what PyTorch
    promises of ``sort(stable=True)``, and the first of several greatest (smallest) elements is what it promises of
    ``argmax`` and ``max(dim)`` (``argmin``, ``min(dim)``)."""
    x, k = _row_of(b, x, dim)
    (order,) = b.rows("argsort", [x], k, (descending,), [(x.shape[k], DType.INT64)])
    return order


def chosen_order(
    b: Builder, x: Tensor, dim: int, descending: bool, count: int, operator: str, *arguments: int
) -> Tensor:
    """The first ``count`` positions of the elements along ``dim`` in sorted order. Which of several equal elements
    comes first, PyTorch does not promise: it is assumed to depend on the operator, its arguments and the row alone."""
    x, k = _row_of(b, x, dim)
    attributes = (descending, count, operator, *arguments)
    (order,) = b.rows("order", [x], k, attributes, [(x.shape[k], DType.INT64)])
    return b.slice(order, k, 0, count)


def _first_in_order(b: Builder, x: Tensor, dim: int | None, keepdim: bool, descending: bool) -> Tensor:
    flat = b.reshape(x, (-1,)) if dim is None else x
    if dim is not None and not x.rank:
        b.dim(x, dim)
        return b.full((), 0, DType.INT64)
    k = 0 if dim is None else b.dim(flat, dim)
    first = b.slice(_stable_order(b, flat, k, descending), k, 0, 1)
    if dim is None:
        return b.reshape(first, (1,) * x.rank if keepdim else ())
    return first if keepdim else b.squeeze(first, (k,))


@operator("aten.argmax.default", category=_REDUCTION)
def argmax(b: Builder, self: Tensor, dim: int | None = None, keepdim: bool = False) -> Tensor:
    """the first position of the largest element along dim; without a dim, in the flattened tensor"""
    return _first_in_order(b, self, dim, keepdim, True)


@operator("aten.argmin.default", category=_REDUCTION)
def argmin(b: Builder, self: Tensor, dim: int | None = None, keepdim: bool = False) -> Tensor:
    """the first position of the smallest element along dim; without a dim, in the flattened tensor"""
    return _first_in_order(b, self, dim, keepdim, False)


@operator("aten.max.dim", category=_REDUCTION)
def max_dim(b: Builder, self: Tensor, dim: int, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    """the largest element along dim, and its first position"""
    return _amax(b, self, (dim,), keepdim), _first_in_order(b, self, dim, keepdim, True)


@operator("aten.min.dim", category=_REDUCTION)
def min_dim(b: Builder, self: Tensor, dim: int, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    """the smallest element along dim, and its first position"""
    return _amin(b, self, (dim,), keepdim), _first_in_order(b, self, dim, keepdim, False)


def sorting_order(b: Builder, x: Tensor, dim: int, descending: bool, stable: bool) -> Tensor:
    """The positions that ``sort`` and ``argsort``, which calls it, return along ``dim``."""
    if not x.rank:
        b.dim(x, dim)
        return b.full((), 0, DType.INT64)
    if stable:
        return _stable_order(b, x, dim, descending)
    return chosen_order(b, x, dim, descending, x.shape[b.dim(x, dim)], "sort")


@operator("aten.sort.default", category=_REDUCTION, assumes=(CHOICE,))
def sort(b: Builder, self: Tensor, dim: int = -1, descending: bool = False) -> tuple[Tensor, Tensor]:
    """the elements along dim in order, and their positions"""
    return sort_stable(b, self, stable=False, dim=dim, descending=descending)


@operator("aten.sort.stable", category=_REDUCTION, assumes=(CHOICE,))
def sort_stable(
    b: Builder, self: Tensor, *, stable: bool | None, dim: int = -1, descending: bool = False
) -> tuple[Tensor, Tensor]:
    """the elements along dim in order, and their positions; if `stable`, equal elements keep their order"""
    order = sorting_order(b, self, dim, descending, bool(stable))
    return take_along(b, self, dim, order), order


@operator("aten.argsort.default", category=_REDUCTION, assumes=(CHOICE,))
def argsort(b: Builder, self: Tensor, dim: int = -1, descending: bool = False) -> Tensor:
    """the positions of the elements along dim in order"""
    return sorting_order(b, self, dim, descending, False)


@operator("aten.topk.default", category=_REDUCTION, assumes=(CHOICE,))
def topk(
    b: Builder, self: Tensor, k: int, dim: int = -1, largest: bool = True, sorted: bool = True
) -> tuple[Tensor, Tensor]:
    """the k largest (smallest) elements along dim, in order if sorted, and their positions"""
    along = b.dim(self, dim)
    if not self.rank or not 0 < k <= self.shape[along]:
        raise ShapeProblem(f"the {k} first elements along dimension {dim} of {self.type}")
    order = chosen_order(b, self, along, largest, k, "topk")
    if not sorted:  # the same, in an order of their own: that of some keys, of which nothing is known
        x, _ = _row_of(b, self, along)
        (keys,) = b.rows("unsorted_keys", [x], along, (largest, k, "topk"), [(k, DType.INT64)])
        order = take_along(b, order, along, _stable_order(b, keys, along, False))
    return take_along(b, self, along, order), order


# ---------------------------------------------------------------------------------------------- running sums
@operator("aten.cumsum.default", category=_REDUCTION)
def cumsum(b: Builder, self: Tensor, dim: int, *, dtype: DType | None = None) -> Tensor:
    """y[i] = sum over j <= i of self[j], along dim"""
    x = b.cast(self, dtype or (DType.INT64 if self.dtype.is_integral else self.dtype))
    k = b.dim(x, dim)
    if not x.rank:
        return x
    rows = b.iota(x.shape[k])
    later = b.less(b.unsqueeze(rows, 1), b.unsqueeze(rows, 0))
    if not x.dtype.is_integral:  # a NaN or an infinity that comes later has no part: no product with 0
        last = b.unsqueeze(b.transpose(x, k, -1), -2)
        shape = (*last.shape[:-2], x.shape[k], x.shape[k])
        found = b.sum(b.where(b.expand(later, shape), b.number(0, x.dtype), b.expand(last, shape)), (-1,))
        return b.transpose(found, k, -1)
    letters = "abcdefghijklmnopqrstuvwxyABCDEFGHIJKLMNOPQRSTUVWXYZ"[: x.rank]
    if x.rank > len(letters):
        raise ShapeProblem(f"a running sum of {x.type}")
    result = letters[:k] + "z" + letters[k + 1 :]
    return b.contract(f"{letters},z{letters[k]}->{result}", x, b.cast(b.not_(later), x.dtype))


@operator("aten.count_nonzero.default", category=_REDUCTION)
def count_nonzero(b: Builder, self: Tensor, dim: int | None = None) -> Tensor:
    """the number of elements that are not zero"""
    return b.sum(b.cast(self, DType.BOOL), None if dim is None else (dim,))
