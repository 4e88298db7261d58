"""Random numbers other than dropout: unknown values, fresh on every rank and at every call."""

from __future__ import annotations

from tantamount.ir.types import DType
from tantamount.ops.algebra import Scalar, Tensor
from tantamount.ops.builder import Builder, ShapeProblem
from tantamount.ops.definitions.in_place import overwriting, require_float
from tantamount.ops.table import Integers, Layout, operator

_RANDOM = "random"


def _like(b: Builder, x: Tensor) -> Tensor:
    return b.unknown(x.shape, x.dtype)


@operator("aten.bernoulli.p", category=_RANDOM)
def bernoulli_p(b: Builder, self: Tensor, p: float, *, generator: Layout = None) -> Tensor:
    """unknown values, fresh on every rank"""
    if not 0 <= p <= 1:
        raise ShapeProblem(f"a probability of {p}")
    return _like(b, self)


@operator("aten.bernoulli_.float", category=_RANDOM)
def bernoulli_overwriting(b: Builder, self: Tensor, p: float = 0.5, *, generator: Layout = None) -> Tensor:
    """unknown values, fresh on every rank"""
    return bernoulli_p(b, self, p)


@operator("aten.bernoulli.default", category=_RANDOM)
def bernoulli(b: Builder, self: Tensor, *, generator: Layout = None) -> Tensor:
    """unknown values in the shape of self, fresh on every rank"""
    return _like(b, require_float(self))


@overwriting("aten.uniform_.default", category=_RANDOM)
@operator("aten.uniform.default", category=_RANDOM)
def uniform(b: Builder, self: Tensor, from_: Scalar = 0, to: Scalar = 1, *, generator: Layout = None) -> Tensor:
    """unknown values in the shape of self, fresh on every rank"""
    return _like(b, require_float(self))


@overwriting("aten.normal_.default", category=_RANDOM)
@operator("aten.normal_functional.default", category=_RANDOM)
def normal(b: Builder, self: Tensor, mean: Scalar = 0, std: Scalar = 1, *, generator: Layout = None) -> Tensor:
    """unknown values in the shape of self, fresh on every rank"""
    return _like(b, require_float(self))


@overwriting("aten.exponential_.default", category=_RANDOM)
@operator("aten.exponential.default", category=_RANDOM)
def exponential(b: Builder, self: Tensor, lambd: Scalar = 1, *, generator: Layout = None) -> Tensor:
    """unknown values in the shape of self, fresh on every rank"""
    return _like(b, require_float(self))


@operator("aten.randint.default", category=_RANDOM)
def randint(
    b: Builder,
    high: Scalar,
    size: Integers,
    *,
    dtype: DType | None = None,
    layout: Layout = None,
    device: Layout = None,
    pin_memory: Layout = None,
) -> Tensor:
    """unknown values, fresh on every rank"""
    return b.unknown(size, dtype or DType.INT64)


@operator("aten.randint.low", category=_RANDOM)
def randint_low(
    b: Builder,
    low: Scalar,
    high: Scalar,
    size: Integers,
    *,
    dtype: DType | None = None,
    layout: Layout = None,
    device: Layout = None,
    pin_memory: Layout = None,
) -> Tensor:
    """unknown values, fresh on every rank"""
    return b.unknown(size, dtype or DType.INT64)


@operator("aten.randint_like.default", category=_RANDOM)
def randint_like(
    b: Builder,
    self: Tensor,
    high: Scalar,
    *,
    dtype: DType | None = None,
    layout: Layout = None,
    device: Layout = None,
    pin_memory: Layout = None,
    memory_format: Layout = None,
) -> Tensor:
    """unknown values in the shape of self, fresh on every rank"""
    return b.unknown(self.shape, dtype or self.dtype)


@operator("aten.randperm.default", category=_RANDOM)
def randperm(
    b: Builder,
    n: int,
    *,
    dtype: DType | None = None,
    layout: Layout = None,
    device: Layout = None,
    pin_memory: Layout = None,
) -> Tensor:
    """unknown values, fresh on every rank"""
    return b.unknown((n,), dtype or DType.INT64)


@operator("aten.multinomial.default", category=_RANDOM)
def multinomial(
    b: Builder, self: Tensor, num_samples: int, replacement: bool = False, *, generator: Layout = None
) -> Tensor:
    """unknown positions, fresh on every rank"""
    if self.rank not in (1, 2) or num_samples < 1 or (not replacement and num_samples > self.shape[-1]):
        raise ShapeProblem(f"{num_samples} samples of {self.type}")
    return b.unknown((*self.shape[:-1], num_samples), DType.INT64)
