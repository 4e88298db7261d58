"""A specification that stops on every input was PROVED of whatever had its form: nothing is shown of it."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="captures need PyTorch")
import tantamount as tt  # noqa: E402
from tantamount.verdict import Verdict  # noqa: E402

X = torch.tensor([1.0, 2.0, 3.0, 4.0])


def asserted(x: Any, zero: Any) -> Any:
    torch._assert_async(torch.zeros((), dtype=torch.bool))
    return x + zero


def indexed(x: Any, zero: Any) -> Any:
    return (x + zero)[torch.tensor([1, 7])]


def divided(x: Any, zero: Any) -> Any:
    return (x.long() + zero) // torch.tensor([1, 0, 1, 2])


@pytest.mark.parametrize(
    ("program", "place"),
    [
        (asserted, "_assert_async asserts does not hold"),
        (indexed, "an index is 7, not in 0..3"),
        (divided, "divisor of floor"),
    ],
)
def test_nothing_is_shown_of_it(program: Any, place: str) -> None:
    specification = tt.capture(lambda x: program(x, 0), (X,))
    implementation = tt.capture(lambda x: program(x + 0, 0), (X,))
    report = tt.refine(specification, implementation)
    assert report.verdict is Verdict.UNKNOWN
    assert "stops on every input" in report.outputs[0].reason
    assert place in report.outputs[0].reason
    assert tt.refine(specification, specification).verdict is Verdict.PROVED  # one program
