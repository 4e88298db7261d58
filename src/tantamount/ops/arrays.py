"""The layout primitives on NumPy arrays, whatever their elements are: numbers, or terms."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tantamount.ir.types import Shape
from tantamount.ops.algebra import Interpretation

__all__ = ["Array", "ArrayLayout", "spread"]

Array = NDArray[Any]
_SMALL = 4096  # elements that are copied sooner than NumPy makes a view


def spread(x: Array, shape: Shape) -> Array:
    """``x`` broadcast to a shape: a view of it where many elements are the same, a copy where few are."""
    if x.shape == shape:
        return x
    if x.ndim > len(shape) or prod(shape) > _SMALL:
        return np.broadcast_to(x, shape)
    out = np.empty(shape, x.dtype)
    out[...] = x
    return out


class ArrayLayout(Interpretation):
    """An interpretation whose values are arrays of the shape that the builder tracks: its layout primitives."""

    def permute(self, x: Array, order: tuple[int, ...]) -> Array:
        return np.transpose(x, order)

    def reshape(self, x: Array, shape: Shape) -> Array:
        return np.reshape(x, shape)

    def expand(self, x: Array, shape: Shape) -> Array:
        return spread(x, shape)

    def slice(self, x: Array, dim: int, start: int, stop: int, step: int) -> Array:
        return x[(slice(None),) * dim + (slice(start, stop, step),)]

    def flip(self, x: Array, dim: int) -> Array:
        return np.flip(x, dim)

    def concat(self, xs: Sequence[Array], dim: int) -> Array:
        return np.concatenate(list(xs), axis=dim)
