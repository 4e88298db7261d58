"""Causal attention of ranks that have parts of the sequence each: with the keys of all, with heads in exchange for
positions, or with keys and values that go round from rank to rank.

In a ring a rank begins with its own keys and values, hands them on to the next rank, and goes on with those of the rank
before it; blocks of which its queries see nothing are skipped. Results of blocks are put together with the largest
score so far and the sum of exponentials so far. The backward pass goes round as well, and the gradients of keys and
values with them, until they are home.
"""

# pyright: basic
from __future__ import annotations

import math
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
        q, k, v = (_to_heads(x, many, group) for x in (q, k, v))
        found = _to_positions(_mixed(q, k, v, 0), many, group)
    elif many > 1 and ranks.context == "ring":
        found = _Ring.apply(q, k, v, ranks)
    elif many > 1:
        found = _mixed(q, gathered(k, 2, group), gathered(v, 2, group), ranks.rank("cp") * q.shape[2])
    else:
        found = _mixed(q, k, v, 0)
    found = found.transpose(1, 2)
    return found.reshape(found.shape[0], found.shape[1], -1)


def _mixed(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, first: int) -> torch.Tensor:
    """Attention of queries at the positions from ``first`` on to keys at those from 0 on."""
    k, v = (t.repeat_interleave(q.shape[1] // k.shape[1], 1) for t in (k, v))
    at = torch.arange(k.shape[2], device=q.device)
    later = at[None, :] > (at if q.shape[2] == k.shape[2] else at[first : first + q.shape[2]])[:, None]
    scores = (q @ k.transpose(2, 3) / math.sqrt(q.shape[-1])).masked_fill(later, float("-inf"))
    return torch.softmax(scores, -1) @ v


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
def _seen(rank: int, source: int) -> bool:
    """True if queries of a rank look at keys of another one: at those of the ranks before it, and at its own."""
    return source <= rank


def _scores(q: torch.Tensor, k: torch.Tensor, own: bool) -> torch.Tensor:
    """Scores of queries for keys; of the ``own`` keys of a rank only those that are not behind."""
    scores = q @ k.transpose(2, 3) / math.sqrt(q.shape[-1])
    if not own:
        return scores
    at = torch.arange(q.shape[2], device=q.device)
    return scores.masked_fill(at[None, :] > at[:, None], float("-inf"))


class _Ring(torch.autograd.Function):
    """Attention with keys and values that go round, forward and backward."""

    @staticmethod
    def forward(ctx: Any, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, ranks: Ranks) -> torch.Tensor:
        rank, many, times = ranks.rank("cp"), ranks.size("cp"), q.shape[1] // k.shape[1]
        most, total, found = None, None, None
        keys, values = k, v
        for step in range(many):
            if _seen(rank, (rank - step) % many):
                scores = _scores(q, keys.repeat_interleave(times, 1), step == 0)
                new = scores.amax(-1, keepdim=True)
                if most is not None:
                    new = torch.maximum(most, new)
                weights = (scores - new).exp()
                sums = weights.sum(-1, keepdim=True)
                mixed = weights @ values.repeat_interleave(times, 1)
                if most is not None and total is not None and found is not None:
                    less = (most - new).exp()
                    sums, mixed = total * less + sums, found * less + mixed
                most, total, found = new, sums, mixed
            if step + 1 < many:
                keys, values = passed_on(keys, ranks, "cp"), passed_on(values, ranks, "cp")
        if most is None or total is None or found is None:
            raise InternalError("a rank that sees not even its own keys")
        found = found / total
        ctx.save_for_backward(q, k, v, found, most + total.log())
        ctx.ranks = ranks
        return found

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> Any:
        ranks: Ranks = ctx.ranks
        q, k, v, found, level = ctx.saved_tensors
        rank, many, times = ranks.rank("cp"), ranks.size("cp"), q.shape[1] // k.shape[1]
        scale = 1 / math.sqrt(q.shape[-1])
        inner = (grad * found).sum(-1, keepdim=True)
        of_q, of_k, of_v = torch.zeros_like(q), torch.zeros_like(k), torch.zeros_like(v)
        keys, values = k, v
        for step in range(many):
            if _seen(rank, (rank - step) % many):
                own_keys, own_values = (t.repeat_interleave(times, 1) for t in (keys, values))
                weights = (_scores(q, own_keys, step == 0) - level).exp()
                back = weights * (grad @ own_values.transpose(2, 3) - inner) * scale
                of_q = of_q + back @ own_keys
                of_k = of_k + _by_group(back.mT @ q, times)
                of_v = of_v + _by_group(weights.mT @ grad, times)
            if step + 1 < many:
                keys, values = passed_on(keys, ranks, "cp"), passed_on(values, ranks, "cp")
            of_k, of_v = _handed(of_k, ranks), _handed(of_v, ranks)
        return of_q, of_k, of_v, None


def _handed(grad: torch.Tensor, ranks: Ranks) -> torch.Tensor:
    """A gradient of keys or values where they are next: of its own ones a rank has it after the last step."""
    return passed_on(grad, ranks, "cp")


def _by_group(x: torch.Tensor, times: int) -> torch.Tensor:
    """The sum over the heads of queries that share one head of keys."""
    return x if times == 1 else x.unflatten(1, (-1, times)).sum(2)
