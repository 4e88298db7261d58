"""Proofs as tests: ``pytest examples/test_with_pytest.py``. The fixture ``refines`` comes with Tantamount."""

from __future__ import annotations

import pytest

import tantamount as tt


def test_a_job_is_proved(refines):
    refines("mlp_tp2/job.toml")


def test_what_is_wrong_stays_wrong(refines):
    report = refines("mlp_tp2/wrong.toml", expect={"y": "REFUTED"})
    assert report.mismatch.implementation_source.line == 25


def test_column_then_row(refines):
    torch = pytest.importorskip("torch")

    def layers(ranks):
        up, down = torch.nn.Linear(8, 32 // ranks), torch.nn.Linear(32 // ranks, 8, bias=False)
        return torch.nn.Sequential(up, torch.nn.GELU(), down)

    def build(rank):
        part = layers(2)

        def forward(x):
            y = part(x)
            torch.distributed.all_reduce(y)
            return y

        return forward, batch

    batch = (torch.ones(4, 8),)
    whole = layers(1)
    refines(
        tt.capture(lambda x: whole(x), batch),
        tt.capture_ranks(build, 2, mesh={"tp": 2}),
        inputs={"0.*": "Shard(0)", "2.weight": "Shard(1)"},
    )
