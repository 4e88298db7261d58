"""HLO instructions that read and write at computed places. Reading moves a window back into the tensor (`clamps`);
a scatter leaves out a window that is not wholly inside."""

from __future__ import annotations

from math import prod

from tantamount.ir.types import DType, Kind
from tantamount.ops.algebra import Tensor
from tantamount.ops.builder import Builder, ShapeProblem
from tantamount.ops.definitions.elementwise import clamp
from tantamount.ops.definitions.indexing import index_select
from tantamount.ops.table import Integers, Tensors, operator

_HLO = "hlo"


def _clamped(b: Builder, index: Tensor, highest: int) -> Tensor:
    """``minimum(maximum(index, 0), highest)``."""
    return clamp(b, index, 0, highest)


# ---------------------------------------------------------------------------------------------- one window
def _starts(x: Tensor, starts: Tensors, sizes: Integers) -> list[Tensor]:
    found = [start for start in starts if start is not None]
    if len(found) != x.rank or any(start.rank or start.dtype.kind is not Kind.INT for start in found):
        raise ShapeProblem(f"{len(found)} start indices, integers without dimensions, for {x.type}")
    if len(sizes) != x.rank or any(not 0 <= size <= whole for size, whole in zip(sizes, x.shape, strict=True)):
        raise ShapeProblem(f"a window {list(sizes)} of {x.type}")
    return found


def _window_line(b: Builder, start: Tensor, size: int, whole: int) -> Tensor:
    """The places ``start, start + 1, ...`` of a window, moved back into the dimension."""
    return b.add(b.cast(_clamped(b, start, whole - size), DType.INT64), b.iota(size))


@operator("hlo.dynamic-slice", category=_HLO)
def dynamic_slice(b: Builder, operand: Tensor, start_indices: Tensors, *, slice_sizes: Integers) -> Tensor:
    """operand[start : start + size] in every dimension, where start is min(max(index, 0), whole size - size)"""
    out = operand
    for k, start in enumerate(_starts(operand, start_indices, slice_sizes)):
        if slice_sizes[k] < operand.shape[k]:
            out = index_select(b, out, k, _window_line(b, start, slice_sizes[k], operand.shape[k]))
    return out


def _written(b: Builder, x: Tensor, update: Tensor, starts: list[Tensor]) -> Tensor:
    """x with ``update`` at the places ``starts``, moved back into x.

    Along a dimension, y[i] = update[i - start] if 0 <= i - start < size. With update in the middle of zeros, the place
    i - start + (whole - size) is always inside, as 0 <= start <= whole - size."""
    wide, inside = update, b.full((), True, DType.BOOL)
    for k, start in enumerate(starts):
        whole, size = x.shape[k], update.shape[k]
        if size == whole:
            continue
        room = whole - size
        at = b.sub(b.iota(whole), b.cast(_clamped(b, start, room), DType.INT64))
        wide = index_select(b, b.pad(wide, k, room, room, 0), k, b.add(at, room))
        within = b.and_(b.not_(b.less(at, 0)), b.less(at, size))
        inside = b.and_(inside, b.reshape(within, [whole if j == k else 1 for j in range(x.rank)]))
    return b.where(inside, wide, x)


@operator("hlo.dynamic-update-slice", category=_HLO)
def dynamic_update_slice(b: Builder, operand: Tensor, update: Tensor, start_indices: Tensors) -> Tensor:
    """operand with update at start, where start is min(max(index, 0), whole size - size)"""
    if update.dtype is not operand.dtype or update.rank != operand.rank:
        raise ShapeProblem(f"{update.type} written into {operand.type}")
    starts = _starts(operand, start_indices, update.shape)
    return operand if 0 in update.shape else _written(b, operand, update, starts)


@operator("hlo.update-slice-at", category=_HLO)
def update_slice_at(b: Builder, operand: Tensor, update: Tensor, *, start_indices: Integers) -> Tensor:
    """dynamic-update-slice at a known start: no instruction of HLO, but what is left of one where starts are numbers"""
    if not len(start_indices) == update.rank == operand.rank or update.dtype is not operand.dtype:
        raise ShapeProblem(f"{update.type} written into {operand.type} at {list(start_indices)}")
    if any(size > whole for size, whole in zip(update.shape, operand.shape, strict=True)):
        raise ShapeProblem(f"{update.type} written into {operand.type}")
    out, around = update, operand
    layers: list[tuple[int, Tensor, Tensor]] = []
    for k, index in enumerate(start_indices):  # before and behind the window, in ever smaller parts of the operand
        start = max(0, min(index, operand.shape[k] - update.shape[k]))
        stop = start + update.shape[k]
        layers.append((k, b.slice(around, k, 0, start), b.slice(around, k, stop, operand.shape[k])))
        around = b.slice(around, k, start, stop)
    for k, before, behind in reversed(layers):
        out = b.concat([before, out, behind], k)
    return out


# ---------------------------------------------------------------------------------------------- many windows
def _index_parts(
    b: Builder, indices: Tensor, index_vector_dim: int, count: int
) -> tuple[list[Tensor], tuple[int, ...]]:
    """The components of the index vectors, each of the shape of the batch, and that shape."""
    if indices.dtype.kind is not Kind.INT or not 0 <= index_vector_dim <= indices.rank:
        raise ShapeProblem(f"indices {indices.type} with index_vector_dim {index_vector_dim}")
    vectors = b.unsqueeze(indices, index_vector_dim) if index_vector_dim == indices.rank else indices
    if vectors.shape[index_vector_dim] != count:
        raise ShapeProblem(f"index vectors of {vectors.shape[index_vector_dim]} for {count} dimensions")
    parts = [b.cast(b.select(vectors, index_vector_dim, j), DType.INT64) for j in range(count)]
    shape = tuple(size for k, size in enumerate(vectors.shape) if k != index_vector_dim)
    return parts, shape


def _batch_position(dim: int, index_vector_dim: int) -> int:
    """A dimension of the indices as a dimension of the batch, which lacks index_vector_dim."""
    return dim - (dim > index_vector_dim)


def _check_roles(rank: int, *roles: Integers) -> None:
    dims = [d for role in roles for d in role]
    if len({*dims}) != len(dims) or any(not 0 <= d < rank for d in dims):
        raise ShapeProblem(f"dimensions {dims} of {rank}")


def _places(
    b: Builder,
    whole: Integers,
    window: Integers,
    starts: dict[int, Tensor],
    batching: dict[int, int],
    batch: tuple[int, ...],
    kept: list[int],
) -> list[Tensor | None]:
    """One index per dimension of a tensor of sizes ``whole``, for windows that start at ``starts`` (of batch shape):
    shape batch + the windows of the dimensions ``kept``. ``batching``: dimension = position in the batch."""
    room = [1] * len(kept)
    found: list[Tensor | None] = []
    for k in range(len(whole)):
        if k in batching:
            line = b.iota(whole[k])
            at = batching[k]
            found.append(b.reshape(line, [*(size if j == at else 1 for j, size in enumerate(batch)), *room]))
        elif k in starts:
            place = b.reshape(starts[k], (*starts[k].shape, *room))
            if k in kept:
                offset = b.reshape(b.iota(window[k]), [window[k] if j == k else 1 for j in kept])
                place = b.add(place, offset)
            found.append(place)
        else:
            found.append(None)
    return found


@operator("hlo.gather", category=_HLO)
def gather(
    b: Builder,
    operand: Tensor,
    start_indices: Tensor,
    *,
    offset_dims: Integers = (),
    collapsed_slice_dims: Integers = (),
    start_index_map: Integers = (),
    index_vector_dim: int,
    slice_sizes: Integers,
    operand_batching_dims: Integers = (),
    start_indices_batching_dims: Integers = (),
) -> Tensor:
    """windows of operand, one per index vector; a start is min(max(index, 0), whole size - size)"""
    x, rank = operand, operand.rank
    _check_roles(rank, collapsed_slice_dims, operand_batching_dims)
    _check_roles(rank, start_index_map, operand_batching_dims)
    if len(slice_sizes) != rank or any(not 0 <= s <= n for s, n in zip(slice_sizes, x.shape, strict=True)):
        raise ShapeProblem(f"slices of sizes {list(slice_sizes)} of {x.type}")
    if any(slice_sizes[k] != 1 for k in (*collapsed_slice_dims, *operand_batching_dims)):
        raise ShapeProblem(f"slice sizes {list(slice_sizes)}, which must be 1 where dimensions are dropped")
    parts, batch = _index_parts(b, start_indices, index_vector_dim, len(start_index_map))
    batching = _batching(operand, batch, operand_batching_dims, start_indices_batching_dims, index_vector_dim)
    window = [k for k in range(rank) if k not in collapsed_slice_dims and k not in operand_batching_dims]
    result_rank = len(batch) + len(window)
    if list(offset_dims) != sorted({*offset_dims}) or len(offset_dims) != len(window):
        raise ShapeProblem(f"offset dimensions {list(offset_dims)} for {len(window)} dimensions of a window")
    _check_roles(result_rank, offset_dims)
    starts: dict[int, Tensor] = {}
    for k, part in zip(start_index_map, parts, strict=True):
        if slice_sizes[k] < x.shape[k]:  # else the start is 0, whatever the index
            starts[k] = _clamped(b, part, x.shape[k] - slice_sizes[k])
    for k in range(rank):
        if k not in starts and k not in batching:
            x = b.slice(x, k, 0, slice_sizes[k])
    kept = [k for k in window if k in starts]
    places = _places(b, x.shape, slice_sizes, starts, batching, batch, kept)
    if all(place is None for place in places):  # nothing is chosen: every window is the same one
        found = b.expand(x, (*batch, *x.shape)) if batch else x
    else:
        found = b.gather(x, places)
        spread = tuple(slice_sizes[k] for k in kept)
        rest = tuple(x.shape[k] for k, place in enumerate(places) if place is None)
        found = b.expand(found, (*batch, *spread, *rest))
    order = [*kept, *(k for k, place in enumerate(places) if place is None)]
    dims = {k: len(batch) + j for j, k in enumerate(order)}
    dropped = [dims[k] for k in order if k not in window]
    if dropped:
        found = b.squeeze(found, dropped)
        order = [k for k in order if k in window]
        dims = {k: len(batch) + j for j, k in enumerate(order)}
    sources: list[int] = []
    batch_dims, window_dims = iter(range(len(batch))), iter(window)
    for j in range(result_rank):
        sources.append(dims[next(window_dims)] if j in offset_dims else next(batch_dims))
    return b.permute(found, sources) if sources else found


def _batching(
    x: Tensor, batch: Integers, dims: Integers, index_dims: Integers, index_vector_dim: int
) -> dict[int, int]:
    """Dimensions of x that the batch runs along = their position in the batch."""
    if len(dims) != len(index_dims) or index_vector_dim in index_dims:
        raise ShapeProblem(f"batching dimensions {list(dims)} and {list(index_dims)}")
    found = {k: _batch_position(d, index_vector_dim) for k, d in zip(dims, index_dims, strict=True)}
    if any(not 0 <= at < len(batch) or batch[at] != x.shape[k] for k, at in found.items()):
        raise ShapeProblem(f"batching dimensions {list(dims)} of {x.type} for a batch {list(batch)}")
    return found


@operator("hlo.scatter", category=_HLO)
def scatter(
    b: Builder,
    operand: Tensor,
    scatter_indices: Tensor,
    updates: Tensor,
    *,
    update_window_dims: Integers = (),
    inserted_window_dims: Integers = (),
    scatter_dims_to_operand_dims: Integers = (),
    index_vector_dim: int,
    input_batching_dims: Integers = (),
    scatter_indices_batching_dims: Integers = (),
    kind: str,
) -> Tensor:
    """operand with windows of updates added (kind add) or written (second); a window that leaves operand is left out"""
    x, rank = operand, operand.rank
    _check_roles(rank, inserted_window_dims, input_batching_dims)
    _check_roles(rank, scatter_dims_to_operand_dims, input_batching_dims)
    _check_roles(updates.rank, update_window_dims)
    window = [k for k in range(rank) if k not in inserted_window_dims and k not in input_batching_dims]
    parts, batch = _index_parts(b, scatter_indices, index_vector_dim, len(scatter_dims_to_operand_dims))
    scattered = [d for d in range(updates.rank) if d not in update_window_dims]
    if updates.dtype is not x.dtype or len(window) != len(update_window_dims) or x.dtype is DType.BOOL:
        raise ShapeProblem(f"updates {updates.type} for {x.type}")
    if list(update_window_dims) != sorted(update_window_dims) or tuple(updates.shape[d] for d in scattered) != batch:
        raise ShapeProblem(f"updates {updates.type} for a batch {list(batch)}")
    if kind not in ("add", "second"):
        raise ShapeProblem(f"a scatter that combines by {kind}; adding and writing are known")
    sizes = [1] * rank
    for k, d in zip(window, update_window_dims, strict=True):
        sizes[k] = updates.shape[d]
        if sizes[k] > x.shape[k] or (k not in scatter_dims_to_operand_dims and sizes[k] != x.shape[k]):
            raise ShapeProblem(f"a window of {sizes[k]} in dimension {k} of {x.type}")
    batching = _batching(x, batch, input_batching_dims, scatter_indices_batching_dims, index_vector_dim)
    if any(k not in scatter_dims_to_operand_dims for k in inserted_window_dims):
        raise ShapeProblem(f"an inserted dimension out of {list(inserted_window_dims)} without an index")
    if 0 in updates.shape or 0 in x.shape:
        return x
    inside = b.full(batch, True, DType.BOOL)
    starts: dict[int, Tensor] = {}
    for k, part in zip(scatter_dims_to_operand_dims, parts, strict=True):
        inside = b.and_(inside, b.and_(b.not_(b.less(part, 0)), b.not_(b.less(x.shape[k] - sizes[k], part))))
        starts[k] = _clamped(b, part, x.shape[k] - sizes[k])
    kept = [k for k in window if k in starts]
    rest = [k for k in window if k not in starts]
    of_window = dict(zip(window, update_window_dims, strict=True))
    moved = b.permute(updates, [*scattered, *(of_window[k] for k in (*kept, *rest))])
    if kind == "second" and prod(batch) == 1 and not batching:
        return _one_window(b, x, b.reshape(moved, moved.shape[len(batch) :]), [*kept, *rest], starts, inside)
    places = _places(b, x.shape, tuple(sizes), starts, batching, batch, kept)
    if all(place is None for place in places):
        raise ShapeProblem("a scatter without an index")
    if kind == "add":
        clean = b.where(b.reshape(inside, (*batch, *(1,) * (moved.rank - len(batch)))), moved, b.full((), 0, x.dtype))
        return b.scatter(x, places, clean, True)
    return _written_windows(b, x, places, sizes, next(iter(starts)), inside, moved)


def _one_window(
    b: Builder, x: Tensor, update: Tensor, dims: list[int], starts: dict[int, Tensor], inside: Tensor
) -> Tensor:
    """One window written, or none if it is not inside."""
    order = sorted(range(len(dims)), key=dims.__getitem__)
    full = b.reshape(
        b.permute(update, order) if order else update,
        [update.shape[dims.index(k)] if k in dims else 1 for k in range(x.rank)],
    )
    zero = b.full((), 0, DType.INT64)
    found = _written(b, x, full, [b.reshape(starts[k], ()) if k in starts else zero for k in range(x.rank)])
    return b.where(b.reshape(inside, ()), found, x)


def _written_windows(
    b: Builder, x: Tensor, places: list[Tensor | None], sizes: list[int], aside: int, inside: Tensor, moved: Tensor
) -> Tensor:
    """Windows written; those not inside go to room of their own behind dimension ``aside``, which is cut off again."""
    wide = b.pad(x, aside, 0, sizes[aside], 0)
    place = places[aside]
    if place is not None:
        outside = b.add(b.full((), x.shape[aside], DType.INT64), b.full(place.shape, 0, DType.INT64))
        if place.shape[inside.rank :] != (1,) * (place.rank - inside.rank):
            at = next(j for j in range(inside.rank, place.rank) if place.shape[j] != 1)
            line = b.reshape(b.iota(place.shape[at]), [place.shape[at] if j == at else 1 for j in range(place.rank)])
            outside = b.add(outside, line)
        condition = b.reshape(inside, (*inside.shape, *(1,) * (place.rank - inside.rank)))
        places = [b.where(condition, place, outside) if k == aside else p for k, p in enumerate(places)]
    return b.slice(b.scatter(wide, places, moved, False), aside, 0, x.shape[aside])
