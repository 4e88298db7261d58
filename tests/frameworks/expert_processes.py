"""torchtitan's layer with experts by real processes, for ``test_torchtitan.py``: what its dispatcher does, and what
captures do in its place, in one rank of gloo.

    python expert_processes.py RANK WORLD

ends without an error where outputs and gradients agree."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.device_mesh import init_device_mesh
from torchtitan.distributed import utils
from torchtitan.models.deepseek_v3 import config_registry

from tantamount.capture.torch.titan_experts import experts_with_room


def layer(rank: int, world: int) -> Any:
    """The layer of a rank, with its experts; rows of the router are far apart, so that rounding chooses nothing."""
    found = next(own.moe for own in config_registry.deepseek_v3_debugmodel().model_spec.model.layers if own.moe)
    found.load_balance_coeff = 1e-3
    made = found.build()
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator) / parameter.shape[-1] ** 0.5)
        made.expert_bias_E.copy_(torch.randn(made.expert_bias_E.shape, generator=generator) / 4)
    experts = made.routed_experts.inner_experts
    for name, whole in list(experts.named_parameters()):
        setattr(experts, name, torch.nn.Parameter(whole.detach().chunk(world)[rank].clone()))
    if world > 1:
        made.routed_experts.token_dispatcher.ep_mesh = init_device_mesh("cpu", (world,), mesh_dim_names=("ep",))
    return made


def results(rank: int, world: int, room: bool) -> list[Tensor]:
    own = layer(rank, world)
    width = own.router.gate.weight.shape[1]
    x = torch.randn(2, 8, width, generator=torch.Generator().manual_seed(rank + 1)).requires_grad_()
    with experts_with_room([own] if room else []):
        y = own(x)
    (y * torch.arange(y.numel()).view(y.shape).cos()).sum().backward()
    return [y.detach(), x.grad, *(p.grad for p in own.parameters())]  # type: ignore[list-item]


def main(rank: int, world: int) -> None:
    utils.set_spmd_backend("partial_dtensor")
    if world > 1:
        dist.init_process_group("gloo", rank=rank, world_size=world)
    with patch.object(Tensor, "bfloat16", Tensor.float):  # in which sums in two orders are almost equal
        for found, wanted in zip(results(rank, world, True), results(rank, world, False), strict=True):
            assert wanted.abs().sum() > 0
            torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-5)
    if world > 1:
        dist.destroy_process_group()


def run(world: int, port: int) -> None:
    """Run all ranks, and raise for one that found a difference."""
    more = {"MASTER_ADDR": "localhost", "MASTER_PORT": str(port), "OMP_NUM_THREADS": "1"}
    own = {"env": {**os.environ, **more}, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    command = [sys.executable, str(Path(__file__))]
    ranks = [subprocess.Popen([*command, str(rank), str(world)], **own) for rank in range(world)]
    for rank in ranks:
        said, _ = rank.communicate(timeout=240)
        assert rank.returncode == 0, said


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
