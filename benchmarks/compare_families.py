"""Models of released packages, built by recipes at small sizes and compared: verdict, what it rests on, CPU seconds.

    python benchmarks/compare_families.py [--seconds 60] [--heads 16,64] [WORD ...]

Needs transformers, litgpt, timm and vLLM beside Tantamount; rows whose package is missing, or whose model cannot be
built, say so. WORDs choose rows by what their names contain. A row is a pair of names as ``tantamount compare`` takes
them, with the verdict that is true of it: UNKNOWN is counted apart, another verdict is an error (exit code 1).
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass

from tantamount.answers import compare
from tantamount.capture.torch.recipes import built
from tantamount.errors import TantamountError

_TEXT = "vocab_size=96,num_hidden_layers=1"
_SIZES = f"hidden_size={{hidden}},num_attention_heads=4,intermediate_size=96,max_position_embeddings=64,{_TEXT}"
_GROUPED = f"{_SIZES},num_key_value_heads=2"
_HEAD = f"{_GROUPED},head_dim={{head}}"
_PADDED = f"{_GROUPED},pad_token_id=0"
_GPT = "n_embd={hidden},n_head=4,n_layer=1,n_positions=64,vocab_size=96"
_EXPERTS = f"{_GROUPED},num_experts=4,num_experts_per_tok=2,experts=batched_mm"

# attention written out against the fused operator, by model type of transformers
_EAGER_SDPA = {
    "llama": _GROUPED,
    "mistral": f"{_HEAD},sliding_window=4",
    "qwen2": _GROUPED,
    "qwen3": _HEAD,
    "gemma": _HEAD,
    "phi": _SIZES,
    "phi3": _PADDED,
    "olmo": _GROUPED,
    "olmo2": _GROUPED,
    "cohere": _PADDED,
    "granite": _GROUPED,
    "starcoder2": _GROUPED,
    "stablelm": _GROUPED,
    "gpt_neox": _SIZES,
    "gpt2": _GPT,
    "opt": f"hidden_size={{hidden}},num_attention_heads=4,ffn_dim=96,word_embed_proj_dim={{hidden}},{_TEXT}",
    "falcon": f"hidden_size={{hidden}},num_attention_heads=4,new_decoder_architecture=true,num_kv_heads=2,{_TEXT}",
    "glm": f"{_HEAD},pad_token_id=0",
    "mixtral": f"{_GROUPED},num_local_experts=4,num_experts_per_tok=2,experts=batched_mm",
    "qwen2_moe": f"{_EXPERTS},moe_intermediate_size=32,shared_expert_intermediate_size=32,decoder_sparse_step=1",
    "olmoe": _EXPERTS,
}

# attention written out against PyTorch's flex_attention: the same, but for those that transformers refuses there
_REFUSED_BY_FLEX = ("stablelm", "gpt2", "falcon", "olmoe")
_EAGER_FLEX = {kind: text for kind, text in _EAGER_SDPA.items() if kind not in _REFUSED_BY_FLEX} | {
    "gemma2": f"{_HEAD},sliding_window=4,query_pre_attn_scalar={{head}}",
    "gemma3_text": f"{_HEAD},sliding_window=4,query_pre_attn_scalar={{head}}",
    "cohere2": f"{_PADDED},sliding_window=4",
    "llama4_text": _HEAD,
}


def _base(theta: float) -> str:
    return f',rope_parameters={{{{"rope_type":"default","rope_theta":{theta}}}}}'


_LIT = "n_embd={hidden},n_head=4,n_layer=1,intermediate_size=96,padded_vocab_size=96,block_size=64"
_LIT_GROUPED = f"{_LIT},n_query_groups=2"
_LIT_HEAD = f"{_LIT_GROUPED},head_size={{head}}"

# transformers against litgpt: the configuration of the one, the name and the configuration of the other
_LITGPT = {
    "llama": (f"{_GROUPED},rms_norm_eps=1e-5{_base(5e5)}", "Llama-3-8B", _LIT_GROUPED),
    "mistral": (f"{_HEAD},rms_norm_eps=1e-5,sliding_window=null", "Mistral-7B-v0.1", _LIT_GROUPED),
    "gemma": (f"{_HEAD},rms_norm_eps=1e-5", "Gemma-7b", _LIT_HEAD),
    "gemma2": (
        f"{_HEAD},rms_norm_eps=1e-5,sliding_window=4,query_pre_attn_scalar={{head}}",
        "Gemma-2-2b",
        f"{_LIT_HEAD},sliding_window_size=4,attention_scores_scalar={{head}}",
    ),
    "phi": (f"{_SIZES},partial_rotary_factor=0.5", "phi-1_5", f"{_LIT},rotary_percentage=0.5"),
    "qwen2": (f"{_GROUPED},rms_norm_eps=1e-6{_base(1e6)}", "Qwen2.5-0.5B", f"{_LIT_GROUPED},norm_eps=1e-6"),
    "qwen3": (f"{_HEAD},rms_norm_eps=1e-6{_base(1e6)}", "Qwen3-0.6B", _LIT_HEAD),
    "olmo2": (f"{_GROUPED},rms_norm_eps=1e-6{_base(5e5)}", "OLMo-2-1124-7B", _LIT_GROUPED),
}

# transformers against vLLM (where it is installed), by model type: those that vLLM has a model of its own for
_VLLM = (
    "llama", "mistral", "qwen2", "qwen3", "gemma", "gemma2", "phi3", "cohere", "granite", "stablelm", "gpt2", "opt",
    "falcon", "gptj", "bloom", "mixtral", "qwen2_moe", "qwen3_moe", "granitemoe", "olmoe",
    "gpt_oss",
)  # fmt: skip
_ALSO = {
    "gemma2": f"{_HEAD},sliding_window=4,query_pre_attn_scalar={{head}}",
    "gptj": "n_embd={hidden},n_head=4,n_layer=1,n_positions=64,vocab_size=96,rotary_dim={head}",
    "bloom": "hidden_size={hidden},n_head=4,n_layer=1,vocab_size=96",
    "qwen3_moe": f"{_HEAD},num_experts=4,num_experts_per_tok=2,moe_intermediate_size=80,experts=batched_mm",
    "gpt_oss": f"{_HEAD},num_local_experts=4,num_experts_per_tok=2,sliding_window=4,experts=batched_mm",
    "granitemoe": f"{_GROUPED},num_local_experts=4,num_experts_per_tok=2,experts=batched_mm",
}


@dataclass(frozen=True)
class Row:
    """A pair of names, and the verdict that is true of it."""

    name: str
    first: str
    second: str
    truth: str = "PROVED"


def rows(heads: list[int]) -> Iterator[Row]:
    """Every pair at every head size."""
    for head in heads:
        sizes = {"head": head, "hidden": 4 * head}
        for kind, settings in _EAGER_SDPA.items():
            text = settings.format(**sizes)
            yield Row(f"{kind} eager/sdpa {head}", f"hf:{kind},{text},attn=eager", f"hf:{kind},{text},attn=sdpa")
        for kind, settings in _EAGER_FLEX.items():
            text = settings.format(**sizes)
            other = f"hf:{kind},{text},attn=flex_attention"
            yield Row(f"{kind} eager/flex {head}", f"hf:{kind},{text},attn=eager", other)
        for kind, (one, name, other) in _LITGPT.items():
            second = f"litgpt:{name},{other.format(**sizes)}"
            yield Row(f"{kind} hf/litgpt {head}", f"hf:{kind},{one.format(**sizes)}", second)
        for kind in _VLLM:
            text = {**_EAGER_SDPA, **_ALSO}[kind].format(**sizes)
            # fused attention leaves the cap of scores out, and has no sinks
            eager = ",attn=eager" if kind in ("gemma2", "gpt_oss") else ""
            truth = "REFUTED" if kind == "bloom" else "PROVED"  # vLLM 0.32 has the exact GELU there
            yield Row(f"{kind} hf/vllm {head}", f"hf:{kind},{text}{eager}", f"vllm:{kind},{text}", truth)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("words", nargs="*", help="rows whose names contain one of them; default: all")
    parser.add_argument("--heads", default="16,64", help="head sizes")
    parser.add_argument("--seconds", type=float, default=60.0, help="for one verdict")
    options = parser.parse_args()
    wrong, counts = 0, dict[str, int]()
    for row in rows([int(head) for head in options.heads.split(",")]):
        if options.words and not any(word in row.name for word in options.words):
            continue
        begun = time.process_time()
        try:
            first, second = built(row.first), built(row.second)
            captured = time.process_time()
            found = compare(
                first.model, second.model, inputs=[first.inputs, second.inputs],
                loaders=(first.load, second.load), timeout=options.seconds,
            )  # fmt: skip
        except TantamountError as problem:
            said = " ".join(line.strip() for line in str(problem).splitlines() if "found:" in line)
            print(f"{row.name:28} not built: {said[:160]}", flush=True)
            continue
        verdict = found.verdict.value
        assumed = ", ".join(one.name for one in found.assumptions if one.name not in ("real-arithmetic", "loaders"))
        spent = time.process_time()
        print(f"{row.name:28} {verdict:8} {captured - begun:5.1f} + {spent - captured:5.1f} s  {assumed}", flush=True)
        counts[verdict] = counts.get(verdict, 0) + 1
        wrong += verdict not in (row.truth, "UNKNOWN")
    print(counts)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
