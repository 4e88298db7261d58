"""Windows along one dimension: those of pooling, and those that become columns of a matrix."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from itertools import groupby

from tantamount.ir.types import DType
from tantamount.ops.algebra import Tensor
from tantamount.ops.builder import Builder, ShapeProblem
from tantamount.ops.definitions.convolution import joined
from tantamount.ops.definitions.in_place import few

__all__ = ["Line"]


@dataclass(frozen=True)
class Line:
    """The windows along one dimension: ``size`` elements, ``count`` windows of ``kernel`` elements."""

    size: int
    count: int
    kernel: int
    stride: int
    padding: int
    dilation: int

    @property
    def leaves(self) -> bool:
        """True if some window reaches beyond the elements."""
        end = (self.count - 1) * self.stride + (self.kernel - 1) * self.dilation - self.padding
        return self.padding > 0 or end >= self.size

    def joined(self, b: Builder, dtype: DType) -> Tensor:
        return joined(b, self.size, self.count, self.kernel, self.stride, self.padding, self.dilation, dtype)

    def places(self, b: Builder) -> Tensor:
        """The place of every element of every window, (count, kernel); beyond the borders too."""
        first = b.sub(b.mul(b.unsqueeze(b.iota(self.count), 1), self.stride), self.padding)
        return b.add(first, b.mul(b.iota(self.kernel), self.dilation))

    def inside(self, b: Builder, places: Tensor) -> Tensor:
        """A boolean for every place: true of elements, false of the padding."""
        return b.and_(b.not_(b.less(places, 0)), b.less(places, self.size))

    def first(self, b: Builder) -> Tensor:
        """The first place of every window that is one of an element, (count,)."""
        starts = [k * self.stride - self.padding for k in range(self.count)]
        return b.table([x if x >= 0 else x % self.dilation for x in starts], (self.count,), DType.INT64)

    def weights(self, b: Builder, with_padding: bool, dtype: DType) -> Tensor:
        """One over the number of elements of every window, as runs of equal numbers; ``with_padding``: padding counts,
        what lies beyond it does not."""
        low, high = (-self.padding, self.size + self.padding) if with_padding else (0, self.size)
        few(self.count, "windows of different sizes")
        found: list[int] = []
        for k in range(self.count):
            start = k * self.stride - self.padding
            found.append(min(start + self.kernel, high) - max(start, low))
        if min(found) < 1:
            raise ShapeProblem(f"a window of no elements among {self.size}")
        return b.concat([b.full((len([*run]),), Fraction(1, size), dtype) for size, run in groupby(found)], 0)
