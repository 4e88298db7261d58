"""Pairs of real implementations, as captured: what ``compare`` proves of them, and what that rests on."""

from __future__ import annotations

from pathlib import Path

import pytest

from tantamount.answers import compare
from tantamount.capture.job import read_job

PAIRS = {
    "hf_gpt2__eager_sdpa": {"mask-literals"},
    "hf_llama__eager_sdpa": {"mask-literals"},
    "hf_mistral_window__eager_sdpa": {"mask-literals"},
    "hf_llama__litgpt_d8": set(),
    "hf_qwen2__vllm": set(),
    "small_finfo_min_vs_inf": {"mask-literals"},
    "small_rope_const_table": {"rounded-constants"},
    "small_gelu_fast_const": {"rounded-constants"},
    "small_rmsnorm_fused": {"rounded-constants"},
    "small_logsigmoid": {"softplus-threshold"},
    "small_mamba2_segsum": set(),
    "small_mamba2_ssd_recurrent_vs_parallel": set(),
}
ASSUMED = {"mask-literals", "rounded-constants", "softplus-threshold"}


@pytest.mark.parametrize("name", PAIRS)
def test_a_pair_is_proved(shared: Path, name: str) -> None:
    answer = compare(read_job(shared / "pairs" / name / "job.toml"))
    assert answer.proved
    assert {one.name for one in answer.assumptions} & ASSUMED == PAIRS[name]


def test_another_epsilon_is_refuted_at_its_operator(shared: Path) -> None:
    answer = compare(read_job(shared / "pairs" / "hf_llama__litgpt_eps_twin" / "job.toml"))
    assert answer.verdict.value == "REFUTED"
    assert answer.mismatch is not None
    assert answer.mismatch.headline.endswith("adds 1e-05 where 1e-06 is needed")


def test_a_floor_below_a_norm_is_refuted_by_rows_below_it(shared: Path) -> None:
    answer = compare(read_job(shared / "pairs" / "small_rmsnorm_vs_normalize" / "job.toml"))
    assert answer.verdict.value == "REFUTED"
    assert answer.counterexample is not None
