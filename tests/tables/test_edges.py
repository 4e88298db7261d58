"""Operators with infinities, NaN, signed zeros and huge numbers among their operands: the definition does what eager
does, or a table says that it does not, and why; and what records say of infinities is true of eager.

All samples are run by ``benchmarks/bench_edges.py``."""
# ruff: noqa: E402 - PyTorch first, or skip

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="the values are PyTorch's own")

from support.aten_agreement import edge_of
from support.edges import at_edges, samples, untrue_records
from tantamount.calculus import kinds
from tantamount.ops.table import lookup

EVERY = 43  # samples, of which one is run
pytestmark = pytest.mark.filterwarnings("ignore")


def _named(*names: str) -> list[object]:
    return [sample for sample in samples() if sample.target.split(".")[1] in names]


def test_definitions_do_what_eager_does() -> None:
    found = [
        (call, outcome) for k, sample in enumerate(samples()) if k % 4 == 1 for call, outcome in at_edges(sample, 2)
    ]
    wrong = [f"{call}: {outcome.text}" for call, outcome in found if outcome.kind == "different"]
    assert not wrong
    assert len(found) > 500
    assert all(edge_of(call.target) for call, outcome in found if outcome.kind == "undefined" and outcome.text)


def test_records_are_true_of_eager() -> None:
    assert not [text for k, sample in enumerate(samples()) if not k % EVERY for text in untrue_records(sample, 1)]


WATCHED = (
    "floor_divide remainder fmod lerp nll_loss_backward dropout_ native_dropout _scaled_dot_product_attention_math"
)


@pytest.mark.parametrize("name", WATCHED.split())
def test_what_was_said_and_not_true(name: str) -> None:
    mine = _named(name)[:3]
    assert mine
    assert not [text for sample in mine for text in untrue_records(sample, 1)]


def test_a_claim_that_is_not_true_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kinds, "ALL_SOFT", kinds.SAME)
    assert [text for sample in _named("remainder")[:2] for text in untrue_records(sample, 1)]


def test_a_definition_that_differs_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    row = lookup("aten.remainder.Tensor", "test")
    monkeypatch.setitem(row.define.__dict__, "doubts", "")
    monkeypatch.setattr("support.aten_agreement.EDGES", {})
    outcomes = [outcome for sample in _named("remainder") for _, outcome in at_edges(sample, 9)]
    assert "different" in {outcome.kind for outcome in outcomes}
