"""Megatron-Core's GPTModel, captured on a CPU: its parallel forms against one device, and broken twins."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

from tantamount import Report, Verdict

pytest.importorskip("torch", reason="captures need PyTorch")
pytest.importorskip("megatron.core", reason="Megatron-Core is not installed (pip install 'tantamount[megatron]')")

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "megatron_core.py"
NORMS = {"decoder.layers.0.input_layernorm", "decoder.layers.0.pre_mlp_layernorm", "decoder.final_layernorm"}


@pytest.fixture(scope="module")
def example() -> ModuleType:
    found = importlib.util.spec_from_file_location("example_megatron_core", EXAMPLE)
    assert found is not None
    assert found.loader is not None
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


def expectations(report: Report) -> dict[str, str]:
    return {output.name: output.expectation for output in report.outputs}


def refuted(report: Report) -> set[str]:
    return {output.name for output in report.outputs if output.verdict is Verdict.REFUTED}


def of_norms() -> set[str]:
    return {f"grad {norm}.weight" for norm in NORMS}


@pytest.mark.parametrize(
    ("sizes", "ranks"),
    [
        ({"sequence": False}, 2),
        ({"sequence": True}, 2),
        ({"sequence": False, "data": 2}, 4),
        ({"sequence": True, "layers": 2}, 2),
    ],
    ids=["TP2", "TP2+SP", "TP2xDP2", "TP2+SP, 2 layers"],
)
def test_parallel_model_is_the_model(example: ModuleType, sizes: dict[str, int], ranks: int) -> None:
    report = example.check(**sizes)
    assert report.verdict is Verdict.PROVED, str(report)
    assert report.statistics.ranks == ranks
    assert {a.name for a in report.assumptions} <= {"real-arithmetic", "rounded-literals", "domain", "index-range"}
    found = expectations(report)
    both = ranks == 4
    assert found["grad output_layer.weight"] == ("[Replicate(), Shard(0)]" if both else "Shard(0)")
    projection = found["grad decoder.layers.0.self_attention.linear_proj.weight"]
    assert projection == ("[Replicate(), Shard(1)]" if both else "Shard(1)")
    gated = found["grad decoder.layers.0.mlp.linear_fc1.weight"]  # rank 0 has the first half of gate and of up
    assert gated.startswith("concat(rank(0)[0:128, 0:64], rank(1)[0:128, 0:64], rank(0)[128:256, 0:64]")


def test_gradients_of_norms_are_partial_sums_under_sequence_parallelism(example: ModuleType) -> None:
    report = example.check(reduce=example.nothing, reduced=False)
    assert report.verdict is Verdict.PROVED, str(report)
    summed = {output.name: output.notes for output in report.outputs if "Partial" in output.expectation}
    assert summed.keys() == of_norms()
    for notes in summed.values():
        assert notes == ("this relation sums over ranks of tp: each holds one summand, which nothing has reduced yet",)


def test_partial_sums_where_gradients_are_expected_are_refuted(example: ModuleType) -> None:
    report = example.check(broken=True)
    assert report.verdict is Verdict.REFUTED
    assert refuted(report) == of_norms()
    for output in report.outputs:
        if output.name in of_norms():
            assert output.relation is not None
            assert output.relation.expression == 'Partial("sum")'
            assert "sums over ranks of tp" in output.notes[0]
    assert report.mismatch is not None
    assert "a sum over tp is missing" in report.mismatch.headline
    assert report.mismatch.implementation_source is not None
    assert "input_layernorm" in report.mismatch.implementation_source.text


def test_forgotten_all_reduce_of_the_backward_pass(example: ModuleType) -> None:
    report = example.check(sequence=False, breaking=example.forgets_backward_all_reduce)
    assert report.verdict is Verdict.REFUTED
    assert refuted(report) == {
        "grad decoder.layers.0.input_layernorm.weight",
        "grad embedding.word_embeddings.weight",
    }
    assert report.mismatch is not None
    assert report.mismatch.kind == "unreduced"
    assert "over tp" in report.mismatch.hint
    assert report.mismatch.implementation_source is not None
    assert "linear_qkv backward" in report.mismatch.implementation_source.function


def test_gradients_summed_over_replicas_and_not_averaged(example: ModuleType) -> None:
    report = example.check(sequence=False, tensor=1, data=2, reduce=example.sums_over_replicas)
    assert report.verdict is Verdict.REFUTED
    assert refuted(report) == {name for name in expectations(report) if name.startswith("grad ")}
    assert report.mismatch is not None
    assert "2 times too large" in report.mismatch.difference
