"""For every specification tensor, the implementation tensors that cover it."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from tantamount.calculus.atoms import Store
from tantamount.calculus.compare import fingerprint, locate
from tantamount.calculus.forms import Form
from tantamount.calculus.printing import axis_names, show_coordinate
from tantamount.errors import Unsupported
from tantamount.ir.job import Job
from tantamount.ir.types import Shape
from tantamount.ops.algebra import Tensor
from tantamount.refine.outputs import assembled, candidates, holds, show
from tantamount.refine.ranks import Run
from tantamount.verdict import Relation

__all__ = ["PIECES", "relate"]

PIECES = "pieces at "  # how the text of an index map begins
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
            memo[key] = _cover(store, whole, index.get(fingerprint(store, whole), ())[:_MAX_CANDIDATES], implementation)
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
    """``whole[index map of mesh and local axes]``, if the ranks' tensors are one piece and cover the whole."""
    stacked = run.stacked(store, name)
    if stacked is None or len(stacked.pieces) != 1:
        return None
    places = locate(store, whole, stacked)
    if places is None:
        return None
    box, index = places[0]
    used = {v for parts, _ in index for v, _ in parts}
    if prod(box[v][1] - box[v][0] for v in used) != prod(whole.shape):
        return None
    names = axis_names(len(stacked.sizes))
    meshed = [axis for axis, size in zip(run.mesh.names, run.mesh.sizes, strict=True) if size > 1]
    names.update(enumerate(meshed))
    return f"{PIECES}[{', '.join(show_coordinate(c, names) for c in index)}]"
