"""Numbers written in graphs, made exact and stored in elements of a type."""

from __future__ import annotations

from fractions import Fraction
from math import isinf, isnan

from tantamount.ir.types import DType
from tantamount.ops.algebra import Number, ShapeProblem
from tantamount.sizes.symbolic import is_integer

__all__ = ["exact", "held", "parts_of"]


def exact(value: Number) -> Number:
    """The exact rational of the decimal that was written (``0.1`` is 1/10); infinities stay floats.
    Raises :class:`ShapeProblem` for a NaN."""
    if isinstance(value, float):
        if isnan(value):
            raise ShapeProblem("the value NaN, which is no number")
        return value if isinf(value) else Fraction(repr(value))
    return value


def held(value: Number, dtype: DType) -> Number:
    """``value`` stored in an element of that type: integers truncate, booleans test for non-zero. Raises
    :class:`ShapeProblem` for an integer that the type does not hold: eager wraps it around, or fails."""
    if dtype is DType.BOOL:
        return value != 0
    if dtype.is_integral:
        if isinstance(value, float):
            raise ShapeProblem(f"the value {value} in a tensor of integers")
        value = value if is_integer(value) else int(value)
        low, high = dtype.bounds
        if type(value) is int and not low <= value <= high:  # a size is a number that any type may be asked to hold
            raise ShapeProblem(f"the number {value}, which {dtype} does not hold")
        return value
    return int(value) if isinstance(value, bool) else value


def parts_of(value: Number | complex, dtype: DType) -> tuple[Number, ...]:
    """The numbers that a constant's element is stored as."""
    if dtype.is_complex:
        return value.real, value.imag
    if isinstance(value, complex):
        raise ShapeProblem(f"the complex number {value} in a tensor of type {dtype}")
    return (value,)
