"""Movement, pointwise and logical operators of random programs."""

from __future__ import annotations

from fractions import Fraction
from math import inf, prod
from random import Random
from typing import Any

from tantamount.ir.types import DType, Kind
from tantamount.ops.algebra import Tensor
from tantamount.ops.builder import Builder
from tantamount.samples.programs.operands import (
    MAX_SIZE,
    SIZES,
    Pool,
    any_dim,
    anything,
    aten,
    binary,
    called,
    choose,
    factor_shape,
    function,
    is_float,
    is_number,
    matching,
    method,
    op,
    unary,
)

# ------------------------------------------------------------------------------------------------ movement


@op("reshape", 8, unary(anything, lambda r, x: (factor_shape(r, prod(x.shape)),)))
def _(b: Builder, x: Tensor, shape: tuple[int, ...]) -> Tensor:
    return b.reshape(x, shape)


@op("permute", 6, unary(lambda x: x.rank > 1, lambda r, x: (tuple(r.sample(range(x.rank), x.rank)),)))
def _(b: Builder, x: Tensor, order: tuple[int, ...]) -> Tensor:
    return b.permute(x, order)


def slice_of(r: Random, x: Tensor) -> tuple[Any, ...] | None:
    """A random slice of a tensor: ``(dim, low, high, step)``, or ``None`` if all dimensions have size 1."""
    dims = [d for d, n in enumerate(x.shape) if n > 1]
    if not dims:
        return None
    d = r.choice(dims)
    n = x.shape[d]
    low = r.randrange(n)
    high = r.randrange(low + 1, n + 1)
    return d, low, high, r.choice((1, 1, 1, 2, 2, 3))


@op("slice", 12, unary(anything, slice_of))
def _(b: Builder, x: Tensor, d: int, low: int, high: int, step: int) -> Tensor:
    return b.slice(x, d, low, high, step)


def select_of(r: Random, x: Tensor) -> tuple[Any, ...] | None:
    """A random ``(dim, index)`` of a tensor, or ``None`` for a scalar."""
    if not x.rank:
        return None
    d = r.randrange(x.rank)
    return d, r.randrange(x.shape[d])


@op("select", 4, unary(anything, select_of))
def _(b: Builder, x: Tensor, d: int, i: int) -> Tensor:
    return b.select(x, d, i)


def same_kind(x: Tensor, y: Tensor) -> bool:
    """True if both tensors are boolean, or neither is."""
    return (x.dtype is DType.BOOL) == (y.dtype is DType.BOOL)


def concat_of(r: Random, pool: Pool) -> Any:
    """Tensors of the pool that agree in all dimensions but one, and that dimension; ``None`` if there are none."""
    j = choose(r, pool, lambda x: x.rank > 0)
    if j is None:
        return None
    first = pool[j]
    d = r.randrange(first.rank)

    def rest(x: Tensor) -> tuple[int, ...]:
        return x.shape[:d] + x.shape[d + 1 :]

    fits = [k for k, x in enumerate(pool) if x.rank == first.rank and same_kind(x, first) and rest(x) == rest(first)]
    chosen = [j, *(r.choice(fits) for _ in range(r.choice((1, 1, 2, 3))))]
    r.shuffle(chosen)
    if sum(pool[k].shape[d] for k in chosen) > MAX_SIZE:
        return None
    return tuple(chosen), (d,)


@op("concat", 12, concat_of)
def _(b: Builder, *rest: Any) -> Tensor:
    return b.concat(rest[:-1], rest[-1])


def stack_of(r: Random, pool: Pool) -> Any:
    """Tensors of the pool of one shape, and the position of the new dimension; ``None`` if there are none."""
    j = choose(r, pool, lambda x: x.rank < 4)
    if j is None:
        return None
    fits = [k for k, x in enumerate(pool) if x.shape == pool[j].shape and same_kind(x, pool[j])]
    return (j, *(r.choice(fits) for _ in range(r.choice((1, 2))))), (r.randrange(pool[j].rank + 1),)


@op("stack", 4, stack_of)
def _(b: Builder, *rest: Any) -> Tensor:
    return b.stack(rest[:-1], rest[-1])


@op("flip", 5, unary(lambda x: x.rank > 0, any_dim))
def _(b: Builder, x: Tensor, d: int) -> Tensor:
    return b.flip(x, (d,))


@op(
    "pad",
    5,
    unary(
        lambda x: x.rank > 0 and is_number(x),
        lambda r, x: (r.randrange(x.rank), r.randrange(3), r.randrange(3), r.choice((0, 0, 0, 1, 2))),
    ),
)
def _(b: Builder, x: Tensor, d: int, before: int, after: int, value: int) -> Tensor:
    return b.pad(x, d, before, after, value)


@op("expand", 4, unary(lambda x: 1 in x.shape or x.rank < 3, lambda r, x: (r.choice(SIZES),)))
def _(b: Builder, x: Tensor, size: int) -> Tensor:
    if 1 in x.shape:
        d = x.shape.index(1)
        return b.expand(x, (*x.shape[:d], size, *x.shape[d + 1 :]))
    return b.expand(x, (size, *x.shape))


@op("unsqueeze", 3, unary(lambda x: x.rank < 4, lambda r, x: (r.randrange(x.rank + 1),)))
def _(b: Builder, x: Tensor, d: int) -> Tensor:
    return b.unsqueeze(x, d)


@op("roll", 3, unary(lambda x: x.rank > 0, lambda r, x: (r.randrange(x.rank), r.randrange(-3, 4))))
def _(b: Builder, x: Tensor, d: int, shift: int) -> Tensor:
    return aten(b, "aten.roll.default", x, (shift,), (d,))


@op("diagonal", 3, unary(lambda x: x.rank > 1, lambda r, x: (*r.sample(range(x.rank), 2), r.choice((0, 0, 1, -1)))))
def _(b: Builder, x: Tensor, d: int, e: int, offset: int) -> Tensor:
    return aten(b, "aten.diagonal.default", x, offset, d, e)


@op("repeat", 3, unary(lambda x: x.rank > 0, lambda r, x: (r.randrange(x.rank), r.choice((2, 3)))))
def _(b: Builder, x: Tensor, d: int, times: int) -> Tensor:
    return b.concat([x] * times, d)


def parts_of(r: Random, x: Tensor) -> tuple[Any, ...] | None:
    """A dimension, cuts of it, and an order of the parts."""
    dims = [d for d, n in enumerate(x.shape) if n > 1]
    if not dims:
        return None
    d = r.choice(dims)
    n = x.shape[d]
    cuts = sorted(r.sample(range(1, n), r.randrange(1, min(4, n))))
    bounds = list(zip([0, *cuts], [*cuts, n], strict=True))
    if r.random() < 0.4:
        r.shuffle(bounds)
    return d, tuple(bounds), r.choice(("", "sin", "exp", "abs", "square", "scaled"))


def applied(b: Builder, name: str, x: Tensor) -> Tensor:
    """An elementwise function by its name: ``""`` (none), ``exp``, ``square``, ``scaled`` (by 3/2) or a builder's."""
    if name == "exp":
        return b.exp(x)
    if name == "square":
        return b.mul(x, x)
    if name == "scaled":
        return b.mul(x, Fraction(3, 2))
    return b.function(name, x) if name else x


@op("shards", 8, unary(is_float, parts_of))
def _(b: Builder, x: Tensor, d: int, bounds: Any, name: str) -> Tensor:
    return b.concat([applied(b, name, b.slice(x, d, low, high)) for low, high in bounds], d)


@op("partial sums", 10, unary(is_float, parts_of))
def _(b: Builder, x: Tensor, d: int, bounds: Any, name: str) -> Tensor:
    parts = [b.sum(applied(b, name, b.slice(x, d, low, high)), (d,)) for low, high in bounds]
    total = parts[0]
    for part in parts[1:]:
        total = b.add(total, part)
    return total


@op(
    "sum of slices",
    6,
    unary(is_float, lambda r, x: None if (p := slice_of(r, x)) is None or (q := slice_of(r, x)) is None else (p, q)),
)
def _(b: Builder, x: Tensor, p: Any, q: Any) -> Tensor:
    return b.add(b.sum(b.slice(x, *p), (p[0],)), b.sum(b.slice(x, p[0], *q[1:]), (p[0],)))


# ------------------------------------------------------------------------------------------------ pointwise
NUMBERS = (0, 1, -1, 2, -2, Fraction(1, 2), Fraction(-1, 3), 0.1, 3, Fraction(3, 2))

for _name, _weight in (("add", 12), ("sub", 10), ("mul", 12), ("div", 8), ("maximum", 4), ("minimum", 3)):
    op(_name, _weight, binary(is_number))(method(_name))

for _name in ("add", "mul", "sub", "maximum"):
    op(f"{_name} number", 4, unary(is_number, lambda r, x: (r.choice(NUMBERS),)))(method(_name))


@op(
    "power",
    10,
    unary(
        is_float,
        lambda r, x: (
            r.choice(
                (
                    2,
                    2,
                    3,
                    4,
                    -1,
                    -1,
                    -2,
                    Fraction(1, 2),
                    Fraction(1, 2),
                    Fraction(-1, 2),
                    Fraction(3, 2),
                    Fraction(1, 3),
                    Fraction(2, 3),
                )
            ),
        ),
    ),
)
def _(b: Builder, x: Tensor, e: Any) -> Tensor:
    return b.power(x, e)


for _name, _weight in (("exp", 6), ("log", 4), ("sqrt", 3), ("neg", 3)):
    op(_name, _weight, unary())(method(_name))

for _name, _weight in (
    ("sin", 5),
    ("cos", 2),
    ("abs", 4),
    ("floor", 1),
    ("sign", 2),
    ("tanh", 2),
    ("round", 1),
    ("trunc", 1),
    ("erf", 1),
):
    op(_name, _weight, unary())(function(_name))

for _name, _weight in (
    ("sigmoid", 3),
    ("relu", 3),
    ("gelu", 2),
    ("silu", 2),
    ("square", 3),
    ("rsqrt", 2),
    ("softplus", 1),
    ("reciprocal", 2),
    ("log_sigmoid", 1),
    ("hardswish", 1),
):
    op(_name, _weight, unary())(called(f"aten.{_name}.default"))

for _name, _target in (
    ("pow", "aten.pow.Tensor_Tensor"),
    ("bitwise_and", "aten.bitwise_and.Tensor"),
    ("bitwise_xor", "aten.bitwise_xor.Tensor"),
):
    op(_name, 1, binary((lambda x: x.dtype.kind is Kind.INT) if "bit" in _name else is_float))(called(_target))


@op("floor divide", 1, binary(lambda x: x.dtype.kind is Kind.INT))
def _(b: Builder, x: Tensor, y: Tensor) -> Tensor:
    return aten(b, "aten.floor_divide.default", x, b.add(b.mul(y, y), 1))


@op("remainder", 1, unary(is_number, lambda r, x: (r.choice((2, 3, 0.5)),)))
def _(b: Builder, x: Tensor, c: Any) -> Tensor:
    return aten(b, "aten.remainder.Scalar", x, c)


@op("root of square", 3, unary())
def _(b: Builder, x: Tensor) -> Tensor:
    return b.sqrt(b.mul(x, x))


@op("root of squares", 3, binary())
def _(b: Builder, x: Tensor, y: Tensor) -> Tensor:
    return b.sqrt(b.add(b.mul(x, x), b.mul(y, y)))


@op("exp log", 2, unary())
def _(b: Builder, x: Tensor) -> Tensor:
    return b.exp(b.log(x))


@op("log exp", 2, unary())
def _(b: Builder, x: Tensor) -> Tensor:
    return b.log(b.exp(x))


@op("self quotient", 2, unary())
def _(b: Builder, x: Tensor) -> Tensor:
    return b.div(x, x)


@op("clamp", 2, unary())
def _(b: Builder, x: Tensor) -> Tensor:
    return b.minimum(b.maximum(x, -1), Fraction(1, 2))


# ------------------------------------------------------------------------------------------------ truth
@op("less", 5, binary(is_number))
def _(b: Builder, x: Tensor, y: Tensor) -> Tensor:
    return b.less(x, y)


@op("equal", 4, binary(is_number))
def _(b: Builder, x: Tensor, y: Tensor) -> Tensor:
    return b.equal(x, y)


@op("less number", 4, unary(is_number, lambda r, x: (r.choice(NUMBERS), r.random() < 0.5)))
def _(b: Builder, x: Tensor, c: Any, swapped: bool) -> Tensor:
    return b.less(c, x) if swapped else b.less(x, c)


@op("equal number", 4, unary(is_number, lambda r, x: (r.choice((0, 1, 2, -1, Fraction(1, 2))),)))
def _(b: Builder, x: Tensor, c: Any) -> Tensor:
    return b.equal(x, c)


@op(
    "compare with positions",
    8,
    unary(
        lambda x: is_number(x) and x.rank > 0,
        lambda r, x: (
            r.randrange(x.rank),
            r.choice(("less", "equal")),
            r.choice((1, 1, 2, -1, Fraction(1, 2))),
            r.choice((0, 0, 1, -2, Fraction(1, 2))),
            r.random() < 0.5,
        ),
    ),
)
def _(b: Builder, x: Tensor, d: int, name: str, scale: Any, offset: Any, swapped: bool) -> Tensor:
    at = b.reshape(b.iota(x.shape[d]), tuple(n if e == d else 1 for e, n in enumerate(x.shape)))
    at = b.add(b.mul(at, scale), offset)
    return getattr(b, name)(*((at, x) if swapped else (x, at)))


@op("and", 4, binary(lambda x: x.dtype is DType.BOOL))
def _(b: Builder, x: Tensor, y: Tensor) -> Tensor:
    return b.and_(x, y)


@op("or", 4, binary(lambda x: x.dtype is DType.BOOL))
def _(b: Builder, x: Tensor, y: Tensor) -> Tensor:
    return b.or_(x, y)


@op("not", 3, unary(lambda x: x.dtype is DType.BOOL))
def _(b: Builder, x: Tensor) -> Tensor:
    return b.not_(x)


@op("cast", 5, unary(anything, lambda r, x: (r.choice((DType.FLOAT32, DType.FLOAT32, DType.INT64, DType.BOOL)),)))
def _(b: Builder, x: Tensor, dtype: DType) -> Tensor:
    return b.cast(x, dtype)


def where_of(r: Random, pool: Pool) -> Any:
    """A condition and two numeric tensors of the pool that broadcast with it; ``None`` if there are none."""
    c = choose(r, pool, lambda x: x.dtype is DType.BOOL)
    if c is None:
        return None
    x = choose(r, pool, lambda x: is_number(x) and matching(x, pool[c]))
    if x is None:
        return None
    y = choose(r, pool, lambda y: is_number(y) and matching(y, pool[x]) and matching(y, pool[c]))
    return None if y is None else ((c, x, y), ())


@op("where", 12, where_of)
def _(b: Builder, c: Tensor, x: Tensor, y: Tensor) -> Tensor:
    return b.where(c, x, y)


def masked_of(r: Random, pool: Pool) -> Any:
    """A float tensor, a mask that broadcasts to its shape, and one of its dimensions; ``None`` if there are none."""
    x = choose(r, pool, lambda x: is_float(x) and x.rank > 0)
    if x is None:
        return None
    m = choose(
        r,
        pool,
        lambda m: (
            m.dtype is DType.BOOL
            and m.rank <= pool[x].rank
            and matching(m, pool[x])
            and all(a <= c for a, c in zip(m.shape[::-1], pool[x].shape[::-1], strict=False))
        ),
    )
    return None if m is None else ((x, m), (r.randrange(pool[x].rank),))


@op("masked fill", 4, masked_of)
def _(b: Builder, x: Tensor, m: Tensor, d: int) -> Tensor:
    return b.where(m, 0, x)


@op("masked softmax", 6, masked_of)
def _(b: Builder, x: Tensor, m: Tensor, d: int) -> Tensor:
    return aten(b, "aten._softmax.default", b.where(m, -inf, x), d, False)


@op(
    "causal softmax",
    4,
    unary(lambda x: is_float(x) and x.rank > 1, lambda r, x: tuple(r.sample(range(x.rank), 2)) if x.rank > 1 else None),
)
def _(b: Builder, x: Tensor, d: int, e: int) -> Tensor:
    def shape(k: int) -> tuple[int, ...]:
        return tuple(n if j == k else 1 for j, n in enumerate(x.shape))

    row, column = b.reshape(b.iota(x.shape[d]), shape(d)), b.reshape(b.iota(x.shape[e]), shape(e))
    return aten(b, "aten._softmax.default", b.where(b.less(row, column), -inf, x), e, False)


@op(
    "tril",
    3,
    unary(lambda x: is_number(x) and x.rank > 1, lambda r, x: (r.choice(("tril", "triu")), r.choice((0, 0, 1, -1)))),
)
def _(b: Builder, x: Tensor, name: str, diagonal: int) -> Tensor:
    return aten(b, f"aten.{name}.default", x, diagonal)
