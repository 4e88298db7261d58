"""Programs that choose among equal elements."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from support.attacks.judge import Family, family

__all__ = ["FAMILIES"]

X = {"x": (torch.float64, (3, 5))}
XY = {**X, "y": (torch.float64, (3, 5))}
I = {"i": (torch.int64, (3, 5))}
G = "ties"


def gradient(y: Tensor, x: Tensor) -> Tensor:
    """The gradient of the sum of squares of y, plus y."""
    return torch.autograd.grad((y * y + y).sum(), x)[0]


def leaf(x: Tensor) -> Tensor:
    return x.detach().requires_grad_()


GREATEST = family(
    G, "place of the greatest", X,
    lambda x: x.argmax(1),
    lambda x: x.max(1).indices,
    lambda x: x.topk(1).indices[:, 0],
    lambda x: x.topk(3).indices[:, 0],
    lambda x: x.sort(dim=1, descending=True).indices[:, 0],
    lambda x: x.sort(dim=1, descending=True, stable=True).indices[:, 0],
    lambda x: x.sort(dim=1).indices[:, -1],
    lambda x: x.sort(dim=1, stable=True).indices[:, -1],
    lambda x: 4 - x.flip(1).argmax(1),
    lambda x: (-x).argmin(1),
    lambda x: (x == x.amax(1, True)).to(torch.int8).argmax(1),
    lambda x: (x == x.amax(1, True)).double().argmax(1),
    lambda x: (x - x.amax(1, True)).argmax(1),
    lambda x: ((x == x.amax(1, True)).long().cumsum(1) == 0).long().sum(1),
    lambda x: 4 - ((x == x.amax(1, True)).flip(1).long().cumsum(1) == 0).long().sum(1),
    lambda x: torch.where(x == x.amax(1, True), torch.arange(5), 5).amin(1),
    lambda x: torch.where(x == x.amax(1, True), torch.arange(5), -1).amax(1),
    lambda x: x.kthvalue(5).indices,
    lambda x: x.cummax(1).indices[:, -1],
    lambda x: x.relu().argmax(1),
    lambda x: x.softmax(1).argmax(1),
    lambda x: (2 * x + 1).argmax(1),
    lambda x: x.t().argmax(0),
    lambda x: F.max_pool1d(x[:, None], 5, return_indices=True)[1][:, 0, 0],
    lambda x: F.one_hot(x.argmax(1), 5).argmax(1),
    lambda x: (F.one_hot(x.argmax(1), 5) * torch.arange(5)).sum(1),
    lambda x: (x[:, :, None] < x[:, None, :]).any(2).long().argmin(1),
    lambda x: x.clamp(max=1.0).argmax(1),
)  # fmt: skip
MIDDLE = family(
    G, "place of the median", X,
    lambda x: x.median(1).indices,
    lambda x: x.nanmedian(1).indices,
    lambda x: x.kthvalue(3).indices,
    lambda x: x.sort(dim=1).indices[:, 2],
    lambda x: x.sort(dim=1, stable=True).indices[:, 2],
    lambda x: x.topk(3, largest=False).indices[:, 2],
    lambda x: x.topk(3).indices[:, 2],
    lambda x: x.topk(5).indices[:, 2],
    lambda x: x.mode(1).indices,
    lambda x: (x == x.median(1, True).values).long().argmax(1),
    lambda x: x.argsort(1).argsort(1).eq(2).long().argmax(1),
    lambda x: x.argsort(dim=1, stable=True)[:, 2],
    lambda x: (-x).argsort(dim=1, stable=True)[:, 2],
)  # fmt: skip
VALUES = family(
    G, "value in the middle", XY,
    lambda x, y: x.median(1).values,
    lambda x, y: x.kthvalue(3).values,
    lambda x, y: x.sort(1).values[:, 2],
    lambda x, y: -(-x).sort(1).values[:, 2],
    lambda x, y: x.topk(3).values[:, 2],
    lambda x, y: x.topk(3, sorted=False).values.amin(1),
    lambda x, y: x.mode(1).values,
    lambda x, y: x.quantile(0.5, 1),
    lambda x, y: x.gather(1, x.argsort(1))[:, 2],
    lambda x, y: y.gather(1, x.argsort(1))[:, 2],
    lambda x, y: y.gather(1, x.argsort(dim=1, stable=True))[:, 2],
    lambda x, y: y.gather(1, x.topk(3).indices)[:, 2],
    lambda x, y: y.gather(1, x.sort(1, True).indices)[:, 2],
    lambda x, y: y.take_along_dim(x.median(1, True).indices, 1)[:, 0],
)  # fmt: skip
ORDER = family(
    G, "rows put in order", XY,
    lambda x, y: y.gather(1, x.argsort(1)),
    lambda x, y: y.gather(1, x.argsort(dim=1, stable=True)),
    lambda x, y: y.gather(1, (-x).argsort(1, True)),
    lambda x, y: y.gather(1, (-x).argsort(dim=1, descending=True, stable=True)),
    lambda x, y: y.gather(1, x.topk(5, largest=False).indices),
    lambda x, y: y.gather(1, x.sort(1, True).indices.flip(1)),
    lambda x, y: y.gather(1, x.argsort(dim=1, descending=True, stable=True).flip(1)),
    lambda x, y: torch.zeros_like(y).scatter(1, x.argsort(1).argsort(1), y),
    lambda x, y: torch.zeros_like(y).scatter(1, x.argsort(dim=1, stable=True).argsort(1), y),
    lambda x, y: torch.zeros_like(y).scatter(1, (x[:, None] < x[:, :, None]).long().sum(2), y),
    lambda x, y: torch.zeros_like(y).scatter_add(1, (x[:, None] <= x[:, :, None]).long().sum(2) - 1, y),
    lambda x, y: y.sort(1).values,
    lambda x, y: y.gather(1, (2 * x).argsort(dim=1, stable=True)),
    lambda x, y: y.gather(1, x.exp().argsort(dim=1, stable=True)),
)  # fmt: skip
RANKS = family(
    G, "ranks of elements", X,
    lambda x: x.argsort(1).argsort(1),
    lambda x: x.argsort(dim=1, stable=True).argsort(1),
    lambda x: (x[:, None] < x[:, :, None]).long().sum(2),
    lambda x: (x[:, None] <= x[:, :, None]).long().sum(2) - 1,
    lambda x: 4 - x.argsort(dim=1, descending=True, stable=True).argsort(1),
    lambda x: torch.searchsorted(x.sort(1).values, x),
    lambda x: torch.searchsorted(x.sort(1).values, x, right=True) - 1,
    lambda x: torch.searchsorted(x.sort(1).values, x, side="left"),
    lambda x: torch.zeros(3, 5, dtype=torch.int64).scatter(1, x.argsort(1), torch.arange(5).expand(3, 5)),
    lambda x: (x[:, None] < x[:, :, None]).long().sum(2)
    + ((x[:, None] == x[:, :, None]) & torch.ones(5, 5, dtype=torch.bool).tril(-1)).long().sum(2),
    lambda x: 4 - (x[:, None] > x[:, :, None]).long().sum(2),
    lambda x: (x[:, None] < x[:, :, None]).long().cumsum(2)[..., -1],
)  # fmt: skip
BUCKETS = family(
    G, "buckets", {"x": (torch.float64, (6,)), "v": (torch.float64, (4,))},
    lambda x, v: torch.searchsorted(x.sort().values, v),
    lambda x, v: torch.searchsorted(x.sort().values, v, right=True),
    lambda x, v: torch.bucketize(v, x.sort().values),
    lambda x, v: torch.bucketize(v, x.sort().values, right=True),
    lambda x, v: (x[None] < v[:, None]).long().sum(1),
    lambda x, v: (x[None] <= v[:, None]).long().sum(1),
    lambda x, v: 6 - (x[None] >= v[:, None]).long().sum(1),
    lambda x, v: 6 - (x[None] > v[:, None]).long().sum(1),
    lambda x, v: 6 - torch.searchsorted((-x).sort().values, -v),
    lambda x, v: 6 - torch.searchsorted((-x).sort().values, -v, right=True),
    lambda x, v: (x.cummax(0).values[None] < v[:, None]).long().sum(1),
    lambda x, v: torch.searchsorted(x.sort(descending=True).values.flip(0), v, side="right"),
)  # fmt: skip
LEAST = family(
    G, "place of the least, integers", I,
    lambda i: i.argmin(1),
    lambda i: i.min(1).indices,
    lambda i: (-i).argmax(1),
    lambda i: (~i).argmax(1),
    lambda i: i.sort(1).indices[:, 0],
    lambda i: i.sort(dim=1, stable=True).indices[:, 0],
    lambda i: i.topk(1, largest=False).indices[:, 0],
    lambda i: i.kthvalue(1).indices,
    lambda i: i.cummin(1).indices[:, -1],
    lambda i: (5 * i + torch.arange(5)).argmin(1),
    lambda i: (5 * i + torch.arange(5)).sort(1).indices[:, 0],
    lambda i: (5 * i - torch.arange(5)).argmin(1),
    lambda i: (5 * i + torch.arange(5)).amin(1) % 5,
    lambda i: (i // 2).argmin(1),
    lambda i: i.abs().argmin(1),
    lambda i: i.clamp(min=-6).argmin(1),
)  # fmt: skip
WRITES = family(
    G, "places written twice", {"x": (torch.float64, (4,)), "y": (torch.float64, (4,)), "i": (torch.int64, (4,))},
    lambda x, y, i: x.index_put((i,), y),
    lambda x, y, i: x.index_put((i,), y, accumulate=True),
    lambda x, y, i: x.scatter(0, i, y),
    lambda x, y, i: x.scatter_add(0, i, y),
    lambda x, y, i: x.index_copy(0, i, y),
    lambda x, y, i: x.index_add(0, i, y),
    lambda x, y, i: x.scatter(0, i.flip(0), y.flip(0)),
    lambda x, y, i: x.scatter_reduce(0, i, y, "sum"),
    lambda x, y, i: x.scatter_reduce(0, i, y, "amax"),
    lambda x, y, i: x.scatter_reduce(0, i, y, "amax", include_self=False),
    lambda x, y, i: x.scatter_reduce(0, i, y, "mean"),
    lambda x, y, i: x.scatter_reduce(0, i, y, "mean", include_self=False),
    lambda x, y, i: x.scatter_reduce(0, i, y, "prod"),
    lambda x, y, i: x.index_reduce(0, i, y, "amax"),
    lambda x, y, i: x.index_reduce(0, i, y, "amin", include_self=False),
    lambda x, y, i: x + F.one_hot(i, 4).double().t() @ y,
    lambda x, y, i: torch.where((F.one_hot(i, 4) > 0).any(0), F.one_hot(i, 4).double().t() @ y, x),
    lambda x, y, i: x.index_fill(0, i, 0.0).index_add(0, i, y),
    values={"i": (0, 1, 2, 3)},
)  # fmt: skip
SUBGRADIENTS = family(
    G, "gradients at ties", XY,
    lambda x, y: gradient((a := leaf(x)).amax(1), a),
    lambda x, y: gradient((a := leaf(x)).max(1).values, a),
    lambda x, y: gradient((a := leaf(x)).topk(1).values, a),
    lambda x, y: gradient((a := leaf(x)).sort(1).values[:, -1], a),
    lambda x, y: gradient((a := leaf(x)).kthvalue(5).values, a),
    lambda x, y: gradient((a := leaf(x)).cummax(1).values[:, -1], a),
    lambda x, y: gradient((a := leaf(x)).gather(1, x.argmax(1, True)), a),
    lambda x, y: gradient(-(-(a := leaf(x))).amin(1), a),
    lambda x, y: gradient((a := leaf(x)).norm(float("inf"), 1), a),
    lambda x, y: gradient((a := leaf(x)).aminmax(dim=1).max, a),
    lambda x, y: gradient(F.max_pool1d((a := leaf(x))[:, None], 5), a),
    lambda x, y: gradient(F.adaptive_max_pool1d((a := leaf(x))[:, None], 1), a),
    lambda x, y: (2 * x.amax(1, True) + 1) * (x == x.amax(1, True)),
    lambda x, y: (2 * x.amax(1, True) + 1) * (x == x.amax(1, True)) / (x == x.amax(1, True)).sum(1, True),
    lambda x, y: (2 * x.amax(1, True) + 1) * F.one_hot(x.argmax(1), 5),
)  # fmt: skip
PAIRS = family(
    G, "gradients of two that may be equal", XY,
    lambda x, y: gradient(torch.maximum(a := leaf(x), y), a),
    lambda x, y: gradient(torch.where((a := leaf(x)) > y, a, y), a),
    lambda x, y: gradient(torch.where((a := leaf(x)) >= y, a, y), a),
    lambda x, y: gradient(torch.fmax(a := leaf(x), y), a),
    lambda x, y: gradient((a := leaf(x)).clamp(min=y), a),
    lambda x, y: gradient(torch.relu((a := leaf(x)) - y) + y, a),
    lambda x, y: gradient(torch.stack([a := leaf(x), y]).amax(0), a),
    lambda x, y: gradient(torch.stack([a := leaf(x), y]).max(0).values, a),
    lambda x, y: gradient(torch.stack([y, a := leaf(x)]).max(0).values, a),
    lambda x, y: gradient(((a := leaf(x)) + y + (a - y).abs()) / 2, a),
    lambda x, y: gradient(torch.logaddexp(a := leaf(x), y), a),
    lambda x, y: (2 * x + 1) * (x > y),
    lambda x, y: (2 * x + 1) * (x >= y),
    lambda x, y: (2 * x + 1) * ((x > y).double() + (x >= y)) / 2,
)  # fmt: skip

FAMILIES: tuple[Family, ...] = (
    GREATEST, MIDDLE, VALUES, ORDER, RANKS, BUCKETS, LEAST, WRITES, SUBGRADIENTS, PAIRS,
)  # fmt: skip
