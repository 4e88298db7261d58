"""How often things are counted: totals over places of an order, over classes of indices, over windows and triangles,
where one factor of a sum has several of its variables."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from support.attacks.judge import Family, family

__all__ = ["FAMILIES"]

G = "counts"
N = 5
X = {"x": (torch.float64, (N,))}
INDICES = {"i": (torch.int64, (N,)), "x": (torch.float64, (N,))}
WITHIN = {"i": tuple(range(N))}


def _hot(o: Tensor) -> Tensor:
    return (o[:, None] == torch.arange(N)).double()


def _rank(x: Tensor) -> Tensor:
    return x.argsort(stable=True).argsort()


PLACES = family(
    G, "places of an order", X,
    lambda x: _hot(x.argsort()).sum() * x,
    lambda x: _hot(x.argsort()).sum(0) * x,
    lambda x: _hot(x.argsort()).sum(1) * x,
    lambda x: _hot(x.argsort())[:3].sum() * x,
    lambda x: _hot(x.argsort())[:, :3].sum() * x,
    lambda x: _hot(x.argsort())[1:, 1:].sum() * x,
    lambda x: _hot(x.topk(3).indices).sum() * x,
    lambda x: _hot(x.topk(3).indices).sum(0) * x,
    lambda x: _hot(_rank(x)).sum() * x,
    lambda x: (_hot(_rank(x)) @ _hot(x.argsort(stable=True))).sum() * x,
    lambda x: (_hot(_rank(x)) * _hot(_rank(x))).sum() * x,
    lambda x: _hot(x.argsort()).sum() ** 2 * x,
    lambda x: _hot(x.argsort()).sum(0).pow(2).sum() * x,
    lambda x: (_hot(x.argsort()) * torch.arange(N)).sum() * x,
    lambda x: (_hot(x.argsort()) * torch.arange(N)[:, None]).sum() * x,
    lambda x: x.argsort().sum() * x,
    lambda x: (x.argsort()[:, None] == x.argsort()).sum() * x,
    lambda x: (x.argsort()[:, None] <= torch.arange(N)).sum() * x,
    lambda x: (x.argsort()[:, None] < torch.arange(N)).sum() * x,
    lambda x: torch.einsum("vu,u->", _hot(x.argsort()), x).expand(N),
    lambda x: torch.einsum("vu,v->", _hot(x.argsort()), x).expand(N),
    lambda x: x.sum().expand(N),
    lambda x: x[x.argsort()].sum().expand(N),
    lambda x: N * x,
    lambda x: 1 * x,
    lambda x: 3 * x,
    lambda x: N * N * x,
    lambda x: 10 * x,
    lambda x: 15 * x,
)  # fmt: skip

CLASSES = family(
    G, "classes of indices", INDICES,
    lambda i, x: _hot(i).sum() * x[i],
    lambda i, x: F.one_hot(i, N).sum() * x[i],
    lambda i, x: F.one_hot(i, N).sum(0) * x[i],
    lambda i, x: F.one_hot(i, N).sum(1) * x[i],
    lambda i, x: F.one_hot(i[:3], N).sum() * x[i],
    lambda i, x: F.one_hot(i, N)[:, :3].sum() * x[i],
    lambda i, x: F.one_hot(i, N)[:, :3].sum() * x[i] + F.one_hot(i, N)[:, 3:].sum() * x[i],
    lambda i, x: F.one_hot(i, N).cumsum(1)[:, -1].sum() * x[i],
    lambda i, x: F.one_hot(i, N).sum(0).cumsum(0)[-1] * x[i],
    lambda i, x: F.one_hot(i, N).sum(0).cumsum(0)[-2] * x[i],
    lambda i, x: F.one_hot(i, N).sum(0).cumsum(0).sum() * x[i],
    lambda i, x: (F.one_hot(i, N) * F.one_hot(i, N)).sum() * x[i],
    lambda i, x: (F.one_hot(i, N) @ F.one_hot(i, N).T).sum() * x[i],
    lambda i, x: (F.one_hot(i, N).T @ F.one_hot(i, N)).sum() * x[i],
    lambda i, x: F.one_hot(i, N).sum() ** 2 * x[i],
    lambda i, x: (F.one_hot(i, N).double() @ x).sum() * x[i],
    lambda i, x: x[i].sum() * x[i],
    lambda i, x: (F.one_hot(i, N).double() * x[i][:, None]).sum() * x[i],
    lambda i, x: (F.one_hot(i, N).double() * x).sum() * x[i],
    lambda i, x: torch.zeros(N, dtype=torch.int64).scatter_add(0, i, torch.ones_like(i)).sum() * x[i],
    lambda i, x: torch.zeros(N, dtype=torch.int64).index_put((i,), torch.ones_like(i), accumulate=True).sum() * x[i],
    lambda i, x: torch.zeros(N, dtype=torch.int64).index_put((i,), torch.ones_like(i)).sum() * x[i],
    lambda i, x: (i[:, None] == i).sum() * x[i],
    lambda i, x: (i[:, None] <= torch.arange(N)).sum() * x[i],
    lambda i, x: (i[:, None] < torch.arange(N)).sum() * x[i],
    lambda i, x: (N - i).sum() * x[i],
    lambda i, x: N * x[i],
    lambda i, x: 1 * x[i],
    lambda i, x: 3 * x[i],
    lambda i, x: N * N * x[i],
    values=WITHIN,
)  # fmt: skip


def _windows(x: Tensor) -> Tensor:
    return x.unfold(0, 3, 1)


TRIANGLES = family(
    G, "windows and triangles", X,
    lambda x: torch.ones(N, N).tril().sum() * x,
    lambda x: torch.ones(N, N).tril(-1).sum() * x,
    lambda x: torch.ones(N, N).triu(1).sum() * x,
    lambda x: (torch.ones(N, N).tril() @ torch.ones(N, N).tril()).sum() * x,
    lambda x: (torch.ones(N, N).tril() @ torch.ones(N, N).triu()).sum() * x,
    lambda x: torch.eye(N).sum() * x,
    lambda x: torch.eye(N)[:3].sum() * x,
    lambda x: torch.ones(N).cumsum(0).sum() * x,
    lambda x: torch.ones(N).cumsum(0)[-1] * x,
    lambda x: torch.ones(N).cumsum(0).cumsum(0)[-1] * x,
    lambda x: _windows(x).sum().expand(N),
    lambda x: _windows(x).sum(0).sum().expand(N),
    lambda x: _windows(x)[:, 1].sum().expand(N),
    lambda x: (_windows(x)[:, 0] + _windows(x)[:, 2]).sum().expand(N),
    lambda x: F.conv1d(x[None, None], torch.ones(1, 1, 3, dtype=x.dtype)).sum().expand(N),
    lambda x: F.conv1d(x[None, None], torch.ones(1, 1, 3, dtype=x.dtype), padding=1).sum().expand(N),
    lambda x: (x[:, None] * torch.ones(N, N).tril()).sum().expand(N),
    lambda x: (x[:, None] * torch.ones(N, N).triu()).sum().expand(N),
    lambda x: x.cumsum(0).sum().expand(N),
    lambda x: (x * (N - torch.arange(N))).sum().expand(N),
    lambda x: (x * (1 + torch.arange(N))).sum().expand(N),
    lambda x: x.sum().expand(N),
    lambda x: x[1:-1].sum().expand(N),
    lambda x: (x + x.flip(0)).sum().expand(N),
    lambda x: (2 * x).sum().expand(N),
    lambda x: 15 * x,
    lambda x: 10 * x,
    lambda x: 5 * x,
    lambda x: 3 * x,
    lambda x: 35 * x,
)  # fmt: skip

FAMILIES: tuple[Family, ...] = (PLACES, CLASSES, TRIANGLES)
