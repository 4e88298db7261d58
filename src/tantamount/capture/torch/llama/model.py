"""The model, piece by piece, for one device (``group`` is ``None``) or for one rank of a tensor-parallel group.

Tensor parallelism is Megatron's: linear layers are cut by columns, then by rows; what enters the first is copied (its
gradients are added up), what leaves the second is added up. Embedding and head are cut along the vocabulary.
"""

# pyright: basic
from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F

__all__ = ["Shape", "embedded", "layer", "loss"]

EPSILON = 1e-5


@dataclass(frozen=True)
class Shape:
    """The sizes of a Llama: ``heads`` for queries, ``kv_heads`` for keys and values."""

    layers: int
    hidden: int
    heads: int
    kv_heads: int
    ffn: int
    vocab: int
    theta: float = 500000.0

    @property
    def head(self) -> int:
        return self.hidden // self.heads

    def layer(self) -> dict[str, tuple[int, ...]]:
        """The shapes of a layer's parameters."""
        h, kv = self.hidden, self.kv_heads * self.head
        return {
            "norm1": (h,), "q": (h, h), "k": (kv, h), "v": (kv, h), "o": (h, h),
            "norm2": (h,), "gate": (self.ffn, h), "up": (self.ffn, h), "down": (h, self.ffn),
        }  # fmt: skip


class _Copy(torch.autograd.Function):
    """The same on all ranks; what the ranks find as its gradient is added up."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, group: Any) -> torch.Tensor:
        ctx.group = group
        return x

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> Any:
        grad = grad.clone()
        dist.all_reduce(grad, group=ctx.group)
        return grad, None


class _Reduce(torch.autograd.Function):
    """The sum over the ranks, each of which has the whole gradient."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, group: Any) -> torch.Tensor:
        x = x.clone()
        dist.all_reduce(x, group=group)
        return x

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> Any:
        return grad, None


def _copied(x: torch.Tensor, group: Any) -> torch.Tensor:
    return x if group is None else _Copy.apply(x, group)


def _added(x: torch.Tensor, group: Any) -> torch.Tensor:
    return x if group is None else _Reduce.apply(x, group)


def _normed(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + EPSILON) * weight


def _rotary(seq: int, size: int, theta: float, device: Any) -> tuple[torch.Tensor, torch.Tensor]:
    at = torch.arange(seq, dtype=torch.float32, device=device)
    turns = theta ** (-torch.arange(size // 2, dtype=torch.float32, device=device) * 2 / size)
    angle = at[:, None] * turns[None, :]
    angle = torch.cat((angle, angle), -1)
    return angle.cos(), angle.sin()


def _rotated(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    a, b = x.chunk(2, -1)
    return x * cos + torch.cat((-b, a), -1) * sin


def layer(x: torch.Tensor, w: Mapping[str, torch.Tensor], shape: Shape, group: Any = None, tp: int = 1) -> torch.Tensor:
    """One layer: attention with rotary positions and a causal mask, and a gated feed-forward network."""
    batch, seq, _ = x.shape
    size, heads, kv_heads = shape.head, shape.heads // tp, shape.kv_heads // tp
    cos, sin = _rotary(seq, size, shape.theta, x.device)
    at = torch.arange(seq, device=x.device)
    later = at[None, :] > at[:, None]
    y = _copied(_normed(x, w["norm1"]), group)
    q = _rotated(F.linear(y, w["q"]).view(batch, seq, heads, size).transpose(1, 2), cos, sin)
    k = _rotated(F.linear(y, w["k"]).view(batch, seq, kv_heads, size).transpose(1, 2), cos, sin)
    v = F.linear(y, w["v"]).view(batch, seq, kv_heads, size).transpose(1, 2)
    k, v = (t.repeat_interleave(heads // kv_heads, 1) for t in (k, v))
    scores = (q @ k.transpose(2, 3) / math.sqrt(size)).masked_fill(later, float("-inf"))
    mixed = (torch.softmax(scores, -1) @ v).transpose(1, 2).reshape(batch, seq, -1)
    x = x + _added(F.linear(mixed, w["o"]), group)
    y = _copied(_normed(x, w["norm2"]), group)
    return x + _added(F.linear(F.silu(F.linear(y, w["gate"])) * F.linear(y, w["up"]), w["down"]), group)


def embedded(tokens: torch.Tensor, table: torch.Tensor, group: Any = None, rank: int = 0) -> torch.Tensor:
    """Rows of the table, of which every rank has those of its part of the vocabulary."""
    if group is None:
        return F.embedding(tokens, table)
    first = rank * table.shape[0]
    outside = (tokens < first) | (tokens >= first + table.shape[0])
    rows = F.embedding((tokens - first).masked_fill(outside, 0), table)
    return _added(rows.masked_fill(outside[..., None], 0.0), group)


def loss(
    x: torch.Tensor, labels: torch.Tensor, w: Mapping[str, torch.Tensor], tokens: int, group: Any = None, rank: int = 0
) -> torch.Tensor:
    """The cross entropy of these rows, divided by the number of tokens of the whole batch; labels of -100 do not
    count."""
    y = _copied(_normed(x, w["norm"]), group)
    logits = F.linear(y, w["output"]).flatten(0, 1)
    labels = labels.flatten()
    if group is None:
        return F.cross_entropy(logits, labels, reduction="sum") / tokens
    # of what the ranks have of a row: its largest logit, the sum of its exponentials, and the label's logit
    most = logits.detach().amax(-1, keepdim=True)
    dist.all_reduce(most, op=dist.ReduceOp.MAX, group=group)
    total = _added((logits - most).exp().sum(-1, keepdim=True), group)
    first = rank * w["output"].shape[0]
    outside = (labels < first) | (labels >= first + w["output"].shape[0])
    mine = logits.gather(1, (labels - first).masked_fill(outside, 0)[:, None])
    mine = _added(mine.masked_fill(outside[:, None], 0.0), group)
    return (total.log() + most - mine).masked_fill((labels == -100)[:, None], 0.0).sum() / tokens
