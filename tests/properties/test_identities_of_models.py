"""Fused operators, algebra, and whole layers, and mutants of them."""

from __future__ import annotations

from fractions import Fraction
from math import inf

import numpy as np
import pytest

from support.calculus import Workbench
from support.identities import FLOAT, INT, Cuts, added, attention, even, placed, sliced, uneven, zigzag
from tantamount.ops.algebra import Tensor


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
