"""``compare`` of a model family by its number of layers: CPU seconds of capture, and of all beyond it.

    python benchmarks/compare_depth.py [--layers 2,4,8,16] [gpt2 | llama | qwen2]

Needs transformers. Eager attention against the fused operator, at small widths, on which the cost of a proof does not
depend.
"""

from __future__ import annotations

import argparse
import sys
import time
from typing import Any

from tantamount.answers import compare
from tantamount.capture.torch import models
from tantamount.capture.torch.recipes import built

FAMILIES = {
    "gpt2": "hf:gpt2,n_embd=64,n_head=4,n_positions=64,vocab_size=96,n_layer={layers}",
    "llama": "hf:llama,hidden_size=64,num_attention_heads=4,num_key_value_heads=2,intermediate_size=96,vocab_size=96,"
    "max_position_embeddings=64,num_hidden_layers={layers}",
    "qwen2": "hf:qwen2,hidden_size=64,num_attention_heads=4,num_key_value_heads=2,intermediate_size=96,vocab_size=96,"
    "max_position_embeddings=64,num_hidden_layers={layers}",
}


class Timed:
    """A function that sums up the CPU seconds of its calls."""

    def __init__(self, function: Any) -> None:
        self.function, self.seconds = function, 0.0

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        start = time.process_time()
        try:
            return self.function(*args, **kwargs)
        finally:
            self.seconds += time.process_time() - start


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("families", nargs="*", default=list(FAMILIES))
    parser.add_argument("--layers", default="2,4,8,16")
    options = parser.parse_args()
    failed = 0
    models.capture = capture = Timed(models.capture)
    for family in options.families:
        for layers in map(int, options.layers.split(",")):
            name = FAMILIES[family].format(layers=layers)
            start = time.process_time()
            one, other = (built(f"{name},attn={how}") for how in ("eager", "sdpa"))
            made, capture.seconds = time.process_time(), 0.0
            answer = compare(
                one.model, other.model, inputs=[one.inputs, other.inputs],
                loaders=(one.load, other.load) if one.stated or other.stated else None,
                checkpoint=one.checkpoint or other.checkpoint,
            )  # fmt: skip
            whole = time.process_time() - made
            proof = sum(answer.statistics.seconds.values())
            failed += not answer.proved
            print(
                f"{family:6} {layers:3} layers  {answer.verdict.value:8} built {made - start:5.1f} s, "
                f"captured {capture.seconds:5.1f} s, all else {whole - capture.seconds:5.2f} s (proof {proof:5.2f} s), "
                f"{answer.statistics.specification_nodes} nodes",
                flush=True,
            )
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
