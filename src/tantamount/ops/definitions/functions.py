"""Functions of single elements that models rarely use: inverse trigonometry, bit shifts, rounding, activations."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

from tantamount.ir.types import DType, Kind
from tantamount.ops.algebra import Doubt, Scalar, Tensor
from tantamount.ops.builder import Builder, ShapeProblem
from tantamount.ops.definitions import elementwise, logic, reduction
from tantamount.ops.definitions.activation import logistic
from tantamount.ops.definitions.in_place import require_float
from tantamount.ops.doubts import doubted_at_zero, doubtful
from tantamount.ops.table import Operand, operator

_ELEMENTWISE = "elementwise"
_ACTIVATION = "activation"
_LOGIC = "logic"

FINITE = (
    "numbers that the program computes are finite unless its formulas say otherwise: what it does once overflow makes "
    "infinities or NaN of them, which it tests for, is not compared"
)


# ---------------------------------------------------------------------------------------------- angles
def _cathetus(b: Builder, x: Tensor) -> Tensor:
    """sqrt(1 - x^2): undefined where |x| > 1, which is the domain of asin and acos."""
    return b.sqrt(b.sub(1, b.mul(x, x)))


@operator("aten.asin.default", category=_ELEMENTWISE)
def asin(b: Builder, self: Tensor) -> Tensor:
    """atan2(self, sqrt(1 - self^2))"""
    x = b.floating(self)
    return b.function("atan2", x, _cathetus(b, x))


@operator("aten.acos.default", category=_ELEMENTWISE)
def acos(b: Builder, self: Tensor) -> Tensor:
    """atan2(sqrt(1 - self^2), self)"""
    x = b.floating(self)
    return b.function("atan2", _cathetus(b, x), x)


@operator("aten.atan2.default", "aten.arctan2.default", category=_ELEMENTWISE)
def atan2(b: Builder, self: Tensor, other: Tensor) -> Tensor:
    """the angle of the point (other, self)"""
    y = doubted_at_zero(b, self)  # at a negative zero it is -pi where it is pi at 0, beside a negative other
    return b.function("atan2", y, other)


@operator("aten.asinh.default", category=_ELEMENTWISE)
def asinh(b: Builder, self: Tensor) -> Tensor:
    """asinh(self)"""
    return b.function("asinh", self)


@operator("aten.acosh.default", category=_ELEMENTWISE)
def acosh(b: Builder, self: Tensor) -> Tensor:
    """log(self + sqrt(self^2 - 1))"""
    x = b.floating(self)
    return b.log(b.add(x, b.sqrt(b.sub(b.mul(x, x), 1))))


@operator("aten.atanh.default", category=_ELEMENTWISE)
def atanh(b: Builder, self: Tensor) -> Tensor:
    """(log(1 + self) - log(1 - self)) / 2"""
    x = b.floating(self)
    return b.mul(b.sub(b.log(b.add(1, x)), b.log(b.sub(1, x))), Fraction(1, 2))


@operator("aten.hypot.default", category=_ELEMENTWISE)
def hypot(b: Builder, self: Tensor, other: Tensor) -> Tensor:
    """sqrt(self^2 + other^2)"""
    x, y = b.operands(require_float(self), require_float(other))
    return b.sqrt(b.add(b.mul(x, x), b.mul(y, y)))


@operator("aten.deg2rad.default", category=_ELEMENTWISE)
def deg2rad(b: Builder, self: Tensor) -> Tensor:
    """pi * self / 180"""
    return b.mul(b.function("pi_times", self), Fraction(1, 180))


@operator("aten.rad2deg.default", category=_ELEMENTWISE)
def rad2deg(b: Builder, self: Tensor) -> Tensor:
    """180 * self / pi"""
    x = b.floating(self)
    return b.div(b.mul(x, 180), b.function("pi_times", b.number(1, x.dtype)))


@operator("aten.sinc.default", category=_ELEMENTWISE)
def sinc(b: Builder, self: Tensor) -> Tensor:
    """sin(pi * self) / (pi * self), and 1 at 0"""
    x = b.floating(self)
    zero = b.equal(x, 0)
    angle = b.function("pi_times", b.where(zero, b.number(1, x.dtype), x))
    return b.where(zero, b.number(1, x.dtype), b.div(b.function("sin", angle), angle))


# ---------------------------------------------------------------------------------------------- exponentials
@operator("aten.erfinv.default", category=_ELEMENTWISE)
def erfinv(b: Builder, self: Tensor) -> Tensor:
    """the number whose erf is self, for |self| < 1"""
    x = b.floating(self)
    b.log(b.sub(1, b.mul(x, x)))  # not used: where it is undefined, so is the result
    return b.function("erfinv", x)


@operator("aten.logaddexp.default", category=_ELEMENTWISE)
@doubtful(reduction.OF_PLUS_INFINITY, Doubt.PLUS)
def logaddexp(b: Builder, self: Tensor, other: Tensor) -> Tensor:
    """log(exp(self) + exp(other))"""
    x, y = b.operands(require_float(self), require_float(other))
    top = reduction.without_minus_infinity(b, b.maximum(x, y))
    return b.add(b.log(b.add(b.exp(b.sub(x, top)), b.exp(b.sub(y, top)))), top)


@operator("aten.xlogy.Tensor", "aten.xlogy.Scalar_Self", "aten.xlogy.Scalar_Other", category=_ELEMENTWISE)
def xlogy(b: Builder, self: Operand, other: Operand) -> Tensor:
    """self * log(other), and 0 where self = 0 and other is not NaN"""
    x, y = b.operands(self, other)
    x, y = b.floating(x), b.floating(y)
    zero = b.equal(x, 0)
    nothing = b.mul(b.function("tanh", y), 0)  # 0, also of an infinity; but NaN of NaN
    return b.where(zero, nothing, b.mul(x, b.log(b.where(zero, b.number(1, x.dtype), y))))


@operator("aten.logit.default", category=_ELEMENTWISE)
def logit(b: Builder, self: Tensor, eps: float | None = None) -> Tensor:
    """log(self / (1 - self)), self first clamped to eps .. 1 - eps"""
    x = b.floating(self)
    if eps is not None:
        if eps < 0:
            raise ShapeProblem(f"eps = {eps}")
        low = b.number(eps, x.dtype)
        x = b.minimum(b.maximum(x, low), b.sub(1, low))
    return b.log(b.div(x, b.sub(1, x)))


@operator("aten.ldexp.Tensor", category=_ELEMENTWISE)
def ldexp(b: Builder, self: Tensor, other: Tensor) -> Tensor:
    """self * exp(other * log 2)"""
    x, y = b.operands(self, b.floating(other))
    return b.mul(x, b.exp(b.mul(y, b.log(b.number(2, y.dtype)))))


# ---------------------------------------------------------------------------------------------- signs and rounding
@operator("aten.round.decimals", category=_ELEMENTWISE)
def round_decimals(b: Builder, self: Tensor, *, decimals: int) -> Tensor:
    """self rounded to that many decimals, halves to the even one"""
    if abs(decimals) > 300:
        raise ShapeProblem(f"{decimals} decimals")
    scale = Fraction(10) ** decimals
    return b.mul(b.function("round", b.mul(require_float(self), scale)), 1 / scale)


@operator("aten.copysign.Tensor", "aten.copysign.Scalar", category=_ELEMENTWISE)
def copysign(b: Builder, self: Tensor, other: Operand) -> Tensor:
    """|self|, negative where other is (an operand that is 0 has no sign; of a computed 0 nothing is claimed)"""
    x, y = b.operands(self, other)
    size = b.function("abs", b.floating(x))
    return b.where(b.less(doubted_at_zero(b, y), 0), b.neg(size), size)


@operator("aten.signbit.default", category=_LOGIC)
def signbit(b: Builder, self: Tensor) -> Tensor:
    """self < 0 (an operand that is 0 has no sign; of a computed 0 nothing is claimed)"""
    if self.dtype is DType.BOOL:
        return b.full(self.shape, False, DType.BOOL)
    return b.less(doubted_at_zero(b, self), 0)


@operator("aten.heaviside.default", category=_ELEMENTWISE)
def heaviside(b: Builder, self: Tensor, values: Tensor) -> Tensor:
    """0 where self < 0, values where self = 0, else 1"""
    if self.dtype is not values.dtype:
        raise ShapeProblem(f"{values.type} for {self.type}")
    x, y = b.operands(self, values)
    one, zero = b.number(1, x.dtype), b.number(0, x.dtype)
    return b.where(b.equal(x, 0), y, b.where(b.less(x, 0), zero, one))


@operator("aten.remainder.Scalar_Tensor", category=_ELEMENTWISE)
def remainder_of_number(b: Builder, self: Scalar, other: Tensor) -> Tensor:
    """self - other * floor(self / other)"""
    return elementwise.remainder(b, b.number(self), other)


# ---------------------------------------------------------------------------------------------- special numbers
@operator("aten.isnan.default", category=_LOGIC, assumes=(FINITE,))
def isnan(b: Builder, self: Tensor) -> Tensor:
    """self is no number: of the numbers that programs are given none is, so it is where something was undefined"""
    if self.dtype.is_integral:
        return b.full(self.shape, False, DType.BOOL)
    return b.cast(b.function("isnan", self), DType.BOOL)


@operator("aten.isinf.default", category=_LOGIC, assumes=(FINITE,))
def isinf(b: Builder, self: Tensor) -> Tensor:
    """self is infinite"""
    if self.dtype.is_integral:
        return b.full(self.shape, False, DType.BOOL)
    return b.or_(b.equal(self, b.infinity), b.equal(self, -b.infinity))


@operator("aten.isposinf.default", category=_LOGIC, assumes=(FINITE,))
def isposinf(b: Builder, self: Tensor) -> Tensor:
    """self = inf"""
    return b.full(self.shape, False, DType.BOOL) if self.dtype.is_integral else b.equal(self, b.infinity)


@operator("aten.isneginf.default", category=_LOGIC, assumes=(FINITE,))
def isneginf(b: Builder, self: Tensor) -> Tensor:
    """self = -inf"""
    return b.full(self.shape, False, DType.BOOL) if self.dtype.is_integral else b.equal(self, -b.infinity)


@operator("aten.isfinite.default", category=_LOGIC, assumes=(FINITE,))
def isfinite(b: Builder, self: Tensor) -> Tensor:
    """self is neither infinite nor no number"""
    return b.not_(b.or_(isinf(b, self), isnan(b, self)))


def _greatest(dtype: DType) -> int:
    """The greatest number of a float type of 16 bits or more."""
    exponent, digits = {DType.FLOAT16: (15, 10), DType.BFLOAT16: (127, 7), DType.FLOAT32: (127, 23)}.get(
        dtype, (1023, 52)
    )
    return ((1 << (digits + 1)) - 1) << (exponent - digits)


@operator("aten.nan_to_num.default", category=_ELEMENTWISE, assumes=(FINITE,))
def nan_to_num(
    b: Builder, self: Tensor, nan: float | None = None, posinf: float | None = None, neginf: float | None = None
) -> Tensor:
    """self, with `nan` (0) where it is no number, `posinf` and `neginf` (the ends of its type) where it is infinite"""
    if self.dtype.is_integral:
        return self
    if not self.dtype.is_float or self.dtype.bits < 16:
        raise ShapeProblem(f"infinities of {self.dtype}")
    end = _greatest(self.dtype)
    none = isnan(b, self)
    known = b.where(none, b.number(0, self.dtype), self)
    out = b.where(none, b.number(nan, self.dtype), self) if nan else known
    out = b.where(isposinf(b, known), b.number(end if posinf is None else posinf, self.dtype), out)
    return b.where(isneginf(b, known), b.number(-end if neginf is None else neginf, self.dtype), out)


@operator("aten.gcd.default", category=_ELEMENTWISE)
def gcd(b: Builder, self: Tensor, other: Tensor) -> Tensor:
    """the greatest common divisor of integers of 32 or 64 bits; 0 of 0 and 0"""
    x, y = b.operands(self, other)
    if x.dtype.kind is not Kind.INT or x.dtype.is_narrow:
        raise ShapeProblem(f"a common divisor of {self.type} and {other.type}")
    return b.function("gcd", b.function("abs", x, floating=False), b.function("abs", y, floating=False), floating=False)


# ---------------------------------------------------------------------------------------------- bits
def _shift_operands(b: Builder, self: Operand, other: Operand) -> tuple[Tensor, Tensor]:
    """The tensor that is shifted, and 2 to the number of places. Of 8 and 16 bits both are in int64, and places that
    are negative or more than there are bits are as many as there are bits: then all bits are those that come in."""
    x, places = b.operands(self, other, wrapping=True)
    if x.dtype.kind is not Kind.INT:
        raise ShapeProblem(f"bit shifts of {x.dtype}")
    bits = x.dtype.bits
    if x.dtype.is_narrow:
        x, places = b.unwrapped(x), b.unwrapped(places)
        out = b.or_(b.less(places, 0), b.less(bits, places))
        places = b.where(out, b.number(bits, DType.INT64), places)
    return x, b.function("integer_pow", b.full(x.shape, 2, x.dtype), places, floating=False)


def _shifted(b: Builder, self: Operand, other: Operand, shift: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
    return b.cast(shift(*_shift_operands(b, self, other)), b.operands(self, other, wrapping=True)[0].dtype)


@operator(
    "aten.bitwise_left_shift.Tensor",
    "aten.bitwise_left_shift.Tensor_Scalar",
    "aten.bitwise_left_shift.Scalar_Tensor",
    "aten.__lshift__.Tensor",
    "aten.__lshift__.Scalar",
    category=_LOGIC,
)
def bitwise_left_shift(b: Builder, self: Operand, other: Operand) -> Tensor:
    """self * 2^other"""
    return _shifted(b, self, other, b.mul)


@operator(
    "aten.bitwise_right_shift.Tensor",
    "aten.bitwise_right_shift.Tensor_Scalar",
    "aten.bitwise_right_shift.Scalar_Tensor",
    "aten.__rshift__.Tensor",
    "aten.__rshift__.Scalar",
    category=_LOGIC,
)
def bitwise_right_shift(b: Builder, self: Operand, other: Operand) -> Tensor:
    """floor(self / 2^other)"""
    return _shifted(b, self, other, lambda x, power: b.function("floor_divide", x, power, floating=False))


@operator("aten.bitwise_and.Scalar_Tensor", category=_LOGIC)
def bitwise_and_number(b: Builder, self: Scalar, other: Tensor) -> Tensor:
    """self and other, bit by bit"""
    return logic.bitwise_and(b, b.number(self), other)


@operator("aten.bitwise_or.Scalar_Tensor", category=_LOGIC)
def bitwise_or_number(b: Builder, self: Scalar, other: Tensor) -> Tensor:
    """self or other, bit by bit"""
    return logic.bitwise_or(b, b.number(self), other)


@operator("aten.bitwise_xor.Scalar_Tensor", category=_LOGIC)
def bitwise_xor_number(b: Builder, self: Scalar, other: Tensor) -> Tensor:
    """exactly one of self and other, bit by bit"""
    return logic.bitwise_xor(b, b.number(self), other)


# ---------------------------------------------------------------------------------------------- activations
@operator("aten.threshold.default", category=_ACTIVATION)
def threshold(b: Builder, self: Tensor, threshold: Scalar, value: Scalar) -> Tensor:
    """self where self > threshold, else value"""
    return b.where(b.less(b.number(threshold, self.dtype), self), self, b.number(value, self.dtype))


@operator("aten.celu.default", category=_ACTIVATION)
def celu(b: Builder, self: Tensor, alpha: Scalar = 1) -> Tensor:
    """self where self > 0, else alpha * (exp(self / alpha) - 1)"""
    x = require_float(self)
    scale = b.number(alpha, x.dtype)
    return b.where(b.less(0, x), x, b.mul(scale, b.sub(b.exp(b.div(x, scale)), 1)))


@operator("aten.selu.default", category=_ACTIVATION)
def selu(b: Builder, self: Tensor) -> Tensor:
    """s * self where self > 0, else s * a * (exp(self) - 1), with the constants s, a of the self-normalising unit"""
    x = require_float(self)
    s = b.number(Fraction("1.0507009873554804934193349852946"), x.dtype)
    a = b.number(Fraction("1.6732632423543772848170429916717"), x.dtype)
    return b.mul(s, b.where(b.less(0, x), x, b.mul(a, b.sub(b.exp(x), 1))))


@operator("aten.prelu.default", category=_ACTIVATION)
def prelu(b: Builder, self: Tensor, weight: Tensor) -> Tensor:
    """self where self > 0, else weight * self; one weight, or one for every index of dimension 1"""
    x = require_float(self)
    if weight.dtype is not x.dtype or weight.rank > 1:
        raise ShapeProblem(f"weights {weight.type} for {x.type}")
    if weight.shape not in ((), (1,)):
        if x.rank < 2 or weight.shape[0] != x.shape[1]:
            raise ShapeProblem(f"weights {weight.type} for {x.type}")
        weight = b.reshape(weight, [size if k == 1 else 1 for k, size in enumerate(x.shape)])
    else:
        weight = b.reshape(weight, ())
    return b.where(b.less(0, x), x, b.mul(weight, x))


@operator("aten._prelu_kernel.default", category=_ACTIVATION)
def prelu_kernel(b: Builder, self: Tensor, weight: Tensor) -> Tensor:
    """self where self > 0, else weight * self, broadcast"""
    x = require_float(self)
    return b.where(b.less(0, x), x, b.mul(weight, x))


@operator("aten.hardshrink.default", category=_ACTIVATION)
def hardshrink(b: Builder, self: Tensor, lambd: Scalar = 0.5) -> Tensor:
    """0 where -lambd <= self <= lambd, else self"""
    x = require_float(self)
    bound = b.number(lambd, x.dtype)
    outside = b.or_(b.less(bound, x), b.less(x, b.neg(bound)))
    return b.where(outside, x, b.number(0, x.dtype))


@operator("aten.softshrink.default", category=_ACTIVATION)
def softshrink(b: Builder, self: Tensor, lambd: Scalar = 0.5) -> Tensor:
    """self - lambd where self > lambd, self + lambd where self < -lambd, else 0"""
    x = require_float(self)
    bound = b.number(lambd, x.dtype)
    below = b.where(b.less(x, b.neg(bound)), b.add(x, bound), b.number(0, x.dtype))
    return b.where(b.less(bound, x), b.sub(x, bound), below)


@operator("aten.log_sigmoid_forward.default", category=_ACTIVATION)
def log_sigmoid_forward(b: Builder, self: Tensor) -> tuple[Tensor, Tensor]:
    """log(1 / (1 + exp(-self))), and exp(-|self|)"""
    x = require_float(self)
    return b.log(logistic(b, x)), b.exp(b.neg(b.function("abs", x)))
