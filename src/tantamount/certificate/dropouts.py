"""The random numbers of both programs of an execution: masks of dropouts, and all others.

Where the job says that draws of ranks are parts of the specification's, the part is found by the *values* of the
tensors that they are drawn into.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from itertools import product

import numpy as np

from tantamount.certificate.residues import Residues
from tantamount.ir.job import DIFFERENT_SEEDS, SAME_SEED, Assumptions
from tantamount.ir.mesh import Mesh
from tantamount.ir.relation import Replicate, Shard
from tantamount.ir.relation_types import local_box
from tantamount.ir.types import DType, Shape
from tantamount.ops.algebra import Law, Number, Value
from tantamount.ops.draws import kept
from tantamount.semantics.draws import sample
from tantamount.semantics.reference import Array, Reference

__all__ = ["Drawing", "Dropouts"]

_CLOSE = 1e-9  # relative to the largest element: the same number
_APART = 1e-6  # two numbers
_ONE_NUMBER = {"unit": 0.25, "normal": 1.0, "cauchy": 1.0, "exponential": 1.0, "counts": 1, "below": 0, "kept": True}


@dataclass(frozen=True)
class _Drawn:
    like: Value | None
    law: Law
    value: Value
    shape: Shape


@dataclass
class Dropouts:
    """The draws of one execution. Where the job pairs them, the k-th of a rank (of dropouts; of other draws: from a
    law) is the part of the specification's k-th that its operand selects; ``everything``: nothing is dropped, and other
    draws give one number, where that part is not clear from the operands' values. ``fresh``: dropouts of ranks that
    have no counterpart; ``drawn``: the specification's dropouts, ``others`` its other draws."""

    assume: Assumptions
    mesh: Mesh
    seed: int
    everything: bool = False
    drawn: list[_Drawn] = field(default_factory=list[_Drawn])
    others: dict[Law, list[_Drawn]] = field(default_factory=dict[Law, "list[_Drawn]"])
    fresh: list[str] = field(default_factory=list[str])
    unclear: list[str] = field(default_factory=list[str])
    _unknown: set[Hashable] = field(default_factory=set[Hashable])  # draws of which a rank's peers are not known
    _ranks: dict[tuple[Hashable, int], tuple[Value, Array]] = field(
        default_factory=dict[tuple[Hashable, int], "tuple[Value, Array]"]
    )  # by draw and rank: what was drawn, and which elements of the specification's that is

    @property
    def paired(self) -> bool:
        """True if something that ranks draw is a part of what the specification draws."""
        return bool(self.drawn) or (self.assume.dropout and bool(self.others))

    def of_specification(
        self, on: Drawing, like: Value | None, law: Law, shape: Shape, dtype: DType, site: str
    ) -> Value:
        """The value of the specification's next draw of this law."""
        known = self.drawn if law.name == "kept" else self.others.setdefault(law, [])
        value = self._number(on, law, shape, dtype, site, (len(known),), law.name == "kept" or self.assume.dropout)
        known.append(_Drawn(like, law, value, shape))
        return value

    def of_rank(self, rank: int) -> Callable[[Drawing, Value | None, Law, Shape, DType, str], Value]:
        """The function that gives the draws of a rank, in the order in which it asks."""
        count: dict[Hashable, int] = {}

        def draw(on: Drawing, like: Value | None, law: Law, shape: Shape, dtype: DType, site: str) -> Value:
            stream = "kept" if law.name == "kept" else law
            ordinal = count[stream] = count.get(stream, -1) + 1
            known = self.drawn if law.name == "kept" else self.others.get(law, [])
            key = (stream, ordinal)
            if self.assume.dropout and ordinal < len(known) and known[ordinal].law == law:
                whole = known[ordinal]
                places = _found(whole, like, shape, self.mesh, rank)
                value = None if places is None else self._seeded(key, rank, whole.value, places, shape)
                if value is not None:
                    return value
                if places is not None and key not in self._unknown:
                    value = self._number(on, law, shape, dtype, site, (rank, ordinal, 1), True)
                    self._ranks[key, rank] = (value, places)
                    return value
                self.unclear.append(site)
            elif self.assume.dropout and law.name == "kept":
                self.fresh.append(site)
            return self._number(on, law, shape, dtype, site, (rank, ordinal, 1), law.name == "kept")

        return draw

    def _seeded(self, key: Hashable, rank: int, whole: Value, places: Array, shape: Shape) -> Value | None:
        """The part of the specification's draw, or what the first rank with the same seed drew; ``None`` for a rank
        that shares elements with another one whose seed differs, or whose peers are not known."""
        for axis, said in self.assume.seeds:
            for other in self._before(rank, axis):
                if (key, other) not in self._ranks:
                    self._unknown.add(key)
                    return None
                value, theirs = self._ranks[key, other]
                if said == SAME_SEED:
                    if np.shape(value) != shape:
                        self._unknown.add(key)
                        return None
                    self._ranks[key, rank] = (value, theirs)
                    return value
                if said == DIFFERENT_SEEDS and bool(np.isin(places, theirs).any()):
                    return None
        found = _part(whole, places)
        self._ranks[key, rank] = (found, places)
        return found

    def _before(self, rank: int, axis: str) -> list[int]:
        """The ranks before one along a mesh axis."""
        at, k = list(self.mesh.coordinates(rank)), self.mesh.names.index(axis)
        return [self.mesh.rank((*at[:k], c, *at[k + 1 :])) for c in range(at[k])]

    def _number(
        self, on: Drawing, law: Law, shape: Shape, dtype: DType, site: str, key: tuple[int, ...], alike: bool
    ) -> Value:
        if self.everything and alike and not (law.name == "kept" and law.parameter == 1):
            number = on.constant(_ONE_NUMBER[law.name], dtype.kind)
            return on.expand(on.reshape(number, (1,) * len(shape)), shape)
        if law.name == "kept":
            generator = np.random.default_rng([self.seed, 0xD0, *key])
            return np.asarray(sample(law, generator, shape))
        return on.freely(law, shape, dtype, site)


def _part(whole: Value, places: Array) -> Value:
    def part(x: Array) -> Array:
        return x.reshape(-1)[places]

    return whole.each(part) if isinstance(whole, Residues) else part(np.asarray(whole))


def _found(whole: _Drawn, like: Value | None, shape: Shape, mesh: Mesh, rank: int) -> Array | None:
    """The positions in the specification's draw (flat) of the elements of a rank's: all, in order, where nothing was
    drawn into, and shapes are equal."""
    if whole.like is None or like is None:
        return np.arange(int(np.prod(shape, dtype=np.int64))).reshape(shape) if shape == whole.shape else None
    return _places(whole.like, like, mesh, rank)


def _places(whole: Value, like: Value, mesh: Mesh, rank: int) -> Array | None:
    """The positions in the whole (flat) of the elements of a part, by their values; ``None`` if that is not clear."""
    a, b = _compared(whole), _compared(like)
    numbers = np.arange(a.size, dtype=np.int64).reshape(a.shape)
    scale = float(np.abs(a[np.isfinite(a)]).max(initial=0.0))
    close = 0.0 if isinstance(whole, Residues) else _CLOSE * scale
    found: dict[tuple[tuple[int, int], ...], Array] = {}
    options = [Replicate(), *(Shard(d) for d in range(a.ndim))] if a.ndim == b.ndim else []
    for placements in product(*(options if size > 1 else options[:1] for size in mesh.sizes)):
        box = local_box(a.shape, placements, mesh, rank)
        if box in found or tuple(high - low for low, high in box) != b.shape:
            continue
        cut = tuple(slice(low, high) for low, high in box)
        if np.allclose(a[cut], b, rtol=0, atol=close, equal_nan=True):
            found[box] = numbers[cut]
    if found:
        return next(iter(found.values())) if len(found) == 1 else None
    order = np.argsort(a, axis=None)
    ranked = a.reshape(-1)[order]
    apart = 0.0 if isinstance(whole, Residues) else _APART * scale
    if ranked.size < 2 or not np.isfinite(ranked).all() or np.any(np.diff(ranked) <= apart):
        return None
    right = np.clip(np.searchsorted(ranked, b), 1, ranked.size - 1)
    nearest = np.where(np.abs(ranked[right] - b) < np.abs(ranked[right - 1] - b), right, right - 1)
    return order[nearest] if bool(np.all(np.abs(ranked[nearest] - b) <= close)) else None


def _compared(x: Value) -> Array:
    """Numbers to recognise elements by; a residue is below 2^53."""
    if isinstance(x, Residues):
        return np.where(x.finite, x.modp, np.nan)
    return np.asarray(x, dtype=np.float64)


class Drawing(Reference):
    """An interpretation whose draws come from elsewhere: from ``drawn``."""

    drawn: Callable[[Drawing, Value | None, Law, Shape, DType, str], Value]

    def mask(self, like: Value, shape: Shape, p: Number, site: str) -> Value:
        """The keep-mask."""
        return self.drawn(self, like, kept(p), shape, DType.BOOL, site)

    def draw(self, law: Law, like: Value | None, shape: Shape, dtype: DType, site: str) -> Value:
        """Random numbers."""
        return self.drawn(self, like, law, shape, dtype, site)

    def freely(self, law: Law, shape: Shape, dtype: DType, site: str) -> Value:
        """Random numbers that belong to no others."""
        return super().draw(law, None, shape, dtype, site)
