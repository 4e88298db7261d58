"""The places where a program divides or takes a root or logarithm of what may be 0 or negative, found without inputs.

An abstract run over the primitives. A value is, for every element, the set of signs that it may have; what depends on
no input is computed. So the exponentials of scores under a known mask of minus infinity are 0 where they are masked,
and a sum over a row with an unmasked element is positive. Where that does not show that a power or a logarithm is
defined, nothing is known: an execution may show that it is not.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import prod
from typing import Any

import numpy as np

from tantamount.errors import DataDependent, Unsupported
from tantamount.ir.graph import Graph, Node
from tantamount.ir.job import SAME_NAME, Job
from tantamount.ir.types import DType, Kind, Shape
from tantamount.ops.algebra import Interpretation, Number, Scalar, Tensor
from tantamount.ops.builder import Builder
from tantamount.ops.execute import Environment, constant_type, recorded_constant, run_node
from tantamount.ops.functions import FUNCTIONS
from tantamount.semantics.reference import Array, IntegerOverflow, Reference

__all__ = ["may_be_undefined"]

_LARGE = 1 << 20  # elements: no number is known of larger tensors, and no sign of single elements
_PRODUCTS = 1 << 22  # products of a contraction: beyond, the signs of an operand are those of whole rows
_LOW, _NEGATIVE, _ZERO, _POSITIVE, _HIGH = _MARKS = tuple(1 << k for k in range(5))  # minus infinity ... infinity
_FINITE = _NEGATIVE | _ZERO | _POSITIVE
_NOT_NEGATIVE = _ZERO | _POSITIVE


def may_be_undefined(job: Job) -> frozenset[str]:
    """Nodes of the specification at which a divisor is not shown to be not 0, or the argument of a root or logarithm
    not to be negative."""
    on = _Signs()
    environment: Environment = {}
    found: set[str] = set()
    for number, node in enumerate(job.specification.nodes):
        if node.op == "input":
            if node.type is not None:
                kind, unsigned = node.type.stored.dtype.kind, node.type.dtype.label.startswith("uint")
                signs = _NOT_NEGATIVE if kind is Kind.BOOL or unsigned else _FINITE
                value = _everywhere(signs, node.type.stored.shape)
                environment[node.name] = Tensor(node.type.shape, node.type.dtype, value)
            continue
        on.open = False
        try:
            builder = Builder(on, node.name)
            environment[node.name] = run_node(
                job.specification, node, builder, environment, lambda g, n, b: _constant(job, g, n, b), None
            )
        except (Unsupported, IntegerOverflow):
            # beyond what is interpreted here: nothing is known of it, nor of what follows
            return frozenset(found | {other.name for other in job.specification.nodes[number:]})
        if on.open:
            found.add(node.name)
    return frozenset(found)


def _constant(job: Job, graph: Graph, node: Node, builder: Builder) -> Tensor:
    assumed = job.assume.constants
    if node.target in graph.constants:
        return recorded_constant(graph, node, builder)
    type_ = constant_type(graph, node)
    if assumed is not None and assumed != SAME_NAME:
        return builder.full(type_.shape, Fraction(assumed), type_.dtype)
    return Tensor(type_.shape, type_.dtype, _everywhere(_FINITE, type_.stored.shape))


# ---------------------------------------------------------------------------------------------- sets of signs
@dataclass(frozen=True, eq=False)
class _Sign:
    """A set of signs for every element, and the numbers themselves where they are known.

    ``signs`` has the dimensions of ``shape``; one of size 1 stands for a dimension along which all sets are equal."""

    signs: Array
    shape: Shape
    known: Array | None = None


def _everywhere(signs: int, shape: Shape) -> _Sign:
    return _Sign(np.full((1,) * len(shape), signs, np.uint8), shape)


def _of(array: Array) -> _Sign:
    """The signs of numbers."""
    whole = np.asarray(array)
    repeated = [step == 0 and n > 1 for n, step in zip(whole.shape, whole.strides, strict=True)]
    x = whole[tuple(slice(0, 1) if again else slice(None) for again in repeated)]
    signs = np.where(x > 0, _POSITIVE, np.where(x < 0, _NEGATIVE, _ZERO)).astype(np.uint8)
    if x.dtype.kind == "f":
        infinite = np.isinf(x)
        signs = np.where(infinite, np.where(x > 0, _HIGH, _LOW), signs).astype(np.uint8)
        signs[np.isnan(x)] = _FINITE | _LOW | _HIGH
    return _Sign(signs, whole.shape, whole)


def _sum(a: int, b: int) -> int:
    low, high = min(a, b), max(a, b)
    if low == _LOW:
        return _LOW
    if high == _HIGH:
        return _HIGH
    if low == _NEGATIVE and high == _POSITIVE:
        return _FINITE
    return low if high == _ZERO else high


def _product(a: int, b: int) -> int:
    """Of 0 and an infinity there is none."""
    if _ZERO in (a, b):
        return _ZERO
    infinite = bool((a | b) & (_LOW | _HIGH))
    if (a < _ZERO) == (b < _ZERO):
        return _HIGH if infinite else _POSITIVE
    return _LOW if infinite else _NEGATIVE


def _table(of: Callable[[int, int], int]) -> Array:
    """The table of an operation on two sets of signs, from its table on two signs."""
    found = np.zeros((32, 32), np.uint8)
    for a in _MARKS:
        for b in _MARKS:
            sets = np.arange(32)
            found[np.ix_((sets & a) != 0, (sets & b) != 0)] |= of(a, b)
    return found


def _each(of: Callable[[int], int]) -> Array:
    """The table of an operation on a set of signs, from its table on a sign."""
    found = np.zeros(32, np.uint8)
    for a in _MARKS:
        found[(np.arange(32) & a) != 0] |= of(a)
    return found


_SUM, _PRODUCT, _MAXIMUM = _table(_sum), _table(_product), _table(max)
_SQUARE = _each(lambda a: _product(a, a))
_EXP = _each(lambda a: {_LOW: _ZERO, _HIGH: _HIGH}.get(a, _POSITIVE))
_LOG = _each(lambda a: {_HIGH: _HIGH, _ZERO: _LOW, _POSITIVE: _FINITE}.get(a, _FINITE))
_ABS = _each(lambda a: {_LOW: _HIGH, _NEGATIVE: _POSITIVE}.get(a, a))
_BOUNDED = _each(lambda a: {_LOW: _NEGATIVE, _HIGH: _POSITIVE}.get(a, a))
_TRUTH = _each(lambda a: _ZERO if a == _ZERO else _POSITIVE)


def _power(exponent: Fraction) -> Array:
    whole = exponent.denominator == 1
    even = not whole or exponent.numerator % 2 == 0

    def of(a: int) -> int:
        if not exponent:
            return _POSITIVE
        if not whole and a in (_LOW, _NEGATIVE):
            return 0  # there is none
        a = int(_ABS[a]) if even else a
        if exponent < 0:  # one over an infinity is 0
            return _ZERO if a in (_LOW, _HIGH) else 0 if a == _ZERO else a
        return a

    return _each(of)


def _either(signs: Array, axes: Sequence[int]) -> Array:
    """The signs of any of the elements along some axes, which are kept."""
    return np.bitwise_or.reduce(signs, axis=tuple(axes), keepdims=True) if axes else signs


def _folded(table: Array, signs: Array, axis: int) -> Array:
    """An operation over the sets along an axis, two by two; the axis is kept."""
    while (n := signs.shape[axis]) > 1:
        lead = (slice(None),) * axis
        half = n // 2
        paired = table[signs[(*lead, slice(0, half))], signs[(*lead, slice(half, 2 * half))]]
        signs = np.concatenate([paired, signs[(*lead, slice(2 * half, n))]], axis=axis) if n % 2 else paired
    return signs


def _full(x: _Sign) -> Array | None:
    """The signs of every element; ``None`` for large tensors."""
    return np.broadcast_to(x.signs, x.shape) if prod(x.shape) <= _LARGE else None


def _all_alike(x: _Sign) -> Array:
    return _either(x.signs, range(x.signs.ndim))


def _reshaped(x: _Sign, shape: Shape) -> Array:
    """Dimensions that stand for equal sets stay so where the shapes have a common boundary around them."""
    if x.signs.size == 1 or 0 in shape:
        return np.broadcast_to(_all_alike(x).reshape(()), (1,) * len(shape))
    before: list[int] = []
    after: list[int] = []
    i = j = 0
    while i < len(x.shape) or j < len(shape):  # the next dimensions of both with equal numbers of elements
        first, into = i, j
        i, j = min(i + 1, len(x.shape)), min(j + 1, len(shape))
        while (a := prod(x.shape[first:i])) != (b := prod(shape[into:j])):
            i, j = (i + 1, j) if a < b else (i, j + 1)
        alike = all(n == 1 for n in x.signs.shape[first:i])
        before += [1] * (i - first) if alike else x.shape[first:i]
        after += [1] * (j - into) if alike else shape[into:j]
    if prod(before) > _LARGE:
        return np.broadcast_to(_all_alike(x).reshape(()), (1,) * len(shape))
    return np.broadcast_to(x.signs, before).reshape(after)


# ---------------------------------------------------------------------------------------------- the abstract run
class _Signs(Interpretation):
    """``open`` is set where a power or logarithm is not shown to be defined."""

    def __init__(self) -> None:
        self.reference = Reference()
        self.open = False

    def _known(self, name: str, values: Sequence[Any], *rest: Any, listed: bool = False) -> _Sign | None:
        """The result where all operands are known."""
        if any(isinstance(x, _Sign) and x.known is None for x in values):
            return None
        arrays = [x.known if isinstance(x, _Sign) else x for x in values]
        return _of(getattr(self.reference, name)(*((arrays,) if listed else arrays), *rest))

    # -- sources
    def constant(self, value: Scalar, kind: Kind) -> _Sign:
        return _of(self.reference.constant(value, kind))

    def table(self, data: tuple[Number, ...], shape: Shape, kind: Kind) -> _Sign:
        return _of(self.reference.table(data, shape, kind))

    def iota(self, size: int) -> _Sign:
        return _of(self.reference.iota(size))

    def unknown(self, shape: Shape, dtype: DType, site: str) -> _Sign:
        return _everywhere(_FINITE, shape)

    def mask(self, like: _Sign, shape: Shape, p: Number, site: str) -> _Sign:
        return _everywhere(_NOT_NEGATIVE, shape)

    # -- layout
    def permute(self, x: _Sign, order: tuple[int, ...]) -> _Sign:
        signs, shape = np.transpose(x.signs, order), tuple(x.shape[k] for k in order)
        return self._known("permute", [x], order) or _Sign(signs, shape)

    def reshape(self, x: _Sign, shape: Shape) -> _Sign:
        return self._known("reshape", [x], shape) or _Sign(_reshaped(x, shape), shape)

    def expand(self, x: _Sign, shape: Shape) -> _Sign:
        if prod(shape) <= _LARGE and (found := self._known("expand", [x], shape)):
            return found
        return _Sign(x.signs.reshape((1,) * (len(shape) - len(x.shape)) + x.signs.shape), shape)

    def slice(self, x: _Sign, dim: int, start: int, stop: int, step: int) -> _Sign:
        shape = (*x.shape[:dim], -(-(stop - start) // step), *x.shape[dim + 1 :])
        part = (slice(None),) * dim + (slice(start, stop, step),)
        signs = x.signs if x.signs.shape[dim] == 1 else x.signs[part]
        return self._known("slice", [x], dim, start, stop, step) or _Sign(signs, shape)

    def flip(self, x: _Sign, dim: int) -> _Sign:
        return self._known("flip", [x], dim) or _Sign(np.flip(x.signs, dim), x.shape)

    def concat(self, xs: Sequence[_Sign], dim: int) -> _Sign:
        if found := self._known("concat", xs, dim, listed=True):
            return found
        shape = (*xs[0].shape[:dim], sum(x.shape[dim] for x in xs), *xs[0].shape[dim + 1 :])
        whole = [max(x.signs.shape[k] for x in xs) for k in range(len(shape))]
        if prod(whole[:dim]) * shape[dim] * prod(whole[dim + 1 :]) > _LARGE:
            return _Sign(_either(np.concatenate([_all_alike(x) for x in xs], dim), [dim]), shape)
        parts = [np.broadcast_to(x.signs, (*whole[:dim], x.shape[dim], *whole[dim + 1 :])) for x in xs]
        return _Sign(np.concatenate(parts, axis=dim), shape)

    # -- pointwise
    def convert(self, x: _Sign, source: Kind, target: Kind) -> _Sign:
        found = self._known("convert", [x], source, target)
        return found or _Sign(_TRUTH[x.signs] if target is Kind.BOOL else x.signs, x.shape)

    def add(self, x: _Sign, y: _Sign) -> _Sign:
        return self._known("add", [x, y]) or _Sign(_SUM[x.signs, y.signs], x.shape)

    def mul(self, x: _Sign, y: _Sign) -> _Sign:
        signs = _SQUARE[x.signs] if x is y else _PRODUCT[x.signs, y.signs]
        return self._known("mul", [x, y]) or _Sign(signs, x.shape)

    def power(self, x: _Sign, exponent: Fraction) -> _Sign:
        bad = (_ZERO if exponent < 0 else 0) | (_NEGATIVE | _LOW if exponent.denominator > 1 else 0)
        self.open |= bool(np.any(x.signs & bad))
        return self._known("power", [x], exponent) or _Sign(_power(exponent)[x.signs], x.shape)

    def exp(self, x: _Sign) -> _Sign:
        return self._known("exp", [x]) or _Sign(_EXP[x.signs], x.shape)

    def log(self, x: _Sign) -> _Sign:
        self.open |= bool(np.any(x.signs & (_LOW | _NEGATIVE | _ZERO)))
        return self._known("log", [x]) or _Sign(_LOG[x.signs], x.shape)

    def function(self, name: str, xs: Sequence[_Sign]) -> _Sign:
        known = [x.known for x in xs if x.known is not None]
        if len(known) == len(xs):
            return _of(self.reference.function(name, known))
        signs, shape = xs[0].signs, xs[0].shape
        if name in ("sign", "tanh", "erf", "atan"):
            return _Sign(_BOUNDED[signs], shape)
        if name in ("trunc", "pi_times", "asinh"):
            return _Sign(signs | _ZERO if name == "trunc" else signs, shape)
        if name == "abs":
            return _Sign(_ABS[signs], shape)
        facts = FUNCTIONS.get(name)
        return _everywhere(_NOT_NEGATIVE if facts is not None and facts.nonnegative else _FINITE, shape)

    def less(self, x: _Sign, y: _Sign) -> _Sign:
        return self._known("less", [x, y]) or _everywhere(_NOT_NEGATIVE, x.shape)

    def equal(self, x: _Sign, y: _Sign) -> _Sign:
        return self._known("equal", [x, y]) or _everywhere(_NOT_NEGATIVE, x.shape)

    def maximum(self, x: _Sign, y: _Sign) -> _Sign:
        return self._known("maximum", [x, y]) or _Sign(_MAXIMUM[x.signs, y.signs], x.shape)

    def where(self, condition: _Sign, x: _Sign, y: _Sign) -> _Sign:
        if found := self._known("where", [condition, x, y]):
            return found
        taken = np.where(condition.signs & ~np.uint8(_ZERO), x.signs, 0)
        return _Sign(np.where(condition.signs & _ZERO, taken | y.signs, taken), x.shape)

    # -- contraction, reduction, indexing
    def contract(self, operands: Sequence[tuple[_Sign, tuple[int, ...]]], result: tuple[int, ...]) -> _Sign:
        xs = [x for x, _ in operands]
        sizes = {label: size for x, labels in operands for label, size in zip(labels, x.shape, strict=True)}
        shape = tuple(sizes[label] for label in result)
        known = [(x.known, labels) for x, labels in operands if x.known is not None]
        if len(known) == len(xs):
            return _of(self.reference.contract(known, result))
        summed = [label for label in sizes if label not in result]
        if any(sizes[label] == 0 for label in summed):
            return _everywhere(_ZERO, shape)
        order = (*result, *summed)
        if len(xs) == 2 and xs[0] is xs[1] and operands[0][1] == operands[1][1]:
            signs = _SQUARE[_along(xs[0].signs, operands[0][1], order)]
        else:
            signs = _products([_along(x.signs, labels, order) for x, labels in operands], len(result))
        for axis, label in enumerate(order[len(result) :], len(result)):
            if signs.shape[axis] > 1:
                signs = _folded(_SUM, signs, axis)
            elif sizes[label] > 1:
                signs = _SUM[signs, signs]
        return _Sign(signs.reshape(signs.shape[: len(result)]), shape)

    def maximum_over(self, x: _Sign, dims: tuple[int, ...]) -> _Sign:
        if found := self._known("maximum_over", [x], dims):
            return found
        signs = x.signs
        for axis in dims:
            signs = _folded(_MAXIMUM, signs, axis)
        # a maximum of minus infinity is of a row without any number: what is made of it is open at the sum of its exps
        signs = np.where(signs & _FINITE, signs & ~np.uint8(_LOW), signs)
        kept = [k for k in range(len(x.shape)) if k not in dims]
        return _Sign(signs.reshape([signs.shape[k] for k in kept]), tuple(x.shape[k] for k in kept))

    def gather(self, x: _Sign, indices: Sequence[_Sign | None]) -> _Sign:
        first = next(index.shape for index in indices if index is not None)
        rest = [k for k, index in enumerate(indices) if index is None]
        shape = first + tuple(x.shape[k] for k in rest)
        at = [None if index is None else index.known for index in indices]
        if all(index is None or index.known is not None for index in indices):
            if x.known is not None:
                return _of(self.reference.gather(x.known, at))
            full = _full(x)
            if x.signs.size > 1 and full is not None and prod(shape) <= _LARGE:
                return _Sign(self.reference.gather(full, at), shape)
        signs = _either(x.signs, [k for k in range(len(x.shape)) if k not in rest])
        return _Sign(signs.reshape((1,) * len(first) + tuple(signs.shape[k] for k in rest)), shape)

    def scatter(self, x: _Sign, indices: Sequence[_Sign | None], source: _Sign, accumulate: bool) -> _Sign:
        if x.known is not None and source.known is not None and all(i is None or i.known is not None for i in indices):
            given = [None if i is None else i.known for i in indices]
            return _of(self.reference.scatter(x.known, given, source.known, accumulate))
        written = _all_alike(source).reshape(())
        some = _SUM[written, written]
        return _Sign(x.signs | (_SUM[x.signs, some] if accumulate else written), x.shape)

    def rows(
        self, name: str, xs: Sequence[_Sign], attributes: tuple[Number | str, ...], results: Sequence[int]
    ) -> tuple[_Sign, ...]:
        signs = _NOT_NEGATIVE if name == "argsort" else _FINITE
        return tuple(_everywhere(signs, (*xs[0].shape[:-1], size)) for size in results)

    # -- what data decide
    def lost(self, shape: Shape | None, problem: DataDependent) -> _Sign | None:
        return None if shape is None else _everywhere(_FINITE, shape)

    # -- process groups: a specification is alone
    def enter_group(self, x: _Sign, shape: Shape, group: str) -> tuple[Interpretation, _Sign]:
        return self, self.reshape(x, (1, *shape))

    def leave_group(self, y: _Sign, shape: Shape, group: str) -> _Sign:
        return self.reshape(y, shape)


def _along(signs: Array, labels: Sequence[int], order: Sequence[int]) -> Array:
    """Signs with a dimension for every label of ``order``; the diagonal of labels that occur twice."""
    if len(set(labels)) < len(labels):  # whatever is on the diagonal is somewhere
        signs = _either(signs, [k for k, label in enumerate(labels) if labels.count(label) > 1])
    sizes = dict(zip(labels, signs.shape, strict=True))
    places = {label: k for k, label in enumerate(labels)}
    kept = [places[label] for label in order if label in places]
    moved = signs.reshape([n for k, n in enumerate(signs.shape) if k in kept])
    ranks = sorted(kept)
    moved = np.transpose(moved, [ranks.index(k) for k in kept])
    return moved.reshape([sizes.get(label, 1) for label in order])


def _products(xs: list[Array], lead: int) -> Array:
    """Signs of products, with all dimensions broadcast; where there are too many, those of whole rows."""
    if prod(max(sizes) for sizes in zip(*(x.shape for x in xs), strict=True)) > _PRODUCTS:
        xs = [_either(x, range(lead, x.ndim)) for x in xs]
        if prod(max(sizes) for sizes in zip(*(x.shape for x in xs), strict=True)) > _PRODUCTS:
            xs = [_either(x, range(x.ndim)) for x in xs]
    signs = xs[0]
    for x in xs[1:]:
        signs = _PRODUCT[signs, x]
    return signs
