"""A small plan of Megatron-Core: for tests here, and for those without Megatron, in ``tests/unit/plan/megatron``.

    python tests/frameworks/megatron_plans.py FOLDER

writes it, with the places of Megatron's lines relative to where packages are."""

from __future__ import annotations

import gzip
import json
import re
import sys
from pathlib import Path
from typing import Any

ARGUMENTS: dict[str, Any] = {
    "num_layers": 8, "hidden_size": 16, "num_attention_heads": 4, "num_query_groups": 2, "ffn_hidden_size": 32,
    "seq_length": 4, "padded_vocab_size": 16, "micro_batch_size": 1, "global_batch_size": 8,
    "tensor_model_parallel_size": 2, "pipeline_model_parallel_size": 2, "virtual_pipeline_model_parallel_size": 2,
    "data_parallel_size": 2, "context_parallel_size": 1, "overlap_p2p_comm": True, "sequence_parallel": True,
    "normalization": "RMSNorm",
    "swiglu": True, "add_bias_linear": False, "position_embedding_type": "rope",
    "untie_embeddings_and_output_weights": True,
}  # fmt: skip


def without_places_of_a_machine(folder: Path) -> None:
    """What comes before ``megatron/``, ``torch/`` or ``tantamount/`` in the paths of sources is taken away."""
    for path in folder.glob("*.json.gz"):
        text = gzip.decompress(path.read_bytes()).decode()
        text = re.sub(r"/(?:[\w.@+-]+/)*?(?=(?:megatron|torch|tantamount|frameworks)/)", "", text)
        path.write_bytes(gzip.compress(json.dumps(json.loads(text), separators=(",", ":")).encode(), mtime=0))


if __name__ == "__main__":
    import tantamount

    tantamount.plan_of_megatron(ARGUMENTS, folder=sys.argv[1])
    without_places_of_a_machine(Path(sys.argv[1]))
