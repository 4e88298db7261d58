"""Numbers written in graphs, made exact and stored in elements of a type."""

from __future__ import annotations

from fractions import Fraction
from math import isinf, isnan

from tantamount.ir.types import DType
from tantamount.ops.algebra import Number, ShapeProblem
from tantamount.sizes.symbolic import is_integer

__all__ = ["decimal", "exact", "held", "parts_of", "rest_of_one"]


_SHORT = 12  # digits of a decimal that somebody wrote
_CLOSE = Fraction(1, 10**11)  # of a number, as far as the rounding of 1 - c may be from it: a weight, no tiny number


def exact(value: Number) -> Number:
    """The exact rational of a number that a call is given: of the decimal that was written (``0.1`` is 1/10), or of
    what Python computed from one (:func:`rest_of_one`); infinities stay floats. Raises :class:`ShapeProblem` for a
    NaN."""
    found = decimal(value)
    return (rest_of_one(value) or found) if isinstance(value, float) else found


def decimal(value: Number) -> Number:
    """The exact rational of the decimal that was written, an element of a recorded table, say; infinities stay floats.
    Raises :class:`ShapeProblem` for a NaN."""
    if isinstance(value, float):
        if isnan(value):
            raise ShapeProblem("the value NaN, which is no number")
        return value if isinf(value) else Fraction(repr(value))
    return value


def rest_of_one(value: float) -> Fraction | None:
    """``1 - c`` for a short decimal c from which Python computed ``value`` that way: 0.010000000000000009 is 1 - 0.99,
    the weight of a moving average whose other weight is 0.99, and as far from 1/100 as floats near 1 are apart. What is
    taken for another number this way is an assumption, which is printed; ``None``: the literal stands for itself."""
    rest = 1 - value
    if not 0 < value < 1 or _digits(value) <= _SHORT or Fraction(value) + Fraction(rest) != 1 or _digits(rest) > _SHORT:
        return None
    found = 1 - Fraction(repr(rest))
    return found if abs(Fraction(repr(value)) - found) <= found * _CLOSE else None


def _digits(value: float) -> int:
    return len(repr(value).partition("e")[0].replace(".", "").lstrip("0"))


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
