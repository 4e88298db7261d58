"""Reading and writing at computed places. Of ``index``, ``index_put`` and ``index_fill`` (and of ``take``, in
:mod:`.searching`) negative indices count from the end, as in eager; of all others they are out of range."""

from __future__ import annotations

from collections.abc import Sequence

from tantamount.ir.types import DType
from tantamount.ops.algebra import Scalar, Tensor
from tantamount.ops.builder import Builder, ShapeProblem
from tantamount.ops.definitions.in_place import overwriting, scaled
from tantamount.ops.definitions.reduction import take_along
from tantamount.ops.table import Layout, Operand, Tensors, operator

_INDEXING = "indexing"


def from_end(b: Builder, index: Tensor, size: int) -> Tensor:
    """An index into ``size`` elements where it is not negative, else what is as far from the end: -size is 0, what is
    below stays below 0."""
    if b.interpretation.from_start(index.value, id(index) in b.given):
        return index
    return b.where(b.less(index, 0), b.add(index, size), index)


# ---------------------------------------------------------------------------------------------- advanced indexing
def _positions(b: Builder, x: Tensor, indices: Tensors) -> list[Tensor | None]:
    """One entry per dimension of x: integers, counted from 0. A mask is an index for every dimension of it: where it
    holds, which is known in an execution only."""
    found: list[Tensor | None] = []
    for index in indices:
        k = len(found)
        if index is not None and index.dtype in (DType.BOOL, DType.UINT8):
            if not index.rank or x.shape[k : k + index.rank] != index.shape:
                raise ShapeProblem(f"a mask {index.type} at dimension {k} of {x.type}")
            places = b.nonzero(index)
            found += [b.select(places, 1, j) for j in range(index.rank)]
        else:
            found.append(index if index is None or k >= x.rank else from_end(b, index, x.shape[k]))
    if len(found) > x.rank or all(index is None for index in found):
        raise ShapeProblem(f"{len(found)} index positions for {x.type}")
    return [*found, *[None] * (x.rank - len(found))]


def _leading(positions: Sequence[Tensor | None]) -> int:
    """The number of dimensions without an index that come before the index dimensions in PyTorch's result: those before
    the tensors if these are adjacent, else none."""
    places = [k for k, index in enumerate(positions) if index is not None]
    return places[0] if places[-1] - places[0] + 1 == len(places) else 0


def _index_shape(b: Builder, positions: Sequence[Tensor | None]) -> tuple[int, ...]:
    return b.broadcast(*[index for index in positions if index is not None])[0].shape


@operator("aten.index.Tensor", "aten._unsafe_index.Tensor", category=_INDEXING)
def index(b: Builder, self: Tensor, indices: Tensors) -> Tensor:
    """y = self[i, j, ...]; dimensions without an index are kept"""
    positions = _positions(b, self, indices)
    found = b.gather(self, positions)
    rank, before = len(_index_shape(b, positions)), _leading(positions)
    kept = found.rank - rank
    order = [*range(rank, rank + before), *range(rank), *range(rank + before, rank + kept)]
    return b.permute(found, order)


@overwriting("aten.index_put_.default", category=_INDEXING)
@operator("aten.index_put.default", "aten._unsafe_index_put.default", category=_INDEXING)
def index_put(b: Builder, self: Tensor, indices: Tensors, values: Tensor, accumulate: bool = False) -> Tensor:
    """self with self[i, j, ...] replaced by values (or values added to it)"""
    if values.dtype is not self.dtype:
        raise ShapeProblem(f"values {values.type} written into {self.type}")
    masks = [index for index in indices if index is not None and index.dtype in (DType.BOOL, DType.UINT8)]
    if masks and _one_value(self, indices, values):
        return _put_masked(b, self, indices, values, accumulate)
    positions = _positions(b, self, indices)
    shape, before = _index_shape(b, positions), _leading(positions)
    kept = tuple(size for size, index in zip(self.shape, positions, strict=True) if index is None)
    spread = b.expand(values, (*kept[:before], *shape, *kept[before:]))
    rank = len(shape)
    moved = b.permute(spread, [*range(before, before + rank), *range(before), *range(before + rank, spread.rank)])
    return b.scatter(self, positions, moved, accumulate)


def _one_value(x: Tensor, indices: Tensors, values: Tensor) -> bool:
    """True if one mask is the only index, and what is written does not depend on how many elements it selects."""
    chosen = [(k, index) for k, index in enumerate(indices) if index is not None]
    (before, mask), *others = chosen
    rest = x.rank - before - mask.rank
    if others or mask.dtype is not DType.BOOL or not mask.rank or values.rank > before + 1 + rest:
        return False
    return values.rank <= rest or values.shape[values.rank - rest - 1] == 1


def _put_masked(b: Builder, x: Tensor, indices: Tensors, values: Tensor, accumulate: bool) -> Tensor:
    """One mask over adjacent dimensions: ``values`` do not depend on how many elements it selects."""
    before, mask = next((k, index) for k, index in enumerate(indices) if index is not None)
    after = before + mask.rank
    if x.shape[before:after] != mask.shape:
        raise ShapeProblem(f"a mask {mask.type} at dimension {before} of {x.type}")
    rest = x.rank - after  # the values broadcast to (dimensions before, selected elements, dimensions after)
    if values.rank > rest:
        split = values.rank - rest - 1
        values = b.reshape(values, (*values.shape[:split], *(1,) * mask.rank, *values.shape[split + 1 :]))
    spread = b.expand(values, x.shape)
    where = b.reshape(mask, (*(1,) * before, *mask.shape, *(1,) * rest))
    return b.where(where, b.cast(b.add(x, spread), x.dtype) if accumulate else spread, x)


# ---------------------------------------------------------------------------------------------- one dimension
@operator("aten.embedding.default", category=_INDEXING)
def embedding(
    b: Builder,
    weight: Tensor,
    indices: Tensor,
    padding_idx: int = -1,
    scale_grad_by_freq: Layout = False,
    sparse: Layout = False,
) -> Tensor:
    """y[..., d] = weight[indices[...], d]; the other attributes change gradients only"""
    if weight.rank != 2 or padding_idx >= weight.shape[0]:
        raise ShapeProblem(f"an embedding of {weight.type} with padding_idx {padding_idx}")
    return b.gather(weight, [indices, None])


def _at(x: Tensor, k: int, index: Tensor) -> list[Tensor | None]:
    if index.rank > 1:
        raise ShapeProblem(f"an index {index.type} along one dimension")
    return [index if j == k else None for j in range(x.rank)]


def _line(b: Builder, index: Tensor) -> Tensor:
    return b.reshape(index, (1,)) if not index.rank else index


def _to_front(k: int, rank: int) -> list[int]:
    return [k, *(j for j in range(rank) if j != k)]


@operator("aten.index_select.default", category=_INDEXING)
def index_select(b: Builder, self: Tensor, dim: int, index: Tensor) -> Tensor:
    """y[..., i, ...] = self[..., index[i], ...] along dim"""
    k = b.dim(self, dim)
    if not self.rank:
        raise ShapeProblem("an index into a tensor without dimensions")
    found = b.gather(self, _at(self, k, _line(b, index)))
    return b.permute(found, [*range(1, k + 1), 0, *range(k + 1, self.rank)])


def _written(b: Builder, x: Tensor, dim: int, index: Tensor, source: Tensor, accumulate: bool) -> Tensor:
    k = b.dim(x, dim)
    line = _line(b, index)
    if not x.rank or line.rank != 1 or source.shape != (*x.shape[:k], line.shape[0], *x.shape[k + 1 :]):
        raise ShapeProblem(f"{source.type} written at {index.type} along dimension {dim} of {x.type}")
    if source.dtype is not x.dtype:
        raise ShapeProblem(f"{source.type} written into {x.type}")
    return b.scatter(x, _at(x, k, line), b.permute(source, _to_front(k, x.rank)), accumulate)


@overwriting("aten.index_add_.default", category=_INDEXING)
@operator("aten.index_add.default", category=_INDEXING)
def index_add(b: Builder, self: Tensor, dim: int, index: Tensor, source: Tensor, *, alpha: Scalar = 1) -> Tensor:
    """self with alpha * source[..., i, ...] added at index[i] along dim"""
    return _written(b, self, dim, index, scaled(b, source, alpha), True)


@overwriting("aten.index_copy_.default", category=_INDEXING)
@operator("aten.index_copy.default", category=_INDEXING)
def index_copy(b: Builder, self: Tensor, dim: int, index: Tensor, source: Tensor) -> Tensor:
    """self with source[..., i, ...] written at index[i] along dim"""
    return _written(b, self, dim, index, source, False)


@overwriting("aten.index_fill_.int_Scalar", "aten.index_fill_.int_Tensor", category=_INDEXING)
@operator("aten.index_fill.int_Scalar", "aten.index_fill.int_Tensor", category=_INDEXING)
def index_fill(b: Builder, self: Tensor, dim: int, index: Tensor, value: Operand) -> Tensor:
    """self with value written at index[i] along dim"""
    k = b.dim(self, dim)
    if not self.rank or index.rank > 1:
        raise ShapeProblem(f"an index {index.type} along dimension {dim} of {self.type}")
    places = _line(b, from_end(b, index, self.shape[k]))
    b.gather(b.iota(self.shape[k]), [places])  # the index must be in range, as everywhere
    hit = b.equal(b.unsqueeze(places, 1), b.unsqueeze(b.iota(self.shape[k]), 0))
    rows = b.cast(b.sum(hit, (0,)), DType.BOOL)
    mask = b.reshape(rows, [size if j == k else 1 for j, size in enumerate(self.shape)])
    filler = b.cast(value, self.dtype) if isinstance(value, Tensor) else b.number(value, self.dtype)
    return b.where(mask, filler, self)


# ---------------------------------------------------------------------------------------------- one index per element
@operator("aten.gather.default", category=_INDEXING)
def gather(b: Builder, self: Tensor, dim: int, index: Tensor, *, sparse_grad: Layout = False) -> Tensor:
    """y[..., i, ...] = self[..., index[..., i, ...], ...] along dim; sparse_grad changes gradients only"""
    return take_along(b, self, dim, index)


def _scattered(b: Builder, x: Tensor, dim: int, index: Tensor, source: Tensor | Scalar, accumulate: bool) -> Tensor:
    if not x.rank:
        if index.rank or (isinstance(source, Tensor) and source.rank):
            raise ShapeProblem(f"an index {index.type} for {x.type}")
        line = b.reshape(source, (1,)) if isinstance(source, Tensor) else source
        return b.reshape(_scattered(b, b.reshape(x, (1,)), 0, b.reshape(index, (1,)), line, accumulate), ())
    k = b.dim(x, dim)
    if index.rank != x.rank or any(size > x.shape[j] for j, size in enumerate(index.shape) if j != k):
        raise ShapeProblem(f"an index {index.type} for {x.type}")
    if isinstance(source, Tensor):
        if (
            source.dtype is not x.dtype
            or source.rank != x.rank
            or any(a > c for a, c in zip(index.shape, source.shape, strict=True))
        ):
            raise ShapeProblem(f"{source.type} written at {index.type} into {x.type}")
        for j, size in enumerate(index.shape):
            source = b.slice(source, j, 0, size)
    else:
        source = b.number(source, x.dtype)
    places = [
        index if j == k else b.reshape(b.iota(size), [size if i == j else 1 for i in range(x.rank)])
        for j, size in enumerate(index.shape)
    ]
    return b.scatter(x, places, source, accumulate)


@overwriting("aten.scatter_.src", category=_INDEXING)
@operator("aten.scatter.src", category=_INDEXING)
def scatter_src(b: Builder, self: Tensor, dim: int, index: Tensor, src: Tensor) -> Tensor:
    """self with src written at index along dim"""
    return _scattered(b, self, dim, index, src, False)


@operator("aten.scatter.value", category=_INDEXING)
def scatter_value(b: Builder, self: Tensor, dim: int, index: Tensor, value: Scalar) -> Tensor:
    """self with value written at index along dim"""
    return _scattered(b, self, dim, index, value, False)


@overwriting("aten.scatter_add_.default", category=_INDEXING)
@operator("aten.scatter_add.default", category=_INDEXING)
def scatter_add(b: Builder, self: Tensor, dim: int, index: Tensor, src: Tensor) -> Tensor:
    """self with src added at index along dim"""
    return _scattered(b, self, dim, index, src, True)


@operator("aten.one_hot.default", category=_INDEXING)
def one_hot(b: Builder, self: Tensor, num_classes: int = -1) -> Tensor:
    """y[..., c] = 1 where self[...] = c, else 0"""
    if num_classes < 1 or self.dtype is not DType.INT64:
        raise ShapeProblem(f"{num_classes} classes of {self.type}; their number must be given, and int64 indices")
    b.gather(b.iota(num_classes), [self])  # a class out of range is an error
    return b.cast(b.equal(b.unsqueeze(self, -1), b.iota(num_classes)), DType.INT64)
