"""Where a program divides or takes a root or logarithm of what may be 0 or negative, found without inputs.

An abstract run over the primitives. A value is the set of signs that its elements may have; what depends on no input
is computed. Where that does not show that a power or a logarithm is defined, a proof must assume it.
"""

from __future__ import annotations

from collections.abc import Sequence
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

_LARGE = 1 << 20  # elements: no number is known of larger tensors, but their signs
_LOW, _NEGATIVE, _ZERO, _POSITIVE, _HIGH = (1 << k for k in range(5))  # minus infinity ... infinity
_FINITE = _NEGATIVE | _ZERO | _POSITIVE
_ANY = _FINITE | _LOW | _HIGH
_NOT_NEGATIVE = _ZERO | _POSITIVE


def may_be_undefined(job: Job) -> frozenset[str]:
    """Nodes of the specification at which a divisor is not shown to be not 0, or the argument of a root or logarithm
    not to be negative."""
    on = _Signs()
    environment: Environment = {}
    found: set[str] = set()
    for node in job.specification.nodes:
        if node.op == "input":
            if node.type is not None:
                kind, unsigned = node.type.stored.dtype.kind, node.type.dtype.label.startswith("uint")
                signs = _NOT_NEGATIVE if kind is Kind.BOOL or unsigned else _FINITE
                environment[node.name] = Tensor(node.type.shape, node.type.dtype, _Sign(signs, node.type.stored.shape))
            continue
        on.open = False
        try:
            builder = Builder(on, node.name)
            environment[node.name] = run_node(
                job.specification, node, builder, environment, lambda g, n, b: _constant(job, g, n, b), None
            )
        except (Unsupported, IntegerOverflow):
            return frozenset()  # beyond what is interpreted here: nothing is concluded
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
    return Tensor(type_.shape, type_.dtype, _Sign(_FINITE, type_.stored.shape))


@dataclass(frozen=True, eq=False)
class _Sign:
    """A set of signs, a shape, and the numbers themselves where they are known."""

    signs: int
    shape: Shape
    known: Array | None = None


def _of(array: Array) -> _Sign:
    x = np.asarray(array)
    signs = 0
    for mark, where in (
        (_LOW, np.isneginf(x) if x.dtype.kind == "f" else False),
        (_HIGH, np.isposinf(x) if x.dtype.kind == "f" else False),
        (_ZERO, x == 0),
        (_POSITIVE, (x > 0) & np.isfinite(x)),
        (_NEGATIVE, (x < 0) & np.isfinite(x)),
    ):
        signs |= mark if bool(np.any(where)) else 0
    return _Sign(signs, x.shape, x)


def _sum(x: int, y: int) -> int:
    """The signs of a sum."""
    out = 0
    for a in _split(x):
        for b in _split(y):
            low, high = min(a, b), max(a, b)
            if low == _LOW:
                out |= _LOW
            elif high == _HIGH:
                out |= _HIGH
            elif low == _NEGATIVE and high == _POSITIVE:
                out |= _FINITE
            else:
                out |= low if high == _ZERO else high
    return out


def _product(x: int, y: int) -> int:
    """The signs of a product; of 0 and an infinity there is none."""
    out = 0
    for a in _split(x):
        for b in _split(y):
            if _ZERO in (a, b):
                out |= _ZERO
            else:
                same = (a < _ZERO) == (b < _ZERO)
                infinite = bool((a | b) & (_LOW | _HIGH))
                out |= (_HIGH if infinite else _POSITIVE) if same else (_LOW if infinite else _NEGATIVE)
    return out


def _split(x: int) -> list[int]:
    return [mark for mark in (_LOW, _NEGATIVE, _ZERO, _POSITIVE, _HIGH) if x & mark]


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
        return _Sign(_FINITE, shape)

    def mask(self, like: _Sign, shape: Shape, p: Number, site: str) -> _Sign:
        return _Sign(_NOT_NEGATIVE, shape)

    # -- layout
    def _laid(self, name: str, x: _Sign, shape: Shape, *rest: Any) -> _Sign:
        return self._known(name, [x], *rest) or _Sign(x.signs, shape)

    def permute(self, x: _Sign, order: tuple[int, ...]) -> _Sign:
        return self._laid("permute", x, tuple(x.shape[k] for k in order), order)

    def reshape(self, x: _Sign, shape: Shape) -> _Sign:
        return self._laid("reshape", x, shape, shape)

    def expand(self, x: _Sign, shape: Shape) -> _Sign:
        return _Sign(x.signs, shape) if prod(shape) > _LARGE else self._laid("expand", x, shape, shape)

    def slice(self, x: _Sign, dim: int, start: int, stop: int, step: int) -> _Sign:
        shape = (*x.shape[:dim], -(-(stop - start) // step), *x.shape[dim + 1 :])
        return self._laid("slice", x, shape, dim, start, stop, step)

    def flip(self, x: _Sign, dim: int) -> _Sign:
        return self._laid("flip", x, x.shape, dim)

    def concat(self, xs: Sequence[_Sign], dim: int) -> _Sign:
        if found := self._known("concat", xs, dim, listed=True):
            return found
        shape = (*xs[0].shape[:dim], sum(x.shape[dim] for x in xs), *xs[0].shape[dim + 1 :])
        return _Sign(_union(xs), shape)

    # -- pointwise
    def convert(self, x: _Sign, source: Kind, target: Kind) -> _Sign:
        if x.known is None:
            return x
        return _of(self.reference.convert(x.known, source, target))

    def add(self, x: _Sign, y: _Sign) -> _Sign:
        return self._known("add", [x, y]) or _Sign(_sum(x.signs, y.signs), x.shape)

    def mul(self, x: _Sign, y: _Sign) -> _Sign:
        if found := self._known("mul", [x, y]):
            return found
        signs = _product(x.signs, y.signs)
        return _Sign(signs & ~(_NEGATIVE | _LOW) if x is y else signs, x.shape)

    def power(self, x: _Sign, exponent: Fraction) -> _Sign:
        whole = exponent.denominator == 1
        self.open |= bool(exponent < 0 and x.signs & _ZERO) or bool(not whole and x.signs & (_NEGATIVE | _LOW))
        if found := self._known("power", [x], exponent):
            return found
        out = x.signs
        if not whole or exponent.numerator % 2 == 0:
            out = (
                (out & _ZERO)
                | (_POSITIVE if out & (_NEGATIVE | _POSITIVE) else 0)
                | (_HIGH if out & (_LOW | _HIGH) else 0)
            )
        if exponent < 0:  # one over an infinity is 0
            out = (out & (_NEGATIVE | _POSITIVE)) | (_ZERO if out & (_LOW | _HIGH) else 0)
        return _Sign(out if exponent else _POSITIVE, x.shape)

    def exp(self, x: _Sign) -> _Sign:
        if found := self._known("exp", [x]):
            return found
        signs = (_POSITIVE if x.signs & _FINITE else 0) | (_ZERO if x.signs & _LOW else 0)
        return _Sign(signs | (x.signs & _HIGH), x.shape)

    def log(self, x: _Sign) -> _Sign:
        self.open |= bool(x.signs & (_LOW | _NEGATIVE | _ZERO))
        return self._known("log", [x]) or _Sign(_FINITE | (_LOW if x.signs & _ZERO else 0) | (x.signs & _HIGH), x.shape)

    def function(self, name: str, xs: Sequence[_Sign]) -> _Sign:
        if (found := self._called(name, xs)) is not None:
            return found
        if name in ("sign", "trunc", "tanh", "erf", "atan", "pi_times", "asinh"):
            zero = _ZERO if name == "trunc" else 0
            return _Sign(xs[0].signs | zero, xs[0].shape)
        if name == "abs":
            signs = (xs[0].signs & (_ZERO | _POSITIVE | _HIGH)) | (_POSITIVE if xs[0].signs & _NEGATIVE else 0)
            return _Sign(signs | (_HIGH if xs[0].signs & _LOW else 0), xs[0].shape)
        known = FUNCTIONS.get(name)
        return _Sign(_NOT_NEGATIVE if known is not None and known.nonnegative else _FINITE, xs[0].shape)

    def _called(self, name: str, xs: Sequence[_Sign]) -> _Sign | None:
        if any(x.known is None for x in xs):
            return None
        return _of(self.reference.function(name, [x.known for x in xs if x.known is not None]))

    def less(self, x: _Sign, y: _Sign) -> _Sign:
        return self._known("less", [x, y]) or _Sign(_NOT_NEGATIVE, x.shape)

    def equal(self, x: _Sign, y: _Sign) -> _Sign:
        return self._known("equal", [x, y]) or _Sign(_NOT_NEGATIVE, x.shape)

    def maximum(self, x: _Sign, y: _Sign) -> _Sign:
        if found := self._known("maximum", [x, y]):
            return found
        out = 0
        for a in _split(x.signs):
            for b in _split(y.signs):
                out |= max(a, b)
        return _Sign(out, x.shape)

    def where(self, condition: _Sign, x: _Sign, y: _Sign) -> _Sign:
        if found := self._known("where", [condition, x, y]):
            return found
        if condition.known is not None:
            chosen = (x.signs if condition.known.any() else 0) | (y.signs if not condition.known.all() else 0)
            return _Sign(chosen, x.shape)
        return _Sign(_union([x, y]), x.shape)

    # -- contraction, reduction, indexing
    def contract(self, operands: Sequence[tuple[_Sign, tuple[int, ...]]], result: tuple[int, ...]) -> _Sign:
        xs = [x for x, _ in operands]
        sizes = {label: size for x, labels in operands for label, size in zip(labels, x.shape, strict=True)}
        shape = tuple(sizes[label] for label in result)
        if all(x.known is not None for x in xs):
            given = [(x.known, labels) for x, labels in operands if x.known is not None]
            return _of(self.reference.contract(given, result))
        signs = _POSITIVE
        for x in xs:
            signs = _product(signs, x.signs)
        if len(xs) == 2 and xs[0] is xs[1] and operands[0][1] == operands[1][1]:
            signs &= ~(_NEGATIVE | _LOW)
        summed = [size for label, size in sizes.items() if label not in result]
        if 0 in summed:
            return _Sign(_ZERO, shape)
        return _Sign(_sum(signs, signs) if summed else signs, shape)

    def maximum_over(self, x: _Sign, dims: tuple[int, ...]) -> _Sign:
        shape = tuple(size for k, size in enumerate(x.shape) if k not in dims)
        # a maximum of minus infinity is of a row without any number: what is made of it is open at the sum of its exps
        signs = x.signs & ~_LOW if x.signs & _FINITE else x.signs
        return self._laid("maximum_over", _Sign(signs, x.shape, x.known), shape, dims)

    def _shape(self, x: _Sign, indices: Sequence[_Sign | None]) -> Shape:
        first = next(index.shape for index in indices if index is not None)
        return first + tuple(size for size, index in zip(x.shape, indices, strict=True) if index is None)

    def gather(self, x: _Sign, indices: Sequence[_Sign | None]) -> _Sign:
        if x.known is not None and all(index is None or index.known is not None for index in indices):
            return _of(self.reference.gather(x.known, [None if i is None else i.known for i in indices]))
        return _Sign(x.signs, self._shape(x, indices))

    def scatter(self, x: _Sign, indices: Sequence[_Sign | None], source: _Sign, accumulate: bool) -> _Sign:
        if x.known is not None and source.known is not None and all(i is None or i.known is not None for i in indices):
            given = [None if i is None else i.known for i in indices]
            return _of(self.reference.scatter(x.known, given, source.known, accumulate))
        both = x.signs | source.signs
        return _Sign(both | (_sum(both, both) if accumulate else 0), x.shape)

    def rows(
        self, name: str, xs: Sequence[_Sign], attributes: tuple[Number | str, ...], results: Sequence[int]
    ) -> tuple[_Sign, ...]:
        signs = _NOT_NEGATIVE if name in ("argsort", "first_unordered") else _FINITE
        return tuple(_Sign(signs, (*xs[0].shape[:-1], size)) for size in results)

    # -- what data decide
    def lost(self, shape: Shape | None, problem: DataDependent) -> _Sign | None:
        return None if shape is None else _Sign(_FINITE, shape)

    # -- process groups: a specification is alone
    def enter_group(self, x: _Sign, shape: Shape, group: str) -> tuple[Interpretation, _Sign]:
        return self, self.reshape(x, (1, *shape))

    def leave_group(self, y: _Sign, shape: Shape, group: str) -> _Sign:
        return self.reshape(y, shape)


def _union(xs: Sequence[_Sign]) -> int:
    out = 0
    for x in xs:
        out |= x.signs
    return out
