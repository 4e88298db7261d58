"""What ranks tell each other beside tensors: factors of reductions (``PREMUL_SUM``), Python objects."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import tantamount as tt
from tantamount.verdict import Verdict

torch = pytest.importorskip("torch")
import torch.distributed as dist  # noqa: E402
from torch import nn  # noqa: E402
from torch.distributed.device_mesh import init_device_mesh  # noqa: E402
from torch.distributed.fsdp import fully_shard  # noqa: E402

X = torch.ones(4, 8)


def error(run: Callable[[], Any]) -> tt.UserError:
    with pytest.raises(tt.UserError) as caught:
        run()
    return caught.value


def steps(model: nn.Module, divisor: float) -> Callable[[Any], Any]:
    def step(x: torch.Tensor) -> torch.Tensor:
        loss = model(x).square().sum() / divisor
        loss.backward()
        return loss.detach()

    return step


@pytest.mark.parametrize(("divisor", "verdict"), [(4.0, Verdict.PROVED), (2.0, Verdict.REFUTED)])
def test_the_divide_factor_of_fsdp_is_part_of_its_reduction(divisor: float, verdict: Verdict) -> None:
    def build(rank: int) -> Any:
        model = nn.Sequential(nn.Linear(8, 6), nn.GELU(), nn.Linear(6, 4))
        fully_shard(model, mesh=init_device_mesh("cpu", (2,), mesh_dim_names=("dp",)))
        model.set_gradient_divide_factor(4.0)
        return steps(model, 1.0), (X[:2],), {"modules": model}

    alone = nn.Sequential(nn.Linear(8, 6), nn.GELU(), nn.Linear(6, 4))
    ranks = tt.capture_ranks(build, 2, mesh={"dp": 2})
    specification = tt.capture(steps(alone, divisor), (X,), modules=alone)
    report = tt.refine(specification, ranks, inputs={"x": "Shard(0)"})
    gradients = [output for output in report.outputs if output.name.startswith("grad ")]
    assert len(gradients) == 4
    assert {output.verdict for output in gradients} == {verdict}


def test_a_factor_inside_a_reduction_must_be_a_number() -> None:
    def build(rank: int) -> Any:
        factor = torch.tensor(0.5)

        def run(x: torch.Tensor) -> torch.Tensor:
            dist.all_reduce(x, op=dist.ReduceOp.PREMUL_SUM(factor))
            return x

        return run, (X[:2],)

    found = error(lambda: tt.capture_ranks(build, 2))
    assert (found.code, found.found) == ("capture-collective", "reduction PREMUL_SUM")
    assert "takes a number here" in found.hint


def test_objects_that_ranks_wait_for_in_vain() -> None:
    def build(rank: int) -> Any:
        def run(x: torch.Tensor) -> torch.Tensor:
            if rank == 0:
                dist.all_gather_object([None, None], rank)
            return x + 1

        return run, (X[:2],)

    found = error(lambda: tt.capture_ranks(build, 2))
    assert (found.code, found.found) == ("capture-collective", "rank 0 waits for rank 1, which does not take part")


def test_objects_are_exchanged_in_one_order_with_tensors() -> None:
    def build(rank: int) -> Any:
        def run(x: torch.Tensor) -> torch.Tensor:
            if rank == 0:
                dist.all_reduce(x)
            dist.all_gather_object([None, None], rank)
            if rank == 1:
                dist.all_reduce(x)
            return x

        return run, (X[:2],)

    found = error(lambda: tt.capture_ranks(build, 2))
    assert "all_gather_object after 1 other collectives on rank 0, all_gather_object after 0" in found.found.replace(
        "all_gather_object after 0 other collectives on rank 1, all_gather_object after 1",
        "all_gather_object after 1 other collectives on rank 0, all_gather_object after 0",
    )


@pytest.mark.parametrize("given", [torch.ones(2), object(), [1, {"a": X}]])
def test_objects_without_a_plain_value_are_refused(given: Any) -> None:
    def build(rank: int) -> Any:
        dist.all_gather_object([None, None], given)
        return nn.Linear(8, 4), (X,)

    found = error(lambda: tt.capture_ranks(build, 2))
    assert found.code == "capture-collective"
    assert found.found.startswith("an object of type ")
