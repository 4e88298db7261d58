"""vLLM's own models under its own tensor parallelism: captured in vLLM's environment, proved here.

``TANTAMOUNT_VLLM_PYTHON`` names the interpreter of an environment with vLLM's CPU build 0.32.0.
"""

from __future__ import annotations

import os
import subprocess
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from tantamount import Verdict, read_job
from tantamount.answers import refine
from tantamount.ir.job import Job

ROOT = Path(__file__).resolve().parents[2]
PYTHON = os.environ.get("TANTAMOUNT_VLLM_PYTHON", "")
pytestmark = pytest.mark.skipif(not PYTHON, reason="needs vLLM in an environment of its own: TANTAMOUNT_VLLM_PYTHON")


@cache
def capture(folder: Path, model: str, *options: str) -> Path:
    command = [PYTHON, str(ROOT / "examples" / "vllm_llama.py"), str(folder), "--model", model, *options]
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src"), "VLLM_LOGGING_LEVEL": "ERROR"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return Path(done.stdout.split()[-1])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("vllm")


def job(folder: Path, model: str, *options: str) -> Job:
    return read_job(capture(folder / "-".join((model, *options)), model, *options))


@pytest.mark.parametrize("model", ["llama", "qwen2"])
def test_forward_pass_is_proved(folder: Path, model: str) -> None:
    found = job(folder, model)
    weights = {name: relation.text for name, relation in found.inputs.items()}
    assert weights["model.embed_tokens.weight"] == weights["lm_head.weight"] == "Shard(0)"
    assert weights["model.layers.1.mlp.down_proj.weight"] == "Shard(1)"
    assert weights["model.layers.1.mlp.gate_up_proj.weight"].count("rank(") == 4  # gate and up of each rank
    assert weights["model.layers.1.self_attn.qkv_proj.weight"].count("rank(") == 6  # queries, keys and values
    check_proved(found)


def test_keys_and_values_that_both_ranks_have(folder: Path) -> None:
    """One head of keys and values: vLLM gives it to every rank."""
    found = job(folder, "llama_one_kv_head")
    relation = found.inputs["model.layers.1.self_attn.qkv_proj.weight"]
    assert len(relation.equal) == 1
    check_proved(found)
    free = {name: replace(r, equal=()) for name, r in found.inputs.items()}  # each rank has its own
    assert refine(replace(found, inputs=free)).verdict is not Verdict.PROVED


def check_proved(found: Job) -> None:
    report = refine(found)
    assert report.verdict is Verdict.PROVED, str(report)
    assert [output.name for output in report.outputs] == ["hidden", "logits"]
    assert {a.name for a in report.assumptions} == {"real-arithmetic", "opaque-operator", "index-range"}


def test_missing_all_reduce_is_refuted_in_its_module(folder: Path) -> None:
    report = refine(job(folder, "llama", "--broken"))
    assert report.verdict is Verdict.REFUTED, str(report)
    assert report.mismatch is not None
    source = report.mismatch.implementation_source
    assert source is not None
    assert source.function.startswith("model.layers.1.mlp.down_proj: ")
    assert 'Partial("sum")' in report.mismatch.difference


def test_keys_and_values_exchanged_are_not_proved(folder: Path) -> None:
    found = job(folder, "llama")
    name = "model.layers.0.self_attn.qkv_proj.weight"
    relation = found.inputs[name]
    expression = relation.expression
    q0, q1, k0, k1, v0, v1 = expression.parts  # type: ignore[union-attr]
    wrong = replace(expression, parts=(q0, q1, v0, v1, k0, k1))  # type: ignore[type-var]
    broken = replace(found, inputs={**found.inputs, name: replace(relation, expression=wrong)})
    report = refine(broken)
    assert report.verdict is Verdict.REFUTED, str(report)
    assert k0 != v0
    assert k1 != v1
