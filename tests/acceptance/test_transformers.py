"""Models of the ``transformers`` library under its own tensor-parallel plans: forward, backward, and a broken twin."""

from __future__ import annotations

import pytest

from tantamount import refine
from tantamount.verdict import Verdict

pytest.importorskip("torch", reason="PyTorch is not installed")
pytest.importorskip("transformers", reason="transformers is not installed (pip install 'tantamount[models]')")

from support.transformer_models import MODELS, capture_pair, without_all_reduce


@pytest.mark.parametrize("name", MODELS)
def test_a_model_is_proved_and_its_twin_is_not(name: str) -> None:
    specification, ranks = capture_pair(name)
    report = refine(specification, ranks)
    assert report.verdict is Verdict.PROVED, str(report)
    assert len(report.outputs) == len(specification.graph.outputs)
    assert sum(report.statistics.seconds.values()) < 6  # CPU seconds, one layer with embedding and loss
    twin = refine(specification, without_all_reduce(ranks))
    assert twin.verdict is Verdict.REFUTED
    assert twin.mismatch is not None
    source = twin.mismatch.implementation_source or twin.mismatch.specification_source
    assert source is not None
    assert "backward" in source.function
