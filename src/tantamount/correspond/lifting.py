"""Expressions found at several small sizes, at another size: one formula that gives all their numbers, or none.

The bounds of a slice and the sizes of a reshape are multiples of sizes of the tensors. Each number is taken for a
constant, or for one rational multiple of one size, whichever explains it at every size that was looked at. Where
several explanations are left, they must give the same number at the size that is asked for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from tantamount.ir.relation import Concat, Expression, Permute, RankTensor, Reshape, Slice, rank_tensors
from tantamount.ir.types import Shape

__all__ = ["LEAST", "Sample", "lifted"]

LEAST = 3  # sizes that must agree


@dataclass(frozen=True)
class Sample:
    """An expression, the shape of what it gives, and the shapes of the tensors that it is made of, by name."""

    expression: Expression
    shape: Shape
    shapes: Mapping[str, Shape]


def lifted(samples: Sequence[Sample], shape: Shape, shapes: Mapping[str, Shape]) -> Expression | None:
    """The expression for tensors of other shapes, whose value has this shape; ``None`` where fewer than :data:`LEAST`
    different sizes are given, the samples are no instances of one formula, or their formulas disagree."""
    if len({_sizes(sample) for sample in samples}) < LEAST:
        return None
    names = [[tensor.name or "" for tensor in rank_tensors(sample.expression)] for sample in samples]
    if any(other != names[0] for other in names) or any(name not in shapes for name in names[0]):
        return None
    known = [_numbers(sample.shape, sample.shapes, names[0]) for sample in samples]
    wanted = _numbers(shape, shapes, names[0])
    if any(len(other) != len(wanted) for other in known):
        return None
    return _Lift(known, wanted).expression([sample.expression for sample in samples])


def _sizes(sample: Sample) -> tuple[Shape, ...]:
    return (sample.shape, *(sample.shapes[tensor.name or ""] for tensor in rank_tensors(sample.expression)))


def _numbers(shape: Shape, shapes: Mapping[str, Shape], names: Sequence[str]) -> list[int]:
    """All sizes that a number may be a multiple of."""
    return [*shape, *(size for name in dict.fromkeys(names) for size in shapes[name])]


@dataclass(frozen=True)
class _Lift:
    known: Sequence[Sequence[int]]  # by sample
    wanted: Sequence[int]

    def expression(self, found: Sequence[Expression]) -> Expression | None:
        first = found[0]
        if any(type(other) is not type(first) for other in found):
            return None
        if isinstance(first, RankTensor):
            return first
        if isinstance(first, Concat):
            several = [one for one in found if isinstance(one, Concat)]
            if any(len(one.parts) != len(first.parts) or one.dim != first.dim for one in several):
                return None
            parts = [self.expression([one.parts[k] for one in several]) for k in range(len(first.parts))]
            return None if None in parts else Concat(tuple(part for part in parts if part is not None), first.dim)
        if isinstance(first, Permute):
            permutes = [one for one in found if isinstance(one, Permute)]
            inner = self.expression([one.operand for one in permutes])
            same = all(one.dims == first.dims for one in permutes)
            return None if inner is None or not same else Permute(inner, first.dims)
        if isinstance(first, Reshape):
            reshapes = [one for one in found if isinstance(one, Reshape)]
            inner = self.expression([one.operand for one in reshapes])
            sizes = self.each([one.shape for one in reshapes])
            return None if inner is None or sizes is None else Reshape(inner, tuple(sizes))
        if isinstance(first, Slice):
            slices = [one for one in found if isinstance(one, Slice)]
            inner = self.expression([one.operand for one in slices])
            bounds = self.each([[n or 0 for bound in one.bounds for n in bound] for one in slices])
            if inner is None or bounds is None:
                return None
            return Slice(inner, tuple((bounds[k], bounds[k + 1], bounds[k + 2]) for k in range(0, len(bounds), 3)))
        return None

    def each(self, rows: Sequence[Sequence[int]]) -> list[int] | None:
        """The numbers at the wanted size, one for each place of the rows."""
        if any(len(row) != len(rows[0]) for row in rows):
            return None
        numbers = [self.number([row[k] for row in rows]) for k in range(len(rows[0]))]
        return None if None in numbers else [n for n in numbers if n is not None]

    def number(self, values: Sequence[int]) -> int | None:
        """The value at the wanted size of what explains all values; ``None`` if nothing does, or several things that
        differ."""
        candidates: set[Fraction] = set()
        if len(set(values)) == 1:
            candidates.add(Fraction(values[0]))
        for k, size in enumerate(self.wanted):
            if all(known[k] for known in self.known):
                shares = {Fraction(value, known[k]) for value, known in zip(values, self.known, strict=True)}
                if len(shares) == 1:
                    candidates.add(shares.pop() * size)
        if len(candidates) != 1:
            return None
        (found,) = candidates
        return int(found) if found.denominator == 1 else None
