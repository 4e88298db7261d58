"""The numeric meaning of a form, independent of how forms are built: what property tests compare with the reference.

Everything is float64. An undefined value (a negative power of 0, a root of a negative number, the log of a number that
is not positive, an element outside its tensor) is NaN; a product with a boolean factor that is 0 is 0, whatever its
other factors are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tantamount.calculus.affine import Coordinate
from tantamount.calculus.atoms import Atom, Store
from tantamount.calculus.forms import Form
from tantamount.calculus.terms import IOTA, Exponent, Factors, Polynomial
from tantamount.errors import InternalError, Unsupported
from tantamount.ops.arrays import spread
from tantamount.ops.functions import FUNCTIONS, evaluate_rows

__all__ = ["Evaluator", "evaluate"]

Array = NDArray[np.float64]
Positions = NDArray[np.int64]
Environment = Mapping[int, Positions]  # variable -> its values; all arrays broadcast together

_NOT_GIVEN = ("prime", "infinity", "table")  # kinds of leaves whose values no execution draws
_BITWISE = ("gcd", "bitwise_and", "bitwise_or", "bitwise_xor")


def evaluate(store: Store, form: Form, leaves: Mapping[Any, NDArray[Any]]) -> Array:
    """The tensor that ``form`` denotes, float64, of the form's shape. ``leaves`` gives the value of every leaf by
    ``(kind, name)``, or by its name alone.

    Raises :class:`InternalError` for a leaf without a value and for an atom that has no meaning, and
    :class:`Unsupported` where nested sums have too many points."""
    return Evaluator(store, leaves).form(form)


class Evaluator:
    """Evaluation with one memo: atoms are evaluated once per set of coordinates."""

    def __init__(self, store: Store, leaves: Mapping[Any, NDArray[Any]]) -> None:
        self.store = store
        self.leaves = leaves
        self.outside = np.nan  # what an element outside its tensor is taken to be
        self._memo: dict[tuple[int, bytes], Array] = {}

    def form(self, form: Form) -> Array:
        """The tensor, of the form's shape. Raises :class:`InternalError` unless the pieces tile it."""
        part = self._part_of_leaf(form)
        if part is not None:
            return part
        out = np.full(form.sizes, np.nan)
        count = np.zeros(form.sizes, dtype=np.int64)
        n = len(form.sizes)
        for box, x in form.pieces:
            where = tuple(slice(low, high) for low, high in box)
            axes = {
                v: np.arange(low, high, dtype=np.int64).reshape((1,) * v + (-1,) + (1,) * (n - v - 1))
                for v, (low, high) in enumerate(box)
            }
            count[where] += 1
            out[where] = self.polynomial(x, axes)
        if (count != 1).any():
            raise InternalError(f"the boxes of a form of shape {form.shape} are not a partition")
        return out.reshape(form.shape)

    def _part_of_leaf(self, form: Form) -> Array | None:
        """The tensor if it is a block of a leaf, its dimensions in any order and repeated along others, as most inputs
        of programs are: read without listing the points, not to be written to. ``None`` otherwise."""
        if len(form.pieces) != 1 or len(form.pieces[0][1]) != 1:
            return None
        box, (((factors, c),)) = form.pieces[0]
        if c != 1 or len(factors) != 1 or any(low != 0 for low, _ in box):
            return None
        number, exponent, index = factors[0]
        atom = self.store.atoms[number]
        if exponent != 1 or number == IOTA or atom.op != "leaf" or atom.attributes[0] in _NOT_GIVEN:
            return None
        array = self._given(*atom.attributes)
        if array.ndim != len(index) or tuple(high for _, high in box) != form.sizes:
            return None
        where: list[slice | int] = []
        order: list[int] = []  # the axes of the block
        for (parts, start), n in zip(index, array.shape, strict=True):
            count = 1
            for v, stride in sorted(parts, key=lambda part: part[1]):  # axes one inside the other: a range of numbers
                if stride != count:
                    return None
                count *= form.sizes[v]
            if start < 0 or start + count > n:
                return None
            order += [v for v, _ in sorted(parts, key=lambda part: -part[1])]
            where.append(slice(start, start + count) if parts else start)
        if len({*order}) < len(order):
            return None
        block = array[tuple(where)].reshape([form.sizes[v] for v in order])
        block = np.transpose(block, sorted(range(len(order)), key=order.__getitem__))
        block = block.reshape([n if v in order else 1 for v, n in enumerate(form.sizes)])
        if bool((block == 0).any()):
            block = block + 0.0  # no -0.0
        return spread(block, tuple(form.sizes)).reshape(form.shape)

    def polynomial(self, x: Polynomial, axes: Environment) -> Array:
        """The value of a Polynomial, broadcast over the shapes of the variables that it mentions."""
        with np.errstate(all="ignore"):
            total: Array = np.zeros((), dtype=np.float64)
            for m, c in x:
                total = total + float(c) * self.product(m, axes)
            return total

    def product(self, factors: Factors, axes: Environment) -> Array:
        """The product of powers of atoms; 0 where a boolean factor is 0."""
        total: Array = np.ones((), dtype=np.float64)
        dead: NDArray[np.bool_] = np.zeros((), dtype=np.bool_)
        for a, e, index in factors:
            value = self.atom(a, [_coordinate(c, axes) for c in index])
            if self.store.atoms[a].facts.boolean and e > 0:
                dead = dead | (value == 0)
            total = total * _power(value, e)
        return np.where(dead, 0.0, total)

    def atom(self, number: int, index: Sequence[Positions]) -> Array:
        """The value of an atom at coordinates, of their common shape."""
        atom = self.store.atoms[number]
        if len(index) != atom.arity:
            raise InternalError(f"atom {number} has {atom.arity} coordinates, not {len(index)}")
        if number == IOTA:
            return index[0].astype(np.float64)
        if atom.op == "leaf" and index and atom.attributes[0] not in _NOT_GIVEN:
            array = self._given(*atom.attributes)
            if array.ndim == len(index) and all(
                p.size and p.min() >= 0 and p.max() < n for p, n in zip(index, array.shape, strict=True)
            ):
                return array[tuple(index)]  # all inside: read without listing the points
        if not index:
            return self._at(atom, np.zeros((0, 1), dtype=np.int64))[0]
        shape = np.broadcast_shapes(*(p.shape for p in index))
        points = np.stack([np.broadcast_to(p, shape).ravel() for p in index])
        if points.shape[1] > 1:
            low = points.min(axis=1, keepdims=True)
            extents = tuple(int(n) for n in (points.max(axis=1, keepdims=True) - low + 1)[:, 0])
            codes = np.ravel_multi_index(tuple(points - low), extents)
            unique, inverse = np.unique(codes, return_inverse=True)
            if len(unique) < points.shape[1]:
                distinct = np.stack(np.unravel_index(unique, extents)).astype(np.int64) + low
                return self._at(atom, distinct)[inverse.ravel()].reshape(shape)
        return self._at(atom, points).reshape(shape)

    def _at(self, atom: Atom, points: Positions) -> Array:
        """Values at points (coordinates x points)."""
        key = (atom.number, points.tobytes())
        found = self._memo.get(key)
        if found is None:
            found = self._memo[key] = np.array(np.broadcast_to(self._compute(atom, points), points.shape[1:]))
        return found

    def _compute(self, atom: Atom, points: Positions) -> Array:
        if atom.op == "leaf":
            return self._leaf(atom, points)
        axes = dict(enumerate(points))
        if atom.op == "sum":
            return self._sum(atom, points)
        if atom.op == "max":
            members = [self._members(m, axes) for m, _ in atom.arguments[0]]
            return np.concatenate([v for _, values in members for v in values], axis=-1).max(axis=-1)
        if atom.op in ("polynomial", "element", "not"):  # the argument of a "not" is the negation already
            return self.polynomial(atom.arguments[0], axes)
        if atom.op == "exp":
            return np.exp(self.polynomial(atom.arguments[0], axes))
        if atom.op == "log":
            x = self.polynomial(atom.arguments[0], axes)
            return np.where(x > 0, np.log(np.where(x > 0, x, 1.0)), np.nan)
        if atom.op in ("less", "equal"):
            x = self.polynomial(atom.arguments[0], axes) + self.polynomial(atom.arguments[1], axes)
            truth = (x < 0) if atom.op == "less" else (x == 0)
            return np.where(np.isnan(x), np.nan, truth.astype(np.float64))
        if atom.op in FUNCTIONS:
            return _function(
                atom.op, [np.broadcast_to(self.polynomial(x, axes), points.shape[1:]) for x in atom.arguments]
            )
        if atom.op in ("pair", "fact", "place"):
            raise InternalError(f"an atom with operator {atom.op!r} has no value")
        return self._row(atom, axes)

    def _leaf(self, atom: Atom, points: Positions) -> Array:
        kind, name = atom.attributes
        if kind == "prime":
            return np.full(points.shape[1:], float(name))
        if kind == "infinity":
            return np.full(points.shape[1:], np.inf)
        if kind == "table":
            shape, data = name
            array = np.array([float(v) for v in data], dtype=np.float64).reshape(shape)
        else:
            array = self._given(kind, name)
        if len(points) != array.ndim:
            raise InternalError(f"{kind} {name!r} has {array.ndim} dimensions, not {len(points)}")
        inside = np.ones(points.shape[1:], dtype=np.bool_)
        for p, n in zip(points, array.shape, strict=True):
            inside &= (p >= 0) & (p < n)
        at = tuple(np.where(inside, p, 0) for p in points)
        return np.where(inside, array[at], self.outside)

    def _given(self, kind: Any, name: Any) -> Array:
        for key in ((kind, name), name):
            if key in self.leaves:
                return np.asarray(self.leaves[key], dtype=np.float64)
        raise InternalError(f"no value for the {kind} {name!r}")

    def _bound(self, atom: Atom, axes: Environment) -> tuple[dict[int, Positions], int]:
        """The variables of a sum's summand: axes with one more dimension, in which the bound variables run together."""
        count = prod(atom.ranges)
        points = count * max(1, prod(np.broadcast_shapes(*(p.shape for p in axes.values()))))
        if self.store.effort.exceeds("evaluated_points", points):
            raise Unsupported(f"a sum evaluated at {points} points (limit-evaluated-points)")
        inner = {v: p[..., np.newaxis] for v, p in axes.items()}
        digits = np.unravel_index(np.arange(count), atom.ranges)
        for j, digit in enumerate(digits):
            inner[-1 - j] = digit.astype(np.int64)
        return inner, count

    def _sum(self, atom: Atom, points: Positions) -> Array:
        inner, count = self._bound(atom, dict(enumerate(points)))
        ((summand, c),) = atom.arguments[0]
        terms = np.broadcast_to(self.product(summand, inner), (*points.shape[1:], count))
        return float(c) * terms.sum(axis=-1)

    def _members(self, factors: Factors, axes: Environment) -> tuple[Atom, list[Array]]:
        """One term of a formal set of ``element`` or ``pair`` atoms: the last atom, and the values of each of its
        arguments, with all members along one more dimension."""
        ((a, e, index),) = factors
        atom = self.store.atoms[a]
        points = {k: _coordinate(c, axes) for k, c in enumerate(index)}
        shape = np.broadcast_shapes(*(p.shape for p in axes.values()))
        if atom.op == "sum" and e == 1:
            inner, count = self._bound(atom, points)
            ((((b, d, where),), _),) = atom.arguments[0]
            last = self.store.atoms[b]
            axes = {k: _coordinate(c, inner) for k, c in enumerate(where)}
        else:
            last, d, count = atom, e, 1
            axes = {k: p[..., np.newaxis] for k, p in points.items()}
        if last.op not in ("element", "pair") or d != 1:
            raise InternalError(f"a formal set with a member {last.op!r}")
        return last, [np.broadcast_to(self.polynomial(x, axes), (*shape, count)) for x in last.arguments]

    def _row(self, atom: Atom, axes: Environment) -> Array:
        """A function of whole rows: (position, values) pairs in order of position, evaluated, read at the
        coordinate."""
        where, *rows = atom.arguments
        shape = np.broadcast_shapes(*(p.shape for p in axes.values()))
        values = [self._elements(pairs, axes, shape) for pairs in rows]
        *attributes, k = atom.attributes
        at = np.broadcast_to(self.polynomial(where, axes), shape).astype(np.int64)[..., np.newaxis]
        sizes = [int(at.max(initial=0)) + 1] * (k + 1)
        result = np.asarray(evaluate_rows(atom.op, values, tuple(attributes), sizes)[k], dtype=np.float64)
        undefined = np.isnan(sum(x.sum(axis=-1) for x in values))
        return np.where(undefined, np.nan, np.take_along_axis(result, at, axis=-1)[..., 0])

    def _elements(self, pairs: Polynomial, axes: Environment, shape: tuple[int, ...]) -> Array:
        """The elements of a row in order of position, along one more dimension."""
        if not pairs:
            return np.zeros((*shape, 0))
        found = [self._members(m, axes)[1] for m, _ in pairs]
        positions, values = (np.concatenate(parts, axis=-1) for parts in zip(*found, strict=True))
        order = np.argsort(positions, axis=-1, kind="stable")
        expected = np.broadcast_to(np.arange(order.shape[-1], dtype=np.float64), order.shape)
        if any(c != 1 for _, c in pairs) or not np.array_equal(np.take_along_axis(positions, order, axis=-1), expected):
            raise InternalError("a row does not have every position once")
        return np.take_along_axis(values, order, axis=-1)


def _coordinate(c: Coordinate, axes: Environment) -> Positions:
    total: Positions = np.array(c.offset, dtype=np.int64)
    for v, s in c.parts:
        total = total + s * axes[v]
    return total


def _power(x: Array, e: Exponent) -> Array:
    """The real power: NaN at x < 0 unless e is an integer, and at x = 0 if e is negative."""
    if e == 1:
        return x
    undefined = np.isnan(x)
    if Fraction(e).denominator > 1:
        undefined = undefined | (x < 0)
    if e < 0:
        undefined = undefined | (x == 0)
    return np.where(undefined, np.nan, np.power(np.where(undefined, 1.0, x), float(e)))


def _function(name: str, xs: Sequence[Array]) -> Array:
    undefined = np.isnan(np.stack(xs)).any(axis=0)
    filled = [np.where(undefined, 1.0, x) for x in xs]
    if name in _BITWISE:
        filled = [x.astype(np.int64) for x in filled]
    return np.where(undefined, np.nan, np.asarray(FUNCTIONS[name].evaluate(*filled), dtype=np.float64))
