"""Inconsistencies between released packages, found by comparing configurations: each one proved wrong, and shown by
executing the packages as they are.

    python examples/released_inconsistencies.py [WORD]

Needs transformers 5.23.0 and litgpt 0.5.13 or timm 1.0.31 beside Tantamount, or vLLM 0.32.0 (its build for CPUs) with
transformers 5.19.0: what is not installed is said and left out. WORD chooses rows whose names of models contain it.
Other releases may have other answers. Models are built from configurations, at small sizes; nothing is downloaded.
"""

from __future__ import annotations

import re
import sys
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import torch

import tantamount as tt
from tantamount.capture.torch.models import state_shapes
from tantamount.capture.torch.recipes import Built, built
from tantamount.errors import UserError

SIZES = "vocab_size=96,num_hidden_layers=1,hidden_size=64,num_attention_heads=4,num_key_value_heads=2"
HEADS = f"{SIZES},intermediate_size=96,head_dim=16"
LIT_SIZES = "n_embd=64,n_head=4,n_query_groups=2,n_layer=1,intermediate_size=96"
LIT = f"{LIT_SIZES},padded_vocab_size=96,block_size=64,head_size=16"
FALCON = "vocab_size=96,num_hidden_layers=1,hidden_size=64,num_attention_heads=4,alibi=true,multi_query=false"

SMALL = "vocab_size=96,num_hidden_layers=1,hidden_size=128,num_attention_heads=4,intermediate_size=96"
BLOOM = "hidden_size=128,n_head=4,n_layer=1,vocab_size=96"
GPT2 = "n_embd=128,n_head=4,n_layer=1,n_positions=64,vocab_size=96,scale_attn_weights=false"
EXPERTS = f"{SMALL},num_key_value_heads=2,num_experts_per_tok=2,experts=batched_mm"
OLMOE = f"{EXPERTS},num_experts=4,norm_topk_prob=true"
PHIMOE = f"{EXPERTS},num_local_experts=4,max_position_embeddings=64,attention_bias=true,lm_head_bias=true"
COHERE2 = f"{SMALL},num_key_value_heads=2,sliding_window=4,pad_token_id=0"

FOUND = (
    (
        "litgpt's Gemma adds 1e-5 in its norms, Gemma's configuration says 1e-6",
        f"hf:gemma,{HEADS}",
        f"litgpt:Gemma-7b,{LIT}",
    ),
    (
        "litgpt's Gemma 2 does so, too",
        f"hf:gemma2,{HEADS},sliding_window=4,query_pre_attn_scalar=16,attn=eager",
        f"litgpt:Gemma-2-2b,{LIT},sliding_window_size=4,attention_scores_scalar=16",
    ),
    (
        "and its Gemma 3",
        f"hf:gemma3_text,{HEADS},sliding_window=4,query_pre_attn_scalar=16,attn=eager",
        f"litgpt:Gemma-3-1b-it,{LIT},sliding_window_size=4,attention_scores_scalar=16",
    ),
    (
        "litgpt's Mistral 7B v0.1 has no sliding window",
        f"hf:mistral,{HEADS},rms_norm_eps=1e-5,sliding_window=4",
        f"litgpt:Mistral-7B-v0.1,{LIT}",
    ),
    (
        "transformers' Falcon adds the ALiBi bias twice in eager attention, once in the fused one",
        f"hf:falcon,{FALCON},attn=eager",
        f"hf:falcon,{FALCON},attn=sdpa",
    ),
    (
        "transformers' Gemma 2 leaves the cap of attention scores out where attention is fused (5.19.0: the default)",
        f"hf:gemma2,{HEADS},query_pre_attn_scalar=16,attn_logit_softcapping=0.5,attn=eager",
        f"hf:gemma2,{HEADS},query_pre_attn_scalar=16,attn_logit_softcapping=0.5,attn=sdpa",
    ),
    (
        "vLLM's BLOOM has the exact GELU, transformers' its tanh form",
        f"hf:bloom,{BLOOM}",
        f"vllm:bloom,{BLOOM}",
    ),
    (
        "vLLM's GPT-2 divides scores by the root of the head size, whatever scale_attn_weights says",
        f"hf:gpt2,{GPT2},attn=eager",
        f"vllm:gpt2,{GPT2}",
    ),
    (
        "vLLM's Cohere 2 sees one token more than transformers' in its sliding window",
        f"hf:cohere2,{COHERE2}",
        f"vllm:cohere2,{COHERE2}",
    ),
    (
        "vLLM's OLMoE leaves the weights of experts as they are, whatever norm_topk_prob says",
        f"hf:olmoe,{OLMOE}",
        f"vllm:olmoe,{OLMOE}",
    ),
    (
        "vLLM's PhiMoE leaves out the bias of its logits",
        f"hf:phimoe,{PHIMOE}",
        f"vllm:phimoe,{PHIMOE}",
    ),
    (
        "transformers' ConvNeXt adds 1e-12 in its last norm, and 1e-6 in all others, as timm's does everywhere",
        "released_inconsistencies:convnext_of_transformers",
        "released_inconsistencies:convnext_of_timm",
    ),
)  # fmt: skip

WIDTHS, IMAGE = (16, 32, 48, 64), torch.zeros(1, 3, 32, 32)
CONVNEXT = (  # names of transformers, as patterns, and of timm
    (r"^convnext\.embeddings\.patch_embeddings", "stem.0"), (r"^convnext\.embeddings\.layernorm", "stem.1"),
    (r"^convnext\.encoder\.stages\.(\d)\.layers\.", r"stages.\1.blocks."), (r"dwconv", "conv_dw"),
    (r"^convnext\.encoder\.stages\.(\d)\.downsampling_layer\.", r"stages.\1.downsample."),
    (r"layer_scale_parameter", "gamma"), (r"(blocks\.\d+)\.layernorm", r"\1.norm"), (r"pwconv1", "mlp.fc1"),
    (r"pwconv2", "mlp.fc2"), (r"^convnext\.layernorm", "head.norm"), (r"^classifier", "head.fc"),
)  # fmt: skip


def convnext_of_transformers() -> tuple[torch.nn.Module, dict[str, Any], dict[str, Any]]:
    """ConvNeXt as transformers configures it, of four narrow stages."""
    transformers: Any = import_module("transformers")
    config = transformers.ConvNextConfig(hidden_sizes=list(WIDTHS), depths=[1] * 4, num_labels=10, image_size=32)
    return transformers.ConvNextForImageClassification(config), {"pixel_values": IMAGE}, {"load": None}


def convnext_of_timm() -> tuple[torch.nn.Module, tuple[torch.Tensor], dict[str, Any]]:
    """The same of timm, filled from a checkpoint of transformers."""

    def load(model: torch.nn.Module, tensors: dict[str, torch.Tensor]) -> None:
        own, state = model.state_dict(), dict[str, torch.Tensor]()
        for name, value in tensors.items():
            for pattern, new in CONVNEXT:
                name = re.sub(pattern, new, name)
            state[name] = value.reshape(own[name].shape)
        model.load_state_dict(state)

    timm: Any = import_module("timm.models.convnext")
    return timm.ConvNeXt(depths=(1, 1, 1, 1), dims=WIDTHS, num_classes=10), (IMAGE,), {"load": load}


def filled(side: Built, state: dict[str, torch.Tensor]) -> torch.nn.Module:
    """The model with a checkpoint, in its type of numbers."""
    model = side.model.to(next(iter(state.values())).dtype)
    if side.load is None:
        model.load_state_dict(state, strict=False)
    else:
        side.load(model, state)
    return model


def apart(first: Built, second: Built) -> tuple[float, float]:
    """By how much the outputs of both differ on one checkpoint and one sequence or image, and the largest element."""
    torch.manual_seed(0)
    shapes = state_shapes(first.model)  # tied weights once
    dtype = torch.float32 if type(second.model).__name__ == "VllmModel" else torch.float64  # as its kernels are
    state = {name: torch.randn(shape, dtype=dtype) / 8 for name, shape in shapes.items()}
    drawn = {"input_ids": torch.arange(8)[None] * 11, "pixel_values": torch.randn(IMAGE.shape, dtype=dtype)}
    outputs: list[torch.Tensor] = []
    for side in (first, second):
        model = filled(side, state)
        with torch.no_grad():
            if isinstance(side.inputs, dict):
                given = {name: drawn.get(name, value) for name, value in side.inputs.items()}
                outputs.append(model(**given).logits)
            else:
                outputs.append(model(drawn["pixel_values" if side.inputs[0].is_floating_point() else "input_ids"]))
    return float((outputs[0] - outputs[1]).abs().max()), float(outputs[0].abs().max())


def main() -> None:
    wanted = sys.argv[1] if len(sys.argv) > 1 else ""
    for what, one, other in FOUND:
        if wanted not in f"{one} {other}":
            continue
        package = other.partition(":")[0]
        if package != "hf" and find_spec(package) is None:
            print(f"NOT RUN  {what}: needs {package}")
            continue
        try:
            first, second = built(one), built(other)
        except UserError as problem:  # another release: transformers 5.23.0 refuses fused attention for Gemma 2
            print(f"NOT RUN  {what}: {problem.found[:120]}")
            continue
        report = tt.compare(
            first.model, second.model, inputs=[first.inputs, second.inputs], loaders=(first.load, second.load)
        )
        difference, largest = apart(first, second)
        print(f"{report.verdict.value:8} {what}")
        print(f"         executed: the outputs differ by {difference:.1e}, the largest element is {largest:.1e}")
    if wanted not in "litgpt:Gemma-2b" or find_spec("litgpt") is None:
        return
    # a conversion that fails: "gemma-2b" begins like "gemma-2"
    first, second = built(f"hf:gemma,{HEADS}"), built(f"litgpt:Gemma-2b,{LIT}")
    try:
        filled(second, dict(first.model.state_dict()))
    except RuntimeError as problem:
        print("FAILED   litgpt converts Gemma 2b, a model of the first generation, as Gemma 2")
        print(f"         {' '.join(str(problem).split())[:150]}")


if __name__ == "__main__":
    main()
