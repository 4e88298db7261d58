"""For every specification tensor, the implementation tensors that cover it."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from math import prod

from tantamount.calculus.affine import Coordinate
from tantamount.calculus.atoms import Store
from tantamount.calculus.compare import fingerprint, locate
from tantamount.calculus.forms import Box, Form
from tantamount.calculus.printing import axis_names, show_coordinate
from tantamount.errors import Unsupported
from tantamount.ir.job import Job
from tantamount.ir.types import Shape
from tantamount.ops.algebra import Tensor
from tantamount.refine.outputs import assembled, candidates, holds, show
from tantamount.refine.run import Run
from tantamount.verdict import Relation

__all__ = ["PIECES", "relate"]

PIECES = "pieces at "  # how the text of an index map begins
_MAX_PIECES = 64  # pieces of an implementation tensor that are placed in the specification's one by one
_MAX_CANDIDATES = 8  # implementation tensors with the right atoms that are tried per specification tensor


def relate(store: Store, job: Job, specification: Run, implementation: Run) -> dict[str, Relation]:
    """The relation of every specification tensor that has one, by node name: found by the atoms of the forms."""
    graph = job.implementation[0]
    sizes = job.mesh.sizes
    index: dict[frozenset[object], list[tuple[str, tuple[int, ...]]]] = {}
    for node in graph.nodes:
        stacked = implementation.stacked(store, node.name)
        if stacked is not None:
            index.setdefault(fingerprint(store, stacked), []).append((node.name, stacked.shape[len(sizes) :]))
    out: dict[str, Relation] = {}
    memo: dict[object, tuple[str, str] | None] = {}
    for node in job.specification.nodes:
        value = specification.values.get(node.name)
        if not isinstance(value, Tensor):
            continue
        whole = value.value
        key = (whole.dims, whole.pieces)
        if key not in memo:
            found = index.get(fingerprint(store, whole), [])
            likely = sorted(found, key=lambda item: not candidates(whole.shape, item[1], sizes, partial=False))
            memo[key] = _cover(store, whole, likely[:_MAX_CANDIDATES], implementation)
        related = memo[key]
        if related is not None:
            out[node.name] = Relation(node.name, related[0], related[1], node.source)
    return out


def _cover(store: Store, whole: Form, found: Sequence[tuple[str, Shape]], run: Run) -> tuple[str, str] | None:
    """A placement of one tensor, else an index map of one, else a concatenation of several."""
    sizes = run.mesh.sizes
    for name, shape in found:
        placement = _placement(store, whole, shape, run, name, sizes)
        if placement is not None:
            return placement, name
    for name, _ in found:
        text = _index_map(store, whole, run, name)
        if text is not None:
            return text, name
    if len(found) > 1 or (found and run.by_rank is not None):
        text = assembled(store, whole, run, [name for name, _ in found], {name: name for name, _ in found})
        if text is not None:
            return text, ""
    return None


def _placement(store: Store, whole: Form, shape: Shape, run: Run, name: str, sizes: tuple[int, ...]) -> str | None:
    for placements in candidates(whole.shape, shape, sizes, partial=False):
        try:
            if holds(store, whole, placements, run, name, expand=False) is None:
                return show(placements)
        except Unsupported:
            continue
    return None


def _index_map(store: Store, whole: Form, run: Run, name: str) -> str | None:
    """``whole[index map of mesh and local axes]``, piece by piece, if the ranks' tensors cover the whole."""
    stacked = run.stacked(store, name)
    if stacked is None or not 0 < len(stacked.pieces) <= _MAX_PIECES:
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
    return PIECES + ", ".join(texts)


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
