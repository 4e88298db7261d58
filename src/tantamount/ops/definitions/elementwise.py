"""Arithmetic of single elements."""

from __future__ import annotations

from fractions import Fraction
from math import isinf
from typing import cast

from tantamount.ir.types import DType, Kind
from tantamount.ops import complex_numbers
from tantamount.ops.algebra import PerRank, Scalar, Tensor
from tantamount.ops.builder import Builder, ShapeProblem, exact
from tantamount.ops.definitions.in_place import overwriting, require_float, scaled
from tantamount.ops.doubts import doubted, doubtful
from tantamount.ops.table import Operand, operator
from tantamount.sizes.symbolic import is_integer, same

_ELEMENTWISE = "elementwise"


def _whole(x: Tensor) -> bool:
    """True if rounding cannot change x: its type is an integer one. Raises for booleans."""
    if x.dtype is DType.BOOL:
        raise ShapeProblem("an operand of type bool where a number is needed")
    return x.dtype.kind is Kind.INT


def _numbers(b: Builder, self: Tensor, other: Operand, what: str) -> tuple[Tensor, Tensor]:
    x, y = b.operands(self, other, wrapping=True)
    if x.dtype is DType.BOOL:
        raise ShapeProblem(f"{what} of booleans")
    return x, y


# ---------------------------------------------------------------------------------------------- sums and products
@overwriting("aten.add_.Tensor", "aten.add_.Scalar", category=_ELEMENTWISE)
@operator("aten.add.Tensor", "aten.add.Scalar", category=_ELEMENTWISE)
def add(b: Builder, self: Tensor, other: Operand, alpha: Scalar = 1) -> Tensor:
    """self + alpha * other; of booleans: or"""
    x, y = b.operands(self, other, wrapping=True)
    if x.dtype is DType.BOOL:
        if alpha is not True and alpha != 1:
            raise ShapeProblem(f"alpha = {alpha} for booleans")
        return b.or_(x, y)
    return b.add(x, scaled(b, y, alpha))


@overwriting("aten.sub_.Tensor", "aten.sub_.Scalar", category=_ELEMENTWISE)
@operator("aten.sub.Tensor", "aten.sub.Scalar", category=_ELEMENTWISE)
def sub(b: Builder, self: Tensor, other: Operand, alpha: Scalar = 1) -> Tensor:
    """self - alpha * other"""
    x, y = _numbers(b, self, other, "difference")
    return b.sub(x, scaled(b, y, alpha))


@operator("aten.rsub.Tensor", "aten.rsub.Scalar", category=_ELEMENTWISE)
def rsub(b: Builder, self: Tensor, other: Operand, alpha: Scalar = 1) -> Tensor:
    """other - alpha * self"""
    x, y = _numbers(b, self, other, "difference")
    return b.sub(y, scaled(b, x, alpha))


@overwriting("aten.mul_.Tensor", "aten.mul_.Scalar", category=_ELEMENTWISE)
@operator("aten.mul.Tensor", "aten.mul.Scalar", category=_ELEMENTWISE)
def mul(b: Builder, self: Tensor, other: Operand) -> Tensor:
    """self * other; of booleans: and"""
    x, y = b.operands(self, other, wrapping=True)
    return b.and_(x, y) if x.dtype is DType.BOOL else b.mul(x, y)


@overwriting("aten.div_.Tensor", "aten.div_.Scalar", category=_ELEMENTWISE)
@operator("aten.div.Tensor", "aten.div.Scalar", "aten.true_divide.Tensor", category=_ELEMENTWISE)
def div(b: Builder, self: Tensor, other: Operand) -> Tensor:
    """self / other; integers become floats"""
    if any(isinstance(x, Tensor) and x.dtype.is_complex for x in (self, other)):
        return b.div(doubted(b, self), doubted(b, other))
    return b.div(self, other)


_OF_REMAINDERS = "quotients and remainders are computed from each other: -1 // inf is -1, and -inf // 1 is NaN"


def _finite(divisor: Operand) -> Operand:
    """The divisor, which must not be an infinite number."""
    if isinstance(divisor, float) and isinf(divisor):
        raise ShapeProblem(f"a rounded quotient by {divisor}")
    return divisor


def _floor_quotient(b: Builder, x: Tensor, y: Tensor) -> Tensor:
    if x.dtype.is_integral:
        return b.function("floor_divide", x, y, floating=False)
    return b.function("floor", b.div(x, y))


def _trunc_quotient(b: Builder, x: Tensor, y: Tensor) -> Tensor:
    if not x.dtype.is_integral:
        return b.function("trunc", b.div(x, y))
    fails = b.function("floor_divide", x, y, floating=False)  # where y = 0, and nothing that is computed from it is
    above, below = b.operands(x, y)
    whole = b.interpretation.truncated_quotient(above.value, below.value)
    if whole is not None:
        return b.add(b.cast(Tensor(above.shape, DType.INT64, whole), x.dtype), b.mul(fails, 0))
    return b.add(b.cast(b.cast(b.div(x, y), DType.INT64), x.dtype), b.mul(fails, 0))


@operator("aten.div.Tensor_mode", "aten.div.Scalar_mode", category=_ELEMENTWISE)
def div_mode(b: Builder, self: Tensor, other: Operand, *, rounding_mode: str | None) -> Tensor:
    """self / other, rounded down (`floor`), towards zero (`trunc`) or not at all"""
    if rounding_mode is None:
        return b.div(self, other)
    x, y = _numbers(b, self, _finite(other), "rounded quotient")
    if rounding_mode == "floor":
        return _floor_quotient(b, doubted(b, x), doubted(b, y))
    if rounding_mode == "trunc":
        return _trunc_quotient(b, x, y)
    raise ShapeProblem(f"rounding mode {rounding_mode!r}")


@operator("aten.floor_divide.default", "aten.floor_divide.Scalar", category=_ELEMENTWISE)
@doubtful(_OF_REMAINDERS)
def floor_divide(b: Builder, self: Tensor, other: Operand) -> Tensor:
    """floor(self / other)"""
    return _floor_quotient(b, *_numbers(b, self, _finite(other), "rounded quotient"))


@operator("aten.remainder.Scalar", "aten.remainder.Tensor", category=_ELEMENTWISE)
@doubtful(_OF_REMAINDERS)
def remainder(b: Builder, self: Tensor, other: Operand) -> Tensor:
    """self - other * floor(self / other)"""
    x, y = _numbers(b, self, _finite(other), "remainder")
    return b.sub(x, b.mul(y, _floor_quotient(b, x, y)))


@operator("aten.fmod.Scalar", "aten.fmod.Tensor", category=_ELEMENTWISE)
@doubtful(_OF_REMAINDERS)
def fmod(b: Builder, self: Tensor, other: Operand) -> Tensor:
    """self - other * trunc(self / other)"""
    x, y = _numbers(b, self, _finite(other), "remainder")
    return b.sub(x, b.mul(y, _trunc_quotient(b, x, y)))


@overwriting("aten.neg_.default", category=_ELEMENTWISE)
@operator("aten.neg.default", category=_ELEMENTWISE)
def neg(b: Builder, self: Tensor) -> Tensor:
    """-self"""
    _whole(self)
    return b.neg(self)


@overwriting("aten.reciprocal_.default", category=_ELEMENTWISE)
@operator("aten.reciprocal.default", category=_ELEMENTWISE)
def reciprocal(b: Builder, self: Tensor) -> Tensor:
    """1 / self"""
    return b.power(b.floating(self), -1)


@overwriting("aten.lerp_.Scalar", "aten.lerp_.Tensor", category=_ELEMENTWISE)
@operator("aten.lerp.Scalar", "aten.lerp.Tensor", category=_ELEMENTWISE)
def lerp(b: Builder, self: Tensor, end: Tensor, weight: Operand) -> Tensor:
    """self + weight * (end - self)"""
    start = require_float(self)
    if not isinstance(weight, Tensor | PerRank) and abs(float(weight)) >= 0.5:  # infinities want the formula of eager
        return b.sub(end, b.mul(b.sub(end, start), 1 - exact(weight)))
    if isinstance(weight, Tensor | PerRank):
        start, end, weight = doubted(b, start), doubted(b, end), doubted(b, weight)
    return b.add(start, b.mul(b.sub(end, start), weight))


@overwriting("aten.addcmul_.default", category=_ELEMENTWISE)
@operator("aten.addcmul.default", category=_ELEMENTWISE)
def addcmul(b: Builder, self: Tensor, tensor1: Tensor, tensor2: Tensor, *, value: Scalar = 1) -> Tensor:
    """self + value * tensor1 * tensor2"""
    x, y, z = b.operands(self, tensor1, tensor2)
    _whole(x)
    return b.add(x, scaled(b, b.mul(y, z), value))


@overwriting("aten.addcdiv_.default", category=_ELEMENTWISE)
@operator("aten.addcdiv.default", category=_ELEMENTWISE)
def addcdiv(b: Builder, self: Tensor, tensor1: Tensor, tensor2: Tensor, *, value: Scalar = 1) -> Tensor:
    """self + value * tensor1 / tensor2"""
    x, y, z = b.operands(self, tensor1, tensor2)
    require_float(x)
    return b.add(x, scaled(b, b.div(y, z), value))


# ---------------------------------------------------------------------------------------------- powers
@operator("aten.square.default", category=_ELEMENTWISE)
def square(b: Builder, self: Tensor) -> Tensor:
    """self ** 2"""
    return _constant_power(b, self, 2)


def _constant_power(b: Builder, x: Tensor, exponent: Fraction | int) -> Tensor:
    if x.dtype is DType.BOOL:
        x = b.cast(x, DType.INT64)
    if exponent == 0:
        return b.full(x.shape, 1, x.dtype)
    if exponent == 1:
        return b.cast(x, x.dtype)
    if not x.dtype.is_integral:
        return b.power(x, exponent)
    if exponent < 0 or exponent > 64:
        raise ShapeProblem(f"integers to the power {exponent}")
    out = x
    for _ in range(int(exponent) - 1):
        out = b.mul(out, x)
    return out


@overwriting("aten.pow_.Scalar", category=_ELEMENTWISE)
@operator("aten.pow.Tensor_Scalar", category=_ELEMENTWISE)
def pow_scalar(b: Builder, self: Tensor, exponent: float) -> Tensor:
    """self ** exponent"""
    constant = exact(exponent)
    if isinstance(constant, float):
        raise ShapeProblem(f"power with exponent {constant}")
    if self.dtype.is_integral and isinstance(exponent, float):
        self = b.floating(self)
    return _constant_power(b, self, Fraction(constant))


@operator("aten.pow.Scalar", category=_ELEMENTWISE)
def scalar_pow(b: Builder, self: float, exponent: Tensor) -> Tensor:
    """self ** exponent = exp(exponent * log(self)), for self > 0"""
    if self <= 0:
        raise ShapeProblem(f"the power of a base {self}, which is not positive")
    if exponent.dtype.is_integral and isinstance(self, int):
        base, power = b.operands(self, exponent, wrapping=True)
        return b.function("integer_pow", base, power, floating=False)
    x = b.floating(exponent)
    if self == 1:
        return b.full(x.shape, 1, x.dtype)
    return b.exp(b.mul(x, b.log(b.number(self, x.dtype))))


@operator("aten.pow.Tensor_Tensor", category=_ELEMENTWISE)
def pow_tensor(b: Builder, self: Tensor, exponent: Tensor) -> Tensor:
    """self ** exponent, both variable; of integers, what a negative exponent gives is rounded towards 0"""
    x, y = _numbers(b, self, exponent, "power")
    return b.function("integer_pow" if x.dtype.is_integral else "pow", x, y, floating=False)


@overwriting("aten.sqrt_.default", category=_ELEMENTWISE)
@operator("aten.sqrt.default", category=_ELEMENTWISE)
def sqrt(b: Builder, self: Tensor) -> Tensor:
    """self ** (1/2)"""
    return b.sqrt(self)


@overwriting("aten.rsqrt_.default", category=_ELEMENTWISE)
@operator("aten.rsqrt.default", category=_ELEMENTWISE)
def rsqrt(b: Builder, self: Tensor) -> Tensor:
    """self ** (-1/2)"""
    return b.rsqrt(self)


# ---------------------------------------------------------------------------------------------- exponentials
@overwriting("aten.exp_.default", category=_ELEMENTWISE)
@operator("aten.exp.default", category=_ELEMENTWISE)
def exp(b: Builder, self: Tensor) -> Tensor:
    """exp(self)"""
    return b.exp(self)


@operator("aten.exp2.default", category=_ELEMENTWISE)
def exp2(b: Builder, self: Tensor) -> Tensor:
    """exp(self * log 2)"""
    x = b.floating(self)
    return b.exp(b.mul(x, b.log(b.number(2, x.dtype))))


@operator("aten.expm1.default", category=_ELEMENTWISE)
def expm1(b: Builder, self: Tensor) -> Tensor:
    """exp(self) - 1"""
    return b.sub(b.exp(self), 1)


@overwriting("aten.log_.default", category=_ELEMENTWISE)
@operator("aten.log.default", category=_ELEMENTWISE)
def log(b: Builder, self: Tensor) -> Tensor:
    """log(self)"""
    return b.log(self)


def _log_to_base(b: Builder, x: Tensor, base: int) -> Tensor:
    x = b.floating(x)
    return b.div(b.log(x), b.log(b.number(base, x.dtype)))


@operator("aten.log2.default", category=_ELEMENTWISE)
def log2(b: Builder, self: Tensor) -> Tensor:
    """log(self) / log 2"""
    return _log_to_base(b, self, 2)


@operator("aten.log10.default", category=_ELEMENTWISE)
def log10(b: Builder, self: Tensor) -> Tensor:
    """log(self) / log 10"""
    return _log_to_base(b, self, 10)


@operator("aten.log1p.default", category=_ELEMENTWISE)
def log1p(b: Builder, self: Tensor) -> Tensor:
    """log(1 + self)"""
    return b.log(b.add(b.floating(self), 1))


@operator("aten.sinh.default", category=_ELEMENTWISE)
def sinh(b: Builder, self: Tensor) -> Tensor:
    """(exp(self) - exp(-self)) / 2"""
    x = b.floating(self)
    return b.mul(b.sub(b.exp(x), b.exp(b.neg(x))), Fraction(1, 2))


@operator("aten.cosh.default", category=_ELEMENTWISE)
def cosh(b: Builder, self: Tensor) -> Tensor:
    """(exp(self) + exp(-self)) / 2"""
    x = b.floating(self)
    return b.mul(b.add(b.exp(x), b.exp(b.neg(x))), Fraction(1, 2))


# ---------------------------------------------------------------------------------------------- other functions
@operator("aten.sin.default", category=_ELEMENTWISE)
def sin(b: Builder, self: Tensor) -> Tensor:
    """sin(self)"""
    return b.function("sin", self)


@operator("aten.cos.default", category=_ELEMENTWISE)
def cos(b: Builder, self: Tensor) -> Tensor:
    """cos(self)"""
    return b.function("cos", self)


@operator("aten.tan.default", category=_ELEMENTWISE)
def tan(b: Builder, self: Tensor) -> Tensor:
    """sin(self) / cos(self)"""
    return b.div(b.function("sin", self), b.function("cos", self))


@operator("aten.atan.default", category=_ELEMENTWISE)
def atan(b: Builder, self: Tensor) -> Tensor:
    """atan(self)"""
    return b.function("atan", self)


@operator("aten.erf.default", category=_ELEMENTWISE)
def erf(b: Builder, self: Tensor) -> Tensor:
    """erf(self)"""
    return b.function("erf", self)


@operator("aten.erfc.default", category=_ELEMENTWISE)
def erfc(b: Builder, self: Tensor) -> Tensor:
    """1 - erf(self)"""
    return b.sub(1, b.function("erf", self))


def absolute_of_real(b: Builder, self: Tensor) -> Tensor:
    """|self|, not of complex numbers"""
    _whole(self)
    return b.function("abs", self, floating=False)


@operator("aten.abs.default", category=_ELEMENTWISE)
def absolute(b: Builder, self: Tensor) -> Tensor:
    """|self|; of complex numbers the root of the sum of the squares of their parts"""
    if not self.dtype.is_complex:
        return absolute_of_real(b, self)
    real, imaginary = complex_numbers.parts(b, self)
    return b.sqrt(b.add(b.power(real, 2), b.power(imaginary, 2)))


@operator("aten.sign.default", "aten.sgn.default", category=_ELEMENTWISE)
def sign(b: Builder, self: Tensor) -> Tensor:
    """-1, 0 or 1, as self is negative, zero or positive"""
    _whole(self)
    return b.function("sign", self, floating=False)


@operator("aten.floor.default", category=_ELEMENTWISE)
def floor(b: Builder, self: Tensor) -> Tensor:
    """the largest whole number that is at most self"""
    return self if _whole(self) else b.function("floor", self)


@operator("aten.ceil.default", category=_ELEMENTWISE)
def ceil(b: Builder, self: Tensor) -> Tensor:
    """-floor(-self)"""
    return self if _whole(self) else b.neg(b.function("floor", b.neg(self)))


@operator("aten.trunc.default", category=_ELEMENTWISE)
def trunc(b: Builder, self: Tensor) -> Tensor:
    """self without its fraction"""
    return self if _whole(self) else b.function("trunc", self)


@operator("aten.frac.default", category=_ELEMENTWISE)
def frac(b: Builder, self: Tensor) -> Tensor:
    """self - trunc(self)"""
    return b.sub(require_float(self), b.function("trunc", self))


@operator("aten.round.default", category=_ELEMENTWISE)
def rounded(b: Builder, self: Tensor) -> Tensor:
    """the nearest whole number, halves to the even one"""
    return self if _whole(self) else b.function("round", self)


# ---------------------------------------------------------------------------------------------- order
@operator("aten.maximum.default", "aten.max.other", category=_ELEMENTWISE)
def maximum(b: Builder, self: Tensor, other: Tensor) -> Tensor:
    """max(self, other)"""
    x, y = b.operands(self, other)
    return b.or_(x, y) if x.dtype is DType.BOOL else b.maximum(x, y)


@operator("aten.minimum.default", "aten.min.other", category=_ELEMENTWISE)
def minimum(b: Builder, self: Tensor, other: Tensor) -> Tensor:
    """min(self, other)"""
    x, y = b.operands(self, other)
    return b.and_(x, y) if x.dtype is DType.BOOL else b.minimum(x, y)


@overwriting("aten.clamp_.default", category=_ELEMENTWISE)
@operator("aten.clamp.default", "aten.clamp.Tensor", category=_ELEMENTWISE)
def clamp(b: Builder, self: Tensor, min: Operand | None = None, max: Operand | None = None) -> Tensor:
    """min(max(self, lower bound), upper bound)"""
    whole = _whole(self)
    if min is None and max is None:
        raise ShapeProblem("a clamp without bounds")
    if whole and all(bound is None or is_integer(bound) for bound in (min, max)):
        return _clamp_whole(b, self, cast("int | None", min), cast("int | None", max))
    x = self if min is None else b.maximum(self, min)
    return x if max is None else b.minimum(x, max)


def _clamp_whole(b: Builder, x: Tensor, low: int | None, high: int | None) -> Tensor:
    """Choices rather than maxima: an index that is clamped is then the index itself wherever the bounds are known to
    hold, such as under the mask of a vocabulary shard."""
    if low is not None and high is not None and (same(low, high) or low > high):
        return b.full(x.shape, high, x.dtype)
    y = x if low is None else b.where(b.less(x, low), low, x)
    return y if high is None else b.where(b.less(high, x), high, y)


@overwriting("aten.clamp_min_.default", category=_ELEMENTWISE)
@operator("aten.clamp_min.default", "aten.clamp_min.Tensor", category=_ELEMENTWISE)
def clamp_min(b: Builder, self: Tensor, min: Operand) -> Tensor:
    """max(self, min)"""
    return clamp(b, self, min, None)


@overwriting("aten.clamp_max_.default", category=_ELEMENTWISE)
@operator("aten.clamp_max.default", "aten.clamp_max.Tensor", category=_ELEMENTWISE)
def clamp_max(b: Builder, self: Tensor, max: Operand) -> Tensor:
    """min(self, max)"""
    return clamp(b, self, None, max)
