"""Definitions of kernels against the kernels, where they run on this machine: how far they are apart.

    python benchmarks/kernels.py [--write docs/compare.md]

A row calls a kernel of PyTorch on random numbers, captures the call, and executes what its operators are defined to be
in float64; what is printed is relative to the largest element. vLLM's kernels need vLLM: formulas stand in for them
(tests/tables/test_values_of_vllm.py).
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.nn import functional as F

import tantamount as tt
from tantamount.errors import TantamountError
from tantamount.ir.graph import Graph
from tantamount.semantics.interpret import interpret

BEGIN, END = "<!-- kernels -->", "<!-- end of kernels -->"
HEADER = ("| kernel | called as | on the CPU | apart |", "|---|---|---|---|")
_FLASH = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
_FORMULAS = (
    "_C.rms_norm, _C.fused_add_rms_norm, vllm_ir.rms_norm", "_C.rotary_embedding (both styles, partial, batched)",
    "_C.silu_and_mul and five more gates", "_C.gelu_new, gelu_fast, gelu_quick",
)  # fmt: skip


@dataclass(frozen=True)
class Case:
    """A kernel, how it is called, and the call: a function and its arguments."""

    kernel: str
    about: str
    call: Callable[..., Any]
    args: tuple[Any, ...]


def cases() -> Iterator[Case]:
    generator = torch.Generator().manual_seed(5)

    def drawn(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
        return torch.randn(shape, generator=generator).to(dtype)

    q, k, v = (drawn(2, 4, 9, 8) for _ in range(3))
    long = drawn(2, 4, 13, 8), drawn(2, 4, 13, 8)
    kept = torch.ones(9, 13, dtype=torch.bool).tril(4)
    band = kept & torch.ones(9, 13, dtype=torch.bool).triu(2)
    slope = (torch.arange(13) - torch.arange(9)[:, None] - 4) * 0.25
    flash = "aten._scaled_dot_product_flash_attention_for_cpu"
    yield Case(flash, "causal", lambda a, b, c: _FLASH(a, b, c, 0.0, True)[0], (q, k, v))
    yield Case(flash, "decode: one query, a cache", lambda a, b, c: _FLASH(a, b, c)[0], (q[:, :, :1], *long))
    yield Case(flash, "a scale of 1", lambda a, b, c: _FLASH(a, b, c, scale=1.0)[0], (q, k, v))
    for about, mask in (
        ("chunked prefill", torch.zeros(9, 13).masked_fill(~kept, float("-inf"))),
        ("sliding window", torch.zeros(9, 13).masked_fill(~band, float("-inf"))),
        ("ALiBi", slope.masked_fill(~kept, float("-inf"))),
    ):
        yield Case(flash, about, lambda a, b, c, m: _FLASH(a, b, c, attn_mask=m)[0], (q, *long, mask))
    yield Case(flash, "logarithms of sums, for split caches", lambda a, b, c: _FLASH(a, b, c)[1], (q, *long))
    few = drawn(2, 2, 9, 8), drawn(2, 2, 9, 8)
    grouped = F.scaled_dot_product_attention
    yield Case(
        "F.scaled_dot_product_attention",
        "grouped queries",
        lambda a, b, c: grouped(a, b, c, enable_gqa=True),
        (q, *few),
    )
    yield Case(
        "F.scaled_dot_product_attention", "a boolean mask", lambda a, b, c, m: grouped(a, b, c, m), (q, *long, band)
    )
    x, w = drawn(6, 16), drawn(16)
    yield Case("F.rms_norm", "eps 1e-6", lambda a, b: F.rms_norm(a, (16,), b, 1e-6), (x, w))
    yield Case("F.layer_norm", "eps 1e-5", lambda a, b: F.layer_norm(a, (16,), b), (x, w))
    yield Case("F.gelu", "by erf", F.gelu, (x,))
    yield Case("F.gelu", "by tanh", lambda a: F.gelu(a, approximate="tanh"), (x,))
    yield Case("F.silu", "", F.silu, (x,))
    tokens, experts = drawn(12, 16, dtype=torch.bfloat16), drawn(3, 16, 8, dtype=torch.bfloat16)
    ends = torch.tensor([4, 4, 12], dtype=torch.int32)
    yield Case(
        "F.grouped_mm", "three experts, one idle", lambda a, b, c: F.grouped_mm(a, b, offs=c), (tokens, experts, ends)
    )
    codes = torch.randint(-9, 9, (24, 16), generator=generator, dtype=torch.int8)
    yield Case("aten._int_mm", "int8", torch._int_mm, (codes, codes[:16, :16].contiguous()))


def graph_of(case: Case) -> Graph:
    return tt.capture(case.call, case.args).graph


def apart(case: Case) -> float:
    """By how much a kernel and its definition differ, relative to the largest element."""
    kernel = case.call(*case.args).to(torch.float64).numpy()
    graph = graph_of(case)
    arrays = [a.to(torch.float64 if a.is_floating_point() else a.dtype).numpy() for a in case.args]
    given = dict(zip((node.name for node in graph.inputs), arrays, strict=True))
    found = interpret(graph, given).array(graph.outputs[0].node)
    return float(np.abs(found - kernel).max() / max(np.abs(kernel).max(), 1e-30))


def row(case: Case) -> str:
    about = case.about or "as it is"
    try:
        return f"| `{case.kernel}` | {about} | yes | {apart(case):.1e} |"
    except (TantamountError, RuntimeError, NotImplementedError) as problem:
        return f"| `{case.kernel}` | {about} | no: {str(problem).splitlines()[0][:60]} | |"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", type=Path, help="a page that has a table of kernels")
    options = parser.parse_args()
    rows = [row(case) for case in cases()]
    rows += [f"| `{name}` | | formulas in PyTorch, in a test | 1e-9 at most |" for name in _FORMULAS]
    print("\n".join((*HEADER, *rows)))
    if options.write is not None:
        head, _, rest = options.write.read_text().partition(BEGIN)
        _, _, tail = rest.partition(END)
        if not tail:
            raise SystemExit(f"{options.write}: no table of kernels in it")
        options.write.write_text(head + BEGIN + "\n" + "\n".join((*HEADER, *rows)) + "\n" + END + tail)
    return 0


if __name__ == "__main__":
    sys.exit(main())
