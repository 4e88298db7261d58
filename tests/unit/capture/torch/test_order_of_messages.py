"""Messages between two ranks keep their order: the k-th send is the k-th receive. A rank may do nothing but send."""

from __future__ import annotations

from typing import Any

import pytest

import tantamount as tt
from tantamount.errors import UserError

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


def test_groups_of_the_same_ranks_are_called_in_one_order() -> None:
    """Real processes (gloo) that take two groups of the same ranks the other way round add ``x`` of one to ``y`` of the
    other, which no graph shows: such ranks were taken for right."""

    def program(first: str, other: str, crossed: bool) -> Any:
        def rank_of(rank: int) -> Any:
            groups = [dist.new_group([0, 1]) for _ in range(2)]
            here = groups[::-1] if crossed and rank else groups

            def step(x: Any, y: Any) -> Any:
                x, y, kinds = x.clone(), y.clone(), (first, other)
                for tensor, group, kind in zip((x, y), here, kinds, strict=True):
                    if kind == "sum":
                        dist.all_reduce(tensor, group=group)
                    elif rank == 0:
                        dist.send(tensor, 1, group=group)
                    else:
                        dist.recv(tensor, 0, group=group)
                return x, y

            return step, (torch.zeros(3), torch.zeros(3))

        return rank_of

    for first, other in (("sum", "sum"), ("message", "message")):
        assert len(tt.capture_ranks(program(first, other, False), 2).programs) == 2
        with pytest.raises(UserError) as error:
            tt.capture_ranks(program(first, other, True), 2)
        assert error.value.place == "process groups of the ranks (0, 1)"
