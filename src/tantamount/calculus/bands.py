"""Bands that a mask of positions may be made of, as its numbers suggest: nothing rests on them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod

import numpy as np
from numpy.typing import NDArray

from tantamount.calculus.atoms import Store
from tantamount.calculus.evaluate import Evaluator
from tantamount.calculus.terms import Polynomial

__all__ = ["guesses"]

_Mask = NDArray[np.bool_]
_Positions = NDArray[np.int64]


def guesses(
    store: Store, c: Polynomial, axes: Sequence[tuple[int, int, int]]
) -> Iterator[tuple[Sequence[int], list[bool]]]:
    """Strides of maps of the axes (``v, low, high``), and whether c seems to hold at every number that they go
    through, from the least one on."""
    sizes = [high - low for _, low, high in axes]
    if not store.effort.exceeds("condition_points", prod(sizes)):
        points: _Positions = np.indices(sizes)
        mask = _mask(store, c, axes, points)
        strides = None if mask is None else _strides(mask)
        ways = [] if strides is None else [strides]
    elif len(axes) == 2 and not store.effort.exceeds("condition_points", 2 * sum(sizes)):
        rows = [np.stack([np.full(sizes[1], k), np.arange(sizes[1])]) for k in (0, sizes[0] - 1)]
        columns = [np.stack([np.arange(sizes[0]), np.full(sizes[0], k)]) for k in (0, sizes[1] - 1)]
        points = np.concatenate([*rows, *columns], axis=1)
        mask = _mask(store, c, axes, points)
        ways = [[1, -1], [1, 1]]
    else:
        return
    if mask is None:
        return
    for strides in ways:
        low = sum(min(s, 0) * (n - 1) for s, n in zip(strides, sizes, strict=True))
        high = sum(max(s, 0) * (n - 1) for s, n in zip(strides, sizes, strict=True))
        at: _Positions = np.tensordot(np.array(strides, dtype=np.int64), points, 1) - low
        held = _held(mask, at, high - low + 1)
        if held is not None:
            yield strides, held


def _mask(store: Store, c: Polynomial, axes: Sequence[tuple[int, int, int]], points: _Positions) -> _Mask | None:
    """A boolean for each of some positions (axes x ...), counted from the first ones: that c holds there; ``None``
    where c is no boolean."""
    places = {v: low + place for (v, low, _), place in zip(axes, points, strict=True)}
    value = np.broadcast_to(Evaluator(store, {}).polynomial(c, places), points.shape[1:])
    return value == 1 if bool(((value == 0) | (value == 1)).all()) else None


def _strides(mask: _Mask) -> list[int] | None:
    """The strides of a map of the axes whose numbers may say where a mask holds: 1 along the last axis, or 0 along all;
    the first one that is not 0 is made positive."""
    last = mask.shape[-1]
    strides: list[int] = []
    for k in range(mask.ndim - 1):
        after, before = np.moveaxis(mask, k, 0)[1:], np.moveaxis(mask, k, 0)[:-1]
        steps = sorted(range(1 - last, last), key=lambda s: (abs(s), s))
        s = next((s for s in steps if _is_shifted(after, before, s)), None)
        if s is None:
            return None
        strides.append(s)
    strides.append(1)
    sign = 1 if next(s for s in strides if s) > 0 else -1
    return [sign * s for s in strides]


def _is_shifted(after: _Mask, before: _Mask, s: int) -> bool:
    """True if ``after[..., j] == before[..., j + s]`` wherever both are there."""
    last = after.shape[-1]
    return np.array_equal(after[..., max(-s, 0) : last - max(s, 0)], before[..., max(s, 0) : last + min(s, 0)])


def _held(mask: _Mask, at: _Positions, count: int) -> list[bool] | None:
    """A boolean for each of ``count`` numbers: that the mask holds there; ``None`` if that is not the same wherever it
    is that number. Numbers that are left out are like the one before."""
    some, other = np.zeros((2, count), dtype=np.bool_)
    some[at[mask]] = True
    other[at[~mask]] = True
    if bool((some & other).any()):
        return None
    held: list[bool] = []
    for yes, no in zip(some.tolist(), other.tolist(), strict=True):
        held.append(yes if yes or no or not held else held[-1])
    return held
