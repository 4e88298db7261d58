"""What an infinity becomes as a whole number is the processor's choice: nothing that is shown may rest on it.

``log(0).long()`` was 0 in executions. A program whose outputs depend on it was REFUTED by values that PyTorch does not
compute, and one that was compared with them at single positions ended in a traceback.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import tantamount as tt
from tantamount import Verdict

torch = pytest.importorskip("torch", reason="programs are captured")


def infinite(dtype: Any = None, sign: int = -1) -> Any:
    """Whole numbers, the first of which an infinity became."""
    numbers = torch.log(torch.arange(2.0)) if sign < 0 else 1 / torch.arange(2.0)
    return numbers.to(dtype or torch.int64)


LEAST = torch.iinfo(torch.int32).min
PAIRS: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {  # equal in eager, on some processors
    "the sign": (lambda x: x + torch.tensor([1, 0]), lambda x: x + (infinite() < 0)),
    "a clamp": (lambda x: x, lambda x: x + infinite().clamp(min=-3) + torch.tensor([3, 0])),
    "a clamp at one place": (lambda x: x - torch.tensor([3, 0]), lambda x: x + infinite().clamp(min=-3)),
    "the least number of 32 bits": (lambda x: x + (infinite(torch.int32) == LEAST), lambda x: x + torch.tensor([1, 0])),
    "far below": (lambda x: x + (infinite() < -(1 << 41)), lambda x: x + torch.tensor([1, 0])),
    "of an input": (lambda x: (x > 0).float(), lambda x: (x.clamp(min=0).log().long() >= -200).float()),
    "two infinities": (lambda x: x + torch.tensor([0, 1]), lambda x: x + (infinite(sign=1) - infinite())),
}


@pytest.mark.parametrize("name", PAIRS)
def test_no_value_of_an_infinity_is_shown(name: str) -> None:
    example = (torch.randn(2),)
    one, other = (tt.capture(program, example) for program in PAIRS[name])
    assert tt.refine(one, other).verdict is Verdict.UNKNOWN
    assert tt.refine(other, one).verdict is Verdict.UNKNOWN


def test_what_does_not_reach_an_output_refutes_as_ever() -> None:
    def program(x: Any, k: int) -> Any:
        return x[torch.where(torch.arange(2) == 0, k, infinite().clamp(0, 1))]

    programs = [tt.capture(lambda x, k=k: program(x, k), (torch.randn(2),)) for k in (0, 1)]
    assert tt.refine(*programs).verdict is Verdict.REFUTED
