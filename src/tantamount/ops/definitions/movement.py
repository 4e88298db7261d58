"""Rearranging elements: views, permutations, slices, copies and conversions of type."""

from __future__ import annotations

from math import prod

from tantamount.ir.types import DType
from tantamount.ops.algebra import Tensor
from tantamount.ops.builder import Builder, ShapeProblem
from tantamount.ops.definitions.in_place import few, overwriting
from tantamount.ops.table import Integers, Layout, Operand, operator

_MOVEMENT = "movement"


# ---------------------------------------------------------------------------------------------- copies
@operator("aten.clone.default", "aten.contiguous.default", category=_MOVEMENT)
def clone(b: Builder, self: Tensor, *, memory_format: Layout = None) -> Tensor:
    """self"""
    return self


@operator(
    "aten.detach.default",
    "aten.alias.default",
    "aten.alias_copy.default",
    "aten.detach_copy.default",
    "aten.lift.default",
    "aten.lift_fresh.default",
    "aten.lift_fresh_copy.default",
    "aten.positive.default",
    category=_MOVEMENT,
)
def detach(b: Builder, self: Tensor) -> Tensor:
    """self"""
    return self


@overwriting("aten.copy_.default", category=_MOVEMENT)
@operator("aten.copy.default", category=_MOVEMENT)
def copy(b: Builder, self: Tensor, src: Tensor, non_blocking: Layout = False) -> Tensor:
    """src, broadcast to the shape of self and converted to its type"""
    return b.cast(b.expand(src, self.shape), self.dtype)


@operator("aten._to_copy.default", category=_MOVEMENT)
def to_copy(
    b: Builder,
    self: Operand,
    *,
    dtype: DType | None = None,
    layout: Layout = None,
    device: Layout = None,
    pin_memory: Layout = None,
    non_blocking: Layout = False,
    memory_format: Layout = None,
) -> Tensor:
    """self, converted to dtype; a number as the tensor without dimensions that `torch.func.vmap` makes of it"""
    x = self if isinstance(self, Tensor) else b.number(self)
    return b.cast(x, dtype or x.dtype)


@operator("aten.to.dtype", category=_MOVEMENT)
def to_dtype(
    b: Builder,
    self: Tensor,
    dtype: DType,
    non_blocking: Layout = False,
    copy: Layout = False,
    memory_format: Layout = None,
) -> Tensor:
    """self, converted to dtype"""
    return b.cast(self, dtype)


@operator("aten.to.dtype_layout", category=_MOVEMENT)
def to_dtype_layout(
    b: Builder,
    self: Tensor,
    *,
    dtype: DType | None = None,
    layout: Layout = None,
    device: Layout = None,
    pin_memory: Layout = None,
    non_blocking: Layout = False,
    copy: Layout = False,
    memory_format: Layout = None,
) -> Tensor:
    """self, converted to dtype"""
    return b.cast(self, dtype or self.dtype)


@operator("aten.to.device", category=_MOVEMENT)
def to_device(
    b: Builder,
    self: Tensor,
    device: Layout,
    dtype: DType,
    non_blocking: Layout = False,
    copy: Layout = False,
    memory_format: Layout = None,
) -> Tensor:
    """self, converted to dtype"""
    return b.cast(self, dtype)


@operator("aten.to.other", "aten.type_as.default", category=_MOVEMENT)
def to_other(
    b: Builder,
    self: Tensor,
    other: Tensor,
    non_blocking: Layout = False,
    copy: Layout = False,
    memory_format: Layout = None,
) -> Tensor:
    """self, converted to the type of other"""
    return b.cast(self, other.dtype)


# ---------------------------------------------------------------------------------------------- shapes
@operator("aten.view.default", "aten._unsafe_view.default", "aten.view_copy.default", category=_MOVEMENT)
def view(b: Builder, self: Tensor, size: Integers) -> Tensor:
    """the same elements in row-major order"""
    return b.reshape(self, size)


@operator("aten.reshape.default", category=_MOVEMENT)
def reshape(b: Builder, self: Tensor, shape: Integers) -> Tensor:
    """the same elements in row-major order"""
    return b.reshape(self, shape)


@operator("aten._reshape_alias.default", category=_MOVEMENT)
def reshape_alias(b: Builder, self: Tensor, size: Integers, stride: Integers) -> Tensor:
    """the same elements in row-major order"""
    if len(stride) != len(size):
        raise ShapeProblem(f"{len(stride)} strides for {len(size)} dimensions")
    return b.reshape(self, size)


@operator("aten.view_as.default", "aten.reshape_as.default", category=_MOVEMENT)
def view_as(b: Builder, self: Tensor, other: Tensor) -> Tensor:
    """the same elements in row-major order, in the shape of other"""
    return b.reshape(self, other.shape)


@operator("aten.view.dtype", category=_MOVEMENT)
def view_dtype(b: Builder, self: Tensor, dtype: DType) -> Tensor:
    """self, whose type already is dtype"""
    if dtype is not self.dtype:
        raise ShapeProblem(f"the bits of {self.dtype} read as {dtype}")
    return self


@operator("aten.flatten.using_ints", category=_MOVEMENT)
def flatten(b: Builder, self: Tensor, start_dim: int = 0, end_dim: int = -1) -> Tensor:
    """dimensions start_dim to end_dim made one, row-major"""
    first, last = b.dim(self, start_dim), b.dim(self, end_dim)
    if first > last:
        raise ShapeProblem(f"flatten from dimension {start_dim} to {end_dim}")
    return b.reshape(self, (*self.shape[:first], prod(self.shape[first : last + 1]), *self.shape[last + 1 :]))


@operator("aten.unflatten.int", category=_MOVEMENT)
def unflatten(b: Builder, self: Tensor, dim: int, sizes: Integers) -> Tensor:
    """dimension dim made several, row-major"""
    k = b.dim(self, dim)
    wanted = list(sizes)
    if wanted.count(-1) == 1:
        rest = -prod(wanted)
        if rest == 0 or self.shape[k] % rest:
            raise ShapeProblem(f"dimension of size {self.shape[k]} made {sizes}")
        wanted[wanted.index(-1)] = self.shape[k] // rest
    if prod(wanted) != self.shape[k] or min(wanted, default=0) < 0:
        raise ShapeProblem(f"dimension of size {self.shape[k]} made {sizes}")
    return b.reshape(self, (*self.shape[:k], *wanted, *self.shape[k + 1 :]))


@operator("aten.squeeze.default", "aten.squeeze_copy.default", category=_MOVEMENT)
def squeeze(b: Builder, self: Tensor) -> Tensor:
    """self without its dimensions of size 1"""
    return b.squeeze(self, None)


@operator("aten.squeeze.dim", "aten.squeeze_copy.dim", category=_MOVEMENT)
def squeeze_dim(b: Builder, self: Tensor, dim: int) -> Tensor:
    """self without dimension dim if its size is 1"""
    return b.squeeze(self, (dim,))


@operator("aten.squeeze.dims", "aten.squeeze_copy.dims", category=_MOVEMENT)
def squeeze_dims(b: Builder, self: Tensor, dim: Integers) -> Tensor:
    """self without those of the given dimensions that have size 1"""
    return b.squeeze(self, dim)


@operator("aten.unsqueeze.default", "aten.unsqueeze_copy.default", category=_MOVEMENT)
def unsqueeze(b: Builder, self: Tensor, dim: int) -> Tensor:
    """self with a dimension of size 1 put in at dim"""
    return b.unsqueeze(self, dim)


@operator("aten.expand.default", "aten.expand_copy.default", category=_MOVEMENT)
def expand(b: Builder, self: Tensor, size: Integers, *, implicit: Layout = False) -> Tensor:
    """self broadcast to size"""
    return b.expand(self, size)


@operator("aten.expand_as.default", category=_MOVEMENT)
def expand_as(b: Builder, self: Tensor, other: Tensor) -> Tensor:
    """self broadcast to the shape of other"""
    return b.expand(self, other.shape)


# ---------------------------------------------------------------------------------------------- order of dimensions
@operator("aten.t.default", "aten.t_copy.default", "aten.numpy_T.default", category=_MOVEMENT)
def t(b: Builder, self: Tensor) -> Tensor:
    """y[j, i] = self[i, j]"""
    if self.rank > 2:
        raise ShapeProblem(f"transposition of {self.type}, which has more than two dimensions")
    return b.permute(self, tuple(reversed(range(self.rank))))


@operator("aten.mT.default", category=_MOVEMENT)
def matrix_transpose(b: Builder, self: Tensor) -> Tensor:
    """y[..., j, i] = self[..., i, j]"""
    if self.rank < 2:
        raise ShapeProblem(f"transposition of {self.type}, which is no matrix")
    return b.transpose(self, -2, -1)


@operator("aten.transpose.int", "aten.transpose_copy.int", "aten.swapaxes.default", category=_MOVEMENT)
def transpose(b: Builder, self: Tensor, dim0: int, dim1: int) -> Tensor:
    """self with dimensions dim0 and dim1 exchanged"""
    return b.transpose(self, dim0, dim1)


@operator("aten.permute.default", "aten.permute_copy.default", category=_MOVEMENT)
def permute(b: Builder, self: Tensor, dims: Integers) -> Tensor:
    """dimension k of the result is dimension dims[k] of self"""
    return b.permute(self, dims)


@operator("aten.movedim.intlist", category=_MOVEMENT)
def movedim(b: Builder, self: Tensor, source: Integers, destination: Integers) -> Tensor:
    """dimension source[k] of self becomes dimension destination[k]; the others keep their order"""
    if len(source) != len(destination):
        raise ShapeProblem(f"dimensions {source} moved to {destination}")
    if not source:
        return self
    come, go = b.dims(self, source), b.dims(self, destination)
    rest = iter(k for k in range(self.rank) if k not in come)
    target = dict(zip(go, come, strict=True))
    return b.permute(self, [target[k] if k in target else next(rest) for k in range(self.rank)])


@operator("aten.movedim.int", category=_MOVEMENT)
def movedim_one(b: Builder, self: Tensor, source: int, destination: int) -> Tensor:
    """dimension source of self becomes dimension destination; the others keep their order"""
    return movedim(b, self, (source,), (destination,))


@operator("aten.flip.default", category=_MOVEMENT)
def flip(b: Builder, self: Tensor, dims: Integers) -> Tensor:
    """y[i] = self[size - 1 - i] along the given dimensions"""
    return b.flip(self, dims) if dims else self


@operator("aten.roll.default", category=_MOVEMENT)
def roll(b: Builder, self: Tensor, shifts: Integers, dims: Integers = ()) -> Tensor:
    """y[(i + shift) mod size] = self[i] along the given dimensions; without dimensions, of the flattened tensor"""
    if not dims:
        if len(shifts) != 1:
            raise ShapeProblem(f"{len(shifts)} shifts of the flattened tensor")
        return b.reshape(roll(b, b.reshape(self, (prod(self.shape),)), shifts, (0,)), self.shape)
    if len(dims) != len(shifts):
        raise ShapeProblem(f"{len(shifts)} shifts along {len(dims)} dimensions")
    out = self
    for shift, dim in zip(shifts, dims, strict=True):
        k = b.dim(out, dim)
        size = out.shape[k] if out.rank else 0
        if size and shift % size:
            cut = size - shift % size
            out = b.concat([b.slice(out, k, cut), b.slice(out, k, 0, cut)], k)
    return out


# ---------------------------------------------------------------------------------------------- parts
@operator("aten.slice.Tensor", "aten.slice_copy.Tensor", category=_MOVEMENT)
def slice_tensor(
    b: Builder, self: Tensor, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1
) -> Tensor:
    """self[start:end:step] along dim"""
    return b.slice(self, dim, 0 if start is None else start, end, step)


@operator("aten.narrow.default", "aten.narrow_copy.default", category=_MOVEMENT)
def narrow(b: Builder, self: Tensor, dim: int, start: int, length: int) -> Tensor:
    """self[start : start + length] along dim"""
    k = b.dim(self, dim)
    size = self.shape[k] if self.rank else 0
    first = start + size if start < 0 else start
    if not 0 <= first <= first + length <= size:
        raise ShapeProblem(f"elements {start} to {start + length} along dimension {dim} of {self.type}")
    return b.slice(self, k, first, first + length)


@operator("aten.select.int", "aten.select_copy.int", category=_MOVEMENT)
def select(b: Builder, self: Tensor, dim: int, index: int) -> Tensor:
    """self[..., index, ...] along dim, which is removed"""
    return b.select(self, dim, index)


def _labels(rank: int) -> str:
    letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
    if rank > len(letters):
        raise ShapeProblem(f"more than {len(letters)} dimensions")
    return letters[:rank]


@operator("aten.diagonal.default", "aten.diagonal_copy.default", category=_MOVEMENT)
def diagonal(b: Builder, self: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
    """y[..., i] = self[..., i, ..., i + offset, ...]"""
    first, second = b.dim(self, dim1), b.dim(self, dim2)
    if first == second:
        raise ShapeProblem(f"the diagonal of dimensions {dim1} and {dim2}, which are the same")
    x = b.slice(self, first, max(0, -offset))
    x = b.slice(x, second, max(0, offset))
    length = min(x.shape[first], x.shape[second])
    x = b.slice(b.slice(x, first, 0, length), second, 0, length)
    labels = _labels(self.rank)
    left = labels[:second] + labels[first] + labels[second + 1 :]
    rest = "".join(label for k, label in enumerate(labels) if k not in (first, second))
    return b.contract(f"{left}->{rest}{labels[first]}", x)


def _pieces(b: Builder, x: Tensor, size: int, dim: int) -> tuple[Tensor, ...]:
    """Parts of ``size`` elements along ``dim``, the last one smaller."""
    k = b.dim(x, dim)
    if not x.rank or size < 0 or (size == 0 and x.shape[k]):
        raise ShapeProblem(f"{x.type} split along dimension {dim} into parts of {size}")
    if x.shape[k] == 0:
        return (x,)
    full, rest = divmod(x.shape[k], size)
    few(full, "parts")
    return b.split(x, (size,) * full + ((rest,) if rest else ()), k)


@operator("aten.split.Tensor", "aten.unsafe_split.Tensor", "aten.split_copy.Tensor", category=_MOVEMENT)
def split(b: Builder, self: Tensor, split_size: int, dim: int = 0) -> tuple[Tensor, ...]:
    """consecutive parts of split_size elements along dim, the last one smaller"""
    return _pieces(b, self, split_size, dim)


@operator("aten.split.sizes", category=_MOVEMENT)
def split_sizes(b: Builder, self: Tensor, split_size: Integers, dim: int = 0) -> tuple[Tensor, ...]:
    """consecutive parts of the given sizes along dim"""
    return b.split(self, split_size, dim)


@operator(
    "aten.split_with_sizes.default",
    "aten.split_with_sizes_copy.default",
    "aten.unsafe_split_with_sizes.default",
    category=_MOVEMENT,
)
def split_with_sizes(b: Builder, self: Tensor, split_sizes: Integers, dim: int = 0) -> tuple[Tensor, ...]:
    """consecutive parts of the given sizes along dim"""
    return b.split(self, split_sizes, dim)


@operator("aten.chunk.default", "aten.unsafe_chunk.default", category=_MOVEMENT)
def chunk(b: Builder, self: Tensor, chunks: int, dim: int = 0) -> tuple[Tensor, ...]:
    """at most `chunks` consecutive parts along dim, equal but for the last"""
    k = b.dim(self, dim)
    if chunks < 1 or not self.rank:
        raise ShapeProblem(f"{self.type} in {chunks} chunks")
    if self.shape[k] == 0:
        return (self,) * chunks
    return _pieces(b, self, -(-self.shape[k] // chunks), k)


@operator("aten.unbind.int", "aten.unbind_copy.int", category=_MOVEMENT)
def unbind(b: Builder, self: Tensor, dim: int = 0) -> tuple[Tensor, ...]:
    """self[..., k, ...] for every k along dim"""
    k = b.dim(self, dim)
    if not self.rank:
        raise ShapeProblem("the parts of a tensor without dimensions")
    few(self.shape[k], "parts")
    return tuple(b.select(self, k, index) for index in range(self.shape[k]))
