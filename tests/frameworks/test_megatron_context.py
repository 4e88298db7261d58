"""Context parallelism of Megatron-Core: ranks have two chunks of a sequence each, from its front and from its back."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from frameworks.megatron_plans import ARGUMENTS
from frameworks.test_megatron import CONTEXT, checked, refuted
from tantamount.verdict import Verdict

pytest.importorskip("torch", reason="captures need PyTorch")
pytest.importorskip("megatron.core", reason="Megatron-Core is not installed (pip install 'tantamount[megatron]')")

import torch

from tantamount.capture.torch.megatron import context, steps
from tantamount.capture.torch.megatron.cpu import without_cuda
from tantamount.capture.torch.megatron.models import gpt_piece
from tantamount.capture.torch.megatron.settings import settings_of
from tantamount.capture.torch.ranks import simulated

ALONE: dict[str, Any] = {  # no ranks but those of cp
    **CONTEXT, "tensor_model_parallel_size": 1, "sequence_parallel": False, "data_parallel_size": 1, "num_layers": 2,
    "global_batch_size": 2, "pipeline_model_parallel_size": 1, "virtual_pipeline_model_parallel_size": None,
    "overlap_p2p_comm": False,
}  # fmt: skip


@pytest.mark.parametrize(
    "more",
    [
        {},
        {**ALONE, "context_parallel_size": 3, "seq_length": 12, "normalization": "LayerNorm", "swiglu": False,
         "add_bias_linear": True, "position_embedding_type": "learned_absolute"},
    ],
    ids=["Llama, all ranks", "GPT, 3 ranks of cp"],
)  # fmt: skip
def test_a_step_is_proved(more: dict[str, Any], tmp_path: Path) -> None:
    report = checked(tmp_path, **{**CONTEXT, **more})
    assert report.verdict is Verdict.PROVED, report.text()
    assert all(sentence in report.text() for sentence in context.ASSUMED)


def _on_ranks(owner: Any, name: str, change: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Let ``change(original, ...)`` be called for a function where there are several ranks."""
    original = getattr(owner, name)

    def changed(*args: Any, **kwargs: Any) -> Any:
        several = import_module("torch.distributed").get_world_size() > 1
        return change(original, *args, **kwargs) if several else original(*args, **kwargs)

    monkeypatch.setattr(owner, name, changed)


def _first_positions(_: Any, embeddings: Any, dim: int, group: Any) -> Any:
    return embeddings.chunk(group.size(), dim)[0]


def _contiguous(_: Any, embeddings: Any, dim: int, group: Any) -> Any:
    return embeddings.chunk(group.size(), dim)[group.rank()]


def _of_another_rank(later: Any, length: int, ranks: int, parts: int, part: int) -> Any:
    return later(length, ranks, parts, (part + 1) % parts)


def _own_gradients(gather: Any, x: Any, **more: Any) -> Any:
    return gather(x, tensor_parallel_output_grad=False, **more)


def _all_tokens(mean: Any, losses: Any) -> Any:
    total, count, report = mean(losses)
    return total, count * 2, report


def _without_context(group: Any, **_: Any) -> Any:
    return group()


@pytest.mark.parametrize(
    ("module", "name", "change", "parts"),
    [
        ("models.common.embeddings.rotary_pos_embedding", "get_pos_emb_on_this_cp_rank", _first_positions, {"layer"}),
        ("models.common.embeddings.rotary_pos_embedding", "get_pos_emb_on_this_cp_rank", _contiguous, {"layer"}),
        (context, "later", _of_another_rank, {"layer"}),
        ("tensor_parallel.mappings", "gather_from_sequence_parallel_region", _own_gradients, {"layer"}),
        (steps, "summed", _all_tokens, {"head"}),
        ("parallel_state", "get_data_parallel_group", _without_context,
         {"embedding_reduce", "layer_reduce", "head_reduce"}),
    ],
    ids=["rotary embeddings of the first positions", "rotary embeddings of other positions", "mask of another rank",
         "gradients of keys and values not added up", "loss divided by the tokens of all ranks",
         "gradients reduced over dp only"],
)  # fmt: skip
def test_wrong_twins(
    module: Any, name: str, change: Callable[..., Any], parts: set[str], tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    _on_ranks(
        import_module(f"megatron.core.{module}") if isinstance(module, str) else module, name, change, monkeypatch
    )
    report = checked(tmp_path, **ALONE)
    assert report.verdict is Verdict.REFUTED, report.text()
    assert refuted(report) == parts, report.text()


@pytest.mark.parametrize("ranks", [2, 3])
def test_the_order_of_a_sequence_is_a_convention(ranks: int) -> None:
    """A layer of one device that takes its sequence in the order of ranks computes what Megatron's own does."""
    parallel_state = import_module("megatron.core.parallel_state")
    s = settings_of({**ARGUMENTS, **ALONE, "context_parallel_size": ranks, "seq_length": 4 * ranks})
    own = settings_of({**ARGUMENTS, **ALONE, "context_parallel_size": 1, "seq_length": 4 * ranks})
    torch.manual_seed(0)
    x, d_y = torch.randn(2, 4 * ranks, 2, 16)
    there = {"x": context.in_order_of_ranks(x, ranks), "d_y": context.in_order_of_ranks(d_y, ranks)}
    assert torch.equal(context.in_natural_order(there["x"], ranks), x)
    with simulated(0, 1), without_cuda():
        parallel_state.initialize_model_parallel(create_gloo_process_groups=False)
        ours, theirs = gpt_piece(s, "layer"), gpt_piece(own, "layer")
        context.positions_in_order_of_ranks(ours, ranks)
        for parameter, other in zip(ours.parameters(), theirs.parameters(), strict=True):
            other.data = parameter.data = torch.randn(parameter.shape) / 3
        found = steps.pass_step(ours, "layer", 1)(**there)
        wanted = steps.pass_step(theirs, "layer", 1)(x=x, d_y=d_y)
        parallel_state.destroy_model_parallel()
    assert found is not None
    assert wanted is not None
    for name, tensor in wanted.items():
        torch.testing.assert_close(found[name], context.in_order_of_ranks(tensor, ranks))
    for parameter, other in zip(ours.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(parameter.grad, other.grad)
