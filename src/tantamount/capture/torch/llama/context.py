"""Causal attention of ranks that have parts of the sequence each: with the keys of all, with heads in exchange for
positions, or with keys and values that go round from rank to rank.

In a ring a rank begins with its own keys and values, hands them on to the next rank, and goes on with those of the rank
before it; blocks of which its queries see nothing are skipped. Results of blocks are put together with the largest
score so far and the sum of exponentials so far. The backward pass goes round as well, and the gradients of keys and
values with them, until they are home.

Of contiguous parts the last rank has the most to do. In a zigzag rank r of n has the chunks r and 2 n - 1 - r of 2 n,
so that all see as many blocks.
"""

# pyright: basic
from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import torch

from tantamount.capture.torch.llama.ranks import Ranks, exchanged, gathered, passed_on
from tantamount.errors import InternalError

__all__ = ["attention"]


def attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, ranks: Ranks) -> torch.Tensor:
    """Causal attention; all of (batch, heads, positions of this rank, size), the result with heads side by side.
    Queries come in equal groups, one for every head of keys."""
    group, many = ranks.group("cp"), ranks.size("cp")
    if many > 1 and ranks.context == "ulysses":
        q, k, v = (_in_order(_to_heads(x, many, group), ranks) for x in (q, k, v))
        found = _to_positions(_by_rank(_mixed(q, k, v, (0,)), ranks), many, group)
    elif many > 1 and ranks.context == "ring":
        found = _Ring.apply(q, k, v, ranks)
    elif many > 1:
        k, v = (_in_order(gathered(x, 2, group), ranks) for x in (k, v))
        found = _mixed(q, k, v, ranks.firsts(q.shape[2]))
    else:
        found = _mixed(q, k, v, (0,))
    found = found.transpose(1, 2)
    return found.reshape(found.shape[0], found.shape[1], -1)


def _mixed(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, firsts: Sequence[int]) -> torch.Tensor:
    """Attention of queries, in equal chunks at the positions from ``firsts`` on, to keys at those from 0 on."""
    k, v = (t.repeat_interleave(q.shape[1] // k.shape[1], 1) for t in (k, v))
    at, chunk = torch.arange(k.shape[2], device=q.device), q.shape[2] // len(firsts)
    own = at if q.shape[2] == k.shape[2] else _joined([at[first : first + chunk] for first in firsts], 0)
    later = at[None, :] > own[:, None]
    scores = (q @ k.transpose(2, 3) / math.sqrt(q.shape[-1])).masked_fill(later, float("-inf"))
    return torch.softmax(scores, -1) @ v


def _joined(parts: Sequence[torch.Tensor], dim: int) -> torch.Tensor:
    return parts[0] if len(parts) == 1 else torch.cat(tuple(parts), dim)


def _in_order(x: torch.Tensor, ranks: Ranks) -> torch.Tensor:
    """The chunks of all ranks along dimension 2, one rank after the other, as they follow each other in the
    sequence."""
    if not ranks.zigzag:
        return x
    chunks = x.chunk(len(ranks.order), 2)
    return torch.cat([chunks[ranks.order.index(k)] for k in range(len(chunks))], 2)


def _by_rank(x: torch.Tensor, ranks: Ranks) -> torch.Tensor:
    """The inverse of :func:`_in_order`."""
    if not ranks.zigzag:
        return x
    chunks = x.chunk(len(ranks.order), 2)
    return torch.cat([chunks[k] for k in ranks.order], 2)


def _to_heads(x: torch.Tensor, many: int, group: Any) -> torch.Tensor:
    """(batch, heads, positions of this rank, size) as (batch, heads of this rank, positions, size)."""
    b, h, n, d = x.shape
    sent = x.view(b, many, h // many, n, d).permute(1, 0, 2, 3, 4)
    return exchanged(sent, group).permute(1, 2, 0, 3, 4).reshape(b, h // many, many * n, d)


def _to_positions(x: torch.Tensor, many: int, group: Any) -> torch.Tensor:
    """The inverse of :func:`_to_heads`."""
    b, h, n, d = x.shape
    sent = x.view(b, h, many, n // many, d).permute(2, 0, 1, 3, 4)
    return exchanged(sent, group).permute(1, 0, 2, 3, 4).reshape(b, many * h, n // many, d)


# ---------------------------------------------------------------------------------------------- ring
def _seen(mine: int, other: int) -> bool:
    """True if queries of a chunk of the sequence look at keys of another one: at those of the chunks before it, and at
    its own."""
    return other <= mine


def _scores(q: torch.Tensor, k: torch.Tensor, own: bool) -> torch.Tensor:
    """Scores of queries for keys; of the ``own`` keys of a chunk only those that are not behind."""
    scores = q @ k.transpose(2, 3) / math.sqrt(q.shape[-1])
    if not own:
        return scores
    at = torch.arange(q.shape[2], device=q.device)
    return scores.masked_fill(at[None, :] > at[:, None], float("-inf"))


_Mixed = tuple[torch.Tensor, torch.Tensor, torch.Tensor]  # the largest score, the sum of exponentials, values by weight


def _more(before: _Mixed | None, scores: torch.Tensor, values: torch.Tensor) -> _Mixed:
    """The largest score, the sum and the values of some queries after one more block of keys."""
    most = scores.amax(-1, keepdim=True)
    if before is not None:
        most = torch.maximum(before[0], most)
    weights = (scores - most).exp()
    total, found = weights.sum(-1, keepdim=True), weights @ values
    if before is not None:
        less = (before[0] - most).exp()
        total, found = before[1] * less + total, before[2] * less + found
    return most, total, found


def _chunks(x: torch.Tensor, ranks: Ranks) -> list[torch.Tensor]:
    """The chunks of the sequence that a rank has, along dimension 2."""
    return list(x.chunk(2, 2)) if ranks.zigzag else [x]


class _Ring(torch.autograd.Function):
    """Attention with keys and values that go round, forward and backward."""

    @staticmethod
    def forward(ctx: Any, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, ranks: Ranks) -> torch.Tensor:
        rank, many, times = ranks.rank("cp"), ranks.size("cp"), q.shape[1] // k.shape[1]
        queries = _chunks(q, ranks)
        known: list[_Mixed | None] = [None] * len(queries)
        keys, values = k, v
        for step in range(many):
            for i, j, own in _blocks(ranks, (rank - step) % many):
                wide = _chunks(keys.repeat_interleave(times, 1), ranks)[j]
                scores = _scores(queries[i], wide, own)
                known[i] = _more(known[i], scores, _chunks(values.repeat_interleave(times, 1), ranks)[j])
            if step + 1 < many:
                keys, values = passed_on(keys, ranks, "cp"), passed_on(values, ranks, "cp")
        done = [mixed for mixed in known if mixed is not None]
        if len(done) < len(known):
            raise InternalError("a rank that sees not even its own keys")
        found = _joined([found / total for _, total, found in done], 2)
        ctx.save_for_backward(q, k, v, found, *(most + total.log() for most, total, _ in done))
        ctx.ranks = ranks
        return found

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> Any:
        ranks: Ranks = ctx.ranks
        q, k, v, found, *levels = ctx.saved_tensors
        rank, many, times = ranks.rank("cp"), ranks.size("cp"), q.shape[1] // k.shape[1]
        scale = 1 / math.sqrt(q.shape[-1])
        queries, grads = _chunks(q, ranks), _chunks(grad, ranks)
        inner = _chunks((grad * found).sum(-1, keepdim=True), ranks)
        of_q = _chunks(torch.zeros_like(q), ranks)
        of_k, of_v = torch.zeros_like(k), torch.zeros_like(v)
        keys, values = k, v
        for step in range(many):
            for_k, for_v = _chunks(of_k, ranks), _chunks(of_v, ranks)
            for i, j, own in _blocks(ranks, (rank - step) % many):
                own_keys, own_values = (_chunks(t.repeat_interleave(times, 1), ranks)[j] for t in (keys, values))
                weights = (_scores(queries[i], own_keys, own) - levels[i]).exp()
                back = weights * (grads[i] @ own_values.transpose(2, 3) - inner[i]) * scale
                of_q[i] = of_q[i] + back @ own_keys
                for_k[j] = for_k[j] + _by_group(back.mT @ queries[i], times)
                for_v[j] = for_v[j] + _by_group(weights.mT @ grads[i], times)
            of_k, of_v = _joined(for_k, 2), _joined(for_v, 2)
            if step + 1 < many:
                keys, values = passed_on(keys, ranks, "cp"), passed_on(values, ranks, "cp")
            of_k, of_v = _handed(of_k, ranks), _handed(of_v, ranks)
        return _joined(of_q, 2), of_k, of_v, None


def _blocks(ranks: Ranks, source: int) -> Iterator[tuple[int, int, bool]]:
    """The blocks of scores of this rank for the keys of another one that are not skipped: which of its chunks, which of
    the other's, and whether that is the same chunk of the sequence."""
    for i, mine in enumerate(ranks.chunks()):
        for j, other in enumerate(ranks.chunks(source)):
            if _seen(mine, other):
                yield i, j, mine == other


def _handed(grad: torch.Tensor, ranks: Ranks) -> torch.Tensor:
    """A gradient of keys or values where they are next: of its own ones a rank has it after the last step."""
    return passed_on(grad, ranks, "cp")


def _by_group(x: torch.Tensor, times: int) -> torch.Tensor:
    """The sum over the heads of queries that share one head of keys."""
    return x if times == 1 else x.unflatten(1, (-1, times)).sum(2)
