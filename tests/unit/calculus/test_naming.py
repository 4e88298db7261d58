"""Canonical names: one result for every way to write a product, and a cost that symmetry does not multiply."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations
from random import Random

import pytest

from tantamount.calculus.affine import coordinate, substitute_index, variable
from tantamount.calculus.naming import Names, canonical
from tantamount.calculus.terms import Factor, Factors
from tantamount.effort import Effort


def f(atom: int, *coordinates: dict[int, int], offset: int = 0) -> Factor:
    """``atom[...]``: every coordinate by the strides of the variables 1, 2, ..., which are bound."""
    return Factor(atom, 1, tuple(coordinate({-v: s for v, s in c.items()}, offset) for c in coordinates))


def everyone(n: int) -> Factors:
    """``y[a, b]`` for all a != b: all variables can be exchanged for each other."""
    return tuple(f(1, {a: 1}, {b: 1}) for a, b in permutations(range(1, n + 1), 2))


def ring(n: int) -> Factors:
    """``y[1, 2] y[2, 3] ... y[n, 1]``."""
    return tuple(f(1, {a: 1}, {a % n + 1: 1}) for a in range(1, n + 1))


def branches(n: int) -> Factors:
    """n equal chains that begin at one variable: pairs of variables can be exchanged, single ones cannot."""
    chains = ((f(1, {1: 1}, {2 * k: 1}), f(2, {2 * k: 1}, {2 * k + 1: 1})) for k in range(1, n + 1))
    return tuple(factor for chain in chains for factor in chain)


def sides(n: int) -> Factors:
    """``y[a, b]`` for a on one side and b on the other."""
    return tuple(f(1, {a: 1}, {n + b: 1}) for a in range(1, n + 1) for b in range(1, n + 1))


def differences(n: int) -> Factors:
    """``y[a - b + 3]`` for all a != b: directions decide nothing by themselves."""
    return tuple(f(1, {a: 1, b: -1}, offset=3) for a, b in permutations(range(1, n + 1), 2))


def cube(n: int) -> Factors:
    """``y[a, b]`` along the edges of a cube."""
    return tuple(f(1, {a + 1: 1}, {(a ^ 1 << d) + 1: 1}) for a in range(1 << n) for d in range(n))


def rewritten(r: Random, factors: Factors, ranges: Sequence[int]) -> tuple[Factors, list[int]]:
    """The same product with other names, directions and another order."""
    order = [*range(len(ranges))]
    r.shuffle(order)
    sizes = [0] * len(ranges)
    replace = {}
    for old, new in enumerate(order):
        sizes[new] = ranges[old]
        replace[-1 - old] = variable(-1 - new, -1, ranges[old] - 1) if r.random() < 0.5 else variable(-1 - new)
    out = [Factor(a, e, substitute_index(index, replace)) for a, e, index in factors]
    r.shuffle(out)
    return tuple(out), sizes


SYMMETRIC = {
    "everyone": [everyone(n) for n in (2, 3, 5, 8, 12)],
    "ring": [ring(n) for n in (3, 4, 7, 12)],
    "branches": [branches(n) for n in (2, 5, 12)],
    "sides": [sides(n) for n in (2, 4, 6)],
    "differences": [differences(n) for n in (2, 3, 4, 6)],
    "cube": [cube(n) for n in (1, 2, 3)],
    "one factor, three of four directions": [(f(1, {1: 1}, {2: 1}), f(1, {1: -1}, {2: 1}), f(1, {1: 1}, {2: -1}))],
    "both directions": [(f(1, {1: 1}), f(1, {1: -1}, offset=7))],
}  # fmt: skip


def size_of(factors: Factors) -> int:
    return max(-v for _, _, index in factors for parts, _ in index for v, _ in parts)


@pytest.mark.parametrize("name", SYMMETRIC)
def test_one_result_for_every_way_to_write_a_product(name: str) -> None:
    r = Random(7)
    for factors in SYMMETRIC[name]:
        ranges = [5] * size_of(factors)
        effort = Effort()
        wanted = canonical(effort, factors, ranges)
        assert not effort.hits
        for _ in range(3):
            assert canonical(Effort(), *rewritten(r, factors, ranges)) == wanted


def test_what_differs_is_named_differently() -> None:
    """Two rings of three are no ring of six, though every variable has the same neighbours in number."""
    two = (*ring(3), *(f(1, {a + 3: 1}, {a % 3 + 4: 1}) for a in (1, 2, 3)))
    assert canonical(Effort(), two, [5] * 6) != canonical(Effort(), ring(6), [5] * 6)
    assert canonical(Effort(), ring(4), [5, 5, 5, 5]) != canonical(Effort(), ring(4), [5, 5, 5, 6])
    around = ring(4)
    assert canonical(Effort(), around, [5] * 4) != canonical(Effort(), (f(1, {2: 1}, {1: 1}), *around[1:]), [5] * 4)


@pytest.mark.parametrize("shape", [everyone, branches])
def test_equal_factors_cost_a_square_of_refinements_at_most(shape: object) -> None:
    assert callable(shape)
    for n in (4, 8, 12):
        factors: Factors = shape(n)
        names = Names()
        canonical(Effort(), factors, [5] * size_of(factors), names)
        assert names.refined <= n * n + 6


def test_a_skeleton_is_refined_once() -> None:
    """Shards and layers differ in axes, offsets and ranges only."""
    names = Names()
    for offset in range(5):
        shard = (f(1, {1: 1}, {2: 1}, offset=offset), f(2, {2: 1}, offset=offset))
        canonical(Effort(), shard, (4 + offset, 8), names)
    assert names.refined == 1
