"""Inputs to be drawn: of every kind on which programs may differ, not only where random numbers fall.

A normal random number is never 0, never equal to another one and never the number that a graph compares it with; a
whole number below a bound is never negative. So, besides random numbers, inputs are *sampled*: small whole numbers of
both signs, the numbers that a program writes down or compares with, these plus and minus one and a half, large ones,
the limits of the element type; equal ones inside a tensor and between tensors; booleans that are nearly all the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from tantamount.ir.types import DType, Kind
from tantamount.semantics.reference import Array

__all__ = [
    "SPARSE", "TAMEST", "Draw", "Elements", "Pool", "Sampler", "Way", "clipped", "inside", "limits_of", "normal_draw",
    "sparse_draw",
]  # fmt: skip

_LARGEST = 2**60  # what the reference interpreter can still add
_MANY = 400  # numbers of a pool
_UNKNOWN_BOUND = 4  # integers of unknown use are, where nothing is sampled, drawn below this
TAMEST = 3


@dataclass(frozen=True)
class Elements:
    """The elements that one number each is drawn for: arrays of one length. ``bounds``: an integer indexes something of
    that size (0: not known); ``low`` and ``high``, both possible: the limits of its element type; ``tensor``, ``place``
    and ``row``: the number of the tensor that it is in, and where; ``divides``: a divisor, or the argument of a root or
    logarithm, is computed from it."""

    bounds: Array
    low: Array
    high: Array
    tensor: Array
    place: Array
    row: Array
    divides: Array

    def __len__(self) -> int:
        return len(self.bounds)

    def take(self, which: Array) -> Elements:
        """Some of them."""
        parts = (self.bounds, self.low, self.high, self.tensor, self.place, self.row, self.divides)
        return Elements(*(part[which] for part in parts))

    @staticmethod
    def free(count: int, dtype: DType) -> Elements:
        """The elements of one tensor of which nothing else is known."""
        low, high = limits_of(dtype)
        zeros = np.zeros(count, dtype=np.int64)
        divides = np.zeros(count, dtype=np.bool_)
        return Elements(
            zeros, zeros + low, zeros + high, zeros.copy(), np.arange(count, dtype=np.int64), zeros.copy(), divides
        )


def limits_of(dtype: DType) -> tuple[int, int]:
    """The smallest and largest integer of an element type, as far as the reference interpreter can add them."""
    if dtype.kind is not Kind.INT:
        return 0, 1
    if dtype.label.startswith("uint"):
        return 0, min((1 << dtype.bits) - 1, _LARGEST)
    half = 1 << (dtype.bits - 1)
    return max(-half, -_LARGEST), min(half - 1, _LARGEST)


Draw = Callable[[Kind, Elements, int], Any]
"""Numbers of a kind, one for each element; others for every value of the last argument."""


# ---------------------------------------------------------------------------------------------- random numbers
@dataclass(frozen=True, slots=True)
class Way:
    """A way to draw real inputs: standard normal times ``amplitude``, or out of ``values``; their absolute values if
    ``positive``. Integers are drawn below their bounds; those of the tensor ``wild`` (-1: of every tensor) may leave
    them."""

    amplitude: float = 1.0
    positive: bool = False
    values: tuple[float, ...] = ()
    wild: int | None = None


def normal_draw(way: Way, seed: int) -> Draw:
    """The draw that a way describes."""

    def draw(kind: Kind, elements: Elements, salt: int) -> Array:
        generator = np.random.default_rng([seed, kind.value, salt])
        if kind is Kind.BOOL:
            return _fair(len(elements), generator)
        if kind is Kind.INT:
            own = inside(elements, generator)
            if way.wild is None:
                return own
            bounds = _bounds(elements)
            wild = clipped(generator.integers(-2 * bounds - 2, 3 * bounds + 3), elements)
            return wild if way.wild < 0 else np.where(elements.tensor == way.wild, wild, own)
        if way.values:
            return np.asarray(generator.choice(np.array(way.values), len(elements)))
        found = np.asarray(generator.standard_normal(len(elements))) * way.amplitude
        return np.abs(found) if way.positive else found

    return draw


def _fair(count: int, generator: np.random.Generator) -> Array:
    return np.asarray(generator.integers(0, 2, count), dtype=np.bool_)


def _bounds(elements: Elements) -> Array:
    return np.where(elements.bounds > 0, elements.bounds, _UNKNOWN_BOUND)


def inside(elements: Elements, generator: np.random.Generator) -> Array:
    """Integers below their bounds."""
    return clipped(generator.integers(0, _bounds(elements)), elements)


def clipped(x: Array, elements: Elements) -> Array:
    """Integers as their element types can hold them."""
    return np.clip(np.asarray(x, dtype=np.int64), elements.low, elements.high)


# ---------------------------------------------------------------------------------------------- sampled numbers
@dataclass(frozen=True)
class Pool:
    """Numbers where programs may differ: ``whole`` ones for integers, ``real`` ones."""

    whole: Array
    real: Array

    @staticmethod
    def of(numbers: Iterable[Fraction]) -> Pool:
        """Those numbers, their negatives, and their neighbours."""
        known = sorted({*numbers}, key=lambda x: (abs(x), x))[:_MANY]
        whole: dict[int, None] = {}
        real: dict[float, None] = {}
        for number in known:
            if abs(number) >= _LARGEST:
                continue
            for sign in (1, -1):
                for step in (0, -1, 1):
                    if number.denominator == 1:
                        whole.setdefault(sign * int(number) + step)
                    real.setdefault(float(sign * number) + step)
                if number.denominator != 1:
                    whole.setdefault(sign * int(number))
                    whole.setdefault(sign * (int(number) + 1))
                else:
                    real.setdefault(float(sign * number) + 0.5)
        return Pool(np.array([*whole] or [0], dtype=np.int64), np.array([*real] or [0.0]))


SPARSE = 5  # sparse draws that need no number of a pool


def sparse_draw(number: int, seed: int, pool: Pool) -> Draw:
    """Inputs on which divisors are 0 and rows are masked as a whole: with zeros at random (0), rows of zeros and of
    booleans that are all false (1) or true (2), nothing but these (3 and 4), and then the same with the numbers of the
    pool for 0, which indices may leave their range for."""
    rows = number not in (0, 3, 4) and (number < SPARSE or number % 2 == 0)
    truth = number % 2 == 0
    whole, real = 0, 0.0
    if number >= SPARSE:
        whole = int(pool.whole[(number - SPARSE) % len(pool.whole)])
        real = float(pool.real[(number - SPARSE) % len(pool.real)])

    def draw(kind: Kind, elements: Elements, salt: int) -> Array:
        generator = np.random.default_rng([seed, number, kind.value, salt])
        count = len(elements)
        chosen = np.ones(count, dtype=np.bool_)
        if rows:
            _, of = np.unique(elements.row * (1 << 12) + elements.tensor, return_inverse=True)
            chosen = _fair(int(of.max(initial=-1)) + 1, generator)[of.reshape(-1)]
        elif number == 0:
            chosen = _fair(count, generator)
        if kind is Kind.BOOL:
            return np.asarray(np.where(chosen & (number > 0), truth, _fair(count, generator)), dtype=np.bool_)
        if kind is Kind.INT:
            return np.where(chosen, clipped(np.full(count, whole), elements), inside(elements, generator))
        return np.where(chosen, real, generator.integers(-8, 9, count) / 2)

    return draw


@dataclass(frozen=True)
class _Recipe:
    """``source``: small, pool, wide, limits or mixed numbers. ``fill``: one number for a whole tensor (2: two, at
    random; 3: one for a row). ``linked``: tensors have equal numbers at equal places. ``strange``: the share of
    elements of which this is not true. ``true``: the share of true booleans. ``wild``: indices may leave their
    range. ``lone``: one boolean of every row is not as the others, often the first or the last."""

    source: str
    fill: int = 0
    linked: bool = False
    strange: float = 0.0
    true: float = 0.5
    wild: bool = False
    lone: bool = False


_RECIPES = (
    _Recipe("mixed", wild=True),
    _Recipe("small", linked=True, strange=0.1, true=0.9),
    _Recipe("pool", fill=1, true=1.0),
    _Recipe("small", fill=1, linked=True, true=0.0),
    _Recipe("pool", true=0.1),
    _Recipe("small", fill=2),
    _Recipe("limits", wild=True),
    _Recipe("wide"),
    _Recipe("pool", linked=True, strange=0.2, true=0.0, lone=True),
    _Recipe("positive", true=1.0),
    _Recipe("pool", fill=1, linked=True, strange=0.05, true=0.95),
    _Recipe("mixed", fill=1, true=0.0),
    _Recipe("negative", true=0.5),
    _Recipe("pool", fill=3, strange=0.02),
    _Recipe("small", fill=3, linked=True, strange=0.02),
    _Recipe("small", fill=3, true=1.0, lone=True),
)


def _one_of_each_row(elements: Elements, generator: np.random.Generator) -> Array:
    """One element of every row of every tensor: the first or the last of half of the rows, else any."""
    count = len(elements)
    rows, of = np.unique(elements.row * (1 << 12) + elements.tensor, return_inverse=True)
    of = of.reshape(-1)
    way = generator.integers(0, 4, len(rows))[of]
    key = np.where(
        way == 0, -elements.place, np.where(way == 1, elements.place, generator.integers(0, count + 1, count))
    )
    order = np.lexsort((key, of))  # the last of every row has its largest key
    last = np.append(of[order][1:] != of[order][:-1], True) if count else np.zeros(0, dtype=np.bool_)
    found = np.zeros(count, dtype=np.bool_)
    found[order[last]] = True
    return found


@dataclass(frozen=True)
class Sampler:
    """Sampled inputs. ``seed`` is what all of them depend on."""

    seed: int
    pool: Pool

    def draw(self, number: int, tame: int) -> Draw:
        """The numbers of the run ``number``. The tamer, the likelier it is that a program is defined on them: from 1 on
        indices are in range and divisors are not 0, from 2 on those are positive and numbers small, at ``TAMEST`` all
        are."""
        recipe = _RECIPES[number % len(_RECIPES)]

        def draw(kind: Kind, elements: Elements, salt: int) -> Array:
            generator = np.random.default_rng([self.seed, number, kind.value, salt])
            if kind is Kind.BOOL:
                return self._booleans(recipe, elements, generator)
            real = kind is Kind.FLOAT
            found = self._spread(recipe, elements, generator, real)
            if tame:
                found = np.where(elements.divides & (found == 0), 1, found)
            if tame >= 2:
                small = 1 + np.abs(found) % 8
                found = np.where(elements.divides | (tame >= TAMEST), small, np.clip(found, -8, 8))
            if real:
                return np.asarray(found, dtype=np.float64)
            keep = (elements.bounds > 0) & (tame > 0 or not recipe.wild)
            return clipped(np.where(keep, self._indices(recipe, elements, generator), found), elements)

        return draw

    def _booleans(self, recipe: _Recipe, elements: Elements, generator: np.random.Generator) -> Array:
        if recipe.linked:
            own = generator.random(int(elements.place.max(initial=-1)) + 1)[elements.place]
            other = generator.random(len(elements))
            own = np.where(generator.random(len(elements)) < recipe.strange, other, own)
        else:
            own = generator.random(len(elements))
        found = np.asarray(own < recipe.true, dtype=np.bool_)
        return found ^ _one_of_each_row(elements, generator) if recipe.lone else found

    def _indices(self, recipe: _Recipe, elements: Elements, generator: np.random.Generator) -> Array:
        """Numbers below the bounds, by the same recipe; some runs count from the end, or take the first and last."""
        bounds = np.maximum(elements.bounds, 1)
        own = generator.integers(0, 1 << 40, len(elements))
        own = self._placed(recipe, elements, own, generator)
        found = own % bounds
        if recipe.source == "negative":
            found = found - bounds
        if recipe.source == "limits":
            found = np.where(found % 2 == 0, 0, bounds - 1)
        return np.asarray(found)

    def _spread(self, recipe: _Recipe, elements: Elements, generator: np.random.Generator, real: bool) -> Array:
        count = len(elements)
        if not recipe.linked and recipe.fill in (0, 2):
            return self._source(recipe.source, elements, generator, real, recipe.fill)
        base = self._source(recipe.source, elements, generator, real, recipe.fill)
        found = self._placed(recipe, elements, base, generator)
        strange = generator.random(count) < recipe.strange
        return np.where(strange, self._source("small", elements, generator, real, 0), found)

    def _placed(self, recipe: _Recipe, elements: Elements, own: Array, generator: np.random.Generator) -> Array:
        """The numbers that elements share, by the recipe."""
        if not len(own) or not (recipe.linked or recipe.fill):
            return own
        if recipe.fill == 3:
            which = np.unique(elements.row if recipe.linked else elements.row * (1 << 12) + elements.tensor,
                              return_inverse=True)[1].reshape(-1)  # fmt: skip
        elif recipe.fill:  # one of the numbers for every tensor, or for two halves of it at random
            which = np.zeros_like(elements.tensor) if recipe.linked else elements.tensor * recipe.fill
            which = which + (generator.integers(0, recipe.fill, len(own)) if recipe.fill > 1 else 0)
        else:
            which = elements.place
        chosen = generator.integers(0, len(own), int(which.max()) + 1)
        return own[chosen[which]]

    def _source(self, source: str, elements: Elements, generator: np.random.Generator, real: bool, fill: int) -> Array:
        count = len(elements)
        small = generator.integers(-8, 9, count)
        if fill == 2:
            return np.asarray(small % 2)
        if source == "positive":
            return np.asarray(generator.integers(1, 10, count))
        if source == "negative":
            return np.asarray(generator.integers(-10, 0, count))
        if source == "small":
            halves = small / 2 if real else small % 5 - 2
            return np.where(generator.random(count) < 0.5, small, halves)
        pool = generator.choice(self.pool.real if real else self.pool.whole, count)
        if source == "pool":
            return np.asarray(pool)
        size = np.exp2(generator.uniform(0, 12 if real else 31, count)).astype(np.int64)
        wide = np.where(generator.random(count) < 0.5, size, -size)
        if source == "wide":
            return wide
        if real:
            ends = generator.choice(np.array([0.0, 1.0, -1.0, 0.5, 1e3, -1e3, 65504.0, -65504.0]), count)
        else:
            step = generator.integers(0, 3, count)
            ends = np.where(generator.random(count) < 0.5, elements.low + step, elements.high - step)
            ends = np.where(generator.random(count) < 0.3, step - 1, ends)
        if source == "limits":
            return ends
        which = generator.integers(0, 6, count)
        return np.select([which < 2, which < 4, which < 5], [small, pool, wide], default=ends)
