"""For every specification tensor, the implementation tensors that cover it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations, pairwise, product
from math import prod
from typing import NamedTuple

from tantamount.calculus.affine import Coordinate, coordinate, fixed, substitute
from tantamount.calculus.atoms import Store
from tantamount.calculus.compare import fingerprint, locate
from tantamount.calculus.forms import Box, Form
from tantamount.calculus.printing import axis_names, show_coordinate
from tantamount.errors import Unsupported
from tantamount.ir.job import Job
from tantamount.ir.layouts import layouts
from tantamount.ir.relation import Concat, Expression, Permute, RankTensor, Reshape, Slice
from tantamount.ir.types import Shape
from tantamount.ops.algebra import Tensor
from tantamount.ops.classes import RankClass
from tantamount.ops.execute import constant_type
from tantamount.proof.outputs import assembled, holds, show
from tantamount.proof.run import RanksRun, SpecificationRun
from tantamount.verdict import Relation

__all__ = ["PIECES", "relate"]

PIECES = "pieces at "  # how the text of an index map begins


def relate(store: Store, job: Job, specification: SpecificationRun, implementation: RanksRun) -> dict[str, Relation]:
    """The relation of every specification tensor that has one, by node name: found by the atoms of the forms."""
    graph = job.implementation[0]
    sizes = job.mesh.sizes
    types = {node.name: constant_type(graph, node) if node.op == "constant" else node.type for node in graph.nodes}
    kinds = {name: type_.dtype.kind for name, type_ in types.items() if type_ is not None}
    index: dict[frozenset[object], list[tuple[str, tuple[int, ...]]]] = {}
    for node in graph.nodes:
        stacked = implementation.stacked(store, node.name)
        if stacked is not None:
            index.setdefault(fingerprint(store, stacked), []).append((node.name, stacked.shape[len(sizes) :]))
    held: dict[frozenset[object], list[_Held]] | None = None
    out: dict[str, Relation] = {}
    memo: dict[object, tuple[str, str, str] | None] = {}
    for node in job.specification.nodes:
        value = specification.values.get(node.name)
        if not isinstance(value, Tensor):
            continue
        whole = value.value
        kind = value.dtype.kind
        key = (whole.dims, whole.pieces, kind)
        if key not in memo:
            found = [item for item in index.get(fingerprint(store, whole), []) if kinds.get(item[0], kind) is kind]
            likely = sorted(found, key=lambda item: not layouts(whole.shape, sizes, local=item[1]))
            memo[key] = _cover(store, whole, store.effort.first("cover_candidates", likely), implementation)
            if memo[key] is None and not implementation.folded:
                held = _held(store, job, implementation) if held is None else held
                memo[key] = _tiled(store, whole, held.get(fingerprint(store, whole), []))
        related = memo[key]
        if related is not None:
            text, name, exact = related
            out[node.name] = Relation(node.name, text, name, node.source, exact)
    return out


def _cover(store: Store, whole: Form, found: Sequence[tuple[str, Shape]], run: RanksRun) -> tuple[str, str, str] | None:
    """A placement of one tensor, else an index map of one (and that as an expression), else a concatenation of
    several; with the tensor's name."""
    sizes = run.mesh.sizes
    for name, shape in found:
        placement = _placement(store, whole, shape, run, name, sizes)
        if placement is not None:
            return placement, name, ""
    for name, _ in found:
        mapped = _index_map(store, whole, run, name)
        if mapped is not None:
            return mapped[0], name, mapped[1]
    if len(found) > 1 and run.folded:
        text = assembled(store, whole, run, [name for name, _ in found], {name: name for name, _ in found})
        if text is not None:
            return text, "", ""
    return None


class _Held(NamedTuple):
    """A tensor of a class of ranks: its form has the axes of the class in front."""

    ranks: RankClass
    name: str
    form: Form


def _held(store: Store, job: Job, run: RanksRun) -> dict[frozenset[object], list[_Held]]:
    """The tensors that classes of ranks hold, by the fingerprint that they share with tensors of the specification."""
    held: dict[frozenset[object], list[_Held]] = {}
    for one, environment in zip(run.classes, run.environments, strict=True):
        for node in job.implementation[one.leader].nodes:
            here = environment.get(node.name)
            if isinstance(here, Tensor) and here.value.pieces:
                held.setdefault(fingerprint(store, here.value), []).append(_Held(one, node.name, here.value))
    return held


def _tiled(store: Store, whole: Form, held: Sequence[_Held]) -> tuple[str, str, str] | None:
    """The whole as blocks, each of them a tensor of one rank: of micro-batches, or of the steps of a ring."""
    tiles: dict[Box, Expression] = {}
    for one in store.effort.first("cover_tiles", held):
        shape = one.form.shape[len(one.ranks.mesh.sizes) :]
        if len(shape) != len(whole.shape):
            continue
        for rank, start in _blocks(store, whole, one):
            box = tuple((low, low + size) for low, size in zip(start, shape, strict=True))
            if not any(_meet(box, other) for other in tiles):
                tiles[box] = RankTensor(rank, one.name)
    if sum(map(_volume, tiles)) != prod(whole.shape):
        return None
    expression = _put_together(tuple((0, size) for size in whole.shape), tiles)
    return None if expression is None else (str(expression), "", "")


def _blocks(store: Store, whole: Form, held: _Held) -> Iterator[tuple[int, tuple[int, ...]]]:
    """Ranks of the class that hold a block of the whole, and where it begins; of ranks that hold the same, the first.

    A piece is a part of a block if its index in the whole and in the rank's tensor differ by numbers that depend on the
    rank alone; a block begins there if all pieces say so."""
    form, mesh = held.form, held.ranks.mesh
    lead = len(mesh.sizes)
    front = form.start(lead)  # the axes before are those of the class
    pieces: list[tuple[Box, list[Coordinate]]] = []
    for box, index in locate(store, whole, form) or ():
        points: dict[int, Coordinate] = {v: fixed(low) for v, (low, high) in enumerate(box) if high - low == 1}
        shifts = [_difference(at, form.coordinate(lead + d), points) for d, at in enumerate(index)]
        if any(v >= front for parts, _ in shifts for v, _ in parts):
            return
        pieces.append((box[:front], shifts))
    seen = {v for _, shifts in pieces for parts, _ in shifts for v, _ in parts}
    seen |= {v for box, _ in pieces for v, span in enumerate(box) if span != (0, form.sizes[v])}
    for digits in product(*(range(form.sizes[v] if v in seen else 1) for v in range(front))):
        here: dict[int, Coordinate] = {v: fixed(digit) for v, digit in enumerate(digits)}
        starts = {
            tuple(substitute(shift, here).offset for shift in shifts)
            for box, shifts in pieces
            if all(low <= digit < high for digit, (low, high) in zip(digits, box, strict=True))
        }
        if len(starts) == 1:
            at = tuple(substitute(form.coordinate(k), here).offset for k in range(lead))
            yield held.ranks.ranks[mesh.rank(at)], starts.pop()


def _difference(a: Coordinate, b: Coordinate, fixed: Mapping[int, Coordinate]) -> Coordinate:
    (left, low), (right, high) = substitute(a, fixed), substitute(b, fixed)
    parts = dict(left)
    for v, s in right:
        parts[v] = parts.get(v, 0) - s
    return coordinate(parts, low - high)


def _put_together(whole: Box, tiles: Mapping[Box, Expression]) -> Expression | None:
    """Tiles that fill a box as concatenations of concatenations; ``None`` if no cut goes through between them."""
    if len(tiles) == 1:
        return next(iter(tiles.values()))
    for dim in range(len(whole)):
        starts = sorted({box[dim][0] for box in tiles})
        cuts = [c for c in starts if not any(low < c < high for low, high in (box[dim] for box in tiles))]
        if len(cuts) < 2:
            continue
        parts: list[Expression] = []
        for low, high in pairwise([*cuts, whole[dim][1]]):
            inside = {box: tensor for box, tensor in tiles.items() if low <= box[dim][0] < high}
            item = _put_together((*whole[:dim], (low, high), *whole[dim + 1 :]), inside)
            if item is None:
                break
            parts.append(item)
        else:
            return Concat(tuple(parts), dim)
    return None


def _placement(store: Store, whole: Form, shape: Shape, run: RanksRun, name: str, sizes: tuple[int, ...]) -> str | None:
    for placements in layouts(whole.shape, sizes, local=shape):
        try:
            if holds(store, whole, placements, run, name, expand=False) is None:
                return show(placements)
        except Unsupported:
            continue
    return None


def _index_map(store: Store, whole: Form, run: RanksRun, name: str) -> tuple[str, str] | None:
    """``whole[index map of mesh and local axes]``, piece by piece, if the ranks' tensors cover the whole; and the same
    as a clean expression, if there is one."""
    stacked = run.stacked(store, name)
    if stacked is None or not stacked.pieces or store.effort.exceeds("cover_pieces", len(stacked.pieces)):
        return None
    places = locate(store, whole, stacked)
    images = [_image(box, index) for box, index in places or ()]
    known = [image for image in images if image is not None]
    apart = not any(_meet(a, b) for a, b in combinations(known, 2))
    if not images or len(known) != len(images) or not apart or sum(map(_volume, known)) != prod(whole.shape):
        return None
    names = axis_names(len(stacked.sizes))
    meshed = [axis for axis, size in zip(run.mesh.names, run.mesh.sizes, strict=True) if size > 1]
    names.update(enumerate(meshed))
    texts: list[str] = []
    for box, index in places or ():
        cut = [v for v, size in enumerate(stacked.sizes) if box[v] != (0, size)]
        where = " and ".join(f"{names[v]} in {box[v][0]}..{box[v][1]}" for v in cut)
        texts.append(f"[{', '.join(show_coordinate(c, names) for c in index)}]" + (f" for {where}" if where else ""))
    blocks = [_block(run, name, stacked, box, index) for box, index in places or ()]
    tiles = {image: block for image, block in zip(known, blocks, strict=True) if block is not None}
    exact = _put_together(tuple((0, n) for n in whole.shape), tiles) if len(tiles) == len(blocks) else None
    return PIECES + ", ".join(texts), "" if exact is None else str(exact)


def _block(run: RanksRun, name: str, stacked: Form, box: Box, index: Sequence[Coordinate]) -> Expression | None:
    """The part of the whole that lies at ``index`` of the axes of a stacked tensor, for those in ``box``: the ranks'
    tensors cut into axes, stacked in front, their axes in the order of the whole's digits. Along axes that ``index``
    lacks all are equal: the first is taken. ``None`` where an axis of the local tensors runs backwards."""
    stride = {v: s for parts, _ in index for v, s in parts}
    count = stacked.start(len(run.mesh.sizes))  # axes of the mesh
    local = range(count, len(stacked.sizes))
    spans = [range(*box[v]) if v in stride else range(box[v][0], box[v][0] + 1) for v in range(len(box))]
    if any(stride.get(v, 1) < 0 and len(spans[v]) > 1 for v in local):
        return None
    places = [spans[v] if stride.get(v, 1) > 0 else spans[v][::-1] for v in range(count)]
    axes = tuple(stacked.sizes[v] for v in local)
    bounds = tuple((spans[v].start, spans[v].stop, 1) for v in local)
    lengths = [len(span) for span in spans]
    cut = any(bound != (0, size, 1) for bound, size in zip(bounds, axes, strict=True))
    parts: list[Expression] = []
    for digits in product(*places):
        tensor: Expression = RankTensor(_rank(run, stacked, digits), name)
        parts.append(Slice(Reshape(tensor, axes), bounds) if cut else tensor)
    found = parts[0]
    if len(parts) > 1:
        found = Concat(tuple(Reshape(tensor, (1, *lengths[count:])) for tensor in parts), 0)
    order = [v for dim, _ in index for v, _ in sorted(dim, key=lambda item: -abs(item[1]))]
    order = [*(v for v in range(len(box)) if v not in stride), *order]
    if order != sorted(order):
        found = Permute(Reshape(found, tuple(lengths)), tuple(order))
    return Reshape(found, tuple(prod(lengths[v] for v, _ in dim) for dim, _ in index))


def _rank(run: RanksRun, stacked: Form, digits: Sequence[int]) -> int:
    """The rank at these coordinates of the axes that mesh dimensions are made of."""
    rank = 0
    for size, digit in zip(stacked.sizes[: len(digits)], digits, strict=True):
        rank = rank * size + digit
    return rank


def _image(box: Box, index: Sequence[Coordinate]) -> Box | None:
    """The box that a piece goes to, if every point of it is met once: each axis steps in one dimension only, by what
    the faster ones there add up to."""
    seen: set[int] = set()
    out: list[tuple[int, int]] = []
    for parts, offset in index:
        low, reach = offset, 1
        for v, stride in sorted(parts, key=lambda part: abs(part[1])):
            start, stop = box[v]
            if v in seen or abs(stride) != reach:
                return None
            seen.add(v)
            low += min(stride * start, stride * (stop - 1))
            reach *= stop - start
        out.append((low, low + reach))
    return tuple(out)


def _volume(box: Box) -> int:
    return prod(high - low for low, high in box)


def _meet(a: Box, b: Box) -> bool:
    return all(low < top and bottom < high for (low, high), (bottom, top) in zip(a, b, strict=True))
