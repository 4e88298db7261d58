"""Programs that differ only where some of them are undefined: none is PROVED against one from which PyTorch's values
differ. ``benchmarks/bench_singular.py`` runs all pairs."""

import pytest

from support.amount import count
from support.singular import FAMILIES, Family, agree, pairs, verdict
from tantamount.verdict import Verdict

_EVERY = count(25, 5)  # of all pairs, so many are left out between two that are taken


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_proved_pairs_agree(family: Family) -> None:
    pytest.importorskip("torch")
    proved = 0
    for pair in list(pairs((family,)))[::_EVERY]:
        found, _ = verdict(pair)
        if found is Verdict.PROVED:
            proved += 1
            assert agree(pair), str(pair)
    assert proved or family.name == "infinities that become numbers"  # of which nothing is proved
