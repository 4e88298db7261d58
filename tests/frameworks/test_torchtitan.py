"""torchtitan's Llama and DeepSeek as its own functions spread them: the step is proved, and what is wrong with one is
found."""

from __future__ import annotations

import copy
import dataclasses
import gzip
import json
import socket
from pathlib import Path
from typing import Any

import pytest

import tantamount
from tantamount.errors import UserError
from tantamount.verdict import Verdict

pytest.importorskip("torch", reason="captures need PyTorch")
pytest.importorskip("torchtitan.models.llama3", reason="torchtitan is not installed (pip install torchtitan triton)")

from torchtitan.config import ParallelismConfig
from torchtitan.models.deepseek_v3 import config_registry as deepseek
from torchtitan.models.llama3 import config_registry

from frameworks import expert_processes


def settings(config: Any = None, **more: Any) -> Any:
    config = config or config_registry.llama3_debugmodel()
    config.parallelism = ParallelismConfig(
        **{
            "data_parallel_shard_degree": 2, "tensor_parallel_degree": 2, "pipeline_parallel_degree": 2,
            "pipeline_parallel_schedule": "Interleaved1F1B", "spmd_backend": "partial_dtensor", **more,
        }
    )  # fmt: skip
    config.training = dataclasses.replace(config.training, local_batch_size=4, seq_len=64, disable_cuda_graphs=True)
    return config


def test_a_step_is_proved(tmp_path: Path) -> None:
    report = tantamount.verify_plan(tantamount.plan_of_torchtitan(settings(), folder=tmp_path))
    assert report.verdict is Verdict.PROVED, report.text()
    assert {part.part: part.count for part in report.parts}["layer"] == 6


def test_gradients_that_fsdp_averages_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """torchtitan divides losses by the number of tokens of all ranks; FSDP must not divide by that of ranks as well."""
    fsdp = pytest.importorskip("torchtitan.distributed.fsdp")
    monkeypatch.setattr(fsdp, "disable_fsdp_gradient_division", lambda _: None)
    report = tantamount.verify_plan(tantamount.plan_of_torchtitan(settings(), folder=tmp_path))
    wrong = {part.part for part in report.parts if part.verdict is Verdict.REFUTED}
    assert {"embedding_reduce", "layer_reduce", "head_reduce"} <= wrong, report.text()


def test_experts_are_proved_with_the_ranks_that_they_are_on(tmp_path: Path) -> None:
    """Latent attention, experts of which each rank has half, FSDP of all others, clipping; and mistakes in them."""
    given = settings(deepseek.deepseek_v3_debugmodel(), tensor_parallel_degree=1, expert_parallel_degree=2)
    path = tantamount.plan_of_torchtitan(given, folder=tmp_path)
    report = tantamount.verify_plan(path)
    assert report.verdict is Verdict.PROVED, report.text()
    assert {part.part: part.count for part in report.parts}["layer2"] == 5
    file = tmp_path / "layer2_reduce.json.gz"
    right = json.loads(gzip.decompress(file.read_bytes()))
    for change in (_not_reduced, _scaled, _added_to_other_experts):
        wrong = copy.deepcopy(right)
        change(wrong)
        file.write_bytes(gzip.compress(json.dumps(wrong).encode()))
        report = tantamount.verify_plan(path)
        parts = [part.part for part in report.parts if part.verdict is Verdict.REFUTED]
        assert parts == ["layer2_reduce"], f"{change.__name__}: {report.text()}"


def _called(program: Any, name: str) -> Any:
    return [node for node in program["nodes"] if name in str(node["target"])]


def _not_reduced(program: Any) -> None:
    node = _called(program, "reduce_scatter")[3]
    node |= {"target": "aten.slice.Tensor", "args": [node["args"][0], 0, 0, node["shape"][0]]}


def _scaled(program: Any) -> None:
    node = _called(program, "aten.mul")[3]
    node["args"] = [node["args"][0], node["args"][1] * 2]


def _added_to_other_experts(program: Any) -> None:
    output = next(output for output in program["outputs"] if output["name"].endswith("w1_EFD"))
    own = next(node for node in program["nodes"] if node["name"] == output["node"])
    like = {"op": "call_function", "kwargs": {}, "shape": own["shape"], "dtype": own["dtype"]}
    c10d = "_c10d_functional"
    program["nodes"] += [
        {**like, "name": "s", "target": f"{c10d}.all_reduce.default", "args": [{"node": own["name"]}, "sum", "fsdp"]},
        {**like, "name": "t", "target": f"{c10d}.wait_tensor.default", "args": [{"node": "s"}]},
    ]
    output["node"] = "t"


@pytest.mark.parametrize("world", [1, 2])
def test_experts_with_room_are_what_the_dispatcher_does(world: int) -> None:
    with socket.socket() as held:
        held.bind(("localhost", 0))
        port = held.getsockname()[1]
    expert_processes.run(world, port)


@pytest.mark.parametrize(
    ("more", "place"),
    [
        ({"context_parallel_degree": 2}, "context_parallel_degree"),
        ({"spmd_backend": "spmd_types"}, "spmd_backend"),
        ({"pipeline_parallel_degree": 1}, "pipeline"),
        ({"expert_parallel_degree": 3}, "expert_parallel_degree"),
    ],
)
def test_settings_that_are_refused(more: dict[str, Any], place: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=place):
        tantamount.plan_of_torchtitan(settings(**more), folder=tmp_path)
