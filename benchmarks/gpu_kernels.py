"""Kernels of GPUs against their definitions: how far they are apart.

    python benchmarks/gpu_kernels.py [--device cuda] [--seed 1]

Each row calls PyTorch on a GPU, forward and (where there is a gradient) backward, and executes what the definitions say
of every kernel on the way in float64. ``apart`` is the greatest difference of a result that is a float, relative to its
largest element: bfloat16 rounds to 4e-3, float16 to 5e-4, float32 to 6e-8; sums of many products are further apart.
``no definition``: a kernel that the table does not have. Exit code 1 if a kernel differs.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

import numpy as np
import torch
from torch.nn import functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

from support.aten_agreement import executed
from support.aten_calls import Call, recorded
from tantamount.errors import TantamountError
from tantamount.ops.table import table
from tantamount.semantics.reference import Reference

Run = Callable[[], Any]
_SHOWN = (
    "attention", "attn", "grouped_mm", "scaled_mm", "int_mm", "norm", "convolution", "batch_norm", "rnn", "embedding",
    "softmax", "gelu", "mm",
)  # fmt: skip
_TOLERANCE = {torch.float32: 1e-4, torch.float16: 4e-3, torch.bfloat16: 2e-2}
HEADER = ("| kernel | called as | apart |", "|---|---|---|")


class _Cases:
    """Named calls on random numbers of one seed."""

    def __init__(self, device: str, seed: int) -> None:
        self.device = device
        self.generator = torch.Generator().manual_seed(seed)

    def drawn(self, *shape: int, dtype: torch.dtype = torch.bfloat16, scale: float = 1.0) -> torch.Tensor:
        numbers = torch.randn(shape, generator=self.generator) * scale
        return numbers.to(self.device, dtype).requires_grad_(dtype.is_floating_point)

    def all(self) -> Iterator[tuple[str, Run]]:
        yield from self.attention()
        yield from self.varlen()
        yield from self.products()
        yield from self.norms()

    def attention(self) -> Iterator[tuple[str, Run]]:
        """Every backend of scaled_dot_product_attention."""
        bf16, fp16, fp32 = torch.bfloat16, torch.float16, torch.float32
        for backend, dtypes in (
            (SDPBackend.FLASH_ATTENTION, (bf16, fp16)),
            (SDPBackend.EFFICIENT_ATTENTION, (bf16, fp16, fp32)),
            (SDPBackend.CUDNN_ATTENTION, (bf16, fp16)),
            (SDPBackend.MATH, (bf16, fp32)),
        ):
            for dtype in dtypes:
                for heads, own, m, n, size, about in (
                    (4, 4, 128, 128, 64, "causal"), (4, 4, 96, 160, 128, "crosswise"), (8, 2, 64, 64, 64, "grouped"),
                    (2, 2, 128, 128, 64, "a bias"), (2, 2, 128, 128, 64, "a boolean mask"),
                    (2, 2, 64, 64, 32, "a scale of 0.3"),
                ):  # fmt: skip
                    q = self.drawn(2, heads, m, size, dtype=dtype)
                    k, v = (self.drawn(2, own, n, size, dtype=dtype) for _ in range(2))
                    options: dict[str, Any] = {"is_causal": about == "causal", "enable_gqa": heads != own}
                    if about == "a bias":
                        options["attn_mask"] = self.drawn(m, n, dtype=dtype).detach()
                    if about == "a boolean mask":
                        kept = torch.rand(m, n, generator=self.generator) < 0.6
                        kept[3] = False
                        options["attn_mask"] = kept.to(self.device)
                    if about.startswith("a scale"):
                        options["scale"] = 0.3

                    def run(q: Any = q, k: Any = k, v: Any = v, backend: Any = backend, options: Any = options) -> None:
                        with sdpa_kernel(backend):
                            out = F.scaled_dot_product_attention(q, k, v, **options)
                            out.backward(torch.ones_like(out).cumsum(-1) / 8)

                    yield f"{backend.name.lower()}, {str(dtype).removeprefix('torch.')}, {about}", run

    def varlen(self) -> Iterator[tuple[str, Run]]:
        """Sequences of several lengths in one tensor."""
        from torch.nn.attention.varlen import varlen_attn

        three, few, many = (33, 64, 31), (20, 44), (64, 50)
        for of_q, of_k, window, heads, own in (
            (three, None, (-1, -1), 4, 4), (three, None, (-1, 0), 4, 4), ((5, 0, 59), None, (-1, 0), 4, 4),
            (few, many, (-1, 0), 4, 4), ((30, 34), (10, 50), (-1, 0), 2, 2), (three, None, (16, 0), 4, 4),
            (three, None, (8, 4), 4, 4), (few, many, (12, 0), 4, 4), (three, None, (-1, 0), 8, 2),
            ((1, 1, 1), (40, 7, 64), (-1, 0), 4, 4),
        ):  # fmt: skip
            keys = of_k or of_q
            q = self.drawn(sum(of_q), heads, 64)
            k, v = (self.drawn(sum(keys), own, 64) for _ in range(2))
            starts, others = (
                torch.tensor(np.cumsum([0, *lengths]), dtype=torch.int32, device=self.device)
                for lengths in (of_q, keys)
            )
            longest = max(of_q), max(keys)
            right = window == (-1, 0)

            def directly(
                q: Any = q, k: Any = k, v: Any = v, starts: Any = starts, others: Any = others, longest: Any = longest,
                window: Any = window, right: bool = right,
            ) -> None:  # fmt: skip
                with torch.no_grad():
                    out, sums, state, unused, _ = torch.ops.aten._flash_attention_forward(
                        q, k, v, starts, others, *longest, 0.0, right, False, window_size_left=window[0],
                        window_size_right=window[1],
                    )  # fmt: skip
                    torch.ops.aten._flash_attention_backward(
                        torch.ones_like(out).cumsum(-1) / 8, q, k, v, out, sums, starts, others, *longest, 0.0, right,
                        state, unused, window_size_left=window[0], window_size_right=window[1],
                    )  # fmt: skip

            yield f"lengths {of_q} to {keys}, window {window}, heads {heads} of {own}", directly

            def publicly(
                q: Any = q, k: Any = k, v: Any = v, starts: Any = starts, others: Any = others, longest: Any = longest,
                window: Any = window, own: int = own, heads: int = heads,
            ) -> None:  # fmt: skip
                grouped = {"enable_gqa": True} if own != heads else {}
                out = varlen_attn(q, k, v, starts, others, *longest, window_size=window, **grouped)
                out.backward(torch.ones_like(out).cumsum(-1) / 8)

            yield f"varlen_attn, lengths {of_q} to {keys}, window {window}, heads {heads} of {own}", publicly
        for window in ((-1, -1), (-1, 0), (7, 0), (3, 5)):
            q, k, v = self.drawn(2, 48, 4, 64), self.drawn(2, 80, 4, 64), self.drawn(2, 80, 4, 64)

            def batched(q: Any = q, k: Any = k, v: Any = v, window: Any = window) -> None:
                with torch.no_grad():
                    torch.ops.aten._flash_attention_forward(
                        q, k, v, None, None, 48, 80, 0.0, window == (-1, 0), False, window_size_left=window[0],
                        window_size_right=window[1],
                    )  # fmt: skip

            yield f"batches, window {window}", batched

    def products(self) -> Iterator[tuple[str, Run]]:
        """Products by groups, with scales, of int8."""
        ends = torch.tensor([16, 16, 64], dtype=torch.int32, device=self.device)
        x, w, y = self.drawn(64, 32), self.drawn(3, 32, 48), self.drawn(64, 48)
        for about, a, b, offs in (
            ("rows to experts, one idle", x, w, ends), ("experts to columns", w.transpose(1, 2), x.t(), ends),
            ("of terms", x.t(), y, ends), ("batches", w, w.transpose(1, 2), None),
        ):  # fmt: skip

            def grouped(a: Any = a, b: Any = b, offs: Any = offs) -> None:
                out = F.grouped_mm(a, b, offs=offs)
                out.backward(torch.ones_like(out).cumsum(-1) / 8)

            yield about, grouped
        p, q = (self.drawn(32, 64, dtype=torch.float32, scale=0.5).detach().to(torch.float8_e4m3fn) for _ in range(2))
        one = torch.tensor(0.5, device=self.device)
        rows, columns = torch.rand(32, 1, generator=self.generator), torch.rand(1, 32, generator=self.generator)
        rows, columns = rows.to(self.device) + 0.5, columns.to(self.device) + 0.5
        for about, a, b, bias in (
            ("a scale for all", one, one, None), ("a scale for all, a bias", one, one * 3, self.drawn(32).detach()),
            ("a scale a row", rows, columns, None),
        ):  # fmt: skip
            for fast in (False, True):
                yield (
                    f"float8, {about}{', fast sums' if fast else ''}",
                    lambda a=a, b=b, bias=bias, fast=fast: torch._scaled_mm(
                        p, q.t(), a, b, bias=bias, out_dtype=torch.bfloat16, use_fast_accum=fast
                    ),
                )
        i, j = (torch.randint(-128, 128, (32, 64), generator=self.generator).to(self.device, torch.int8) for _ in "ij")
        yield "int8", lambda: torch._int_mm(i, j.t())

    def norms(self) -> Iterator[tuple[str, Run]]:
        """Norms of wide rows, convolutions, recurrent networks, embeddings."""
        for dtype in (torch.bfloat16, torch.float32):
            name = str(dtype).removeprefix("torch.")
            x, w, b = self.drawn(6, 4096, dtype=dtype), self.drawn(4096, dtype=dtype), self.drawn(4096, dtype=dtype)

            def backward(out: Any) -> None:
                out.backward(torch.ones_like(out).cumsum(-1) / out.shape[-1])

            yield f"{name}, rows of 4096", lambda x=x, w=w: backward(F.rms_norm(x, (4096,), w, 1e-6))
            yield f"{name}, rows of 4096", lambda x=x, w=w, b=b: backward(F.layer_norm(x, (4096,), w, b))
            image, kernel = self.drawn(2, 8, 17, 17, dtype=dtype), self.drawn(12, 4, 3, 3, dtype=dtype)
            yield (
                f"{name}, groups, strides",
                lambda i=image, k=kernel: backward(F.conv2d(i, k, stride=2, padding=1, groups=2)),
            )
            yield f"{name}, in training", lambda i=image: backward(F.batch_norm(i, None, None, training=True))
            yield f"{name}, 8 groups", lambda i=image: backward(F.group_norm(i, 4))
        logits, labels = self.drawn(40, 1000, dtype=torch.float32), torch.randint(0, 1000, (40,)).to(self.device)
        yield "labels of 1000", lambda: F.cross_entropy(logits, labels).backward()
        rows = self.drawn(50, 64, dtype=torch.float32)
        yield "of 50 rows", lambda: F.embedding(labels % 50, rows).sum().backward()


def apart(call: Call) -> float:
    """The greatest difference of results that are floats, relative to the largest element of each; infinite where eager
    has no number and the definition has. Raises :class:`TantamountError` for what the definition refuses."""
    found = executed(call, Reference(seed=0))
    worst = 0.0
    ours, theirs = (x if isinstance(x, (tuple, list)) else (x,) for x in (found, call.result))
    for one, other in zip(ours, theirs, strict=False):
        if one is None or not isinstance(other, torch.Tensor) or not other.dtype.is_floating_point or not other.numel():
            continue
        eager, defined = other.detach().double().cpu().numpy(), np.asarray(one.value)
        if eager.shape != defined.shape or (np.isfinite(defined) & ~np.isfinite(eager)).any():
            return float("inf")
        both = np.isfinite(eager) & np.isfinite(defined)
        if both.any():
            worst = max(worst, float(np.abs(eager - defined)[both].max() / max(np.abs(eager[both]).max(), 1e-30)))
    return worst


def said(call: Call) -> tuple[str, bool]:
    """How a call compares, and whether it differs."""
    if call.target not in table():
        return "no definition", False
    try:
        by = apart(call)
    except TantamountError as problem:
        return f"refused: {str(problem).splitlines()[1].split(':', 1)[-1].strip()[:80]}", False
    dtypes = [x.dtype for x in call.tensors if x.dtype.is_floating_point]
    return f"{by:.1e}", by > max((_TOLERANCE.get(dtype, 2e-2) for dtype in dtypes), default=0.0)


def main() -> int:
    """Print a row for every kernel and how it was called."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    print(f"PyTorch {torch.__version__}, {torch.cuda.get_device_name() if options.device == 'cuda' else 'CPU'}\n")
    print("\n".join(HEADER))
    different: list[str] = []
    for about, run in _Cases(options.device, options.seed).all():
        calls: list[Call] = []
        try:
            recorded(run, calls.append)
        except (RuntimeError, NotImplementedError, ValueError, ImportError, TypeError) as problem:
            print(f"| | {about} | did not run: {str(problem).splitlines()[0][:90]} |")
        for call in calls:
            name = call.target.removesuffix(".default")
            if not any(part in name for part in _SHOWN):
                continue
            text, differs = said(call)
            different += [name] if differs else []
            print(f"| `{name}` | {about} | {text}{' DIFFERS' if differs else ''} |", flush=True)
    print(f"\n{len(different)} differ")
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
