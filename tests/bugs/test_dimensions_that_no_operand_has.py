"""``_trilinear`` of a dimension that all operands are expanded by: eager made an empty one of it, or took zeros, and a
product without it was PROVED."""

from __future__ import annotations

import pytest

import tantamount as tt
from tantamount.errors import UserError

torch = pytest.importorskip("torch", reason="captures need PyTorch")


def _program(x: torch.Tensor) -> torch.Tensor:
    return torch._trilinear(x, x, x, [1], [1], [1], [1], 1)


def test_a_dimension_that_no_operand_has_is_refused() -> None:
    x = torch.ones(3)
    assert not torch.equal(_program(x), x * x * x)
    with pytest.raises(UserError, match="a dimension that no operand has"):
        tt.compare(tt.capture(_program, (x,)), tt.capture(lambda x: x * x * x, (x,)))
