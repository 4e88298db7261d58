"""Messages between two ranks keep their order: the k-th send is the k-th receive. A rank may do nothing but send."""

from __future__ import annotations

from typing import Any

import pytest

import tantamount as tt

torch = pytest.importorskip("torch", reason="captures need PyTorch")
dist = torch.distributed


def sequential(x: Any) -> Any:
    return torch.exp(x) - torch.sin(x)


def build(swapped: bool) -> Any:
    def rank_of(rank: int) -> Any:
        def sender(x: Any) -> None:
            for part in (torch.exp(x), torch.sin(x)):
                dist.send(part, 1)

        def receiver(x: Any) -> Any:
            first, second = torch.empty_like(x), torch.empty_like(x)
            work = [dist.irecv(second if swapped else first, 0), dist.irecv(first if swapped else second, 0)]
            for one in reversed(work):  # waiting in another order changes nothing
                one.wait()
            return first - second

        return (sender if rank == 0 else receiver), (torch.zeros(3),)

    return rank_of


@pytest.mark.parametrize(("swapped", "verdict"), [(False, tt.Verdict.PROVED), (True, tt.Verdict.REFUTED)])
def test_the_first_that_is_sent_is_the_first_that_is_received(swapped: bool, verdict: tt.Verdict) -> None:
    spec = tt.capture(sequential, (torch.zeros(3),))
    report = tt.refine(spec, tt.capture_ranks(build(swapped), 2), outputs={"output": 'rank(1, "output")'})
    assert report.verdict is verdict, str(report)
