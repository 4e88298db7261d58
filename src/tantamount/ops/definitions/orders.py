"""Reductions that models rarely use: running extremes and products, norms by other names, moments."""

from __future__ import annotations

from math import prod

from tantamount.ir.types import DType, Kind
from tantamount.ops.algebra import Doubt, Tensor
from tantamount.ops.builder import Builder, ShapeProblem
from tantamount.ops.definitions import reduction
from tantamount.ops.definitions.in_place import require_float
from tantamount.ops.definitions.reduction import CHOICE, variance_of
from tantamount.ops.doubts import doubtful
from tantamount.ops.table import Integers, operator

_REDUCTION = "reduction"
_MOST_FACTORS = 64


# ---------------------------------------------------------------------------------------------- moments
@operator("aten.std.default", category=_REDUCTION)
def std_all(b: Builder, self: Tensor, unbiased: bool = True) -> Tensor:
    """the square root of the variance"""
    return b.sqrt(variance_of(b, self, None, 1 if unbiased else 0, False)[0])


@operator("aten.var_mean.default", category=_REDUCTION)
@doubtful(reduction.OF_MEANS, Doubt.WHICH)
def var_mean_all(b: Builder, self: Tensor, unbiased: bool = True) -> tuple[Tensor, Tensor]:
    """the variance and the mean"""
    return variance_of(b, self, None, 1 if unbiased else 0, False)


@operator("aten.var_mean.dim", category=_REDUCTION)
@doubtful(reduction.OF_MEANS, Doubt.WHICH)
def var_mean_dim(
    b: Builder, self: Tensor, dim: Integers | None, unbiased: bool = True, keepdim: bool = False
) -> tuple[Tensor, Tensor]:
    """the variance and the mean"""
    return variance_of(b, self, dim, 1 if unbiased else 0, keepdim)


@operator("aten.std_mean.default", category=_REDUCTION)
@doubtful(reduction.OF_MEANS, Doubt.WHICH)
def std_mean_all(b: Builder, self: Tensor, unbiased: bool = True) -> tuple[Tensor, Tensor]:
    """the square root of the variance, and the mean"""
    variance, mean = variance_of(b, self, None, 1 if unbiased else 0, False)
    return b.sqrt(variance), mean


@operator("aten.std_mean.dim", category=_REDUCTION)
@doubtful(reduction.OF_MEANS, Doubt.WHICH)
def std_mean_dim(
    b: Builder, self: Tensor, dim: Integers | None, unbiased: bool = True, keepdim: bool = False
) -> tuple[Tensor, Tensor]:
    """the square root of the variance, and the mean"""
    variance, mean = variance_of(b, self, dim, 1 if unbiased else 0, keepdim)
    return b.sqrt(variance), mean


@operator("aten.std_mean.correction", category=_REDUCTION)
@doubtful(reduction.OF_MEANS, Doubt.WHICH)
def std_mean(
    b: Builder, self: Tensor, dim: Integers | None = None, *, correction: float | None = None, keepdim: bool = False
) -> tuple[Tensor, Tensor]:
    """the square root of the variance, and the mean"""
    variance, mean = variance_of(b, self, dim, 1 if correction is None else correction, keepdim)
    return b.sqrt(variance), mean


# ---------------------------------------------------------------------------------------------- norms by other names
@operator("aten.norm.Scalar", category=_REDUCTION)
def norm_all(b: Builder, self: Tensor, p: float = 2) -> Tensor:
    """(sum |self|^p)^(1/p) of all elements"""
    return reduction.vector_norm(b, self, p)


@operator("aten.norm.ScalarOpt_dtype", category=_REDUCTION)
def norm_all_dtype(b: Builder, self: Tensor, p: float | None, *, dtype: DType) -> Tensor:
    """(sum |self|^p)^(1/p) of all elements, p = 2 unless given"""
    return reduction.vector_norm(b, self, 2 if p is None else p, dtype=dtype)


@operator("aten.norm.ScalarOpt_dim", category=_REDUCTION)
def norm_dim(b: Builder, self: Tensor, p: float | None, dim: Integers, keepdim: bool = False) -> Tensor:
    """(sum |self|^p)^(1/p) over the given dimensions, p = 2 unless given"""
    return reduction.vector_norm(b, self, 2 if p is None else p, dim, keepdim)


@operator("aten.norm.ScalarOpt_dim_dtype", category=_REDUCTION)
def norm_dim_dtype(b: Builder, self: Tensor, p: float | None, dim: Integers, keepdim: bool, *, dtype: DType) -> Tensor:
    """(sum |self|^p)^(1/p) over the given dimensions, p = 2 unless given"""
    return reduction.vector_norm(b, self, 2 if p is None else p, dim, keepdim, dtype=dtype)


@operator("aten.dist.default", category=_REDUCTION)
def dist(b: Builder, self: Tensor, other: Tensor, p: float = 2) -> Tensor:
    """(sum |self - other|^p)^(1/p)"""
    return reduction.vector_norm(b, b.sub(self, other), p)


# ---------------------------------------------------------------------------------------------- extremes, truth, counts
@operator("aten.aminmax.default", category=_REDUCTION)
def aminmax(b: Builder, self: Tensor, *, dim: int | None = None, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    """the smallest and the largest element along dim (of all elements without one)"""
    dims = () if dim is None else (dim,)
    return reduction.amin(b, self, dims, keepdim), reduction.amax(b, self, dims, keepdim)


def _some(b: Builder, x: Tensor, dim: Integers | None, keepdim: bool, of_all: bool) -> Tensor:
    if dim == () and x.rank:  # over no dimension, not over all
        return b.cast(b.cast(x, DType.BOOL), DType.UINT8 if x.dtype is DType.UINT8 else DType.BOOL)
    return reduction.some(b, x, dim, keepdim, of_all)


@operator("aten.any.dims", category=_REDUCTION)
def any_dims(b: Builder, self: Tensor, dim: Integers | None = None, keepdim: bool = False) -> Tensor:
    """some element over the given dimensions is not zero (of uint8: as a uint8)"""
    return _some(b, self, dim, keepdim, False)


@operator("aten.all.dims", category=_REDUCTION)
def all_dims(b: Builder, self: Tensor, dim: Integers | None = None, keepdim: bool = False) -> Tensor:
    """no element over the given dimensions is zero (of uint8: as a uint8)"""
    return _some(b, self, dim, keepdim, True)


@operator("aten.count_nonzero.dim_IntList", category=_REDUCTION)
def count_nonzero_dims(b: Builder, self: Tensor, dim: Integers) -> Tensor:
    """the number of elements that are not zero, over the given dimensions"""
    return b.sum(b.cast(self, DType.BOOL), dim)


@operator("aten.kthvalue.default", category=_REDUCTION, assumes=(CHOICE,))
def kthvalue(b: Builder, self: Tensor, k: int, dim: int = -1, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    """the k-th smallest element along dim, and its position"""
    along = b.dim(self, dim)
    if not self.rank or not 0 < k <= self.shape[along]:
        raise ShapeProblem(f"element {k} in the order along dimension {dim} of {self.type}")
    place = b.slice(reduction.chosen_order(b, self, along, False, k, "kthvalue"), along, k - 1, k)
    value = reduction.take_along(b, self, along, place)
    return (value, place) if keepdim else (b.squeeze(value, (along,)), b.squeeze(place, (along,)))


@operator("aten.median.dim", category=_REDUCTION, assumes=(CHOICE,))
def median(b: Builder, self: Tensor, dim: int, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    """the element in the middle of the order along dim, of two the smaller one, and its position"""
    along = b.dim(self, dim)
    if not self.rank or not self.shape[along]:
        raise ShapeProblem(f"the median along dimension {dim} of {self.type}")
    return kthvalue(b, self, (self.shape[along] + 1) // 2, dim, keepdim)


@operator("aten.median.default", category=_REDUCTION, assumes=(CHOICE,))
def median_of_all(b: Builder, self: Tensor) -> Tensor:
    """the element in the middle of the order of all, of two the smaller one"""
    flat = b.reshape(self, (prod(self.shape),))
    return median(b, flat, 0)[0]


@operator("aten.argsort.stable", category=_REDUCTION, assumes=(CHOICE,))
def argsort_stable(b: Builder, self: Tensor, *, stable: bool, dim: int = -1, descending: bool = False) -> Tensor:
    """the positions of the elements along dim in order; if `stable`, equal elements keep their order"""
    return reduction.sorting_order(b, self, dim, descending, stable)


@operator("aten.trace.default", category=_REDUCTION)
def trace(b: Builder, self: Tensor) -> Tensor:
    """sum of self[i, i]"""
    if self.rank != 2:
        raise ShapeProblem(f"the trace of {self.type}, which is no matrix")
    n = min(self.shape)
    x = b.cast(self, DType.INT64) if self.dtype.is_integral else self
    return b.contract("ii->", b.slice(b.slice(x, 0, 0, n), 1, 0, n))


# ---------------------------------------------------------------------------------------------- running
@operator("aten.cumprod.default", category=_REDUCTION)
def cumprod(b: Builder, self: Tensor, dim: int, *, dtype: DType | None = None) -> Tensor:
    """y[i] = product over j <= i of self[j], along dim (at most 64 elements)"""
    x = b.cast(self, dtype or (DType.INT64 if self.dtype.is_integral else self.dtype))
    k = b.dim(x, dim)
    if not x.rank:
        return x
    if not 0 < x.shape[k] <= _MOST_FACTORS:
        raise ShapeProblem(f"a running product of {x.shape[k]} elements; 1 to {_MOST_FACTORS} are known")
    out = [b.slice(x, k, 0, 1)]
    for index in range(1, x.shape[k]):
        out.append(b.mul(out[-1], b.slice(x, k, index, index + 1)))
    return b.cast(b.concat(out, k), x.dtype)


@operator("aten.logcumsumexp.default", category=_REDUCTION)
@doubtful(reduction.OF_PLUS_INFINITY, Doubt.PLUS)
def logcumsumexp(b: Builder, self: Tensor, dim: int) -> Tensor:
    """y[i] = log(sum over j <= i of exp(self[j])), along dim"""
    x = require_float(self)
    if not x.rank:
        return x
    top = reduction.without_minus_infinity(b, b.amax(x, (dim,), keepdim=True))
    return b.add(b.log(reduction.cumsum(b, b.exp(b.sub(x, top)), dim)), top)


def _running(b: Builder, x: Tensor, dim: int, operator: str) -> tuple[Tensor, Tensor]:
    """The running maximum along ``dim`` and a position where it is reached, which PyTorch does not promise."""
    k = b.dim(x, dim)
    if not x.rank:
        return x, b.full((), 0, DType.INT64)
    if not x.shape[k]:
        raise ShapeProblem(f"a running maximum of {x.type}")
    number = b.cast(x, DType.INT64) if x.dtype.kind is Kind.BOOL else x
    last = b.transpose(number, k, -1)
    size = last.shape[-1]
    later = b.less(b.unsqueeze(b.iota(size), 1), b.unsqueeze(b.iota(size), 0))  # [i, j]: j > i
    row = b.unsqueeze(last, -2)
    seen = b.where(later, b.slice(row, -1, 0, 1), row)  # what comes later does not count: the first element does
    values = b.amax(seen, (-1,))
    (places,) = b.rows("running_place", [number], k, (operator,), [(size, DType.INT64)])
    return b.cast(b.transpose(values, k, -1), x.dtype), places


@operator("aten.cummax.default", category=_REDUCTION, assumes=(CHOICE,))
def cummax(b: Builder, self: Tensor, dim: int) -> tuple[Tensor, Tensor]:
    """y[i] = max over j <= i of self[j], along dim, and a position where it is reached"""
    return _running(b, self, dim, "cummax")


@operator("aten.cummin.default", category=_REDUCTION, assumes=(CHOICE,))
def cummin(b: Builder, self: Tensor, dim: int) -> tuple[Tensor, Tensor]:
    """y[i] = min over j <= i of self[j], along dim, and a position where it is reached"""
    if self.dtype.kind is Kind.BOOL:
        raise ShapeProblem("a running minimum of booleans")
    values, places = _running(b, b.neg(b.unwrapped(self)), dim, "cummin")
    return b.cast(b.neg(values), self.dtype), places


@operator("aten.diff.default", category=_REDUCTION)
def diff(
    b: Builder, self: Tensor, n: int = 1, dim: int = -1, prepend: Tensor | None = None, append: Tensor | None = None
) -> Tensor:
    """y[i] = self[i + 1] - self[i] along dim, n times"""
    if n == 0:  # then nothing is put before or after it, either
        return self
    x = b.concat([part for part in (prepend, self, append) if part is not None], dim)
    if not 0 < n <= _MOST_FACTORS or x.dtype is DType.BOOL:
        raise ShapeProblem(f"{n} differences of {x.type}")
    for _ in range(n):
        size = x.shape[b.dim(x, dim)]
        x = b.sub(b.slice(x, dim, 1, size), b.slice(x, dim, 0, max(size - 1, 0)))
    return x
