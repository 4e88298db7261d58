"""Arithmetic with the counters of loops, done while a program is read: how often a loop turns must be known then."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Union

from tantamount.ir.types import DType, Kind

__all__ = ["Whole", "counted"]

Whole = Union[bool, int]


def _divide(a: int, b: int) -> int:
    """Towards zero."""
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


_OF_ONE: Mapping[str, Callable[[int], int]] = {
    "negate": lambda a: -a,
    "abs": lambda a: abs(a),
    "convert": lambda a: a,
    "reshape": lambda a: a,
}
_OF_TWO: Mapping[str, Callable[[int, int], int]] = {
    "add": lambda a, b: a + b,
    "subtract": lambda a, b: a - b,
    "multiply": lambda a, b: a * b,
    "divide": _divide,
    "remainder": lambda a, b: a - _divide(a, b) * b,
    "minimum": lambda a, b: min(a, b),
    "maximum": lambda a, b: max(a, b),
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
}
_OF_THREE: Mapping[str, Callable[[int, int, int], int]] = {
    "select": lambda condition, a, b: a if condition else b,
    "clamp": lambda low, a, high: min(max(low, a), high),
}
_COMPARISONS: Mapping[str, Callable[[int, int], bool]] = {
    "EQ": lambda a, b: a == b,
    "NE": lambda a, b: a != b,
    "LT": lambda a, b: a < b,
    "LE": lambda a, b: a <= b,
    "GT": lambda a, b: a > b,
    "GE": lambda a, b: a >= b,
}


def counted(opcode: str, operands: Sequence[object], attributes: Mapping[str, str], dtype: DType) -> Whole | None:
    """The value of an instruction on whole numbers, of one element each; ``None`` if it is none of these, or a number
    that ``dtype`` cannot hold."""
    match [operand for operand in operands if isinstance(operand, int)]:
        case numbers if len(numbers) != len(operands):
            return None
        case [a] if opcode in _OF_ONE:
            found = _OF_ONE[opcode](a)
        case [_, 0] if opcode in ("divide", "remainder"):
            return None
        case [a, b] if opcode in _OF_TWO:
            found = _OF_TWO[opcode](a, b)
        case [a, b] if opcode == "compare" and attributes.get("direction") in _COMPARISONS:
            found = _COMPARISONS[attributes["direction"]](a, b)
        case [a, b, c] if opcode in _OF_THREE:
            found = _OF_THREE[opcode](a, b, c)
        case _:
            return None
    if dtype.kind is Kind.BOOL:
        return bool(found) if isinstance(found, bool) or opcode == "convert" else None
    if dtype.kind is not Kind.INT:
        return None
    signed = not dtype.label.startswith("u")
    low, high = (-(1 << (dtype.bits - 1)), (1 << (dtype.bits - 1)) - 1) if signed else (0, (1 << dtype.bits) - 1)
    return int(found) if low <= found <= high else None
