"""Shards of tensors, and attention: what several tests of identities are written with."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from itertools import pairwise
from math import inf

import pytest

from support.calculus import Workbench
from tantamount.ir.types import DType
from tantamount.ops.algebra import Tensor

INT = DType.INT64
FLOAT = DType.FLOAT32
Cuts = Sequence[tuple[int, int]]


def even(n: int, parts: int) -> Cuts:
    """Consecutive parts of ``ceil(n / parts)`` elements; the last may be shorter, and there may be fewer."""
    size = -(-n // parts)
    return [(low, min(low + size, n)) for low in range(0, n, size)]


def uneven(n: int, parts: int) -> Cuts:
    """Parts of decreasing size: 3, 3, 3, 1 and the like."""
    bounds = sorted({0, n, *(min(n - 1, (k * n * 2) // (2 * parts) + k % 2) for k in range(1, parts))})
    return list(pairwise(bounds))


def zigzag(n: int, parts: int) -> Cuts:
    """Rank r has chunks r and 2 p - 1 - r: the order in which causal context parallelism deals them out."""
    chunks = even(n, 2 * parts)
    order = [k for r in range(parts) for k in (r, 2 * parts - 1 - r) if k < len(chunks)]
    return [chunks[k] for k in order]


CUTS = [
    pytest.param(cuts(12, parts), id=f"{cuts.__name__}{parts}")
    for parts in range(1, 9)
    for cuts in (even, uneven, zigzag)
]


def sliced(w: Workbench, x: Tensor, dim: int, cuts: Cuts) -> list[Tensor]:
    return [w.b.slice(x, dim, low, high) for low, high in cuts]


def added(w: Workbench, parts: Sequence[Tensor]) -> Tensor:
    total = parts[0]
    for part in parts[1:]:
        total = w.b.add(total, part)
    return total


def tree(w: Workbench, parts: Sequence[Tensor]) -> Tensor:
    while len(parts) > 1:
        parts = [added(w, parts[k : k + 2]) for k in range(0, len(parts), 2)]
    return parts[0]


def placed(w: Workbench, parts: Sequence[Tensor], dim: int, cuts: Cuts) -> Tensor:
    """Parts in the order of ``cuts`` put back in the order of positions."""
    order = sorted(range(len(cuts)), key=lambda k: cuts[k])
    return w.b.concat([parts[k] for k in order], dim)


def attention(w: Workbench, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Tensor:
    """q[..., i, d], k[..., j, d], v[..., j, d]."""
    scores = w.b.mul(w.aten("aten.matmul.default", q, w.b.transpose(k, -2, -1)), Fraction(1, 2))
    if mask is not None:
        scores = w.b.where(mask, -inf, scores)
    return w.aten("aten.matmul.default", w.aten("aten._softmax.default", scores, scores.rank - 1, False), v)
