"""Weighted boxes, progressions and merged sums, against counting their points."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import product
from random import Random

from tantamount.calculus.affine import coordinate, fixed, substitute_index, variable
from tantamount.calculus.boxes import Weighted, combination, decompose, progression
from tantamount.calculus.naming import canonical
from tantamount.calculus.sums import _explode, _merge_points, _Points  # pyright: ignore[reportPrivateUsage]
from tantamount.calculus.terms import Factor, Factors
from tantamount.effort import Effort


def count(boxes: Sequence[Weighted]) -> dict[tuple[int, ...], object]:
    total: Counter[tuple[int, ...]] = Counter()
    for box, weight in boxes:
        for point in product(*(range(low, high) for low, high in box)):
            total[point] += weight  # type: ignore[assignment]
    return {point: weight for point, weight in total.items() if weight}


def test_decomposition_keeps_weights_and_forgets_order() -> None:
    r = Random(2)
    for _ in range(1000):
        dims = r.randrange(1, 4)
        boxes: list[Weighted] = []
        for _ in range(r.randrange(1, 6)):
            lows = [r.randrange(0, 5) for _ in range(dims)]
            boxes.append((tuple((low, low + r.randrange(1, 4)) for low in lows), r.choice([1, 1, -1, 2])))
        found = decompose(boxes)
        assert count(found) == count(boxes)
        assert all(w for _, w in found)
        r.shuffle(boxes)
        assert decompose(boxes) == found


def test_progressions_have_every_point_once() -> None:
    r = Random(3)
    for _ in range(2000):
        dims = r.randrange(1, 3)
        given = {tuple(r.randrange(-3, 6) for _ in range(dims)) for _ in range(r.randrange(1, 8))}
        found = [
            tuple(a + k * s for a, s in zip(first, step, strict=True))
            for first, step, size in progression(list(given))
            for k in range(size)
        ]
        assert sorted(found) == sorted(given)


def test_combinations_are_the_only_solution_in_integers() -> None:
    """All combinations with small coefficients are listed: one of independent vectors is found, one of dependent ones,
    or with quotients, is none."""
    random = Random(5)
    found = 0
    for _ in range(300):
        count, length = random.randint(0, 3), random.randint(0, 3)
        vectors = [tuple(random.choice((0, 0, 1, -1, 2, 3)) for _ in range(length)) for _ in range(count)]
        sums: dict[tuple[int, ...], list[tuple[int, ...]]] = {}
        for t in product(range(-3, 4), repeat=count):
            total = tuple(sum(a * v[j] for a, v in zip(t, vectors, strict=True)) for j in range(length))
            sums.setdefault(total, []).append(t)
        several = count > length or any(len(ts) > 1 for ts in sums.values())  # small ones depend by small numbers
        target = (
            random.choice(list(sums)) if random.random() < 0.7 else tuple(random.randint(-4, 4) for _ in range(length))
        )
        solution = combination(vectors, target)
        if several:
            assert solution is None
        elif target in sums:
            assert solution == sums[target][0]
            found += 1
        elif solution is not None:  # by larger numbers
            assert target == tuple(sum(a * v[j] for a, v in zip(solution, vectors, strict=True)) for j in range(length))
    assert found > 50


def test_merged_sums_are_multisets() -> None:
    """Overlaps, repeated offsets, negative strides and dependent vectors neither lose nor double a point."""
    r = Random(4)
    for _ in range(500):
        dims = r.randrange(1, 4)
        items: list[_Points] = []
        for _ in range(r.randrange(1, 6)):
            vectors = [tuple(r.randrange(-2, 3) for _ in range(dims)) for _ in range(r.randrange(0, 3))]
            origin = tuple(r.randrange(0, 6) for _ in range(dims))
            sized = tuple(sorted((v, r.randrange(2, 5)) for v in vectors if any(v)))
            items.append(_Points(origin, sized, r.choice([1, 1, 1, -1, 2, 3])))

        def weights(boxes: Sequence[_Points]) -> dict[tuple[int, ...], object]:
            total: Counter[tuple[int, ...]] = Counter()
            for item in boxes:
                for point in _explode(item):
                    total[point.origin] += point.weight  # type: ignore[assignment]
            return {k: w for k, w in total.items() if w}

        merged = _merge_points(Effort(), items)
        assert weights(merged) == weights(items)
        r.shuffle(items)
        assert sorted(_merge_points(Effort(), items)) == sorted(merged)


def test_canonical_names_are_a_renaming() -> None:
    r = Random(5)
    unstable = 0
    for _ in range(1500):
        m = r.randrange(1, 4)
        ranges = [r.choice([2, 2, 3]) for _ in range(m)]
        factors: Factors = tuple(
            Factor(
                r.choice([1, 1, 2]),
                r.choice([1, 1, -1]),
                tuple(
                    coordinate(
                        {
                            **{-1 - j: r.choice([0, 0, 1, -1, 2]) for j in range(m)},
                            **{v: r.choice([0, 0, 1]) for v in (0, 1)},
                        },
                        r.randrange(0, 3),
                    )
                    for _ in range(r.choice([1, 2]))
                ),
            )
            for _ in range(r.randrange(1, 4))
        )

        def terms(product_of: Factors, sizes: Sequence[int]) -> Counter[object]:
            found: Counter[object] = Counter()
            for z in product(*(range(n) for n in sizes)):
                at = {-1 - j: fixed(k) for j, k in enumerate(z)}
                found[tuple(sorted((a, e, substitute_index(i, at)) for a, e, i in product_of))] += 1
            return found

        named, sizes = canonical(Effort(), factors, ranges)
        assert terms(named, sizes) == terms(factors, ranges)
        order = list(range(m))
        r.shuffle(order)
        renamed = [0] * m
        replace = {}
        for old, new in enumerate(order):
            renamed[new] = ranges[old]
            turn = r.random() < 0.5
            replace[-1 - old] = variable(-1 - new, -1 if turn else 1, ranges[old] - 1 if turn else 0)
        other = [Factor(a, e, substitute_index(i, replace)) for a, e, i in factors]
        r.shuffle(other)
        unstable += canonical(Effort(), tuple(other), renamed) != (named, sizes)
    assert not unstable
