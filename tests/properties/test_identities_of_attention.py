"""Attention and vocabularies spread over ranks, and mutants of them."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import inf

import pytest

from support.calculus import Workbench
from support.identities import FLOAT, INT, added, attention, even
from tantamount.ops.algebra import Tensor


# ------------------------------------------------------------------------------------------------ attention
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
