"""Definitions of kernels against the kernels, where they run on this machine: how far they are apart.

    python benchmarks/kernels.py [--write docs/compare.md]

A row calls a kernel of PyTorch on random numbers, captures the call, and executes what its operators are defined to be
in float64; what is printed is relative to the largest element. Where vLLM's build for CPUs is installed, its kernels
are called as well: attention over a paged cache, whose blocks are in reverse, against what is put in its place in a
captured prompt, and the fused kernels. Without it formulas stand in for these (tests/tables/test_values_of_vllm.py).
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.nn import functional as F
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

import tantamount as tt
from tantamount.errors import TantamountError
from tantamount.ir.graph import Graph
from tantamount.semantics.interpret import interpret

BEGIN, END = "<!-- kernels -->", "<!-- end of kernels -->"
HEADER = ("| kernel | called as | on the CPU | apart |", "|---|---|---|---|")
_FLASH = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
_FORMULAS = (
    "vllm_ir.rms_norm, vllm_ir.fused_add_rms_norm", "_C.rotary_embedding (both styles, partial, batched)",
    "_C.rms_norm, _C.fused_add_rms_norm", "_C.silu_and_mul and three more gates",
    "_C.gelu_new, gelu_fast, gelu_quick, gelu_tanh",
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
    blocks = create_block_mask(lambda b, h, i, j: (i >= j) & (i - j < 6), None, None, 16, 16, device="cpu")
    bent = drawn(1, 2, 16, 8), drawn(1, 2, 16, 8), drawn(1, 2, 16, 8)
    yield Case("flex_attention", "a mask of blocks", lambda a, b, c: flex_attention(a, b, c, block_mask=blocks), bent)
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
    yield Case("aten._int_mm", "int8", torch.ops.aten._int_mm, (codes, codes[:16, :16].contiguous()))


HEAD = 32  # the least that vLLM's attention is built for


def vllm_rows() -> Iterator[str]:
    """Rows of vLLM's kernels; those of its attention are of the last of 70 tokens, so that a cache of three blocks is
    read."""
    from tantamount.capture.torch.vllm_prompts import PromptAttention, paged

    generator = torch.Generator().manual_seed(6)
    shapes = (70, 8, HEAD), (70, 2, HEAD), (70, 2, HEAD)
    q, k, v = (torch.randn(shape, generator=generator) for shape in shapes)
    slopes = tuple(2.0**-n for n in range(8))
    kinds = {
        "grouped queries": PromptAttention(HEAD**-0.5), "sliding window": PromptAttention(HEAD**-0.5, 5),
        "soft cap": PromptAttention(HEAD**-0.5, cap=3.0), "ALiBi": PromptAttention(HEAD**-0.5, slopes=slopes),
        "window, soft cap and ALiBi": PromptAttention(HEAD**-0.5, 40, 3.0, slopes),
        "sinks": PromptAttention(HEAD**-0.5, sinks="sinks"),
        "sinks and sliding window": PromptAttention(HEAD**-0.5, 5, sinks="sinks"),
        "a cache of e4m3": PromptAttention(HEAD**-0.5, cached="float8_e4m3fn", scales=(0.03, 0.02)),
        "a cache of e5m2": PromptAttention(HEAD**-0.5, cached="float8_e5m2", scales=(1.0, 0.5)),
    }  # fmt: skip
    scores = torch.randn(8, generator=generator) * 3
    for about, attention in kinds.items():
        sinks = (scores,) if attention.sinks else ()
        whole = attention(*(x.double() for x in (q, k, v, *sinks)))
        for how, tokens in (("prefill", 70), ("chunked prefill", 9), ("decode", 1)):
            found = paged(attention, q[-tokens:], k, v, *sinks)
            apart_by = float((found - whole[-tokens:]).abs().max() / whole[-tokens:].abs().max())
            yield f"| `vllm.unified_attention` | {how}, {about} | yes | {apart_by:.1e} |"
    for case in vllm_cases():
        yield row(case)


def vllm_cases() -> Iterator[Case]:
    """Calls of vLLM's fused kernels, which write their results."""
    ops = import_module("vllm._custom_ops")

    generator = torch.Generator().manual_seed(7)
    x, w = torch.randn(6, 64, generator=generator), torch.randn(64, generator=generator)

    def added(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor) -> torch.Tensor:
        a, b = a.clone(), b.clone()
        ops.fused_add_rms_norm(a, b, c, 1e-6)
        return a + 2 * b

    def normed(a: torch.Tensor, *weight: torch.Tensor) -> torch.Tensor:
        out = torch.empty_like(a)
        torch.ops._C.rms_norm(out, a, weight[0] if weight else None, 1e-6)
        return out

    yield Case("_C.rms_norm", "with a weight", normed, (x, w))
    yield Case("_C.rms_norm", "without", normed, (x,))
    yield Case("_C.fused_add_rms_norm", "both results", added, (x, torch.randn(6, 64, generator=generator), w))
    gates = "silu_and_mul", "gelu_and_mul", "gelu_tanh_and_mul", "gelu_new", "gelu_fast", "gelu_quick", "gelu_tanh"
    for name in gates:
        kernel = getattr(torch.ops._C, name)

        def gate(a: torch.Tensor, kernel: Any = kernel, half: bool = name.endswith("mul")) -> torch.Tensor:
            out = a.new_empty(a.shape[0], a.shape[1] // 2) if half else torch.empty_like(a)
            kernel(out, a)
            return out

        yield Case(f"_C.{name}", "", gate, (x,))
    table = torch.randn(16, HEAD, generator=generator)
    query, key = torch.randn(6, 4 * HEAD, generator=generator), torch.randn(6, 2 * HEAD, generator=generator)
    places = torch.tensor([3, 0, 7, 15, 1, 2])
    for neox, about in ((True, "halves"), (False, "pairs")):

        def turned(p: Any, a: Any, b: Any, c: Any, neox: bool = neox) -> torch.Tensor:
            a, b = a.clone(), b.clone()
            ops.rotary_embedding(p, a, b, HEAD, c, neox)
            return torch.cat([a, b], 1)

        yield Case("_C.rotary_embedding", about, turned, (places, query, key, table))
    yield from cases_of_experts()
    yield from cases_of_int8()
    yield from cases_of_four_bits()


def cases_of_experts() -> Iterator[Case]:
    """vLLM's fused experts, their weights packed by its own function."""
    ops = import_module("vllm._custom_ops")

    generator = torch.Generator().manual_seed(8)

    def drawn(*shape: int) -> torch.Tensor:
        return torch.randn(shape, generator=generator)

    for act, count, bias, dtype, about in (
        ("silu", 2, False, torch.float32, "two of four experts"), ("silu", 2, False, torch.bfloat16, "bfloat16"),
        ("silu", 1, True, torch.float32, "without factors, with biases"), ("gelu", 2, True, torch.float32, "biases"),
        ("gelu_tanh", 3, False, torch.float32, "three of four experts"),
        ("swigluoai", 2, True, torch.float32, "values that are cut off"),
    ):  # fmt: skip
        x, w13, w2 = drawn(70, 32) * 2, drawn(4, 128, 32), drawn(4, 32, 64)
        biases = (drawn(4, 128) * 4, drawn(4, 32)) if bias else ()
        chosen = torch.stack([torch.randperm(4, generator=generator)[:count] for _ in range(70)]).int()
        skip = about.startswith("without")

        def mixed(
            ids: Any, factors: Any, a: Any, b: Any, c: Any, *more: Any, act: str = act, skip: bool = skip
        ) -> torch.Tensor:
            out = torch.empty_like(a)
            b, c = (ops.cpu_prepack_moe_weight(weight, "vec") for weight in (b, c))
            ops.cpu_fused_moe(out, a, b, c, *(more or (None, None)), factors, ids, act, "vec", skip)
            return out

        weights = tuple(weight.to(dtype) for weight in (x, w13, w2, *biases))
        factors = torch.rand(70, count, generator=generator)
        yield Case("_C.prepack_moe_weight, _C.cpu_fused_moe", f"{act}, {about}", mixed, (chosen, factors, *weights))


def cases_of_int8() -> Iterator[Case]:
    """vLLM's quantisation: rows whose numbers are halves after scaling, and random ones."""
    ops = import_module("vllm._custom_ops")

    generator = torch.Generator().manual_seed(9)
    halves = torch.tensor(
        [[127, 0.5, 1.5, 2.5, -0.5, -1.5, 126.5, -126.5], [1, 256, 1.5, 2.5, 3.5, 101.5, 102.5, 254.5]]
    )
    x = torch.cat([halves, torch.randn(30, 8, generator=generator) * 9])
    name = "_C.dynamic_scaled_int8_quant"
    for dtype in (torch.float32, torch.bfloat16):
        about = str(dtype).removeprefix("torch.")
        for azp in (False, True):
            for which, what in enumerate(("codes", "scales", "zero points")[: 2 + azp]):

                def each(a: Any, which: int = which, azp: bool = azp) -> torch.Tensor:
                    return ops.scaled_int8_quant(a, symmetric=not azp)[which]

                kind = "with zero points" if azp else "symmetric"
                yield Case(name, f"{kind}: {what}, {about}", each, (x.to(dtype),))
    scale, zero = torch.tensor([0.5]), torch.tensor([3], dtype=torch.int32)
    name = "_C.static_scaled_int8_quant"
    yield Case(name, "symmetric", lambda a, s: ops.scaled_int8_quant(a, s)[0], (x, scale))
    yield Case(name, "with a zero point", lambda a, s, z: ops.scaled_int8_quant(a, s, z, False)[0], (x, scale, zero))


def cases_of_four_bits() -> Iterator[Case]:
    """vLLM's product with weights of four bits, for which random integers are good."""
    ops = import_module("vllm._custom_ops")

    generator = torch.Generator().manual_seed(10)

    def product(x: Any, codes: Any, scales: Any, *more: Any, zeros: bool, bias: bool) -> torch.Tensor:
        rest = list(more)
        shift, added = rest.pop(0) if zeros else None, rest.pop(0) if bias else None
        return ops.cpu_gemm_wna16(x, codes, scales, shift, added, 8, "vec")

    for dtype in (torch.float16, torch.bfloat16):
        for zeros, bias in ((False, False), (True, True)):
            codes, shift = (
                torch.randint(-(2**31), 2**31, shape, generator=generator).int() for shape in ((6, 128), (2, 12))
            )
            x, scales, added = (
                torch.randn(shape, generator=generator).to(dtype) for shape in ((70, 64), (2, 96), (96,))
            )
            args = (x, codes, scales, *([shift] if zeros else []), *([added] if bias else []))
            about = f"{'zero points, a bias, ' if zeros else ''}{str(dtype).removeprefix('torch.')}"
            yield Case("_C.cpu_gemm_wna16", about, partial(product, zeros=zeros, bias=bias), args)


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
    installed = find_spec("vllm") is not None
    rows += vllm_rows() if installed else ()
    formulas = _FORMULAS[:1] if installed else _FORMULAS
    rows += [f"| `{name}` | | formulas in PyTorch, in a test | 1e-9 at most |" for name in formulas]
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
