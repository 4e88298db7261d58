"""Programs in which everything may be masked, counted as nothing, or constant."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from support.attacks.judge import Family, family
from support.attacks.ties import gradient, leaf

__all__ = ["FAMILIES"]

INF = float("inf")
LEAST = torch.finfo(torch.float64).min
QKV = {
    "q": (torch.float64, (2, 3, 2)), "k": (torch.float64, (2, 4, 2)), "v": (torch.float64, (2, 4, 2)),
    "m": (torch.bool, (3, 4)),
}  # fmt: skip
XM = {"x": (torch.float64, (3, 4)), "m": (torch.bool, (3, 4))}
G = "masked rows"


def sdpa(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, **more: object) -> Tensor:
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, scale=1.0, **more)


def additive(m: Tensor, low: float = -INF) -> Tensor:
    return torch.zeros(m.shape, dtype=torch.float64).masked_fill(~m, low)


def scores(q: Tensor, k: Tensor) -> Tensor:
    return q @ k.transpose(1, 2)


def exps(s: Tensor, m: Tensor) -> Tensor:
    return s.exp() * m


def online(q: Tensor, k: Tensor, v: Tensor, m: Tensor, low: float) -> Tensor:
    """Attention in two blocks of keys, with running maxima."""
    top = torch.full((2, 3, 1), low, dtype=torch.float64)
    total, out = torch.zeros(2, 3, 1, dtype=torch.float64), torch.zeros(2, 3, 2, dtype=torch.float64)
    for part in (slice(0, 2), slice(2, 4)):
        s = scores(q, k[:, part]).masked_fill(~m[:, part], low)
        new = torch.maximum(top, s.amax(-1, True))
        p, old = (s - new).exp(), (top - new).exp()
        total, out, top = total * old + p.sum(-1, True), out * old + p @ v[:, part], new
    return out / total


ATTENTION = family(
    G, "attention, another mask", QKV,
    lambda q, k, v, m: sdpa(q, k, v, m),
    lambda q, k, v, m: sdpa(q, k, v, additive(m)),
    lambda q, k, v, m: sdpa(q, k, v, additive(m, LEAST)),
    lambda q, k, v, m: sdpa(q, k, v, additive(m, -1e4)),
    lambda q, k, v, m: sdpa(q[:, None], k[:, None], v[:, None], m)[:, 0],
    lambda q, k, v, m: sdpa(q, k, v, m.expand(2, 3, 4)),
    lambda q, k, v, m: sdpa(torch.cat([q, q], 1), k, v, torch.cat([m, m]))[:, :3],
    lambda q, k, v, m: (scores(q, k).masked_fill(~m, -INF)).softmax(-1) @ v,
    lambda q, k, v, m: (scores(q, k).masked_fill(~m, LEAST)).softmax(-1) @ v,
    lambda q, k, v, m: (scores(q, k) + additive(m)).softmax(-1) @ v,
    lambda q, k, v, m: (scores(q, k).masked_fill(~m, -INF)).softmax(-1).nan_to_num() @ v,
    lambda q, k, v, m: (scores(q, k).masked_fill(~m, -INF)).softmax(-1).masked_fill(~m, 0) @ v,
    lambda q, k, v, m: (scores(q, k).masked_fill(~m, LEAST)).softmax(-1).masked_fill(~m, 0) @ v,
    lambda q, k, v, m: ((scores(q, k).masked_fill(~m, -INF)).softmax(-1) @ v).masked_fill(~m.any(1, True), 0),
    lambda q, k, v, m: exps(scores(q, k), m) @ v / exps(scores(q, k), m).sum(-1, True),
    lambda q, k, v, m: exps(scores(q, k), m) @ v / (exps(scores(q, k), m).sum(-1, True) + ~m.any(1, True)),
    lambda q, k, v, m: exps(scores(q, k), m) @ v / exps(scores(q, k), m).sum(-1, True).clamp(min=1e-30),
    lambda q, k, v, m: torch.where(m.any(1, True), sdpa(q, k, v, m), v.mean(1, True)),
    lambda q, k, v, m: torch.where(m.any(1, True), sdpa(q, k, v, m), 0.0),
    lambda q, k, v, m: sdpa(q, k, v, m | ~m.any(1, True)),
    lambda q, k, v, m: online(q, k, v, m, -INF),
    lambda q, k, v, m: online(q, k, v, m, LEAST),
    lambda q, k, v, m: online(q, k, v, m, -1e30).masked_fill(~m.any(1, True), 0),
)  # fmt: skip
CAUSAL = family(
    G, "causal, more queries than keys",
    {"q": (torch.float64, (2, 4, 2)), "k": (torch.float64, (2, 3, 2)), "v": (torch.float64, (2, 3, 2))},
    lambda q, k, v: sdpa(q, k, v, None, is_causal=True),
    lambda q, k, v: sdpa(q, k, v, torch.ones(4, 3, dtype=torch.bool).tril()),
    lambda q, k, v: sdpa(q, k, v, torch.ones(4, 3, dtype=torch.bool).tril(-1)),
    lambda q, k, v: sdpa(q, k, v, additive(torch.ones(4, 3, dtype=torch.bool).tril(-1))),
    lambda q, k, v: (scores(q, k) + additive(torch.ones(4, 3, dtype=torch.bool).tril(-1))).softmax(-1) @ v,
    lambda q, k, v: (scores(q, k) + additive(torch.ones(4, 3, dtype=torch.bool).tril(-1), -1e9)).softmax(-1) @ v,
    lambda q, k, v: (scores(q, k) + additive(torch.ones(4, 3, dtype=torch.bool).tril())).softmax(-1) @ v,
    lambda q, k, v: torch.cat([v[:, :1] * 0, sdpa(q[:, 1:], k, v, None, is_causal=True)], 1),
    lambda q, k, v: torch.cat([v.mean(1, True), sdpa(q[:, 1:], k, v, None, is_causal=True)], 1),
    lambda q, k, v: sdpa(q.flip(1), k, v, torch.ones(4, 3, dtype=torch.bool).tril(-1).flip(0)).flip(1),
    lambda q, k, v: sdpa(q, k.flip(1), v.flip(1), torch.ones(4, 3, dtype=torch.bool).tril(-1).flip(1)),
    lambda q, k, v: sdpa(q, k.flip(1), v.flip(1), None, is_causal=True),
    lambda q, k, v: sdpa(q, torch.cat([k, k], 1), torch.cat([v, v], 1), torch.ones(4, 6, dtype=torch.bool).tril(2)),
)  # fmt: skip
ROWS = family(
    G, "rows and what is left of them", XM,
    lambda x, m: x.masked_fill(~m, -INF).softmax(1),
    lambda x, m: x.masked_fill(~m, -INF).softmax(1).nan_to_num(0.0),
    lambda x, m: torch.ops.aten._safe_softmax(x.masked_fill(~m, -INF), 1),
    lambda x, m: F.softmin((-x).masked_fill(~m, INF), 1),
    lambda x, m: x.masked_fill(~m, -INF).log_softmax(1).exp(),
    lambda x, m: F.normalize(exps(x, m), 1.0, 1),
    lambda x, m: F.normalize(exps(x, m), 1.0, 1, eps=0.0),
    lambda x, m: exps(x, m) / exps(x, m).sum(1, True).clamp(min=1e-12),
    lambda x, m: exps(x, m) / (exps(x, m).sum(1, True) + 1e-300),
    lambda x, m: (x.masked_fill(~m, -INF) - x.masked_fill(~m, -INF).logsumexp(1, True)).exp(),
    lambda x, m: (x - x.masked_fill(~m, -INF).logsumexp(1, True)).exp().masked_fill(~m, 0),
    lambda x, m: (x - torch.where(m, x, -INF).logsumexp(1, True).nan_to_num(neginf=0.0)).exp() * m,
    lambda x, m: x.softmax(1) * m / (x.softmax(1) * m).sum(1, True),
    lambda x, m: x.masked_fill(~m, -INF).softmax(1).masked_fill(~m.any(1, True), 0.0),
    lambda x, m: x.masked_fill(~m, -INF).softmax(1).masked_fill(~m.any(1, True), 0.25),
    lambda x, m: x.masked_fill(~m & m.any(1, True), -INF).softmax(1),
    lambda x, m: x.masked_fill(~m & m.any(1, True), -INF).softmax(1) * m.any(1, True),
    lambda x, m: x.masked_fill(~m, -INF).masked_fill(~m.any(1, True), 0.0).softmax(1),
)  # fmt: skip
MEANS = family(
    G, "means of what is kept", XM,
    lambda x, m: (x * m).sum(1) / m.sum(1),
    lambda x, m: (x * m).sum(1) / m.sum(1).clamp(min=1),
    lambda x, m: (x * m).sum(1) / (m.sum(1) + 1e-12),
    lambda x, m: x.masked_fill(~m, float("nan")).nanmean(1),
    lambda x, m: x.masked_fill(~m, float("nan")).nanmean(1).nan_to_num(),
    lambda x, m: x.masked_fill(~m, float("nan")).nansum(1) / m.sum(1),
    lambda x, m: torch.where(m.any(1), (x * m).sum(1) / m.sum(1), 0.0),
    lambda x, m: torch.where(m.any(1), (x * m).sum(1) / m.sum(1).clamp(min=1), x.mean(1)),
    lambda x, m: (x * m / m.sum(1, True)).sum(1),
    lambda x, m: (x * (m / m.sum(1, True)).nan_to_num()).sum(1),
    lambda x, m: (x * F.normalize(m.double(), 1.0, 1)).sum(1),
    lambda x, m: (x * m.double().masked_fill(~m, -INF).softmax(1)).sum(1),
    lambda x, m: torch.ops.aten._safe_softmax(m.double().masked_fill(~m, -INF), 1).mul(x).sum(1),
    lambda x, m: (x * m).mean(1) / m.double().mean(1),
    lambda x, m: x.where(m, 0.0).sum(1) * m.sum(1).double().reciprocal(),
)  # fmt: skip
LOSSES = family(
    G, "losses over labels that are ignored", {"x": (torch.float64, (3, 4)), "t": (torch.int64, (3,))},
    lambda x, t: F.cross_entropy(x, t),
    lambda x, t: F.cross_entropy(x, t, reduction="sum") / (t != -100).sum(),
    lambda x, t: F.cross_entropy(x, t, reduction="sum") / (t != -100).sum().clamp(min=1),
    lambda x, t: F.cross_entropy(x, t, reduction="none").mean(),
    lambda x, t: F.cross_entropy(x, t, reduction="none").sum() / (t >= 0).sum(),
    lambda x, t: F.cross_entropy(x, t, reduction="sum") / 3,
    lambda x, t: F.nll_loss(x.log_softmax(1), t),
    lambda x, t: F.cross_entropy(x, t).nan_to_num(),
    lambda x, t: torch.where((t == -100).all(), 0.0, F.cross_entropy(x, t)),
    lambda x, t: -(x.log_softmax(1).gather(1, t.clamp(min=0)[:, None])[:, 0] * (t != -100)).sum() / (t != -100).sum(),
    lambda x, t: -(x.log_softmax(1).gather(1, t.clamp(min=0)[:, None])[:, 0] * (t > 0)).sum() / (t > 0).sum(),
    lambda x, t: F.cross_entropy(x, t.clamp(min=0)),
    lambda x, t: F.cross_entropy(x, t.masked_fill(t < 0, 0), ignore_index=0),
    lambda x, t: F.cross_entropy(x, t, weight=torch.tensor([1.0, 1, 1, 1], dtype=torch.float64)),
    lambda x, t: F.cross_entropy(x, t, weight=torch.tensor([0.0, 1, 1, 1], dtype=torch.float64)),
    lambda x, t: F.cross_entropy(x, t, label_smoothing=0.0),
    lambda x, t: (x.logsumexp(1) - x.gather(1, t.clamp(min=0)[:, None])[:, 0]).masked_fill(t < 0, 0).sum()
    / (t >= 0).sum(),
    values={"t": (-100, 0, 1, 3)},
)  # fmt: skip
SPREADS = family(
    G, "rows that do not vary", {"x": (torch.float64, (3, 4))},
    lambda x: F.layer_norm(x, (4,), eps=0.0),
    lambda x: F.layer_norm(x, (4,), eps=1e-5),
    lambda x: (x - x.mean(1, True)) / x.std(1, correction=0, keepdim=True),
    lambda x: (x - x.mean(1, True)) / x.std(1, correction=0, keepdim=True).clamp(min=1e-30),
    lambda x: (x - x.mean(1, True)) * x.var(1, correction=0, keepdim=True).rsqrt(),
    lambda x: (x - x.mean(1, True)) / ((x - x.mean(1, True)) ** 2).mean(1, True).sqrt(),
    lambda x: (x - x.mean(1, True)) / ((x * x).mean(1, True) - x.mean(1, True) ** 2).sqrt(),
    lambda x: 2 * F.normalize(x - x.mean(1, True), dim=1),
    lambda x: 2 * F.normalize(x - x.mean(1, True), dim=1, eps=0.0),
    lambda x: ((x - x.mean(1, True)) / x.std(1, correction=0, keepdim=True)).nan_to_num(),
    lambda x: torch.where(x.amax(1, True) == x.amin(1, True), 0.0, F.layer_norm(x, (4,), eps=0.0)),
    lambda x: F.group_norm(x[:, None], 1, eps=0.0)[:, 0],
    lambda x: F.instance_norm(x[None], eps=1e-5)[0],
    lambda x: F.rms_norm(x - x.mean(1, True), (4,), eps=0.0),
    lambda x: F.rms_norm(x - x.mean(1, True), (4,), eps=1e-5),
)  # fmt: skip
UNIT = family(
    G, "directions of nothing", {"x": (torch.float64, (3, 4)), "y": (torch.float64, (3, 4))},
    lambda x, y: F.cosine_similarity(x, y),
    lambda x, y: F.cosine_similarity(x, y, eps=0.0),
    lambda x, y: (x * y).sum(1) / (x.norm(dim=1) * y.norm(dim=1)),
    lambda x, y: (x * y).sum(1) / (x.norm(dim=1) * y.norm(dim=1)).clamp(min=1e-30),
    lambda x, y: (F.normalize(x, dim=1, eps=1e-30) * F.normalize(y, dim=1, eps=1e-30)).sum(1),
    lambda x, y: (F.normalize(x, dim=1, eps=0.0) * F.normalize(y, dim=1, eps=0.0)).sum(1),
    lambda x, y: (x / x.norm(dim=1, keepdim=True) * y).sum(1) / y.norm(dim=1),
    lambda x, y: (x * y).sum(1) * ((x * x).sum(1) * (y * y).sum(1)).rsqrt(),
    lambda x, y: ((x * y).sum(1) / (x.norm(dim=1) * y.norm(dim=1))).nan_to_num(),
    lambda x, y: torch.where(x.any(1) & y.any(1), F.cosine_similarity(x, y, eps=1e-30), 0.0),
    lambda x, y: torch.where(x.any(1) & y.any(1), (x * y).sum(1) / (x.norm(dim=1) * y.norm(dim=1)), 1.0),
)  # fmt: skip
BACKWARD = family(
    G, "gradients of masked rows", XM,
    lambda x, m: gradient((a := leaf(x)).masked_fill(~m, -INF).softmax(1), a),
    lambda x, m: gradient((a := leaf(x)).masked_fill(~m, LEAST).softmax(1), a),
    lambda x, m: gradient(torch.ops.aten._safe_softmax((a := leaf(x)).masked_fill(~m, -INF), 1), a),
    lambda x, m: gradient((a := leaf(x)).masked_fill(~m, -INF).softmax(1).nan_to_num(), a),
    lambda x, m: gradient((a := leaf(x)).masked_fill(~m, -INF).softmax(1).masked_fill(~m, 0), a),
    lambda x, m: gradient((a := leaf(x)).masked_fill(~m, -INF).softmax(1), a).masked_fill(~m, 0),
    lambda x, m: gradient((a := leaf(x)).masked_fill(~m, -INF).softmax(1), a).nan_to_num(),
    lambda x, m: gradient(exps(a := leaf(x), m) / exps(a, m).sum(1, True), a),
    lambda x, m: gradient(exps(a := leaf(x), m) / exps(a, m).sum(1, True).clamp(min=1e-30), a),
    lambda x, m: gradient(exps(a := leaf(x), m) / (exps(a, m).sum(1, True) + ~m.any(1, True)), a),
    lambda x, m: gradient((a := leaf(x)).masked_fill(~m & m.any(1, True), -INF).softmax(1), a),
    lambda x, m: gradient((a := leaf(x)).masked_fill(~m, -INF).log_softmax(1).exp(), a),
)  # fmt: skip

FAMILIES: tuple[Family, ...] = (ATTENTION, CAUSAL, ROWS, MEANS, LOSSES, SPREADS, UNIT, BACKWARD)
