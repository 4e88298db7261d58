"""Random numbers other than dropout, fresh on every rank and at every call: arithmetic on draws from a few laws."""

from __future__ import annotations

from tantamount.ir.types import DType, Kind
from tantamount.ops.algebra import PerRank, Scalar, Tensor
from tantamount.ops.builder import Builder, ShapeProblem, exact
from tantamount.ops.definitions.in_place import overwriting, require_float
from tantamount.ops.definitions.reduction import chosen_order
from tantamount.ops.draws import CAUCHY, COUNTS, EXPONENTIAL, NORMAL, UNIT, below
from tantamount.ops.table import Integers, Layout, operator
from tantamount.sizes.symbolic import whole

_RANDOM = "random"
_MOST_WHOLE = {DType.FLOAT64: 53, DType.FLOAT32: 24, DType.FLOAT16: 11, DType.BFLOAT16: 8}  # bits of random_()


def _numbers(*values: Scalar) -> list[tuple[Scalar, ...]]:
    """The numbers of every rank, one row per rank, or a single row if none differs."""
    ranks = max((len(v.values) for v in values if isinstance(v, PerRank)), default=1)
    return [tuple(v.values[k] if isinstance(v, PerRank) else v for v in values) for k in range(ranks)]


# ---------------------------------------------------------------------------------------------- true or false
def _kept(b: Builder, self: Tensor, p: float) -> Tensor:
    """1 with probability p, else 0, in the type of self: the keep-mask of a dropout that drops with 1 - p."""
    if not 0 <= p <= 1:
        raise ShapeProblem(f"a probability of {p}")
    if p in (0, 1):
        return b.full(self.shape, int(p), self.dtype)
    return b.cast(b.keep_mask(self, 1 - exact(p)), self.dtype)


@operator("aten.bernoulli.p", category=_RANDOM)
def bernoulli_p(b: Builder, self: Tensor, p: float, *, generator: Layout = None) -> Tensor:
    """1 with probability p, else 0: the keep-mask of a dropout of what self is like"""
    return _kept(b, self, p)


@operator("aten.bernoulli_.float", category=_RANDOM)
def bernoulli_overwriting(b: Builder, self: Tensor, p: float = 0.5, *, generator: Layout = None) -> Tensor:
    """1 with probability p, else 0: the keep-mask of a dropout of what self is like"""
    return _kept(b, self, p)


def _of_probabilities(b: Builder, p: Tensor, like: Tensor) -> Tensor:
    """1 where a number of [0, 1) is below p, which lies in [0, 1]."""
    number = b.draw(UNIT, like.shape, p.dtype, like)
    return b.cast(b.less(number, b.expand(p, like.shape)), like.dtype)


@operator("aten.bernoulli.default", category=_RANDOM)
def bernoulli(b: Builder, self: Tensor, *, generator: Layout = None) -> Tensor:
    """1 with probability self, else 0"""
    return _of_probabilities(b, require_float(self), self)


@operator("aten.bernoulli.Tensor", "aten.bernoulli_.Tensor", category=_RANDOM)
def bernoulli_tensor(b: Builder, self: Tensor, p: Tensor, *, generator: Layout = None) -> Tensor:
    """1 with probability p, else 0, in the shape and type of self"""
    return _of_probabilities(b, require_float(p), self)


# ---------------------------------------------------------------------------------------------- real numbers
@overwriting("aten.uniform_.default", category=_RANDOM)
@operator("aten.uniform.default", category=_RANDOM)
def uniform(b: Builder, self: Tensor, from_: Scalar = 0, to: Scalar = 1, *, generator: Layout = None) -> Tensor:
    """from_ + (to - from_) u, with fresh numbers u of [0, 1) in the shape of self"""
    if any(exact(low) > exact(high) for low, high in _numbers(from_, to)):  # type: ignore[type-var]
        raise ShapeProblem(f"numbers from {from_} to {to}")
    number = b.draw(UNIT, require_float(self).shape, self.dtype, self)
    width = b.sub(b.number(to), b.number(from_))
    return b.cast(b.add(b.mul(number, width), from_), self.dtype)


def _normal(b: Builder, like: Tensor, mean: Tensor | Scalar, std: Tensor | Scalar) -> Tensor:
    number = b.draw(NORMAL, like.shape, require_float(like).dtype, like)
    return b.cast(b.add(b.mul(number, std), mean), like.dtype)


@overwriting("aten.normal_.default", category=_RANDOM)
@operator("aten.normal_functional.default", category=_RANDOM)
def normal(b: Builder, self: Tensor, mean: Scalar = 0, std: Scalar = 1, *, generator: Layout = None) -> Tensor:
    """mean + std z, with any fresh real numbers z in the shape of self"""
    if any(exact(value) < 0 for (value,) in _numbers(std)):  # type: ignore[operator]
        raise ShapeProblem(f"a standard deviation of {std}")
    return _normal(b, self, mean, std)


@operator("aten.normal.Tensor_float", category=_RANDOM)
def normal_of_means(b: Builder, mean: Tensor, std: float = 1, *, generator: Layout = None) -> Tensor:
    """mean + std z, with any fresh real numbers z"""
    return normal(b, mean, 0, std) if std == 0 else b.add(mean, normal(b, mean, 0, std))


@operator("aten.normal.Tensor_Tensor", category=_RANDOM)
def normal_of_both(b: Builder, mean: Tensor, std: Tensor, *, generator: Layout = None) -> Tensor:
    """mean + std z, with any fresh real numbers z"""
    mean, std = b.broadcast(mean, std)
    return _normal(b, mean, mean, std)


@overwriting("aten.log_normal_.default", category=_RANDOM)
@operator("aten.log_normal.default", category=_RANDOM)
def log_normal(b: Builder, self: Tensor, mean: float = 1, std: float = 2, *, generator: Layout = None) -> Tensor:
    """exp(mean + std z), with any fresh real numbers z in the shape of self"""
    if std <= 0:
        raise ShapeProblem(f"a standard deviation of {std}")
    return b.exp(_normal(b, self, mean, std))


@overwriting("aten.cauchy_.default", category=_RANDOM)
@operator("aten.cauchy.default", category=_RANDOM)
def cauchy(b: Builder, self: Tensor, median: float = 0, sigma: float = 1, *, generator: Layout = None) -> Tensor:
    """median + sigma z, with any fresh real numbers z in the shape of self"""
    if sigma <= 0:
        raise ShapeProblem(f"a scale of {sigma}")
    number = b.draw(CAUCHY, require_float(self).shape, self.dtype, self)
    return b.add(b.mul(number, sigma), median)


@overwriting("aten.exponential_.default", category=_RANDOM)
@operator("aten.exponential.default", category=_RANDOM)
def exponential(b: Builder, self: Tensor, lambd: Scalar = 1, *, generator: Layout = None) -> Tensor:
    """e / lambd, with fresh positive numbers e in the shape of self"""
    if any(exact(rate) <= 0 for (rate,) in _numbers(lambd)):  # type: ignore[operator]
        raise ShapeProblem(f"a rate of {lambd}")
    return b.cast(b.div(b.draw(EXPONENTIAL, require_float(self).shape, self.dtype, self), lambd), self.dtype)


# ---------------------------------------------------------------------------------------------- whole numbers
def _below(b: Builder, low: Scalar, high: Scalar, shape: tuple[int, ...], dtype: DType, like: Tensor | None) -> Tensor:
    """Whole numbers ``low <= n < high``, in any type that has numbers."""
    sizes = {whole(exact(h) - exact(l)) for l, h in _numbers(low, high)}  # type: ignore[operator]
    if len(sizes) != 1:
        raise ShapeProblem("random whole numbers of ranges that differ by rank")
    (size,) = sizes
    if size < 1 or dtype.kind is Kind.BOOL:
        raise ShapeProblem(f"random whole numbers from {low} to below {high} of type {dtype}")
    number = b.full(shape, 0, DType.INT64) if size == 1 else b.draw(below(size), shape, DType.INT64, like)
    return b.cast(b.add(number, low), dtype)


@operator("aten.randint.default", "aten.randint.generator", category=_RANDOM)
def randint(
    b: Builder,
    high: Scalar,
    size: Integers,
    *,
    generator: Layout = None,
    dtype: DType | None = None,
    layout: Layout = None,
    device: Layout = None,
    pin_memory: Layout = None,
) -> Tensor:
    """whole numbers 0 <= n < high, fresh on every rank"""
    return _below(b, 0, high, tuple(size), dtype or DType.INT64, None)


@operator("aten.randint.low", "aten.randint.low_generator", category=_RANDOM)
def randint_low(
    b: Builder,
    low: Scalar,
    high: Scalar,
    size: Integers,
    *,
    generator: Layout = None,
    dtype: DType | None = None,
    layout: Layout = None,
    device: Layout = None,
    pin_memory: Layout = None,
) -> Tensor:
    """whole numbers low <= n < high, fresh on every rank"""
    return _below(b, low, high, tuple(size), dtype or DType.INT64, None)


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
    """whole numbers 0 <= n < high in the shape of self, fresh on every rank"""
    return _below(b, 0, high, self.shape, dtype or self.dtype, self)


@operator("aten.randint_like.low_dtype", category=_RANDOM)
def randint_like_low(
    b: Builder,
    self: Tensor,
    low: Scalar,
    high: Scalar,
    *,
    dtype: DType | None = None,
    layout: Layout = None,
    device: Layout = None,
    pin_memory: Layout = None,
    memory_format: Layout = None,
) -> Tensor:
    """whole numbers low <= n < high in the shape of self, fresh on every rank"""
    return _below(b, low, high, self.shape, dtype or self.dtype, self)


@overwriting("aten.random_.from", category=_RANDOM)
@operator("aten.random.from", category=_RANDOM)
def random_from(b: Builder, self: Tensor, from_: Scalar, to: Scalar | None, *, generator: Layout = None) -> Tensor:
    """whole numbers from_ <= n < to in the shape and type of self"""
    if to is None:
        raise ShapeProblem("random whole numbers without an end")
    return _below(b, from_, to, self.shape, self.dtype, self)


@overwriting("aten.random_.to", category=_RANDOM)
@operator("aten.random.to", category=_RANDOM)
def random_to(b: Builder, self: Tensor, to: Scalar, *, generator: Layout = None) -> Tensor:
    """whole numbers 0 <= n < to in the shape and type of self"""
    return _below(b, 0, to, self.shape, self.dtype, self)


@overwriting("aten.random_.default", category=_RANDOM)
@operator("aten.random.default", category=_RANDOM)
def random(b: Builder, self: Tensor, *, generator: Layout = None) -> Tensor:
    """whole numbers from 0 to the greatest that self's type has without gaps, in the shape of self"""
    if self.dtype.kind is Kind.INT:
        return _below(b, 0, self.dtype.bounds[1] + 1, self.shape, self.dtype, self)
    if self.dtype not in _MOST_WHOLE:
        raise ShapeProblem(f"random whole numbers of type {self.dtype}")
    return _below(b, 0, (1 << _MOST_WHOLE[self.dtype]) + 1, self.shape, self.dtype, self)


@overwriting("aten.geometric_.default", category=_RANDOM)
@operator("aten.geometric.default", category=_RANDOM)
def geometric(b: Builder, self: Tensor, p: float, *, generator: Layout = None) -> Tensor:
    """whole numbers from 1 on in the shape and type of self"""
    if not 0 < p < 1:
        raise ShapeProblem(f"a probability of {p}")
    return b.cast(b.add(b.draw(COUNTS, self.shape, DType.INT64, self), 1), self.dtype)


@operator("aten.poisson.default", category=_RANDOM)
def poisson(b: Builder, self: Tensor, generator: Layout = None) -> Tensor:
    """whole numbers from 0 on where the rate self is positive, else 0"""
    number = b.draw(COUNTS, require_float(self).shape, DType.INT64, self)
    return b.where(b.less(0, self), b.cast(number, self.dtype), b.full(self.shape, 0, self.dtype))


# ---------------------------------------------------------------------------------------------- positions
@operator("aten.randperm.default", "aten.randperm.generator", category=_RANDOM)
def randperm(
    b: Builder,
    n: int,
    *,
    generator: Layout = None,
    dtype: DType | None = None,
    layout: Layout = None,
    device: Layout = None,
    pin_memory: Layout = None,
) -> Tensor:
    """the positions of n fresh random numbers in ascending order: each of 0, ..., n - 1 once"""
    if n < 2:
        return b.iota(n, dtype or DType.INT64)
    key = b.draw(UNIT, (n,), DType.FLOAT64)
    (order,) = b.rows("argsort", [key], 0, (False,), [(n, DType.INT64)])
    return b.cast(order, dtype or DType.INT64)


@operator("aten.multinomial.default", category=_RANDOM)
def multinomial(
    b: Builder, self: Tensor, num_samples: int, replacement: bool = False, *, generator: Layout = None
) -> Tensor:
    """the places of the greatest of self / e, e > 0 fresh; with replacement the greatest each time, for another e"""
    if self.rank not in (1, 2) or num_samples < 1 or (not replacement and num_samples > self.shape[-1]):
        raise ShapeProblem(f"{num_samples} samples of {self.type}")
    require_float(self)
    times = num_samples if replacement else 1
    weights = b.expand(b.unsqueeze(self, -2), (*self.shape[:-1], times, self.shape[-1]))
    clocks = b.draw(EXPONENTIAL, weights.shape, self.dtype)
    count = 1 if replacement else num_samples
    found = chosen_order(b, b.div(weights, clocks), -1, True, count, "multinomial")
    return b.reshape(found, (*self.shape[:-1], num_samples))
