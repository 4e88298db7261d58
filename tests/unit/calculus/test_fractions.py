"""Fractions over sums of exponentials: extended by their denominators, and what is one term again is one term."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations

import numpy as np
import pytest

from support.calculus import Workbench
from tantamount.ops.algebra import Tensor


def total(w: Workbench, x: Tensor) -> Tensor:
    return w.b.sum(w.b.exp(x), (-1,))


def test_a_fraction_in_a_denominator_is_extended() -> None:
    """1 / (1 + A/B) = B / (A + B)"""
    w = Workbench()
    a, b = total(w, w.input("x", 3, 2)), total(w, w.input("y", 3, 5))
    nested = w.b.div(1, w.b.add(1, w.b.div(a, b)))
    assert w.same(nested, w.b.div(b, w.b.add(a, b)))
    assert not w.same(nested, w.b.div(a, w.b.add(a, b)))
    data = w.data()
    x, y = np.exp(data["x"]).sum(1), np.exp(data["y"]).sum(1)
    assert np.allclose(w.value(nested, data), y / (x + y))


def test_a_convex_combination_is_the_sum_of_its_parts() -> None:
    """u - B/(A + B) (u - v) = A/(A + B) u + B/(A + B) v"""
    w = Workbench()
    a, b = total(w, w.input("x", 3, 2)), total(w, w.input("y", 3, 5))
    u, v = w.input("u", 3), w.input("v", 3)
    share = w.b.div(b, w.b.add(a, b))
    merged = w.b.sub(u, w.b.mul(share, w.b.sub(u, v)))
    whole = w.b.div(w.b.add(w.b.mul(a, u), w.b.mul(b, v)), w.b.add(a, b))
    assert w.equivalent(merged, whole)
    assert not w.equivalent(w.b.sub(u, w.b.mul(share, w.b.add(u, v))), whole)
    assert not w.equivalent(w.b.sub(v, w.b.mul(share, w.b.sub(v, u))), whole)
    data = w.data()
    x, y = np.exp(data["x"]).sum(1), np.exp(data["y"]).sum(1)
    assert np.allclose(w.value(merged, data), (x * data["u"] + y * data["v"]) / (x + y))


def attention(w: Workbench, scores: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
    """Attended values, and the logarithms of the sums of exponentials."""
    weights = w.b.exp(scores)
    sums = w.b.sum(weights, (1,))
    return w.b.div(w.b.contract("ij,jd->id", weights, values), w.b.unsqueeze(sums, 1)), w.b.log(sums)


def merged(w: Workbench, scores: Tensor, values: Tensor, order: Sequence[int], size: int) -> tuple[Tensor, Tensor]:
    """Blocks of keys merged one after the other as ring attention does, with sigmoids of differences of logarithms."""
    b = w.b
    out = sums = None
    for block in order:
        part = b.slice(scores, 1, block * size, (block + 1) * size)
        here, own = attention(w, part, b.slice(values, 0, block * size, (block + 1) * size))
        if out is None or sums is None:
            out, sums = here, own
            continue
        share = b.div(1, b.add(1, b.exp(b.sub(sums, own))))  # sigmoid(own - sums)
        out = b.sub(out, b.mul(b.unsqueeze(share, 1), b.sub(out, here)))
        sums = b.add(sums, b.log(b.add(1, b.exp(b.sub(own, sums)))))  # sums - logsigmoid(sums - own)
    assert out is not None
    assert sums is not None
    return out, sums


@pytest.mark.parametrize("order", [*permutations(range(3)), (2, 1, 0, 3), (0, 2, 1, 3), (3, 1, 2, 0)])
def test_results_of_attention_are_merged_in_any_order(order: tuple[int, ...]) -> None:
    w = Workbench()
    size = 2
    scores, values = w.input("s", 3, size * len(order)), w.input("v", size * len(order), 2)
    whole, whole_sums = attention(w, scores, values)
    out, sums = merged(w, scores, values, order, size)
    assert w.same(sums, whole_sums)
    assert w.same(out, whole)
    assert not w.equivalent(merged(w, scores, values, order[:-1], size)[0], whole)
    data = w.data(len(order))
    assert np.allclose(w.value(out, data), w.value(whole, data))


@pytest.mark.parametrize("wrong", [False, True])
@pytest.mark.parametrize("order", [(0, 1, 2), (0, 3, 2, 1), (1, 0, 3, 2)])
def test_keys_of_a_block_are_no_one_range(order: tuple[int, ...], wrong: bool) -> None:
    """A block has two keys from the front and three from the back, as load balancing under a causal mask deals them
    out: what is taken off a result is the sum of several terms."""
    w = Workbench()
    blocks = max(order) + 1
    scores, values = w.input("s", 3, 5 * blocks), w.input("v", 5 * blocks, 2)
    places = [(first, last) for k in range(blocks) for first, last in
              ((2 * k, 2 * k + 2), (5 * blocks - 3 * k - 3, 5 * blocks - 3 * k))]  # fmt: skip
    dealt = [w.b.concat([w.b.slice(x, dim, *ends) for ends in places], dim) for x, dim in ((scores, 1), (values, 0))]
    whole, whole_sums = attention(w, scores, values)
    out, sums = merged(w, dealt[0], dealt[1], (*order[:-1], order[0]) if wrong else order, 5)
    assert w.same(sums, whole_sums) is not wrong
    assert w.same(out, whole) is not wrong
    assert w.equivalent(out, whole) is not wrong
    assert np.allclose(w.value(out, w.data(1)), w.value(whole, w.data(1))) is not wrong


def test_a_difference_that_is_not_a_merge_stays_as_it_is() -> None:
    """With a share over another denominator nothing is one term again, and nothing is wrong."""
    w = Workbench()
    a, b, c = (total(w, w.input(name, 3, 2)) for name in "xyz")
    u, v = w.input("u", 3), w.input("v", 3)
    odd = w.b.sub(u, w.b.mul(w.b.div(b, w.b.add(a, c)), w.b.sub(u, v)))
    data = w.data(7)
    x, y, z = (np.exp(data[name]).sum(1) for name in "xyz")
    assert np.allclose(w.value(odd, data), data["u"] - y / (x + z) * (data["u"] - data["v"]))
    assert not w.equivalent(odd, w.b.div(w.b.add(w.b.mul(a, u), w.b.mul(b, v)), w.b.add(a, b)))


def test_terms_that_cancel_over_a_denominator_are_gone() -> None:
    """u - (A + B)/(A + B) u = 0, and with a factor outside."""
    w = Workbench()
    a, b = total(w, w.input("x", 3, 2)), total(w, w.input("y", 3, 5))
    u, v = w.input("u", 3), w.input("v", 3)
    both = w.b.add(a, b)
    zero = w.b.sub(u, w.b.mul(w.b.div(both, w.b.add(b, a)), u))
    assert not np.any(w.value(zero, w.data()))
    shares = [w.b.div(x, both) for x in (a, b)]
    rest = w.b.sub(w.b.sub(w.b.mul(u, v), w.b.mul(shares[0], w.b.mul(u, v))), w.b.mul(shares[1], w.b.mul(u, v)))
    assert np.allclose(w.value(rest, w.data()), 0)
