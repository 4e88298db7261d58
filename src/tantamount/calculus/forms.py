"""The layout primitives on forms, and forms of one shape with equal axes."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from tantamount.calculus.affine import Coordinate, fixed, variable
from tantamount.calculus.atoms import Store
from tantamount.calculus.boxes import Box
from tantamount.calculus.interleaved import interleaved
from tantamount.calculus.pieces import (
    Form,
    Piece,
    axes_of,
    canonical,
    constant_form,
    identity,
    intersect,
    leaf_form,
    mergeable,
    merged,
    number_of,
    pin,
)
from tantamount.calculus.polynomials import pinned
from tantamount.calculus.products import substitute_polynomial
from tantamount.errors import Unsupported
from tantamount.ir.types import Shape
from tantamount.sizes.symbolic import alike, divided_evenly, is_one, is_size, same

__all__ = [
    "Box", "Form", "Piece", "aligned", "axes_of", "canonical", "concat", "constant_form", "expand", "factorisation",
    "flip", "identity", "intersect", "leaf_form", "number_of", "permute", "pin", "refactor", "reshape", "slice_form",
]  # fmt: skip


# ------------------------------------------------------------------------------------------------ axes
def _cuts(option: tuple[int, ...]) -> list[int]:
    """The products of the last size, the last two, and so on."""
    found: list[int] = []
    for size in reversed(option):
        found.append(size * (found[-1] if found else 1))
    return found


def factorisation(options: Sequence[tuple[int, ...]]) -> tuple[int, ...] | None:
    """The coarsest factorisation that refines all, or ``None`` if their cuts do not divide each other."""
    found: list[int] = []  # from the last on
    last = 1
    rest = [_cuts(option) for option in options]
    while heads := [cuts[0] for cuts in rest if cuts]:
        nearest = next((cut for cut in heads if all(divided_evenly(h, cut) is not None for h in heads)), None)
        size = None if nearest is None else divided_evenly(nearest, last)
        if nearest is None or size is None:
            return None
        if not is_one(size):
            found.append(size)
        last = nearest
        rest = [cuts[1:] if cuts and same(cuts[0], nearest) else cuts for cuts in rest]
    return tuple(reversed(found))


def split_axis(form: Form, axis: int, inner: int) -> Form:
    """An axis of size n as two of sizes ``n // inner`` and ``inner``. Boxes that do not fit are cut."""
    outer = form.sizes[axis] // inner
    dims: list[tuple[int, ...]] = []
    first = 0
    for dim in form.dims:
        k = axis - first
        dims.append((*dim[:k], outer, inner, *dim[k + 1 :]) if 0 <= k < len(dim) else dim)
        first += len(dim)
    replace: dict[int, Coordinate] = {axis: Coordinate(((axis, inner), (axis + 1, 1)), 0)}
    replace.update({v: variable(v + 1) for v in range(axis + 1, len(form.sizes))})
    pieces: list[Piece] = []
    for box, x in form.pieces:
        y = substitute_polynomial(x, replace)
        low, high = box[axis]
        while low < high:
            q, r = divmod(low, inner)
            if r == 0 and high - low >= inner:
                end = high // inner * inner
                digits = ((q, end // inner), (0, inner))
            else:
                end = min(high, (q + 1) * inner)
                digits = ((q, q + 1), (r, r + end - low))
            z = y
            points: dict[int, Coordinate] = {axis + j: fixed(d[0]) for j, d in enumerate(digits) if is_one(d[1] - d[0])}
            if points:
                z = substitute_polynomial(y, points)
            pieces.append(((*box[:axis], *digits, *box[axis + 1 :]), z))
            low = end
    return Form(tuple(dims), tuple(pieces))


def join_axes(store: Store, form: Form, first: int, count: int) -> Form:
    """Consecutive axes of one dimension as one axis; digits that do not merge are unrolled, or summed if they are any
    number."""
    pieces = list(form.pieces)
    sizes = list(form.sizes)
    for _ in range(count - 1):
        inner = sizes[first + 1]
        out: list[Piece] = []
        if any(is_size(box[first][1] - box[first][0]) and not mergeable((box, x), first, inner) for box, x in pieces):
            pieces = interleaved(store, pieces, len(sizes), first, sizes[first], inner)
            sizes[first : first + 2] = [sizes[first] * inner]
            continue
        for piece in pieces:
            low, high = piece[0][first]
            joined = mergeable(piece, first, inner)
            boxes = len(out) + (1 if joined else high - low)
            if store.effort.exceeds("layout_boxes", boxes):  # before they are made
                raise Unsupported(f"a layout that needs {boxes} boxes (limit-layout-boxes)")
            if joined:
                out.append(merged(piece, first, inner))
            else:
                out.extend(_unrolled(piece, first, inner))
        pieces = out
        sizes[first : first + 2] = [sizes[first] * inner]
    dims: list[tuple[int, ...]] = []
    axis = 0
    for dim in form.dims:
        k = first - axis
        dims.append((*dim[:k], sizes[first], *dim[k + count :]) if 0 <= k < len(dim) else dim)
        axis += len(dim)
    return Form(tuple(dims), tuple((box, pin(store, box, x, sizes)) for box, x in pieces))


def _unrolled(piece: Piece, a: int, inner: int) -> list[Piece]:
    box, x = piece
    out: list[Piece] = []
    for q in range(*box[a]):
        replace: dict[int, Coordinate] = {a: fixed(q), a + 1: variable(a, 1, -q * inner)}
        replace.update({v: variable(v - 1) for v in range(a + 2, len(box))})
        low, high = box[a + 1]
        out.append(((*box[:a], (q * inner + low, q * inner + high), *box[a + 2 :]), substitute_polynomial(x, replace)))
    return out


def refactor(store: Store, form: Form, want: Sequence[tuple[int, ...]]) -> Form:
    """The form with dimension d factored as ``want[d]``."""
    first = 0
    for d, target in enumerate(want):
        current = form.dims[d]
        if not alike(current, target):
            common = factorisation([current, target])
            if common is None or not alike(common, target):
                form = join_axes(store, form, first, len(current))
            while not alike(form.dims[d], target):
                dim = form.dims[d]
                k = next(k for k in range(1, len(target) + 1) if k > len(dim) or not same(dim[-k], target[-k]))
                form = split_axis(form, first + len(dim) - k, target[-k])
        first += len(target)
    return form


def aligned(store: Store, forms: Sequence[Form]) -> list[Form]:
    """Forms of one shape with equal axes."""
    want: list[tuple[int, ...]] = []
    for d in range(len(forms[0].dims)):
        options = [form.dims[d] for form in forms]
        if all(alike(option, options[0]) for option in options):
            want.append(options[0])
            continue
        common = factorisation(options)
        want.append(common if common is not None else (prod(options[0]),))
    return [refactor(store, form, want) for form in forms]


# ------------------------------------------------------------------------------------------------ layout primitives
def permute(store: Store, form: Form, order: Sequence[int]) -> Form:
    """Dimension k of the result is dimension ``order[k]`` of the form."""
    if all(k == d for k, d in enumerate(order)):
        return Form(form.dims, form.pieces)
    old = [form.start(d) + k for d in order for k in range(len(form.dims[d]))]
    replace = {v: variable(new) for new, v in enumerate(old)}
    pieces = [(tuple(box[v] for v in old), pinned(store, x, replace)) for box, x in form.pieces]
    return canonical(store, tuple(form.dims[d] for d in order), pieces)


def reshape(store: Store, form: Form, shape: Shape) -> Form:
    """The same elements in row-major order. Raises :class:`Unsupported` if axes would be unrolled beyond the limit."""
    if 0 in shape:
        return Form(axes_of(shape), ())
    kept = [dim for dim in form.dims if dim]
    if alike(map(prod, kept), (size for size in shape if not is_one(size))):  # sizes of 1 put in or taken out
        rest = iter(kept)
        return Form(tuple(() if is_one(size) else next(rest) for size in shape), form.pieces)
    dims: list[tuple[int, ...]] = []
    axis = 0
    new = iter(shape)
    while True:
        group: list[int] = []
        size = next(new, None)
        if size is None:
            break
        group.append(size)
        count, have, need = 0, 1, size
        while not same(have, need):
            if _falls_short(have, need):
                have *= form.sizes[axis + count]
                count += 1
            else:
                size = next(new)
                group.append(size)
                need *= size
        form = _regroup(store, form, axis, count, group)
        dims.extend(_split_group(form.sizes[axis : axis + _axes_for(form, axis, need)], group))
        axis += _axes_for(form, axis, need)
    return canonical(store, tuple(dims), form.pieces)


def _falls_short(have: int, need: int) -> bool:
    """True if more axes are needed for a product that is not the same: of sizes one of which divides the other
    whatever the symbols are, the divisor falls short. (Any way to the same product will do.)"""
    more, less = divided_evenly(need, have), divided_evenly(have, need)
    return have < need if (more is None) == (less is None) else more is not None


def _axes_for(form: Form, axis: int, total: int) -> int:
    count, p = 0, 1
    while not same(p, total):
        p *= form.sizes[axis + count]
        count += 1
    return count


def _regroup(store: Store, form: Form, axis: int, count: int, group: list[int]) -> Form:
    """Axes ``axis .. axis + count`` refined so that each size of ``group`` is a product of consecutive ones."""
    wanted = tuple(size for size in group if not is_one(size))
    current = form.sizes[axis : axis + count]
    common = factorisation([current, wanted])
    if common is None:
        form = join_axes(store, _as_one_dim(form, axis, count), axis, count)
        common = wanted
    k = 0
    while k < len(common):
        size = form.sizes[axis + k]
        if not same(size, common[k]):
            form = split_axis(form, axis + k, size // common[k])
        k += 1
    return form


def _as_one_dim(form: Form, axis: int, count: int) -> Form:
    """The same axes grouped so that the given ones form a dimension of their own."""
    sizes = form.sizes
    dims = (*((s,) for s in sizes[:axis]), tuple(sizes[axis : axis + count]), *((s,) for s in sizes[axis + count :]))
    return Form(dims, form.pieces)


def _split_group(sizes: Sequence[int], group: list[int]) -> list[tuple[int, ...]]:
    out: list[tuple[int, ...]] = []
    k = 0
    for size in group:
        dim: list[int] = []
        p = 1
        while not same(p, size):
            dim.append(sizes[k])
            p *= sizes[k]
            k += 1
        out.append(tuple(dim))
    return out


def expand(form: Form, shape: Shape) -> Form:
    """Dimensions of size 1 repeated; nothing depends on the new axes."""
    if 0 in shape:
        return Form(axes_of(shape), ())
    dims: list[tuple[int, ...]] = []
    replace: dict[int, Coordinate] = {}
    slots: list[int | tuple[int, int]] = []
    old = 0
    for dim, size in zip(form.dims, shape, strict=True):
        if not dim and not is_one(size):
            dims.append((size,))
            slots.append((0, size))
            continue
        dims.append(dim)
        for _ in dim:
            replace[old] = variable(len(slots))
            slots.append(old)
            old += 1
    pieces = tuple(
        (tuple(s if isinstance(s, tuple) else box[s] for s in slots), substitute_polynomial(x, replace))
        for box, x in form.pieces
    )
    return Form(tuple(dims), pieces)


def slice_form(store: Store, form: Form, dim: int, start: int, stop: int, step: int) -> Form:
    """``form[start:stop:step]`` along a dimension; ``0 <= start <= stop <= size``, ``step >= 1``."""
    length = -(-(stop - start) // step)
    if same(length, form.shape[dim]):
        return form
    shape = (*form.shape[:dim], length, *form.shape[dim + 1 :])
    if 0 in shape:
        return Form(axes_of(shape), ())
    sizes = form.dims[dim]
    axis = form.start(dim)
    while len(sizes) > 1:
        inner = prod(sizes[1:])
        if step == 1 and start % inner == 0 and stop % inner == 0:
            return _slice_axis(store, form, dim, axis, start // inner, stop // inner, 1)
        if start // inner == (stop - 1) // inner:  # within one value of the outer digit
            q = start // inner
            form = _slice_axis(store, form, dim, axis, q, q + 1, 1, merge=False)
            sizes = form.dims[dim]
            start, stop = start - q * inner, stop - q * inner
            continue
        blocks = divided_evenly(step, inner)
        if blocks is not None:  # one place of every block
            q, r = divmod(start, inner)
            for k in reversed(range(1, len(sizes))):
                r, digit = divmod(r, sizes[k])
                form = _slice_axis(store, form, dim, axis + k, digit, digit + 1, 1, merge=False)
            return _slice_axis(store, form, dim, axis, q, q + (length - 1) * blocks + 1, blocks)
        form = join_axes(store, form, axis, len(sizes))
        sizes = form.dims[dim]
    return _slice_axis(store, form, dim, axis, start, stop, step)


def _slice_axis(
    store: Store, form: Form, dim: int, axis: int, start: int, stop: int, step: int, merge: bool = True
) -> Form:
    length = -(-(stop - start) // step)
    k = axis - form.start(dim)
    sizes = form.dims[dim]
    unit = is_one(length)
    new = (*sizes[:k], *(() if unit else (length,)), *sizes[k + 1 :])
    dims = (*form.dims[:dim], new, *form.dims[dim + 1 :])
    replace: dict[int, Coordinate] = {axis: fixed(start) if unit else variable(axis, step, start)}
    if unit:
        replace.update({v: variable(v - 1) for v in range(axis + 1, len(form.sizes))})
    pieces: list[Piece] = []
    for box, x in form.pieces:
        low = max(0, -(-(box[axis][0] - start) // step))
        high = min(length, -(-(box[axis][1] - start) // step))
        if low < high:
            pieces.append(
                ((*box[:axis], *(() if unit else ((low, high),)), *box[axis + 1 :]), pinned(store, x, replace))
            )
    return canonical(store, dims, pieces) if merge else Form(dims, tuple(pieces))


def flip(store: Store, form: Form, dim: int) -> Form:
    """``y[i] = x[size - 1 - i]`` along a dimension."""
    first = form.start(dim)
    reverse: dict[int, Coordinate] = {first + k: variable(first + k, -1, n - 1) for k, n in enumerate(form.dims[dim])}

    def turned(box: Box) -> Box:
        return tuple(
            (form.sizes[v] - high, form.sizes[v] - low) if v in reverse else (low, high)
            for v, (low, high) in enumerate(box)
        )

    return canonical(store, form.dims, [(turned(box), pinned(store, x, reverse)) for box, x in form.pieces])


def concat(store: Store, forms: Sequence[Form], dim: int) -> Form:
    """The forms one after the other along a dimension; the other dimensions have equal sizes."""
    if any(0 in form.sizes for form in forms):
        shape = (*forms[0].shape[:dim], sum(form.shape[dim] for form in forms), *forms[0].shape[dim + 1 :])
        return Form(axes_of(shape), ())
    inner = factorisation([form.dims[dim][1:] for form in forms])
    found = [] if inner is None else [divided_evenly(form.shape[dim], prod(inner)) for form in forms]
    outers: list[int] = [outer for outer in found if outer is not None]
    if inner is None or len(outers) < len(forms):
        inner, outers = (), [form.shape[dim] for form in forms]
    want: list[tuple[int, ...]] = []
    for d in range(len(forms[0].dims)):
        options = [form.dims[d] for form in forms]
        if d == dim or all(alike(option, options[0]) for option in options):
            want.append(options[0])  # along the dimension itself every part has its own
        else:
            common = factorisation(options)
            want.append(common if common is not None else (prod(options[0]),))
    boxes = sum(len(form.pieces) for form in forms)
    if store.effort.exceeds("concatenated_boxes", boxes):
        raise Unsupported(f"a concatenation of {boxes} boxes (limit-concatenated-boxes)")
    parts: list[Form] = []
    for form, outer in zip(forms, outers, strict=True):
        target = (*(() if is_one(outer) else (outer,)), *inner)
        parts.append(refactor(store, form, [*want[:dim], target, *want[dim + 1 :]]))
    total = sum(outers)
    axis = sum(len(w) for w in want[:dim])
    pieces: list[Piece] = []
    offset = 0
    for form, outer in zip(parts, outers, strict=True):
        replace: dict[int, Coordinate] = {}
        if is_one(outer):  # the form has no outer axis: make room for it
            replace = {v: variable(v + 1) for v in range(axis, len(form.sizes))}
        elif offset:
            replace = {axis: variable(axis, 1, -offset)}
        for box, x in form.pieces:
            here = (offset, offset + 1) if is_one(outer) else (box[axis][0] + offset, box[axis][1] + offset)
            rest = box[axis:] if is_one(outer) else box[axis + 1 :]
            pieces.append(((*box[:axis], here, *rest), pinned(store, x, replace) if replace else x))
        offset += outer
    dims = (*want[:dim], (total, *inner), *want[dim + 1 :])
    return canonical(store, dims, pieces)
