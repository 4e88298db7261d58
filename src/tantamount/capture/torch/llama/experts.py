"""Layers with a mixture of experts, and latent attention: DeepSeek-V3's and Qwen3-MoE's, for one device or for one rank
of a group that has a part of the heads and a part of the experts.

Experts are parallel over the same ranks as heads: every rank has all tokens of its rows, computes its own experts for
them, weighted by the router (0 where a token goes elsewhere), and the ranks' results are added up. Moving tokens to
experts instead computes the same as long as none is dropped.
"""

# pyright: basic
from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F

from tantamount.capture.torch.llama.model import _added, _copied, _normed, _rotary, _rotated
from tantamount.errors import InternalError

__all__ = ["ExpertShape", "expert_layer"]

Weights = Mapping[str, torch.Tensor]


@dataclass(frozen=True)
class ExpertShape:
    """The sizes of a model with experts. ``dense`` layers come first and have a plain network of width ``ffn``; the
    others have ``experts`` of width ``expert_ffn``, ``chosen`` of them for a token, beside ``shared`` ones for all.

    ``latent`` is (queries, keys and values, plain, rotary and value sizes of a head) of latent attention; without it
    there are ``kv_heads`` of size ``head`` with norms of queries and keys. ``groups``: experts are chosen among those
    of the best ``chosen_groups`` groups, by sigmoids with a bias; without groups by a softmax."""

    layers: int
    hidden: int
    heads: int
    vocab: int
    experts: int
    chosen: int
    expert_ffn: int
    kv_heads: int = 0
    head: int = 0
    latent: tuple[int, int, int, int, int] | None = None
    dense: int = 0
    ffn: int = 0
    shared: int = 0
    groups: int = 0
    chosen_groups: int = 0
    scale: float = 1.0
    theta: float = 10000.0

    def attention(self) -> dict[str, tuple[int, ...]]:
        """The shapes of the parameters of attention and of both norms of a layer."""
        h = self.hidden
        if self.latent is None:
            size, q, kv = self.head, self.heads * self.head, self.kv_heads * self.head
            own = {"q": (q, h), "k": (kv, h), "v": (kv, h), "o": (h, q), "qnorm": (size,), "knorm": (size,)}
        else:
            low, latent, plain, turned, value = self.latent
            own = {
                "qa": (low, h), "qanorm": (low,), "qb": (self.heads * (plain + turned), low),
                "kva": (latent + turned, h), "kvnorm": (latent,), "kvb": (self.heads * (plain + value), latent),
                "o": (h, self.heads * value),
            }  # fmt: skip
        return {"norm1": (h,), **own, "norm2": (h,)}

    def dense_layer(self) -> dict[str, tuple[int, ...]]:
        """The shapes of the parameters of a layer without experts."""
        h, f = self.hidden, self.ffn
        return {**self.attention(), "gate": (f, h), "up": (f, h), "down": (h, f)}

    def expert_layer(self) -> dict[str, tuple[int, ...]]:
        """The shapes of the parameters of a layer with experts."""
        h, f, e = self.hidden, self.expert_ffn, self.experts
        found = {**self.attention(), "router": (e, h), "egate": (e, f, h), "eup": (e, f, h), "edown": (e, h, f)}
        if self.groups:
            found["bias"] = (e,)
        if self.shared:
            wide = f * self.shared
            found |= {"sgate": (wide, h), "sup": (wide, h), "sdown": (h, wide)}
        return found


def expert_layer(x: torch.Tensor, w: Weights, shape: ExpertShape, group: Any, tp: int, rank: int) -> torch.Tensor:
    """One layer, with experts if ``w`` has a router; ``rank`` is that within the ``group`` of ``tp`` ranks."""
    attend = _grouped if shape.latent is None else _latent
    x = x + _added(F.linear(attend(_normed(x, w["norm1"]), w, shape, group, tp), w["o"]), group)
    y = _normed(x, w["norm2"])
    if "router" not in w:
        y = _copied(y, group)
        return x + _added(_network(y, w["gate"], w["up"], w["down"]), group)
    chosen = _copied(_routed(y, w, shape), group)
    y = _copied(y, group)
    own = shape.experts // tp
    found = _experts(y, chosen[..., rank * own : (rank + 1) * own], w)
    if shape.shared:
        found = found + _network(y, w["sgate"], w["sup"], w["sdown"])
    return x + _added(found, group)


def _network(y: torch.Tensor, gate: torch.Tensor, up: torch.Tensor, down: torch.Tensor) -> torch.Tensor:
    return F.linear(F.silu(F.linear(y, gate)) * F.linear(y, up), down)


def _routed(y: torch.Tensor, w: Weights, shape: ExpertShape) -> torch.Tensor:
    """The weight of every expert for every token; 0 for those that are not chosen."""
    logits = F.linear(y, w["router"])
    if not shape.groups:
        scores = torch.softmax(logits, -1)
        picked = _marked(scores.detach(), shape.chosen)
    else:
        scores = torch.sigmoid(logits)
        choice = (scores + w["bias"]).detach().unflatten(-1, (shape.groups, -1))
        best = _marked(choice.topk(2, -1).values.sum(-1), shape.chosen_groups)
        picked = _marked((choice * best[..., None]).flatten(-2), shape.chosen)
    weights = scores * picked
    return weights / weights.sum(-1, keepdim=True) * shape.scale


def _marked(scores: torch.Tensor, count: int) -> torch.Tensor:
    """1 for the largest of a row, 0 for others."""
    chosen = scores.topk(count, -1).indices
    places = torch.arange(scores.shape[-1], device=scores.device)
    return (chosen[..., None] == places).to(scores.dtype).sum(-2)


def _experts(y: torch.Tensor, weights: torch.Tensor, w: Weights) -> torch.Tensor:
    """The sum over the experts of a rank of their outputs for all tokens, each times its weight."""
    batch, seq, hidden = y.shape
    tokens = y.reshape(1, batch * seq, hidden).expand(w["egate"].shape[0], -1, -1)
    inner = F.silu(tokens @ w["egate"].transpose(1, 2)) * (tokens @ w["eup"].transpose(1, 2))
    inner = inner * weights.reshape(batch * seq, -1).t()[..., None]
    return (inner @ w["edown"].transpose(1, 2)).sum(0).view(batch, seq, hidden)


def _mixed(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """Attention under a causal mask; the heads of a token side by side."""
    at = torch.arange(q.shape[2], device=q.device)
    scores = q @ k.transpose(2, 3) / math.sqrt(q.shape[-1])
    scores = scores.masked_fill(at[None, :] > at[:, None], float("-inf"))
    mixed = (torch.softmax(scores, -1) @ v).transpose(1, 2)
    return mixed.reshape(mixed.shape[0], mixed.shape[1], -1)


def _grouped(y: torch.Tensor, w: Weights, shape: ExpertShape, group: Any, tp: int) -> torch.Tensor:
    """Grouped-query attention with norms of queries and keys, which every rank has whole."""
    batch, seq, _ = y.shape
    heads, kv_heads, size = shape.heads // tp, shape.kv_heads // tp, shape.head
    cos, sin = _rotary(seq, size, shape.theta, y.device)
    y = _copied(y, group)
    q = F.linear(y, w["q"]).view(batch, seq, heads, size)
    k = F.linear(y, w["k"]).view(batch, seq, kv_heads, size)
    q = _rotated(_normed(q, _copied(w["qnorm"], group)).transpose(1, 2), cos, sin)
    k = _rotated(_normed(k, _copied(w["knorm"], group)).transpose(1, 2), cos, sin)
    v = F.linear(y, w["v"]).view(batch, seq, kv_heads, size).transpose(1, 2)
    return _mixed(q, *(t.repeat_interleave(heads // kv_heads, 1) for t in (k, v)))


def _latent(y: torch.Tensor, w: Weights, shape: ExpertShape, group: Any, tp: int) -> torch.Tensor:
    """Attention whose queries, and keys and values, come from two short vectors, which every rank has whole; of the
    keys a rotary part is shared by all heads."""
    if shape.latent is None:
        raise InternalError("latent attention of a model that has none")
    batch, seq, _ = y.shape
    _, latent, plain, turned, value = shape.latent
    heads = shape.heads // tp
    cos, sin = _rotary(seq, turned, shape.theta, y.device)
    q = F.linear(_copied(_normed(F.linear(y, w["qa"]), w["qanorm"]), group), w["qb"])
    q_plain, q_turned = q.view(batch, seq, heads, plain + turned).transpose(1, 2).split((plain, turned), -1)
    compressed, k_turned = F.linear(y, w["kva"]).split((latent, turned), -1)
    kv = F.linear(_copied(_normed(compressed, w["kvnorm"]), group), w["kvb"])
    k_plain, v = kv.view(batch, seq, heads, plain + value).transpose(1, 2).split((plain, value), -1)
    shared = _rotated(_copied(k_turned, group)[:, None], cos, sin).expand(-1, heads, -1, -1)
    q = torch.cat((q_plain, _rotated(q_turned, cos, sin)), -1)
    return _mixed(q, torch.cat((k_plain, shared), -1), v)
