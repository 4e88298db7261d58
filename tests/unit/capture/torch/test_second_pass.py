"""A graph in which nothing is written is functional as it was recorded; every other one goes through a second pass."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="captures need PyTorch")

import tantamount as tt  # noqa: E402
from tantamount.capture.torch import tracing  # noqa: E402
from tantamount.capture.torch.overwriting import without_writes  # noqa: E402

X = torch.ones(4, 6)


def _views(x: Any) -> Any:
    return (x.t() @ x).reshape(3, 12).unsqueeze(0).expand(2, 3, 12).contiguous().narrow(1, 0, 2).detach()


def _constants(x: Any) -> Any:
    return x * torch.tensor([1.0, 2.0, 3.0, 4.0, 5.0, 6.0]) + torch.arange(6)


def _gradient(x: Any) -> Any:
    weight = torch.ones(6, 6, requires_grad=True)
    loss = torch.nn.functional.layer_norm(x @ weight, (6,)).softmax(-1).square().mean()
    return torch.autograd.grad(loss, weight)


def _split(x: Any) -> Any:
    a, b = x.split([2, 2])
    return torch.cat([b, a.flip(0)]), x.topk(2).indices


READS: dict[str, Callable[[Any], Any]] = {f.__name__: f for f in (_views, _constants, _gradient, _split)}
WRITES: dict[str, Callable[[Any], Any]] = {
    "in place": lambda x: (x * 2).add_(1),
    "into a view": lambda x: ((y := x * 2), y[0].zero_())[0],
    "to an operand": lambda x: x.mul_(2),
    "out=": lambda x: torch.add(x, 1, out=torch.empty(4, 6)),
    "of many": lambda x: ((y := [x * 2]), torch._foreach_add_(y, 1.0))[0],
    "of shapes": lambda x: (x * 2).squeeze_(0),
    "by index": lambda x: ((y := x * 2), y.__setitem__(torch.tensor([0]), 1.0))[0],
}


@pytest.mark.parametrize("name", READS)
def test_what_only_reads_is_what_the_second_pass_makes_of_it(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[bool] = []

    def noted(module: Any) -> Any:
        found = without_writes(module)
        taken.append(found is not None)
        return found

    monkeypatch.setattr(tracing, "without_writes", noted)
    once = tt.capture(READS[name], (X,)).document
    assert taken == [True]
    monkeypatch.setattr(tracing, "without_writes", lambda module: None)
    assert once == tt.capture(READS[name], (X,)).document


@pytest.mark.parametrize("name", WRITES)
def test_what_writes_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[bool] = []

    def noted(module: Any) -> Any:
        taken.append(without_writes(module) is None)
        return without_writes(module)

    monkeypatch.setattr(tracing, "without_writes", noted)
    document = tt.capture(WRITES[name], (X,)).document
    assert taken == [True]
    assert not any(node["target"].split(".")[1].endswith("_") for node in document["nodes"] if "." in node["target"])
