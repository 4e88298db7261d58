"""Index lattices: solving, meeting and joining of cosets, against enumeration of their points."""

from __future__ import annotations

from fractions import Fraction
from itertools import product
from random import Random

from tantamount.calculus.affine import (
    Index,
    Lattice,
    _integral_echelon,  # pyright: ignore[reportPrivateUsage]
    _reduced_echelon,  # pyright: ignore[reportPrivateUsage]
    coordinate,
    lattice,
    meet,
    span,
    substitute_index,
)

WINDOW = 6


def random_index(r: Random, dims: int, variables: int) -> Index:
    return tuple(coordinate({v: r.randrange(-3, 4) for v in range(variables)}, r.randrange(-4, 5)) for _ in range(dims))


def points(coset: Lattice) -> set[tuple[int, ...]]:
    found: set[tuple[int, ...]] = set()
    for z in product(range(-WINDOW, WINDOW + 1), repeat=len(coset.columns)):
        found.add(
            tuple(b + sum(k * c[j] for k, c in zip(z, coset.columns, strict=True)) for j, b in enumerate(coset.base))
        )
    return found


def test_solve_meet_and_span_of_random_cosets() -> None:
    r = Random(1)
    met = 0
    for _ in range(1500):
        dims, variables = r.randrange(1, 4), r.randrange(0, 3)
        first, second = random_index(r, dims, variables), random_index(r, dims, variables)
        a, b = lattice(first), lattice(second)
        for coset, index in ((a, first), (a, second), (b, second)):
            z = coset.solve(index)
            assert z is not None or (coset, index) == (a, second)
            if z is not None:
                assert substitute_index(coset.coordinates(), dict(enumerate(z))) == index
        if points(a) & points(b):
            assert meet(a, b)
            met += 1
        if meet(a, b):
            joined = span(a, b)
            assert joined.solve(a.coordinates()) is not None
            assert joined.solve(b.coordinates()) is not None
    assert met > 100


def test_a_lattice_is_saturated_and_its_form_unique() -> None:
    every_second = lattice((coordinate({0: 2}, 0),))
    assert every_second == lattice((coordinate({0: 1}, 0),)) == lattice((coordinate({5: -3}, 7),))
    diagonal, shifted = (lattice((coordinate({0: 1}, 0), coordinate({0: 1}, k))) for k in (0, 1))
    assert not meet(diagonal, shifted)
    assert diagonal.solve((coordinate({3: 1}, 2), coordinate({3: 1}, 2))) == (coordinate({3: 1}, 2),)
    assert diagonal.solve((coordinate({3: 1}, 2), coordinate({3: 1}, 3))) is None


def test_lattices_of_whole_numbers_take_no_fractions_and_are_the_same() -> None:
    r = Random(3)
    found = 0
    for _ in range(2000):
        width = r.randrange(1, 6)
        rows = {tuple(r.choice([0, 0, 0, 1, 1, -1, 2, 4, 6]) for _ in range(width)) for _ in range(r.randrange(0, 5))}
        vectors = tuple(sorted(rows))
        short = _integral_echelon(vectors)
        if short is not None:
            found += 1
            reduced = _reduced_echelon([[Fraction(x) for x in v] for v in vectors])
            assert [*map(list, short[0])] == reduced
            assert short[1] == tuple(next(j for j, x in enumerate(v) if x) for v in reduced)
    assert found > 1000
