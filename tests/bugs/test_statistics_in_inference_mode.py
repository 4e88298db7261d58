"""Batch norms write running statistics in inference mode, where PyTorch records an operator that does not say so."""

from __future__ import annotations

import pytest

import tantamount as tt
from tantamount.errors import UserError

torch = pytest.importorskip("torch")
from torch import Tensor, nn  # noqa: E402


class Inferred(nn.Module):
    def __init__(self, norm: nn.Module) -> None:
        super().__init__()
        self.norm = norm

    def forward(self, x: Tensor) -> Tensor:
        with torch.inference_mode():
            return self.norm(x)


@pytest.mark.parametrize("track", [True, False])
@pytest.mark.parametrize("training", [True, False])
def test_running_statistics(training: bool, track: bool) -> None:
    model = Inferred(nn.BatchNorm1d(3, track_running_stats=track)).train(training)
    old = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    captured = tt.capture(model, (torch.randn(4, 3),))
    model(torch.randn(4, 3))
    written = {f"new {name}" for name, tensor in model.state_dict().items() if not torch.equal(tensor, old[name])}
    assert {output.name for output in captured.graph.outputs} == {"output", *written}


def test_statistics_of_instances() -> None:
    """Their means over instances are written, of copies that a batch norm writes."""
    captured = tt.capture(Inferred(nn.InstanceNorm1d(3, track_running_stats=True)), (torch.randn(2, 3, 4),))
    outside = tt.capture(nn.InstanceNorm1d(3, track_running_stats=True), (torch.randn(2, 3, 4),))
    found = {output.name.replace("norm.", "") for output in captured.graph.outputs}
    assert found == {output.name for output in outside.graph.outputs}
    assert any("functional" in node.target for node in captured.graph.nodes)


def test_updates_alone() -> None:
    """An operator that only updates statistics was dropped where nobody uses what it returns."""

    def run(x: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        torch.batch_norm_update_stats(x, mean, variance, 0.1)
        return x * 2

    with pytest.raises(UserError, match="running statistics"):
        tt.capture(run, (torch.randn(4, 3), torch.zeros(3), torch.ones(3)))
