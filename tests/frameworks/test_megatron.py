"""Plans of Megatron-Core, captured here: what is proved of a step, and what is found in steps that lack something."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from runpy import run_path
from typing import Any

import pytest

from frameworks.megatron_plans import ARGUMENTS
from tantamount.answers import verify_plan
from tantamount.errors import UserError
from tantamount.plan.actions import Chain, Schedule, read_events
from tantamount.plan.check import check_schedule
from tantamount.plan.result import PlanReport
from tantamount.verdict import Verdict

pytest.importorskip("torch", reason="captures need PyTorch")
pytest.importorskip("megatron.core", reason="Megatron-Core is not installed (pip install 'tantamount[megatron]')")

from tantamount.capture.torch.megatron.order import recorded_order
from tantamount.capture.torch.megatron.plan import plan_of_megatron


def checked(folder: Path, **more: Any) -> PlanReport:
    return verify_plan(plan_of_megatron({**ARGUMENTS, **more}, folder=folder))


def refuted(report: PlanReport) -> set[str]:
    return {part.part for part in report.parts if part.verdict is Verdict.REFUTED}


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"sequence_parallel": False, "virtual_pipeline_model_parallel_size": None, "overlap_p2p_comm": False},
        {"normalization": "LayerNorm", "swiglu": False, "add_bias_linear": True, "num_query_groups": 4,
         "position_embedding_type": "learned_absolute", "optimizer": "sgd"},
        {"use_distributed_optimizer": True},
    ],
    ids=["interleaved, sequence parallel", "not interleaved", "GPT", "distributed optimizer"],
)  # fmt: skip
def test_a_step_is_proved(more: dict[str, Any], tmp_path: Path) -> None:
    report = checked(tmp_path, **more)
    assert report.verdict is Verdict.PROVED, report.text()


EXPERTS: dict[str, Any] = {  # latent attention; a dense layer, then shared and routed experts, these over tp
    "num_layers": 4, "seq_length": 8, "num_query_groups": None, "virtual_pipeline_model_parallel_size": None,
    "overlap_p2p_comm": False, "multi_latent_attention": True, "qk_layernorm": True, "q_lora_rank": 6,
    "kv_lora_rank": 10, "qk_head_dim": 4, "qk_pos_emb_head_dim": 2, "v_head_dim": 4, "rope_type": "rope",
    "num_experts": 8, "expert_model_parallel_size": 2, "expert_tensor_parallel_size": 1,
    "moe_layer_freq": [0, 1, 1, 1], "moe_ffn_hidden_size": 12, "moe_shared_expert_intermediate_size": 24,
    "moe_router_topk": 2, "moe_router_score_function": "sigmoid", "moe_router_load_balancing_type": "none",
    "moe_token_dispatcher_type": "alltoall", "moe_router_num_groups": 4, "moe_router_group_topk": 2,
    "moe_router_enable_expert_bias": True,
}  # fmt: skip


def test_a_step_with_latent_attention_and_experts_is_proved(tmp_path: Path) -> None:
    report = checked(tmp_path, **EXPERTS)
    assert report.verdict is Verdict.PROVED, report.text()
    assert {part.part: part.count for part in report.parts}["moe"] == 3


def test_biases_of_routers_that_count_own_tokens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every rank changes the biases by the tokens that it routed: they come apart."""
    module = import_module("megatron.core.distributed.finalize_model_grads")

    def own(tokens: Any, bias: Any, rate: float) -> Any:
        return bias + (tokens.mean(-1, keepdim=True) - tokens).sign() * rate

    monkeypatch.setattr(module, "get_updated_expert_bias", own)
    report = checked(tmp_path, **EXPERTS)
    assert refuted(report) == {"moe_reduce"}, report.text()


CONTEXT: dict[str, Any] = {"context_parallel_size": 2, "cp_comm_type": ["all_gather"], "seq_length": 8}


def _nothing(*_: Any, **__: Any) -> None: ...


def _forgets(original: Callable[..., Any]) -> Callable[..., Any]:
    """Column-parallel layers that leave the gradient of their input a partial sum."""

    def build(self: Any, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **kwargs)
        self.allreduce_dgrad, self.disable_grad_reduce = False, True

    return build


@pytest.mark.parametrize(
    ("module", "name", "change", "parts", "more"),
    [
        ("distributed.finalize_model_grads", "_allreduce_non_tensor_model_parallel_grads", lambda _: _nothing,
         {"layer_reduce", "head_reduce"}, {}),
        ("distributed.distributed_data_parallel.DistributedDataParallel", "finish_grad_sync", lambda _: _nothing,
         {"embedding_reduce", "layer_reduce", "head_reduce"}, {}),
        ("tensor_parallel", "param_is_not_tensor_parallel_duplicate", lambda _: lambda *_, **__: True,
         {"layer_reduce", "head_reduce"}, {}),
        ("parallel_state", "get_model_parallel_group",
         lambda _: import_module("megatron.core.parallel_state").get_tensor_model_parallel_group, {"norm"}, {}),
        ("tensor_parallel.layers.ColumnParallelLinear", "__init__", _forgets, {"layer", "head"},
         {"sequence_parallel": False}),
        ("distributed.distributed_data_parallel.DistributedDataParallel", "start_param_sync", lambda _: _nothing,
         {"embedding_update", "layer_update", "head_update"}, {"use_distributed_optimizer": True}),
        ("distributed.param_and_grad_buffer._ParamAndGradBucketGroup", "finish_grad_sync", lambda _: _nothing,
         {"embedding_reduce", "layer_reduce", "head_reduce"}, {"use_distributed_optimizer": True}),
        ("parallel_state", "get_intra_distributed_optimizer_instance_group",
         lambda _: import_module("megatron.core.parallel_state").get_model_parallel_group, {"norm"},
         {"use_distributed_optimizer": True}),
    ],
    ids=["norms not reduced over tp", "no reduction over dp", "duplicates in the norm", "norm of own stage only",
         "no all-reduce in the backward pass", "parameters not gathered", "gradients not scattered",
         "norm of own pieces of buckets"],
)  # fmt: skip
def test_wrong_twins(
    module: str, name: str, change: Callable[[Any], Any], parts: set[str], more: dict[str, Any], tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    *path, last = module.split(".")
    try:
        owner = import_module(f"megatron.core.{module}")
    except ImportError:
        owner = getattr(import_module(".".join(("megatron.core", *path))), last)
    original = getattr(owner, name)

    def only_on_ranks(*args: Any, **kwargs: Any) -> Any:
        world = import_module("torch.distributed").get_world_size()
        return (change(original) if world > 1 else original)(*args, **kwargs)

    monkeypatch.setattr(owner, name, only_on_ranks)
    report = checked(tmp_path, **more)
    assert report.verdict is Verdict.REFUTED, report.text()
    assert refuted(report) == parts, report.text()


def problems(devices: int, chunks: int, microbatches: int, **settings: Any) -> list[str]:
    rows = recorded_order(devices, chunks, microbatches, settings)
    stages = devices * chunks
    events = tuple(read_events(row, "a row") for row in rows)
    chain = Chain(tuple(range(stages)), tuple(range(microbatches)))
    return [str(p) for p in check_schedule(Schedule(events, tuple(s % devices for s in range(stages)), (chain,)))]


@pytest.mark.parametrize(
    ("devices", "chunks", "microbatches", "settings"),
    [
        (2, 1, 4, {}),
        (4, 1, 2, {}),
        (4, 2, 8, {}),
        (2, 2, 4, {"overlap_p2p_comm": True, "batch_p2p_comm": False}),
        (4, 3, 8, {"overlap_p2p_comm": True, "batch_p2p_comm": False, "deallocate_pipeline_outputs": True}),
    ],
)
def test_schedules_are_right(devices: int, chunks: int, microbatches: int, settings: dict[str, Any]) -> None:
    assert problems(devices, chunks, microbatches, **settings) == []


def test_two_ranks_that_interleave_in_batches_get_the_wrong_messages() -> None:
    """Why Megatron-LM's arguments ask for more than two ranks, or for messages that overlap."""
    found = problems(2, 2, 4)
    assert any("1RECV_F2 gets 2SEND_B0" in problem for problem in found)


@pytest.mark.parametrize(
    ("more", "found"),
    [
        ({"use_distributed_optimizer": True, "optimizer": "sgd"}, "the distributed optimizer with sgd"),
        ({"use_distributed_optimizer": True, "overlap_param_gather": True}, "overlap_param_gather = True"),
        ({"context_parallel_size": 2}, "cp_comm_type p2p with context_parallel_size = 2"),
        ({**CONTEXT, "use_distributed_optimizer": True}, "the distributed optimizer with context_parallel_size = 2"),
        ({**CONTEXT, "seq_length": 6}, "seq_length 6 with context_parallel_size = 2"),
        ({**EXPERTS, **CONTEXT}, "experts with context_parallel_size = 2"),
        ({**EXPERTS, "moe_z_loss_coeff": 0.1}, "moe_z_loss_coeff = 0.1"),
        ({**EXPERTS, "moe_router_group_topk": 1, "moe_router_topk": 4}, "moe_router_group_topk 1"),
        ({**EXPERTS, "expert_model_parallel_size": 3}, "expert_model_parallel_size 3"),
        ({**EXPERTS, "moe_router_load_balancing_type": "aux_loss", "moe_aux_loss_coeff": 0.1}, "moe_aux_loss_coeff"),
        ({"untie_embeddings_and_output_weights": False}, "embeddings that are tied"),
        ({"num_layers": 6}, "6 layers"),
    ],
)
def test_what_is_not_known_is_refused_by_name(more: dict[str, Any], found: str, tmp_path: Path) -> None:
    with pytest.raises(UserError) as caught:
        plan_of_megatron({**ARGUMENTS, **more}, folder=tmp_path)
    assert caught.value.code == "plan-model"
    assert found in caught.value.found


def test_experts_with_a_capacity() -> None:
    """What is dropped depends on which tokens are routed together."""
    path = Path(__file__).resolve().parents[2] / "examples" / "megatron_experts.py"
    example = run_path(str(path), run_name="example")
    proved = example["check"]()
    assert {output.verdict for output in proved.outputs} == {Verdict.PROVED}, str(proved)
    assert len(proved.outputs) == 10
    broken = {output.name: output.verdict for output in example["check"](broken=True).outputs}
    assert broken["output"] is broken["grad layer.router.weight"] is Verdict.REFUTED
