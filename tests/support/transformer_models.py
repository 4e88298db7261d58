"""Small random configurations of models of the ``transformers`` library, and their tensor-parallel form."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from typing import Any

from tantamount.capture.fx_json import parse_graph
from tantamount.capture.programs import Program, Ranks
from tantamount.limits import limits_from_environment

__all__ = ["MODELS", "build_rank", "capture_pair", "without_all_reduce"]

_COMMON: dict[str, Any] = {
    "vocab_size": 64,
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 1,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 64,
    "head_dim": 8,
    "tie_word_embeddings": False,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "llama": ("LlamaConfig", {}),
    "qwen2": ("Qwen2Config", {}),
    "qwen3": ("Qwen3Config", {}),
    "mistral": ("MistralConfig", {}),
    "phi3": ("Phi3Config", {}),
    "gemma": ("GemmaConfig", {}),
    "mixtral": ("MixtralConfig", {"num_local_experts": 4, "num_experts_per_tok": 2}),
    "qwen3_moe": ("Qwen3MoeConfig", {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16}),
    "deepseek_v3": (
        "DeepseekV3Config",
        {
            "n_routed_experts": 4,
            "num_experts_per_tok": 2,
            "n_group": 1,
            "topk_group": 1,
            "n_shared_experts": 1,
            "moe_intermediate_size": 16,
            "first_k_dense_replace": 0,
            "q_lora_rank": 16,
            "kv_lora_rank": 8,
            "qk_rope_head_dim": 4,
            "qk_nope_head_dim": 4,
            "v_head_dim": 8,
            "head_dim": 4,
            "num_key_value_heads": 4,
        },
    ),
}


def _model(name: str, layers: int) -> Any:
    import transformers

    config_class, special = MODELS[name]
    config = getattr(transformers, config_class)(**{**_COMMON, "num_hidden_layers": layers, **special})
    config.use_cache = False
    config._attn_implementation = "sdpa"
    config._experts_implementation = "batched_mm"  # one program for all experts: no sizes that data decide
    return transformers.AutoModelForCausalLM.from_config(config).train()


def _step(model: Any) -> Callable[[Any], Any]:
    import torch

    def step(ids: Any) -> Any:
        logits = model(ids, use_cache=False).logits
        vocabulary = logits.shape[-1]
        loss = torch.nn.functional.cross_entropy(logits[:, :-1].reshape(-1, vocabulary), ids[:, 1:].reshape(-1))
        loss.backward()
        return loss

    return step


def _ids() -> Any:
    import torch

    return torch.zeros((2, 8), dtype=torch.int64)


def build_rank(name: str, layers: int = 1) -> Callable[[int], Any]:
    """What ``capture_ranks`` builds: the model as the library distributes it over two ranks."""

    def build(rank: int) -> Any:
        from transformers.distributed.configuration_utils import DistributedConfig
        from transformers.distributed.utils import initialize_distributed_mesh

        model = _model(name, layers)
        config = DistributedConfig(tp_size=2)
        _, mesh = initialize_distributed_mesh(config)
        model = type(model).maybe_distribute_model(model, config, mesh)
        return _step(model), (_ids(),), {"modules": model}

    return build


def capture_pair(name: str, layers: int = 1) -> tuple[Program, Ranks]:
    """Forward and backward of a model on one device, and of its tensor-parallel form on two."""
    import tantamount

    model = _model(name, layers)
    specification = tantamount.capture(_step(model), (_ids(),), modules=model)
    return specification, tantamount.capture_ranks(build_rank(name, layers), 2)


def without_all_reduce(ranks: Ranks, number: int = -1) -> Ranks:
    """The same programs with one all-reduce forgotten on every rank: by default the last, of the backward pass."""
    programs: list[Program] = []
    for program in ranks.programs:
        document = copy.deepcopy(dict(program.document))
        reductions = [node for node in document["nodes"] if "all_reduce" in node["target"]]
        chosen = reductions[number]
        chosen.update(target="aten.clone.default", args=chosen["args"][:1], kwargs={})
        (wait,) = (n for n in document["nodes"] if n.get("args") == [{"node": chosen["name"]}])
        wait.update(target="aten.clone.default")

        graph = parse_graph(json.dumps(document), program.graph.path, limits_from_environment())
        programs.append(Program(graph, document, program.aliases))
    return Ranks(tuple(programs), ranks.mesh, ranks.inputs, ranks.outputs)
