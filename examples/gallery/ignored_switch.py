"""A rewrite that ignores a switch of the configuration.

GPT-2 has a switch that leaves scores as they are instead of dividing them by the root of the head size. A rewrite for
serving calls a fused kernel, which divides by itself, whatever the switch says. With the default configuration both are
equal, and so are all tests. Nobody says here which weight is which: both loaders are run on numbered checkpoints. The
reference masks with a large negative number, the kernel with none.

Seen in vLLM and in transformers, for GPT-2 and its relatives.

    python examples/gallery/ignored_switch.py
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention

import tantamount as tt

WIDTH, HEADS, LENGTH = 16, 2, 5
X = torch.zeros(1, LENGTH, WIDTH)


class Reference(nn.Module):
    """One matrix for queries, keys and values, stored as (in, out); scores and a mask, step by step."""

    def __init__(self, scale_scores: bool) -> None:
        super().__init__()
        self.scale_scores = scale_scores
        self.c_attn = nn.Parameter(torch.randn(WIDTH, 3 * WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (t.view(1, LENGTH, HEADS, -1).transpose(1, 2) for t in (x @ self.c_attn).split(WIDTH, dim=-1))
        scores = q @ k.transpose(-1, -2)
        if self.scale_scores:
            scores = scores / (WIDTH // HEADS) ** 0.5
        keep = torch.ones(LENGTH, LENGTH, dtype=torch.bool).tril()
        scores = scores.masked_fill(~keep, torch.finfo(scores.dtype).min)
        return (scores.softmax(-1) @ v).transpose(1, 2).reshape(1, LENGTH, WIDTH)


class Serving(nn.Module):
    """Three linear layers, and a kernel for the rest."""

    def __init__(self, scale: float | None) -> None:
        super().__init__()
        self.scale = scale
        self.q, self.k, self.v = (nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(3))

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (f(x).view(1, LENGTH, HEADS, -1).transpose(1, 2) for f in (self.q, self.k, self.v))
        attended = scaled_dot_product_attention(q, k, v, is_causal=True, scale=self.scale)
        return attended.transpose(1, 2).reshape(1, LENGTH, WIDTH)


def load(model: Serving, checkpoint: dict[str, Tensor]) -> None:
    parts = checkpoint["c_attn"].split(WIDTH, dim=1)
    for layer, part in zip((model.q, model.k, model.v), parts, strict=True):
        layer.weight.copy_(part.T)


def check(*, broken: bool = False) -> tt.Report:
    serving = Serving(scale=None if broken else 1.0)
    return tt.compare(Reference(scale_scores=False), serving, inputs=(X,), loaders=(None, load))


if __name__ == "__main__":
    print(check().verdict.value, "as it should be\n")
    print(check(broken=True))
