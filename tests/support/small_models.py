"""Two independent implementations of one small decoder: fused or separate weights, other names, layouts and kernels."""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from torch import Tensor, nn
from torch.nn import functional as F

WIDTH, HEADS, HIDDEN, VOCABULARY, LENGTH = 16, 2, 24, 12, 5
TOKENS = torch.zeros(1, LENGTH, dtype=torch.long)


class Conv1D(nn.Module):
    """A linear layer whose weight is stored as (in, out)."""

    def __init__(self, inner: int, outer: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(inner, outer))
        self.bias = nn.Parameter(torch.zeros(outer))

    def forward(self, x: Tensor) -> Tensor:
        return torch.addmm(self.bias, x.reshape(-1, x.size(-1)), self.weight).view(*x.shape[:-1], -1)


class Fused(nn.Module):
    """Fused queries, keys and values in a Conv1D, an additive mask of a finite literal, a gate fused with its twin."""

    def __init__(self, mask: float = -1e9) -> None:
        super().__init__()
        self.mask = mask
        self.wte = nn.Embedding(VOCABULARY, WIDTH)
        self.ln = nn.LayerNorm(WIDTH)
        self.c_attn = Conv1D(WIDTH, 3 * WIDTH)
        self.c_proj = Conv1D(WIDTH, WIDTH)
        self.gate_up = nn.Linear(WIDTH, 2 * HIDDEN, bias=False)
        self.down = nn.Linear(HIDDEN, WIDTH, bias=False)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.wte(ids)
        b, s, _ = x.shape
        q, k, v = (t.view(b, s, HEADS, -1).transpose(1, 2) for t in self.c_attn(self.ln(x)).split(WIDTH, dim=2))
        scores = q @ k.transpose(-1, -2) / math.sqrt(WIDTH // HEADS)
        keep = torch.ones(s, s, dtype=torch.bool).tril()
        scores = scores + torch.where(keep, 0.0, self.mask)
        x = x + self.c_proj((scores.softmax(-1) @ v).transpose(1, 2).reshape(b, s, WIDTH))
        gate, up = self.gate_up(x).chunk(2, -1)
        x = x + self.down(F.silu(gate) * up)
        return x @ self.wte.weight.T


class Separate(nn.Module):
    """Linear layers one by one, a kernel for attention, a tied output layer."""

    def __init__(self, eps: float = 1e-5) -> None:
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, WIDTH)
        self.norm = nn.LayerNorm(WIDTH, eps=eps)
        self.q = nn.Linear(WIDTH, WIDTH)
        self.k = nn.Linear(WIDTH, WIDTH)
        self.v = nn.Linear(WIDTH, WIDTH)
        self.o = nn.Linear(WIDTH, WIDTH)
        self.w1 = nn.Linear(WIDTH, HIDDEN, bias=False)
        self.w3 = nn.Linear(WIDTH, HIDDEN, bias=False)
        self.w2 = nn.Linear(HIDDEN, WIDTH, bias=False)
        self.head = nn.Linear(WIDTH, VOCABULARY, bias=False)
        self.head.weight = self.tokens.weight

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.tokens(tokens)
        b, s, _ = x.shape
        h = self.norm(x)
        q, k, v = (f(h).view(b, s, HEADS, -1).transpose(1, 2) for f in (self.q, self.k, self.v))
        a = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.o(a.transpose(1, 2).reshape(b, s, WIDTH))
        x = x + self.w2(F.silu(self.w1(x)) * self.w3(x))
        return self.head(x)


def load(model: Separate, checkpoint: Mapping[str, Tensor], order: str = "qkv") -> None:
    """Fill the second model from a checkpoint in the first one's format."""
    parts = dict(zip(order, checkpoint["c_attn.weight"].split(WIDTH, dim=1), strict=True))
    biases = dict(zip(order, checkpoint["c_attn.bias"].split(WIDTH), strict=True))
    for name in "qkv":
        layer = getattr(model, name)
        layer.weight.copy_(parts[name].T)
        layer.bias.copy_(biases[name])
    model.o.weight.copy_(checkpoint["c_proj.weight"].T)
    model.o.bias.copy_(checkpoint["c_proj.bias"])
    gate, up = checkpoint["gate_up.weight"].chunk(2)
    model.w1.weight.copy_(gate)
    model.w3.weight.copy_(up)
    model.w2.weight.copy_(checkpoint["down.weight"])
    model.tokens.weight.copy_(checkpoint["wte.weight"])
    model.norm.weight.copy_(checkpoint["ln.weight"])
    model.norm.bias.copy_(checkpoint["ln.bias"])
