"""A parameter in a list is not the stand-in that its module has during a capture: ``is`` says that they differ."""

from __future__ import annotations

import pytest

import tantamount as tt
from tantamount.errors import UserError

torch = pytest.importorskip("torch", reason="captures need PyTorch")
from torch import Tensor, nn  # noqa: E402


def test_a_parameter_of_a_list_is_that_of_the_module_or_is_refused() -> None:
    model = nn.Linear(4, 4)
    chosen = [model.weight]

    def step(x: Tensor) -> Tensor:
        return model(x) if chosen[0] is model.weight else 2 * model(x)

    try:
        captured = tt.capture(step, (torch.ones(2, 4),), modules=model)
    except UserError:
        return
    assert "aten.mul.Tensor" not in [node.target for node in captured.graph.nodes]


def test_through_the_module_it_is_the_same() -> None:
    model = nn.Linear(4, 4)

    def step(x: Tensor) -> Tensor:
        return model(x) if next(model.parameters()) is model.weight else 2 * model(x)

    captured = tt.capture(step, (torch.ones(2, 4),), modules=model)
    assert "aten.mul.Tensor" not in [node.target for node in captured.graph.nodes]
