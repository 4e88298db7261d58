"""Normal forms mean what the reference interpreter computes, and equal forms are equal tensors."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from support.agreement import Figures, check, fuzz
from support.amount import count
from tantamount.effort import LEVELS
from tantamount.samples.programs.growing import grow

PARTS = count(3, 16)
PROGRAMS = 25  # of each


@pytest.mark.parametrize("part", range(PARTS))
def test_some_random_programs(part: int) -> None:
    """``benchmarks/fuzz_calculus.py`` takes 100,000, and normal effort to compare unequal forms."""
    figures = fuzz(programs=PROGRAMS, seed=100 + part, deep_every=1, stop_at=1, effort=LEVELS["low"])
    assert not figures.failures, str(figures.failures[0])
    assert figures.tensors > 100
    assert figures.pairs_equal > 4  # the comparison of pairs is not vacuous


@settings(max_examples=count(20, 240), deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(st.randoms(use_true_random=False), st.integers(1, 5), st.integers(0, 1000))
def test_random_programs_that_shrink(r: Random, steps: int, seed: int) -> None:
    program, pool = grow(r, seed, steps)
    failure = check(program, seed, Figures(), pool, deep=True)
    assert failure is None, str(failure)
