"""Sampled inputs: numbers of both signs, boundaries, limits of the element type, and equal ones."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from tantamount.certificate.boundaries import boundaries
from tantamount.certificate.draws import TAMEST, Draw, Elements, Pool, Sampler, limits_of
from tantamount.ir.types import DType, Kind

MANY = 32  # runs: every recipe twice


def drawn(dtype: DType, tame: int = 0, bound: int = 0, divides: bool = False) -> list[np.ndarray]:
    elements = Elements.free(60, dtype)
    elements.bounds[:] = bound
    elements.divides[:] = divides
    sampler = Sampler(7, Pool.of([Fraction(1000), Fraction(5, 2)]))
    return [sampler.draw(number, tame)(dtype.kind, elements, 0) for number in range(MANY)]


def test_a_pool_has_numbers_and_their_neighbours() -> None:
    pool = Pool.of([Fraction(10), Fraction(5, 2)])
    assert {9, 10, 11, -9, -10, -11, 2, 3, -2} <= set(pool.whole.tolist())
    assert {10.0, 10.5, 2.5, 1.5, -2.5} <= set(pool.real.tolist())


@pytest.mark.parametrize("dtype", [DType.INT64, DType.INT32, DType.INT8, DType.UINT8])
def test_integers_are_everywhere_in_their_type(dtype: DType) -> None:
    found = np.concatenate(drawn(dtype))
    low, high = limits_of(dtype)
    assert found.dtype == np.int64
    assert low <= found.min()
    assert found.max() <= high
    assert {low, high, 0, 1} <= set(found.tolist())
    assert (dtype is DType.UINT8) == (found.min() >= 0)
    assert dtype.bits == 8 or {999, 1000, 1001, -1000} <= set(found.tolist())


def test_some_runs_have_equal_numbers_inside_and_between_tensors() -> None:
    elements = Elements.free(40, DType.INT64)
    elements.tensor[20:] = 1
    elements.place[20:] -= 20
    sampler = Sampler(3, Pool.of([Fraction(1)]))
    runs = [sampler.draw(number, 0)(Kind.INT, elements, 0) for number in range(MANY)]
    assert any((run[:20] == run[0]).all() for run in runs)
    assert any(np.mean(run[:20] == run[20:]) > 0.7 and len(np.unique(run)) > 2 for run in runs)


def test_booleans_are_all_true_all_false_and_nearly() -> None:
    shares = {round(float(np.mean(run)), 1) for run in drawn(DType.BOOL)}
    assert {0.0, 0.5, 0.9, 1.0} <= shares


def test_tame_numbers_are_in_range_and_divisors_not_zero() -> None:
    for tame in range(1, TAMEST + 1):
        inside = np.concatenate(drawn(DType.INT64, tame, bound=5))
        assert inside.max() < 5
        assert (np.concatenate(drawn(DType.INT64, tame, divides=True)) != 0).all()
        assert (np.concatenate(drawn(DType.FLOAT32, tame, divides=True)) != 0).all()
    assert np.concatenate(drawn(DType.INT64, TAMEST)).min() > 0


def test_a_boundary_that_is_written_nowhere_is_found() -> None:
    def signs(draw: Draw) -> list[tuple[int, int]]:
        x = draw(Kind.INT, Elements.free(3, DType.INT64), 0)
        gap = np.sign(2 * x + 3 - 4321)
        return [(int(gap.min()), int(gap.max()))]

    assert 2159 in boundaries(0, (), signs, 200)
