"""Attention within sequences of several lengths in one tensor, as torchtitan and serving engines call it: captured,
sharded over heads with its gradients, and against masks that say the same."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="captures need PyTorch")
import torch.distributed as dist  # noqa: E402
import torch.nn.functional as functional  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn.attention.varlen import varlen_attn  # noqa: E402

import tantamount as tt  # noqa: E402
from tantamount.verdict import Verdict  # noqa: E402

ROWS, HEADS, SIZE, WIDTH = 8, 4, 4, 12
STARTS = torch.tensor([0, 3, 8], dtype=torch.int32)
SHARDED = {"q.weight": "Shard(0)", "k.weight": "Shard(0)", "v.weight": "Shard(0)", "o.weight": "Shard(1)"}


class Attention(nn.Module):
    def __init__(self, heads: int, window: tuple[int, int]) -> None:
        super().__init__()
        self.window = window
        self.q, self.k, self.v = (nn.Linear(WIDTH, heads * SIZE, bias=False) for _ in range(3))
        self.o = nn.Linear(heads * SIZE, WIDTH, bias=False)

    def forward(self, x: Any, starts: Any) -> Any:
        q, k, v = (layer(x).unflatten(1, (-1, SIZE)) for layer in (self.q, self.k, self.v))
        return self.o(varlen_attn(q, k, v, starts, starts, ROWS, ROWS, window_size=self.window).flatten(1))


class Summed(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        x = x.clone()
        dist.all_reduce(x)
        return x

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return grad


def trained(layer: Any, x: Any, starts: Any, parallel: bool) -> Any:
    y = Summed.apply(layer(x, starts)) if parallel else layer(x, starts)
    y.square().sum().backward()
    return y


@pytest.mark.parametrize(("window", "verdict"), [((-1, 0), Verdict.PROVED), ((-1, -1), Verdict.REFUTED)])
def test_heads_on_two_ranks_with_gradients(window: tuple[int, int], verdict: Verdict) -> None:
    x = torch.zeros(ROWS, WIDTH)
    whole = Attention(HEADS, (-1, 0))
    specification = tt.capture(lambda x, starts: trained(whole, x, starts, False), (x, STARTS), modules=whole)

    def build(rank: int) -> Any:
        part = Attention(HEADS // 2, window)
        return lambda x, starts: trained(part, x, starts, True), (x, STARTS), {"modules": part}

    report = tt.refine(specification, tt.capture_ranks(build, 2), inputs=SHARDED)
    assert report.verdict is verdict, report
    if verdict is Verdict.PROVED:
        assert any("its sequences are all rows, in order" in one.text for one in report.assumptions)
    else:
        assert report.counterexample is not None


def packed(q: Any, k: Any, v: Any, starts: Any) -> Any:
    return varlen_attn(q, k, v, starts, starts, ROWS, ROWS, window_size=(-1, 0))


def masked(q: Any, k: Any, v: Any, starts: Any, before: int = 0) -> Any:
    """``before``: how many keys after its own a query sees, which a right program has none of."""
    place = torch.arange(ROWS, dtype=torch.int32)
    document = (place[:, None] >= starts[1:]).sum(1)
    seen = (document[:, None] == document) & (place[:, None] + before >= place)
    heads = (x.transpose(0, 1)[None] for x in (q, k, v))
    return functional.scaled_dot_product_attention(*heads, attn_mask=seen)[0].transpose(0, 1)


def test_masks_of_documents_say_the_same() -> None:
    given = (*(torch.zeros(ROWS, 2, SIZE) for _ in range(3)), STARTS)
    first, second = tt.capture(packed, given), tt.capture(masked, given)
    assert tt.refine(first, second).verdict is Verdict.PROVED
    wrong = tt.capture(lambda q, k, v, starts: masked(q, k, v, starts, 1), given)
    assert tt.refine(first, wrong).verdict is Verdict.REFUTED
    # the mask is defined for starts that are in no order, too, of which nothing is shown
    assert tt.refine(second, first).verdict is Verdict.REFUTED


def alone(q: Any, k: Any, v: Any) -> Any:
    """Every sequence by itself."""
    found: list[Any] = []
    for low, high in ((0, 3), (3, ROWS)):
        heads = (x[low:high].transpose(0, 1)[None] for x in (q, k, v))
        found.append(functional.scaled_dot_product_attention(*heads, is_causal=True)[0].transpose(0, 1))
    return torch.cat(found)


@pytest.mark.parametrize(
    ("starts", "longest", "verdict"),
    [([0, 3, 8], 5, Verdict.PROVED), ([0, 4, 8], 5, Verdict.REFUTED), ([0, 3, 8], 4, Verdict.REFUTED)],
)
def test_starts_that_are_recorded(starts: list[int], longest: int, verdict: Verdict) -> None:
    def one(q: Any, k: Any, v: Any) -> Any:
        known = torch.tensor(starts, dtype=torch.int32)
        return varlen_attn(q, k, v, known, known, longest, longest, window_size=(-1, 0))

    given = tuple(torch.zeros(ROWS, 2, SIZE) for _ in range(3))
    report = tt.refine(tt.capture(one, given), tt.capture(alone, given))
    if longest < 5:  # a specification without a value on any input: nothing is PROVED of it
        assert report.verdict is not Verdict.PROVED
        report = tt.refine(tt.capture(alone, given), tt.capture(one, given))
    assert report.verdict is verdict, report
