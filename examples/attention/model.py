"""The programs of this example, and how their graphs were made: ``python model.py`` (needs PyTorch; the demo does not).

Causal attention with rotary embeddings and two heads for each head of keys, twice: step by step, as papers have it, and
with one fused weight, PyTorch's fused operator and rotations as products of complex numbers, as a serving engine might.
"""

from __future__ import annotations

import json
import math
from pathlib import Path

import torch
from torch import Tensor
from torch.nn import functional as F

import tantamount as tt
from tantamount.capture.graph_document import graph_document

TOKENS, HEADS, GROUPS, HEAD = 6, 4, 2, 16
WIDTH = HEADS * HEAD


def angles() -> Tensor:
    """Of position t and pair k: [tokens, head / 2]."""
    return torch.arange(TOKENS).outer(10000.0 ** (-torch.arange(0, HEAD, 2) / HEAD))


def rotated(x: Tensor) -> Tensor:
    """x [heads, tokens, head], halves of each head rotated against each other."""
    cos, sin = angles().cos().repeat(1, 2), angles().sin().repeat(1, 2)
    first, second = x.chunk(2, -1)
    return x * cos + torch.cat([-second, first], -1) * sin


def reference(x: Tensor, wq: Tensor, wk: Tensor, wv: Tensor, wo: Tensor) -> Tensor:
    q = rotated((x @ wq.T).view(TOKENS, HEADS, HEAD).transpose(0, 1))
    k = rotated((x @ wk.T).view(TOKENS, GROUPS, HEAD).transpose(0, 1)).repeat_interleave(HEADS // GROUPS, 0)
    v = (x @ wv.T).view(TOKENS, GROUPS, HEAD).transpose(0, 1).repeat_interleave(HEADS // GROUPS, 0)
    scores = q @ k.transpose(1, 2) / math.sqrt(HEAD)
    later = torch.ones(TOKENS, TOKENS, dtype=torch.bool).triu(1)
    weights = scores.masked_fill(later, -math.inf).softmax(-1)
    return (weights @ v).transpose(0, 1).reshape(TOKENS, WIDTH) @ wo.T


def turned(x: Tensor, neighbours: bool) -> Tensor:
    """x [heads, tokens, head], pairs of each head as complex numbers, times e^(i angle)."""
    a, b = x.unflatten(-1, (-1, 2)).unbind(-1) if neighbours else x.chunk(2, -1)
    cos, sin = angles().cos(), angles().sin()
    real, imaginary = a * cos - b * sin, a * sin + b * cos
    return torch.stack([real, imaginary], -1).flatten(-2) if neighbours else torch.cat([real, imaginary], -1)


def fused(x: Tensor, wqkv: Tensor, wo: Tensor, neighbours: bool = False) -> Tensor:
    q, k, v = F.linear(x, wqkv).split([WIDTH, GROUPS * HEAD, GROUPS * HEAD], -1)
    q, k, v = (one.unflatten(-1, (-1, HEAD)).transpose(0, 1) for one in (q, k, v))
    q, k = turned(q, neighbours), turned(k, neighbours)
    found = F.scaled_dot_product_attention(q[None], k[None], v[None], is_causal=True, enable_gqa=True)[0]
    return F.linear(found.transpose(0, 1).flatten(1), wo)


def interleaved(x: Tensor, wqkv: Tensor, wo: Tensor) -> Tensor:
    """The same for a checkpoint of another family: pairs are neighbours."""
    return fused(x, wqkv, wo, neighbours=True)


def main() -> None:
    folder = Path(__file__).parent
    x, keys, out = torch.zeros(TOKENS, WIDTH), torch.zeros(GROUPS * HEAD, WIDTH), torch.zeros(WIDTH, WIDTH)
    wqkv = torch.zeros(WIDTH + 2 * GROUPS * HEAD, WIDTH)
    for function, weights in (
        (reference, (torch.zeros(WIDTH, WIDTH), keys, keys.clone())), (fused, (wqkv,)), (interleaved, (wqkv,)),
    ):  # fmt: skip
        found = tt.capture(function, (x, *weights, out))
        text = json.dumps(graph_document(found.graph)).replace('}, {"name"', '},\n{"name"')  # a line for every node
        (folder / f"{function.__name__}.json").write_text(f"{text}\n")


if __name__ == "__main__":
    main()
