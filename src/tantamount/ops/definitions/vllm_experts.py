"""Experts of vLLM on a CPU: their weights as its kernel wants them, and the kernel."""

from __future__ import annotations

from fractions import Fraction

from tantamount.ir.types import DType
from tantamount.ops.algebra import Tensor
from tantamount.ops.builder import Builder, ShapeProblem
from tantamount.ops.definitions.activation import gelu_of, silu
from tantamount.ops.definitions.in_place import require_float
from tantamount.ops.table import operator

_VENDOR = "vendor"
_ROWS = 16  # that lie next to each other in a packed weight
_MULTIPLE = 32  # of rows: the kernel stops at others
_CAP = 7  # of gates and factors, "swigluoai"


def _portable(isa: str) -> None:
    """The other kernels (of AMX, NEON, VSX) pack weights in orders of their own."""
    if isa != "vec":
        raise ShapeProblem(f"the kernel for isa={isa!r}; only that for 'vec' is known")


def _matrices(weight: Tensor) -> None:
    if require_float(weight).rank != 3 or weight.shape[1] % _MULTIPLE:
        raise ShapeProblem(f"weights {weight.type} of experts, whose rows are not a multiple of {_MULTIPLE}")


@operator("_C.prepack_moe_weight.default", category=_VENDOR, mutates=("packed_weight",))
def prepack_moe_weight(b: Builder, weight: Tensor, packed_weight: Tensor, isa: str) -> Tensor:
    """packed_weight := weight[e, 16 r + i, c] in the order (e, r, c, i)"""
    _portable(isa)
    _matrices(weight)
    experts, rows, columns = weight.shape
    blocks = b.reshape(weight, (experts, rows // _ROWS, _ROWS, columns))
    return b.reshape(b.permute(blocks, (0, 1, 3, 2)), weight.shape)


def _unpacked(b: Builder, packed: Tensor) -> Tensor:
    _matrices(packed)
    experts, rows, columns = packed.shape
    blocks = b.reshape(packed, (experts, rows // _ROWS, columns, _ROWS))
    return b.reshape(b.permute(blocks, (0, 1, 3, 2)), packed.shape)


def _gated(b: Builder, x: Tensor, act: str) -> Tensor:
    """The activation of gates times what they let through: the halves of the last dimension, or, for ``swigluoai``,
    its even and its odd elements."""
    half = x.shape[-1] // 2
    if act == "swigluoai":
        pairs = b.reshape(x, (*x.shape[:-1], half, 2))
        gate, up = (b.select(pairs, -1, k) for k in (0, 1))
        gate, up = b.minimum(gate, _CAP), b.maximum(b.minimum(up, _CAP), -_CAP)
        passed = b.div(gate, b.add(b.exp(b.mul(gate, Fraction("-1.702"))), 1))
        return b.mul(b.add(up, 1), passed)
    gate, up = b.slice(x, -1, 0, half), b.slice(x, -1, half)
    if act == "silu":
        return b.mul(silu(b, gate), up)
    if act in ("gelu", "gelu_tanh"):
        return b.mul(b.mul(*gelu_of(b, gate, "none" if act == "gelu" else "tanh")), up)
    raise ShapeProblem(f"act={act!r}; known are silu, gelu, gelu_tanh and swigluoai")


@operator("_C.cpu_fused_moe.default", category=_VENDOR, mutates=("output",))
def cpu_fused_moe(
    b: Builder,
    output: Tensor,
    input: Tensor,
    w13: Tensor,
    w2: Tensor,
    w13_bias: Tensor | None,
    w2_bias: Tensor | None,
    topk_weights: Tensor,
    topk_id: Tensor,
    skip_weighted: bool,
    act: str,
    isa: str,
) -> Tensor:
    """output[t] := sum_k topk_weights[t, k] (W2[e] act(W13[e] input[t] + w13_bias[e]) + w2_bias[e]), e = topk_id[t, k]

    ``W13`` and ``W2`` are the weights as they were before they were packed. ``act`` takes gates from the first half of
    its operand and what they let through from the second (``swigluoai``: from even and odd elements, cut off at 7).
    With ``skip_weighted`` the factors ``topk_weights`` are left out.
    """
    _portable(isa)
    experts, wide, narrow = w13.shape if w13.rank == 3 else (0, 0, 0)
    half, count = wide // 2, topk_id.shape[-1] if topk_id.rank else 0
    fits = (
        input.rank == 2
        and input.shape[1] == narrow
        and half % _MULTIPLE == 0
        and w2.shape == (experts, narrow, half)
        and topk_id.shape == topk_weights.shape == (input.shape[0], count)
        and (w13_bias is None or w13_bias.shape == (experts, wide))
        and (w2_bias is None or w2_bias.shape == (experts, narrow))
    )
    tensors = [one for one in (input, w13, w2, w13_bias, w2_bias) if one is not None]
    if not fits or any(one.dtype is not output.dtype for one in tensors):
        raise ShapeProblem(f"experts {', '.join(str(one.type) for one in tensors)}, chosen by {topk_id.type}")
    if topk_weights.dtype is not DType.FLOAT32 or topk_id.dtype is not DType.INT32:
        raise ShapeProblem(f"factors {topk_weights.type} and experts {topk_id.type}, not float32 and int32")
    if skip_weighted and count != 1:
        raise ShapeProblem(f"skip_weighted with {count} experts for a token")
    chosen = b.gather(_unpacked(b, w13), [topk_id, None, None])
    hidden = b.contract("tkij,tj->tki", chosen, require_float(input))
    if w13_bias is not None:
        hidden = b.add(hidden, b.gather(w13_bias, [topk_id, None]))
    found = b.contract("tkji,tki->tkj", b.gather(_unpacked(b, w2), [topk_id, None, None]), _gated(b, hidden, act))
    if w2_bias is not None:
        found = b.add(found, b.gather(w2_bias, [topk_id, None]))
    factors = b.full(topk_weights.shape, 1, found.dtype) if skip_weighted else b.cast(topk_weights, found.dtype)
    return b.cast(b.contract("tkj,tk->tj", found, factors), output.dtype)
