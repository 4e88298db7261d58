"""Element types and tensor types."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

__all__ = ["DType", "Kind", "Shape", "TensorType"]

Shape = tuple[int, ...]


class Kind(Enum):
    """The kind of values that an element type has, which is all that the mathematics sees of it. Ordered by
    promotion."""

    BOOL = 0
    INT = 1
    FLOAT = 2
    COMPLEX = 3

    __hash__ = object.__hash__  # there is one object of each; Enum's own hashes its name, in Python


class DType(Enum):
    """Element types, by their PyTorch names. ``kind`` is the mathematical domain, ``bits`` the width of one element."""

    BOOL = ("bool", Kind.BOOL, 8)
    UINT8 = ("uint8", Kind.INT, 8)
    INT8 = ("int8", Kind.INT, 8)
    UINT16 = ("uint16", Kind.INT, 16)
    INT16 = ("int16", Kind.INT, 16)
    UINT32 = ("uint32", Kind.INT, 32)
    INT32 = ("int32", Kind.INT, 32)
    UINT64 = ("uint64", Kind.INT, 64)
    INT64 = ("int64", Kind.INT, 64)
    FLOAT8_E4M3FN = ("float8_e4m3fn", Kind.FLOAT, 8)
    FLOAT8_E5M2 = ("float8_e5m2", Kind.FLOAT, 8)
    FLOAT16 = ("float16", Kind.FLOAT, 16)
    BFLOAT16 = ("bfloat16", Kind.FLOAT, 16)
    FLOAT32 = ("float32", Kind.FLOAT, 32)
    FLOAT64 = ("float64", Kind.FLOAT, 64)
    COMPLEX64 = ("complex64", Kind.COMPLEX, 64)
    COMPLEX128 = ("complex128", Kind.COMPLEX, 128)

    __hash__ = object.__hash__

    def __init__(self, label: str, kind: Kind, bits: int) -> None:
        self.label = label
        self.kind = kind
        self.bits = bits

    @property
    def is_float(self) -> bool:
        return self.kind is Kind.FLOAT

    @property
    def is_complex(self) -> bool:
        return self.kind is Kind.COMPLEX

    @property
    def part(self) -> DType:
        """The type of a complex number's real and imaginary parts; any other type is itself."""
        if self.kind is not Kind.COMPLEX:
            return self
        return DType.FLOAT32 if self is DType.COMPLEX64 else DType.FLOAT64

    @property
    def is_integral(self) -> bool:
        """Integers and booleans."""
        return self.kind is Kind.INT or self.kind is Kind.BOOL

    @property
    def is_narrow(self) -> bool:
        """Integers of 8 and 16 bits, whose arithmetic is modulo ``2 ** bits``; that of wider ones is taken not to
        overflow."""
        return self.kind is Kind.INT and self.bits < 32

    def holds(self, other: DType) -> bool:
        """True if this type has every number of another integer or boolean type."""
        (low, high), (least, greatest) = self.bounds, other.bounds
        return low <= least and greatest <= high

    @property
    def bounds(self) -> tuple[int, int]:
        """The least and the greatest number of an integer type (of booleans: 0 and 1)."""
        if self is DType.BOOL:
            return 0, 1
        if self.label.startswith("u"):
            return 0, (1 << self.bits) - 1
        return -(1 << (self.bits - 1)), (1 << (self.bits - 1)) - 1

    @staticmethod
    def named(label: str) -> DType | None:
        """The type of that PyTorch name (``"float32"``), or ``None``."""
        return _BY_LABEL.get(label)

    def __str__(self) -> str:
        return self.label


_BY_LABEL = {dtype.label: dtype for dtype in DType}


@dataclass(frozen=True, slots=True)
class TensorType:
    """Shape and element type. ``str`` gives ``float32[2, 3]``."""

    shape: Shape
    dtype: DType

    @property
    def stored(self) -> TensorType:
        """The real tensor that holds the values: complex numbers are pairs (real part, imaginary part) in one more,
        last dimension, as ``view_as_real`` shows them. Any other type is itself."""
        return TensorType((*self.shape, 2), self.dtype.part) if self.dtype.is_complex else self

    def __str__(self) -> str:
        return f"{self.dtype.label}[{', '.join(map(str, self.shape))}]"
