"""Integers of 8 and 16 bits: every operator gives what eager PyTorch gives, bit for bit, at the ends of the types."""

from __future__ import annotations

from collections import Counter

import pytest

pytest.importorskip("torch", reason="the values are PyTorch's own")

from support.integers import fuzz
from support.narrow import cases, outcome

STEP = 9  # every so many cases; benchmarks/fuzz_integers.py takes all of them


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("part", range(2))
def test_values_are_those_of_pytorch(part: int) -> None:
    chosen = [case for number, case in enumerate(cases()) if number % STEP == part]
    found = {str(case): outcome(case, seed=part) for case in chosen}
    wrong = {name: text for name, text in found.items() if text not in ("agrees", "fails", "refused", "undefined")}
    assert not wrong
    assert Counter(found.values())["agrees"] > len(chosen) / 2


def test_forms_and_the_reference_are_eager_on_random_expressions() -> None:
    figures = fuzz(40, seed=5)
    assert not figures.wrong
    assert figures.pairs > 30
    assert figures.proved > 0.8 * figures.equal > 10
