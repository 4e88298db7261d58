"""Cross-entropy on a vocabulary in shards, with ignored labels, written in the ways of several code bases; masks of
lists of numbers; flex_attention with numbers of Python in its score function; each beside a program that is wrong."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="capture needs PyTorch")

import torch.distributed as dist  # noqa: E402

import tantamount as tt  # noqa: E402
from tantamount.verdict import Verdict  # noqa: E402

TOKENS, WORDS = 4, 8
LOGITS, LABELS = torch.zeros(TOKENS, WORDS), torch.zeros(TOKENS, dtype=torch.int64)
Pick = Callable[[Any, Any, int, int], Any]  # of the logits of a shard, labels, first word, words


def _at(z: Any, place: Any) -> Any:
    return z.gather(1, place[:, None])[:, 0]


# What a shard holds of the logits of labels, and 0 where a label is in no shard.
PICKS: dict[str, Pick] = {
    "clamp, where it is the label": lambda z, t, low, n: torch.where(
        torch.clamp(t, low, low + n - 1) == t, _at(z, torch.clamp(t, low, low + n - 1) - low), 0
    ),
    "least and greatest": lambda z, t, low, n: (
        _at(z, torch.minimum(torch.maximum(t - low, torch.tensor(0)), torch.tensor(n - 1)))
        * ((t >= low) & (t < low + n)).float()
    ),
    "quotient and remainder": lambda z, t, low, n: _at(z, t % n) * (torch.div(t, n, rounding_mode="floor") == low // n),
    "remainder of the difference": lambda z, t, low, n: _at(z, (t - low) % n) * ((t - low >= 0) & (t - low < n)),
    "relu": lambda z, t, low, n: _at(z, torch.relu(t - low).clamp(max=n - 1)).masked_fill(
        ~((t >= low) & (t < low + n)), 0.0
    ),
    "isin": lambda z, t, low, n: (lambda mine: torch.where(mine, _at(z, torch.where(mine, t - low, 0)), 0.0))(
        torch.isin(t, torch.arange(low, low + n))
    ),
}


def _loss(logits: Any, labels: Any) -> Any:
    return torch.nn.functional.cross_entropy(logits, labels, ignore_index=-100)


def _shards(pick: Pick, off: int = 0) -> Callable[[int], Any]:
    """The loss of a rank; ``off``: by how much its shard is misplaced."""

    def build(rank: int) -> Any:
        def step(logits: Any, labels: Any) -> Any:
            n = logits.shape[1]
            top = logits.amax(-1)
            dist.all_reduce(top, op=dist.ReduceOp.MAX)
            z = logits - top[:, None]
            total = z.exp().sum(-1)
            dist.all_reduce(total)
            mine = pick(z, labels, rank * (n - off), n)
            dist.all_reduce(mine)
            counted = labels != -100
            return torch.where(counted, total.log() - mine, 0.0).sum() / counted.sum()

        return step, (torch.zeros(TOKENS, WORDS // 2), LABELS)

    return build


@pytest.mark.parametrize("name", PICKS)
def test_labels_of_a_vocabulary_in_shards(name: str) -> None:
    spec = tt.capture(_loss, (LOGITS, LABELS))
    for off, verdict in ((0, Verdict.PROVED), (1, Verdict.REFUTED)):
        if off and name != "least and greatest":
            continue  # the same mistake in each: once is enough
        impl = tt.capture_ranks(_shards(PICKS[name], off), 2, mesh={"tp": 2})
        report = tt.refine(spec, impl, inputs={"logits": "Shard(1)"})
        assert report.verdict is verdict, str(report)


def _verdict(one: Callable[..., Any], other: Callable[..., Any], *args: Any, **options: Any) -> Verdict:
    return tt.refine(tt.capture(one, args, **options), tt.capture(other, args, **options)).verdict


def test_whether_one_of_some_numbers_is_met() -> None:
    within = lambda t: torch.isin(t, torch.arange(4, 8))  # noqa: E731
    assert _verdict(within, lambda t: (t >= 4) & (t < 8), LABELS) is Verdict.PROVED
    assert _verdict(within, lambda t: (t >= 4) & (t < 7), LABELS) is Verdict.REFUTED
    # of a column that depends on the row several may hold
    rows = torch.zeros(3, dtype=torch.int64)
    assert _verdict(lambda t: (t == t.amax()).any(), lambda t: (t == t.amax()).sum() == 1, rows) is not Verdict.PROVED


def test_numbers_in_a_score_function() -> None:
    flex = pytest.importorskip("torch.nn.attention.flex_attention")
    q = torch.zeros(1, 2, 4, 4)

    def capped(by: int) -> Callable[[Any], Any]:
        return lambda q: flex.flex_attention(q, q, q, score_mod=lambda s, b, h, i, j: 20 * torch.tanh(s / by))

    written = lambda q: (20 * ((q @ q.mT) / 2 / 20).tanh()).softmax(-1) @ q  # noqa: E731
    assert _verdict(written, capped(20), q) is Verdict.PROVED
    assert _verdict(written, capped(21), q) is Verdict.REFUTED


def test_ranges_of_one_number_that_differ() -> None:
    x = torch.zeros(12, 3)
    sizes = {"dynamic": {"k": "K"}}
    whole = lambda x, k: x * 1  # noqa: E731 - from 0 on; the other one from 1 on
    assert _verdict(whole, lambda x, k: torch.cat([x[:k], x[k:]]), x, 3, **sizes) is Verdict.PROVED
    assert _verdict(whole, lambda x, k: torch.cat([x[k:], x[:k]]), x, 3, **sizes) is Verdict.REFUTED
