"""Operators of random programs: how one is registered, and how its operands and attributes are chosen."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any

from tantamount.ir.types import DType
from tantamount.ops.algebra import Tensor
from tantamount.ops.builder import Builder
from tantamount.ops.execute import apply
from tantamount.ops.table import lookup

MAX_SIZE = 12
SIZES = (1, 2, 2, 3, 3, 4, 4, 5, 6)

Pool = list[Tensor]
Generate = Callable[[Random, Pool], "tuple[tuple[int, ...], tuple[Any, ...]] | None"]


@dataclass(frozen=True)
class Op:
    """One operator of random programs: how often it is proposed, how its operands are chosen, what it computes."""

    weight: int
    generate: Generate
    build: Callable[..., Tensor]


OPERATORS: dict[str, Op] = {}


def op(name: str, weight: int, generate: Generate) -> Callable[[Callable[..., Tensor]], Callable[..., Tensor]]:
    """A decorator that registers a function ``(builder, *operands, *attributes) -> tensor`` as operator ``name``."""

    def register(build: Callable[..., Tensor]) -> Callable[..., Tensor]:
        OPERATORS[name] = Op(weight, generate, build)
        return build

    return register


def aten(b: Builder, target: str, *args: Any, **kwargs: Any) -> Any:
    """The result of the table's operator ``target``. Raises :class:`UserError` as its definition does."""
    return apply(lookup(target, "test"), target, args, kwargs, b, "test")


def method(name: str) -> Callable[..., Tensor]:
    """The builder's method ``name``, applied to operands and attributes."""

    def build(b: Builder, *args: Any) -> Tensor:
        return getattr(b, name)(*args)

    return build


def function(name: str) -> Callable[..., Tensor]:
    """The elementwise function ``name`` of a tensor, as the builder knows it."""

    def build(b: Builder, x: Tensor) -> Tensor:
        return b.function(name, x)

    return build


def called(target: str) -> Callable[..., Tensor]:
    """The operator ``target`` of the table, applied to operands only."""

    def build(b: Builder, *args: Tensor) -> Tensor:
        return aten(b, target, *args)

    return build


# ------------------------------------------------------------------------------------------------ choosing operands
def choose(r: Random, pool: Pool, want: Callable[[Tensor], bool]) -> int | None:
    """The number of a tensor in the pool that is wanted, later ones more likely; ``None`` if there is none."""
    found = [k for k, x in enumerate(pool) if want(x)]
    if not found:
        return None
    return found[max(r.randrange(len(found)), r.randrange(len(found)))]  # later ones are more likely


def is_float(x: Tensor) -> bool:
    """True for a tensor of floats."""
    return x.dtype.is_float


def is_number(x: Tensor) -> bool:
    """True for a tensor of anything but booleans."""
    return x.dtype is not DType.BOOL


def unary(
    want: Callable[[Tensor], bool] = is_float,
    attributes: Callable[[Random, Tensor], tuple[Any, ...] | None] = lambda r, x: (),
) -> Generate:
    """A generator of one wanted operand and of attributes for it; it gives ``None`` where there are none."""

    def generate(r: Random, pool: Pool) -> Any:
        k = choose(r, pool, want)
        if k is None:
            return None
        found = attributes(r, pool[k])
        return None if found is None else ((k,), found)

    return generate


def matching(a: Tensor, c: Tensor) -> bool:
    """True if the shapes broadcast with each other."""
    n = min(a.rank, c.rank)
    return all(x == y or 1 in (x, y) for x, y in zip(a.shape[a.rank - n :], c.shape[c.rank - n :], strict=True))


def binary(want: Callable[[Tensor], bool] = is_float) -> Generate:
    """A generator of two wanted operands whose shapes broadcast, in either order, mostly of the same shape."""

    def generate(r: Random, pool: Pool) -> Any:
        j = choose(r, pool, want)
        if j is None:
            return None
        k = (
            choose(r, pool, lambda y: want(y) and y.shape == pool[j].shape and y is not pool[j])
            if r.random() < 0.7
            else None
        )
        if k is None:
            k = choose(r, pool, lambda y: want(y) and matching(pool[j], y))
        if k is None:
            return None
        return ((j, k) if r.random() < 0.5 else (k, j)), ()

    return generate


def any_dim(r: Random, x: Tensor) -> tuple[Any, ...] | None:
    """One dimension of a tensor, or ``None`` for a scalar."""
    return (r.randrange(x.rank),) if x.rank else None


def some_dims(r: Random, x: Tensor) -> tuple[Any, ...] | None:
    """At least one dimension of a tensor that has any, and whether a reduction keeps them."""
    dims = [d for d in range(x.rank) if r.random() < 0.5]
    if not dims and x.rank:
        dims = [r.randrange(x.rank)]
    return (tuple(dims), r.random() < 0.3)


def factor_shape(r: Random, total: int) -> tuple[int, ...]:
    """A random shape with ``total`` elements."""
    out: list[int] = []
    while total > 1 and len(out) < 4:
        divisors = [d for d in range(2, total + 1) if total % d == 0]
        d = r.choice(divisors)
        out.append(d)
        total //= d
    if total > 1:
        out.append(total)
    r.shuffle(out)
    while r.random() < 0.2:
        out.insert(r.randrange(len(out) + 1), 1)
    return tuple(out)


def anything(x: Tensor) -> bool:
    """True for every tensor."""
    return True
