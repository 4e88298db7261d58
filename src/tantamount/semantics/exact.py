"""The primitives with the meaning that element types give them, and what any compiler may make of the result.

Where :mod:`.reference` computes over the reals, this computes what a machine does, one operator at a time: integers of
fixed width that wrap around, floats rounded to their type after every operator. A value carries three numbers beside
its elements, each for the whole tensor:

- ``total``: a bound on the sum of the absolute values of all terms that an element is made of, in any order of adding;
- ``unit``: every term is a multiple of ``2 ** unit``. While ``total <= 2 ** (unit + precision)`` every partial result
  of every association is a number of the type, so that no order of computing rounds: the value is *exact*;
- ``error``: 0 for an exact value, else a bound on how far a result may be from the elements that are held here.

Operators that jump (comparisons, rounding, conversion to integers) refuse operands that are not exact
(:class:`Discontinuous`): no bound on an error would be a bound on theirs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import inf, isfinite, prod
from typing import Any

import numpy as np

from tantamount.errors import TantamountError
from tantamount.ir.graph import Graph, Node, references
from tantamount.ir.types import DType, Kind, Shape
from tantamount.ops.algebra import Interpretation, Law, Number, Scalar, Tensor
from tantamount.ops.builder import Builder
from tantamount.ops.execute import Environment, Result, recorded_constant, run_node
from tantamount.ops.functions import FUNCTIONS, POSITIONS_IN_A_ROW
from tantamount.semantics.reference import Array, Flag, IntegerOverflow, Reference
from tantamount.semantics.rounding import FORMATS, FloatFormat, array_type, rounded, wrapped

__all__ = ["Discontinuous", "Exact", "Held", "evaluate", "held_input", "plain"]

_WIDE = 1 << 62
_FUNCTION_ULPS = 16  # what approximations of transcendental functions may be off
_STEEPEST = {"sin": 1.0, "cos": 1.0, "tanh": 1.0, "atan": 1.0, "asinh": 1.0, "erf": 1.13, "pi_times": 3.15}
_ANY_OF_EQUALS = frozenset({"aten.max_pool2d.default"})  # choose a place, and give only the value there
_QUOTIENTS = frozenset({"aten.floor_divide.default", "aten.remainder.Tensor"})
_PLACES = frozenset({"aten.argmax.default", "aten.argmin.default"})
_JUMPING = frozenset({"floor", "trunc", "round", "sign", "floor_divide"})


class Discontinuous(TantamountError):
    """An operator that jumps was given a value that is not exact."""


@dataclass(frozen=True, slots=True)
class Held:
    """Elements (float64, int64 or bool) and the bounds on them; see the module."""

    array: Array
    total: Any
    error: float = 0.0
    unit: int | None = 0

    @property
    def shape(self) -> Shape:
        return self.array.shape

    @property
    def exact(self) -> bool:
        return self.error == 0.0


def _greatest(x: Array) -> Any:
    """The largest absolute value: an integer of integers, a float of floats, 0 of no elements. Infinities are chosen or
    not, never a term of a finite result, and do not count."""
    if not x.size:
        return 0
    if x.dtype.kind == "f":
        found = float(np.max(np.abs(x)))
        return found if isfinite(found) else float(np.max(np.abs(x), where=np.isfinite(x), initial=0.0))
    return max(int(x.max()), -int(x.min()))


def _unit_of(x: Array) -> int | None:
    """The largest k up to 0 with all finite elements multiples of ``2 ** k``; ``None`` with a NaN."""
    if x.dtype.kind != "f" or not x.size:
        return 0
    if np.isnan(x).any():
        return None
    x = x[np.isfinite(x)]
    if np.array_equal(x, np.rint(x)):
        return 0
    units = [_unit(item) for item in np.unique(x[x != np.rint(x)]).tolist()]
    return min(units, default=0)


def _unit(value: float) -> int:
    numerator, denominator = abs(value).as_integer_ratio()
    return (numerator & -numerator).bit_length() - denominator.bit_length()


class Exact(Interpretation):
    """One program's meaning, operator by operator. ``form`` is the float type that the operator at hand computes in
    (the narrowest among operands and result); ``flags`` collects what :class:`Reference` flags; ``wraps`` counts the
    results of integer types of which some partial result may have left its type, ``wrapped_by`` has their operators."""

    def __init__(self, seed: int = 0) -> None:
        self.base = Reference(seed=seed)
        self.form: FloatFormat = FORMATS[DType.FLOAT32]
        self.wraps = 0
        self.wrapped_by: set[str] = set()

    @property
    def flags(self) -> list[Flag]:
        return self.base.flags

    # -- bounds
    def _float(self, array: Array, total: float, error: float, unit: int | None, terms: int = 1) -> Held:
        """A float result with the rounding of the operation that made it, unless none can occur."""
        form = self.form
        if error == 0.0 and unit is not None and unit >= form.least and total <= 2.0 ** (unit + form.precision):
            return Held(array, total, 0.0, unit)
        return Held(array, total, error + (terms + 1) * form.roundoff * total, None)

    def _made(self, array: Array, total: Any, error: float, unit: int | None, terms: int = 1) -> Held:
        return self._float(array, float(total), error, unit, terms) if array.dtype.kind == "f" else Held(array, total)

    def _of(self, array: Array) -> Held:
        unit = _unit_of(array)
        total = _greatest(array)
        return Held(array, total, 0.0, unit) if unit is not None else Held(array, total, 0.0, None)

    def _jump(self, *xs: Held) -> None:
        if any(not x.exact for x in xs):
            raise Discontinuous("an operator that jumps, of a value that is not exact")

    # -- sources
    def constant(self, value: Scalar, kind: Kind) -> Held:
        return self._source(self.base.constant(value, kind))

    def table(self, data: tuple[Number, ...], shape: Shape, kind: Kind) -> Held:
        return self._source(self.base.table(data, shape, kind))

    def _source(self, array: Array) -> Held:
        found = self._of(array)
        if array.dtype.kind != "f":
            return found
        return self._float(array, found.total, 0.0, found.unit, 0)

    def iota(self, size: int) -> Held:
        return Held(self.base.iota(size), max(size - 1, 0))

    def unknown(self, shape: Shape, dtype: DType, site: str) -> Held:
        return self._of(self.base.unknown(shape, dtype, site))

    def draw(self, law: Law, like: Held | None, shape: Shape, dtype: DType, site: str) -> Held:
        return self._of(self.base.draw(law, None, shape, dtype, site))

    def mask(self, like: Held, shape: Shape, p: Number, site: str) -> Held:
        return Held(self.base.mask(like.array, shape, p, site), 1)

    # -- layout
    def permute(self, x: Held, order: tuple[int, ...]) -> Held:
        return replace(x, array=np.transpose(x.array, order))

    def reshape(self, x: Held, shape: Shape) -> Held:
        return replace(x, array=np.reshape(x.array, shape))

    def expand(self, x: Held, shape: Shape) -> Held:
        return replace(x, array=np.broadcast_to(x.array, shape))

    def slice(self, x: Held, dim: int, start: int, stop: int, step: int) -> Held:
        return replace(x, array=self.base.slice(x.array, dim, start, stop, step))

    def flip(self, x: Held, dim: int) -> Held:
        return replace(x, array=np.flip(x.array, dim))

    def concat(self, xs: Sequence[Held], dim: int) -> Held:
        return self._join(np.concatenate([x.array for x in xs], axis=dim), *xs)

    def _join(self, array: Array, *xs: Held) -> Held:
        """Elements of several values side by side."""
        units = [x.unit for x in xs]
        unit = None if None in units else min(u for u in units if u is not None)
        return Held(array, max(x.total for x in xs), max(x.error for x in xs), unit)

    # -- pointwise
    def convert(self, x: Held, source: Kind, target: Kind) -> Held:
        if source is Kind.FLOAT:
            self._jump(x)
        wide = x.array.dtype == object
        array = np.asarray(x.array, dtype=np.float64) if wide else self.base.convert(x.array, source, target)
        if target is Kind.FLOAT and source is not Kind.FLOAT:
            return self._float(array, float(x.total), 0.0, 0)
        return Held(array, x.total if target is Kind.FLOAT else int(x.total), x.error, x.unit)

    def wrapped(self, x: Held, dtype: DType) -> Held:
        array = wrapped(np.asarray(x.array), dtype) if x.array.dtype.kind != "b" else x.array
        low, high = dtype.bounds
        if x.total > max(-low, high) or ((x.total > high or low == 0) and _outside(x.array, low, high)):
            self.wraps += 1  # or may have: a partial result of some order did
            return Held(np.asarray(array, dtype=np.int64), _greatest(array))
        return Held(np.asarray(array, dtype=np.int64), x.total)

    def _wide(self, total: Any, *xs: Held) -> list[Array] | None:
        """The operands as unbounded integers, if the result may need them."""
        if any(x.array.dtype.kind == "f" for x in xs):
            return None
        if total <= _WIDE and all(x.array.dtype != object for x in xs):
            return None
        return [np.asarray(x.array, dtype=np.int64).astype(object) if x.array.dtype != object else x.array for x in xs]

    def add(self, x: Held, y: Held) -> Held:
        total = x.total + y.total
        unit = None if x.unit is None or y.unit is None else min(x.unit, y.unit)
        wide = self._wide(total, x, y)
        array = np.asarray(wide[0] + wide[1], dtype=object) if wide else self.base.add(x.array, y.array)
        return self._made(array, total, x.error + y.error, unit)

    def mul(self, x: Held, y: Held) -> Held:
        total = x.total * y.total
        unit = None if x.unit is None or y.unit is None else x.unit + y.unit
        wide = self._wide(total, x, y)
        array = np.asarray(wide[0] * wide[1], dtype=object) if wide else self.base.mul(x.array, y.array)
        error = 0.0 if x.exact and y.exact else x.error * y.total + y.error * x.total + x.error * y.error
        return self._made(array, total, error, unit)

    def power(self, x: Held, exponent: Fraction) -> Held:
        whole = exponent.denominator == 1
        if whole and exponent >= 0:
            k = int(exponent)
            total = x.total**k
            wide = self._wide(total, x)
            array = np.asarray(wide[0] ** k, dtype=object) if wide else self.base.power(x.array, exponent)
            error = 0.0 if x.exact else k * (x.total + x.error) ** max(k - 1, 0) * x.error
            return self._made(array, max(total, 1) if k == 0 else total, error, None if x.unit is None else x.unit * k)
        array = self.base.power(x.array, exponent)
        total = _greatest(array)
        if exponent == -1 and x.exact and x.array.size and np.isfinite(x.array).all():
            significand, _ = np.frexp(np.abs(x.array))
            if np.all(significand == 0.5):  # powers of two
                return Held(array, total, 0.0, _unit_of(array))
        least = float(np.min(np.abs(x.array))) - x.error if x.array.size else 1.0
        error = 0.0
        if not x.exact:
            error = inf if least <= 0 else abs(float(exponent)) * least ** float(exponent - 1) * x.error
        return self._float(array, total, error + 2 * self.form.roundoff * total, None)

    def exp(self, x: Held) -> Held:
        array = self.base.exp(x.array)
        total = _greatest(array)
        error = float(np.expm1(min(x.error, 100.0))) * total if x.error < 100 else inf
        return self._float(array, total, error, None, _FUNCTION_ULPS)

    def log(self, x: Held) -> Held:
        array = self.base.log(x.array)
        least = float(np.min(x.array)) - x.error if x.array.size else 1.0
        error = 0.0 if x.exact else inf if least <= 0 else x.error / least
        return self._float(array, _greatest(array), error, None, _FUNCTION_ULPS)

    def function(self, name: str, xs: Sequence[Held]) -> Held:
        known = FUNCTIONS[name]
        integers = all(x.array.dtype.kind != "f" for x in xs)
        if any(x.array.dtype == object for x in xs):
            raise IntegerOverflow(f"{name} of integers beyond 64 bits")
        with np.errstate(over="ignore"):  # the quotient of the least integer by -1, which is flagged
            array = self.base.function(name, [x.array for x in xs])
        if name == "abs":
            return replace(xs[0], array=array)
        if integers:
            if name == "floor_divide" and np.any((xs[0].array == -(1 << 63)) & (xs[1].array == -1)):
                self.flags.append(Flag("overflowing-quotient", 1))  # 2 ** 63, which 64 bits do not show
            return Held(array, _greatest(array))
        if name in _JUMPING or known.integer:
            self._jump(*xs)
            return Held(array, _greatest(array), 0.0, 0)
        error = 0.0
        if not all(x.exact for x in xs):
            error = _STEEPEST[name] * xs[0].error if name in _STEEPEST else inf
        return self._float(array, _greatest(array), error, None, _FUNCTION_ULPS)

    def less(self, x: Held, y: Held) -> Held:
        self._jump(x, y)
        return Held(np.asarray(np.less(x.array, y.array), dtype=np.bool_), 1)

    def equal(self, x: Held, y: Held) -> Held:
        self._jump(x, y)
        return Held(np.asarray(np.equal(x.array, y.array), dtype=np.bool_), 1)

    def maximum(self, x: Held, y: Held) -> Held:
        return self._join(np.asarray(np.maximum(x.array, y.array)), x, y)

    def where(self, condition: Held, x: Held, y: Held) -> Held:
        return self._join(self.base.where(condition.array, x.array, y.array), x, y)

    # -- contraction, reduction, indexing
    def contract(self, operands: Sequence[tuple[Held, tuple[int, ...]]], result: tuple[int, ...]) -> Held:
        sizes = {label: size for x, labels in operands for label, size in zip(labels, x.shape, strict=True)}
        terms = prod(size for label, size in sizes.items() if label not in result)
        held = [x for x, _ in operands]
        total = prod(x.total for x in held) * terms
        wide = self._wide(total, *held)
        arrays = [wide[k] if wide else x.array for k, x in enumerate(held)]
        if wide:
            number = {label: k for k, label in enumerate(sizes)}
            flat: list[Any] = []
            for array, (_, labels) in zip(arrays, operands, strict=True):
                flat += [array, [number[label] for label in labels]]
            value = np.asarray(np.einsum(*flat, [number[label] for label in result], optimize=False), dtype=object)
        else:
            value = self.base.contract([(a, labels) for a, (_, labels) in zip(arrays, operands, strict=True)], result)
        error = 0.0
        if any(not x.exact for x in held):
            error = (prod(x.total + x.error for x in held) - prod(x.total for x in held)) * terms
        units = [x.unit for x in held]
        unit = None if None in units else sum(u for u in units if u is not None)
        return self._made(value, total, error, unit, terms + len(held))

    def maximum_over(self, x: Held, dims: tuple[int, ...]) -> Held:
        return replace(x, array=np.asarray(np.max(x.array, axis=dims)))

    def gather(self, x: Held, indices: Sequence[Held | None]) -> Held:
        return replace(x, array=self.base.gather(x.array, [None if i is None else i.array for i in indices]))

    def scatter(self, x: Held, indices: Sequence[Held | None], source: Held, accumulate: bool) -> Held:
        positions = [None if i is None else i.array for i in indices]
        array = self.base.scatter(x.array, positions, source.array, accumulate)
        if not accumulate:
            return self._join(array, x, source)
        writes = next(i.array.size for i in indices if i is not None)
        unit = None if x.unit is None or source.unit is None else min(x.unit, source.unit)
        total = x.total + source.total * writes
        return self._made(array, total, x.error + source.error * writes, unit, writes + 1)

    def rows(
        self, name: str, xs: Sequence[Held], attributes: tuple[Number | str, ...], results: Sequence[int]
    ) -> tuple[Held, ...]:
        self._jump(*xs)
        found = self.base.rows(name, [x.array for x in xs], attributes, results)
        if name not in POSITIONS_IN_A_ROW:
            return tuple(Held(x, _greatest(x), inf, None) for x in found)
        return tuple(self._of(x) for x in found)

    def nonzero(self, x: Held) -> Held:
        self._jump(x)
        return self._of(self.base.nonzero(x.array))

    def number(self, x: Held) -> Number:
        self._jump(x)
        return self.base.number(x.array)

    # -- process groups: this rank alone
    def enter_group(self, x: Held, shape: Shape, group: str) -> tuple[Interpretation, Held]:
        return self, replace(x, array=x.array[np.newaxis])

    def leave_group(self, y: Held, shape: Shape, group: str) -> Held:
        return replace(y, array=y.array[0])

    # -- operators
    def step(self, graph: Graph, node: Node, environment: Environment) -> Result:
        """The value of one node that is not an input, rounded or wrapped as its type has it. Raises what running the
        node raises, and :class:`Discontinuous`."""
        types = [value.dtype for name in references(node) for value in _tensors(environment[name])]
        if node.type is not None:
            types.append(node.type.dtype)
        forms = [FORMATS[dtype] for dtype in types if dtype in FORMATS]
        self.form = min(forms, key=lambda form: form.precision, default=FORMATS[DType.FLOAT32])
        before, wraps = len(self.flags), self.wraps
        result = run_node(graph, node, Builder(self, node.name), environment, recorded_constant, None)
        if node.target in _ANY_OF_EQUALS:
            self.base.flags[before:] = [flag for flag in self.flags[before:] if flag.what != "tie"]
        if node.target in _PLACES:
            self._tied(environment[next(iter(references(node)))], node)
        if isinstance(result, tuple):
            return tuple(None if x is None else self.settled(x) for x in result)
        value = self.settled(result) if isinstance(result, Tensor) else result
        if self.wraps > wraps:
            self.wrapped_by.add(node.target)
            if node.target in _QUOTIENTS:  # machines trap, or give anything
                self.flags.append(Flag("overflowing-quotient", 1))
        return value

    def _tied(self, operand: Result, node: Node) -> None:
        """Flag rows in which the place of the extreme element is not the only one."""
        if not isinstance(operand, Tensor) or not operand.rank or not operand.value.array.size:
            return
        array, along = operand.value.array, node.args[1] if len(node.args) > 1 else None
        if not isinstance(along, int):
            array, along = array.reshape(-1), 0
        best = np.max if "argmax" in node.target else np.min
        count = np.count_nonzero(array == best(array, axis=along, keepdims=True), axis=along)
        if np.any(count > 1):
            self.flags.append(Flag("tie", int(np.count_nonzero(count > 1)), node.name))

    def settled(self, x: Tensor) -> Tensor:
        """A node's result as its element type holds it."""
        held: Held = x.value
        if not x.dtype.is_float:
            if x.dtype is DType.BOOL:
                return replace(x, value=Held(np.asarray(held.array, dtype=np.bool_), 1))
            return replace(x, value=self.wrapped(held, x.dtype))
        form = FORMATS[x.dtype]
        if held.exact and held.unit is not None and held.total <= 2.0 ** (held.unit + form.precision):
            return x if held.total <= form.largest else replace(x, value=replace(held, error=inf))
        array = rounded(np.asarray(held.array, dtype=np.float64), x.dtype)
        greatest = _greatest(array)
        error = held.error + form.roundoff * greatest + 2.0 ** (form.least - form.precision + 1)
        return replace(x, value=Held(array, greatest + held.error, error if isfinite(greatest) else inf, None))


def _outside(x: Array, low: int, high: int) -> bool:
    return bool(x.size) and bool(np.any((x < low) | (x > high)))


def _tensors(result: Result) -> tuple[Tensor, ...]:
    items = result if isinstance(result, tuple) else (result,)
    return tuple(item for item in items if isinstance(item, Tensor))


def held_input(array: Array, dtype: DType) -> Held:
    """An input's elements, which are of its type, as a value: exact."""
    kind = {Kind.BOOL: np.bool_, Kind.INT: np.int64}.get(dtype.kind, np.float64)
    value = np.asarray(array, dtype=kind)
    return Held(value, _greatest(value), 0.0, _unit_of(value))


def evaluate(
    graph: Graph, inputs: Mapping[str, Array], interpretation: Exact | None = None
) -> dict[str, Tensor | tuple[Tensor | None, ...]]:
    """The value of every node of a typed graph: tensors whose values are :class:`Held`.

    Raises :class:`UserError` for operands that do not fit, :class:`Discontinuous` where the graph jumps on a value that
    is not exact."""
    exact = interpretation or Exact()
    environment: Environment = {}
    for node in graph.nodes:
        if node.op == "input":
            if node.type is None:
                raise TypeError(f"input {node.name} has no type")
            held = held_input(inputs[node.name], node.type.dtype)
            environment[node.name] = Tensor(node.type.shape, node.type.dtype, held)
        else:
            environment[node.name] = exact.step(graph, node, environment)
    return environment  # type: ignore[return-value]


def plain(x: Tensor) -> Array:
    """A tensor's elements in NumPy's type for its own (bfloat16: in float32)."""
    return np.asarray(x.value.array, dtype=array_type(x.dtype))
