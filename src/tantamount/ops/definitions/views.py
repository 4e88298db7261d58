"""Rearrangements that models rarely use: windows, strides, rotations, shuffles, triangles."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import prod

from tantamount.ir.types import DType
from tantamount.ops.algebra import Tensor
from tantamount.ops.builder import Builder, ShapeProblem
from tantamount.ops.definitions import movement
from tantamount.ops.definitions.in_place import few
from tantamount.ops.table import Integers, Layout, Tensors, operator

_MOVEMENT = "movement"
_CREATION = "creation"


# ---------------------------------------------------------------------------------------------- windows and strides
def _along(b: Builder, x: Tensor, k: int, index: Tensor) -> Tensor:
    """x with dimension k replaced by the dimensions of ``index``, whose entries select along it."""
    found = b.gather(x, [index if j == k else None for j in range(x.rank)])
    n = index.rank
    return b.permute(found, [*range(n, n + k), *range(n), *range(n + k, n + x.rank - 1)])


@operator("aten.unfold.default", "aten.unfold_copy.default", category=_MOVEMENT)
def unfold(b: Builder, self: Tensor, dimension: int, size: int, step: int) -> Tensor:
    """y[..., i, ..., j] = self[..., i * step + j, ...] along the dimension, j < size"""
    x = self if self.rank else b.reshape(self, (1,))
    k = b.dim(x, dimension)
    if size < 0 or step < 1 or size > x.shape[k]:
        raise ShapeProblem(f"windows of {size} in steps of {step} along dimension {dimension} of {self.type}")
    count = (x.shape[k] - size) // step + 1
    index = b.add(b.unsqueeze(b.mul(b.iota(count), step), 1), b.iota(size))
    found = _along(b, x, k, index)
    order = [j for j in range(found.rank) if j != k + 1]
    windows = b.permute(found, [*order, k + 1])
    return windows if self.rank else b.reshape(windows, (size,))


@operator(
    "aten.as_strided.default",
    "aten.as_strided_copy.default",
    category=_MOVEMENT,
    assumes=("a tensor that as_strided reads is contiguous in memory, from its first element on",),
)
def as_strided(b: Builder, self: Tensor, size: Integers, stride: Integers, storage_offset: int | None = None) -> Tensor:
    """y[i, j, ...] = element storage_offset + i * stride[0] + j * stride[1] and so on of the flattened tensor"""
    offset = storage_offset or 0
    if len(size) != len(stride) or min((*size, *stride, offset), default=0) < 0:
        raise ShapeProblem(f"size {size}, strides {stride}, offset {offset} for {self.type}")
    if not all(size):
        return b.reshape(b.slice(b.reshape(self, (-1,)), 0, 0, 0), size)
    if offset + sum((n - 1) * step for n, step in zip(size, stride, strict=True)) >= prod(self.shape):
        raise ShapeProblem(f"size {size}, strides {stride}, offset {offset} leave {self.type}")
    index = b.full((1,) * len(size), offset, DType.INT64)
    for k, (n, step) in enumerate(zip(size, stride, strict=True)):
        line = b.reshape(b.mul(b.iota(n), step), [n if j == k else 1 for j in range(len(size))])
        index = b.add(index, line)
    return b.gather(b.reshape(self, (-1,)), [index])


# ---------------------------------------------------------------------------------------------- order of elements
@operator("aten.rot90.default", category=_MOVEMENT)
def rot90(b: Builder, self: Tensor, k: int = 1, dims: Integers = (0, 1)) -> Tensor:
    """self turned k times by a right angle, from the first of dims towards the second"""
    if len(dims) != 2:
        raise ShapeProblem(f"a rotation in dimensions {dims}")
    first, second = b.dims(self, dims)
    turns = k % 4
    if turns == 1:
        return b.transpose(b.flip(self, (second,)), first, second)
    if turns == 2:
        return b.flip(self, (first, second))
    return b.flip(b.transpose(self, first, second), (second,)) if turns else self


@operator("aten.pixel_shuffle.default", category=_MOVEMENT)
def pixel_shuffle(b: Builder, self: Tensor, upscale_factor: int) -> Tensor:
    """y[..., c, h * r + i, w * r + j] = self[..., (c * r + i) * r + j, h, w]"""
    r = upscale_factor
    if self.rank < 3 or r < 1 or self.shape[-3] % (r * r):
        raise ShapeProblem(f"an upscaling of {self.type} by {r}")
    *lead, c, h, w = self.shape
    n = len(lead)
    split = b.reshape(self, (*lead, c // (r * r), r, r, h, w))
    mixed = b.permute(split, [*range(n), n, n + 3, n + 1, n + 4, n + 2])
    return b.reshape(mixed, (*lead, c // (r * r), h * r, w * r))


@operator("aten.pixel_unshuffle.default", category=_MOVEMENT)
def pixel_unshuffle(b: Builder, self: Tensor, downscale_factor: int) -> Tensor:
    """y[..., (c * r + i) * r + j, h, w] = self[..., c, h * r + i, w * r + j]"""
    r = downscale_factor
    if self.rank < 3 or r < 1 or self.shape[-1] % r or self.shape[-2] % r:
        raise ShapeProblem(f"a downscaling of {self.type} by {r}")
    *lead, c, h, w = self.shape
    n = len(lead)
    split = b.reshape(self, (*lead, c, h // r, r, w // r, r))
    mixed = b.permute(split, [*range(n), n, n + 2, n + 4, n + 1, n + 3])
    return b.reshape(mixed, (*lead, c * r * r, h // r, w // r))


@operator("aten.channel_shuffle.default", "aten.native_channel_shuffle.default", category=_MOVEMENT)
def channel_shuffle(b: Builder, self: Tensor, groups: int) -> Tensor:
    """y[:, k * groups + g] = self[:, g * (channels / groups) + k]"""
    if self.rank < 3 or groups < 1 or self.shape[1] % groups:
        raise ShapeProblem(f"{groups} groups of channels of {self.type}")
    n, channels, *rest = self.shape
    split = b.reshape(self, (n, groups, channels // groups, *rest))
    return b.reshape(b.transpose(split, 1, 2), self.shape)


@operator("aten.diag_embed.default", category=_MOVEMENT)
def diag_embed(b: Builder, self: Tensor, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor:
    """y[..., i, j] = self[..., i] where j = i + offset (i moved down if it is negative), else 0"""
    if not self.rank:
        raise ShapeProblem("the diagonal of a tensor without dimensions")
    rank = self.rank + 1
    first, second = dim1 % rank if -rank <= dim1 < rank else -1, dim2 % rank if -rank <= dim2 < rank else -1
    if first < 0 or second < 0 or first == second:
        raise ShapeProblem(f"a diagonal in dimensions {dim1} and {dim2}")
    rows = b.pad(self, -1, max(-offset, 0), max(offset, 0), 0)  # the value of every row of the matrix
    n = rows.shape[-1]
    i, j = b.unsqueeze(b.iota(n), 1), b.unsqueeze(b.iota(n), 0)
    square = b.where(b.equal(b.add(i, offset), j), b.unsqueeze(rows, -1), b.number(0, self.dtype))
    others = iter(range(rank - 2))
    return b.permute(square, [{first: rank - 2, second: rank - 1}.get(k, -1) if k in (first, second) else next(others)
                              for k in range(rank)])  # fmt: skip


@operator("aten.diagonal_scatter.default", category=_MOVEMENT)
def diagonal_scatter(b: Builder, self: Tensor, src: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
    """self with the elements [..., i, i + offset] along dim1 and dim2 replaced by src"""
    if self.rank < 2:
        raise ShapeProblem(f"the diagonal of {self.type}")
    first, second = b.dim(self, dim1), b.dim(self, dim2)
    rows, columns = self.shape[first], self.shape[second]
    if first == second:
        raise ShapeProblem(f"a diagonal in dimensions {dim1} and {dim2}")
    above, left = max(-offset, 0), max(offset, 0)
    count = max(0, min(rows - above, columns - left))
    others = [k for k in range(self.rank) if k not in (first, second)]
    if src.shape != (*(self.shape[k] for k in others), count):
        raise ShapeProblem(f"{src.type} written into a diagonal of {self.type}")
    if not count:
        return self
    spread = b.pad(b.cast(src, self.dtype), -1, above, max(rows - above - count, 0), 0)  # the value of every row
    i, j = b.unsqueeze(b.iota(rows), 1), b.unsqueeze(b.iota(columns), 0)
    inside = b.equal(b.add(i, offset), j)
    order = [*others, first, second]
    moved = b.where(inside, b.unsqueeze(spread, -1), b.permute(self, order))
    return b.permute(moved, [order.index(k) for k in range(self.rank)])


# ---------------------------------------------------------------------------------------------- other names
@operator("aten.broadcast_to.default", category=_MOVEMENT)
def broadcast_to(b: Builder, self: Tensor, size: Integers) -> Tensor:
    """self broadcast to size"""
    return b.expand(self, size)


@operator("aten.broadcast_tensors.default", category=_MOVEMENT)
def broadcast_tensors(b: Builder, tensors: Tensors) -> tuple[Tensor, ...]:
    """the tensors broadcast to their common shape"""
    found = [x for x in tensors if x is not None]
    if len(found) != len(tensors) or not found:
        raise ShapeProblem("a list of no tensors, or with an absent one")
    return tuple(b.broadcast(*found))


@operator("aten.moveaxis.int", category=_MOVEMENT)
def moveaxis(b: Builder, self: Tensor, source: int, destination: int) -> Tensor:
    """dimension source of self becomes dimension destination; the others keep their order"""
    return movement.movedim(b, self, (source,), (destination,))


@operator("aten.moveaxis.intlist", category=_MOVEMENT)
def moveaxes(b: Builder, self: Tensor, source: Integers, destination: Integers) -> Tensor:
    """dimension source[k] of self becomes dimension destination[k]; the others keep their order"""
    return movement.movedim(b, self, source, destination)


@operator("aten.swapdims.default", category=_MOVEMENT)
def swapdims(b: Builder, self: Tensor, dim0: int, dim1: int) -> Tensor:
    """self with dimensions dim0 and dim1 exchanged"""
    return b.transpose(self, dim0, dim1)


@operator("aten.adjoint.default", "aten.mH.default", category=_MOVEMENT)
def adjoint(b: Builder, self: Tensor) -> Tensor:
    """y[..., j, i] = self[..., i, j], conjugated"""
    from tantamount.ops.definitions.complex import conj

    return movement.matrix_transpose(b, conj(b, self))


@operator("aten.ravel.default", category=_MOVEMENT)
def ravel(b: Builder, self: Tensor) -> Tensor:
    """all dimensions made one, row-major"""
    return b.reshape(self, (-1,))


@operator("aten.view_copy.dtype", category=_MOVEMENT)
def view_copy_dtype(b: Builder, self: Tensor, dtype: DType) -> Tensor:
    """self, whose type already is dtype"""
    return movement.view_dtype(b, self, dtype)


@operator("aten.tensor_split.sections", category=_MOVEMENT)
def tensor_split(b: Builder, self: Tensor, sections: int, dim: int = 0) -> tuple[Tensor, ...]:
    """that many consecutive parts along dim, the first ones larger by one where the size does not divide"""
    k = b.dim(self, dim)
    if not self.rank or sections < 1:
        raise ShapeProblem(f"{sections} parts of {self.type}")
    few(sections, "parts")
    size, more = divmod(self.shape[k], sections)
    return b.split(self, [size + 1] * more + [size] * (sections - more), k)


@operator("aten.tensor_split.indices", category=_MOVEMENT)
def tensor_split_at(b: Builder, self: Tensor, indices: Integers, dim: int = 0) -> tuple[Tensor, ...]:
    """the parts along dim between the given positions"""
    k = b.dim(self, dim)
    if not self.rank:
        raise ShapeProblem(f"parts of {self.type}")
    bounds = [0, *indices, self.shape[k]]
    return tuple(b.slice(self, k, low, high) for low, high in pairwise(bounds))


# ---------------------------------------------------------------------------------------------- index tables
def _triangle(b: Builder, pairs: Sequence[tuple[int, int]], dtype: DType | None) -> Tensor:
    data = [i for i, _ in pairs] + [j for _, j in pairs]
    return b.table(data, (2, len(pairs)), dtype or DType.INT64)


def _positions(row: int, col: int) -> list[tuple[int, int]]:
    if row < 0 or col < 0 or row * col > 1 << 22:
        raise ShapeProblem(f"the positions of a {row} by {col} matrix")
    return [(i, j) for i in range(row) for j in range(col)]


@operator("aten.tril_indices.default", category=_CREATION)
def tril_indices(
    b: Builder,
    row: int,
    col: int,
    offset: int = 0,
    *,
    dtype: DType | None = None,
    layout: Layout = None,
    device: Layout = None,
    pin_memory: Layout = None,
) -> Tensor:
    """rows and columns of the positions with j <= i + offset, row by row"""
    return _triangle(b, [(i, j) for i, j in _positions(row, col) if j <= i + offset], dtype)


@operator("aten.triu_indices.default", category=_CREATION)
def triu_indices(
    b: Builder,
    row: int,
    col: int,
    offset: int = 0,
    *,
    dtype: DType | None = None,
    layout: Layout = None,
    device: Layout = None,
    pin_memory: Layout = None,
) -> Tensor:
    """rows and columns of the positions with j >= i + offset, row by row"""
    return _triangle(b, [(i, j) for i, j in _positions(row, col) if j >= i + offset], dtype)


def _grids(b: Builder, tensors: Tensors) -> list[Tensor]:
    found = [x for x in tensors if x is not None]
    if len(found) != len(tensors) or not found or any(x.rank > 1 for x in found):
        raise ShapeProblem("a grid of no tensors, or of some with several dimensions")
    lines = [b.reshape(x, [prod(x.shape) if j == k else 1 for j in range(len(found))]) for k, x in enumerate(found)]
    return b.broadcast(*lines)


@operator("aten.meshgrid.default", category=_CREATION)
def meshgrid(b: Builder, tensors: Tensors) -> tuple[Tensor, ...]:
    """y_k[i_0, i_1, ...] = tensors[k][i_k]"""
    return tuple(_grids(b, tensors))


@operator("aten.meshgrid.indexing", category=_CREATION)
def meshgrid_indexing(b: Builder, tensors: Tensors, *, indexing: str) -> tuple[Tensor, ...]:
    """y_k[i_0, i_1, ...] = tensors[k][i_k]; with "xy" the first two dimensions exchanged"""
    grids = _grids(b, tensors)
    if indexing not in ("ij", "xy"):
        raise ShapeProblem(f"indexing {indexing!r}")
    return tuple(b.transpose(x, 0, 1) if indexing == "xy" and len(grids) > 1 else x for x in grids)


# ---------------------------------------------------------------------------------------------- joins
def _raised(b: Builder, tensors: Tensors, rank: int) -> list[Tensor]:
    """The tensors with at least ``rank`` dimensions, new ones in front."""
    found = [x for x in tensors if x is not None]
    if len(found) != len(tensors) or not found:
        raise ShapeProblem("a list of no tensors, or with an absent one")
    return [x if x.rank >= rank else b.reshape(x, (*(1,) * (rank - x.rank), *x.shape)) for x in found]


@operator("aten.hstack.default", category="joining")
def hstack(b: Builder, tensors: Tensors) -> Tensor:
    """the tensors one after the other along dimension 1 (0 for lines)"""
    found = _raised(b, tensors, 1)
    return b.concat(found, 0 if found[0].rank == 1 else 1)


@operator("aten.vstack.default", category="joining")
def vstack(b: Builder, tensors: Tensors) -> Tensor:
    """the tensors one below the other along dimension 0; lines are rows"""
    return b.concat(_raised(b, tensors, 2), 0)


@operator("aten.column_stack.default", category="joining")
def column_stack(b: Builder, tensors: Tensors) -> Tensor:
    """the tensors side by side along dimension 1; lines are columns"""
    found = _raised(b, tensors, 0)
    return b.concat([b.reshape(x, (-1, 1)) if x.rank < 2 else x for x in found], 1)
