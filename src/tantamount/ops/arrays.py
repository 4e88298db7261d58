"""The layout primitives on NumPy arrays, whatever their elements are: numbers, or terms."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tantamount.ir.types import Shape
from tantamount.ops.algebra import Interpretation

__all__ = ["Array", "ArrayLayout"]

Array = NDArray[Any]
_FEW = 1 << 10  # elements that are sooner written than described as one that is repeated


class ArrayLayout(Interpretation):
    """An interpretation whose values are arrays of the shape that the builder tracks: its layout primitives."""

    def permute(self, x: Array, order: tuple[int, ...]) -> Array:
        return np.transpose(x, order)

    def reshape(self, x: Array, shape: Shape) -> Array:
        return np.reshape(x, shape)

    def expand(self, x: Array, shape: Shape) -> Array:
        if x.size == 1 and prod(shape) <= _FEW:
            return np.full(shape, x.reshape(()), x.dtype)
        return np.broadcast_to(x, shape)

    def slice(self, x: Array, dim: int, start: int, stop: int, step: int) -> Array:
        return x[(slice(None),) * dim + (slice(start, stop, step),)]

    def flip(self, x: Array, dim: int) -> Array:
        return np.flip(x, dim)

    def concat(self, xs: Sequence[Array], dim: int) -> Array:
        return np.concatenate(list(xs), axis=dim)
