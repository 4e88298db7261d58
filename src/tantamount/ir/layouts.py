"""The placements under which a tensor can lie on a mesh: the one place that enumerates them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

from tantamount.ir.relation import Partial, Placement, Replicate, Shard
from tantamount.ir.types import Shape

__all__ = ["layouts"]


def layouts(
    shape: Shape, sizes: Sequence[int], *, local: Shape | None = None, partial: bool = False
) -> list[tuple[Placement, ...]]:
    """The placements, one per mesh axis of ``sizes``, that cut a tensor of ``shape`` into equal, non-empty parts (of
    shape ``local`` each, if given), simplest first: few sums over ranks (none unless ``partial``), then many replicas.
    An axis of size 1 only replicates."""
    if local is not None and len(shape) != len(local):
        return []
    cut = [d for d, n in enumerate(shape) if local is None or n != local[d]]
    options: list[list[Placement]] = []
    for size in sizes:
        choice: list[Placement] = [Replicate()]
        if size > 1:
            choice.extend(Shard(d) for d in cut)
            choice.extend([Partial()] if partial else [])
        options.append(choice)
    fitting = (placements for placements in product(*options) if _fits(shape, placements, sizes, local))
    return sorted(fitting, key=lambda ps: (_count(ps, Partial), -_count(ps, Replicate)))


def _fits(shape: Shape, placements: Sequence[Placement], sizes: Sequence[int], local: Shape | None) -> bool:
    left = list(shape)
    for placement, size in zip(placements, sizes, strict=True):
        if isinstance(placement, Shard):
            if left[placement.dim] % size or left[placement.dim] < size:
                return False
            left[placement.dim] //= size
    return local is None or tuple(left) == tuple(local)


def _count(placements: Sequence[Placement], kind: type[Placement]) -> int:
    return sum(isinstance(p, kind) for p in placements)
