"""A Fourier transform was the sum of all products, so that an infinite element made every element infinite or NaN.
Eager leaves out what is multiplied by 0: the imaginary part at 0 of the transform of reals is 0, whatever these are.
So a program that is NaN there was PROVED: ``0 * log(x).sum()``, for that imaginary part of ``log(x)``'s transform."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="capture needs PyTorch")

import tantamount as tt  # noqa: E402
from support.aten_agreement import judge  # noqa: E402
from support.aten_calls import called  # noqa: E402
from tantamount.verdict import Verdict  # noqa: E402

X = torch.rand(2, 6)
aten = torch.ops.aten
SPECIAL = torch.tensor([float("inf"), -float("inf"), float("nan")], dtype=torch.float64)


@pytest.mark.parametrize("function", [torch.log, torch.reciprocal, lambda x: torch.where(x > 0, x, -torch.inf)])
def test_what_is_nan_where_the_transform_is_zero(function: object) -> None:
    spec = tt.capture(lambda x: torch.fft.rfft(function(x)).imag[:, 0], (X,))  # pyright: ignore[reportCallIssue]
    wrong = tt.capture(lambda x: (0 * function(x)).sum(1), (X,))  # pyright: ignore[reportCallIssue]
    assert tt.refine(spec, wrong).verdict is not Verdict.PROVED
    assert tt.refine(spec, spec).verdict is Verdict.PROVED


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 6, 7])
def test_infinite_signals_are_transformed_as_in_eager(n: int) -> None:
    generator = torch.Generator().manual_seed(n)

    def signal(*shape: int) -> torch.Tensor:
        x = torch.randn(shape, generator=generator, dtype=torch.float64)
        flat = x.view(-1)
        places = torch.randperm(flat.numel(), generator=generator)[: 1 + n // 3]
        flat[places] = SPECIAL[torch.randint(3, places.shape, generator=generator)]
        return x

    for _ in range(4):
        z, half = torch.view_as_complex(signal(2, n, 2)), torch.view_as_complex(signal(2, n // 2 + 1, 2))
        for call in (
            called(aten._fft_r2c.default, [signal(2, n), [1], 0, True], {}),
            called(aten._fft_r2c.default, [signal(2, n), [0, 1], 1, False], {}),
            called(aten._fft_c2c.default, [z, [0, 1], 2, True], {}),
            called(aten._fft_c2r.default, [half, [1], 1, n], {}),
        ):
            outcome = judge(call)
            assert outcome is not None
            assert outcome.kind == "equal", f"{call}: {outcome.text}"
