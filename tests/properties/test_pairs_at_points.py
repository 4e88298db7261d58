"""Random pairs of programs that differ at single numbers, or nowhere: eager does not contradict a verdict. The long run
is ``benchmarks/fuzz_points.py``."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("torch", reason="the judge is PyTorch")

from support.amount import count
from support.points import judged


@pytest.mark.parametrize("seed", range(count(12, 48)))
def test_eager_does_not_contradict(seed: int, tmp_path: Path) -> None:
    _, problem = judged(seed, tmp_path)
    assert not problem
