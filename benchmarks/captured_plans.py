"""Plans of real sizes whose parts are captured from Megatron-Core: what it costs to capture and to verify them.

    python benchmarks/captured_plans.py [--write] [--sweeps] [NAME...]

Needs Megatron-Core (``pip install 'tantamount[megatron]'``), no GPU. Sizes and degrees are those of Llama-3 as its
authors publish them, the largest on 64 x 8 x 16 ranks. Every plan is captured in one process and verified in
another; CPU seconds are those of the processes, start-up included. ``--sweeps``: Llama-3 8B, and the same with one
size of the model or of the plan after the other made larger, with the exponents that the cost grows with. ``--write``
puts the table into docs/plan.md.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
from math import log, prod
from pathlib import Path
from typing import Any

LLAMA: dict[str, Any] = {
    "num_query_groups": 8, "seq_length": 8192, "padded_vocab_size": 128256, "normalization": "RMSNorm", "swiglu": True,
    "add_bias_linear": False, "position_embedding_type": "rope", "untie_embeddings_and_output_weights": True,
    "micro_batch_size": 1, "sequence_parallel": True, "optimizer": "adam", "clip_grad": 1.0, "rotary_base": 500000,
    "overlap_p2p_comm": True,
}  # fmt: skip
PLANS: dict[str, dict[str, Any]] = {
    "llama3-8b": {
        "num_layers": 32, "hidden_size": 4096, "num_attention_heads": 32, "ffn_hidden_size": 14336,
        "data_parallel_size": 8, "tensor_model_parallel_size": 4, "pipeline_model_parallel_size": 4,
        "virtual_pipeline_model_parallel_size": 2, "global_batch_size": 128,
    },
    "llama3-70b": {
        "num_layers": 80, "hidden_size": 8192, "num_attention_heads": 64, "ffn_hidden_size": 28672,
        "data_parallel_size": 16, "tensor_model_parallel_size": 8, "pipeline_model_parallel_size": 8,
        "virtual_pipeline_model_parallel_size": 2, "global_batch_size": 512,
    },
    "llama3-405b": {
        "num_layers": 126, "hidden_size": 16384, "num_attention_heads": 128, "ffn_hidden_size": 53248,
        "data_parallel_size": 64, "tensor_model_parallel_size": 8, "pipeline_model_parallel_size": 16,
        "global_batch_size": 1024, "account_for_embedding_in_pipeline_split": True,
        "account_for_loss_in_pipeline_split": True, "overlap_p2p_comm": False,
    },
}  # fmt: skip
DEEPSEEK: dict[str, Any] = {
    "seq_length": 4096, "padded_vocab_size": 102400, "normalization": "RMSNorm", "swiglu": True,
    "add_bias_linear": False, "position_embedding_type": "rope", "rope_type": "rope", "multi_latent_attention": True,
    "qk_layernorm": True, "kv_lora_rank": 512, "qk_head_dim": 128, "qk_pos_emb_head_dim": 64, "v_head_dim": 128,
    "untie_embeddings_and_output_weights": True, "micro_batch_size": 1, "sequence_parallel": True, "optimizer": "adam",
    "clip_grad": 1.0, "tensor_model_parallel_size": 8, "expert_model_parallel_size": 8,
    "expert_tensor_parallel_size": 1, "pipeline_model_parallel_size": 8, "moe_token_dispatcher_type": "alltoall",
    "moe_router_load_balancing_type": "none", "moe_grouped_gemm": True,
}  # fmt: skip
EXPERTS: dict[str, dict[str, Any]] = {  # sizes, groups of experts and biases of the models' cards
    "deepseek-16b": {
        "num_layers": 27, "hidden_size": 2048, "num_attention_heads": 16, "ffn_hidden_size": 10944,
        "num_experts": 64, "moe_router_topk": 6, "moe_ffn_hidden_size": 1408,
        "moe_shared_expert_intermediate_size": 2816, "moe_router_pre_softmax": True,
        "moe_layer_freq": [0, *[1] * 26], "decoder_last_pipeline_num_layers": 6, "data_parallel_size": 4,
        "global_batch_size": 64,
    },
    "deepseek-236b": {
        "num_layers": 60, "hidden_size": 5120, "num_attention_heads": 128, "ffn_hidden_size": 12288,
        "q_lora_rank": 1536, "num_experts": 160, "moe_router_topk": 6, "moe_ffn_hidden_size": 1536,
        "moe_shared_expert_intermediate_size": 3072, "moe_router_pre_softmax": True,
        "moe_router_topk_scaling_factor": 16.0, "moe_router_num_groups": 8, "moe_router_group_topk": 3,
        "moe_layer_freq": [0, *[1] * 59], "decoder_last_pipeline_num_layers": 4, "data_parallel_size": 16,
        "global_batch_size": 256,
    },
    "deepseek-671b": {
        "num_layers": 61, "hidden_size": 7168, "num_attention_heads": 128, "ffn_hidden_size": 18432,
        "q_lora_rank": 1536, "padded_vocab_size": 129280, "num_experts": 256, "moe_router_topk": 8,
        "moe_ffn_hidden_size": 2048, "moe_shared_expert_intermediate_size": 2048,
        "moe_router_score_function": "sigmoid", "moe_router_topk_scaling_factor": 2.5, "moe_router_num_groups": 8,
        "moe_router_group_topk": 4, "moe_router_enable_expert_bias": True,
        "moe_layer_freq": [0, 0, 0, *[1] * 58], "decoder_last_pipeline_num_layers": 5,
        "data_parallel_size": 32, "global_batch_size": 512,
    },
}  # fmt: skip
ALL = {name: {**LLAMA, **own} for name, own in PLANS.items()} | {
    name: {**DEEPSEEK, **own} for name, own in EXPERTS.items()
}
BASE = "llama3-8b"
SWEEPS: dict[str, tuple[int, dict[str, Any]]] = {  # how many times the size of the first, and how that is said
    "layers": (4, {"num_layers": 128}),
    "hidden": (4, {"hidden_size": 16384, "ffn_hidden_size": 57344}),
    "heads": (4, {"num_attention_heads": 128}),
    "sequence": (8, {"seq_length": 65536}),
    "global batch": (8, {"global_batch_size": 1024, "micro_batch_size": 8}),
    "microbatches": (8, {"global_batch_size": 1024}),
    "dp": (8, {"global_batch_size": 1024, "data_parallel_size": 64}),
    "tp": (2, {"tensor_model_parallel_size": 8}),
    "pp": (4, {"pipeline_model_parallel_size": 16}),
}
TABLES = {  # whether sizes are made larger, and what is around the table
    False: ("<!-- captured by benchmarks/captured_plans.py -->", "<!-- end of what was captured -->"),
    True: ("<!-- larger captures by benchmarks/captured_plans.py -->", "<!-- end of larger captures -->"),
}
DOCS = Path(__file__).resolve().parents[1] / "docs" / "plan.md"
MAKE = "import json, sys, tantamount; tantamount.plan_of_megatron(json.loads(sys.argv[1]), folder=sys.argv[2])"


def _spent(command: list[str]) -> tuple[float, subprocess.CompletedProcess[str]]:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, done


def _row(name: str, args: dict[str, Any]) -> tuple[str, float, float]:
    """A row of the table, and the CPU seconds to capture and to verify."""
    with tempfile.TemporaryDirectory() as folder:
        made, done = _spent([sys.executable, "-c", MAKE, json.dumps(args), folder])
        if done.returncode:
            raise SystemExit(done.stderr[-2000:])
        out = Path(folder) / "report.json"
        verify = [sys.executable, "-m", "tantamount", "plan", "verify", f"{folder}/plan.toml", "--json", str(out)]
        took, _ = _spent(verify)
        report = json.loads(out.read_text(encoding="utf-8"))
    nodes = sum(part["nodes"] for part in report["parts"])
    ranks = prod(report["mesh"].values())
    row = (
        f"| {name} | {ranks:,} | {nodes:,} | {len(report['parts'])} | {made:.1f} | {took:.1f} | "
        f"{report['megabytes']:.0f} | {report['verdict']} |"
    )
    return row, made, took


def main() -> int:
    sweeps = "--sweeps" in sys.argv
    named = [name for name in sys.argv[1:] if not name.startswith("--")]
    plans = {BASE: ALL[BASE], **{f"{k}, {n} times": {**ALL[BASE], **more} for k, (n, more) in SWEEPS.items()}}
    plans = {name: args for name, args in (plans if sweeps else ALL).items() if not named or name in named}
    head = "| plan | ranks | operators that it stands for | proofs | CPU s to capture | to verify | MB | verdict |"
    rows = [head, "|---|---|---|---|---|---|---|---|"]
    print(*rows, sep="\n")
    spent: dict[str, tuple[float, float]] = {}
    for name, args in plans.items():
        row, made, took = _row(name, args)
        spent[name] = made, took
        rows.append(row)
        print(row, flush=True)
    wrong = not all(row.endswith("| PROVED |") for row in rows[2:])
    if sweeps and BASE in spent:
        grown: list[str] = []
        for size, (times, _) in SWEEPS.items():
            if (larger := spent.get(f"{size}, {times} times")) is not None:
                made, took = (log(x / y) / log(times) for x, y in zip(larger, spent[BASE], strict=True))
                grown.append(f"{size} {made:.2f} and {took:.2f}")
        rows += [
            "",
            f"Exponents (CPU seconds to capture and to verify grow as the size to that power): {', '.join(grown)}.",
        ]
        print(rows[-1])
    if "--write" in sys.argv:
        begin, end = TABLES[sweeps]
        text = DOCS.read_text(encoding="utf-8")
        before, rest = text.split(begin)
        DOCS.write_text(before + "\n".join((begin, "", *rows, "", end)) + rest.split(end)[1], encoding="utf-8")
    return int(wrong)


if __name__ == "__main__":
    sys.exit(main())
