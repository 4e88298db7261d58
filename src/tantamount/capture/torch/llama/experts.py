"""Layers with a mixture of experts, and latent attention: DeepSeek-V3's and Qwen3-MoE's, for one device or for one rank
of a group that has a part of the heads and a part of the experts.

Without a ``capacity``, experts are parallel over the same ranks as heads: every rank has all tokens of its rows,
computes its own experts for them, weighted by the router (0 where a token goes elsewhere), and the ranks' results are
added up. With a capacity, tokens are sent to the ranks of their experts (along ep) and come back: of every ``group`` of
tokens an expert has room for so many, in their order, and those that find none are dropped, on one device as well. A
capacity as large as a group drops none.
"""

# pyright: basic
from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
import torch.nn.functional as F

from tantamount.capture.torch.llama.balance import Balance, balanced
from tantamount.capture.torch.llama.context import attention
from tantamount.capture.torch.llama.model import normed, rotary, rotated
from tantamount.capture.torch.llama.ranks import Ranks, copied, entered, exchanged, left
from tantamount.errors import InternalError

__all__ = ["ExpertShape", "expert_layer"]

Weights = Mapping[str, torch.Tensor]


@dataclass(frozen=True)
class ExpertShape:
    """The sizes of a model with experts. ``dense`` layers come first and have a plain network of width ``ffn``; the
    others have ``experts`` of width ``expert_ffn``, ``chosen`` of them for a token, beside ``shared`` ones for all.

    ``latent`` is (queries, keys and values, plain, rotary and value sizes of a head) of latent attention; without it
    there are ``kv_heads`` of size ``head`` with norms of queries and keys. ``groups``: experts are chosen among those
    of the best ``chosen_groups`` groups, by sigmoids with a bias; without groups by a softmax. ``capacity``: for how
    many of ``group`` tokens of a row an expert has room; 0: every expert sees all tokens. ``balance``: the loss that
    every layer with experts adds to the model's."""

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
    capacity: int = 0
    group: int = 0
    balance: Balance | None = None

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


def expert_layer(
    x: torch.Tensor, w: Weights, shape: ExpertShape, ranks: Ranks
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """One layer, with experts if ``w`` has a router; and what this rank's tokens add to the loss, if anything."""
    attend = _grouped if shape.latent is None else _latent
    x = x + left(F.linear(attend(normed(x, w["norm1"]), w, shape, ranks), w["o"]), ranks)
    y = normed(x, w["norm2"])
    if "router" not in w:
        return x + left(_network(entered(y, ranks), w["gate"], w["up"], w["down"]), ranks), None
    scores, weights, picked = _routed(y, w, shape)
    extra = None if shape.balance is None else _balance(scores, shape.balance, shape, ranks)
    if shape.capacity:
        x = x + _dispatched(y, weights, picked, w, shape, ranks)
        return x + left(_shared(entered(y, ranks), w), ranks) if shape.shared else x, extra
    chosen, y = entered(weights, ranks), entered(y, ranks)
    own = shape.experts // ranks.size("tp")
    found = _experts(y, chosen[..., ranks.rank("tp") * own : (ranks.rank("tp") + 1) * own], w)
    return x + left(found + _shared(y, w) if shape.shared else found, ranks), extra


def _shared(y: torch.Tensor, w: Weights) -> torch.Tensor:
    return _network(y, w["sgate"], w["sup"], w["sdown"])


def _network(y: torch.Tensor, gate: torch.Tensor, up: torch.Tensor, down: torch.Tensor) -> torch.Tensor:
    return F.linear(F.silu(F.linear(y, gate)) * F.linear(y, up), down)


def _routed(y: torch.Tensor, w: Weights, shape: ExpertShape) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """The score of every expert for every token; its weight, 0 for those that are not chosen; and 1 for those that
    are."""
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
    return scores, weights / weights.sum(-1, keepdim=True) * shape.scale, picked


def _balance(scores: torch.Tensor, balance: Balance, shape: ExpertShape, ranks: Ranks) -> torch.Tensor:
    """The summand of the loss that this rank's tokens are. Of sigmoids, the greatest are counted, whatever bias and
    groups say, as DeepSeek-V3 has it."""
    chosen = _marked(scores.detach(), shape.chosen)
    if shape.groups:
        scores = scores / scores.sum(-1, keepdim=True)
    return balanced(scores, chosen, shape.chosen, balance, ranks)


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


def _dispatched(
    y: torch.Tensor, weights: torch.Tensor, picked: torch.Tensor, w: Weights, shape: ExpertShape, ranks: Ranks
) -> torch.Tensor:
    """The results of experts for the tokens that are sent to them, by weight. ``y``, ``weights``, ``picked``: of tokens
    that only this rank (or its copies along tp) has."""
    tokens = y.reshape(-1, shape.group, y.shape[-1])
    weights, picked = (t.reshape(-1, shape.group, shape.experts) for t in (weights, picked))
    slot = (picked.cumsum(1) - 1)[..., None] == torch.arange(shape.capacity, device=y.device)
    sent = slot.to(y.dtype) * picked[..., None]  # groups, tokens, experts, slots: 1 where a token is
    arrived = torch.einsum("gtec,gtd->egcd", sent, tokens)
    many, group = ranks.size("ep"), ranks.group("ep")
    experts, groups, slots, hidden = arrived.shape
    own = exchanged(arrived.view(many, experts // many, groups, slots, hidden), group).transpose(0, 1)
    own = own.reshape(experts // many, many * groups * slots, hidden)
    inner = F.silu(own @ w["egate"].transpose(1, 2)) * (own @ w["eup"].transpose(1, 2))
    done = (inner @ w["edown"].transpose(1, 2)).view(experts // many, many, groups, slots, hidden)
    back = exchanged(done.transpose(0, 1), group).reshape(experts, groups, slots, hidden)
    return torch.einsum("gtec,egcd->gtd", sent * weights[..., None], back).view(y.shape)


def _grouped(y: torch.Tensor, w: Weights, shape: ExpertShape, ranks: Ranks) -> torch.Tensor:
    """Grouped-query attention with norms of queries and keys, which every rank has whole."""
    y = entered(y, ranks)
    batch, seq, _ = y.shape
    group, tp = ranks.group("tp"), ranks.size("tp")
    heads, kv_heads, size = shape.heads // tp, shape.kv_heads // tp, shape.head
    cos, sin = rotary(seq, size, shape.theta, y.device, ranks.firsts(seq))
    q = F.linear(y, w["q"]).view(batch, seq, heads, size)
    k = F.linear(y, w["k"]).view(batch, seq, kv_heads, size)
    q = rotated(normed(q, copied(w["qnorm"], group)).transpose(1, 2), cos, sin)
    k = rotated(normed(k, copied(w["knorm"], group)).transpose(1, 2), cos, sin)
    v = F.linear(y, w["v"]).view(batch, seq, kv_heads, size).transpose(1, 2)
    return attention(q, k, v, ranks)


def _latent(y: torch.Tensor, w: Weights, shape: ExpertShape, ranks: Ranks) -> torch.Tensor:
    """Attention whose queries, and keys and values, come from two short vectors, which every rank has whole; of the
    keys a rotary part is shared by all heads."""
    if shape.latent is None:
        raise InternalError("latent attention of a model that has none")
    _, latent, plain, turned, value = shape.latent
    heads = shape.heads // ranks.size("tp")
    q = F.linear(entered(normed(F.linear(y, w["qa"]), w["qanorm"]), ranks), w["qb"])
    batch, seq, _ = q.shape
    cos, sin = rotary(seq, turned, shape.theta, y.device, ranks.firsts(seq))
    q_plain, q_turned = q.view(batch, seq, heads, plain + turned).transpose(1, 2).split((plain, turned), -1)
    compressed, k_turned = F.linear(y, w["kva"]).split((latent, turned), -1)
    kv = F.linear(entered(normed(compressed, w["kvnorm"]), ranks), w["kvb"])
    k_plain, v = kv.view(batch, seq, heads, plain + value).transpose(1, 2).split((plain, value), -1)
    shared = rotated(entered(k_turned, ranks)[:, None], cos, sin).expand(-1, heads, -1, -1)
    q = torch.cat((q_plain, rotated(q_turned, cos, sin)), -1)
    return attention(q, torch.cat((k_plain, shared), -1), v, ranks)
