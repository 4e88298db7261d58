"""Megatron-Core's ``GPTModel`` by the configuration of a model of transformers, filled from its checkpoint.

Megatron has queries, keys and values of each group of heads one after the other in one matrix, and the gate and its
twin in another. That a checkpoint of transformers is the same model there is what ``tantamount compare`` proves.
"""

# pyright: basic
from __future__ import annotations

from functools import partial
from importlib import import_module
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from tantamount.capture.programs import Program
from tantamount.capture.torch.megatron.cpu import without_cuda
from tantamount.capture.torch.programs import capture
from tantamount.errors import UserError

__all__ = ["MegatronModel", "KINDS"]

KINDS = ("gpt2", "llama", "mistral", "qwen2")


class MegatronModel(nn.Module):
    """A ``GPTModel`` of Megatron-Core on one device, with a configuration of transformers (one of :data:`KINDS`)."""

    def __init__(self, config: Any) -> None:
        super().__init__()
        if config.model_type not in KINDS:
            raise UserError(
                "compare-recipe", place="megatron", found=f"a configuration of {config.model_type}",
                needed=f"one of {', '.join(KINDS)}", hint="build another one in a function of yours: MODULE:FUNCTION",
            )  # fmt: skip
        self.config = config
        with torch.random.fork_rng(devices=[]), without_cuda():
            torch.manual_seed(0)  # what a loader leaves alone is the same in every copy
            _alone()
            self.model = _built(config).eval()

    def __deepcopy__(self, _: Any) -> MegatronModel:
        return MegatronModel(self.config)  # process groups cannot be copied; weights come from loaders

    def forward(self, tokens: Tensor) -> Tensor:
        """The logits, of shape (batch, length, vocabulary)."""
        with without_cuda():
            positions = torch.arange(tokens.shape[1]).unsqueeze(0)
            return self.model(tokens, positions, None)

    def captured_program(self, args: Any, kwargs: Any) -> Program:
        """The captured program."""
        with without_cuda():
            return capture(self, args, kwargs)

    @staticmethod
    def load(model: MegatronModel, checkpoint: dict[str, Tensor]) -> None:
        """Fill a model from a checkpoint of transformers."""
        state = dict(model.model.named_parameters())
        written = (
            _gpt2(model.config, checkpoint) if model.config.model_type == "gpt2" else _llama(model.config, checkpoint)
        )
        for name, tensor in written.items():
            if name in state:
                state[name].copy_(tensor)


def _alone() -> None:
    """Megatron's parallel state of one device, on the backend that moves nothing."""
    parallel_state = import_module("megatron.core.parallel_state")
    if not dist.is_initialized():
        store = import_module("torch.testing._internal.distributed.fake_pg").FakeStore()
        dist.init_process_group("fake", rank=0, world_size=1, store=store)
    if not parallel_state.model_parallel_is_initialized():
        parallel_state.initialize_model_parallel(create_gloo_process_groups=False)


def _built(config: Any) -> nn.Module:
    specs = import_module("megatron.core.models.gpt.gpt_layer_specs")
    model = import_module("megatron.core.models.gpt.gpt_model").GPTModel
    settings = import_module("megatron.core.transformer.transformer_config").TransformerConfig
    common = {
        "num_layers": config.num_hidden_layers, "hidden_size": config.hidden_size,
        "num_attention_heads": config.num_attention_heads, "use_cpu_initialization": True, "hidden_dropout": 0.0,
        "attention_dropout": 0.0, "bias_activation_fusion": False, "masked_softmax_fusion": False,
    }  # fmt: skip
    if config.model_type == "gpt2":
        own = settings(
            **common, ffn_hidden_size=config.n_inner or 4 * config.hidden_size, normalization="LayerNorm",
            layernorm_epsilon=config.layer_norm_epsilon, add_bias_linear=True,
            activation_func=partial(nn.functional.gelu, approximate="tanh"),
        )  # fmt: skip
        return model(
            own, specs.get_gpt_layer_local_spec(), vocab_size=config.vocab_size,
            max_sequence_length=config.n_positions, position_embedding_type="learned_absolute",
            share_embeddings_and_output_weights=True,
        )  # fmt: skip
    own = settings(
        **common, num_query_groups=config.num_key_value_heads, ffn_hidden_size=config.intermediate_size,
        normalization="RMSNorm", layernorm_epsilon=config.rms_norm_eps, add_bias_linear=False, gated_linear_unit=True,
        activation_func=nn.functional.silu, add_qkv_bias=config.model_type == "qwen2",
        kv_channels=getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads,
    )  # fmt: skip
    return model(
        own, specs.get_gpt_layer_local_spec(normalization="RMSNorm"), vocab_size=config.vocab_size,
        max_sequence_length=config.max_position_embeddings, position_embedding_type="rope",
        rotary_base=_rope_base(config), share_embeddings_and_output_weights=config.tie_word_embeddings,
    )  # fmt: skip


def _rope_base(config: Any) -> float:
    parameters = getattr(config, "rope_parameters", None) or {}
    kind = parameters.get("rope_type", "default")
    if kind != "default":
        raise UserError("compare-recipe", place="megatron", found=f"rope_type {kind}", needed="the default one")
    return parameters.get("rope_theta", getattr(config, "rope_theta", 10000.0))


def _grouped(config: Any, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Rows of queries, keys and values, group of heads by group of heads."""
    groups = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
    parts = [t.reshape(groups, t.shape[0] // groups, *t.shape[1:]) for t in (q, k, v)]
    return torch.cat(parts, dim=1).flatten(0, 1)


def _llama(config: Any, checkpoint: dict[str, Tensor]) -> dict[str, Tensor]:
    embedding = checkpoint["model.embed_tokens.weight"]
    out = {
        "embedding.word_embeddings.weight": embedding,
        "decoder.final_layernorm.weight": checkpoint["model.norm.weight"],
        "output_layer.weight": checkpoint.get("lm_head.weight", embedding),
    }
    for i in range(config.num_hidden_layers):
        here, there = f"model.layers.{i}.", f"decoder.layers.{i}."
        for kind in ("weight", "bias"):
            names = [f"{here}self_attn.{x}_proj.{kind}" for x in "qkv"]
            if all(name in checkpoint for name in names):
                rows = [checkpoint[name] for name in names]
                out[f"{there}self_attention.linear_qkv.{kind}"] = _grouped(config, *rows)
        out |= {
            f"{there}self_attention.linear_proj.weight": checkpoint[f"{here}self_attn.o_proj.weight"],
            f"{there}input_layernorm.weight": checkpoint[f"{here}input_layernorm.weight"],
            f"{there}pre_mlp_layernorm.weight": checkpoint[f"{here}post_attention_layernorm.weight"],
            f"{there}mlp.linear_fc1.weight": torch.cat(
                [checkpoint[f"{here}mlp.gate_proj.weight"], checkpoint[f"{here}mlp.up_proj.weight"]]
            ),
            f"{there}mlp.linear_fc2.weight": checkpoint[f"{here}mlp.down_proj.weight"],
        }
    return out


def _gpt2(config: Any, checkpoint: dict[str, Tensor]) -> dict[str, Tensor]:
    out = {
        "embedding.word_embeddings.weight": checkpoint["transformer.wte.weight"],
        "embedding.position_embeddings.weight": checkpoint["transformer.wpe.weight"],
    }
    for kind in ("weight", "bias"):
        out[f"decoder.final_layernorm.{kind}"] = checkpoint[f"transformer.ln_f.{kind}"]
        for i in range(config.num_hidden_layers):
            here, there = f"transformer.h.{i}.", f"decoder.layers.{i}."
            rows = (
                checkpoint[f"{here}attn.c_attn.{kind}"].t().chunk(3)
                if kind == "weight"
                else checkpoint[f"{here}attn.c_attn.bias"].chunk(3)
            )
            out[f"{there}self_attention.linear_qkv.{kind}"] = _grouped(config, *rows)
            for own, theirs in (
                ("self_attention.linear_proj", "attn.c_proj"), ("mlp.linear_fc1", "mlp.c_fc"), ("mlp.linear_fc2",
                "mlp.c_proj"),
            ):  # fmt: skip
                tensor = checkpoint[f"{here}{theirs}.{kind}"]
                out[f"{there}{own}.{kind}"] = tensor.t() if kind == "weight" else tensor
            out[f"{there}input_layernorm.{kind}"] = checkpoint[f"{here}ln_1.{kind}"]
            out[f"{there}pre_mlp_layernorm.{kind}"] = checkpoint[f"{here}ln_2.{kind}"]
    return out
