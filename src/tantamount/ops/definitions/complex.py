"""Complex tensors: made of, and taken apart into, real ones."""

from __future__ import annotations

from tantamount.ops import complex_numbers
from tantamount.ops.algebra import Tensor
from tantamount.ops.builder import Builder, ShapeProblem
from tantamount.ops.definitions.in_place import overwriting, require_float
from tantamount.ops.doubts import doubted_at_zero
from tantamount.ops.table import operator

_COMPLEX = "complex"


def _two_floats(x: Tensor, y: Tensor) -> None:
    if require_float(x).dtype is not require_float(y).dtype:
        raise ShapeProblem(f"{x.type} with {y.type}")


@operator("aten.complex.default", category=_COMPLEX)
def complex_of(b: Builder, real: Tensor, imag: Tensor) -> Tensor:
    """real + i * imag"""
    _two_floats(real, imag)
    return complex_numbers.join(b, real, imag)


@operator("aten.polar.default", category=_COMPLEX)
def polar(b: Builder, abs: Tensor, angle: Tensor) -> Tensor:
    """abs * (cos(angle) + i * sin(angle))"""
    _two_floats(abs, angle)
    return complex_numbers.join(b, b.mul(abs, b.function("cos", angle)), b.mul(abs, b.function("sin", angle)))


@operator("aten.view_as_complex.default", "aten.view_as_complex_copy.default", category=_COMPLEX)
def view_as_complex(b: Builder, self: Tensor) -> Tensor:
    """self[..., 0] + i * self[..., 1]"""
    return complex_numbers.as_complex(self)


@operator("aten.view_as_real.default", "aten.view_as_real_copy.default", category=_COMPLEX)
def view_as_real(b: Builder, self: Tensor) -> Tensor:
    """the real and the imaginary part side by side in a new last dimension"""
    return complex_numbers.as_real(self)


@operator("aten.real.default", category=_COMPLEX)
def real(b: Builder, self: Tensor) -> Tensor:
    """the real part; real numbers are their own"""
    return complex_numbers.parts(b, self)[0] if self.dtype.is_complex else self


@operator("aten.imag.default", category=_COMPLEX)
def imag(b: Builder, self: Tensor) -> Tensor:
    """the imaginary part"""
    return complex_numbers.parts(b, self)[1]


@operator("aten.angle.default", category=_COMPLEX)
def angle(b: Builder, self: Tensor) -> Tensor:
    """atan2(imaginary part, real part); of real numbers pi where they are negative, else 0"""
    if self.dtype.is_complex:
        a, e = complex_numbers.parts(b, self)
        return b.function("atan2", doubted_at_zero(b, e), a)
    x = b.floating(self)
    return b.where(b.less(x, 0), b.function("pi_times", b.number(1, x.dtype)), b.number(0, x.dtype))


@overwriting("aten.conj_physical_.default", category=_COMPLEX)
@operator(
    "aten.conj.default",
    "aten._conj.default",
    "aten.conj_physical.default",
    "aten._conj_physical.default",
    "aten._conj_copy.default",
    category=_COMPLEX,
)
def conj(b: Builder, self: Tensor) -> Tensor:
    """real part - i * imaginary part; real numbers are their own"""
    if not self.dtype.is_complex:
        return self
    a, e = complex_numbers.parts(b, self)
    return complex_numbers.join(b, a, b.neg(e))


@operator("aten.resolve_conj.default", "aten.resolve_neg.default", category=_COMPLEX)
def resolve(b: Builder, self: Tensor) -> Tensor:
    """self: a conjugation or negation that was put off is part of the value"""
    return self
