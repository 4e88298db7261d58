"""The primitives that operators are defined with, and the protocol that gives them a meaning.

An operator definition is written once, against :class:`~tantamount.ops.builder.Builder`. The builder settles shapes,
broadcasting and dtype promotion, and asks an :class:`Interpretation` for the value of each primitive. There are
several interpretations: types only (here), NumPy (``semantics.reference``), normal forms (``calculus.symbolic``), terms
(``smt.interpretation``) and records of what is done (``ops.recording``, which facts of operators follow from). Adding
an operator therefore never touches an interpretation; adding a primitive touches them all.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from fractions import Fraction
from typing import Any, Union

from tantamount.errors import DataDependent
from tantamount.ir.types import DType, Kind, Shape, TensorType

__all__ = [
    "Interpretation",
    "Law",
    "Number",
    "PerRank",
    "Scalar",
    "ShapeProblem",
    "Tensor",
    "TypesOnly",
    "Unsized",
    "Value",
]

Value = Any  # what an interpretation computes with: None, an ndarray, a normal form
Number = Union[bool, int, float, Fraction]


class ShapeProblem(Exception):
    """Operands or attributes that do not fit; the text is one clause."""


@dataclass(frozen=True, slots=True)
class PerRank:
    """A number that differs between ranks: one value per rank of the mesh, row-major."""

    values: tuple[Number, ...]


Scalar = Union[bool, int, float, Fraction, PerRank]


@dataclass(frozen=True, slots=True)
class Law:
    """A distribution that every element of a random tensor is drawn from, independently of all others: one of those of
    :mod:`tantamount.ops.draws`, by its name and its parameter."""

    name: str
    parameter: Fraction = Fraction(0)


@dataclass(frozen=True, slots=True)
class Tensor:
    """A typed value. ``weak`` marks a Python number, which takes part in promotion by its kind only.

    ``value`` is of the shape and kind of ``type.stored``: the complex numbers of a tensor are pairs of real ones.
    ``like`` is, of memory that nobody wrote, the value of the tensor that it was made in the image of: what is drawn
    into it belongs to that tensor."""

    shape: Shape
    dtype: DType
    value: Value = field(repr=False)
    weak: bool = False
    like: Value = field(default=None, repr=False, compare=False)

    @property
    def type(self) -> TensorType:
        return TensorType(self.shape, self.dtype)

    @property
    def rank(self) -> int:
        """The number of dimensions."""
        return len(self.shape)


@dataclass(frozen=True, slots=True)
class Unsized:
    """A placeholder for the results of a node where even their types depend on data; ``reason`` is one clause."""

    reason: str


class Doubt(Enum):
    """The part of a tensor that is not known where it is infinite or NaN: its value, which may be any number; its value
    where it is plus infinity; or which of the infinities and NaN it is."""

    VALUE = "value"
    PLUS = "plus"
    WHICH = "which"


class Interpretation(ABC):
    """The meaning of each primitive. Operands of pointwise primitives have equal shapes and were converted to one kind;
    dimensions are non-negative; booleans are the numbers 0 and 1."""

    # -- sources
    @abstractmethod
    def constant(self, value: Scalar, kind: Kind) -> Value:
        """A 0-d value. ``value`` may be infinite, or one number per rank."""

    @abstractmethod
    def table(self, data: tuple[Number, ...], shape: Shape, kind: Kind) -> Value:
        """A recorded constant; ``data`` is row-major."""

    @abstractmethod
    def iota(self, size: int) -> Value:
        """``y[i] = i``, integers, shape ``(size,)``."""

    @abstractmethod
    def unknown(self, shape: Shape, dtype: DType, site: str) -> Value:
        """A fresh unknown tensor (``empty``); ``site`` names its node. Different on every rank."""

    def uninitialised(self, shape: Shape, dtype: DType, site: str) -> Value:
        """Memory that nobody wrote: as :meth:`unknown`, and what floats find there need not be numbers."""
        return self.unknown(shape, dtype, site)

    @abstractmethod
    def mask(self, like: Value, shape: Shape, p: Number, site: str) -> Value:
        """The boolean keep-mask of a dropout with drop probability ``p`` of the tensor ``like``."""

    def draw(self, law: Law, like: Value | None, shape: Shape, dtype: DType, site: str) -> Value:
        """A fresh random tensor, drawn into the image of ``like`` (``None``: of no tensor); different on every rank. By
        default nothing is known of its numbers."""
        return self.unknown(shape, dtype, site)

    # -- layout
    @abstractmethod
    def permute(self, x: Value, order: tuple[int, ...]) -> Value:
        """``y[i_order[0], i_order[1], ...] = x[i_0, i_1, ...]``: dimension k of y is dimension ``order[k]`` of x."""

    @abstractmethod
    def reshape(self, x: Value, shape: Shape) -> Value:
        """The same elements in row-major order."""

    @abstractmethod
    def expand(self, x: Value, shape: Shape) -> Value:
        """Dimensions of size 1 repeated to the size in ``shape`` (same number of dimensions)."""

    @abstractmethod
    def slice(self, x: Value, dim: int, start: int, stop: int, step: int) -> Value:
        """``x[start:stop:step]`` along ``dim``; ``0 <= start <= stop <= size``, ``step >= 1``."""

    @abstractmethod
    def flip(self, x: Value, dim: int) -> Value:
        """``y[i] = x[size - 1 - i]`` along ``dim``."""

    @abstractmethod
    def concat(self, xs: Sequence[Value], dim: int) -> Value:
        """Operands one after the other along ``dim``; at least one operand, none of them empty there."""

    # -- pointwise
    @abstractmethod
    def convert(self, x: Value, source: Kind, target: Kind) -> Value:
        """Value-preserving: ``bool -> int -> float``; also ``float -> int`` of whole numbers (after a truncation)."""

    def wrapped(self, x: Value, dtype: DType) -> Value | None:
        """Integers as a type of 8 or 16 bits holds them; ``None``: by the functions of remainders (the builder's)."""
        return None

    @abstractmethod
    def add(self, x: Value, y: Value) -> Value: ...

    @abstractmethod
    def mul(self, x: Value, y: Value) -> Value: ...

    @abstractmethod
    def power(self, x: Value, exponent: Fraction) -> Value:
        """``x ** exponent`` for a constant exponent: the real power, undefined at ``x < 0`` unless the exponent is an
        integer and at ``x == 0`` if it is negative."""

    @abstractmethod
    def exp(self, x: Value) -> Value: ...

    @abstractmethod
    def log(self, x: Value) -> Value: ...

    @abstractmethod
    def function(self, name: str, xs: Sequence[Value]) -> Value:
        """A pointwise function out of :data:`tantamount.ops.functions.FUNCTIONS`."""

    def truncated_quotient(self, x: Value, y: Value) -> Value | None:
        """``x / y`` of whole numbers, rounded towards 0, where that can be had without rounding ``x * y ** -1``; any
        number where y is 0. ``None``: it is what the function ``trunc`` makes of that product."""
        del x, y
        return None

    @abstractmethod
    def less(self, x: Value, y: Value) -> Value:
        """``x < y`` as a boolean."""

    @abstractmethod
    def equal(self, x: Value, y: Value) -> Value:
        """``x == y`` as a boolean."""

    @abstractmethod
    def maximum(self, x: Value, y: Value) -> Value: ...

    @abstractmethod
    def where(self, condition: Value, x: Value, y: Value) -> Value:
        """``x`` where the boolean ``condition`` holds, else ``y``. The side not taken may be undefined or infinite."""

    # -- contraction, reduction, indexing
    @abstractmethod
    def contract(self, operands: Sequence[tuple[Value, tuple[int, ...]]], result: tuple[int, ...]) -> Value:
        """Einstein summation. Every dimension of every operand has a label; equal labels have equal sizes; the product
        is summed over the labels that ``result`` lacks. A label may repeat inside an operand (diagonal)."""

    def contract_chosen(
        self, operands: Sequence[tuple[Value, tuple[int, ...]]], result: tuple[int, ...], choices: int
    ) -> Value:
        """:meth:`contract`, the last ``choices`` operands of which are zeros and ones: where one of them is 0, nothing
        of the others is read, be it NaN or infinite."""
        return self.doubted(self.contract(operands, result), Doubt.VALUE)

    def contract_nonzero(self, operands: Sequence[tuple[Value, tuple[int, ...]]], result: tuple[int, ...]) -> Value:
        """:meth:`contract` of data and, last, finite weights of the size of 1. What has the weight 0 is left out, be it
        NaN or infinite; kernels do so in short sums, and in long ones as they like, so nothing is claimed of it."""
        return self.doubted(self.contract(operands, result), Doubt.VALUE)

    def doubted(self, x: Value, doubt: Doubt) -> Value:
        """x, of which less is known than its definition says where it is infinite or NaN: see :class:`Doubt`."""
        return x

    def from_start(self, x: Value, given: bool) -> bool:
        """True if no element of an index is negative: known, or (of one that the program was ``given``) assumed with
        its range."""
        return False

    def doubted_at_zero(self, x: Value) -> Value:
        """x, of which the sign counts where it is 0 (among the reals it has none), unless it is as it was given."""
        return x

    @abstractmethod
    def maximum_over(self, x: Value, dims: tuple[int, ...]) -> Value:
        """The maximum over the given dimensions, which are removed and not empty."""

    @abstractmethod
    def gather(self, x: Value, indices: Sequence[Value | None]) -> Value:
        """``y[i..., rest...] = x`` at ``indices[d][i...]`` in each dimension d with an index, ``rest`` in the others.

        One entry per dimension of x; the integer indices have one common shape, which comes first in the result,
        followed by the dimensions without an index, in order. Undefined unless ``0 <= index < size``."""

    @abstractmethod
    def scatter(self, x: Value, indices: Sequence[Value | None], source: Value, accumulate: bool) -> Value:
        """x with ``source`` written (or added, ``accumulate``) at the places that :meth:`gather` would read.
        ``source`` has the shape of that gather. Undefined if two writes without ``accumulate`` meet."""

    @abstractmethod
    def rows(
        self, name: str, xs: Sequence[Value], attributes: tuple[Number | str, ...], results: Sequence[int]
    ) -> tuple[Value, ...]:
        """A function of whole rows, the last dimension of the operands; the other dimensions are parallel and equal.
        Result k has ``results[k]`` elements in that dimension. A name out of
        :data:`tantamount.ops.functions.ROW_FUNCTIONS`, or any other: then nothing is known of the function, but that
        equal names and attributes are one function."""

    # -- what data decide: known in an execution, and nowhere else
    def nonzero(self, x: Value) -> Value:
        """The places of the elements that are not zero, in row-major order: integers, one row per element found, one
        column per dimension of x."""
        raise DataDependent("the number of elements that are not zero depends on data")

    def number(self, x: Value) -> Number:
        """A 0-d value as a number that may be a size."""
        raise DataDependent("a size or an attribute depends on data")

    def lost(self, shape: Shape | None, problem: DataDependent) -> Value:
        """A placeholder for a value that is known in an execution only, if all that is known is its shape (``None``:
        not even that). By default the problem is the caller's."""
        raise problem

    # -- process groups: a collective is defined on the members' tensors stacked in a new first dimension
    @abstractmethod
    def enter_group(self, x: Value, shape: Shape, group: str) -> tuple[Interpretation, Value]:
        """The tensors of all members of this rank's instance of ``group``, stacked in a new first dimension,
        and the interpretation in which to go on with it. ``shape`` is one member's shape."""

    @abstractmethod
    def leave_group(self, y: Value, shape: Shape, group: str) -> Value:
        """The inverse: every member takes its own entry of the first dimension. ``shape`` is one member's shape."""


class TypesOnly(Interpretation):
    """Every value is ``None``: what remains of a definition is its type rule. ``primitives`` counts them; more than
    ``most``, if that is set, are refused (:class:`ShapeProblem`)."""

    primitives = 0
    most: int | None = None

    def __init__(self, group_sizes: Mapping[str, int] | None = None) -> None:
        self.group_sizes = group_sizes

    def _none(self, *_: Any, **__: Any) -> None:
        self.primitives += 1
        if self.most is not None and self.primitives > self.most:
            raise ShapeProblem(f"an operator of more than {self.most} primitives")

    constant = table = iota = unknown = mask = _none
    permute = reshape = expand = slice = flip = concat = _none
    convert = add = mul = power = exp = log = function = less = equal = maximum = where = _none
    contract = maximum_over = gather = scatter = leave_group = _none

    def rows(
        self, name: str, xs: Sequence[Value], attributes: tuple[Number | str, ...], results: Sequence[int]
    ) -> tuple[Value, ...]:
        return (None,) * len(results)

    def lost(self, shape: Shape | None, problem: DataDependent) -> Value:
        return None

    def enter_group(self, x: Value, shape: Shape, group: str) -> tuple[Interpretation, Value]:
        return self, None
