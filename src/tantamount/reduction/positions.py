"""Types of operators on sizes that remember, and what is known of whole numbers: positions stay inside what they index.

A table of 1024 positions may shrink, but not below the positions that are looked up in it. A value of this
interpretation is a :class:`_Whole`: its shape, where that is known, and a number that all its elements are below, where
they are counted (``arange``) and then moved, shifted and scaled by numbers that are not negative.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tantamount.errors import DataDependent
from tantamount.ir.types import Kind, Shape
from tantamount.ops.algebra import PerRank, Scalar, Tensor, TypesOnly
from tantamount.ops.execute import Environment, Result
from tantamount.sizes.traced import SizeFacts, plus, polynomial

__all__ = ["Positions", "with_positions", "with_shapes"]


@dataclass(frozen=True, slots=True)
class _Whole:
    """``0 <= element < stop``"""

    shape: Shape | None = None
    stop: int | None = None


def with_shapes(environment: Mapping[str, Result]) -> Environment:
    """The values of nodes, with their shapes beside what is known of their numbers."""

    def known(x: Tensor) -> Tensor:
        return replace(x, value=_Whole(x.shape, x.value))

    return {name: _each(result, known) for name, result in environment.items()}


def with_positions(result: Result) -> Result:
    """The value of a node with the number that its elements are below, if that is known, in place of more."""

    def known(x: Tensor) -> Tensor:
        return replace(x, value=x.value.stop if isinstance(x.value, _Whole) else None)

    return _each(result, known)


def _each(result: Result, change: Callable[[Tensor], Tensor]) -> Result:
    if isinstance(result, tuple):
        return tuple(None if x is None else change(x) for x in result)
    return change(result) if isinstance(result, Tensor) else result


class Positions(TypesOnly):
    """Types only, and bounds of positions. What data decide has no type to reduce: :class:`DataDependent`, which
    refuses the job."""

    def __init__(self, facts: SizeFacts, group_sizes: Mapping[str, int] | None = None) -> None:
        super().__init__(group_sizes)
        self.facts = facts

    def lost(self, shape: Shape | None, problem: DataDependent) -> Any:
        raise problem

    def iota(self, size: int) -> _Whole:
        return _Whole((size,), size)

    def constant(self, value: Scalar, kind: Kind) -> _Whole | None:
        if kind is not Kind.INT or isinstance(value, (PerRank, float)) or not isinstance(value, int) or int(value) < 0:
            return None
        return _Whole((), value + 1)

    # -- layout
    def expand(self, x: Any, shape: Shape) -> Any:
        return _moved(x, shape)

    def reshape(self, x: Any, shape: Shape) -> Any:
        """Dimensions go on being cut and merged as they are: 256 * 2048 as 64 * 4 * 32 * 64 is 256 = 64 * 4 and
        2048 = 32 * 64, not any sizes whose products are equal."""
        if isinstance(x, _Whole) and x.shape is not None:
            for before, after in _groups(x.shape, shape):
                self.facts.add("==", plus(polynomial(before), polynomial(after), -1))
        return _moved(x, shape)

    def permute(self, x: Any, order: tuple[int, ...]) -> Any:
        return _moved(x)

    def slice(self, x: Any, dim: int, start: int, stop: int, step: int) -> Any:
        return _moved(x)

    def flip(self, x: Any, dim: int) -> Any:
        return _moved(x)

    def convert(self, x: Any, source: Kind, target: Kind) -> Any:
        return _moved(x) if source is target is Kind.INT else None

    # -- numbers
    def add(self, x: Any, y: Any) -> Any:
        stops = _stops(x, y)
        return _Whole(None, stops[0] + stops[1] - 1) if len(stops) == 2 else None

    def mul(self, x: Any, y: Any) -> Any:
        stops = _stops(x, y)
        return _Whole(None, (stops[0] - 1) * (stops[1] - 1) + 1) if len(stops) == 2 else None

    def where(self, condition: Any, x: Any, y: Any) -> Any:
        """The lower of two: indices are shifted where they are negative, which these are not."""
        stops = _stops(x, y)
        return _Whole(None, min(stops, key=int)) if len(stops) == 2 else None

    def gather(self, x: Any, indices: Sequence[Any]) -> None:
        if isinstance(x, _Whole) and x.shape is not None:
            for size, index in zip(x.shape, indices, strict=True):
                for stop in _stops(index):
                    if int(stop) <= int(size):
                        self.facts.add(">=", plus(polynomial(size), polynomial(stop), -1))


def _groups(before: Shape, after: Shape) -> Iterator[tuple[int, int]]:
    """The products of the shortest runs of dimensions, one after the other, that are equal in both shapes."""
    ours, theirs = list(before), list(after)
    while ours and theirs:
        a, b = ours.pop(0), theirs.pop(0)
        while int(a) != int(b) and (ours if int(a) < int(b) else theirs):
            if int(a) < int(b):
                a = a * ours.pop(0)
            else:
                b = b * theirs.pop(0)
        if int(a) == int(b):
            yield a, b


def _moved(x: Any, shape: Shape | None = None) -> _Whole | None:
    return _Whole(shape, x.stop) if isinstance(x, _Whole) else None


def _stops(*xs: Any) -> list[int]:
    """The numbers that elements are below, of those of which that is known."""
    return [x.stop for x in xs if isinstance(x, _Whole) and x.stop is not None]
