"""An interpretation that bounds what rounding does: every value is a number and how far the program's own may be off.

A value is computed in float64; its error is what the arithmetic of the program's own dtype may have added: a few units
in the last place at every primitive, and what these do to everything after it. First-order bounds with a margin, for
chains of a few dozen primitives such as tables of cosines.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import pi
from typing import Any

import numpy as np

from tantamount.errors import TantamountError, Unsupported
from tantamount.ir.graph import Graph, references
from tantamount.ir.types import Kind, Shape
from tantamount.ops.algebra import Interpretation, Number, Scalar, Tensor
from tantamount.ops.builder import Builder
from tantamount.ops.execute import Environment, recorded_constant, run_node
from tantamount.semantics.reference import Array, Reference

__all__ = ["Bounded", "bounded_constants", "exact_constants", "multiple"]

_ELEMENTS = 1 << 22  # of one tensor that is looked at
_UNITS = {32: 2.0**-22, 64: 2.0**-51}  # relative error of one primitive, by bits of the dtype: two units or so
_WHOLE = 2.0**53  # below it float64 has every whole number
_SMALLEST = 2.0**-1000  # of what underflows
_SLOPES: dict[str, float] = {"sin": 1.0, "cos": 1.0, "tanh": 1.0, "pi_times": pi, "erf": 1.2}  # largest slope


@dataclass(frozen=True, slots=True)
class Bounded:
    """Numbers, and for each a bound on how far the program's own value may be off."""

    value: Array
    error: Array

    @property
    def shape(self) -> Shape:
        return self.value.shape


def bounded_constants(graph: Graph, bits: int = 32) -> dict[str, Bounded]:
    """Every floating-point node that depends on no input, with what rounding in a dtype of so many bits may add. What
    cannot be bounded is left out."""
    found: dict[str, Bounded] = {}
    for name, result in _constants(graph, _Rounding(_UNITS[bits])).items():
        value = result.value if isinstance(result, Tensor) and result.dtype.is_float else None
        if isinstance(value, Bounded) and np.isfinite(value.value).all() and np.isfinite(value.error).all():
            found[name] = value
    return found


def multiple(form: Bounded, factor: float, bits: int) -> Bounded:
    """A bounded value times a number, as a product in a dtype of so many bits may come out."""
    value = form.value * factor
    return Bounded(value, form.error * abs(factor) + np.abs(value) * _UNITS[bits])


def exact_constants(graph: Graph) -> dict[str, Array]:
    """The values of nodes that depend on no input, as float64 has them, and booleans: those of comparisons are what
    they are over the reals, for the bounds of both sides do not overlap. What could not be decided is left out."""
    found: dict[str, Array] = {}
    for name, result in _constants(graph, _Careful(_UNITS[64])).items():
        value = result.value if isinstance(result, Tensor) else None
        if isinstance(value, Bounded) and np.isfinite(value.value).all() and np.isfinite(value.error).all():
            found[name] = value.value
    return found


def _constants(graph: Graph, interpretation: _Rounding) -> Environment:
    known: Environment = {}
    for node in graph.nodes:
        shape = () if node.type is None else node.type.shape
        small = all(type(size) is int for size in shape) and np.prod([1, *shape]) <= _ELEMENTS
        if node.op == "input" or not small or any(name not in known for name in references(node)):
            continue
        try:
            known[node.name] = run_node(graph, node, Builder(interpretation, node.name), known, recorded_constant, None)
        except TantamountError:
            continue
    return known


class _Rounding(Interpretation):
    """See the module. ``unit`` is the relative error of one primitive."""

    def __init__(self, unit: float) -> None:
        self.unit = unit
        self.on = Reference()

    def _rounded(self, value: Array, error: Array | float = 0.0) -> Bounded:
        """A result of floating-point arithmetic: exact if its operands were and it is a float32."""
        if value.dtype.kind != "f":
            return Bounded(value, np.zeros(value.shape))
        with np.errstate(all="ignore"):
            exact = (np.asarray(error) == 0) & (value == value.astype(np.float32))
            return Bounded(value, error + np.where(exact, 0.0, np.abs(value) * self.unit))

    def _both(self, function: Callable[[Array], Array], x: Bounded) -> Bounded:
        return Bounded(function(x.value), function(x.error))

    def _refuse(self, *_: Any, **__: Any) -> Any:
        raise Unsupported("a primitive whose rounding is not bounded")

    unknown = mask = scatter = rows = enter_group = leave_group = _refuse

    # -- sources
    def constant(self, value: Scalar, kind: Kind) -> Bounded:
        return self._rounded(self.on.constant(value, kind))

    def table(self, data: tuple[Number, ...], shape: Shape, kind: Kind) -> Bounded:
        found = self.on.table(data, shape, kind)
        whole = found.dtype.kind != "f" or bool((found == np.rint(found)).all())
        return Bounded(found, np.zeros(found.shape) if whole else np.abs(found) * self.unit)

    def iota(self, size: int) -> Bounded:
        return self._rounded(self.on.iota(size))

    # -- layout
    def permute(self, x: Bounded, order: tuple[int, ...]) -> Bounded:
        return self._both(lambda a: self.on.permute(a, order), x)

    def reshape(self, x: Bounded, shape: Shape) -> Bounded:
        return self._both(lambda a: self.on.reshape(a, shape), x)

    def expand(self, x: Bounded, shape: Shape) -> Bounded:
        return self._both(lambda a: self.on.expand(a, shape), x)

    def slice(self, x: Bounded, dim: int, start: int, stop: int, step: int) -> Bounded:
        return self._both(lambda a: self.on.slice(a, dim, start, stop, step), x)

    def flip(self, x: Bounded, dim: int) -> Bounded:
        return self._both(lambda a: self.on.flip(a, dim), x)

    def concat(self, xs: Sequence[Bounded], dim: int) -> Bounded:
        return Bounded(self.on.concat([x.value for x in xs], dim), self.on.concat([x.error for x in xs], dim))

    # -- pointwise
    def convert(self, x: Bounded, source: Kind, target: Kind) -> Bounded:
        if target is not Kind.FLOAT:
            self._exact(x)
        return Bounded(self.on.convert(x.value, source, target), x.error)

    def add(self, x: Bounded, y: Bounded) -> Bounded:
        """A sum that may be off by its own size says nothing of what was added: it has no bound."""
        found = self._rounded(self.on.add(x.value, y.value), x.error + y.error)
        lost = (found.error > 0) & (found.error >= np.abs(found.value))
        return Bounded(found.value, np.where(lost, np.inf, found.error))

    def mul(self, x: Bounded, y: Bounded) -> Bounded:
        error = np.abs(x.value) * y.error + np.abs(y.value) * x.error + x.error * y.error
        return self._rounded(self.on.mul(x.value, y.value), error)

    def power(self, x: Bounded, exponent: Fraction) -> Bounded:
        value = self.on.power(x.value, exponent)
        with np.errstate(all="ignore"):
            relative = np.where(x.error == 0, 0.0, x.error / np.abs(x.value))
            error = np.where(
                relative * max(1.0, abs(float(exponent))) < 0.01,
                2 * abs(float(exponent)) * relative * np.abs(value),
                np.inf,
            )
            return self._rounded(value, np.where(x.error == 0, 0.0, error))

    def exp(self, x: Bounded) -> Bounded:
        value = self.on.exp(x.value)
        with np.errstate(all="ignore"):
            return self._rounded(value, value * np.expm1(x.error))

    def log(self, x: Bounded) -> Bounded:
        with np.errstate(all="ignore"):
            relative = np.where(x.error == 0, 0.0, x.error / np.abs(x.value))
            return self._rounded(self.on.log(x.value), np.where(relative < 0.5, 2 * relative, np.inf))

    def function(self, name: str, xs: Sequence[Bounded]) -> Bounded:
        if name == "pow":
            return self._raised(*xs)
        slope = _SLOPES.get(name)
        if slope is None:
            self._exact(*xs)
        error = sum((x.error for x in xs), np.zeros(())) * (slope or 0.0)
        return self._rounded(self.on.function(name, [x.value for x in xs]), error)

    def _raised(self, x: Bounded, y: Bounded) -> Bounded:
        """``x ** y = exp(y log x)``: where ``x`` may be off, it has to be positive, and off by less than half."""
        value = self.on.function("pow", [x.value, y.value])
        with np.errstate(all="ignore"):
            relative = np.where(x.error == 0, 0.0, x.error / x.value)
            logarithm = np.where((relative >= 0) & (relative < 0.5), -np.log1p(-relative), np.inf)
            steep = np.where(y.error == 0, 0.0, np.abs(np.log(x.value)) * y.error)
            off = np.abs(value) * np.expm1(np.abs(y.value) * logarithm + steep + logarithm * y.error)
            exact = (x.error == 0) & (y.error == 0)
            return self._rounded(value, np.where(exact, 0.0, np.where(np.isnan(off), np.inf, off)))

    def _exact(self, *xs: Bounded) -> None:
        if any((x.error != 0).any() for x in xs):
            raise Unsupported("rounded numbers where exact ones are needed")

    def less(self, x: Bounded, y: Bounded) -> Bounded:
        return self._compared(self.on.less, x, y)

    def equal(self, x: Bounded, y: Bounded) -> Bounded:
        return self._compared(self.on.equal, x, y)

    def _compared(self, compare: Callable[[Array, Array], Array], x: Bounded, y: Bounded) -> Bounded:
        """A comparison that no rounding changes."""
        error = x.error + y.error
        if bool(((error != 0) & (np.abs(x.value * 1.0 - y.value) <= error)).any()):
            raise Unsupported("a comparison that rounding decides")
        return Bounded(compare(x.value, y.value), np.zeros(x.shape))

    def maximum(self, x: Bounded, y: Bounded) -> Bounded:
        return Bounded(self.on.maximum(x.value, y.value), np.maximum(x.error, y.error))

    def where(self, condition: Bounded, x: Bounded, y: Bounded) -> Bounded:
        chosen = condition.value
        return Bounded(self.on.where(chosen, x.value, y.value), self.on.where(chosen, x.error, y.error))

    # -- contraction, reduction, indexing
    def contract(self, operands: Sequence[tuple[Bounded, tuple[int, ...]]], result: tuple[int, ...]) -> Bounded:
        value = self.on.contract([(x.value, labels) for x, labels in operands], result)
        sizes = {label: size for x, labels in operands for label, size in zip(labels, x.shape, strict=True)}
        summed = int(np.prod([1, *(size for label, size in sizes.items() if label not in result)]))
        high = self.on.contract([(np.abs(x.value) * 1.0 + x.error, labels) for x, labels in operands], result)
        low = self.on.contract([(np.abs(x.value) * 1.0, labels) for x, labels in operands], result)
        exact = all((x.error == 0).all() for x, _ in operands) and value.dtype.kind != "f"
        return Bounded(value, np.zeros(value.shape) if exact else high - low + summed * self.unit * high)

    def maximum_over(self, x: Bounded, dims: tuple[int, ...]) -> Bounded:
        return Bounded(self.on.maximum_over(x.value, dims), np.asarray(np.max(x.error, axis=dims)))

    def gather(self, x: Bounded, indices: Sequence[Bounded | None]) -> Bounded:
        chosen = [None if index is None else index.value for index in indices]
        return self._both(lambda a: self.on.gather(a, chosen), x)


class _Careful(_Rounding):
    """The same, and exact are whole numbers only: a float32 that a cosine gives may be a rounded one."""

    def _rounded(self, value: Array, error: Array | float = 0.0) -> Bounded:
        if value.dtype.kind != "f":
            return Bounded(value, np.zeros(value.shape))
        with np.errstate(all="ignore"):
            exact = (np.asarray(error) == 0) & (value == np.rint(value)) & (np.abs(value) < _WHOLE)
            return Bounded(value, error + np.where(exact, 0.0, np.abs(value) * self.unit + _SMALLEST))

    def _inexact(self, found: Bounded) -> Bounded:
        return Bounded(found.value, np.maximum(found.error, np.abs(found.value) * self.unit + _SMALLEST))

    def table(self, data: tuple[Number, ...], shape: Shape, kind: Kind) -> Bounded:
        return self._rounded(self.on.table(data, shape, kind))

    def power(self, x: Bounded, exponent: Fraction) -> Bounded:
        return self._inexact(super().power(x, exponent))

    def exp(self, x: Bounded) -> Bounded:
        return self._inexact(super().exp(x))

    def log(self, x: Bounded) -> Bounded:
        return self._inexact(super().log(x))

    def function(self, name: str, xs: Sequence[Bounded]) -> Bounded:
        if name not in _SLOPES:
            raise Unsupported("a function whose values are not bounded")
        return self._inexact(super().function(name, xs))

    def convert(self, x: Bounded, source: Kind, target: Kind) -> Bounded:
        found = super().convert(x, source, target)
        return self._rounded(found.value, found.error) if target is Kind.FLOAT else found
