"""NaN and infinities that programs ask for, rows of zeros that are quantised, tables of positions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import tantamount as tt
from tantamount.verdict import Verdict

torch = pytest.importorskip("torch")
from torch import Tensor  # noqa: E402

inf = float("inf")
X, M, P = torch.ones(3, 4), torch.zeros(3, 4, dtype=torch.bool), torch.zeros(3, dtype=torch.int64)
Program = Callable[..., Any]


def weights(x: Tensor, m: Tensor) -> Tensor:
    return x.masked_fill(m, -inf).softmax(-1)


def cleaned(x: Tensor, m: Tensor) -> Tensor:
    return weights(x, m).masked_fill(m.all(-1, keepdim=True), 0)


def chosen(x: Tensor, m: Tensor) -> Tensor:
    p = weights(x, m)
    return torch.where(torch.isnan(p), 0, p)


def quantised(x: Tensor, low: int = -128) -> Tensor:
    scale = x.abs().amax(-1, keepdim=True) / 127
    return (x / scale).round().clamp(low, 127).to(torch.int8).float() * scale


def rounded(x: Tensor) -> Tensor:
    scale = x.abs().amax(-1, keepdim=True) / 127
    return (x / scale).round().clamp(-128, 127) * scale


def cached(x: Tensor, p: Tensor, base: float = 100.0) -> Tensor:
    angles = torch.outer(torch.arange(8.0), base ** -torch.linspace(0, 1, 4))
    return x * angles.cos()[p] + x.flip(-1) * angles.sin()[p]


def direct(x: Tensor, p: Tensor, base: float = 100.0) -> Tensor:
    angles = p[:, None] * base ** -torch.linspace(0, 1, 4)
    return x * angles.cos() + x.flip(-1) * angles.sin()


def least(x: Tensor, kth: Tensor) -> Tensor:
    return x.masked_fill(x < kth, -inf).softmax(-1)


PAIRS: dict[str, tuple[Program, Program, Program | None, tuple[Tensor, ...]]] = {
    "rows that are masked": (chosen, cleaned, weights, (X, M)),
    "nan_to_num": (
        lambda x, m: torch.nan_to_num(weights(x, m)), cleaned, lambda x, m: torch.nan_to_num(weights(x, m), 1.0),
        (X, M),
    ),
    "infinities by number": (
        lambda x, m: x.masked_fill(m, -inf).nan_to_num(neginf=-5.0), lambda x, m: x.masked_fill(m, -5.0),
        lambda x, m: x.masked_fill(m, -4.0), (X, M),
    ),
    "isfinite": (lambda x, m: x.masked_fill(m, -inf).isfinite(), lambda x, m: ~m, lambda x, m: m, (X, M)),
    "isfinite of a logarithm": (lambda x: x.log().isfinite(), lambda x: x > 0, lambda x: x >= 0, (X,)),
    "isnan of a quotient": (lambda x: (x / x).isnan(), lambda x: x == 0, lambda x: x != x, (X,)),
    "rows of zeros": (quantised, rounded, lambda x: quantised(x, -127 + 64), (X,)),
    "rotary cache": (cached, direct, lambda x, p: direct(x, p, 10.0), (X, P)),
    "k-th of a row": (
        lambda x: least(x, x.topk(2).values[..., 1:]),
        lambda x: least(x, x.sort(descending=True).values[..., 1:2]),
        lambda x: least(x, x.sort(descending=True).values[..., 2:3]), (X,),
    ),
    "moving average": (
        lambda x: x.lerp(x * x, 1 - 0.99), lambda x: x * 0.99 + x * x * (1 - 0.99),
        lambda x: x * 0.9 + x * x * (1 - 0.9), (X,),
    ),
    "blocks": (
        lambda x: torch.block_diag(x, x[0], x[:, 0]), lambda x: torch.block_diag(torch.block_diag(x, x[0]), x[:, 0]),
        lambda x: torch.block_diag(x, x[1], x[:, 0]), (X,),
    ),
    "exponential of a matrix": (
        lambda x: torch.matrix_exp(x @ x.T), lambda x: torch.linalg.matrix_exp(x.mul(1) @ x.T),
        lambda x: torch.matrix_exp(2 * x @ x.T), (X,),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", PAIRS)
def test_equal_and_different(name: str) -> None:
    first, second, wrong, given = PAIRS[name]
    spec = tt.capture(first, given)
    assert tt.refine(spec, tt.capture(second, given)).verdict is Verdict.PROVED
    if wrong is not None:
        assert tt.refine(spec, tt.capture(wrong, given)).verdict is not Verdict.PROVED


def test_what_is_no_number_where_it_is_not_known_is_open() -> None:
    """Sums of infinities of both signs, and products of them with what may be 0."""
    both = lambda x, m: x.masked_fill(m, -inf) + x.masked_fill(m, inf)  # noqa: E731
    some = lambda x, m: x.masked_fill(m, -inf) * x  # noqa: E731
    for z in (both, some):
        spec = tt.capture(lambda x, m, z=z: torch.where(z(x, m).isnan(), 0, 1.0), (X, M))
        assert tt.refine(spec, tt.capture(lambda x, m: torch.ones_like(x), (X, M))).verdict is not Verdict.PROVED
