"""Reductions, contractions and indexing in random programs."""

from __future__ import annotations

from random import Random
from typing import Any

from tantamount.ir.types import DType, Kind
from tantamount.ops.algebra import Tensor
from tantamount.ops.builder import Builder
from tantamount.samples.programs.operands import (
    SIZES,
    Pool,
    any_dim,
    aten,
    choose,
    is_float,
    is_number,
    method,
    op,
    some_dims,
    unary,
)


def whole(x: Tensor) -> bool:
    """True for a tensor of integers."""
    return x.dtype.kind is Kind.INT


# ------------------------------------------------------------------------------------------------ reductions
for _name, _weight in (("sum", 12), ("mean", 6), ("amax", 5)):
    op(_name, _weight, unary(is_number if _name != "mean" else is_float, some_dims))(method(_name))


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


@op("argsort", 4, unary(lambda x: is_number(x) and x.rank > 0, any_dim))
def _(b: Builder, x: Tensor, d: int) -> Tensor:
    return aten(b, "aten.argsort.stable", x, stable=True, dim=d)


@op("ranks", 2, unary(lambda x: is_number(x) and x.rank > 0, any_dim))
def _(b: Builder, x: Tensor, d: int) -> Tensor:
    order = aten(b, "aten.argsort.stable", x, stable=True, dim=d)
    return aten(b, "aten.argsort.stable", order, stable=True, dim=d)


@op("permutation", 3, unary(lambda x: is_number(x) and x.rank == 1))
def _(b: Builder, x: Tensor) -> Tensor:
    order = aten(b, "aten.argsort.stable", x, stable=True)
    return b.cast(b.equal(b.unsqueeze(order, -1), b.iota(x.shape[0])), DType.FLOAT32)


@op("largest places", 2, unary(lambda x: is_float(x) and x.rank > 0, any_dim))
def _(b: Builder, x: Tensor, d: int) -> Tensor:
    return aten(b, "aten.topk.default", x, (x.shape[d] + 1) // 2, d)[1]


@op("pairs", 3, unary(lambda x: whole(x) and x.rank == 1))
def _(b: Builder, x: Tensor) -> Tensor:
    return b.cast(b.equal(b.unsqueeze(x, -1), x), DType.FLOAT32)


@op("total", 4, unary(is_number))
def _(b: Builder, x: Tensor) -> Tensor:
    return b.sum(x, tuple(range(x.rank)))


@op("cumulative maxima", 1, unary(lambda x: is_float(x) and x.rank > 0, any_dim))
def _(b: Builder, x: Tensor, d: int) -> Tensor:
    return aten(b, "aten.cummax.default", x, d)[0]


# ------------------------------------------------------------------------------------------------ contractions
def contraction_of(r: Random, pool: Pool) -> Any:
    """Two float operands and an ``einsum`` equation of theirs with random labels; ``None`` if there are none."""
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
