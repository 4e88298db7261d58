"""Stages and pieces of a plan, the layouts of their ranks, and the groups of these, as a plan's table has them."""

# pyright: basic
from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations, pairwise
from typing import Any

from tantamount.capture.torch.llama.beside import layouts_beside
from tantamount.capture.torch.llama.experts import ExpertShape
from tantamount.capture.torch.llama.layouts import refined
from tantamount.capture.torch.llama.model import Shape
from tantamount.capture.torch.llama.spread import Degrees, layers_of, pieces_of

__all__ = ["between", "copies_of", "groups_of", "layouts_of", "listed", "stages_of"]

Between = Mapping[str, tuple[str, str]]


def groups_of(axes: Mapping[str, int]) -> dict[str, list[str]]:
    """The process groups that span several axes."""
    long = [axis for axis, size in axes.items() if size > 1]
    return {"+".join(some): list(some) for count in range(2, len(long) + 1) for some in combinations(long, count)}


def copies_of(degrees: Degrees) -> dict[str, int]:
    """The axis of the copies of a piece, if microbatches enter at both ends of the pipeline."""
    return {"copy": 2} if degrees.schedule == "dualpipe" else {}


def between(shape: Shape | ExpertShape, degrees: Degrees) -> dict[str, tuple[str, str]]:
    """Under the kinds of pieces after which ranks have another layout: the next kind, and the name of what is between
    them."""
    kinds = [*pieces_of(shape)]
    changes = ((a, b) for a, b in pairwise(kinds) if degrees.of(a).inner != degrees.of(b).inner)
    return {a: (b, f"{a}_to_{b}") for a, b in changes}


def layouts_of(shape: Shape | ExpertShape, degrees: Degrees) -> dict[str, Any]:
    """The layouts of a plan: those of kinds of pieces, and their refinements."""
    meshes = {kind: degrees.of(kind).inner for kind in degrees.layouts}
    for kind, (other, name) in between(shape, degrees).items():
        meshes[name] = refined(degrees.of(kind).inner, degrees.of(other).inner) or {}
    meshes |= layouts_beside(degrees)
    found = {name: {"axes": mesh, "groups": groups_of({**copies_of(degrees), **mesh})} for name, mesh in meshes.items()}
    return {"layouts": found} if found else {}


def listed(shape: Shape | ExpertShape, degrees: Degrees) -> Iterator[str]:
    """The pieces of the model in their order, as texts."""
    counts, changes = dict(layers_of(shape)), between(shape, degrees)
    for kind in pieces_of(shape):
        yield f"{kind} * {counts[kind]}" if kind in counts else kind
        if kind in changes:
            yield changes[kind][1]


def stages_of(kinds: Sequence[tuple[str, int]], stages: int, changes: Between) -> Iterator[str]:
    """The pieces that every stage owns: the first and the last have fewer layers, for they have more beside them.
    ``changes``: what follows the last piece of a kind, as :func:`between` has it."""
    layers = sum(count for _, count in kinds)
    counts = [layers // stages] * stages
    middle = [*range(1, stages - 1), *range(stages - 1, stages), 0]
    for k in range(layers % stages):
        counts[middle[k]] += 1
    first = 0
    for stage, count in enumerate(counts):
        owned = ["embedding", *_after(changes, "embedding")] if stage == 0 else []
        start = 0
        for name, many in kinds:
            low, high = max(first, start), min(first + count, start + many)
            if low < high:
                owned += [f"{name} {low - start}-{high - start - 1}"]
                owned += _after(changes, name) if high == start + many else []
            start += many
        yield ", ".join([*owned, *(["head"] if stage == stages - 1 else [])])
        first += count


def _after(changes: Between, kind: str) -> list[str]:
    return [f"{changes[kind][1]} 0"] if kind in changes else []
