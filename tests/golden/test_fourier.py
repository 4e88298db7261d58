"""Fourier transforms: sums that are linear in what is transformed, so that scaling, adding and sharding the other
dimensions are proved, and a transform along another dimension, or scaled otherwise, is refuted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="capture needs PyTorch")

import tantamount as tt  # noqa: E402
from tantamount.verdict import Verdict  # noqa: E402

fft = torch.fft
X = torch.zeros(4, 6)
Program = Callable[[Any], Any]
PAIRS: dict[str, tuple[Program, Program, Program]] = {  # the specification, what is right, and a wrong twin
    "linear": (lambda x: fft.rfft(2 * x).real, lambda x: 2 * fft.rfft(x).real, lambda x: 2 * fft.rfft(x).imag),
    "two dimensions": (
        lambda x: fft.fft2(x).real, lambda x: fft.fft(fft.fft(x, dim=0), dim=1).real, lambda x: fft.fft(x).real,
    ),
    "normalised": (
        lambda x: fft.rfft(x, norm="forward").imag, lambda x: fft.rfft(x).imag / 6, lambda x: fft.rfft(x).imag / 36,
    ),
    "there and back": (
        lambda x: fft.irfft(2 * fft.rfft(x), n=6), lambda x: fft.irfft(fft.rfft(x), n=6) * 2,
        lambda x: fft.irfft(fft.rfft(x).conj(), n=6) * 2,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", PAIRS)
def test_transforms(name: str) -> None:
    spec, right, wrong = PAIRS[name]
    whole = tt.capture(spec, (X,))
    report = tt.refine(whole, tt.capture(right, (X,)))
    assert report.verdict is Verdict.PROVED, str(report)
    report = tt.refine(whole, tt.capture(wrong, (X,)))
    assert report.verdict is Verdict.REFUTED, str(report)


def test_rows_on_ranks() -> None:
    def build(_: int) -> Any:
        return lambda x: fft.rfft(x).real, (X[:2],)

    ranks = tt.capture_ranks(build, 2, mesh={"dp": 2})
    report = tt.refine(tt.capture(lambda x: fft.rfft(x).real, (X,)), ranks, inputs={"x": "Shard(0)"})
    assert report.verdict is Verdict.PROVED, str(report)
    assert str(report.relations[0]).endswith("Shard(0)"), str(report)
