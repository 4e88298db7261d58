"""Numbers that PyTorch's kernels round to 32 bits before they use them are the numbers that their users wrote."""

from __future__ import annotations

from typing import Any

import pytest

import tantamount as tt
from tantamount import Verdict

torch = pytest.importorskip("torch", reason="captures need PyTorch")


@pytest.mark.parametrize(
    ("epsilon", "dtype", "verdict"),
    [(1e-5, "float32", Verdict.PROVED), (1.1e-5, "float32", Verdict.REFUTED), (1e-5, "float64", Verdict.PROVED)],
)
def test_the_epsilon_of_a_norm(epsilon: float, dtype: str, verdict: Verdict) -> None:
    def written(x: Any) -> Any:
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + epsilon)

    norm = torch.nn.RMSNorm(8, eps=1e-5, elementwise_affine=False)
    x = torch.randn(2, 8, dtype=getattr(torch, dtype))
    assert tt.refine(tt.capture(norm, (x,)), tt.capture(written, (x,))).verdict is verdict


def test_numbers_of_64_bits_stay_what_they_are() -> None:
    near = 9.999999747378752e-06
    for dtype, proved in ((torch.float64, False), (torch.float32, True)):
        x = torch.randn(3, dtype=dtype)
        one, other = tt.capture(lambda y: y + near, (x,)), tt.capture(lambda y: y + 1e-5, (x,))
        assert (tt.refine(one, other).verdict is Verdict.PROVED) == proved
        assert torch.equal(x + near, x + 1e-5) or not proved
