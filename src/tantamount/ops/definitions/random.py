"""Dropout and random numbers. A dropout's mask is the builder's, and so are draws from the laws of :mod:`ops.draws`."""

from __future__ import annotations

from fractions import Fraction

from tantamount.ir.types import DType, Kind
from tantamount.ops.algebra import Tensor
from tantamount.ops.builder import Builder, ShapeProblem, exact
from tantamount.ops.definitions.in_place import overwriting, require_float
from tantamount.ops.draws import NORMAL, UNIT
from tantamount.ops.table import Integers, Layout, operator

__all__ = ["dropout_of"]

_RANDOM = "random"


def dropout_of(b: Builder, x: Tensor, p: float) -> tuple[Tensor, Tensor]:
    """``mask * x / (1 - p)`` and the boolean keep-mask; p = 1 drops everything."""
    drop = Fraction(exact(p)) if 0 <= p <= 1 else None
    if drop is None:
        raise ShapeProblem(f"a drop probability of {p}")
    if drop == 0:
        return require_float(x), b.full(x.shape, True, DType.BOOL)
    if drop == 1:
        return b.mul(require_float(x), 0), b.full(x.shape, False, DType.BOOL)  # NaN where x is infinite
    mask = b.keep_mask(require_float(x), drop)
    return b.mul(b.mul(x, b.cast(mask, x.dtype)), 1 / (1 - drop)), mask


@operator("aten.native_dropout.default", category=_RANDOM)
def native_dropout(b: Builder, input: Tensor, p: float, train: bool | None) -> tuple[Tensor, Tensor]:
    """mask * input / (1 - p), and the mask; not in training: input, and a mask of ones"""
    if train is False:
        return input, b.full(input.shape, True, DType.BOOL)
    return dropout_of(b, input, p)


@overwriting("aten.dropout_.default", category=_RANDOM)
@operator("aten.dropout.default", category=_RANDOM)
def dropout(b: Builder, input: Tensor, p: float, train: bool) -> Tensor:
    """mask * input / (1 - p); not in training: input"""
    return dropout_of(b, input, p)[0] if train else input


@operator("aten.native_dropout_backward.default", category=_RANDOM)
def native_dropout_backward(b: Builder, grad_output: Tensor, mask: Tensor, scale: float) -> Tensor:
    """grad_output * mask * scale"""
    return b.mul(b.mul(grad_output, b.cast(mask, require_float(grad_output).dtype)), scale)


@operator("aten.rand.default", "aten.rand.generator", category=_RANDOM)
def rand(
    b: Builder,
    size: Integers,
    *,
    generator: Layout = None,
    dtype: DType | None = None,
    layout: Layout = None,
    device: Layout = None,
    pin_memory: Layout = None,
) -> Tensor:
    """numbers of [0, 1), fresh on every rank"""
    return b.draw(UNIT, size, require_float_type(dtype or b.default))


@operator("aten.randn.default", "aten.randn.generator", category=_RANDOM)
def randn(
    b: Builder,
    size: Integers,
    *,
    generator: Layout = None,
    dtype: DType | None = None,
    layout: Layout = None,
    device: Layout = None,
    pin_memory: Layout = None,
) -> Tensor:
    """any real numbers, fresh on every rank"""
    return b.draw(NORMAL, size, require_float_type(dtype or b.default))


def require_float_type(dtype: DType) -> DType:
    """The type, which must be one of real numbers."""
    if dtype.kind is not Kind.FLOAT:
        raise ShapeProblem(f"random real numbers of type {dtype}")
    return dtype


@operator("aten.rand_like.default", category=_RANDOM)
def rand_like(
    b: Builder,
    self: Tensor,
    *,
    dtype: DType | None = None,
    layout: Layout = None,
    device: Layout = None,
    pin_memory: Layout = None,
    memory_format: Layout = None,
) -> Tensor:
    """numbers of [0, 1) in the shape of self, fresh on every rank"""
    return b.draw(UNIT, self.shape, require_float_type(dtype or self.dtype), self)


@operator("aten.randn_like.default", category=_RANDOM)
def randn_like(
    b: Builder,
    self: Tensor,
    *,
    dtype: DType | None = None,
    layout: Layout = None,
    device: Layout = None,
    pin_memory: Layout = None,
    memory_format: Layout = None,
) -> Tensor:
    """any real numbers in the shape of self, fresh on every rank"""
    return b.draw(NORMAL, self.shape, require_float_type(dtype or self.dtype), self)
