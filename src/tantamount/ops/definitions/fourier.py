"""Discrete Fourier transforms, as the sums that they are."""

from __future__ import annotations

from fractions import Fraction

from tantamount.ir.types import DType
from tantamount.ops import complex_numbers
from tantamount.ops.algebra import Tensor
from tantamount.ops.builder import Builder, ShapeProblem
from tantamount.ops.definitions.in_place import require_float
from tantamount.ops.table import Integers, operator

__all__: list[str] = []

_COMPLEX = "complex"
_OF = {DType.FLOAT32: DType.COMPLEX64, DType.FLOAT64: DType.COMPLEX128}
_PARTS = {c: real for real, c in _OF.items()}


def _dims(x: Tensor, dim: Integers) -> list[int]:
    found = [d % x.rank for d in dim if -x.rank <= d < x.rank]
    if len(found) != len(dim) or len(set(found)) != len(found) or not found:
        raise ShapeProblem(f"a transform of {x.type} along {list(dim)}")
    return found


def _real_type(x: Tensor) -> DType:
    if x.dtype not in _PARTS:
        raise ShapeProblem(f"a transform of {x.type}, which is not of complex numbers of 64 or 128 bits")
    return _PARTS[x.dtype]


def _waves(b: Builder, n: int, rows: int, columns: int, dtype: DType) -> tuple[Tensor, Tensor]:
    """cos and sin of 2 pi j k / n, of shape (rows, columns)"""
    k, j = (b.cast(b.iota(size), dtype) for size in (rows, columns))
    turns = b.div(b.mul(b.mul(b.reshape(k, (rows, 1)), b.reshape(j, (1, columns))), 2), n)
    angle = b.function("pi_times", turns)
    return b.function("cos", angle), b.function("sin", angle)


def _along(b: Builder, x: Tensor, d: int, wave: Tensor) -> Tensor:
    """y[..., j, ...] = sum_k x[..., k, ...] wave[k, j] along dimension d, of reals. Eager leaves out what is multiplied
    by 0, be it infinite, where n is at most 7; of longer signals it depends on how kernels factor n."""
    if x.dtype is not wave.dtype:
        raise ShapeProblem(f"a transform of {x.type} by {wave.type}")
    labels, new = tuple(range(x.rank)), x.rank
    result = tuple(new if k == d else k for k in labels)
    value = b.interpretation.contract_nonzero([(x.value, labels), (wave.value, (d, new))], result)
    return Tensor((*x.shape[:d], wave.shape[1], *x.shape[d + 1 :]), x.dtype, value)


def _transformed(b: Builder, x: Tensor, dims: list[int], forward: bool) -> Tensor:
    """sum_k x[k] (cos -+ i sin)[k, j] of complex numbers, along one dimension after the other"""
    real = _real_type(x)
    for d in dims:
        n = x.shape[d]
        cos, sin = _waves(b, n, n, n, real)
        sin = b.neg(sin) if forward else sin
        u, v = complex_numbers.parts(b, x)
        y = b.sub(_along(b, u, d, cos), _along(b, v, d, sin)), b.add(_along(b, u, d, sin), _along(b, v, d, cos))
        x = complex_numbers.join(b, *y)
    return x


def _scaled(b: Builder, x: Tensor, sizes: list[int], normalization: int, real: DType) -> Tensor:
    """x, over the number of elements that were summed (2), or over its root (1)"""
    if normalization not in (0, 1, 2):
        raise ShapeProblem(f"a transform with normalization {normalization}")
    scale = b.number(1, real)
    for n in sizes if normalization else ():
        scale = b.mul(scale, b.power(b.number(n, real), Fraction(-1, 2) if normalization == 1 else Fraction(-1)))
    if not x.dtype.is_complex:
        return b.mul(x, scale)
    return complex_numbers.as_complex(b.mul(complex_numbers.as_real(x), scale))


@operator("aten._fft_c2c.default", category=_COMPLEX)
def fft_c2c(b: Builder, self: Tensor, dim: Integers, normalization: int, forward: bool) -> Tensor:
    """y[j] = sum_k self[k] exp(-+ 2 pi i j k / n) along every dimension of dim (- if forward), scaled"""
    dims = _dims(self, dim)
    out = _transformed(b, self, dims, forward)
    return _scaled(b, out, [self.shape[d] for d in dims], normalization, _real_type(self))


@operator("aten._fft_r2c.default", category=_COMPLEX)
def fft_r2c(b: Builder, self: Tensor, dim: Integers, normalization: int, onesided: bool) -> Tensor:
    """y[j] = sum_k self[k] exp(-2 pi i j k / n), scaled; onesided: the first n // 2 + 1 along the last dimension"""
    if require_float(self).dtype not in _OF:
        raise ShapeProblem(f"a transform of {self.type}, which is not of floats of 32 or 64 bits")
    dims = _dims(self, dim)
    *others, last = dims
    n = self.shape[last]
    cos, sin = _waves(b, n, n, n // 2 + 1 if onesided else n, self.dtype)
    out = complex_numbers.join(b, _along(b, self, last, cos), _along(b, self, last, b.neg(sin)))
    return _scaled(b, _transformed(b, out, others, True), [self.shape[d] for d in dims], normalization, self.dtype)


@operator("aten._fft_c2r.default", category=_COMPLEX)
def fft_c2r(b: Builder, self: Tensor, dim: Integers, normalization: int, last_dim_size: int) -> Tensor:
    """y[j] = sum_k x[k] exp(2 pi i j k / n), scaled; self is the first half of x, the rest its conjugates"""
    dims, real = _dims(self, dim), _real_type(self)
    *others, last = dims
    n, half = last_dim_size, self.shape[last]
    if n < 1 or half != n // 2 + 1:
        raise ShapeProblem(f"a transform of {self.type} to {n} elements along dimension {last}")
    re, im = complex_numbers.parts(b, _transformed(b, self, others, False))
    k = b.iota(half)
    once = b.or_(b.equal(k, 0), b.equal(b.mul(k, 2), n))  # the others come with their conjugates
    weight = b.reshape(b.where(once, b.number(1, real), b.number(2, real)), (half, 1))
    cos, sin = (b.mul(weight, wave) for wave in _waves(b, n, half, n, real))
    out = b.sub(_along(b, re, last, cos), _along(b, im, last, sin))
    sizes = [n if d == last else self.shape[d] for d in dims]
    return _scaled(b, out, sizes, normalization, real)
