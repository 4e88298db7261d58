"""The values that the free tensors of an execution are drawn from.

Random numbers show where programs differ nearly everywhere. A normal random number is never 0, never equal to another
one and never the number that a graph compares it with, and a whole number below a bound is never negative; so there are
draws that are: small numbers of both signs, the numbers that the graphs compare with and those next to them, equal
numbers in a row, in a tensor and in several tensors, the ends of ranges, rows of nothing but zeros.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any
from zlib import crc32

import numpy as np

from tantamount.effort import Effort
from tantamount.ir.types import Kind, Shape
from tantamount.ops.functions import rounded_by
from tantamount.semantics.reference import Array

__all__ = ["SAMPLED", "Leaf", "LeafName", "Leaves", "Pool", "Scale", "draw_leaves"]

LeafName = tuple[str, Any]  # kind and name of a leaf atom
Leaves = Mapping[LeafName, Array]

_TINY = Fraction(1, 100)
_SHARES = (1 / 8, 1 / 256, -1 / 256)


@dataclass(frozen=True, slots=True)
class Leaf:
    """A free tensor. Integers are drawn from ``range(bound)``; every other time from all that they may be, if they are
    not known to be indices: ``span`` is ``None`` if they are, else the least and the greatest. ``special``: integers
    that it is compared with. ``rounded`` names what rounds floats to numbers that their type has; ``nonnegative``:
    they are not below 0. ``ordered``: the elements are ends of groups of so many places, drawn in order more often than
    not."""

    name: LeafName
    shape: Shape
    kind: Kind
    bound: int
    span: tuple[int, int] | None = None
    special: tuple[int, ...] = ()
    rounded: str = ""
    nonnegative: bool = False
    ordered: int | None = None

    @property
    def size(self) -> int:
        return int(np.prod(self.shape, dtype=np.int64))


@dataclass(frozen=True, slots=True)
class Scale:
    """The distribution that floats are drawn from: standard normal times ``amplitude``; their absolute values if
    ``positive``.

    ``sparse``: half of them are 0, and some rows (along the last dimension) are all 0; of booleans some rows are all
    false and some all true: where programs divide by zero, take its logarithm, or mask all that there is.
    ``sampled``: one of :data:`SAMPLED`; numbers of which some are equal, and some those that graphs compare with."""

    amplitude: float = 1.0
    positive: bool = False
    sparse: bool = False
    sampled: str = ""


SAMPLED = ("pool", "small", "negative", "equal", "linked", "rows", "extreme")


@dataclass(frozen=True)
class Pool:
    """Numbers at which programs may do something else: ``whole`` ones, and ``real`` ones. ``tiny``: below a floor that
    keeps norms or variances from 0, also if there are some hundred of them."""

    whole: tuple[int, ...]
    real: tuple[float, ...]
    tiny: tuple[float, ...] = ()

    @staticmethod
    def of(numbers: Iterable[Fraction], effort: Effort | None = None) -> Pool:
        """The numbers that graphs compare with, their negatives, and those next to them."""
        known = sorted({*numbers, Fraction(0), Fraction(1), Fraction(2)}, key=lambda x: (abs(x), x))
        known = (effort or Effort()).first("drawn_numbers", known)
        whole: dict[int, None] = {}
        real: dict[float, None] = {}
        for number in known:
            for sign in (1, -1):
                for step in (0, -1, 1):
                    whole.setdefault(sign * round(number) + step)
                    real.setdefault(float(sign * number) + step)
                real.setdefault(float(sign * number) + 0.5)
        tiny = [float(number) * share for number in known if 0 < number < _TINY for share in _SHARES]
        return Pool(tuple(whole), tuple(real), tuple(tiny))


def draw_leaves(leaves: Sequence[Leaf], pool: Pool, seed: int, scale: Scale) -> dict[LeafName, Array]:
    """Random leaves; the same for the same seed and scale."""
    found: dict[LeafName, Array] = {}
    for leaf in leaves:
        value = _drawn(leaf, pool, seed, scale)
        value = np.abs(value) if leaf.nonnegative else value
        found[leaf.name] = rounded_by(leaf.rounded, value) if leaf.rounded else value
    return found


def _drawn(leaf: Leaf, pool: Pool, seed: int, scale: Scale) -> Array:
    generator = np.random.default_rng([seed, crc32(repr(leaf.name).encode())])
    if leaf.ordered is not None and leaf.size and seed % 4 != 3:
        return _in_order(generator, leaf.shape, leaf.ordered, seed)
    if scale.sampled:
        return _sampled(leaf, pool, seed, scale.sampled, generator)
    if leaf.kind is Kind.BOOL:
        value = np.asarray(generator.integers(0, 2, leaf.shape), dtype=np.float64)
        return _in_rows(generator, value, (0.0, 1.0)) if scale.sparse else value
    if leaf.kind is Kind.INT and leaf.span is not None and seed % 2:
        return _spread(generator, leaf.shape, *leaf.span)
    if leaf.kind is Kind.INT:
        return np.asarray(generator.integers(0, leaf.bound, leaf.shape), dtype=np.float64)
    value = np.asarray(generator.standard_normal(leaf.shape)) * scale.amplitude
    if scale.sparse:
        value = _in_rows(generator, value * generator.integers(0, 2, leaf.shape), (0.0,))
    return np.abs(value) if scale.positive else value


# ------------------------------------------------------------------------------------------------ sampled numbers
def _sampled(leaf: Leaf, pool: Pool, seed: int, how: str, generator: np.random.Generator) -> Array:
    """Numbers of one leaf. ``linked``: tensors of one shape have equal numbers at most places; ``equal``: a tensor has
    one number, or two; ``rows``: a row has."""
    if how == "linked":
        shared = _numbers(leaf, pool, "small", np.random.default_rng([seed, *leaf.shape]), leaf.shape)
        own = _numbers(leaf, pool, "pool", generator, leaf.shape)
        return np.where(generator.random(leaf.shape) < 0.15, own, shared)
    if how in ("equal", "rows") and leaf.shape:
        shape = (1,) * len(leaf.shape) if how == "equal" else (*leaf.shape[:-1], 1)
        one, other = (_numbers(leaf, pool, "pool", generator, shape) for _ in range(2))
        if how == "rows" and pool.tiny and leaf.kind is Kind.FLOAT:
            below = generator.choice(np.array(pool.tiny), shape)
            one = np.where(np.arange(one.size).reshape(shape) % 2 == 0, below, one)
        return np.where(generator.random(leaf.shape) < 0.2 * (how == "equal"), other, one) + np.zeros(leaf.shape)
    return _numbers(leaf, pool, how, generator, leaf.shape)


def _numbers(leaf: Leaf, pool: Pool, how: str, generator: np.random.Generator, shape: Shape) -> Array:
    if leaf.kind is Kind.BOOL:
        share = {"small": 0.9, "negative": 0.1}.get(how, 0.5)
        return np.asarray(generator.random(shape) < share, dtype=np.float64)
    small = generator.integers(-4, 5, shape)
    if leaf.kind is Kind.FLOAT:
        if how == "pool":
            return np.asarray(generator.choice(np.array(pool.real), shape))
        if how == "extreme":
            return np.asarray(generator.choice(np.array([0.0, 0.5, 1.0, -1.0, 1e3, -1e3, 65504.0, -65504.0]), shape))
        return np.asarray(-np.abs(small) if how == "negative" else small / 2, dtype=np.float64)
    near = [n + step for n in leaf.special for step in (0, 0, -1, 1)]
    whole = generator.choice(np.array(pool.whole), shape)
    if near:
        whole = np.where(generator.random(shape) < 0.5, generator.choice(np.array(near), shape), whole)
    if leaf.span is not None:
        low, high = leaf.span
        if how == "extreme":
            return _spread(generator, shape, low, high)
        value = whole if how == "pool" else -np.abs(small) if how == "negative" else small
        return np.asarray(np.clip(value, low, high), dtype=np.float64)
    inside = generator.integers(0, leaf.bound, shape)  # an index
    if how == "extreme":
        inside = np.where(inside % 2, leaf.bound - 1, 0)
    if how == "negative":
        return np.asarray(inside - leaf.bound, dtype=np.float64)
    outside = [n for n in leaf.special if not 0 <= n < leaf.bound]  # such as a label that is ignored
    if outside:
        share = {"pool": 0.4, "linked": 0.4, "equal": 1.0, "rows": 1.0}.get(how, 0.1)
        inside = np.where(generator.random(shape) < share, generator.choice(np.array(outside), shape), inside)
    return np.asarray(inside, dtype=np.float64)


def _spread(generator: np.random.Generator, shape: Shape, low: int, high: int) -> Array:
    """Integers of an interval: half of them numbers where types of 8 and 16 bits end, or ends of the interval."""
    edges = [x for k in (7, 8, 15, 16) for x in (-(1 << k) - 1, -(1 << k), (1 << k) - 1, 1 << k) if low <= x <= high]
    ends = generator.choice(np.array([low, high, max(low, -1), 0, 1, *edges]), shape)
    near = generator.integers(max(low, -300), min(high, 300) + 1, shape)
    return np.asarray(np.where(generator.integers(0, 2, shape) == 0, ends, near), dtype=np.float64)


def _in_order(generator: np.random.Generator, shape: Shape, places: int, seed: int) -> Array:
    """Ends of groups of ``places`` places in order along the last dimension; of all of them two times of three, the
    first 0 as often, and the groups of one size at every fourth seed."""
    ends = np.sort(generator.integers(0, places + 1, shape), -1)
    if seed % 4 == 2:
        ends = np.zeros(shape) + np.linspace(0, places, shape[-1]).round()
    if seed % 3 != 1:
        ends[..., 0] = 0
    if seed % 3 != 2:
        ends[..., -1] = places
    return np.asarray(ends, dtype=np.float64)


def _in_rows(generator: np.random.Generator, value: Array, numbers: tuple[float, ...]) -> Array:
    """The array with each of the numbers throughout a quarter of the rows along the last dimension."""
    if not value.ndim:
        return value
    choice = generator.integers(0, 4, (*value.shape[:-1], 1))
    for k, number in enumerate(numbers):
        value = np.where(choice == k, number, value)
    return value
