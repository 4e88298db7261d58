"""Arithmetic of complex tensors, on their parts.

The value of a complex tensor is the real tensor of its parts (``TensorType.stored``: one more, last dimension), so that
whatever only moves elements moves pairs, in every interpretation, and no interpretation knows complex numbers. What is
not defined here refuses them.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING

from tantamount.ir.types import DType
from tantamount.ops.algebra import ShapeProblem, Tensor

if TYPE_CHECKING:
    from tantamount.ops.arithmetic import Arithmetic
    from tantamount.ops.builder import Builder

__all__ = [
    "add", "as_complex", "as_real", "contract", "equal", "exp", "join", "mul", "of_real", "parts", "power", "refusal",
    "sum_over", "where",
]  # fmt: skip

_LARGEST_POWER = 8


def refusal(x: Tensor) -> str:
    """The reason why an operator does not take x, as a clause."""
    return f"complex numbers ({x.type}) where real ones are needed"


def as_real(x: Tensor) -> Tensor:
    """The pairs (real part, imaginary part) in a new last dimension."""
    if not x.dtype.is_complex:
        raise ShapeProblem(f"{x.type} where complex numbers are needed")
    stored = x.type.stored
    return Tensor(stored.shape, stored.dtype, x.value)


def as_complex(x: Tensor) -> Tensor:
    """The complex numbers whose parts the last dimension, of size 2, holds."""
    dtype = {DType.FLOAT32: DType.COMPLEX64, DType.FLOAT64: DType.COMPLEX128}.get(x.dtype)
    if dtype is None or not x.rank or x.shape[-1] != 2:
        raise ShapeProblem(f"{x.type} as complex numbers; pairs of float32 or float64 in the last dimension are needed")
    return Tensor(x.shape[:-1], dtype, x.value)


def join(b: Arithmetic, real: Tensor, imaginary: Tensor) -> Tensor:
    """``real + i * imaginary`` of two tensors of one float type, broadcast."""
    x, y = b.broadcast(real, imaginary)
    return as_complex(b.stack([x, y], x.rank))


def parts(b: Arithmetic, x: Tensor) -> tuple[Tensor, Tensor]:
    """The real and the imaginary part."""
    pairs = as_real(x)
    return b.select(pairs, x.rank, 0), b.select(pairs, x.rank, 1)


def of_real(b: Arithmetic, x: Tensor, dtype: DType) -> Tensor:
    """``x + 0 i``; a number stays one."""
    found = join(b, b.cast(x, dtype.part), b.full(x.shape, 0, dtype.part))
    return Tensor(found.shape, dtype, found.value, x.weak)


def add(b: Arithmetic, x: Tensor, y: Tensor) -> Tensor:
    """``(a + i b) + (c + i d) = (a + c) + i (b + d)``"""
    return Tensor(x.shape, x.dtype, b.add(as_real(x), as_real(y)).value)


def mul(b: Arithmetic, x: Tensor, y: Tensor) -> Tensor:
    """``(a + i b) (c + i d) = (ac - bd) + i (ad + bc)``"""
    (a, e), (c, d) = parts(b, x), parts(b, y)
    return join(b, b.sub(b.mul(a, c), b.mul(e, d)), b.add(b.mul(a, d), b.mul(e, c)))


def equal(b: Arithmetic, x: Tensor, y: Tensor) -> Tensor:
    """Both parts are equal."""
    (a, e), (c, d) = parts(b, x), parts(b, y)
    return b.and_(b.equal(a, c), b.equal(e, d))


def power(b: Arithmetic, x: Tensor, exponent: Fraction) -> Tensor:
    """Small integer powers; ``1 / (a + i b) = (a - i b) / (a^2 + b^2)``."""
    if exponent.denominator != 1 or abs(exponent) > _LARGEST_POWER:
        raise ShapeProblem(f"complex numbers to the power {exponent}")
    if exponent < 0:
        a, e = parts(b, x)
        inverse = b.power(b.add(b.mul(a, a), b.mul(e, e)), -1)
        return power(b, join(b, b.mul(a, inverse), b.mul(b.neg(e), inverse)), -exponent)
    out = b.full(x.shape, 1, x.dtype)
    for k in range(int(exponent)):
        out = mul(b, out, x) if k else x
    return out


def exp(b: Arithmetic, x: Tensor) -> Tensor:
    """``exp(a + i b) = exp(a) (cos b + i sin b)``"""
    a, e = parts(b, x)
    size = b.exp(a)
    return join(b, b.mul(size, b.function("cos", e)), b.mul(size, b.function("sin", e)))


def where(b: Arithmetic, condition: Tensor, x: Tensor, y: Tensor) -> Tensor:
    """x where the condition holds, else y; all of one shape."""
    chosen = b.where(b.unsqueeze(condition, condition.rank), as_real(x), as_real(y))
    return Tensor(x.shape, x.dtype, chosen.value)


def sum_over(b: Builder, x: Tensor, dims: Sequence[int], keepdim: bool) -> Tensor:
    """The sum over these dimensions, part by part."""
    if not dims:
        return x
    a, e = (b.sum(part, dims, keepdim) for part in parts(b, x))
    return join(b, a, e)


def contract(b: Builder, equation: str, xs: Sequence[Tensor]) -> Tensor:
    """A sum of products of one or two tensors: bilinear, as the product."""
    if len(xs) == 1:
        return join(b, *(b.contract(equation, part) for part in parts(b, xs[0])))
    if len(xs) > 2:
        raise ShapeProblem(f"equation {equation} for {len(xs)} complex operands")
    (a, e), (c, d) = parts(b, xs[0]), parts(b, xs[1])
    real = b.sub(b.contract(equation, a, c), b.contract(equation, e, d))
    return join(b, real, b.add(b.contract(equation, a, d), b.contract(equation, e, c)))
