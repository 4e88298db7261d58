"""``sign(x^2) < 0`` was taken for ``x != 0``: what has the sign of an even power was held to be negative."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import tantamount as tt
from tantamount.verdict import Verdict

torch = pytest.importorskip("torch", reason="captures need PyTorch")
from torch import Tensor  # noqa: E402

SQUARES: dict[str, Callable[[Tensor], Tensor]] = {
    "sign of a square": lambda x: torch.sign(x * x),
    "sign of a size": lambda x: torch.sign(x.abs()),
    "sign of a sign": lambda x: torch.sign(torch.sign(x * x)),
    "sign of a fourth power": lambda x: torch.sign(x**4) * 3,
    "grown": lambda x: torch.tanh(x * x),
    "less one": lambda x: torch.expm1(x * x),
    "arc": lambda x: torch.atan(x * x) * 2,
    "third power": lambda x: (x * x) ** 3,
}


@pytest.mark.parametrize("name", SQUARES)
def test_no_square_has_a_negative_sign(name: str) -> None:
    square = SQUARES[name]
    x = torch.tensor([-2.0, -0.5, 0.0, 1.5])
    anything_but_zero = tt.capture(lambda x: x != 0, (x,))
    for compared, right in (
        (lambda x: square(x) < 0, lambda x: torch.zeros_like(x, dtype=torch.bool)),
        (lambda x: -square(x) < 0, lambda x: x != 0),
    ):
        assert torch.equal(compared(x), right(x))
        ours = tt.capture(compared, (x,))
        assert tt.refine(ours, tt.capture(right, (x,))).verdict is Verdict.PROVED
        wanted = Verdict.PROVED if bool(right(x).any()) else Verdict.REFUTED
        assert tt.refine(ours, anything_but_zero).verdict is wanted
