"""The operators' definitions over residues: exact arithmetic for floats, and integers as the reference has them.

What has no meaning in a finite field is replaced: a function such as erf by one of which only equality of arguments is
known, the order of the reals by a random one. Two programs that agree then agree for every such function, and for the
order that was drawn; two programs that do not may still agree over the reals, which is why every value remembers what
was replaced on the way to it. Floats that become integers have no stand-in: :class:`Unsupported`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import reduce
from math import isinf, isnan
from typing import cast
from zlib import crc32

import numpy as np

from tantamount.certificate import residues
from tantamount.certificate.literals import stands_for
from tantamount.certificate.residues import Field, Residues
from tantamount.errors import DataDependent, Unsupported
from tantamount.ir.types import DType, Kind, Shape
from tantamount.ops.algebra import Doubt, Interpretation, Law, Number, PerRank, Scalar, Value
from tantamount.ops.functions import DISTINCT_IN_A_ROW, FUNCTIONS, evaluate_rows
from tantamount.semantics.reference import Array, Reference

__all__ = ["Exact"]

_ORDER = frozenset({"the order of the reals"})


class Exact(Reference):
    """One rank's meaning of the primitives, floats being :class:`Residues`. ``readings``: literals of all digits are
    the numbers that they round (:mod:`tantamount.certificate.literals`). ``discrete`` collects what integers and
    booleans were made from that has no meaning here: they do not remember it themselves."""

    def doubted(self, x: Value, doubt: Doubt) -> Value:
        """Residues know where they are undefined."""
        return x

    def contract_chosen(
        self, operands: Sequence[tuple[Value, tuple[int, ...]]], result: tuple[int, ...], choices: int
    ) -> Value:
        return self.contract(operands, result)

    def contract_nonzero(self, operands: Sequence[tuple[Value, tuple[int, ...]]], result: tuple[int, ...]) -> Value:
        return self.contract(operands, result)

    def __init__(
        self,
        of: Field,
        *,
        rank: int = 0,
        seed: int = 0,
        readings: bool = False,
        discrete: set[str] | None = None,
    ) -> None:
        super().__init__(rank=rank, seed=seed)
        self.field = of
        self.readings = readings
        self.discrete: set[str] = set() if discrete is None else discrete

    # -- sources
    def constant(self, value: Scalar, kind: Kind) -> Value:
        if kind is not Kind.FLOAT:
            return super().constant(value, kind)
        return self._numbers([value.values[self.rank] if isinstance(value, PerRank) else value], ())

    def table(self, data: tuple[Number, ...], shape: Shape, kind: Kind) -> Value:
        return self._numbers(data, shape) if kind is Kind.FLOAT else super().table(data, shape, kind)

    def _numbers(self, data: Sequence[Number], shape: Shape) -> Residues:
        """Numbers as written; with ``readings`` those that stand for roots and fractions are these."""
        if any(isinstance(x, float) and isnan(x) for x in data):
            raise Unsupported("the value NaN")
        exact = [x if isinstance(x, float) and isinf(x) else Fraction(repr(x)) if isinstance(x, float) else Fraction(x)
                 for x in data]  # fmt: skip
        plain = residues.number(exact, shape, self.field)
        if self.readings and len(exact) == 1 and isinstance(exact[0], Fraction) and (read := stands_for(exact[0])):
            root = residues.power(residues.number([read.radicand], shape, self.field), read.exponent, self.field)
            sign = residues.number([Fraction(1 if exact[0] > 0 else -1)], shape, self.field)
            return replace(residues.multiply(root, sign, self.field), degree=plain.degree)
        return plain

    def unknown(self, shape: Shape, dtype: DType, site: str) -> Value:
        if dtype.kind is not Kind.FLOAT:
            return super().unknown(shape, dtype, site)
        self._unknowns += 1
        seeds = [self.seed, self.rank, crc32(site.encode()), self._unknowns]
        return residues.uniform(shape, np.random.default_rng(seeds), self.field)

    def draw(self, law: Law, like: Value | None, shape: Shape, dtype: DType, site: str) -> Value:
        return (
            self.unknown(shape, dtype, site)
            if dtype.kind is Kind.FLOAT
            else super().draw(law, like, shape, dtype, site)
        )

    # -- layout
    def _laid(self, x: Value, change: Callable[[Array], Array]) -> Value:
        return x.each(change) if isinstance(x, Residues) else change(x)

    def permute(self, x: Value, order: tuple[int, ...]) -> Value:
        return self._laid(x, lambda part: super(Exact, self).permute(part, order))

    def reshape(self, x: Value, shape: Shape) -> Value:
        return self._laid(x, lambda part: super(Exact, self).reshape(part, shape))

    def expand(self, x: Value, shape: Shape) -> Value:
        return self._laid(x, lambda part: super(Exact, self).expand(part, shape))

    def slice(self, x: Value, dim: int, start: int, stop: int, step: int) -> Value:
        return self._laid(x, lambda part: super(Exact, self).slice(part, dim, start, stop, step))

    def flip(self, x: Value, dim: int) -> Value:
        return self._laid(x, lambda part: super(Exact, self).flip(part, dim))

    def concat(self, xs: Sequence[Value], dim: int) -> Value:
        if not _residues(*xs):
            return super().concat(xs, dim)
        return _joined(xs, lambda parts: np.concatenate(list(parts), axis=dim))

    # -- pointwise
    def convert(self, x: Value, source: Kind, target: Kind) -> Value:
        if source is Kind.FLOAT and target is not Kind.FLOAT:
            raise Unsupported("a real number that becomes an integer")
        if target is not Kind.FLOAT or isinstance(x, Residues):
            return x if isinstance(x, Residues) else super().convert(x, source, target)
        return residues.of_integers(x, self.field)

    def add(self, x: Value, y: Value) -> Value:
        return residues.add(x, y, self.field) if _residues(x, y) else super().add(x, y)

    def mul(self, x: Value, y: Value) -> Value:
        return residues.multiply(x, y, self.field) if _residues(x, y) else super().mul(x, y)

    def power(self, x: Value, exponent: Fraction) -> Value:
        return residues.power(x, exponent, self.field) if _residues(x) else super().power(x, exponent)

    def exp(self, x: Value) -> Value:
        return residues.exponential(x, self.field, self.seed)

    def log(self, x: Value) -> Value:
        return self._function("log", [x])

    def function(self, name: str, xs: Sequence[Value]) -> Value:
        return self._function(name, xs) if _residues(*xs) else super().function(name, xs)

    def _function(self, name: str, xs: Sequence[Residues]) -> Residues:
        """An uninterpreted function; but odd, even and commutative ones are, and pi is a number."""
        if name == "pi_times":
            pi = residues.uniform((), np.random.default_rng([self.seed, 0x314159]), self.field)
            return residues.multiply(pi.each(lambda part: np.broadcast_to(part, xs[0].shape)), xs[0], self.field)
        if name == "isnan":
            return residues.of_integers(xs[0].undefined, self.field)
        known = FUNCTIONS.get(name)
        if known is None or not (known.odd or known.even):
            return residues.hashed(name, xs, self.field, self.seed)
        (x,) = xs
        large = x.modp > self.field.p // 2
        size = np.where(large, self.field.p - x.modp, x.modp)
        out = residues.hashed(name, [replace(x, modp=size)], self.field, self.seed)
        if known.odd:
            out = self.where(large, residues.multiply(out, self._minus_one(x.shape), self.field), out)
        if known.at_zero is None:
            return out
        zero = residues.of_integers(np.full(x.shape, known.at_zero), self.field)
        return self.where(x.finite & (x.modp == 0), zero, out)

    def _minus_one(self, shape: Shape) -> Residues:
        return residues.of_integers(np.full(shape, -1), self.field)

    def less(self, x: Value, y: Value) -> Value:
        if not _residues(x, y):
            return super().less(x, y)
        self.discrete |= _ORDER
        return np.asarray(residues.keys(x, self.seed) < residues.keys(y, self.seed))

    def equal(self, x: Value, y: Value) -> Value:
        if not _residues(x, y):
            return super().equal(x, y)
        return np.asarray((x.infinite == y.infinite) & ((x.infinite != 0) | (x.modp == y.modp)))

    def maximum(self, x: Value, y: Value) -> Value:
        if not _residues(x, y):
            return super().maximum(x, y)
        found = self.where(residues.keys(x, self.seed) < residues.keys(y, self.seed), y, x)
        return replace(found, loose=found.loose | _ORDER, undefined=x.undefined | y.undefined)

    def where(self, condition: Value, x: Value, y: Value) -> Value:
        if not _residues(x, y):
            return super().where(condition, x, y)
        chosen = np.asarray(condition, dtype=np.bool_)
        return _joined([x, y], lambda parts: np.where(chosen, parts[0], parts[1]))

    # -- contraction, reduction, indexing
    def contract(self, operands: Sequence[tuple[Value, tuple[int, ...]]], result: tuple[int, ...]) -> Value:
        if not _residues(*(x for x, _ in operands)):
            return super().contract(operands, result)
        return residues.contract(operands, result, self.field)

    def maximum_over(self, x: Value, dims: tuple[int, ...]) -> Value:
        if not isinstance(x, Residues):
            return super().maximum_over(x, dims)
        kept = tuple(k for k in range(len(x.shape)) if k not in dims)

        def last(part: Array) -> Array:
            moved = np.transpose(part, (*kept, *dims))
            return moved.reshape((*moved.shape[: len(kept)], -1))

        largest = np.argmax(last(residues.keys(x, self.seed)), axis=-1)[..., np.newaxis]
        found = x.each(lambda part: np.take_along_axis(last(part), largest, axis=-1)[..., 0])
        return replace(found, loose=found.loose | _ORDER, undefined=last(x.undefined).any(axis=-1))

    def gather(self, x: Value, indices: Sequence[Value | None]) -> Value:
        if not isinstance(x, Residues):
            return super().gather(x, indices)
        found = x.each(lambda part: super(Exact, self).gather(part, indices))
        inside = super().gather(np.ones(x.shape, dtype=np.int8), indices)
        return replace(found, undefined=found.undefined | (inside == 0))

    def scatter(self, x: Value, indices: Sequence[Value | None], source: Value, accumulate: bool) -> Value:
        if not (isinstance(x, Residues) and isinstance(source, Residues)):
            return super().scatter(cast("Array", x), indices, cast("Array", source), accumulate)

        def written(target: Array, new: Array, adding: bool) -> Array:
            return super(Exact, self).scatter(target, indices, new, adding)

        q = x.modq if x.modq is None or source.modq is None else written(x.modq, source.modq, accumulate) % self.field.q
        p = written(x.modp, source.modp, accumulate) % self.field.p
        count = written(np.zeros(x.shape, dtype=np.int64), np.ones(source.shape, dtype=np.int64), True)
        flags = [written(a.astype(np.int64), b.astype(np.int64), accumulate) for a, b in
                 ((x.undefined, source.undefined), (x.infinite, source.infinite))]  # fmt: skip
        undefined = flags[0] > 0
        undefined = undefined | (flags[1] != 0) if accumulate else undefined | (count > 1)
        infinite = np.zeros_like(flags[1]) if accumulate else flags[1]
        degree = x.degree.plus(source.degree)
        known = q if source.modq is not None else None
        return Residues(p, known, undefined, infinite.astype(np.int8), x.loose | source.loose, degree)

    def rows(
        self, name: str, xs: Sequence[Value], attributes: tuple[Number | str, ...], results: Sequence[int]
    ) -> tuple[Value, ...]:
        if not _residues(*xs):
            return super().rows(name, xs, attributes, results)
        if name in DISTINCT_IN_A_ROW:  # positions in the order
            self.discrete |= _ORDER
            ordered = [residues.keys(x, self.seed).astype(np.float64) for x in xs]
            return tuple(np.asarray(y) for y in evaluate_rows(name, ordered, attributes, results))
        return residues.hashed_rows(name, xs, attributes, results, self.field, self.seed)

    # -- what data decide
    def nonzero(self, x: Value) -> Value:
        if _residues(x):
            raise DataDependent("which real numbers are not zero depends on data")
        return super().nonzero(x)

    def number(self, x: Value) -> Number:
        if _residues(x):
            raise Unsupported("a real number that decides a size or an attribute")
        return super().number(x)

    # -- process groups
    def enter_group(self, x: Value, shape: Shape, group: str) -> tuple[Interpretation, Value]:
        return self, self.reshape(x, (1, *shape))

    def leave_group(self, y: Value, shape: Shape, group: str) -> Value:
        return self.reshape(y, shape)


def _residues(*xs: Value) -> bool:
    return any(isinstance(x, Residues) for x in xs)


def _joined(xs: Sequence[Residues], join: Callable[[Sequence[Array]], Array]) -> Residues:
    """The elements of several tensors in one."""
    q = [x.modq for x in xs if x.modq is not None]
    degree = reduce(residues.Degree.plus, (x.degree for x in xs))
    return Residues(
        join([x.modp for x in xs]),
        join(q) if len(q) == len(xs) else None,
        join([x.undefined for x in xs]),
        join([x.infinite for x in xs]),
        frozenset[str]().union(*(x.loose for x in xs)),
        degree,
    )
