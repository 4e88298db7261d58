"""Device meshes and process groups."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import product
from math import prod

__all__ = ["Mesh"]


@dataclass(frozen=True)
class Mesh:
    """Named axes with sizes; ranks are numbered row-major (the last axis varies fastest).

    ``groups`` maps a process-group name, as it appears in the graphs, to the mesh axes that it spans;
    the empty tuple is the rank alone. The members of a group are ordered row-major over those axes.
    """

    axes: Mapping[str, int] = field(default_factory=dict[str, int])
    groups: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])

    @cached_property
    def names(self) -> tuple[str, ...]:
        return tuple(self.axes)

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        return tuple(self.axes.values())

    @property
    def world_size(self) -> int:
        return prod(self.sizes)

    def coordinates(self, rank: int) -> tuple[int, ...]:
        """The mesh coordinate of a rank, one entry per axis."""
        out: list[int] = []
        for size in reversed(self.sizes):
            rank, digit = divmod(rank, size)
            out.append(digit)
        return tuple(reversed(out))

    def rank(self, coordinates: tuple[int, ...]) -> int:
        """The inverse of :meth:`coordinates`."""
        rank = 0
        for size, digit in zip(self.sizes, coordinates, strict=True):
            rank = rank * size + digit
        return rank

    def group_positions(self, group: str) -> tuple[int, ...]:
        """Positions (in :attr:`names`) of the axes that a group spans. ``KeyError`` if the group is unknown."""
        return tuple(self.names.index(axis) for axis in self.groups[group])

    def group_size(self, group: str) -> int:
        return prod(self.sizes[position] for position in self.group_positions(group))

    def members(self, group: str, rank: int) -> tuple[int, ...]:
        """The ranks of the instance of ``group`` that ``rank`` belongs to, in group order."""
        known = self._members.get((group, rank))
        if known is None:
            known = self._members[group, rank] = self._found(group, rank)
        return known

    @cached_property
    def _members(self) -> dict[tuple[str, int], tuple[int, ...]]:
        """The instances that :meth:`members` has found so far: every call of every collective asks."""
        return {}

    def _found(self, group: str, rank: int) -> tuple[int, ...]:
        positions = self.group_positions(group)
        base = list(self.coordinates(rank))
        found: list[int] = []
        for digits in product(*(range(self.sizes[position]) for position in positions)):
            for position, digit in zip(positions, digits, strict=True):
                base[position] = digit
            found.append(self.rank(tuple(base)))
        return tuple(found)
