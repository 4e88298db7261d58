"""A call that remembers something, and makes a tensor of a number, was refused: the second call's tensor is another
object, though the same number."""

from __future__ import annotations

import pytest

import tantamount as tt

torch = pytest.importorskip("torch", reason="captures need PyTorch")


def test_numbers_are_the_same_at_every_call() -> None:
    known: dict[str, bool] = {}

    def step(x):  # type: ignore[no-untyped-def]
        known["called"] = True
        return x * torch.tensor(0.5)

    program = tt.capture(step, (torch.zeros(2),))
    assert any(node.op == "constant" for node in program.graph.nodes)


def test_numbers_that_count_calls_are_not() -> None:
    calls = [0]

    def step(x):  # type: ignore[no-untyped-def]
        calls[0] = 1 if calls[0] == 0 else 2
        return x * torch.tensor(float(calls[0]))

    with pytest.raises(tt.UserError) as problem:
        tt.capture(step, (torch.zeros(2),))
    assert problem.value.code == "capture-state"
