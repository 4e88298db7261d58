"""Sums over ranks, found again by their values: which nodes may hold summands of which tensors of the specification.

That ranks hold summands of a tensor is shown by normal forms. Values rule most nodes out before: what is no sum on one
input is none. Each node is added up once, however many tensors are asked for.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from itertools import combinations

import numpy as np

from tantamount.diagnosis.replay import Replay
from tantamount.semantics.reference import Array

__all__ = ["Totals"]

_NEAR = 1e-6  # relative to the lengths of both: what the projections of equal arrays may differ by


class Totals:
    """The sums of what ranks hold under one name, over the ranks of each group of mesh axes that the first one is in:
    of a tensor that is cut along the other axes these give its first part."""

    def __init__(self, replay: Replay) -> None:
        self.replay = replay

    def like(self, name: str) -> frozenset[str] | None:
        """The nodes whose sum over some axes may be a tensor of the specification; ``None`` where values do not say."""
        whole = self.replay.wanted(name)
        if whole is None or not np.isfinite(whole).all():
            return None
        found: set[str] = set()
        for shape, (names, projected) in self._projected.items():
            if len(shape) != whole.ndim or any(n > most for n, most in zip(shape, whole.shape, strict=True)):
                continue
            first = whole[tuple(map(slice, shape))]
            apart = np.abs(projected - _projection(first)) > _NEAR * _length(first)  # of what is no number nothing
            found.update(names[k] for k in np.flatnonzero(~apart))
        return frozenset(found)

    @cached_property
    def _projected(self) -> Mapping[tuple[int, ...], tuple[list[str], Array]]:
        """By the shape of sums, the nodes, and where each sum lies along one direction."""
        found: dict[tuple[int, ...], tuple[list[str], list[float]]] = {}
        groups = self._groups
        with np.errstate(all="ignore"):
            for node in self.replay.job.implementation[0].nodes:
                for ranks in groups:
                    values = [self.replay.held((rank, node.name)) for rank in ranks]
                    held = [value for value in values if value is not None and value.dtype.kind == "f"]
                    if len(held) < len(ranks) or any(one.shape != held[0].shape for one in held):
                        continue
                    names, projected = found.setdefault(held[0].shape, ([], []))
                    names.append(node.name)
                    projected.append(sum(map(_projection, held)))
        return {shape: (names, np.array(projected)) for shape, (names, projected) in found.items()}

    @property
    def _groups(self) -> list[tuple[int, ...]]:
        """The ranks of the groups of mesh axes in which the first rank is."""
        mesh = self.replay.job.mesh
        axes = [name for name, size in zip(mesh.names, mesh.sizes, strict=True) if size > 1]
        some = (one for n in range(1, len(axes) + 1) for one in combinations(axes, n))
        return [replace(mesh, groups={"": one}).members("", 0) for one in some]


def _projection(value: Array) -> float:
    """The number that tells arrays of one shape apart."""
    return float(np.dot(value.reshape(-1), _direction(value.size)))


def _direction(size: int) -> Array:
    return np.cos(np.arange(1.0, size + 1.0))


def _length(value: Array) -> float:
    """The length of what is projected times that of the direction, at most."""
    return float(np.linalg.norm(value) * np.sqrt(value.size))
