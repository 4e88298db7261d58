"""Putting tensors together: concatenation, padding, repetition, and writing a part into a whole."""

from __future__ import annotations

from collections.abc import Sequence

from tantamount.ops.algebra import Scalar, Tensor
from tantamount.ops.builder import Builder, ShapeProblem, slice_bound
from tantamount.ops.definitions.padding import padded_by
from tantamount.ops.promotion import promote
from tantamount.ops.table import Integers, Tensors, operator

_JOINING = "joining"


def _present(tensors: Tensors) -> list[Tensor]:
    found = [x for x in tensors if x is not None]
    if len(found) != len(tensors) or not found:
        raise ShapeProblem("a list of no tensors" if not tensors else "a list with an absent tensor")
    return found


@operator("aten.cat.default", "aten.concat.default", "aten.concatenate.default", category=_JOINING)
def cat(b: Builder, tensors: Tensors, dim: int = 0) -> Tensor:
    """the tensors one after the other along dim"""
    return b.concat(_present(tensors), dim)


@operator("aten.stack.default", category=_JOINING)
def stack(b: Builder, tensors: Tensors, dim: int = 0) -> Tensor:
    """the tensors side by side in a new dimension dim"""
    found = _present(tensors)
    for x in found:
        if x.shape != found[0].shape:
            raise ShapeProblem(f"stack of {found[0].type} and {x.type}")
    return b.stack(found, dim)


@operator("aten.block_diag.default", category=_JOINING)
def block_diag(b: Builder, tensors: Tensors) -> Tensor:
    """the matrices along the diagonal of one, which is 0 elsewhere; a vector is a matrix of one row"""
    found = _present(tensors)
    for x in found:
        if x.rank > 2:
            raise ShapeProblem(f"{x.type} as a block")
    blocks = [b.reshape(x, (1, *(1 for _ in range(1 - x.rank)), *x.shape)[-2:]) for x in found]
    columns = sum(x.shape[1] for x in blocks)
    rows: list[Tensor] = []
    before = 0
    for x in blocks:
        rows.append(b.pad(b.cast(x, promote(found)), 1, before, columns - before - x.shape[1], 0))
        before += x.shape[1]
    return b.concat(rows, 0)


@operator("aten.constant_pad_nd.default", category=_JOINING)
def constant_pad_nd(b: Builder, self: Tensor, pad: Integers, value: Scalar = 0) -> Tensor:
    """self with `value` put before and after, (before, after) from the last dimension on; negative widths cut off"""
    if len(pad) % 2 or len(pad) > 2 * self.rank:
        raise ShapeProblem(f"{len(pad)} widths for {self.type}")
    out = self
    for k in range(len(pad) // 2):
        before, after = pad[2 * k : 2 * k + 2]
        dim = self.rank - 1 - k
        if out.shape[dim] + before + after < 0:
            raise ShapeProblem(f"widths {before} and {after} along dimension {dim} of {self.type}")
        out = b.pad(out, dim, before, after, value)
    return out


@operator("aten.pad.default", category=_JOINING)
def pad(b: Builder, self: Tensor, pad: Integers, mode: str = "constant", value: float | None = None) -> Tensor:
    """self with `value` (0 without one) around it, from the last dimension on; or `reflect`, `replicate`, `circular`"""
    if mode != "constant":
        return padded_by(b, self, pad, mode)
    return constant_pad_nd(b, self, pad, 0 if value is None else value)


@operator("aten.repeat.default", category=_JOINING)
def repeat(b: Builder, self: Tensor, repeats: Integers) -> Tensor:
    """repeats[k] copies of self one after the other along dimension k, new dimensions in front"""
    extra = len(repeats) - self.rank
    if extra < 0 or min(repeats, default=0) < 0:
        raise ShapeProblem(f"repeats {repeats} of {self.type}")
    sizes = (1,) * extra + self.shape
    split = [item for size in sizes for item in (1, size)]
    wide = [item for count, size in zip(repeats, sizes, strict=True) for item in (count, size)]
    spread = b.expand(b.reshape(self, split), wide)
    return b.reshape(spread, [count * size for count, size in zip(repeats, sizes, strict=True)])


@operator("aten.tile.default", category=_JOINING)
def tile(b: Builder, self: Tensor, dims: Integers) -> Tensor:
    """dims[k] copies of self one after the other along dimension k, counted from the last"""
    return repeat(b, self, (1,) * (self.rank - len(dims)) + dims)


@operator("aten.repeat_interleave.self_int", category=_JOINING)
def repeat_interleave(
    b: Builder, self: Tensor, repeats: int, dim: int | None = None, *, output_size: int | None = None
) -> Tensor:
    """y[i] = self[i div repeats] along dim; without a dim, of the flattened tensor"""
    x = b.reshape(self, (-1,)) if dim is None else self
    k = 0 if dim is None else b.dim(x, dim)
    if repeats < 0 or not x.rank:
        raise ShapeProblem(f"{repeats} repeats of {self.type}")
    total = x.shape[k] * repeats
    if output_size not in (None, total):
        raise ShapeProblem(f"output_size {output_size} where {total} elements result")
    wide = b.expand(b.unsqueeze(x, k + 1), (*x.shape[: k + 1], repeats, *x.shape[k + 1 :]))
    return b.reshape(wide, (*x.shape[:k], total, *x.shape[k + 1 :]))


# ---------------------------------------------------------------------------------------------- a part into a whole
def _bounds(start: int | None, end: int | None, size: int, step: int) -> tuple[int, int]:
    """First element and number of elements of a slice, as PyTorch clamps it."""
    low = 0 if start is None else slice_bound(start, size)
    high = size if end is None else slice_bound(end, size)
    return low, -(-(max(low, high) - low) // step)


@operator("aten.slice_scatter.default", category=_JOINING)
def slice_scatter(
    b: Builder, self: Tensor, src: Tensor, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1
) -> Tensor:
    """self with self[start:end:step] along dim replaced by src"""
    k = b.dim(self, dim)
    if not self.rank or step < 1:
        raise ShapeProblem(f"slice with step {step} of {self.type}")
    low, count = _bounds(start, end, self.shape[k], step)
    wanted = (*self.shape[:k], count, *self.shape[k + 1 :])
    if src.shape != wanted:
        raise ShapeProblem(f"{src.type} written into {count} elements along dimension {k} of {self.type}")
    if not count:
        return self
    part = b.cast(src, self.dtype)
    if step > 1:
        part = _interleaved(b, self, part, k, low, step)
    high = low + part.shape[k]
    return _joined(b, [b.slice(self, k, 0, low), part, b.slice(self, k, high)], k)


def _joined(b: Builder, parts: Sequence[Tensor], dim: int) -> Tensor:
    return b.concat([x for x in parts if x.shape[dim]], dim)


def _interleaved(b: Builder, whole: Tensor, part: Tensor, dim: int, low: int, step: int) -> Tensor:
    """The elements of ``whole`` from ``low`` to the last one written, those in between kept."""
    count = part.shape[dim]
    last = b.slice(part, dim, count - 1)
    if count == 1:
        return last
    head = b.slice(whole, dim, low, low + (count - 1) * step)
    rows = b.reshape(head, (*head.shape[:dim], count - 1, step, *head.shape[dim + 1 :]))
    first = b.unsqueeze(b.slice(part, dim, 0, count - 1), dim + 1)
    mixed = b.concat([first, b.slice(rows, dim + 1, 1)], dim + 1)
    return b.concat([b.reshape(mixed, head.shape), last], dim)


@operator("aten.select_scatter.default", category=_JOINING)
def select_scatter(b: Builder, self: Tensor, src: Tensor, dim: int, index: int) -> Tensor:
    """self with self[..., index, ...] along dim replaced by src"""
    k = b.dim(self, dim)
    if not self.rank or not -self.shape[k] <= index < self.shape[k]:
        raise ShapeProblem(f"index {index} along dimension {dim} of {self.type}")
    position = index % self.shape[k]
    if src.shape != self.shape[:k] + self.shape[k + 1 :]:
        raise ShapeProblem(f"{src.type} written into one element along dimension {k} of {self.type}")
    part = b.unsqueeze(b.cast(src, self.dtype), k)
    return _joined(b, [b.slice(self, k, 0, position), part, b.slice(self, k, position + 1)], k)
