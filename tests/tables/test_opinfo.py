"""The first samples of PyTorch's own operator database agree with the definitions, forward and backward, and
the definitions with their normal forms; all of
them are run by ``benchmarks/bench_opinfo.py``."""
# ruff: noqa: E402 - PyTorch first, or skip

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="the samples are PyTorch's own")
pytest.importorskip("expecttest", reason="PyTorch's database of samples imports it")

from support.opinfo import Tally, check, database


def test_the_first_samples_agree() -> None:
    total = Tally()
    for op in database():
        total.update(check(op, (torch.float64, torch.int64), most=1, forms=1))
    assert not total.different, "\n".join(text for texts in total.different.values() for text in texts)
    assert total.agreeing > 4000
    assert len(total.kinds) > 350
    assert len(+total.agreeing_forms) > 250
