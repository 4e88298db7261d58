"""Messages of PyTorch programs: waits where the program waits, scatter and gather, and programs that hang."""

from __future__ import annotations

from typing import Any

import pytest

from tantamount import Verdict
from tantamount.errors import UserError

torch = pytest.importorskip("torch", reason="captures need PyTorch")
dist = torch.distributed
import tantamount as tt  # noqa: E402


def against(specification: Any, ranks: Any, inputs: dict[str, Any], world_size: int = 2, **outputs: Any) -> Any:
    spec = tt.capture(specification, (torch.zeros(4, 3),))
    impl = tt.capture_ranks(lambda rank: (ranks(rank), (torch.zeros(4 // world_size, 3),)), world_size)
    return tt.refine(spec, impl, inputs=inputs, outputs=outputs)


def swap(x: Any) -> Any:
    return torch.cat([x[2:], x[:2]]) * 2


def exchanging(first: str) -> Any:
    def build(rank: int) -> Any:
        def step(x: Any) -> Any:
            y = torch.empty_like(x)
            if first == "both":
                for work in [dist.irecv(y, 1 - rank), dist.isend(x, 1 - rank)]:
                    work.wait()
            elif (first == "send") == (rank == 0):
                dist.send(x, 1 - rank)
                dist.recv(y, 1 - rank)
            else:
                dist.recv(y, 1 - rank)
                dist.send(x, 1 - rank)
            return y * 2

        return step

    return build


@pytest.mark.parametrize("first", ["both", "send", "receive"])
def test_exchanges_in_any_order_that_does_not_hang(first: str) -> None:
    report = against(swap, exchanging(first), {"x": "Shard(0)"}, output="Shard(0)")
    assert report.verdict is Verdict.PROVED, str(report)


@pytest.mark.parametrize("kind", ["send", "recv"])
def test_ranks_that_do_the_same_first_hang(kind: str) -> None:
    def build(rank: int) -> Any:
        def step(x: Any) -> Any:
            y = torch.empty_like(x)
            calls = [lambda: dist.send(x, 1 - rank), lambda: dist.recv(y, 1 - rank)]
            for call in calls if kind == "send" else calls[::-1]:
                call()
            return y

        return step

    with pytest.raises(UserError, match="message-deadlock") as caught:
        against(swap, build, {"x": "Shard(0)"})
    text = str(caught.value)
    assert "rank 0 waits in" in text
    assert "rank 1 waits in" in text
    assert "test_messages_of_torch.py" in text


def test_what_is_read_before_the_wait_is_not_known() -> None:
    """It may be the message, or what was in the buffer: a race, and neither of them is taken for it."""

    def build(rank: int) -> Any:
        def step(x: Any) -> Any:
            y = torch.zeros_like(x)
            works = [dist.isend(x, 1 - rank), dist.irecv(y, 1 - rank)]
            early = y * 2
            for work in works:
                work.wait()
            return early

        return step

    with pytest.raises(UserError, match="recv_ that is read before the program has waited"):
        against(swap, build, {"x": "Shard(0)"}, output="Shard(0)")


def test_scatter_and_gather() -> None:
    def build(rank: int) -> Any:
        def step(x: Any) -> Any:
            parts = [torch.empty_like(x) for _ in range(2)] if rank == 0 else None
            dist.gather(x * 3, parts, dst=0)
            mine = torch.empty_like(x)
            dist.scatter(mine, None if parts is None else [part + 1 for part in parts], src=0)
            return mine

        return step

    report = against(lambda x: x * 3 + 1, build, {"x": "Shard(0)"}, output="Shard(0)")
    assert report.verdict is Verdict.PROVED, str(report)
