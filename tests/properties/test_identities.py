"""Identities that the calculus must prove, and the mutants beside them that it must not."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from math import inf

import numpy as np
import pytest

from support.calculus import Workbench
from tantamount.ir.types import DType
from tantamount.ops.algebra import Tensor

INT = DType.INT64
FLOAT = DType.FLOAT32
Cuts = Sequence[tuple[int, int]]


def even(n: int, parts: int) -> Cuts:
    """Consecutive parts of ``ceil(n / parts)`` elements; the last may be shorter, and there may be fewer."""
    size = -(-n // parts)
    return [(low, min(low + size, n)) for low in range(0, n, size)]


def uneven(n: int, parts: int) -> Cuts:
    """Parts of decreasing size: 3, 3, 3, 1 and the like."""
    bounds = sorted({0, n, *(min(n - 1, (k * n * 2) // (2 * parts) + k % 2) for k in range(1, parts))})
    return list(zip(bounds, bounds[1:], strict=False))


def zigzag(n: int, parts: int) -> Cuts:
    """Rank r has chunks r and 2 p - 1 - r: the order in which causal context parallelism deals them out."""
    chunks = even(n, 2 * parts)
    order = [k for r in range(parts) for k in (r, 2 * parts - 1 - r) if k < len(chunks)]
    return [chunks[k] for k in order]


CUTS = [
    pytest.param(cuts(12, parts), id=f"{cuts.__name__}{parts}")
    for parts in range(1, 9)
    for cuts in (even, uneven, zigzag)
]


def sliced(w: Workbench, x: Tensor, dim: int, cuts: Cuts) -> list[Tensor]:
    return [w.b.slice(x, dim, low, high) for low, high in cuts]


def added(w: Workbench, parts: Sequence[Tensor]) -> Tensor:
    total = parts[0]
    for part in parts[1:]:
        total = w.b.add(total, part)
    return total


def tree(w: Workbench, parts: Sequence[Tensor]) -> Tensor:
    while len(parts) > 1:
        parts = [added(w, parts[k : k + 2]) for k in range(0, len(parts), 2)]
    return parts[0]


def placed(w: Workbench, parts: Sequence[Tensor], dim: int, cuts: Cuts) -> Tensor:
    """Parts in the order of ``cuts`` put back in the order of positions."""
    order = sorted(range(len(cuts)), key=lambda k: cuts[k])
    return w.b.concat([parts[k] for k in order], dim)


# ------------------------------------------------------------------------------------------------ shards of one operator
UNARY: dict[str, Callable[[Workbench, Tensor], Tensor]] = {
    "sin": lambda w, x: w.b.function("sin", x),
    "exp": lambda w, x: w.b.exp(x),
    "gelu": lambda w, x: w.aten("aten.gelu.default", x),
    "silu": lambda w, x: w.aten("aten.silu.default", x),
    "relu": lambda w, x: w.aten("aten.relu.default", x),
    "square plus": lambda w, x: w.b.add(w.b.mul(x, x), 1),
    "abs": lambda w, x: w.b.function("abs", x),
    "deep": lambda w, x: w.b.function("sin", w.b.add(w.b.exp(w.b.function("cos", w.b.mul(x, x))), x)),
}


@pytest.mark.parametrize("first", ["whole", "parts"])
@pytest.mark.parametrize("name", UNARY)
@pytest.mark.parametrize("cuts", CUTS)
def test_shards_of_a_pointwise_operator(name: str, cuts: Cuts, first: str) -> None:
    for dim in (0, 1):
        w = Workbench()
        x = w.input("x", *((12, 2) if dim == 0 else (2, 12)))
        f = UNARY[name]
        before = f(w, x) if first == "whole" else None
        parts = [f(w, part) for part in sliced(w, x, dim, cuts)]
        whole = f(w, x) if before is None else before
        assert w.same(placed(w, parts, dim, cuts), whole)
        if len(parts) > 1:
            assert (
                not w.equivalent(w.b.concat([parts[1], parts[0], *parts[2:]], dim), placed(w, parts, dim, cuts))
                or cuts[1] < cuts[0]
            )
            assert not w.equivalent(
                w.b.concat([*parts[:-1], w.b.mul(parts[-1], Fraction(101, 100))], dim), w.b.concat(parts, dim)
            )


@pytest.mark.parametrize("cuts", CUTS)
def test_shards_of_sums_products_and_norms(cuts: Cuts) -> None:
    w = Workbench()
    x, y, u = w.input("x", 12, 6), w.input("y", 6, 12), w.input("u", 6)
    b = w.b
    # rows are independent: concat
    for whole, of in (
        (b.add(x, u), lambda part: b.add(part, u)),
        (b.contract("ij,jk->ik", x, y), lambda part: b.contract("ij,jk->ik", part, y)),
        (w.aten("aten._softmax.default", x, 1, False), lambda part: w.aten("aten._softmax.default", part, 1, False)),
        (
            w.aten("aten.layer_norm.default", x, (6,), u, None, 1e-5),
            lambda part: w.aten("aten.layer_norm.default", part, (6,), u, None, 1e-5),
        ),
        (b.amax(x, (1,)), lambda part: b.amax(part, (1,))),
        (b.sum(x, (1,)), lambda part: b.sum(part, (1,))),
    ):
        assert w.same(placed(w, [of(part) for part in sliced(w, x, 0, cuts)], 0, cuts), whole)
    # columns of the second operand
    whole = b.contract("ij,jk->ik", x, y)
    assert w.same(placed(w, [b.contract("ij,jk->ik", x, part) for part in sliced(w, y, 1, cuts)], 1, cuts), whole)


@pytest.mark.parametrize("order", [added, tree])
@pytest.mark.parametrize("cuts", CUTS)
def test_partial_sums(cuts: Cuts, order: Callable[[Workbench, Sequence[Tensor]], Tensor]) -> None:
    w = Workbench()
    b = w.b
    x, y = w.input("x", 4, 12), w.input("y", 12, 3)
    xs, ys = sliced(w, x, 1, cuts), sliced(w, y, 0, cuts)
    product = b.contract("ij,jk->ik", x, y)
    partial = [b.contract("ij,jk->ik", p, q) for p, q in zip(xs, ys, strict=True)]
    assert w.same(order(w, partial), product)
    assert w.same(order(w, [b.sum(p, (1,)) for p in xs]), b.sum(x, (1,)))
    assert w.same(order(w, [b.sum(b.exp(p), (1,)) for p in xs]), b.sum(b.exp(x), (1,)))
    assert w.same(order(w, [b.sum(b.mul(p, p)) for p in xs]), b.sum(b.mul(x, x)))
    maximum = b.amax(xs[0], (1,))
    for p in xs[1:]:
        maximum = b.maximum(maximum, b.amax(p, (1,)))
    assert w.same(maximum, b.amax(x, (1,)))
    if len(xs) > 1:
        assert not w.equivalent(order(w, partial[:-1]), product)  # a shard missing
        assert not w.equivalent(order(w, [*partial, partial[0]]), product)  # a shard twice
        assert not w.equivalent(b.mul(order(w, partial), Fraction(1, len(partial))), product)
        crossed = [b.contract("ij,jk->ik", xs[0], ys[1]) if ys[1].shape == ys[0].shape else partial[1], *partial[1:]]
        assert not w.equivalent(order(w, crossed), product)
        assert not w.equivalent(b.amax(w.b.concat(xs[1:], 1), (1,)), b.amax(x, (1,)))


def test_small_pieces_beside_wide_ones() -> None:
    w = Workbench()
    b = w.b
    x = w.input("x", 7)
    s = lambda low, high: b.slice(x, 0, low, high)  # noqa: E731
    whole = b.sum(x)
    assert w.same(b.add(b.sum(s(0, 3)), b.add(b.sum(s(4, 7)), b.select(x, 0, 3))), whole)
    assert w.same(b.add(b.sum(s(0, 3)), b.select(x, 0, 3)), b.sum(s(0, 4)))
    assert not w.equivalent(b.add(b.sum(s(0, 3)), b.select(x, 0, 4)), b.sum(s(0, 4)))
    overlapping = b.sub(b.add(b.sum(s(0, 5)), b.sum(s(3, 7))), b.sum(s(3, 5)))
    assert w.same(overlapping, whole)
    assert not w.equivalent(b.add(b.sum(s(0, 5)), b.sum(s(3, 7))), whole)
    assert w.same(b.add(b.sum(s(0, 5)), b.sum(s(3, 7))), b.add(whole, b.sum(s(3, 5))))
    singles = [b.select(x, 0, k) for k in (3, 0, 6, 2, 1, 5, 4)]
    assert w.same(added(w, singles), whole)
    assert not w.equivalent(added(w, [*singles[:-1], singles[0]]), whole)


def test_flips_strides_and_rotations() -> None:
    w = Workbench()
    b = w.b
    x, y = w.input("x", 8), w.input("y", 8)
    assert w.same(b.flip(b.flip(x, (0,)), (0,)), x)
    assert not w.equivalent(b.flip(x, (0,)), x)
    assert w.same(b.sum(b.flip(x, (0,))), b.sum(x))
    dot = b.contract("i,i->", x, y)
    assert w.same(b.contract("i,i->", b.flip(x, (0,)), b.flip(y, (0,))), dot)
    assert not w.equivalent(b.contract("i,i->", b.flip(x, (0,)), y), dot)
    evens, odds = b.slice(x, 0, 0, 8, 2), b.slice(x, 0, 1, 8, 2)
    assert w.same(b.reshape(b.stack([evens, odds], 1), (8,)), x)
    assert not w.equivalent(b.reshape(b.stack([odds, evens], 1), (8,)), x)
    assert not w.equivalent(b.reshape(b.stack([evens, odds], 0), (8,)), x)
    assert w.same(b.add(b.sum(evens), b.sum(odds)), b.sum(x))
    assert not w.equivalent(b.add(b.sum(evens), b.sum(evens)), b.sum(x))
    roll = lambda z, k: w.aten("aten.roll.default", z, (k,), (0,))  # noqa: E731
    assert w.same(roll(roll(x, 3), 5), x)
    assert w.same(b.contract("i,i->", roll(x, 3), roll(y, 3)), dot)
    assert w.same(b.sum(roll(x, 3)), b.sum(x))
    assert not w.equivalent(b.contract("i,i->", roll(x, 3), roll(y, 2)), dot)
    grid = w.input("g", 6, 4)
    assert w.same(b.sum(b.permute(grid, (1, 0)), (0,)), b.sum(grid, (1,)))
    assert w.same(b.reshape(b.permute(b.permute(grid, (1, 0)), (1, 0)), (24,)), b.reshape(grid, (24,)))
    assert not w.equivalent(b.reshape(b.permute(grid, (1, 0)), (24,)), b.reshape(grid, (24,)))


# ------------------------------------------------------------------------------------------------ order of lookups
def test_atoms_do_not_depend_on_the_order_of_lookups() -> None:
    sine = lambda w, x: w.b.function("sin", x)  # noqa: E731
    for pieces in (
        [(3, 4, 1)],
        [(0, 8, 2), (1, 8, 2)],
        [(2, 5, 1), (0, 8, 3)],
        [(7, 8, 1), (0, 1, 1)],
        [(0, 8, 2), (4, 8, 1)],
    ):
        w = Workbench()
        x = w.input("x", 8)
        early = [sine(w, w.b.slice(x, 0, *piece)) for piece in pieces]
        whole = sine(w, x)
        for piece, value in zip(pieces, early, strict=True):
            assert w.same(value, w.b.slice(whole, 0, *piece))
            late = sine(w, w.b.slice(x, 0, *piece))
            assert w.same(late, value)
            if piece[1] - piece[0] > 1:
                assert not w.equivalent(w.b.flip(value, (0,)), value)


def test_sums_of_two_indices_do_not_depend_on_the_order_of_lookups() -> None:
    w = Workbench()
    b = w.b
    x, a = w.input("x", 4), w.input("a", 4)
    column, row = b.reshape(x, (4, 1)), b.reshape(a, (1, 4))
    diagonal = b.function("sin", b.add(x, a))
    grid = b.function("sin", b.add(column, row))
    assert w.same(w.aten("aten.diagonal.default", grid), diagonal)
    assert not w.equivalent(w.aten("aten.diagonal.default", b.flip(grid, (0,))), diagonal)
    view = b.function("cos", b.reshape(x, (2, 2)))
    assert w.same(b.reshape(view, (4,)), b.function("cos", x))
    doubled = b.function("cos", b.expand(b.reshape(x, (4, 1)), (4, 3)))
    assert w.same(b.select(doubled, 1, 2), b.function("cos", x))


# ------------------------------------------------------------------------------------------------ attention
def attention(w: Workbench, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Tensor:
    """q[..., i, d], k[..., j, d], v[..., j, d]."""
    scores = w.b.mul(w.aten("aten.matmul.default", q, w.b.transpose(k, -2, -1)), Fraction(1, 2))
    if mask is not None:
        scores = w.b.where(mask, -inf, scores)
    return w.aten("aten.matmul.default", w.aten("aten._softmax.default", scores, scores.rank - 1, False), v)


@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_grouped_heads_are_expanded(ranks: int) -> None:
    w = Workbench()
    b = w.b
    heads, kv, n, d = 8, 4, 3, 2
    q, k, v = w.input("q", heads, n, d), w.input("k", kv, n, d), w.input("v", kv, n, d)

    def expanded(x: Tensor, times: int) -> Tensor:
        groups = x.shape[0]
        return b.reshape(b.expand(b.unsqueeze(x, 1), (groups, times, n, d)), (groups * times, n, d))

    whole = attention(w, q, expanded(k, 2), expanded(v, 2))
    parts: list[Tensor] = []
    for r in range(ranks):
        qr = b.slice(q, 0, r * heads // ranks, (r + 1) * heads // ranks)
        kr, vr = (b.slice(x, 0, r * kv // ranks, (r + 1) * kv // ranks) for x in (k, v))
        parts.append(attention(w, qr, expanded(kr, 2), expanded(vr, 2)))
    assert w.same(b.concat(parts, 0), whole)
    wrong = attention(w, q, b.concat([k, k], 0), b.concat([v, v], 0))  # heads repeated, not interleaved
    assert not w.equivalent(wrong, whole)
    if ranks > 1:
        assert not w.equivalent(b.concat(parts[::-1], 0), whole)


@pytest.mark.parametrize("start", ["first block", "minus infinity"])
@pytest.mark.parametrize("blocks", [2, 3, 4, 8, 16])
def test_online_softmax(blocks: int, start: str) -> None:
    w = Workbench()
    b = w.b
    n, d, size = 2, 2, 2
    total = blocks * size
    q, k, v = w.input("q", n, d), w.input("k", total, d), w.input("v", total, d)
    whole = attention(w, q, k, v)

    def ring(order: Sequence[int], rescale: bool = True, values: Tensor = v) -> Tensor:
        m = l = o = None
        if start == "minus infinity":
            m, l, o = b.full((n, 1), -inf, FLOAT), b.full((n, 1), 0, FLOAT), b.full((n, d), 0, FLOAT)
        for block in order:
            kb, vb = (b.slice(x, 0, block * size, (block + 1) * size) for x in (k, values))
            s = b.mul(b.contract("id,jd->ij", q, kb), Fraction(1, 2))
            top = b.amax(s, (1,), keepdim=True)
            new = top if m is None else b.maximum(m, top)
            p = b.exp(b.sub(s, new))
            row, out = b.sum(p, (1,), keepdim=True), b.contract("ij,jd->id", p, vb)
            if m is not None and l is not None and o is not None:
                c = b.exp(b.sub(m, new)) if rescale else b.number(1)
                row, out = b.add(b.mul(l, c), row), b.add(b.mul(o, c), out)
            m, l, o = new, row, out
        assert l is not None
        assert o is not None
        return b.div(o, l)

    assert w.same(ring(range(blocks)), whole)
    assert w.same(ring([*range(1, blocks), 0]), whole)  # rank 1's order in a ring
    assert not w.equivalent(ring(range(blocks - 1)), whole)
    assert not w.equivalent(ring([*range(blocks), 0]), whole)
    assert not w.equivalent(ring(range(blocks), values=b.flip(v, (0,))), whole)
    if blocks <= 4:
        assert not w.equivalent(ring(range(blocks), rescale=False), whole)


@pytest.mark.parametrize("blocks", [2, 4])
def test_attention_from_partial_log_sums(blocks: int) -> None:
    """Each rank computes attention on its keys and the log of its sum; the results are merged by those."""
    w = Workbench()
    b = w.b
    n, d, size = 2, 2, 2
    q, k, v = w.input("q", n, d), w.input("k", blocks * size, d), w.input("v", blocks * size, d)
    outs: list[Tensor] = []
    logs: list[Tensor] = []
    for r in range(blocks):
        kr, vr = (b.slice(x, 0, r * size, (r + 1) * size) for x in (k, v))
        outs.append(attention(w, q, kr, vr))
        scores = b.mul(b.contract("id,jd->ij", q, kr), Fraction(1, 2))
        logs.append(w.aten("aten.logsumexp.default", scores, (1,), True))
    total = w.aten("aten.logsumexp.default", b.concat(logs, 1), (1,), True)
    merged = added(w, [b.mul(o, b.exp(b.sub(s, total))) for o, s in zip(outs, logs, strict=True)])
    whole = attention(w, q, k, v)
    assert w.equivalent(merged, whole)
    assert not w.equivalent(b.mul(added(w, outs), Fraction(1, blocks)), whole)


def test_causal_blocks() -> None:
    """Each rank's rows of causal attention need only the keys up to them: the blocks above are empty."""
    w = Workbench()
    b = w.b
    n, d = 6, 2
    q, k, v = w.input("q", n, d), w.input("k", n, d), w.input("v", n, d)

    def mask(low: int, high: int, keys: int) -> Tensor:
        rows = b.add(b.reshape(b.iota(high - low), (high - low, 1)), low)
        return b.less(
            b.expand(rows, (high - low, keys)), b.expand(b.reshape(b.iota(keys), (1, keys)), (high - low, keys))
        )

    whole = attention(w, q, k, v, mask(0, n, n))
    for cuts in ([(0, 3), (3, 6)], [(0, 2), (2, 4), (4, 6)]):
        parts = [attention(w, b.slice(q, 0, low, high), k, v, mask(low, high, n)) for low, high in cuts]
        assert w.same(b.concat(parts, 0), whole)
        wrong = [attention(w, b.slice(q, 0, low, high), k, v, mask(0, high - low, n)) for low, high in cuts]
        assert not w.equivalent(b.concat(wrong, 0), whole)
    assert not w.equivalent(attention(w, q, k, v), whole)


@pytest.mark.xfail(reason="sums are not yet cut down to the range in which an affine guard holds", strict=True)
def test_empty_causal_blocks() -> None:
    w = Workbench()
    b = w.b
    n, d = 6, 2
    q, k, v = w.input("q", n, d), w.input("k", n, d), w.input("v", n, d)

    def mask(low: int, high: int, keys: int) -> Tensor:
        return b.less(b.add(b.reshape(b.iota(high - low), (high - low, 1)), low), b.reshape(b.iota(keys), (1, keys)))

    whole = attention(w, q, k, v, mask(0, n, n))
    short = [
        attention(w, b.slice(q, 0, low, high), b.slice(k, 0, 0, high), b.slice(v, 0, 0, high), mask(low, high, high))
        for low, high in ((0, 3), (3, 6))
    ]
    assert w.equivalent(b.concat(short, 0), whole)


def test_two_ways_to_write_a_causal_mask() -> None:
    w = Workbench()
    b = w.b
    rows, columns = b.reshape(b.iota(4), (4, 1)), b.reshape(b.iota(4), (1, 4))
    above = b.less(rows, columns)
    assert w.same(b.less(b.sub(rows, columns), 0), above)
    assert w.same(b.less(b.mul(rows, 2), b.mul(columns, 2)), above)
    assert w.same(b.less(b.add(rows, Fraction(1, 2)), columns), above)
    assert not w.equivalent(b.less(columns, rows), above)
    assert not w.equivalent(b.less(rows, b.add(columns, 1)), above)


@pytest.mark.xfail(reason="an affine guard and the complement of its opposite are two forms", strict=True)
def test_the_complement_of_a_mask() -> None:
    w = Workbench()
    b = w.b
    rows, columns = b.reshape(b.iota(4), (4, 1)), b.reshape(b.iota(4), (1, 4))
    assert w.equivalent(b.not_(b.less(columns, b.add(rows, 1))), b.less(rows, columns))


# ------------------------------------------------------------------------------------------------ vocabulary
@pytest.mark.parametrize("ranks", [1, 2, 3, 4, 8])
def test_vocabulary_parallel_embedding(ranks: int) -> None:
    w = Workbench()
    b = w.b
    table, ids = w.input("t", 24, 3), w.input("i", 5, dtype=INT)
    whole = w.aten("aten.embedding.default", table, ids)

    def part(low: int, high: int, offset: int | None = None, masked: bool = True) -> Tensor:
        outside = b.or_(b.less(ids, low), b.not_(b.less(ids, high)))
        local = b.where(outside, 0, b.sub(ids, low if offset is None else offset))
        found = w.aten("aten.embedding.default", b.slice(table, 0, low, high), local)
        return b.where(b.expand(b.unsqueeze(outside, 1), found.shape), 0, found) if masked else found

    cuts = even(24, ranks)
    assert w.same(added(w, [part(*cut) for cut in cuts]), whole)
    if ranks > 1:
        assert not w.equivalent(added(w, [part(*cut) for cut in cuts[:-1]]), whole)
        assert not w.equivalent(added(w, [part(*cut, masked=False) for cut in cuts]), whole)
        assert not w.equivalent(added(w, [part(*cut) for cut in [cuts[0], cuts[0], *cuts[2:]]]), whole)


@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_vocabulary_parallel_cross_entropy(ranks: int) -> None:
    w = Workbench()
    b = w.b
    n, vocabulary = 3, 8
    x, target = w.input("x", n, vocabulary), w.input("y", n, dtype=INT)
    picked = b.gather(w.aten("aten._log_softmax.default", x, 1, False), [b.iota(n), target])  # so targets are in range
    whole = w.aten("aten.cross_entropy_loss.default", x, target, None, 0)
    assert w.same(b.neg(picked), whole)
    cuts = even(vocabulary, ranks)
    maximum = None
    for low, high in cuts:
        top = b.amax(b.slice(x, 1, low, high), (1,), keepdim=True)
        maximum = top if maximum is None else b.maximum(maximum, top)
    assert maximum is not None

    def loss(scale: Fraction = Fraction(1), shift: int = 0) -> Tensor:
        sums, chosen = [], []
        for low, high in cuts:
            logits = b.sub(b.slice(x, 1, low, high), maximum)
            outside = b.or_(b.less(target, low), b.not_(b.less(target, high)))
            local = b.where(outside, 0, b.sub(target, low))
            rows = b.iota(n)
            value = b.where(outside, 0, b.gather(logits, [rows, b.add(local, shift) if shift else local]))
            sums.append(b.sum(b.exp(logits), (1,)))
            chosen.append(value)
        return b.sub(b.log(added(w, sums)), b.mul(added(w, chosen), scale))

    assert w.equivalent(loss(), whole)
    assert not w.equivalent(loss(scale=Fraction(2)), whole)


# ------------------------------------------------------------------------------------------------ fused operators
def test_fused_operators_are_their_definitions() -> None:
    w = Workbench()
    b = w.b
    x, g, h = w.input("x", 3, 4), w.input("g", 4), w.input("h", 4)
    eps = 1e-5
    mean = b.mean(x, (1,), keepdim=True)
    centred = b.sub(x, mean)
    variance = b.mean(b.mul(centred, centred), (1,), keepdim=True)
    norm = w.aten("aten.layer_norm.default", x, (4,), g, h, eps)
    assert w.equivalent(b.add(b.mul(b.mul(centred, b.rsqrt(b.add(variance, eps))), g), h), norm)
    assert w.equivalent(b.add(b.mul(b.div(centred, b.sqrt(b.add(variance, eps))), g), h), norm)
    moments = b.sub(b.mean(b.mul(x, x), (1,), keepdim=True), b.mul(mean, mean))
    assert w.equivalent(b.add(b.mul(b.mul(centred, b.rsqrt(b.add(moments, eps))), g), h), norm)
    for wrong in (
        b.add(b.mul(b.mul(centred, b.rsqrt(b.add(variance, 1e-6))), g), h),
        b.add(b.mul(b.mul(centred, b.rsqrt(b.add(variance, eps))), h), g),
        b.add(b.mul(b.mul(x, b.rsqrt(b.add(variance, eps))), g), h),
        b.add(b.mul(b.div(centred, b.add(b.sqrt(variance), eps)), g), h),
        b.add(b.mul(b.mul(centred, b.rsqrt(b.add(b.mul(variance, Fraction(4, 3)), eps))), g), h),
    ):
        assert not w.equivalent(wrong, norm)
    rms = w.aten("aten.rms_norm.default", x, (4,), g, eps)
    power = b.mean(b.mul(x, x), (1,), keepdim=True)
    assert w.equivalent(b.mul(b.mul(x, b.rsqrt(b.add(power, eps))), g), rms)
    assert not w.equivalent(b.mul(b.mul(x, b.rsqrt(b.add(b.mul(power, 4), eps))), g), rms)
    silu = w.aten("aten.silu.default", x)
    assert w.equivalent(b.mul(x, w.aten("aten.sigmoid.default", x)), silu)
    assert w.equivalent(b.div(x, b.add(1, b.exp(b.neg(x)))), silu)
    gelu = w.aten("aten.gelu.default", x)
    assert w.equivalent(
        b.mul(
            b.mul(x, Fraction(1, 2)),
            b.add(1, b.function("erf", b.mul(x, b.power(b.number(2, FLOAT), Fraction(-1, 2))))),
        ),
        gelu,
    )
    assert not w.equivalent(w.aten("aten.gelu.default", x, approximate="tanh"), gelu)
    m, c = w.input("m", 4, 5), w.input("c", 5)
    addmm = w.aten("aten.addmm.default", c, x, m)
    assert w.same(b.add(b.contract("ij,jk->ik", x, m), c), addmm)
    assert not w.equivalent(w.aten("aten.addmm.default", c, x, m, beta=2), addmm)
    assert not w.equivalent(w.aten("aten.addmm.default", c, x, m, alpha=0.5), addmm)
    q, k, v = w.input("q", 2, 3, 4), w.input("k", 2, 3, 4), w.input("v", 2, 3, 4)
    fused = w.aten("aten.scaled_dot_product_attention.default", q, k, v)
    assert w.same(attention(w, q, k, v), fused)
    assert not w.equivalent(
        attention(w, q, k, v), w.aten("aten.scaled_dot_product_attention.default", q, k, v, scale=0.25)
    )
    assert not w.equivalent(w.aten("aten.scaled_dot_product_attention.default", q, v, k), fused)
    y = w.input("y", 3, dtype=INT)
    picked = b.gather(b.log(w.aten("aten._softmax.default", x, 1, False)), [b.iota(3), y])  # so y is in range
    loss = w.aten("aten.cross_entropy_loss.default", x, y)
    assert w.equivalent(w.aten("aten.nll_loss.default", w.aten("aten._log_softmax.default", x, 1, False), y), loss)
    assert w.equivalent(b.mean(b.neg(picked)), loss)
    assert not w.equivalent(b.neg(loss), loss)


@pytest.mark.parametrize("shift", [1, 2])
def test_softmax_is_invariant_under_shifts(shift: int) -> None:
    w = Workbench()
    b = w.b
    x, c = w.input("x", 3, 4), w.input("c", 3, 1)
    whole = w.aten("aten._softmax.default", x, 1, False)
    assert w.same(w.aten("aten._softmax.default", b.add(x, shift), 1, False), whole)
    assert w.same(w.aten("aten._softmax.default", b.sub(x, c), 1, False), whole)
    assert w.same(b.div(b.exp(x), b.sum(b.exp(x), (1,), keepdim=True)), whole)
    assert not w.equivalent(w.aten("aten._softmax.default", b.mul(x, 1 + shift), 1, False), whole)
    assert not w.equivalent(w.aten("aten._softmax.default", x, 0, False), whole)
    logs = w.aten("aten.logsumexp.default", x, (1,), True)
    assert w.equivalent(b.exp(b.sub(x, logs)), whole)
    assert w.equivalent(b.sub(w.aten("aten.logsumexp.default", b.add(x, c), (1,), True), c), logs)


# ------------------------------------------------------------------------------------------------ algebra
def test_powers_exponentials_and_variances() -> None:
    w = Workbench()
    b = w.b
    x, y = w.input("x", 5), w.input("y", 5)
    total = b.sum(x)
    assert w.same(b.mul(total, b.power(total, -1)), b.number(1, FLOAT))
    assert w.same(b.mul(b.power(total, 3), b.power(total, -2)), total)
    assert w.same(b.mul(b.exp(x), b.exp(y)), b.exp(b.add(x, y)))
    assert w.same(b.power(b.exp(x), 2), b.exp(b.mul(x, 2)))
    assert not w.equivalent(b.add(b.exp(x), b.exp(y)), b.exp(b.add(x, y)))
    assert w.same(b.log(b.exp(x)), x)
    assert w.equivalent(b.sum(b.sub(x, b.mean(x))), b.number(0, FLOAT))
    assert not w.equivalent(b.sum(b.sub(x, b.mul(b.mean(x), 2))), b.number(0, FLOAT))
    centred = b.sub(x, b.mean(x))
    variance = b.mean(b.mul(centred, centred))
    moments = b.sub(b.mean(b.mul(x, x)), b.mul(b.mean(x), b.mean(x)))
    assert w.equivalent(variance, moments)
    assert not w.equivalent(variance, b.mean(b.mul(x, x)))
    assert not w.equivalent(b.mul(variance, Fraction(5, 4)), moments)
    assert w.equivalent(b.mul(b.add(x, y), b.sub(x, y)), b.sub(b.mul(x, x), b.mul(y, y)))
    assert w.equivalent(b.mul(b.add(x, y), b.add(x, y)), b.add(b.add(b.mul(x, x), b.mul(b.mul(x, y), 2)), b.mul(y, y)))
    assert not w.equivalent(b.mul(b.add(x, y), b.add(x, y)), b.add(b.mul(x, x), b.mul(y, y)))
    root = b.sqrt(b.mul(x, x))
    assert not w.equivalent(root, x)
    assert w.equivalent(root, b.function("abs", x))
    assert not w.equivalent(b.div(b.sum(x), b.sum(y)), b.sum(b.div(x, y)))  # a ratio of sums is not a sum of ratios


def test_softmax_backward_two_ways() -> None:
    w = Workbench()
    b = w.b
    x, g = w.input("x", 3, 4), w.input("g", 3, 4)
    s = w.aten("aten._softmax.default", x, 1, False)
    dot = b.sum(b.mul(g, s), (1,), keepdim=True)
    one = b.mul(s, b.sub(g, dot))
    two = b.sub(b.mul(g, s), b.mul(s, dot))
    assert w.equivalent(one, two)
    assert not w.equivalent(b.mul(s, b.add(g, dot)), two)


def layer(w: Workbench, x: Tensor, up: Tensor, down: Tensor, gain: Tensor, cuts: Cuts | None = None) -> Tensor:
    """``x + gelu(norm(x) up) down``; with cuts, column- then row-parallel with an all-reduce."""
    h = w.aten("aten.rms_norm.default", x, (x.shape[-1],), gain, 1e-5)
    parts: list[Tensor] = []
    for low, high in cuts or [(0, up.shape[1])]:
        inner = w.aten("aten.gelu.default", w.b.contract("ij,jk->ik", h, w.b.slice(up, 1, low, high)))
        parts.append(w.b.contract("ij,jk->ik", inner, w.b.slice(down, 0, low, high)))
    return w.b.add(x, added(w, parts))


@pytest.mark.parametrize("ranks", [2, 4])
@pytest.mark.parametrize("layers", [1, 2, 8])
def test_residual_towers(layers: int, ranks: int) -> None:
    w = Workbench()
    x = w.input("x", 4, 3)
    weights = [(w.input(f"u{k}", 3, 8), w.input(f"d{k}", 8, 3), w.input(f"g{k}", 3)) for k in range(layers)]
    whole = x
    for up, down, gain in weights:
        whole = layer(w, whole, up, down, gain)
    atoms = len(w.store.atoms)
    sharded = x
    for up, down, gain in weights:
        sharded = layer(w, sharded, up, down, gain, even(8, ranks))
    assert w.same(sharded, whole)
    assert len(w.store.atoms) <= atoms + 20 * layers  # the shards add no atoms of their own per layer
    rows = [w.b.slice(x, 0, 0, 1), w.b.slice(x, 0, 1, 4)]  # sequence parallelism, uneven
    for up, down, gain in weights:
        rows = [layer(w, part, up, down, gain, even(8, ranks)) for part in rows]
    assert w.same(w.b.concat(rows, 0), whole)
    wrong = x
    for k, (up, down, gain) in enumerate(weights):
        wrong = layer(w, wrong, up, down, gain, even(8, ranks)[: ranks - 1] if k == layers // 2 else even(8, ranks))
    assert not (w.equivalent if layers < 4 else w.same)(wrong, whole)  # multiplying out eight layers takes seconds


def test_interleaved_gated_weights() -> None:
    """Gate and up projections fused: halves side by side, or interleaved per rank."""
    w = Workbench()
    b = w.b
    x, gate, up = w.input("x", 3, 4), w.input("a", 4, 8), w.input("c", 4, 8)
    silu = lambda z: w.aten("aten.silu.default", z)  # noqa: E731
    whole = b.mul(silu(b.contract("ij,jk->ik", x, gate)), b.contract("ij,jk->ik", x, up))
    parts = []
    swapped = []
    for low, high in even(8, 4):
        fused = b.concat([b.slice(gate, 1, low, high), b.slice(up, 1, low, high)], 1)
        y = b.contract("ij,jk->ik", x, fused)
        parts.append(b.mul(silu(b.slice(y, 1, 0, 2)), b.slice(y, 1, 2, 4)))
        swapped.append(b.mul(silu(b.slice(y, 1, 2, 4)), b.slice(y, 1, 0, 2)))
    assert w.same(b.concat(parts, 1), whole)
    assert not w.equivalent(b.concat(swapped, 1), whole)


def test_rotary_positions_by_rank() -> None:
    w = Workbench()
    b = w.b
    n, d = 8, 4
    x = w.input("x", n, d)
    inverse = w.input("f", d // 2)

    def rotated(part: Tensor, first: int) -> Tensor:
        rows = b.cast(b.add(b.iota(part.shape[0]), first), FLOAT)
        angle = b.contract("i,j->ij", rows, inverse)
        cos, sin = b.function("cos", angle), b.function("sin", angle)
        cos, sin = b.concat([cos, cos], 1), b.concat([sin, sin], 1)
        half = b.concat([b.neg(b.slice(part, 1, d // 2, d)), b.slice(part, 1, 0, d // 2)], 1)
        return b.add(b.mul(part, cos), b.mul(half, sin))

    whole = rotated(x, 0)
    for cuts in (even(n, 2), even(n, 4), [(0, 3), (3, 8)]):
        parts = [rotated(b.slice(x, 0, low, high), low) for low, high in cuts]
        assert w.same(b.concat(parts, 0), whole)
        wrong = [rotated(b.slice(x, 0, low, high), 0) for low, high in cuts]
        assert not w.equivalent(b.concat(wrong, 0), whole)
    # pairs instead of halves: the same up to the order of the columns
    angle = b.contract("i,j->ij", b.cast(b.iota(n), FLOAT), inverse)
    cos, sin = b.function("cos", angle), b.function("sin", angle)
    evens, odds = b.slice(x, 1, 0, d // 2), b.slice(x, 1, d // 2, d)
    pairs = b.stack([b.sub(b.mul(evens, cos), b.mul(odds, sin)), b.add(b.mul(odds, cos), b.mul(evens, sin))], 2)
    assert w.same(b.reshape(b.permute(pairs, (0, 2, 1)), (n, d)), whole)
    assert not w.equivalent(b.reshape(pairs, (n, d)), whole)


def test_dead_padding() -> None:
    w = Workbench()
    b = w.b
    x, m = w.input("x", 3, 5), w.input("m", 5, 2)
    padded, rows = b.pad(x, 1, 0, 3, 0), b.pad(m, 0, 0, 3, 0)
    assert w.same(b.contract("ij,jk->ik", padded, rows), b.contract("ij,jk->ik", x, m))
    assert w.same(b.slice(b.contract("ij,jk->ik", b.pad(x, 0, 0, 1, 0), m), 0, 0, 3), b.contract("ij,jk->ik", x, m))
    assert w.same(b.sum(padded, (1,)), b.sum(x, (1,)))
    assert not w.equivalent(b.mean(padded, (1,)), b.mean(x, (1,)))
    softmax = lambda z: w.aten("aten._softmax.default", z, 1, False)  # noqa: E731
    assert not w.equivalent(b.slice(softmax(padded), 1, 0, 5), softmax(x))  # exp(0) = 1 is not dead
    assert w.same(b.slice(softmax(b.pad(x, 1, 0, 3, -inf)), 1, 0, 5), softmax(x))


def test_forms_of_identities_evaluate_alike() -> None:
    """The helpers themselves: what ``same`` calls equal has equal values on data."""
    w = Workbench()
    x = w.input("x", 12)
    data = w.data(1)
    for parts in range(1, 9):
        for cuts in (even(12, parts), uneven(12, parts), zigzag(12, parts)):
            assert sorted(k for low, high in cuts for k in range(low, high)) == list(range(12))
            y = placed(w, [w.b.exp(p) for p in sliced(w, x, 0, cuts)], 0, cuts)
            assert np.allclose(w.value(y, data), np.exp(data["x"]))
