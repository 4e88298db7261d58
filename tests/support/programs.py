"""Random small tensor programs: generated, run under the reference interpreter and under the calculus, and compared.

A program is data: typed inputs and a tuple of steps, each naming an operator of :data:`OPERATORS`, its operands by number
and its attributes. The generator needs only the methods of :class:`random.Random`, so hypothesis can drive it as well.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from math import inf, prod
from random import Random
from typing import Any

from tantamount.ir.types import DType, Kind
from tantamount.ops.algebra import Interpretation, Tensor
from tantamount.ops.builder import Builder, ShapeProblem
from tantamount.ops.execute import apply
from tantamount.ops.table import lookup

MAX_ELEMENTS = 300
MAX_SIZE = 12
SIZES = (1, 2, 2, 3, 3, 4, 4, 5, 6)


@dataclass(frozen=True)
class Input:
    name: str
    shape: tuple[int, ...]
    dtype: DType
    limit: int = 0  # of integers: 0 <= value < limit (indices); 0: small integers of both signs


@dataclass(frozen=True)
class Step:
    operator: str
    operands: tuple[int, ...]
    attributes: tuple[Any, ...] = ()


@dataclass(frozen=True)
class Program:
    """``inputs`` are tensors 0, 1, ...; step k makes tensor ``len(inputs) + k``."""

    inputs: tuple[Input, ...]
    steps: tuple[Step, ...]

    def __str__(self) -> str:
        lines = [
            f"t{k} = {i.name}: {i.dtype.label}{list(i.shape)}" + (f" below {i.limit}" if i.limit else "")
            for k, i in enumerate(self.inputs)
        ]
        for k, s in enumerate(self.steps, len(self.inputs)):
            lines.append(
                f"t{k} = {s.operator}({', '.join(f't{o}' for o in s.operands)}; {', '.join(map(str, s.attributes))})"
            )
        return "\n".join(lines)

    def ending_at(self, tensor: int) -> Program:
        """The steps that tensor number ``tensor`` needs; it becomes the last one."""
        n = len(self.inputs)
        if tensor < n:
            return Program(self.inputs, ())
        needed = {tensor}
        for k in range(tensor, n - 1, -1):
            if k in needed:
                needed.update(self.steps[k - n].operands)
        kept = sorted(needed)
        number = {old: new for new, old in enumerate([*range(n), *(k for k in kept if k >= n)])}
        steps = [self.steps[k - n] for k in kept if k >= n]
        return Program(self.inputs, tuple(replace(s, operands=tuple(number[o] for o in s.operands)) for s in steps))


Pool = list[Tensor]
Generate = Callable[[Random, Pool], "tuple[tuple[int, ...], tuple[Any, ...]] | None"]


@dataclass(frozen=True)
class Op:
    weight: int
    generate: Generate
    build: Callable[..., Tensor]


OPERATORS: dict[str, Op] = {}


def op(name: str, weight: int, generate: Generate) -> Callable[[Callable[..., Tensor]], Callable[..., Tensor]]:
    def register(build: Callable[..., Tensor]) -> Callable[..., Tensor]:
        OPERATORS[name] = Op(weight, generate, build)
        return build

    return register


def aten(b: Builder, target: str, *args: Any, **kwargs: Any) -> Any:
    return apply(lookup(target, "test"), target, args, kwargs, b, "test")


# ------------------------------------------------------------------------------------------------ choosing operands
def choose(r: Random, pool: Pool, want: Callable[[Tensor], bool]) -> int | None:
    found = [k for k, x in enumerate(pool) if want(x)]
    if not found:
        return None
    return found[max(r.randrange(len(found)), r.randrange(len(found)))]  # later ones are more likely


def is_float(x: Tensor) -> bool:
    return x.dtype.is_float


def is_number(x: Tensor) -> bool:
    return x.dtype is not DType.BOOL


def unary(
    want: Callable[[Tensor], bool] = is_float,
    attributes: Callable[[Random, Tensor], tuple[Any, ...] | None] = lambda r, x: (),
) -> Generate:
    def generate(r: Random, pool: Pool) -> Any:
        k = choose(r, pool, want)
        if k is None:
            return None
        found = attributes(r, pool[k])
        return None if found is None else ((k,), found)

    return generate


def matching(a: Tensor, c: Tensor) -> bool:
    n = min(a.rank, c.rank)
    return all(x == y or 1 in (x, y) for x, y in zip(a.shape[a.rank - n :], c.shape[c.rank - n :], strict=True))


def binary(want: Callable[[Tensor], bool] = is_float) -> Generate:
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
    return (r.randrange(x.rank),) if x.rank else None


def some_dims(r: Random, x: Tensor) -> tuple[Any, ...] | None:
    dims = [d for d in range(x.rank) if r.random() < 0.5]
    if not dims and x.rank:
        dims = [r.randrange(x.rank)]
    return (tuple(dims), r.random() < 0.3)


def factor_shape(r: Random, total: int) -> tuple[int, ...]:
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


# ------------------------------------------------------------------------------------------------ movement
anything = lambda x: True  # noqa: E731


@op("reshape", 8, unary(anything, lambda r, x: (factor_shape(r, prod(x.shape)),)))
def _(b: Builder, x: Tensor, shape: tuple[int, ...]) -> Tensor:
    return b.reshape(x, shape)


@op("permute", 6, unary(lambda x: x.rank > 1, lambda r, x: (tuple(r.sample(range(x.rank), x.rank)),)))
def _(b: Builder, x: Tensor, order: tuple[int, ...]) -> Tensor:
    return b.permute(x, order)


def slice_of(r: Random, x: Tensor) -> tuple[Any, ...] | None:
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
    if not x.rank:
        return None
    d = r.randrange(x.rank)
    return d, r.randrange(x.shape[d])


@op("select", 4, unary(anything, select_of))
def _(b: Builder, x: Tensor, d: int, i: int) -> Tensor:
    return b.select(x, d, i)


def concat_of(r: Random, pool: Pool) -> Any:
    j = choose(r, pool, lambda x: x.rank > 0)
    if j is None:
        return None
    d = r.randrange(pool[j].rank)
    first = pool[j]
    fits = [k for k, x in enumerate(pool) if x.rank == first.rank and (x.dtype is DType.BOOL) == (first.dtype is DType.BOOL) and all(a == c or e == d for e, (a, c) in enumerate(zip(x.shape, first.shape, strict=True)))]  # fmt: skip
    chosen = [j, *(r.choice(fits) for _ in range(r.choice((1, 1, 2, 3))))]
    r.shuffle(chosen)
    if sum(pool[k].shape[d] for k in chosen) > MAX_SIZE:
        return None
    return tuple(chosen), (d,)


@op("concat", 12, concat_of)
def _(b: Builder, *rest: Any) -> Tensor:
    return b.concat(rest[:-1], rest[-1])


@op("stack", 4, lambda r, pool: None if (j := choose(r, pool, lambda x: x.rank < 4)) is None else (
    tuple([j, *(r.choice([k for k, x in enumerate(pool) if x.shape == pool[j].shape and (x.dtype is DType.BOOL) == (pool[j].dtype is DType.BOOL)]) for _ in range(r.choice((1, 2))))]), (r.randrange(pool[j].rank + 1),)))  # fmt: skip
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

    def _build(b: Builder, x: Tensor, y: Tensor, name: str = _name) -> Tensor:
        return getattr(b, name)(x, y)

    op(_name, _weight, binary(is_number))(_build)

for _name in ("add", "mul", "sub", "maximum"):

    def _build(b: Builder, x: Tensor, c: Any, name: str = _name) -> Tensor:
        return getattr(b, name)(x, c)

    op(f"{_name} number", 4, unary(is_number, lambda r, x: (r.choice(NUMBERS),)))(_build)


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
    op(_name, _weight, unary())(lambda b, x, name=_name: getattr(b, name)(x))

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
    op(_name, _weight, unary())(lambda b, x, name=_name: b.function(name, x))

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
    op(_name, _weight, unary())(lambda b, x, name=_name: aten(b, f"aten.{name}.default", x))

for _name, _target in (
    ("pow", "aten.pow.Tensor_Tensor"),
    ("bitwise_and", "aten.bitwise_and.Tensor"),
    ("bitwise_xor", "aten.bitwise_xor.Tensor"),
):
    op(_name, 1, binary((lambda x: x.dtype.kind is Kind.INT) if "bit" in _name else is_float))(
        lambda b, x, y, target=_target: aten(b, target, x, y)
    )


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
    shape = lambda k: tuple(n if j == k else 1 for j, n in enumerate(x.shape))  # noqa: E731
    row, column = b.reshape(b.iota(x.shape[d]), shape(d)), b.reshape(b.iota(x.shape[e]), shape(e))
    return aten(b, "aten._softmax.default", b.where(b.less(row, column), -inf, x), e, False)


@op(
    "tril",
    3,
    unary(lambda x: is_number(x) and x.rank > 1, lambda r, x: (r.choice(("tril", "triu")), r.choice((0, 0, 1, -1)))),
)
def _(b: Builder, x: Tensor, name: str, diagonal: int) -> Tensor:
    return aten(b, f"aten.{name}.default", x, diagonal)


# ------------------------------------------------------------------------------------------------ reductions
for _name, _weight in (("sum", 12), ("mean", 6), ("amax", 5)):
    op(_name, _weight, unary(is_number if _name != "mean" else is_float, some_dims))(
        lambda b, x, dims, keep, name=_name: getattr(b, name)(x, dims, keep)
    )


@op("softmax", 6, unary(lambda x: is_float(x) and x.rank > 0, any_dim))
def _(b: Builder, x: Tensor, d: int) -> Tensor:
    return aten(b, "aten._softmax.default", x, d, False)


@op("log_softmax", 3, unary(lambda x: is_float(x) and x.rank > 0, any_dim))
def _(b: Builder, x: Tensor, d: int) -> Tensor:
    return aten(b, "aten._log_softmax.default", x, d, False)


@op("logsumexp", 2, unary(lambda x: is_float(x) and x.rank > 0, any_dim))
def _(b: Builder, x: Tensor, d: int) -> Tensor:
    return aten(b, "aten.logsumexp.default", x, (d,))


@op("var", 3, unary(lambda x: is_float(x) and x.rank > 0, any_dim))
def _(b: Builder, x: Tensor, d: int) -> Tensor:
    return aten(b, "aten.var.correction", x, (d,), correction=0)


@op("layer_norm", 4, unary(lambda x: is_float(x) and x.rank > 0))
def _(b: Builder, x: Tensor) -> Tensor:
    return aten(b, "aten.layer_norm.default", x, (x.shape[-1],), None, None, 1e-2)


@op("rms_norm", 3, unary(lambda x: is_float(x) and x.rank > 0))
def _(b: Builder, x: Tensor) -> Tensor:
    return aten(b, "aten.rms_norm.default", x, (x.shape[-1],), None, 1e-2)


@op("cumsum", 3, unary(lambda x: is_number(x) and x.rank > 0, any_dim))
def _(b: Builder, x: Tensor, d: int) -> Tensor:
    return aten(b, "aten.cumsum.default", x, d)


@op("prod", 2, unary(lambda x: is_float(x) and x.rank > 0, any_dim))
def _(b: Builder, x: Tensor, d: int) -> Tensor:
    return aten(b, "aten.prod.dim_int", x, d)


@op("any", 1, unary(lambda x: x.rank > 0, any_dim))
def _(b: Builder, x: Tensor, d: int) -> Tensor:
    return aten(b, "aten.any.dim", x, d)


@op("argmax", 1, unary(lambda x: is_float(x) and x.rank > 0, any_dim))
def _(b: Builder, x: Tensor, d: int) -> Tensor:
    return aten(b, "aten.argmax.default", x, d)


@op("sort", 1, unary(lambda x: is_float(x) and x.rank > 0, any_dim))
def _(b: Builder, x: Tensor, d: int) -> Tensor:
    return aten(b, "aten.sort.default", x, d)[0]


# ------------------------------------------------------------------------------------------------ contractions
def contraction_of(r: Random, pool: Pool) -> Any:
    j = choose(r, pool, lambda x: is_float(x) and x.rank > 0)
    k = choose(r, pool, lambda x: is_float(x) and x.rank > 0)
    if j is None or k is None:
        return None
    sizes: dict[str, int] = {}
    terms: list[str] = []
    for x in (pool[j], pool[k]):
        term = ""
        for n in x.shape:
            same = [label for label, size in sizes.items() if size == n and (label not in term or r.random() < 0.2)]
            label = r.choice(same) if same and r.random() < 0.75 else "abcdefghij"[len(sizes)]
            sizes[label] = n
            term += label
        terms.append(term)
    kept = [label for label in sizes if r.random() < 0.5]
    r.shuffle(kept)
    return (j, k), (f"{','.join(terms)}->{''.join(kept)}",)


@op("einsum", 10, contraction_of)
def _(b: Builder, x: Tensor, y: Tensor, equation: str) -> Tensor:
    return b.contract(equation, x, y)


@op(
    "matmul",
    8,
    lambda r, pool: (
        None
        if (j := choose(r, pool, lambda x: is_float(x) and x.rank > 1)) is None
        or (k := choose(r, pool, lambda y: is_float(y) and y.rank == 2 and y.shape[0] == pool[j].shape[-1])) is None
        else ((j, k), ())
    ),
)
def _(b: Builder, x: Tensor, y: Tensor) -> Tensor:
    return aten(b, "aten.matmul.default", x, y)


@op("gram", 4, unary(lambda x: is_float(x) and x.rank == 2))
def _(b: Builder, x: Tensor) -> Tensor:
    return aten(b, "aten.mm.default", x, b.transpose(x, 0, 1))


# ------------------------------------------------------------------------------------------------ indexing
def whole(x: Tensor) -> bool:
    return x.dtype.kind is Kind.INT


@op(
    "embedding",
    8,
    lambda r, pool: (
        None
        if (i := choose(r, pool, whole)) is None
        or (w := choose(r, pool, lambda x: is_float(x) and x.rank == 2)) is None
        else ((w, i), ())
    ),
)
def _(b: Builder, w: Tensor, i: Tensor) -> Tensor:
    return aten(b, "aten.embedding.default", w, i)


@op(
    "vocabulary shard",
    5,
    lambda r, pool: (
        None
        if (i := choose(r, pool, whole)) is None
        or (w := choose(r, pool, lambda x: is_float(x) and x.rank == 2 and x.shape[0] > 1)) is None
        else ((w, i), (r.randrange(1, pool[w].shape[0]), r.random() < 0.5))
    ),
)
def _(b: Builder, w: Tensor, i: Tensor, cut: int, second: bool) -> Tensor:
    low, high = (cut, w.shape[0]) if second else (0, cut)
    outside = b.or_(b.less(i, low), b.not_(b.less(i, high)))
    local = b.where(outside, 0, b.sub(i, low))
    found = aten(b, "aten.embedding.default", b.slice(w, 0, low, high), local)
    return b.where(b.expand(b.unsqueeze(outside, -1), found.shape), 0, found)


@op(
    "gather",
    5,
    lambda r, pool: (
        None
        if (i := choose(r, pool, whole)) is None
        or (x := choose(r, pool, lambda x: is_number(x) and x.rank > 0)) is None
        else ((x, i), (r.randrange(pool[x].rank),))
    ),
)
def _(b: Builder, x: Tensor, i: Tensor, d: int) -> Tensor:
    return b.gather(x, [i if e == d else None for e in range(x.rank)])


@op("positions", 4, unary(lambda x: x.rank > 0, any_dim))
def _(b: Builder, x: Tensor, d: int) -> Tensor:
    return b.iota(x.shape[d])


@op("one_hot", 4, unary(whole, lambda r, x: (r.choice(SIZES),)))
def _(b: Builder, x: Tensor, n: int) -> Tensor:
    return b.cast(b.equal(b.unsqueeze(x, -1), b.iota(n)), DType.FLOAT32)


@op(
    "scatter add",
    3,
    lambda r, pool: (
        None
        if (i := choose(r, pool, lambda x: whole(x) and x.rank == 1)) is None
        or (x := choose(r, pool, lambda x: is_float(x) and x.rank > 0)) is None
        or (s := choose(r, pool, lambda s: is_float(s) and s.shape == (*pool[i].shape, *pool[x].shape[1:]))) is None
        else ((x, i, s), ())
    ),
)
def _(b: Builder, x: Tensor, i: Tensor, s: Tensor) -> Tensor:
    return b.scatter(x, [i, *(None for _ in x.shape[1:])], s, True)


@op(
    "cross entropy",
    3,
    lambda r, pool: (
        None
        if (x := choose(r, pool, lambda x: is_float(x) and x.rank == 2)) is None
        or (i := choose(r, pool, lambda i: whole(i) and i.shape == pool[x].shape[:1])) is None
        else ((x, i), ())
    ),
)
def _(b: Builder, x: Tensor, i: Tensor) -> Tensor:
    return aten(b, "aten.cross_entropy_loss.default", x, i)


@op("ones", 2, unary(lambda x: True))
def _(b: Builder, x: Tensor) -> Tensor:
    return b.full(x.shape, 1, DType.FLOAT32)


@op("attention", 3, unary(lambda x: is_float(x) and x.rank >= 2, lambda r, x: (r.random() < 0.5,)))
def _(b: Builder, x: Tensor, causal: bool) -> Tensor:
    return aten(b, "aten.scaled_dot_product_attention.default", x, x, x, None, 0.0, causal)


# ------------------------------------------------------------------------------------------------ programs
NAMES = list(OPERATORS)
WEIGHTS = [OPERATORS[name].weight for name in NAMES]


def make_inputs(r: Random) -> tuple[Input, ...]:
    sizes = [r.choice(SIZES) for _ in range(3)]  # few sizes, so that shapes match
    out: list[Input] = []
    for k in range(r.randrange(1, 4)):
        rank = r.choice((1, 1, 2, 2, 2, 3))
        out.append(Input(f"x{k}", tuple(r.choice(sizes) for _ in range(rank)), DType.FLOAT32))
    if r.random() < 0.5:
        out.append(Input("i", (r.choice(sizes),), DType.INT64, r.choice((0, sizes[0], sizes[1]))))
    if r.random() < 0.3:
        out.append(Input("p", tuple(r.choice(sizes) for _ in range(r.choice((1, 2)))), DType.BOOL))
    return tuple(out)


def perform(step: Step, b: Builder, pool: Pool) -> Tensor:
    return OPERATORS[step.operator].build(b, *(pool[k] for k in step.operands), *step.attributes)


def propose(r: Random, pool: Pool) -> Step | None:
    """One more step that its operator's generator finds operands for."""
    name = r.choices(NAMES, WEIGHTS)[0]
    found = OPERATORS[name].generate(r, pool)
    return None if found is None else Step(name, *found)


def fits(x: object) -> bool:
    return (
        isinstance(x, Tensor)
        and prod(x.shape) in range(1, MAX_ELEMENTS + 1)
        and x.rank <= 5
        and max(x.shape, default=1) <= MAX_SIZE
    )


__all__ = ["Input", "Interpretation", "Program", "ShapeProblem", "Step", "fits", "make_inputs", "perform", "propose"]
