"""Reductions over dimensions, running sums, and orders of elements."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import prod

from tantamount.ir.types import DType, Kind
from tantamount.ops.algebra import Tensor
from tantamount.ops.builder import Builder, ShapeProblem, exact
from tantamount.ops.definitions.in_place import require_float
from tantamount.ops.table import Integers, Layout, operator

__all__ = ["count_of", "take_along", "variance_of"]

_REDUCTION = "reduction"


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
    return b.neg(b.amax(b.neg(x), dim, keepdim))


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


@operator("aten.any.default", category=_REDUCTION)
def any_all(b: Builder, self: Tensor) -> Tensor:
    """some element is not zero"""
    return _amax(b, b.cast(self, DType.BOOL), None, False)


@operator("aten.any.dim", category=_REDUCTION)
def any_dim(b: Builder, self: Tensor, dim: int, keepdim: bool = False) -> Tensor:
    """some element along dim is not zero"""
    return _amax(b, b.cast(self, DType.BOOL), (dim,), keepdim)


@operator("aten.all.default", category=_REDUCTION)
def all_all(b: Builder, self: Tensor) -> Tensor:
    """no element is zero"""
    return _amin(b, b.cast(self, DType.BOOL), None, False)


@operator("aten.all.dim", category=_REDUCTION)
def all_dim(b: Builder, self: Tensor, dim: int, keepdim: bool = False) -> Tensor:
    """no element along dim is zero"""
    return _amin(b, b.cast(self, DType.BOOL), (dim,), keepdim)


@operator("aten.logsumexp.default", category=_REDUCTION)
def logsumexp(b: Builder, self: Tensor, dim: Integers, keepdim: bool = False) -> Tensor:
    """log(sum(exp(self))) over the given dimensions"""
    x = b.floating(self)
    top = b.amax(x, dim, keepdim=True)
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


def _order(b: Builder, x: Tensor, dim: int, descending: bool) -> Tensor:
    """Positions of the elements along ``dim`` in sorted order; which of several equal elements comes first is assumed
    to be the same wherever it is asked."""
    k = b.dim(x, dim)
    if not x.rank or not x.shape[k]:
        raise ShapeProblem(f"an order of the elements of {x.type}")
    if x.dtype.kind is Kind.BOOL:
        x = b.cast(x, DType.INT64)
    (order,) = b.rows("argsort", [x], k, (descending,), [(x.shape[k], DType.INT64)])
    return order


def _first_in_order(b: Builder, x: Tensor, dim: int | None, keepdim: bool, descending: bool) -> Tensor:
    flat = b.reshape(x, (-1,)) if dim is None else x
    if dim is not None and not x.rank:
        b.dim(x, dim)
        return b.full((), 0, DType.INT64)
    k = 0 if dim is None else b.dim(flat, dim)
    first = b.slice(_order(b, flat, k, descending), k, 0, 1)
    if dim is None:
        return b.reshape(first, (1,) * x.rank if keepdim else ())
    return first if keepdim else b.squeeze(first, (k,))


@operator("aten.argmax.default", category=_REDUCTION)
def argmax(b: Builder, self: Tensor, dim: int | None = None, keepdim: bool = False) -> Tensor:
    """the position of the largest element along dim; without a dim, in the flattened tensor"""
    return _first_in_order(b, self, dim, keepdim, True)


@operator("aten.argmin.default", category=_REDUCTION)
def argmin(b: Builder, self: Tensor, dim: int | None = None, keepdim: bool = False) -> Tensor:
    """the position of the smallest element along dim; without a dim, in the flattened tensor"""
    return _first_in_order(b, self, dim, keepdim, False)


@operator("aten.max.dim", category=_REDUCTION)
def max_dim(b: Builder, self: Tensor, dim: int, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    """the largest element along dim, and its position"""
    return _amax(b, self, (dim,), keepdim), _first_in_order(b, self, dim, keepdim, True)


@operator("aten.min.dim", category=_REDUCTION)
def min_dim(b: Builder, self: Tensor, dim: int, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    """the smallest element along dim, and its position"""
    return _amin(b, self, (dim,), keepdim), _first_in_order(b, self, dim, keepdim, False)


def _sorted(b: Builder, x: Tensor, dim: int, descending: bool) -> tuple[Tensor, Tensor]:
    order = _order(b, x, dim, descending)
    return take_along(b, x, dim, order), order


@operator("aten.sort.default", category=_REDUCTION)
def sort(b: Builder, self: Tensor, dim: int = -1, descending: bool = False) -> tuple[Tensor, Tensor]:
    """the elements along dim in order, and their positions"""
    return _sorted(b, self, dim, descending)


@operator("aten.sort.stable", category=_REDUCTION)
def sort_stable(
    b: Builder, self: Tensor, *, stable: Layout, dim: int = -1, descending: bool = False
) -> tuple[Tensor, Tensor]:
    """the elements along dim in order, and their positions; equal elements keep their order, whether `stable` or not"""
    return _sorted(b, self, dim, descending)


@operator("aten.argsort.default", category=_REDUCTION)
def argsort(b: Builder, self: Tensor, dim: int = -1, descending: bool = False) -> Tensor:
    """the positions of the elements along dim in order"""
    return _order(b, self, dim, descending)


_ONE_ORDER = "which of several equal elements comes first, and the order of unsorted results, depends on the row alone"


@operator("aten.topk.default", category=_REDUCTION, assumes=(_ONE_ORDER,))
def topk(
    b: Builder, self: Tensor, k: int, dim: int = -1, largest: bool = True, sorted: bool = True
) -> tuple[Tensor, Tensor]:
    """the k largest (smallest) elements along dim in order, and their positions"""
    along = b.dim(self, dim)
    if not self.rank or not 0 < k <= self.shape[along]:
        raise ShapeProblem(f"the {k} first elements along dimension {dim} of {self.type}")
    if sorted:
        order = b.slice(_order(b, self, along, largest), along, 0, k)
    else:
        x = b.cast(self, DType.INT64) if self.dtype.kind is Kind.BOOL else self
        (order,) = b.rows("first_unordered", [x], along, (largest, k), [(k, DType.INT64)])
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
    letters = "abcdefghijklmnopqrstuvwxyABCDEFGHIJKLMNOPQRSTUVWXYZ"[: x.rank]
    if x.rank > len(letters):
        raise ShapeProblem(f"a running sum of {x.type}")
    result = letters[:k] + "z" + letters[k + 1 :]
    return b.contract(f"{letters},z{letters[k]}->{result}", x, b.cast(b.not_(later), x.dtype))


@operator("aten.count_nonzero.default", category=_REDUCTION)
def count_nonzero(b: Builder, self: Tensor, dim: int | None = None) -> Tensor:
    """the number of elements that are not zero"""
    return b.sum(b.cast(self, DType.BOOL), None if dim is None else (dim,))
