"""Pointwise operations, contractions, reductions and indexing of forms, cell by cell.

The pieces of the operands cut the joint index space into cells in which every operand is one Polynomial.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from math import prod
from typing import NamedTuple

from tantamount.calculus import comparisons, partial, powers, spans
from tantamount.calculus.affine import Coordinate, Index, substitute_index, variable
from tantamount.calculus.atoms import Atom, Store, ValueFacts
from tantamount.calculus.forms import (
    Box,
    Form,
    Piece,
    aligned,
    canonical,
    constant_form,
    expand,
    factorisation,
    intersect,
    pin,
    refactor,
    reshape,
)
from tantamount.calculus.polynomials import add, iota, multiply, pinned, scale, sum_over
from tantamount.calculus.products import is_boolean
from tantamount.calculus.terms import ONE, ZERO, Factor, Polynomial, Term, factors_of, single, sole_power
from tantamount.errors import Unsupported
from tantamount.ops.functions import DISTINCT_IN_A_ROW
from tantamount.sizes.symbolic import is_one, same, whole

__all__ = [
    "contract",
    "counted",
    "counting_like",
    "cut_like",
    "distinct",
    "gather",
    "maximum_over",
    "pointwise",
    "rows",
]


def pointwise(store: Store, apply: Callable[[Box, list[Polynomial]], Polynomial], forms: Sequence[Form]) -> Form:
    """``apply`` to the Polynomials of every cell; the forms have equal shapes."""
    forms = aligned(store, forms)
    first = forms[0]
    if len(forms) == 1:
        return canonical(store, first.dims, [(box, apply(box, [x])) for box, x in first.pieces])
    cells: list[tuple[Box, list[tuple[Box, Polynomial]]]] = [(box, [(box, x)]) for box, x in first.pieces]
    for form in forms[1:]:
        cells = [
            (meet, [*xs, (box, x)])
            for cell, xs in cells
            for box, x in form.pieces
            if (meet := intersect(cell, box)) is not None
        ]
        _few(store, cells)
    sizes = first.sizes
    pieces: list[Piece] = []
    for cell, xs in cells:
        polynomials = [x if box == cell else pin(store, cell, x, sizes) for box, x in xs]
        pieces.append((cell, apply(cell, polynomials)))
    return canonical(store, first.dims, pieces)


class _Cell(NamedTuple):
    """One Polynomial per operand over the joint axes, valid on a box of them."""

    box: Box
    polynomials: list[Polynomial]


class _Joint(NamedTuple):
    """The joint index space of labelled operands: result axes first, then the summed ones."""

    dims: tuple[tuple[int, ...], ...]  # of the result
    sizes: tuple[int, ...]
    kept: int  # number of result axes
    cells: list[_Cell]
    first: dict[int, int]  # the first joint axis of a label
    factors: dict[int, tuple[int, ...]]


def _join(store: Store, operands: Sequence[tuple[Form, tuple[int, ...]]], result: tuple[int, ...]) -> _Joint:
    options: dict[int, list[tuple[int, ...]]] = {}
    for form, labels in operands:
        for label, dim in zip(labels, form.dims, strict=True):
            options.setdefault(label, []).append(dim)
    factors: dict[int, tuple[int, ...]] = {}
    for label, dims in options.items():
        common = factorisation(dims) if 0 not in dims[0] else dims[0]
        factors[label] = common if common is not None else (prod(dims[0]),)
    order = [*result, *(label for label in options if label not in result)]
    first: dict[int, int] = {}
    sizes: list[int] = []
    for label in order:
        first[label] = len(sizes)
        sizes.extend(factors[label])
    kept = sum(len(factors[label]) for label in result)
    whole: Box = tuple((0, size) for size in sizes)
    cells = [_Cell(whole, [])]
    for form, labels in operands:
        form = refactor(store, form, [factors[label] for label in labels])
        axes = [first[label] + k for label in labels for k in range(len(factors[label]))]
        replace: dict[int, Coordinate] = {v: variable(joint) for v, joint in enumerate(axes)}
        cells = _add_operand(store, cells, form, axes, replace)
    dims = tuple(factors[label] for label in result)
    return _Joint(dims, tuple(sizes), kept, cells, first, factors)


def _add_operand(
    store: Store, cells: list[_Cell], form: Form, axes: list[int], replace: dict[int, Coordinate]
) -> list[_Cell]:
    identity = all(v == joint for v, joint in enumerate(axes))
    out: list[_Cell] = []
    for box, x in form.pieces:
        y = x if identity else pinned(store, x, replace)
        for cell in cells:
            cut = list(cell.box)
            for (low, high), joint in zip(box, axes, strict=True):
                cut[joint] = (max(cut[joint][0], low), min(cut[joint][1], high))
            if all(low < high for low, high in cut):
                out.append(_Cell(tuple(cut), [*cell.polynomials, y]))
    _few(store, out)
    return out


def _few(store: Store, cells: Sequence[object]) -> None:
    """Raises :class:`Unsupported` if there are too many cells."""
    if store.effort.exceeds("form_cells", len(cells)):
        raise Unsupported(f"{len(cells)} cells (limit-form-cells)")


def _columns(
    store: Store, cells: Sequence[tuple[Box, Polynomial]], kept: int
) -> list[tuple[Box, list[tuple[Box, Polynomial]]]]:
    """Cells grouped by disjoint boxes of the result axes (cut where they overlap in part)."""
    boxes = list(dict.fromkeys(box[:kept] for box, _ in cells))
    if any(intersect(a, b) is not None for i, a in enumerate(boxes) for b in boxes[:i]):
        cuts = [sorted({x for box in boxes for x in box[k]}) for k in range(kept)]
        boxes = [()]
        for axis in cuts:
            boxes = [(*box, span) for box in boxes for span in itertools.pairwise(axis)]
            _few(store, boxes)
    out: list[tuple[Box, list[tuple[Box, Polynomial]]]] = []
    for box in boxes:
        inside = [
            ((*box, *cell[kept:]), x)
            for cell, x in cells
            if all(c[0] <= b[0] and b[1] <= c[1] for b, c in zip(box, cell[:kept], strict=True))
        ]
        out.append((box, inside))
    return out


def contract(store: Store, operands: Sequence[tuple[Form, tuple[int, ...]]], result: tuple[int, ...]) -> Form:
    """Einstein summation: the product over the joint index space, summed over labels that the result lacks."""
    joint = _join(store, operands, result)
    if 0 in joint.sizes[: joint.kept]:
        return Form(joint.dims, ())
    if 0 in joint.sizes:
        return Form(joint.dims, ((tuple((0, size) for size in joint.sizes[: joint.kept]), ()),))
    products: list[tuple[Box, Polynomial]] = []
    for cell in joint.cells:
        x = ONE
        for y in cell.polynomials:
            x = multiply(store, x, pin(store, cell.box, y, joint.sizes), cell.box)
        products.append((cell.box, x))
    return _summed(store, joint, products)


def _summed(store: Store, joint: _Joint, products: Sequence[tuple[Box, Polynomial]]) -> Form:
    pieces: list[Piece] = []
    for box, inside in _columns(store, products, joint.kept):
        parts: list[Polynomial] = []
        for cell, x in inside:
            axes = {v: cell[v] for v in range(joint.kept, len(joint.sizes))}
            parts.append(sum_over(store, x, axes, cell) if axes else x)
        pieces.append((box, add(store, *parts, box=box)))
    return canonical(store, joint.dims, pieces)


def maximum_over(store: Store, form: Form, dims: Sequence[int]) -> Form:
    """The maximum over some dimensions, which are removed."""
    labels = tuple(range(len(form.dims)))
    joint = _join(store, [(form, labels)], tuple(d for d in labels if d not in dims))
    if 0 in joint.sizes[: joint.kept]:
        return Form(joint.dims, ())
    pieces: list[Piece] = []
    for box, inside in _columns(store, [(cell.box, cell.polynomials[0]) for cell in joint.cells], joint.kept):
        summed = range(joint.kept, len(joint.sizes))
        members: list[tuple[Polynomial, Mapping[int, tuple[int, int]]]] = [
            (x, {v: cell[v] for v in summed}) for cell, x in inside
        ]
        known = _known_maximum(store, members, box)
        pieces.append((box, powers.maximum_over(store, members, box) if known is None else known))
    return canonical(store, joint.dims, pieces)


def _known_maximum(
    store: Store, members: Sequence[tuple[Polynomial, Mapping[int, tuple[int, int]]]], box: Box
) -> Polynomial | None:
    """1 if one of the booleans holds somewhere, whatever the data; 0 for negatives of booleans one of which never holds
    everywhere; ``None`` if it is not known."""
    for sign in (1, -1):
        if all(is_boolean(store, scale(x, sign)) for x, _ in members):
            sought = ((x if sign == 1 else add(store, ONE, x), axes) for x, axes in members)
            if any(partial.holds_somewhere(store, x, axes, box) for x, axes in sought):
                store.fired["maxima"] += 1
                return ONE if sign == 1 else ZERO
    return None


def gather(
    store: Store, x: Form, indices: Sequence[Form | None], batch: int, check: Callable[[Polynomial, int, Box], None]
) -> Form:
    """``y[batch, i, rest] = x[batch, index_0[batch, i], ...]``: a contraction with one-hot guards ``[index == v]``.

    The first ``batch`` dimensions of x and of the indices run in parallel. ``check(value, size, box)`` is told every
    index."""
    dims = len(x.dims)
    indices = [
        None if index is None else counting_like(store, index, x.shape[d], x.dims[d]) for d, index in enumerate(indices)
    ]
    chosen = [d for d in range(dims) if indices[d] is not None]
    some = next(form for form in indices if form is not None)
    count = len(some.dims) - batch
    labels_x = tuple(range(dims))
    labels_i = (*range(batch), *range(dims, dims + count))
    rest = tuple(d for d in range(batch, dims) if indices[d] is None)
    result = (*range(batch), *labels_i[batch:], *rest)
    # coordinates of x along indexed dimensions are joint axes that get summed: guards tie them to the index
    operands: list[tuple[Form, tuple[int, ...]]] = [(x, labels_x)]
    operands.extend((form, labels_i) for form in indices if form is not None)
    joint = _join(store, operands, result)
    if 0 in joint.sizes[: joint.kept]:
        return Form(joint.dims, ())
    if 0 in joint.sizes:
        raise Unsupported("an index into an empty dimension")
    store.fired["one-hot"] += 1
    products: list[tuple[Box, Polynomial]] = []
    seen: set[tuple[int, Polynomial, Box]] = set()
    for uncut in joint.cells:
        cell = _reached(joint, uncut, chosen)
        if cell is None:
            continue
        value = pin(store, cell.box, cell.polynomials[0], joint.sizes)
        for d, index in zip(chosen, cell.polynomials[1:], strict=True):
            at = pin(store, cell.box, index, joint.sizes)
            outer = tuple(span if k < joint.kept else (0, joint.sizes[k]) for k, span in enumerate(cell.box))
            if (d, at, outer) not in seen:
                seen.add((d, at, outer))
                check(at, x.shape[d], outer)
            position = pin(store, cell.box, iota(_position(joint, d)), joint.sizes)
            guard = comparisons.compare(store, "equal", at, position, cell.box)
            value = multiply(store, guard, value, cell.box)
        products.append((cell.box, value))
    return _summed(store, joint, products)


def _reached(joint: _Joint, cell: _Cell, chosen: Sequence[int]) -> _Cell | None:
    """The part of a cell whose indices lie in its piece of what is indexed, for indices that are the position along one
    axis of the result: elsewhere all is 0. ``None`` if there is no such part. (Indices that may be out of range stay as
    they are: no cell has them.)"""
    box = list(cell.box)
    for d, index in zip(chosen, cell.polynomials[1:], strict=True):
        if len(joint.factors[d]) != 1:
            continue
        rest, parts, offset = comparisons.split_affine(index)
        own = cell.box[joint.first[d]]
        if rest or len(parts) != 1 or own == (0, joint.sizes[joint.first[d]]):
            continue
        ((v, stride),) = parts.items()
        ends = sorted((stride * cell.box[v][0] + offset, stride * (cell.box[v][1] - 1) + offset))
        if v >= joint.kept or abs(stride) != 1 or ends[0] < 0 or ends[1] >= joint.sizes[joint.first[d]]:
            continue
        low, high = (own[0] - offset, own[1] - offset) if stride == 1 else (offset - own[1] + 1, offset - own[0] + 1)
        box[v] = (max(box[v][0], whole(low)), min(box[v][1], whole(high)))
        if box[v][0] >= box[v][1]:
            return None
    return _Cell(tuple(box), cell.polynomials)


def _position(joint: _Joint, label: int) -> Coordinate:
    parts: list[tuple[int, int]] = []
    stride = 1
    sizes = joint.factors[label]
    for k in reversed(range(len(sizes))):
        parts.append((joint.first[label] + k, stride))
        stride *= sizes[k]
    return Coordinate(tuple(sorted(parts)), 0)


def one_hot(store: Store, index: Form, axes: tuple[int, ...]) -> Form:
    """``[index[i...] == v]`` with a new last dimension v of these axes."""
    store.fired["one-hot"] += 1
    dims = (*index.dims, axes)
    position = iota(Form(dims, ()).coordinate(len(index.dims))) if axes else ZERO
    pieces: list[Piece] = []
    for box, x in index.pieces:
        cell = (*box, *((0, size) for size in axes))
        pieces.append((cell, comparisons.compare(store, "equal", x, position, cell)))
    return refactor(store, canonical(store, dims, pieces), dims)


def distinct(store: Store, indices: Sequence[Form], batch: int) -> bool:
    """True if the tuples of indices differ from place to place, which is so if every axis of the places (what follows
    the first ``batch`` dimensions) can be read off the indices. It can be read off one that is affine in the positions,
    up to something that is the same at all places, if the strides, in order, each exceed all that the smaller ones can
    add up to; off a table of numbers all of which differ; and off an order of the elements of a row, where no position
    comes twice, if the axes that say which row it is can be."""
    joint = aligned(store, indices)
    first = sum(len(dim) for dim in joint[0].dims[:batch])
    sizes = joint[0].sizes
    polynomials = [form.pieces[0][1] for form in joint if len(form.pieces) == 1]
    determined: set[int] = set()
    for x in polynomials:
        rest, parts, _ = comparisons.split_affine(x)
        reach = Fraction(0)
        axes: list[int] = []
        for v, stride in sorted(parts.items(), key=lambda part: abs(part[1])):
            if v < first:
                continue
            if abs(stride) <= reach:
                break
            reach += abs(stride) * (sizes[v] - 1)
            axes.append(v)
        else:
            elsewhere = {v for f in factors_of(rest) for parts, _ in f.at for v, _ in parts}
            determined.update(axes if all(v < first for v in elsewhere) else ())
    tables = [form for form in joint if _is_table(form)]
    for some in (*([form] for form in tables), tables):
        determined.update(v for v in _axes_by_number(store, some) if v >= first)
    orders = [found for x in polynomials if (found := _position_in_row(store, x)) is not None]
    for _ in orders:
        determined.update(v for v, row in orders if {u for u in row if u >= first} <= determined - {v})
    return determined >= set(range(first, len(sizes)))


def _is_table(form: Form) -> bool:
    """True if every element is a number, or affine in the positions."""
    return not any(comparisons.split_affine(x)[0] for _, x in form.pieces)


def _axes_by_number(store: Store, tables: Sequence[Form]) -> set[int]:
    """The axes along which tables have tuples of numbers all of which differ, being the same along the others."""
    pieces = [[(box, comparisons.split_affine(x)) for box, x in form.pieces] for form in tables]
    if all(len(some) < 2 for some in pieces):
        return set()
    sizes = tables[0].sizes
    axes = {v for some in pieces for _, (_, parts, _) in some for v in parts}
    axes |= {v for v, size in enumerate(sizes) for some in pieces if any(box[v] != (0, size) for box, _ in some)}
    if store.effort.exceeds("table_elements", prod(sizes[v] for v in axes)):
        return set()
    order = sorted(axes)
    found: dict[tuple[int, ...], tuple[Fraction, ...]] = {}
    for some in pieces:
        for box, (_, parts, offset) in some:
            for point in itertools.product(*(range(*box[v]) for v in order)):
                value = offset + sum(parts.get(v, 0) * at for v, at in zip(order, point, strict=True))
                found[point] = (*found.get(point, ()), value)
    return axes if len(set(found.values())) == len(found) else set()


def _position_in_row(store: Store, x: Polynomial) -> tuple[int, set[int]] | None:
    """For an element of an order of a row: the axis that runs through the row, and those that say which row it is."""
    power = sole_power(x)
    if power is None or abs(power[1]) != 1:
        return None
    number, exponent, index = power[0]
    atom = store.atoms[number]
    if exponent == 1 and atom.op == "sum":
        return _position_at_position(store, atom, index)
    if exponent != 1 or atom.op not in DISTINCT_IN_A_ROW:
        return None
    parts, _ = comparisons.split_affine(atom.arguments[0])[1:]
    if len(parts) != 1:
        return None
    along = next(iter(parts))
    row = (v for f in factors_of(*atom.arguments[1:]) for c in f.at for v, _ in c.parts)
    if along in row:
        return None
    here = [v for v, _ in index[along].parts]
    others = {v for c, coordinate in enumerate(index) if c != along for v, _ in coordinate.parts}
    return (here[0], others) if len(here) == 1 and here[0] not in others else None


def _position_at_position(store: Store, atom: Atom, index: Index) -> tuple[int, set[int]] | None:
    """The same for ``sum_u [P_j == u] O_u``, an element of an order at an element of another one: of two places j, P
    has two positions, and O has no position twice. Each P_j is one of the u: elsewhere the sum is 0, more than once."""
    if len(atom.ranges) != 1 or len(atom.summand) != 2 or type(atom.ranges[0]) is not int:
        return None
    (u,) = store.fresh_axes(1)
    here = {**dict(enumerate(index)), -1: variable(u)}
    factors = [Factor(f.atom, f.exponent, substitute_index(f.at, here)) for f in atom.summand]
    for guard, order in (factors, reversed(factors)):
        known = comparisons.comparison(store, guard) if guard.exponent == 1 else None
        if known is None or known.op != "equal" or known.affine not in (variable(u), variable(u, -1)):
            continue
        chosen = known.rest if known.affine == variable(u, -1) else scale(known.rest, -1)
        low, high = spans.of_polynomial(store, chosen, None)
        if low < 0 or high > atom.ranges[0] - 1:
            continue
        inner, outer = (_position_in_row(store, x) for x in (chosen, (Term((order,), 1),)))
        if inner is not None and outer is not None and outer[0] == u and inner[0] not in outer[1] | inner[1]:
            return inner[0], (inner[1] | outer[1]) - {u}
    return None


def counting_like(store: Store, index: Form, size: int, axes: tuple[int, ...]) -> Form:
    """An index into a dimension of this size, which is cut into ``axes``, with its own axes of that size cut in the
    same way: a position that counts along one of them is then one digit for every axis."""
    if len(axes) < 2 or not _counts(index) or not any(same(own, size) for own in index.sizes):
        return index
    dims = [tuple(part for own in dim for part in (axes if same(own, size) else (own,))) for dim in index.dims]
    return refactor(store, index, dims)


def _counts(index: Form) -> bool:
    """True if an index is affine in the positions, and the same everywhere."""
    return len(index.pieces) == 1 and not comparisons.split_affine(index.pieces[0][1])[0]


def cut_like(axes: tuple[int, ...], size: int, index: Form, form: Form) -> tuple[int, ...]:
    """The axes of a dimension of this size, into which a form is written at an index that counts: those of the form
    along which the index counts, where some of them in a row make that size and the dimension is not cut itself."""
    if len(axes) != 1 or not _counts(index):
        return axes
    found: list[tuple[int, ...]] = []
    counts = _counts_along(index, size)
    for d, dim in enumerate(form.dims):
        for low in range(len(dim)):
            for high in range(low + 2, len(dim) + 1):
                if same(prod(dim[low:high]), size):
                    if counts == (d, prod(dim[high:])):
                        return dim[low:high]
                    found.append(dim[low:high])
    return found[0] if found else axes


def _counts_along(index: Form, size: int) -> tuple[int, int] | None:
    """The dimension in which an index counts to this size, and the number of places from one of its steps to the next,
    if all axes that it depends on are neighbours in one dimension."""
    _, parts, _ = comparisons.split_affine(index.pieces[0][1])
    first = 0
    for d, dim in enumerate(index.dims):
        own = [v - first for v in parts if first <= v < first + len(dim)]
        first += len(dim)
        if own and len(own) == len(parts):
            run = dim[min(own) : max(own) + 1]
            return (d, prod(dim[max(own) + 1 :])) if same(prod(run), size) else None
    return None


def counted(store: Store, x: Form, chosen: Sequence[int], given: Sequence[Form], lead: int) -> dict[int, int]:
    """The dimensions of what is written at ``given`` into the dimensions ``chosen`` of ``x`` that are dimensions of
    ``x``, all without the first ``lead``: along which an index counts 0, 1, ... to the end of ``x``, so that what is
    written there is written into the same place. One index at least is not among them."""
    found = dict[int, int]()
    for d, index in zip(chosen, given, strict=True):
        size, shape = x.shape[lead + d], index.shape
        for k in range(len(shape) - lead):
            if len(found) + 1 < len(given) and k not in found and not is_one(size) and same(shape[lead + k], size):
                row = constant_form((size,), iota(variable(0)))
                row = reshape(store, row, tuple(size if j == lead + k else 1 for j in range(len(shape))))
                if expand(row, shape) == index:
                    found[k] = d
                    store.fired["written-in-place"] += 1
                    break
    return found


def rows(
    store: Store, name: str, forms: Sequence[Form], attributes: tuple[object, ...], results: Sequence[int]
) -> list[Form]:
    """A function of whole rows along the last dimension, the others parallel: its arguments are the position in the
    result and, for every operand, the set of (position, value) pairs of the row.

    A row is a formal sum of ``pair`` atoms with distinct positions, so equal sums are equal rows; what is applied to
    equal arguments has equal values, whatever the function is."""
    if name == "argsort" and _even(forms[0]):
        store.fired["orders-of-equal-elements"] += 1
        shape = forms[0].shape
        order = constant_form(shape[-1:], () if is_one(shape[-1]) else iota(variable(0)))
        return [expand(reshape(store, order, (*(1 for _ in shape[:-1]), shape[-1])), shape)]
    store.fired["functions-of-rows"] += 1
    sets = [_pairs(store, form) for form in forms]
    parallel = sets[0].shape
    out: list[Form] = []
    for k, size in enumerate(results):
        shape = (*parallel, size)
        where = reshape(
            store, constant_form((size,), () if is_one(size) else iota(variable(0))), (*(1 for _ in parallel), size)
        )

        def value(box: Box, xs: list[Polynomial], k: int = k) -> Polynomial:
            number, index = store.apply(name, (*attributes, k), tuple(xs), ValueFacts())
            return single(number, index)

        spread = [expand(reshape(store, row, (*parallel, 1)), shape) for row in sets]
        out.append(pointwise(store, value, [expand(where, shape), *spread]))
    return out


def _even(form: Form) -> bool:
    """True if all elements of a row, along the last dimension, are one: the stable order of these is the order that
    they have."""
    first = form.start(len(form.dims) - 1)
    axes = range(first, len(form.sizes))
    return all(
        all(box[k] == (0, form.sizes[k]) for k in axes)
        and not any(v in axes for factor in factors_of(x) for parts, _ in factor.at for v, _ in parts)
        for box, x in form.pieces
    )


def _pairs(store: Store, form: Form) -> Form:
    """The rows along the last dimension as formal sums of ``pair(position, value)``."""
    labels = tuple(range(len(form.dims)))
    joint = _join(store, [(form, labels)], labels[:-1])
    position = _position(joint, labels[-1])
    pairs: list[tuple[Box, Polynomial]] = []
    for cell in joint.cells:
        value = pin(store, cell.box, cell.polynomials[0], joint.sizes)
        at = pin(store, cell.box, iota(position), joint.sizes)
        number, index = store.apply("pair", (), (at, value), ValueFacts(integer=True))
        pairs.append((cell.box, single(number, index)))
    return _summed(store, joint, pairs)
