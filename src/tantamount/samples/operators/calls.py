"""One sample call of an operator as data, and short names for its operands."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from tantamount.ir.types import DType

__all__ = ["B", "F32", "F64", "I32", "I64", "Operand", "Sample", "c", "call", "f", "i", "m", "positive"]

B, F32, F64, I32, I64 = DType.BOOL, DType.FLOAT32, DType.FLOAT64, DType.INT32, DType.INT64


@dataclass(frozen=True)
class Operand:
    """A tensor argument: its type, and bounds of its values (``low <= value < high``) or the values, row-major."""

    shape: tuple[int, ...]
    dtype: DType = F32
    low: float = -2.0
    high: float = 2.0
    data: tuple[int | float, ...] | None = None


@dataclass(frozen=True)
class Sample:
    """One call. Arguments are numbers, strings, ``DType`` s, :class:`Operand` s and tuples of these.

    ``values`` is false where PyTorch's values are not determined (random numbers, unwritten memory)."""

    target: str
    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict[str, Any])
    values: bool = True

    def __str__(self) -> str:
        parts = [_show(item) for item in self.args] + [f"{key}={_show(item)}" for key, item in self.kwargs.items()]
        return f"{self.target}({', '.join(parts)})"


def _show(item: Any) -> str:
    if isinstance(item, Operand):
        return f"{item.dtype}[{','.join(map(str, item.shape))}]"
    if isinstance(item, tuple):
        return f"({', '.join(map(_show, cast('tuple[Any, ...]', item)))})"
    return str(item)


def call(target: str, *args: Any, **kwargs: Any) -> Sample:
    """A sample; the target without its ``aten.``."""
    return Sample(f"aten.{target}", args, kwargs)


def f(*shape: int, dtype: DType = F32, low: float = -2.0, high: float = 2.0) -> Operand:
    """A tensor of the shape with floats from ``low`` (-2) up to ``high`` (2)."""
    return Operand(shape, dtype, low, high)


def c(*shape: int, dtype: DType = DType.COMPLEX64) -> Operand:
    """A tensor of complex numbers whose real and imaginary parts are between -2 and 2."""
    return Operand(shape, dtype)


def positive(*shape: int, dtype: DType = F32) -> Operand:
    """A tensor of floats between 1/4 and 2."""
    return Operand(shape, dtype, 0.25, 2.0)


def i(*shape: int, dtype: DType = I64, low: int = -4, high: int = 5, data: tuple[int, ...] | None = None) -> Operand:
    """A tensor of integers from ``low`` up to, not including, ``high``, or of ``data`` in row-major order."""
    return Operand(shape, dtype, low, high, data)


def m(*shape: int, data: tuple[int, ...] | None = None) -> Operand:
    """A tensor of booleans, or of ``data`` (0 and 1) in row-major order."""
    return Operand(shape, B, 0, 2, data)
