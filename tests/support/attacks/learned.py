"""What the calculus has learned to decide of late: rows that masks select, inverse orders, functions of what is looked
up, short sums, `tanh` by exponentials, variances, softmax by parts, casts to and from 8 bits."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from support.attacks.judge import Family, family

__all__ = ["FAMILIES"]

G = "learned"
ROWS = {"x": (torch.float64, (5, 3)), "b": (torch.bool, (5,))}
X = {"x": (torch.float64, (5,))}
INF = float("inf")


def _written(x: Tensor, b: Tensor, value: Tensor) -> Tensor:
    out = torch.zeros_like(x)
    out[b] = value
    return out


SELECTED = family(
    G, "rows that masks select", ROWS,
    lambda x, b: x[b].sum(0),
    lambda x, b: (x * b[:, None]).sum(0),
    lambda x, b: torch.where(b[:, None], x, 0.0).sum(0),
    lambda x, b: x[~b].sum(0),
    lambda x, b: x.sum(0) - x[~b].sum(0),
    lambda x, b: x[b].mean(0),
    lambda x, b: x[b].sum(0) / b.sum(),
    lambda x, b: x[b].sum(0) / b.sum().clamp(min=1),
    lambda x, b: x[b.nonzero()[:, 0]].sum(0),
    lambda x, b: (x[b] ** 2).sum(0),
    lambda x, b: x[b].sum(0) ** 2,
    lambda x, b: _written(x, b, x[b]).sum(0),
    lambda x, b: _written(x, ~b, x[~b]).sum(0),
    lambda x, b: _written(x, b, x[b] * x[b]).sum(0),
    lambda x, b: (1 / x)[b].sum(0),
    lambda x, b: (1 / x[b]).sum(0),
    lambda x, b: (b[:, None] / x).sum(0),
    lambda x, b: torch.where(b[:, None], 1 / x, 0.0).sum(0),
    lambda x, b: x[b].exp().sum(0),
    lambda x, b: (x * b[:, None]).exp().sum(0),
    lambda x, b: (x.exp() * b[:, None]).sum(0),
    lambda x, b: (x * b[:, None]).exp().sum(0) - (~b).sum(),
    lambda x, b: x[b & b.flip(0)].sum(0),
    lambda x, b: x.flip(0)[b.flip(0)].sum(0),
    lambda x, b: x.flip(0)[b].sum(0),
)  # fmt: skip
SELECTED_ROWS = family(
    G, "rows that masks write", ROWS,
    lambda x, b: _written(x, b, x[b]),
    lambda x, b: x * b[:, None],
    lambda x, b: torch.where(b[:, None], x, 0.0),
    lambda x, b: x.masked_fill(~b[:, None], 0.0),
    lambda x, b: _written(x, b, x[b].relu()) - _written(x, b, (-x[b]).relu()),
    lambda x, b: _written(x, b, x[b].softmax(1)),
    lambda x, b: x.softmax(1) * b[:, None],
    lambda x, b: (x * b[:, None]).softmax(1),
    lambda x, b: (x * b[:, None]).softmax(1) * b[:, None],
    lambda x, b: _written(x, b, x[b] / x[b].sum(1, keepdim=True)),
    lambda x, b: x / x.sum(1, keepdim=True) * b[:, None],
    lambda x, b: torch.where(b[:, None], x / x.sum(1, keepdim=True), 0.0),
    lambda x, b: _written(x, b, x[b] - x[b].mean(1, keepdim=True)),
    lambda x, b: x.index_put((b,), torch.zeros(3, dtype=x.dtype)),
    lambda x, b: x.index_put((~b,), torch.zeros(3, dtype=x.dtype)),
    lambda x, b: x.index_put((b,), torch.ones(3, dtype=x.dtype), accumulate=True) - b[:, None].double(),
    lambda x, b: _written(x, b, x[b].log().exp()),
    lambda x, b: (x.log() * b[:, None]).exp() * b[:, None],
)  # fmt: skip


def _ranks(order: Tensor) -> Tensor:
    return torch.zeros_like(order).scatter(0, order, torch.arange(5))


ORDERS = family(
    G, "inverse orders", X,
    lambda x: x.argsort(stable=True),
    lambda x: x.argsort(stable=True).argsort(),
    lambda x: _ranks(x.argsort(stable=True)),
    lambda x: _ranks(x.argsort()),
    lambda x: x.argsort().argsort(),
    lambda x: (x[:, None] > x).sum(1),
    lambda x: (x[:, None] >= x).sum(1) - 1,
    lambda x: ((x[:, None] > x) | ((x[:, None] == x) & (torch.arange(5)[:, None] > torch.arange(5)))).sum(1),
    lambda x: ((x[:, None] > x) | ((x[:, None] == x) & (torch.arange(5)[:, None] < torch.arange(5)))).sum(1),
    lambda x: _ranks(_ranks(x.argsort(stable=True))),
    lambda x: 4 - _ranks((-x).argsort(stable=True)),
    lambda x: 4 - _ranks(x.argsort(descending=True, stable=True)),
    lambda x: _ranks(x.argsort(descending=True, stable=True).flip(0)),
    lambda x: torch.searchsorted(x.sort().values, x),
    lambda x: torch.searchsorted(x.sort().values, x, right=True) - 1,
)  # fmt: skip
RETURNED = family(
    G, "ordered, and put back", X,
    lambda x: x + 0,
    lambda x: x.sort().values[_ranks(x.argsort(stable=True))],
    lambda x: x.sort().values[_ranks(x.argsort())],
    lambda x: x.sort().values[x.argsort()],
    lambda x: x[x.argsort()][x.argsort().argsort()],
    lambda x: torch.zeros_like(x).scatter(0, x.argsort(), x.sort().values),
    lambda x: torch.zeros_like(x).scatter(0, x.argsort(stable=True), x.sort().values),
    lambda x: torch.zeros_like(x).scatter(0, (-x).argsort(), x.sort(descending=True).values),
    lambda x: torch.zeros_like(x).scatter(0, x.argsort(), x[x.argsort(stable=True)]),
    lambda x: torch.zeros_like(x).scatter(0, x.argsort(stable=True).flip(0), x.sort(descending=True).values),
    lambda x: torch.zeros_like(x).scatter(0, x.abs().argsort(), x[x.abs().argsort()]),
    lambda x: torch.zeros_like(x).scatter(0, x.abs().argsort(), x[x.abs().argsort(stable=True)]),
    lambda x: x.topk(5).values.flip(0)[_ranks(x.argsort(stable=True))],
    lambda x: x[_ranks(x.argsort(stable=True))],
)  # fmt: skip
LOOKED_UP = family(
    G, "functions of what is looked up", {"x": (torch.float64, (6,)), "i": (torch.int64, (4,))},
    lambda x, i: x.exp()[i],
    lambda x, i: x[i].exp(),
    lambda x, i: (F.one_hot(i, 6).double() @ x).exp(),
    lambda x, i: F.one_hot(i, 6).double() @ x.exp(),
    lambda x, i: (F.one_hot(i, 6).double() * x).exp().sum(1) - 5,
    lambda x, i: (F.one_hot(i, 6).double() * x).exp().sum(1),
    lambda x, i: x[i].sqrt() ** 2,
    lambda x, i: (x[i] ** 2).sqrt(),
    lambda x, i: (x * x)[i].sqrt(),
    lambda x, i: x[i].abs(),
    lambda x, i: x[i].log().exp(),
    lambda x, i: F.one_hot(i, 6).double() @ x.log().exp(),
    lambda x, i: x.relu()[i] + (-x)[i].relu(),
    lambda x, i: (x[i] > 0) * x[i] * 2 - x[i],
    lambda x, i: ((x > 0) * x)[i] - ((x < 0) * x)[i],
    lambda x, i: x.cumsum(0)[i] - x.cumsum(0)[(i - 1).clamp(min=0)],
    lambda x, i: x.cumsum(0)[i] - torch.cat([x[:1] * 0, x.cumsum(0)])[i],
    lambda x, i: (torch.arange(6) <= i[:, None]).double() @ x - (torch.arange(6) < i[:, None]).double() @ x,
    lambda x, i: 1 / (1 / x)[i],
    lambda x, i: (1 / x)[i] * x[i] * x[i],
    values={"i": range(6)},
)  # fmt: skip
SHORT = family(
    G, "short sums", {"x": (torch.float64, (4, 3))},
    lambda x: x.sum(1),
    lambda x: x[:, 0] + x[:, 1] + x[:, 2],
    lambda x: x.exp().sum(1).log(),
    lambda x: (x[:, 0].exp() + x[:, 1].exp() + x[:, 2].exp()).log(),
    lambda x: x.exp().prod(1).log(),
    lambda x: x.logsumexp(1),
    lambda x: x.amax(1) + (x - x.amax(1, keepdim=True)).exp().sum(1).log(),
    lambda x: x[:, 0] + F.softplus(x[:, 1:].logsumexp(1) - x[:, 0], threshold=1e9),
    lambda x: torch.logaddexp(torch.logaddexp(x[:, 0], x[:, 1]), x[:, 2]),
    lambda x: x.prod(1),
    lambda x: x[:, 0] * x[:, 1] * x[:, 2],
    lambda x: x.log().sum(1).exp(),
    lambda x: (x * x).log().sum(1).exp().sqrt(),
    lambda x: x.abs().log().sum(1).exp() * x.sign().prod(1),
    lambda x: x.cumprod(1)[:, 2],
    lambda x: (x[:, :2].sum(1) ** 2 - (x[:, :2] ** 2).sum(1)) / 2 * x[:, 2],
    lambda x: x.relu().sum(1) - (-x).relu().sum(1),
    lambda x: x.sum(1).relu() - (-x.sum(1)).relu(),
    lambda x: x[:, 0].relu() + x[:, 1] + x[:, 2] - (-x[:, 0]).relu(),
)  # fmt: skip
TANH = family(
    G, "tanh by exponentials", {"x": (torch.float64, (3, 4)), "y": (torch.float64, (3, 4))},
    lambda x, y: (x / y).tanh(),
    lambda x, y: ((2 * x / y).exp() - 1) / ((2 * x / y).exp() + 1),
    lambda x, y: 1 - 2 / ((2 * x / y).exp() + 1),
    lambda x, y: 2 * (2 * x / y).sigmoid() - 1,
    lambda x, y: 1 - 2 * (-2 * x / y).sigmoid(),
    lambda x, y: (x / y).sinh() / (x / y).cosh(),
    lambda x, y: ((x / y).exp() - (-x / y).exp()) / ((x / y).exp() + (-x / y).exp()),
    lambda x, y: (2 * x / y).tanh() / (1 + (x / y).tanh() ** 2) * (1 + (x / y).tanh() ** 2) / 2,
    lambda x, y: 2 * (x / y / 2).tanh() / (1 + (x / y / 2).tanh() ** 2),
    lambda x, y: (x / y).abs().tanh() * (x / y).sign(),
    lambda x, y: (x / y).abs().tanh() * x.sign(),
    lambda x, y: (x / y).tanh().abs() * x.sign() * y.sign(),
    lambda x, y: (1 - (x / y).cosh() ** -2).sqrt() * (x / y).sign(),
    lambda x, y: (1 - (x / y).cosh() ** -2).sqrt(),
    lambda x, y: (-2 * y / x).exp(),
    lambda x, y: torch.where(y == 0, x.sign().double(), (x / y).tanh()),
)  # fmt: skip
VARIANCES = family(
    G, "variances", {"x": (torch.float64, (4, 5))},
    lambda x: x.var(1, correction=0),
    lambda x: (x * x).mean(1) - x.mean(1) ** 2,
    lambda x: ((x - x.mean(1, keepdim=True)) ** 2).mean(1),
    lambda x: x.var(1),
    lambda x: x.var(1) * 0.8,
    lambda x: x.std(1, correction=0) ** 2,
    lambda x: x.std(1, correction=0).square().sqrt(),
    lambda x: x.var(1, correction=0).relu(),
    lambda x: x.var(1, correction=0).abs().sqrt() ** 2,
    lambda x: ((x * x).mean(1) - x.mean(1) ** 2).clamp(min=0),
    lambda x: ((x * x).mean(1) - x.mean(1) ** 2).clamp(min=1e-2),
    lambda x: x.var(1, correction=0) ** 1.5 / x.std(1, correction=0),
    lambda x: 1 / x.var(1, correction=0).rsqrt() ** 2,
    lambda x: torch.where(x.var(1, correction=0) > 0, x.var(1, correction=0), 0.0),
    lambda x: torch.where(x.var(1, correction=0) > 0, x.var(1, correction=0), 1.0),
    lambda x: (x[:, :, None] - x[:, None]).square().sum((1, 2)) / 50,
    lambda x: (x[:, :, None] - x[:, None]).relu().square().sum((1, 2)) / 25,
    lambda x: (x[:, :, None] - x[:, None]).relu().sum((1, 2)) / 25,
    lambda x: x.var(1, correction=0).log().exp(),
    lambda x: (x - x.mean(1, keepdim=True)).norm(dim=1) ** 2 / 5,
    lambda x: (x - x[:, :1]).var(1, correction=0),
    lambda x: x.flip(0).var(1, correction=0).flip(0),
)  # fmt: skip
MASKED = {"x": (torch.float64, (3, 4)), "b": (torch.bool, (3, 4)), "v": (torch.float64, (4, 2))}


def _parts(x: Tensor, b: Tensor, v: Tensor, least: float, guard: bool) -> Tensor:
    """Attention in two halves of the keys, joined by their maxima and sums."""
    scores = torch.where(b, x, least)
    top, total, done = None, None, None
    for k in (0, 2):
        s, w = scores[:, k : k + 2], v[k : k + 2]
        m = s.amax(1, keepdim=True)
        safe = torch.where(m == -INF, 0.0, m) if guard else m
        e = (s - safe).exp()
        if top is None:
            top, total, done = m, e.sum(1, keepdim=True), e @ w
            continue
        new = torch.maximum(top, m)
        base = torch.where(new == -INF, 0.0, new) if guard else new
        old, now = (top - base).exp(), (m - base).exp()
        top, total, done = new, total * old + e.sum(1, keepdim=True) * now, done * old + (e @ w) * now
    return done / total


PARTS = family(
    G, "softmax by parts", MASKED,
    lambda x, b, v: torch.where(b, x, -INF).softmax(1) @ v,
    lambda x, b, v: F.scaled_dot_product_attention(x[None] * 2, torch.eye(4, dtype=x.dtype)[None], v[None], b[None])[0],
    lambda x, b, v: _parts(x, b, v, -INF, False),
    lambda x, b, v: _parts(x, b, v, -INF, True),
    lambda x, b, v: _parts(x, b, v, -1e4, False),
    lambda x, b, v: torch.where(b, x, -1e4).softmax(1) @ v,
    lambda x, b, v: (x.exp() * b) @ v / (x.exp() * b).sum(1, keepdim=True),
    lambda x, b, v: (x.exp() * b) @ v / (x.exp() * b).sum(1, keepdim=True).clamp(min=1e-30),
    lambda x, b, v: torch.where(b, x, -INF).softmax(1).nan_to_num() @ v,
    lambda x, b, v: torch.where(b, x, -INF).softmax(1).masked_fill(~b, 0.0) @ v,
    lambda x, b, v: torch.where(b.any(1, keepdim=True), torch.where(b, x, -INF).softmax(1) @ v, 0.0),
    lambda x, b, v: torch.where(b.all(1, keepdim=True), x.softmax(1) @ v, torch.where(b, x, -INF).softmax(1) @ v),
    lambda x, b, v: (torch.where(b, x, -INF) - torch.where(b, x, -INF).logsumexp(1, keepdim=True)).exp() @ v,
    lambda x, b, v: (x - torch.where(b, x, -INF).logsumexp(1, keepdim=True)).exp() * b @ v,
    lambda x, b, v: torch.where(b, (x - torch.where(b, x, -INF).logsumexp(1, keepdim=True)).exp(), 0.0) @ v,
    close=1e-7,
)  # fmt: skip
BYTES = family(
    G, "there and back through 8 bits", {"a": (torch.int16, (3, 4)), "b": (torch.int16, (3, 4))},
    lambda a, b: a.to(torch.int8).to(torch.int16),
    lambda a, b: (a + 128) % 256 - 128,
    lambda a, b: ((a & 255) ^ 128) - 128,
    lambda a, b: (a << 8) >> 8,
    lambda a, b: (a * 256) // 256,
    lambda a, b: a.to(torch.uint8).to(torch.int8).to(torch.int16),
    lambda a, b: a.to(torch.uint8).to(torch.int16),
    lambda a, b: a & 255,
    lambda a, b: a % 256,
    lambda a, b: torch.fmod(a, 256),
    lambda a, b: a - (a >> 8 << 8),
    lambda a, b: a - a // 256 * 256,
    lambda a, b: a.clamp(-128, 127),
    lambda a, b: (a + b).to(torch.int8).to(torch.int16) - b.to(torch.int8).to(torch.int16),
    lambda a, b: ((a + b).to(torch.int8) - b.to(torch.int8)).to(torch.int16),
    lambda a, b: (a.to(torch.int8) + b.to(torch.int8)).to(torch.int16) - b,
    lambda a, b: (a.to(torch.int32) + b - b).to(torch.int8).to(torch.int16),
    lambda a, b: a.to(torch.float64).to(torch.int16).to(torch.int8).to(torch.int16),
    lambda a, b: (a.to(torch.int32) * 257 // 257).to(torch.int8).to(torch.int16),
)  # fmt: skip

FAMILIES: tuple[Family, ...] = (
    SELECTED, SELECTED_ROWS, ORDERS, RETURNED, LOOKED_UP, SHORT, TANH, VARIANCES, PARTS, BYTES,
)  # fmt: skip
