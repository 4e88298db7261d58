"""Experts that are cut over the ranks that have the rows of the batch: their gradients are complete where they are."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tantamount.answers import verify_plan
from tantamount.errors import UserError
from tantamount.plan.read import read_plan
from tantamount.verdict import Verdict

torch = pytest.importorskip("torch")

from torch import Tensor, nn  # noqa: E402
from torch.distributed._functional_collectives import all_to_all_single_autograd  # noqa: E402
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh  # noqa: E402
from torch.distributed.fsdp import fully_shard  # noqa: E402
from torch.distributed.pipelining import ScheduleGPipe  # noqa: E402
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor  # noqa: E402

from tantamount.capture.torch.pipelining import plan_of_schedule  # noqa: E402
from tantamount.capture.torch.training.ranks import capture_side  # noqa: E402

EXPERTS = 2
Reduce = Callable[[nn.Module, Any], None]


class Experts(nn.Module):
    """Every token visits every expert, with the weight that the router gives it there."""

    def __init__(self) -> None:
        super().__init__()
        self.router = nn.Linear(4, EXPERTS, bias=False)
        self.weight = nn.Parameter(torch.empty(EXPERTS, 4, 4))

    def forward(self, x: Tensor) -> Tensor:
        weight, rows = self.weight, x.unsqueeze(0).expand(EXPERTS, -1, -1).flatten(0, 1)
        if isinstance(weight, DTensor):
            group = weight.device_mesh.get_group()
            weight, there = weight.to_local(), all_to_all_single_autograd(rows, None, None, group)
            made = torch.bmm(there.unflatten(0, (len(weight), -1)), weight).flatten(0, 1)
            made = all_to_all_single_autograd(made, None, None, group)
        else:
            made = torch.bmm(rows.unflatten(0, (EXPERTS, -1)), weight).flatten(0, 1)
        by = torch.sigmoid(self.router(x)).t().unsqueeze(-1)
        return x + (made.unflatten(0, (EXPERTS, -1)) * by).sum(0)


def spread(module: nn.Module, _: Any) -> nn.Module:
    """Experts on a mesh that knows the ranks by another name."""
    mesh = init_device_mesh("cpu", (2,), mesh_dim_names=("experts",))
    module.weight = nn.Parameter(distribute_tensor(module.weight.detach(), mesh, [Shard(0)]))
    return module


def reduced(*names: str) -> Reduce:
    def reduce(module: nn.Module, mesh: Any) -> None:
        for name, parameter in module.named_parameters():
            gradient = parameter.grad.to_local() if isinstance(parameter.grad, DTensor) else parameter.grad
            if name in names:
                torch.distributed.all_reduce(gradient, group=mesh["dp"].get_group())

    return reduce


def plan(folder: Path, reduce: Reduce | None, parallelize: Any = spread) -> Path:
    with torch.device("meta"):
        stages = [[Experts()], [Experts()]]
    return plan_of_schedule(
        ScheduleGPipe, stages, microbatches=2, mesh={"pp": 2, "dp": 2}, parallelize=parallelize, reduce=reduce,
        loss=lambda y, wanted: ((y - wanted) ** 2).sum(), reduction="sum", scale_grads=False, batch=torch.empty(8, 4),
        target=torch.empty(8, 4), optimizer=torch.optim.SGD, folder=folder,
    )  # fmt: skip


def test_experts_on_ranks_are_proved(tmp_path: Path) -> None:
    path = plan(tmp_path, reduced("router.weight"))
    report = verify_plan(path)
    assert report.verdict is Verdict.PROVED, report.text()
    part = read_plan(path).parts["Experts"]
    left = part.job.outputs["grad weight"], part.job.outputs["grad router.weight"]
    assert "Shard" in str(left[0])
    assert "Shard" not in str(left[1])


@pytest.mark.parametrize("names", [("router.weight", "weight"), ()])
def test_reductions_over_wrong_ranks_are_refuted(names: tuple[str, ...], tmp_path: Path) -> None:
    """Experts' gradients added to those of other experts; the router's added to none."""
    report = verify_plan(plan(tmp_path, reduced(*names)))
    wrong = {part.part for part in report.parts if part.verdict is Verdict.REFUTED}
    assert wrong == {"Experts_reduce", "Experts2_reduce"}, report.text()


def test_parts_alone_in_fsdp_are_refused(tmp_path: Path) -> None:
    def inner(module: nn.Module, mesh: Any) -> nn.Module:
        fully_shard(module.router, mesh=mesh["dp"])
        return module

    with pytest.raises(UserError, match="reduced in every backward pass"):
        plan(tmp_path, None, inner)


def test_meshes_are_known_by_their_ranks() -> None:
    """One dimension along two axes; names that are those of other axes; ranks that are along none."""

    def sides(*shape: int, names: tuple[str, ...], swapped: bool = False) -> Any:
        def build(_: int) -> Any:
            mesh = init_device_mesh("cpu", (4,), mesh_dim_names=("all",))
            if swapped:
                mesh = DeviceMesh("cpu", torch.tensor([[0, 3], [1, 2]]), mesh_dim_names=names)
            elif len(shape) > 1:
                mesh = init_device_mesh("cpu", shape, mesh_dim_names=names)
            cuts = [Shard(0), *[Replicate()] * (mesh.ndim - 1)]
            x = DTensor.from_local(torch.empty(2, 2), mesh, cuts, run_check=False)
            return (lambda x: {"y": x * 2}), (), {"kwargs": {"x": x}}

        return capture_side(build, {"dp": 2, "tp": 2}, "a test")

    found = sides(4, names=("all",))
    assert found.inputs["x"] == {"dp": "Shard(0)", "tp": "Shard(0)"}
    assert found.order == {("dp", "tp")}
    assert sides(2, 2, names=("tp", "dp")).outputs["y"] == {"dp": "Shard(0)"}
    with pytest.raises(UserError, match="the mesh"):
        sides(2, 2, names=("dp", "tp"), swapped=True)
