"""Attention and recurrences as papers, kernels and serving engines write them, and a wrong twin of each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest

torch = pytest.importorskip("torch")
F = torch.nn.functional

import tantamount as tt  # noqa: E402
from tantamount.verdict import Verdict  # noqa: E402

Function = Callable[..., Any]
ROWS, WIDTH = 5, 4


def causal(scores: Any) -> Any:
    return scores.masked_fill(torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1), float("-inf"))


def attention(q: Any, k: Any, v: Any) -> Any:
    return causal(q @ k.transpose(-1, -2) * WIDTH**-0.5).softmax(-1) @ v


# ------------------------------------------------------------------------------------------------ latent keys (MLA)
def expanded(x: Any, latent: Any, to_q: Any, to_k: Any, to_v: Any) -> Any:
    return attention(x @ to_q, latent @ to_k, latent @ to_v)


def absorbed(x: Any, latent: Any, to_q: Any, to_k: Any, to_v: Any, *, scale: float = WIDTH**-0.5) -> Any:
    scores = (x @ to_q @ to_k.t()) @ latent.t() * scale
    return causal(scores).softmax(-1) @ latent @ to_v


# ------------------------------------------------------------------------------------------------ the gradient
def differentiated(q: Any, k: Any, v: Any, d: Any) -> Any:
    with torch.enable_grad():
        given = [x.detach().requires_grad_() for x in (q, k, v)]
        return torch.autograd.grad(attention(*given), given, d)


def by_rows(q: Any, k: Any, v: Any, d: Any, *, off: float = 1.0) -> Any:
    """As the backward pass of FlashAttention: from logarithms of sums, and the product of a row with its gradient."""
    scores = causal(q @ k.t() * WIDTH**-0.5)
    p = torch.exp(scores - scores.logsumexp(-1, keepdim=True))
    row = (d * (p @ v)).sum(-1, keepdim=True) * off
    slope = p * (d @ v.t() - row) * WIDTH**-0.5
    return slope @ k, slope.t() @ q, p.t() @ d


# ------------------------------------------------------------------------------------------------ parts of the keys
def whole(q: Any, k: Any, v: Any) -> Any:
    return (q @ k.t()).softmax(-1) @ v


def merged(q: Any, k: Any, v: Any, *, sign: float = 1.0) -> Any:
    """Blocks of keys one after the other, as a ring brings them."""
    out, total = None, None
    for at in (slice(0, 2), slice(2, 3), slice(3, ROWS)):
        scores = q @ k[at].t()
        new, log = scores.softmax(-1) @ v[at], scores.logsumexp(-1, keepdim=True)
        if out is None:
            out, total = new, log
        else:
            out = out - torch.sigmoid(sign * (log - total)) * (out - new)
            total = total - F.logsigmoid(total - log)
    return out


# ------------------------------------------------------------------------------------------------ recurrences
def delta(q: Any, k: Any, v: Any, b: Any) -> Any:
    state, out = torch.zeros(WIDTH, WIDTH), []
    for t in range(q.shape[0]):
        state = state + b[t].sigmoid() * torch.outer(k[t], v[t] - k[t] @ state)
        out.append(q[t] @ state)
    return torch.stack(out)


def delta_at_once(q: Any, k: Any, v: Any, b: Any, *, below: int = -1) -> Any:
    """DeltaNet's chunk: the inverse of a triangular matrix, as a sum of its powers."""
    gate = b.sigmoid()[:, None]
    a = -(gate * k @ k.t()).tril(below)
    inverse = torch.eye(3) + a + a @ a
    return (q @ k.t()).tril() @ (inverse @ (gate * v))


def rwkv(k: Any, v: Any, w: Any, u: Any) -> Any:
    a, b, out = torch.zeros(WIDTH), torch.zeros(WIDTH), []
    for t in range(3):
        now = torch.exp(u + k[t])
        out.append((a + now * v[t]) / (b + now))
        decay = torch.exp(-torch.exp(w))
        a, b = decay * a + torch.exp(k[t]) * v[t], decay * b + torch.exp(k[t])
    return torch.stack(out)


def rwkv_stable(k: Any, v: Any, w: Any, u: Any, *, first: float = 0.0) -> Any:
    a, b, top, out = v[0], torch.ones(WIDTH), k[0] + first, [v[0]]
    for t in range(1, 3):
        most = torch.maximum(top, u + k[t])
        old, new = torch.exp(top - most), torch.exp(u + k[t] - most)
        out.append((old * a + new * v[t]) / (old * b + new))
        most = torch.maximum(top - torch.exp(w), k[t])
        old, new = torch.exp(top - torch.exp(w) - most), torch.exp(k[t] - most)
        a, b, top = old * a + new * v[t], old * b + new, most
    return torch.stack(out)


def scan(x: Any, step: Any, a: Any, b: Any, c: Any) -> Any:
    h, out = torch.zeros(2, WIDTH), []
    for t in range(3):
        h = torch.exp(-step[t, :, None] * a.exp()) * h + step[t, :, None] * b[t] * x[t, :, None]
        out.append((h * c[t]).sum(-1))
    return torch.stack(out)


def scan_at_once(x: Any, step: Any, a: Any, b: Any, c: Any, *, start: int = 0) -> Any:
    """Mamba's selective scan by a sum over all steps before."""
    total = torch.einsum("td,dn->tdn", step, -a.exp()).cumsum(0) * (1 if start == 0 else 2)
    added = torch.einsum("td,tn,td->tdn", step, b, x)
    return torch.einsum("tdn,tn->td", (added * torch.exp(-total)).cumsum(0) * torch.exp(total), c)


# ------------------------------------------------------------------------------------------------ what must hold
@dataclass(frozen=True)
class Ways:
    """Two functions of tensors of these shapes that compute the same, and one that does not."""

    first: Function
    second: Function
    wrong: Function
    shapes: tuple[tuple[int, ...], ...]


SQUARE = (ROWS, WIDTH)
WAYS = {
    "latent keys": Ways(
        expanded, absorbed, partial(absorbed, scale=8**-0.5),
        (SQUARE, (ROWS, 3), (WIDTH, WIDTH), (3, WIDTH), (3, WIDTH)),
    ),
    "gradient": Ways(differentiated, by_rows, partial(by_rows, off=0.5), (SQUARE,) * 4),
    "ring": Ways(whole, merged, partial(merged, sign=-1.0), (SQUARE,) * 3),
    "delta rule": Ways(delta, delta_at_once, partial(delta_at_once, below=0), ((3, WIDTH),) * 3 + ((3,),)),
    "rwkv": Ways(rwkv, rwkv_stable, partial(rwkv_stable, first=1.0), ((3, WIDTH),) * 2 + ((WIDTH,),) * 2),
    "selective scan": Ways(
        scan, scan_at_once, partial(scan_at_once, start=1), ((3, 2), (3, 2), (2, WIDTH), (3, WIDTH), (3, WIDTH))
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", WAYS)
def test_two_ways_and_a_wrong_one(name: str) -> None:
    ways = WAYS[name]
    generator = torch.Generator().manual_seed(0)
    given = tuple(torch.randn(shape, generator=generator) for shape in ways.shapes)
    first, second, wrong = (tt.capture(f, given) for f in (ways.first, ways.second, ways.wrong))
    assert tt.compare(first, second, accept=["relation-guessed"]).verdict is Verdict.PROVED
    assert tt.compare(first, wrong, accept=["relation-guessed"]).verdict is Verdict.REFUTED
