"""For every specification tensor, the implementation tensors that cover it."""

from __future__ import annotations

from tantamount.calculus.atoms import Store
from tantamount.calculus.compare import fingerprint
from tantamount.errors import Unsupported
from tantamount.ir.job import Job
from tantamount.ops.algebra import Tensor
from tantamount.refine.outputs import candidates, holds, show
from tantamount.refine.ranks import Run
from tantamount.verdict import Relation

__all__ = ["relate"]

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
            memo[key] = None
            for name, shape in index.get(fingerprint(store, whole), ())[:_MAX_CANDIDATES]:
                found = _placement(store, whole, shape, implementation, name, sizes)
                if found is not None:
                    memo[key] = (found, name)
                    break
        related = memo[key]
        if related is not None:
            out[node.name] = Relation(node.name, related[0], related[1], node.source)
    return out


def _placement(store: Store, whole: object, shape: tuple[int, ...], run: Run, name: str, sizes: tuple[int, ...]) -> str | None:
    from tantamount.calculus.forms import Form

    if not isinstance(whole, Form):
        return None
    for placements in candidates(whole.shape, shape, sizes, partial=False):
        try:
            if holds(store, whole, placements, run, name, expand=False) is None:
                return show(placements)
        except Unsupported:
            continue
    return None
