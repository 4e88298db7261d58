"""Tokens of a batch in one row, looked up and written at positions that count: the row is cut otherwise on a rank."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import tantamount as tt
from tantamount.answers import job_of
from tantamount.capture.programs import Ranks
from tantamount.ir.mesh import Mesh
from tantamount.proof import Options, prove
from tantamount.verdict import Verdict

torch = pytest.importorskip("torch", reason="captures need PyTorch")

EXPERTS = 3


def _order(tokens: int):
    """For every expert all tokens, as Megatron sorts them where each is sent to each."""
    ones = torch.ones(EXPERTS, tokens, dtype=torch.int8)
    return ones.argsort(dim=-1, descending=True, stable=True).view(-1)


def looked_up(x):
    return x.index_select(0, _order(len(x))).view(EXPERTS, *x.shape).sum(0)


def looked_up_in_a_vector(x):
    first = (torch.arange(x.shape[1]) * len(x)).unsqueeze(-1)
    at = (first + torch.arange(len(x))).view(-1)
    return x.T.reshape(-1).index_select(0, at).view(x.shape[1], -1).T


def added(x):
    made = torch.exp(x * torch.arange(1, EXPERTS + 1).view(-1, 1, 1)).flatten(0, 1)
    return torch.zeros_like(x).scatter_add(0, _order(len(x)).unsqueeze(1).expand(made.shape), made)


def written(x):
    values, at = torch.topk(torch.sigmoid(x), 2, dim=1)
    return torch.zeros_like(x).scatter(1, at, values)


def shifted(x):
    return x.index_select(0, (torch.arange(len(x)) + 1).clamp(max=len(x) - 1))


@pytest.mark.parametrize("step", [looked_up, looked_up_in_a_vector, added, written])
def test_tokens_are_where_they_were(step: Callable[..., object]) -> None:
    assert _verdict(step) is Verdict.PROVED


def test_other_tokens_are_others() -> None:
    assert _verdict(shifted) is not Verdict.PROVED


def _verdict(step: Callable[..., object]) -> Verdict:
    """The answer without multiplying anything out: (positions, rows, width) cut along rows and positions."""

    def run(x):
        return {"y": step(x.flatten(0, 1)).unflatten(0, x.shape[:2])}

    whole, part = tt.capture(run, (torch.ones(8, 8, 4),)), tt.capture(run, (torch.ones(4, 2, 4),))
    cut = ["Shard(1)", "Shard(0)"]
    ranks = Ranks((part,) * 8, Mesh({"dp": 4, "tp": 2}), {"x": cut}, {"y": cut})
    (output,) = prove(job_of(whole, ranks), Options()).check(expand=False, infer=False)
    return output.verdict
