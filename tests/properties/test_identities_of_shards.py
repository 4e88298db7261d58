"""Shards and partial sums that the calculus must put together, and mutants that it must not."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction

import pytest

from support.calculus import Workbench
from support.identities import CUTS, Cuts, added, placed, sliced, tree
from tantamount.ops.algebra import Tensor

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
