"""The pieces of which Megatron-Core's models are made, each a ``GPTModel`` that has nothing else: the embedding, a
layer, a layer with experts, the head."""

# pyright: basic
from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from importlib import import_module
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import unset_fake_temporarily

from tantamount.capture.torch.megatron.context import attention_over_ranks
from tantamount.capture.torch.megatron.settings import Settings

__all__ = [
    "biased_routers",
    "chosen_in_groups",
    "experts_of",
    "gpt_piece",
    "grouped_product",
    "in_order_of_ranks",
    "without_buffer",
]


def gpt_piece(s: Settings, kind: str) -> Any:
    """A ``GPTModel`` that has one piece of a model only: the embedding, one layer (``"layer"``, or ``"moe"`` with
    experts), or what comes after the layers. A stage with several layers calls them one after the other, so it is what
    its pieces are, one after the other."""
    transformer_config = import_module("megatron.core.transformer.transformer_config")
    config_class = (
        transformer_config.MLATransformerConfig if s.multi_latent_attention else transformer_config.TransformerConfig
    )
    specs = import_module("megatron.core.models.gpt.gpt_layer_specs")
    gpt_class = import_module("megatron.core.models.gpt.gpt_model").GPTModel
    parallel_state = import_module("megatron.core.parallel_state")
    tp = parallel_state.get_tensor_model_parallel_world_size()
    cp = parallel_state.get_context_parallel_world_size()
    more: dict[str, Any] = {"gated_linear_unit": True, "activation_func": nn.functional.silu} if s.swiglu else {}
    if s.multi_latent_attention:
        more |= s.latent()
    if kind == "moe":
        more |= {
            **s.experts(), "expert_model_parallel_size": parallel_state.get_expert_model_parallel_world_size(),
            "expert_tensor_parallel_size": parallel_state.get_expert_tensor_parallel_world_size(),
        }  # fmt: skip
    config = config_class(
        num_layers=1, hidden_size=s.hidden_size, num_attention_heads=s.num_attention_heads,
        num_query_groups=s.num_query_groups, ffn_hidden_size=s.ffn_hidden_size, kv_channels=s.kv_channels,
        normalization=s.normalization, layernorm_epsilon=s.norm_epsilon, add_bias_linear=s.add_bias_linear,
        add_qkv_bias=s.add_qkv_bias, tensor_model_parallel_size=tp, sequence_parallel=s.sequence_parallel and tp > 1,
        pipeline_dtype=torch.float32, use_cpu_initialization=True, qk_layernorm=s.qk_layernorm,
        init_method=_left_as_it_is, output_layer_init_method=_left_as_it_is,
        gradient_accumulation_fusion=False, masked_softmax_fusion=False, bias_activation_fusion=False,
        bias_dropout_fusion=False, persist_layer_norm=False, attention_dropout=0.0, hidden_dropout=0.0,
        context_parallel_size=cp, cp_comm_type="all_gather", **more,
    )  # fmt: skip
    rotary = import_module("megatron.core.models.common.embeddings.rotary_pos_embedding").RotaryEmbedding
    spec = specs.get_gpt_layer_local_spec(
        num_experts=s.num_experts if kind == "moe" else None, moe_grouped_gemm=True, qk_layernorm=s.qk_layernorm,
        multi_latent_attention=s.multi_latent_attention, normalization=s.normalization,
    )  # fmt: skip
    with ExitStack() as stack:
        stack.enter_context(patch.object(rotary, "__init__", _with_numbers(rotary.__init__)))
        if s.context_parallel_size > 1:
            spec.submodules.self_attention.submodules.core_attention = attention_over_ranks(s.context_parallel_size)
        if s.multi_latent_attention:
            attention = import_module("megatron.core.transformer.multi_latent_attention")
            stack.enter_context(patch.object(attention, "TELinear", _Duplicated))
            own = spec.submodules.self_attention.submodules
            own.linear_q_down_proj = own.linear_kv_down_proj = _Duplicated
            own.core_attention = _attention_of_two_widths()
        if kind == "moe":
            grouped = import_module("megatron.core.transformer.moe.grouped_gemm_util")
            stack.enter_context(patch.object(grouped, "assert_grouped_gemm_is_available", lambda: None))
        model = gpt_class(
            config, spec, vocab_size=s.padded_vocab_size,
            max_sequence_length=s.seq_length, pre_process=kind == "embedding", post_process=kind == "head",
            position_embedding_type="none" if s.multi_latent_attention else s.position_embedding_type,
            rotary_base=s.rotary_base, share_embeddings_and_output_weights=False,
        )  # fmt: skip
    if kind not in ("layer", "moe"):
        model.decoder.layers = nn.ModuleList()
    for layer in model.decoder.layers:
        if kind == "moe":
            _with_room_for_all(layer.mlp, s)
    without_buffer(model, "local_tokens_per_expert")
    return model


def experts_of(model: Any) -> dict[str, nn.Parameter]:
    """The parameters of a piece's experts by name, each a tensor whose first dimension is the experts."""
    return {name: p for name, p in model.named_parameters() if name.endswith(("experts.weight1", "experts.weight2"))}


def biased_routers(model: Any) -> dict[str, Any]:
    """The routers of a piece that have a bias for every expert, by the names of these."""
    found = {name: module for name, module in model.named_modules() if getattr(module, "expert_bias", None) is not None}
    return {f"{name}.expert_bias": module for name, module in found.items()}


def without_buffer(model: Any, name: str) -> None:
    """Let buffers of routers of this name be attributes, which are no part of a model's state: the numbers of tokens,
    which begin at 0 in every step; in a step that does not concern routers, their biases."""
    for router in biased_routers(model).values():
        kept = router._buffers.pop(name)
        setattr(router, name, kept)


def chosen_in_groups(original: Callable[..., tuple[Tensor, Tensor]]) -> Callable[..., tuple[Tensor, Tensor]]:
    """Megatron's ``group_limited_topk``, with the scores of the chosen experts read from all scores instead of from
    those in which all outside of the chosen groups are minus infinity: the same, since the chosen groups have at least
    as many experts as are chosen, and so is the gradient."""

    def found(scores: Tensor, **numbers: int) -> tuple[Tensor, Tensor]:
        chosen = original(scores=scores, **numbers)[1]
        return scores.gather(1, chosen), chosen

    return found


def _with_room_for_all(layer: Any, s: Settings) -> None:
    """Let the dispatcher of a layer have room at every expert for all tokens of every rank, of which those that did not
    choose it have weight 0: sizes are fixed then. And let grouped matrices be what their memory is: one for every
    expert, one after the other."""
    dispatcher, experts = layer.token_dispatcher, layer.experts
    dispatcher.drop_and_pad = True
    original = dispatcher.dispatch_preprocess
    dispatcher.dispatch_preprocess = lambda x, routing_map, probs: original(x, torch.ones_like(routing_map), probs)
    # a little less, that it does not become one more when it is rounded up
    dispatcher.moe_expert_capacity_factor = (s.num_experts or 1) / s.moe_router_topk * (1 - 1e-12)
    experts.config = SimpleNamespace(**{**vars(experts.config), "bf16": True})  # what kernels need that are not used
    for name, rows in (("weight1", s.hidden_size), ("weight2", -1)):
        whole = getattr(experts, name)
        matrices = nn.Parameter(whole.detach().view(experts.num_local_experts, rows, -1 if rows > 0 else s.hidden_size))
        for mark, value in vars(whole).items():
            setattr(matrices, mark, value)
        setattr(experts, name, matrices)
    experts.sharded_state_dict = lambda *_, **__: {}


def grouped_product(x: Tensor, weights: Tensor, counts: Tensor, trans_b: bool = False) -> Tensor:
    """The product of the rows of every expert with its matrix, where all experts have as many rows: what the library
    ``grouped_gemm`` computes. ``x``: (experts * rows, n), ``weights``: (experts, n, m)."""
    del counts, trans_b
    return torch.bmm(x.unflatten(0, (weights.shape[0], -1)), weights).flatten(0, 1)


def _attention_of_two_widths() -> type:
    """Megatron's ``DotProductAttention`` for values of another width than keys, which Transformer Engine's takes: all
    that depends on the width is the shape in which heads are put together."""
    base: Any = import_module("megatron.core.transformer.dot_product_attention").DotProductAttention

    class Attention(base):
        def __init__(self, *args: Any, k_channels: int = 0, v_channels: int = 0, **more: Any) -> None:
            super().__init__(*args, **more)
            if v_channels:
                self.hidden_size_per_partition = v_channels * self.num_attention_heads_per_partition

    return Attention


class _Duplicated(nn.Module):
    """Transformer Engine's linear layer in the mode "duplicated": every tensor-parallel rank has the whole weight,
    whose gradient is a partial sum under sequence parallelism, and marked so."""

    def __init__(self, input_size: int, output_size: int, *, config: Any, parallel_mode: str, **_: Any) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(output_size, input_size))
        self.weight.sequence_parallel = config.sequence_parallel  # type: ignore[attr-defined]

    def forward(self, x: Tensor) -> tuple[Tensor, None]:
        """The product, and no bias."""
        return nn.functional.linear(x, self.weight), None


def _with_numbers(build: Callable[..., None]) -> Callable[..., None]:
    """The function ``build`` of a module, changed to run with real tensors also where those of the model have no
    numbers."""

    def built(*args: Any, **kwargs: Any) -> None:
        with unset_fake_temporarily():
            build(*args, **kwargs)

    return built


def _left_as_it_is(tensor: Tensor) -> Tensor:
    """No numbers are made for weights. (Without an initialisation Megatron would not mark which are cut.)"""
    return tensor


def in_order_of_ranks(model: Any, tp: int) -> None:
    """Let a gated layer of one device have its rows in the order of ``tp`` ranks, each with its part of the gate and
    of what is gated: its output is put into Megatron's order again. Which row is where is a convention. Experts are
    not cut."""

    def put(_: nn.Module, __: Any, made: Any) -> Any:
        return tuple(None if x is None else x.unflatten(-1, (tp, 2, -1)).transpose(-3, -2).flatten(-3) for x in made)

    for layer in model.decoder.layers:
        gated = getattr(layer.mlp, "shared_experts", layer.mlp)
        if gated is not None:
            gated.linear_fc1.register_forward_hook(put)
