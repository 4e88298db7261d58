"""The model, piece by piece, for one device or for one rank of a mesh.

Tensor parallelism is Megatron's: linear layers are cut by columns, then by rows; what enters the first is copied (its
gradients are added up), what leaves the second is added up; with sequence parallelism it is gathered, and scattered.
Embedding and head are cut along the vocabulary. With context parallelism a rank has a part of the sequence, or two.
"""

# pyright: basic
from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F

from tantamount.capture.torch.llama.context import attention
from tantamount.capture.torch.llama.ranks import (
    Ranks,
    added,
    entered,
    left,
    total,
)

__all__ = ["Shape", "embedded", "layer", "loss", "normed", "rotary", "rotated"]

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


def normed(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """``x`` over its root mean square along the last dimension, times a weight."""
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + EPSILON) * weight


def rotary(
    seq: int, size: int, theta: float, device: Any, firsts: Sequence[int] = (0,)
) -> tuple[torch.Tensor, torch.Tensor]:
    """Cosines and sines of ``seq`` positions, in equal chunks that begin at ``firsts``."""
    chunk = seq // len(firsts)
    chunks = [torch.arange(first, first + chunk, dtype=torch.float32, device=device) for first in firsts]
    at = chunks[0] if len(chunks) == 1 else torch.cat(chunks)
    turns = theta ** (-torch.arange(size // 2, dtype=torch.float32, device=device) * 2 / size)
    angle = at[:, None] * turns[None, :]
    angle = torch.cat((angle, angle), -1)
    return angle.cos(), angle.sin()


def rotated(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """Pairs of channels turned by the angle of their position."""
    a, b = x.chunk(2, -1)
    return x * cos + torch.cat((-b, a), -1) * sin


# ---------------------------------------------------------------------------------------------- pieces
def layer(x: torch.Tensor, w: Mapping[str, torch.Tensor], shape: Shape, ranks: Ranks) -> torch.Tensor:
    """One layer: attention with rotary positions and a causal mask, and a gated feed-forward network."""
    size, tp = shape.head, ranks.size("tp")
    y = entered(normed(x, w["norm1"]), ranks)
    batch, seq, _ = y.shape
    cos, sin = rotary(seq, size, shape.theta, x.device, ranks.firsts(seq))
    q = rotated(F.linear(y, w["q"]).view(batch, seq, shape.heads // tp, size).transpose(1, 2), cos, sin)
    k = rotated(F.linear(y, w["k"]).view(batch, seq, shape.kv_heads // tp, size).transpose(1, 2), cos, sin)
    v = F.linear(y, w["v"]).view(batch, seq, shape.kv_heads // tp, size).transpose(1, 2)
    x = x + left(F.linear(attention(q, k, v, ranks), w["o"]), ranks)
    y = entered(normed(x, w["norm2"]), ranks)
    return x + left(F.linear(F.silu(F.linear(y, w["gate"])) * F.linear(y, w["up"]), w["down"]), ranks)


def embedded(tokens: torch.Tensor, table: torch.Tensor, ranks: Ranks) -> torch.Tensor:
    """Rows of the table, of which every rank has those of its part of the vocabulary."""
    if ranks.size("tp") == 1:
        return F.embedding(tokens, table)
    first = ranks.rank("tp") * table.shape[0]
    outside = (tokens < first) | (tokens >= first + table.shape[0])
    rows = F.embedding((tokens - first).masked_fill(outside, 0), table)
    return left(rows.masked_fill(outside[..., None], 0.0), ranks)


def loss(
    x: torch.Tensor, labels: torch.Tensor, w: Mapping[str, torch.Tensor], tokens: int, ranks: Ranks
) -> torch.Tensor:
    """The cross entropy of these rows, divided by the number of tokens of the whole batch; labels of -100 do not
    count."""
    y = entered(normed(x, w["norm"]), ranks)
    logits = F.linear(y, w["output"]).flatten(0, 1)
    labels = labels.flatten()
    group = ranks.group("tp")
    if group is None:
        return F.cross_entropy(logits, labels, reduction="sum") / tokens
    # of what the ranks have of a row: its largest logit, the sum of its exponentials, and the label's logit
    most = total(logits.detach().amax(-1, keepdim=True), group, "max")
    sums = added((logits - most).exp().sum(-1, keepdim=True), group)
    first = ranks.rank("tp") * w["output"].shape[0]
    outside = (labels < first) | (labels >= first + w["output"].shape[0])
    mine = logits.gather(1, (labels - first).masked_fill(outside, 0)[:, None])
    mine = added(mine.masked_fill(outside[:, None], 0.0), group)
    return (sums.log() + most - mine).masked_fill((labels == -100)[:, None], 0.0).sum() / tokens
