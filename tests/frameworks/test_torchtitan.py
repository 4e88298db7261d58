"""torchtitan's Llama as its own functions spread it: the step is proved, and what is wrong with one is found."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

import tantamount
from tantamount.errors import UserError
from tantamount.verdict import Verdict

pytest.importorskip("torch", reason="captures need PyTorch")
pytest.importorskip("torchtitan.models.llama3", reason="torchtitan is not installed (pip install torchtitan triton)")

from torchtitan.config import ParallelismConfig
from torchtitan.models.llama3 import config_registry


def settings(**more: Any) -> Any:
    config = config_registry.llama3_debugmodel()
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


@pytest.mark.parametrize(
    ("more", "place"),
    [
        ({"context_parallel_degree": 2}, "context_parallel_degree"),
        ({"spmd_backend": "spmd_types"}, "spmd_backend"),
        ({"pipeline_parallel_degree": 1}, "pipeline"),
    ],
)
def test_settings_that_are_refused(more: dict[str, Any], place: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=place):
        tantamount.plan_of_torchtitan(settings(**more), folder=tmp_path)
