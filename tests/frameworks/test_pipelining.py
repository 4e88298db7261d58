"""Pipelines of PyTorch: what is proved of them, and what processes compute that really run them."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tantamount.answers import verify_plan
from tantamount.plan.result import PlanReport
from tantamount.verdict import Verdict

torch = pytest.importorskip("torch")

from torch import Tensor, nn  # noqa: E402
from torch.distributed.fsdp import fully_shard  # noqa: E402
from torch.distributed.pipelining import schedules  # noqa: E402
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module  # noqa: E402

from frameworks import pipeline_processes as real  # noqa: E402
from tantamount.capture.torch.pipelining import plan_of_schedule  # noqa: E402

MESH = {"pp": 2, "dp": 2, "tp": 2}


def checked(folder: Path, schedule: Any = schedules.ScheduleInterleaved1F1B, count: int = 4, **more: Any) -> PlanReport:
    with torch.device("meta"):
        stages = [real.Layer() for _ in range(count)]
    given: dict[str, Any] = {"microbatches": 4, "optimizer": real.sgd, "mesh": {"pp": 2}, "loss": real.loss, **more}
    chosen: Any = given.pop("stages", stages)
    first = chosen[0] if isinstance(chosen[0], nn.Module) else chosen[0][0]
    x = torch.empty(16, 4, dtype=next(first.parameters()).dtype)
    path = plan_of_schedule(schedule, chosen, batch=x, target=x, folder=folder, **given)
    return verify_plan(path)


def sharded(module: nn.Module, mesh: Any) -> nn.Module:
    """Tensor parallelism by DTensors, and FSDP2 over it."""
    parallelize_module(module, mesh["tp"], {"up": ColwiseParallel(), "down": RowwiseParallel()})
    return fully_shard(module, mesh=mesh["dp"])


def averaged(module: nn.Module, mesh: Any) -> None:
    for parameter in module.parameters():
        torch.distributed.all_reduce(parameter.grad, group=mesh["dp"].get_group())
        parameter.grad /= mesh["dp"].size()


@pytest.mark.parametrize("name", ["Schedule1F1B", "ScheduleGPipe", "ScheduleInterleaved1F1B", "ScheduleZBVZeroBubble"])
def test_what_is_proved_is_what_processes_compute(name: str, tmp_path: Path) -> None:
    """The schedule's plan is proved, and a real run of it over gloo has the parameters of one device."""
    count = 2 * real.CHUNKS[name]
    report = checked(tmp_path / "plan", getattr(schedules, name), count, stages=real.stages(count))
    assert report.verdict is Verdict.PROVED, report.text()
    with socket.socket() as listening:
        listening.bind(("localhost", 0))
        port = listening.getsockname()[1]
    outs = [tmp_path / f"{rank}.pt" for rank in range(2)]
    command = [sys.executable, real.__file__]
    running = [subprocess.Popen([*command, str(k), "2", str(port), name, str(out)]) for k, out in enumerate(outs)]
    assert real.finished(running) == [0, 0]
    found = {key: value for out in outs for key, value in torch.load(out, weights_only=True).items()}
    whole = nn.Sequential(*real.stages(count))
    x, wanted = real.data()
    optimizer = real.sgd(whole.parameters())
    real.loss(whole(x), wanted).backward()
    optimizer.step()
    expected = dict(whole.named_parameters())
    assert found.keys() == expected.keys()
    for key, value in expected.items():
        assert torch.allclose(found[key], value, atol=1e-12), key


def test_fsdp_and_tensor_parallelism(tmp_path: Path) -> None:
    report = checked(tmp_path, mesh=MESH, parallelize=sharded, optimizer=torch.optim.AdamW)
    assert report.verdict is Verdict.PROVED, report.text()
    assert list(report.mesh) == ["pp", "tp", "dp"]  # FSDP cuts what tensor parallelism has cut


class Forgetful(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, group: Any) -> Tensor:
        x = x.clone()
        torch.distributed.all_reduce(x, group=group)
        return x

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        return gradient, None


class Cut(nn.Module):
    """A layer cut by hand over two ranks, without the sum of the gradients of what it is given."""

    def __init__(self, mesh: Any) -> None:
        super().__init__()
        self.up, self.down, self.group = nn.Linear(4, 4), nn.Linear(4, 4), mesh["tp"].get_group()

    def forward(self, x: Tensor) -> Tensor:
        part = torch.nn.functional.linear(torch.sin(self.up(x)), self.down.weight)
        return x + Forgetful.apply(part, self.group) + self.down.bias


CUTS = {"up.weight": {"tp": "Shard(0)"}, "up.bias": {"tp": "Shard(0)"}, "down.weight": {"tp": "Shard(1)"}}


@pytest.mark.parametrize(
    ("change", "part", "words"),
    [
        ({"stage_loss": lambda y, t: real.loss(y, t) / 4}, "Layer3", "0.25"),
        ({"mesh": {"pp": 2, "dp": 2}}, "Layer_reduce", "a mean over dp is missing"),
        (
            {"mesh": {"pp": 2, "dp": 2}, "reduce": lambda m, _: [p.grad.div_(2) for p in m.parameters()]},
            "Layer_reduce", "over dp is missing",
        ),
        (
            {"mesh": {"pp": 2, "tp": 2}, "parallelize": lambda _, mesh: Cut(mesh), "placements": CUTS},
            "Layer2", "a sum over tp is missing",
        ),
    ],
    ids=["loss divided twice", "no reduction", "divided and not added", "no sum in the backward pass"],
)  # fmt: skip
def test_wrong_twins(change: dict[str, Any], part: str, words: str, tmp_path: Path) -> None:
    report = checked(tmp_path, **change)
    assert report.verdict is Verdict.REFUTED, report.text()
    refuted = {found.part: found for found in report.parts if found.verdict is Verdict.REFUTED}
    assert part in refuted, report.text()
    assert words in report.text() or words in str(refuted[part].mismatch)


def test_gradients_that_are_averaged(tmp_path: Path) -> None:
    report = checked(tmp_path, mesh={"pp": 2, "dp": 2}, reduce=averaged)
    assert report.verdict is Verdict.PROVED, report.text()


@pytest.mark.parametrize("layers", [2, 6])
def test_captures_do_not_grow_with_layers(layers: int, tmp_path: Path) -> None:
    with torch.device("meta"):
        stages: list[Any] = [[real.Layer() for _ in range(layers)] for _ in range(4)]
    counted: Callable[..., PlanReport] = checked
    report = counted(tmp_path, stages=stages)
    assert report.verdict is Verdict.PROVED
    assert len(report.parts) == 9
