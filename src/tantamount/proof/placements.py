"""Placements and clean expressions on forms.

A *stacked* form has one leading dimension per mesh axis, then the local dimensions: what every rank holds.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from math import prod

from tantamount.calculus import contraction, forms
from tantamount.calculus.atoms import Store
from tantamount.calculus.definedness import union, with_undefined
from tantamount.calculus.forms import Form
from tantamount.calculus.polynomials import add, scale
from tantamount.errors import Unsupported
from tantamount.ir.mesh import Mesh
from tantamount.ir.relation import (
    Concat,
    Expression,
    Partial,
    Placement,
    RankTensor,
    Replicate,
    Reshape,
    Shard,
    Slice,
    Sum,
    Transpose,
)
from tantamount.ir.types import Shape

__all__ = ["collapse", "distribute", "evaluate", "even", "local", "part", "stack"]


def even(shape: Shape, placements: Sequence[Placement], sizes: Sequence[int]) -> bool:
    """Whether every sharded dimension divides into equal parts."""
    left = list(shape)
    for placement, size in zip(placements, sizes, strict=True):
        if isinstance(placement, Shard):
            if left[placement.dim] % size:
                return False
            left[placement.dim] //= size
    return True


def _carried(move: Callable[[Form], Form], form: Form) -> Form:
    """A change of layout, of a form and of the record of where it is undefined."""
    return with_undefined(move(form), None if form.undefined is None else move(form.undefined))


def _records(store: Store, parts: Sequence[Form]) -> list[Form] | None:
    """Where each of several forms is undefined; ``None`` if none of them is anywhere."""
    if all(part.undefined is None for part in parts):
        return None
    return [part.undefined or forms.constant_form(part.shape, ()) for part in parts]


def distribute(store: Store, whole: Form, placements: Sequence[Placement], sizes: Sequence[int]) -> Form:
    """What the ranks hold of a whole tensor under ``Shard`` and ``Replicate`` placements (even parts), stacked.

    Mesh axes cut a dimension one after the other, the first one outermost, as DTensor does."""
    return _carried(lambda form: _distributed(store, form, placements, sizes), whole)


def _distributed(store: Store, whole: Form, placements: Sequence[Placement], sizes: Sequence[int]) -> Form:
    shape = list(whole.shape)
    digits: list[list[int]] = [[] for _ in shape]  # mesh axes that cut each dimension
    for axis, (placement, size) in enumerate(zip(placements, sizes, strict=True)):
        if isinstance(placement, Shard):
            digits[placement.dim].append(axis)
            shape[placement.dim] //= size
    split: list[int] = []
    where: dict[int, int] = {}
    locals_: list[int] = []
    for d, size in enumerate(shape):
        for axis in digits[d]:
            where[axis] = len(split)
            split.append(sizes[axis])
        locals_.append(len(split))
        split.append(size)
    form = forms.reshape(store, whole, tuple(split))
    cut = [axis for axis in range(len(sizes)) if axis in where]
    form = forms.permute(store, form, [*(where[axis] for axis in cut), *locals_])
    lead = tuple(sizes[axis] if axis in where else 1 for axis in range(len(sizes)))
    form = forms.reshape(store, form, (*lead, *shape))
    return forms.expand(form, (*sizes, *shape))


def collapse(store: Store, stacked: Form, placements: Sequence[Placement], sizes: Sequence[int]) -> Form:
    """Reduce the mesh axes whose placement is ``Partial``: the others stay in front."""
    reduced = _collapsed(store, stacked, placements, sizes)
    if stacked.undefined is None:
        return with_undefined(reduced, None)
    summed = [Partial("sum") if isinstance(p, Partial) else p for p in placements]
    return with_undefined(reduced, union(store, _collapsed(store, stacked.undefined, summed, sizes)))


def _collapsed(store: Store, stacked: Form, placements: Sequence[Placement], sizes: Sequence[int]) -> Form:
    count = len(sizes)
    dims = list(range(len(stacked.dims)))
    for reduction in ("sum", "max", "min"):
        chosen = [
            axis
            for axis, placement in enumerate(placements)
            if isinstance(placement, Partial)
            and ("sum" if placement.reduction == "avg" else placement.reduction) == reduction
        ]
        if not chosen:
            continue
        positions = [dims.index(axis) for axis in chosen]
        if reduction == "sum":
            labels = tuple(range(len(dims)))
            stacked = contraction.contract(store, [(stacked, labels)], tuple(k for k in labels if k not in positions))
        else:
            sign = -1 if reduction == "min" else 1
            flipped = contraction.pointwise(store, lambda _, xs, s=sign: scale(xs[0], s), [stacked])
            largest = contraction.maximum_over(store, flipped, positions)
            stacked = contraction.pointwise(store, lambda _, xs, s=sign: scale(xs[0], s), [largest])
        dims = [d for d in dims if d not in chosen]
    average = prod(
        sizes[a] for a, p in enumerate(placements[:count]) if isinstance(p, Partial) and p.reduction == "avg"
    )
    if average != 1:
        from fractions import Fraction

        stacked = contraction.pointwise(store, lambda _, xs: scale(xs[0], Fraction(1, average)), [stacked])
    return stacked


def local(store: Store, stacked: Form, mesh: Mesh, rank: int, kept: Collection[str] = ()) -> Form:
    """What one rank holds; with ``kept`` axes, what the ranks hold that differ from it in these axes only, stacked."""
    return _carried(lambda form: _localised(store, form, mesh, rank, kept), stacked)


def _localised(store: Store, stacked: Form, mesh: Mesh, rank: int, kept: Collection[str]) -> Form:
    form = stacked
    lead: list[int] = []
    for axis, (name, digit) in enumerate(zip(mesh.names, mesh.coordinates(rank), strict=True)):
        if name in kept:
            lead.append(mesh.sizes[axis])
        else:
            form = forms.slice_form(store, form, axis, digit, digit + 1, 1)
    return forms.reshape(store, form, (*lead, *form.shape[len(mesh.sizes) :]))


def stack(store: Store, parts: Sequence[Form], sizes: Sequence[int]) -> Form:
    """Forms of equal shapes, one for each coordinate along axes of these sizes, with the axes as first dimensions."""
    records = _records(store, parts)
    return with_undefined(_stacked(store, parts, sizes), None if records is None else _stacked(store, records, sizes))


def _stacked(store: Store, parts: Sequence[Form], sizes: Sequence[int]) -> Form:
    if not sizes:
        return parts[0]
    step = len(parts) // sizes[0]
    items = [_stacked(store, parts[k * step : (k + 1) * step], sizes[1:]) for k in range(sizes[0])]
    flat = [forms.reshape(store, item, (1, *item.shape)) for item in items]
    if all(item == items[0] for item in items[1:]):
        return forms.expand(flat[0], (sizes[0], *items[0].shape))
    return forms.concat(store, flat, 0)


def part(store: Store, whole: Form, box: Sequence[tuple[int, int]]) -> Form:
    """A box of a tensor."""
    return _carried(lambda form: _part(store, form, box), whole)


def _part(store: Store, whole: Form, box: Sequence[tuple[int, int]]) -> Form:
    for dim, (start, stop) in enumerate(box):
        if (start, stop) != (0, whole.shape[dim]):
            whole = forms.slice_form(store, whole, dim, start, stop, 1)
    return whole


def evaluate(store: Store, expression: Expression, tensor: Callable[[int, str], Form], name: str) -> Form:
    """The value of a resolved clean expression. ``tensor(rank, name)`` gives the implementation's tensors."""
    used: list[Form] = []

    def valued(rank: int, name: str) -> Form:
        used.append(tensor(rank, name))
        return used[-1]

    def undefined(rank: int, name: str) -> Form:
        found = tensor(rank, name)
        return found.undefined or forms.constant_form(found.shape, ())

    value = _evaluated(store, expression, valued, name)
    if _records(store, used) is None:
        return with_undefined(value, None)
    return with_undefined(value, union(store, _evaluated(store, expression, undefined, name)))


def _evaluated(store: Store, expression: Expression, tensor: Callable[[int, str], Form], name: str) -> Form:
    if isinstance(expression, RankTensor):
        return tensor(expression.rank, name if expression.name is None else expression.name)
    if isinstance(expression, Concat):
        parts = [_evaluated(store, item, tensor, name) for item in expression.parts]
        return forms.concat(store, parts, expression.dim)
    if isinstance(expression, Sum):
        parts = [_evaluated(store, item, tensor, name) for item in expression.parts]
        return contraction.pointwise(store, lambda box, xs: add(store, *xs, box=box), parts)
    operand = _evaluated(store, expression.operand, tensor, name)
    if isinstance(expression, Slice):
        for dim, (start, stop, step) in enumerate(expression.bounds):
            if start is None or stop is None:
                raise Unsupported("a slice without resolved bounds")
            if (start, stop, step) != (0, operand.shape[dim], 1):
                operand = forms.slice_form(store, operand, dim, start, stop, step)
        return operand
    if isinstance(expression, Reshape):
        return forms.reshape(store, operand, expression.shape)
    order = list(range(len(operand.dims)))
    if isinstance(expression, Transpose):
        a, b = expression.dim0, expression.dim1
        order[a], order[b] = order[b], order[a]
    else:
        order = list(expression.dims)
    return forms.permute(store, operand, order)


def replicated(mesh: Mesh) -> tuple[Placement, ...]:
    return tuple(Replicate() for _ in mesh.sizes)
