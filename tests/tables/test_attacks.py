"""Pairs of programs that agree on easy inputs, judged by eager: no wrong one is PROVED. Some pairs of every class
(``benchmarks/bench_attacks.py`` has all of all families)."""

from __future__ import annotations

import pytest

pytest.importorskip("torch", reason="eager PyTorch judges")

from support.amount import EVERYTHING
from support.attacks.all_families import FAMILIES
from support.attacks.judge import judge

GROUPS = sorted({family.group for family in FAMILIES})


@pytest.mark.parametrize("group", GROUPS)
def test_what_differs_is_not_proved(group: str) -> None:
    differ = 0
    for number, family in enumerate(one for one in FAMILIES if one.group == group):
        if EVERYTHING or number % 6 == 0:
            table = judge(family, every=149, start=40 + len(family.name))
            assert not table.wrong, table.wrong
            differ += sum(one.differ for one in table.judged)
    assert differ
