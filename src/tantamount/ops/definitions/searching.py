"""Positions in ordered lists, membership, and writing by mask or with a reduction."""

from __future__ import annotations

from tantamount.ir.types import DType
from tantamount.ops.algebra import Scalar, Tensor
from tantamount.ops.builder import Builder, ShapeProblem
from tantamount.ops.definitions import indexing
from tantamount.ops.definitions.in_place import overwriting
from tantamount.ops.definitions.reduction import cumsum, take_along
from tantamount.ops.table import Layout, Operand, operator
from tantamount.sizes.symbolic import is_number

_INDEXING = "indexing"


# ---------------------------------------------------------------------------------------------- membership
@operator("aten.isin.Tensor_Tensor", "aten.isin.Tensor_Scalar", "aten.isin.Scalar_Tensor", category=_INDEXING)
def isin(
    b: Builder, elements: Operand, test_elements: Operand, *, assume_unique: Layout = False, invert: bool = False
) -> Tensor:
    """whether each element equals one of test_elements (none of them, if `invert`)"""
    x = elements if isinstance(elements, Tensor) else b.number(elements)
    y = test_elements if isinstance(test_elements, Tensor) else b.number(test_elements)
    if not all(y.shape):
        found = b.full(x.shape, False, DType.BOOL)
    else:
        found = b.amax(b.cast(b.equal(b.unsqueeze(x, x.rank), b.reshape(y, (-1,))), DType.INT64), (-1,))
        found = b.cast(found, DType.BOOL)
    return b.not_(found) if invert else found


# ---------------------------------------------------------------------------------------------- positions
def _found(b: Builder, row: Tensor, x: Tensor, right: bool, out_int32: bool) -> Tensor:
    """The place that a search finds for x. Last dimensions are rows of their own. In a sorted row it is the number of
    entries below x (``right``: not above it); in any other one that which bisecting comes to, as PyTorch does."""
    if row.rank > 1 and row.shape[:-1] != x.shape[:-1]:
        raise ShapeProblem(f"a search for {x.type} in {row.type}")
    result, size = DType.INT32 if out_int32 else DType.INT64, row.shape[-1]
    entries, wanted = b.unsqueeze(row, -2) if row.rank > 1 else row, b.unsqueeze(x, x.rank)
    hits = b.not_(b.less(wanted, entries)) if right else b.less(entries, wanted)
    count = b.cast(b.sum(hits, (-1,)), result)
    if is_number(size) and size < 2:
        return count
    later, earlier = b.slice(row, -1, 1, size), b.slice(row, -1, 0, size - 1)
    disorder = b.amax(b.cast(b.less(later, earlier), DType.INT64), (-1,))
    disorder = b.cast(b.unsqueeze(disorder, -1) if row.rank > 1 else disorder, DType.BOOL)
    rows = b.expand(b.concat([entries, b.slice(entries, -1, 0, 1)], -1), (*x.shape, size + 1))
    (place,) = b.rows("searched", [rows, wanted], -1, (right,), [(1, DType.INT64)])
    return b.where(disorder, b.cast(b.reshape(place, x.shape), result), count)


def _searched(
    b: Builder, row: Tensor, x: Tensor, right: bool, out_int32: bool, side: str | None, sorter: Tensor | None
) -> Tensor:
    if side not in (None, "left", "right") or (side == "left" and right):
        raise ShapeProblem(f"side = {side!r} with right = {right}")
    if not row.rank:
        raise ShapeProblem(f"a search in {row.type}")
    if sorter is not None:
        row = take_along(b, row, -1, sorter)
    return _found(b, row, x, right or side == "right", out_int32)


@operator("aten.searchsorted.Tensor", category=_INDEXING)
def searchsorted(
    b: Builder,
    sorted_sequence: Tensor,
    self: Tensor,
    *,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: Tensor | None = None,
) -> Tensor:
    """how many entries of the sequence are below self (`right`: not above it); if not sorted, where bisecting ends"""
    return _searched(b, sorted_sequence, self, right, out_int32, side, sorter)


@operator("aten.searchsorted.Scalar", category=_INDEXING)
def searchsorted_number(
    b: Builder,
    sorted_sequence: Tensor,
    self: Scalar,
    *,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: Tensor | None = None,
) -> Tensor:
    """how many entries of the sequence are below self (`right`: not above it); if not sorted, where bisecting ends"""
    if sorted_sequence.rank != 1:
        raise ShapeProblem(f"a search for a number in {sorted_sequence.type}")
    return _searched(b, sorted_sequence, b.number(self), right, out_int32, side, sorter)


@operator("aten.bucketize.Tensor", "aten.bucketize.Scalar", category=_INDEXING)
def bucketize(b: Builder, self: Operand, boundaries: Tensor, *, out_int32: bool = False, right: bool = False) -> Tensor:
    """how many boundaries are below self (`right`: not above it); if not sorted, where bisecting ends"""
    if boundaries.rank != 1:
        raise ShapeProblem(f"boundaries {boundaries.type}")
    x = self if isinstance(self, Tensor) else b.number(self)
    return _found(b, boundaries, x, right, out_int32)


# ---------------------------------------------------------------------------------------------- reading
@operator("aten.take.default", category=_INDEXING)
def take(b: Builder, self: Tensor, index: Tensor) -> Tensor:
    """y[...] = the element of the flattened tensor at index[...], from its end if negative"""
    flat = b.reshape(self, (-1,))
    return b.gather(flat, [indexing.from_end(b, index, flat.shape[0])])


@operator("aten.take_along_dim.default", category=_INDEXING)
def take_along_dim(b: Builder, self: Tensor, indices: Tensor, dim: int | None = None) -> Tensor:
    """y[..., i, ...] = self[..., indices[..., i, ...], ...] along dim (from its end if negative); flat without a dim"""
    if dim is None:
        return take(b, self, b.reshape(indices, (-1,)))
    k = b.dim(self, dim)
    indices = indexing.from_end(b, indices, self.shape[k]) if self.rank else indices
    if indices.rank != self.rank:
        raise ShapeProblem(f"an index {indices.type} for {self.type}")
    shape = b.broadcast(b.full([1 if j == k else size for j, size in enumerate(self.shape)], 0, DType.INT64), indices)[
        1
    ]
    wide = b.expand(self, [size if j == k else shape.shape[j] for j, size in enumerate(self.shape)])
    return take_along(b, wide, k, shape)


# ---------------------------------------------------------------------------------------------- writing by mask
@operator("aten.masked_scatter.default", category=_INDEXING)
def masked_scatter(b: Builder, self: Tensor, mask: Tensor, source: Tensor) -> Tensor:
    """self, where the mask holds replaced by the elements of source in order"""
    if mask.dtype is not DType.BOOL or source.dtype is not self.dtype or not all(source.shape):
        raise ShapeProblem(f"{source.type} written by a mask {mask.type} into {self.type}")
    chosen = b.expand(mask, self.shape)
    flat = b.reshape(chosen, (-1,))
    number = b.sub(cumsum(b, flat, 0), 1)  # how many are chosen before
    place = b.where(flat, number, b.number(0, DType.INT64))
    taken = b.gather(b.reshape(source, (-1,)), [place])
    return b.where(chosen, b.reshape(taken, self.shape), self)


# ---------------------------------------------------------------------------------------------- writing by index
def _hits(b: Builder, x: Tensor, dim: int, index: Tensor) -> Tensor:
    """The number of times that each element of x is written."""
    return indexing.scatter_add(b, b.full(x.shape, 0, x.dtype), dim, index, b.full(index.shape, 1, x.dtype))


@overwriting("aten.scatter_reduce_.two", category=_INDEXING)
@operator("aten.scatter_reduce.two", category=_INDEXING)
def scatter_reduce(
    b: Builder, self: Tensor, dim: int, index: Tensor, src: Tensor, reduce: str, *, include_self: bool = True
) -> Tensor:
    """self with the sum (mean) of src at index along dim, and of what was there if `include_self`"""
    if reduce not in ("sum", "mean"):
        raise ShapeProblem(f"reduction {reduce!r}; sum and mean are known")
    if reduce == "sum" and include_self:
        return indexing.scatter_add(b, self, dim, index, src)
    if reduce == "mean" and self.dtype.is_integral:
        raise ShapeProblem(f"a mean of {self.type}")
    count = _hits(b, self, dim, index)
    untouched = b.equal(count, 0)
    start = self if include_self else b.where(untouched, self, b.number(0, self.dtype))
    total = indexing.scatter_add(b, start, dim, index, src)
    if reduce == "sum":
        return total
    divisor = b.add(count, 1) if include_self else b.where(untouched, b.number(1, self.dtype), count)
    return b.div(total, divisor)


@operator("aten.scatter.reduce", category=_INDEXING)
def scatter_reduce_source(b: Builder, self: Tensor, dim: int, index: Tensor, src: Tensor, *, reduce: str) -> Tensor:
    """self with src added at index along dim (reduce = "add")"""
    if reduce != "add":
        raise ShapeProblem(f"reduction {reduce!r}; add is known")
    return indexing.scatter_add(b, self, dim, index, src)


@operator("aten.scatter.value_reduce", category=_INDEXING)
def scatter_reduce_value(b: Builder, self: Tensor, dim: int, index: Tensor, value: Scalar, *, reduce: str) -> Tensor:
    """self with value added at index along dim (reduce = "add")"""
    if reduce != "add":
        raise ShapeProblem(f"reduction {reduce!r}; add is known")
    return indexing.scatter_add(b, self, dim, index, b.full(index.shape, value, self.dtype))


@operator("aten.histc.default", category=_INDEXING)
def histc(b: Builder, self: Tensor, bins: int = 100, min: Scalar = 0, max: Scalar = 0) -> Tensor:
    """y[k] = how many elements lie in bin k of [min, max], the last bin with its upper end"""
    if bins < 1 or not self.dtype.is_float:
        raise ShapeProblem(f"{bins} bins of {self.type}")
    x = b.reshape(self, (-1,))
    low, high = b.number(min, self.dtype), b.number(max, self.dtype)
    if min == max:
        raise ShapeProblem("a histogram between the smallest and the largest element: bounds are needed")
    scaled = b.div(b.mul(b.sub(x, low), bins), b.sub(high, low))
    place = b.function("floor", scaled)
    place = b.where(b.equal(x, high), b.number(bins - 1, place.dtype), place)
    hits = b.equal(b.unsqueeze(place, 1), b.iota(bins, place.dtype))
    return b.cast(b.sum(hits, (0,)), self.dtype)
