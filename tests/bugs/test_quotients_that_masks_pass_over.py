"""A quotient that is truncated was told apart by the sign of its divisor only, as if a divisor that is 0 left nothing
to compare. A mask may pass over the quotient there, and choose something else: two programs that choose differently
were PROVED equal."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

import tantamount as tt
from tantamount.limits import Limits
from tantamount.verdict import Verdict

GIVEN = (torch.ones(3), torch.ones(3))


def truncated(x: Tensor, b: Tensor) -> Tensor:
    return torch.div(x, b, rounding_mode="trunc")


def by_sign(last: float) -> Callable[[Tensor, Tensor], Tensor]:
    return lambda x, b: torch.where(
        b > 0, truncated(x, b), torch.where(b < 0, -truncated(x, -b), torch.full_like(x, last))
    )


def by_size(last: float) -> Callable[[Tensor, Tensor], Tensor]:
    return lambda x, b: torch.where(
        x.abs() < b.abs(), 0.0, torch.where(b == 0, torch.full_like(x, last), truncated(x, b))
    )


@pytest.mark.parametrize("program", [by_sign, by_size])
def test_what_a_mask_chooses_where_a_divisor_is_0_is_compared(
    program: Callable[[float], Callable[..., Tensor]],
) -> None:
    for limits in (None, Limits(witness_elements=0, witness_work=0)):
        report = tt.refine(tt.capture(program(0.0), GIVEN), tt.capture(program(1.0), GIVEN), limits=limits)
        assert report.verdict is (Verdict.REFUTED if limits is None else Verdict.UNKNOWN), report
    assert tt.refine(tt.capture(program(1.0), GIVEN), tt.capture(program(1.0), GIVEN)).proved
