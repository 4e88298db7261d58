"""Scaled dot-product attention in its variants: all of them are one definition."""

from __future__ import annotations

from fractions import Fraction

from tantamount.ir.types import DType
from tantamount.ops.algebra import Scalar, Tensor
from tantamount.ops.builder import Builder, ShapeProblem
from tantamount.ops.definitions.activation import softmax_of
from tantamount.ops.definitions.contraction import matmul_of
from tantamount.ops.definitions.in_place import require_float
from tantamount.ops.definitions.random import dropout_of
from tantamount.ops.definitions.reduction import logsumexp
from tantamount.ops.table import Layout, operator

_ATTENTION = "attention"


def _scores(
    b: Builder, query: Tensor, key: Tensor, mask: Tensor | None, is_causal: bool, scale: Scalar | None
) -> Tensor:
    """``scale * query key^T``, masked: ``(..., L, S)``."""
    if query.rank < 2 or key.rank < 2 or query.shape[-1] != key.shape[-1] or not query.shape[-1]:
        raise ShapeProblem(f"attention of queries {query.type} to keys {key.type}")
    if scale is None:  # exactly 1 / sqrt(head size)
        factor = b.power(b.number(query.shape[-1], query.dtype), Fraction(-1, 2))
    else:
        factor = b.number(scale, query.dtype)
    scores = b.mul(matmul_of(b, require_float(query), b.transpose(key, -2, -1)), factor)
    if is_causal:
        if mask is not None:
            raise ShapeProblem("attention with both a mask and is_causal")
        i, j = b.unsqueeze(b.iota(scores.shape[-2]), 1), b.unsqueeze(b.iota(scores.shape[-1]), 0)
        mask = b.not_(b.less(i, j))
    if mask is None:
        return scores
    if mask.dtype is DType.BOOL:
        return b.where(b.expand(mask, scores.shape), scores, b.number(-b.infinity, scores.dtype))
    return b.cast(b.add(scores, b.expand(require_float(mask), scores.shape)), scores.dtype)


def _grouped(b: Builder, x: Tensor, heads: int) -> Tensor:
    """Every key or value head repeated for its group of query heads."""
    own = x.shape[-3]
    if not own or heads % own:
        raise ShapeProblem(f"{heads} query heads in groups for {own} heads of {x.type}")
    wide = b.expand(b.unsqueeze(x, -3), (*x.shape[:-2], heads // own, *x.shape[-2:]))
    return b.reshape(wide, (*x.shape[:-3], heads, *x.shape[-2:]))


def _attention(
    b: Builder,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    dropout_p: float,
    is_causal: bool,
    scale: Scalar | None,
    enable_gqa: bool = False,
) -> tuple[Tensor, Tensor]:
    """The attended values ``softmax(scores) value`` and the scores."""
    if enable_gqa:
        if min(query.rank, key.rank, value.rank) < 3:
            raise ShapeProblem(f"grouped heads of {query.type} and {key.type}")
        key, value = _grouped(b, key, query.shape[-3]), _grouped(b, value, query.shape[-3])
    scores = _scores(b, query, key, mask, is_causal, scale)
    weights, _ = dropout_of(b, softmax_of(b, scores, -1), dropout_p)
    return matmul_of(b, weights, value), scores


@operator("aten.scaled_dot_product_attention.default", category=_ATTENTION)
def scaled_dot_product_attention(
    b: Builder,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: Scalar | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """softmax(scale * query key^T + mask) value; scale is 1 / sqrt(head size) unless given

    A fully masked row is outside the domain.
    """
    return _attention(b, query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa)[0]


def _with_sums(
    b: Builder,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    dropout_p: float,
    is_causal: bool,
    scale: Scalar | None,
) -> tuple[Tensor, Tensor]:
    if query.rank != 4:
        raise ShapeProblem(f"queries {query.type}, which are not (batch, heads, length, size)")
    out, scores = _attention(b, query, key, value, mask, dropout_p, is_causal, scale)
    sums = logsumexp(b, scores, (-1,))
    return out, b.cast(sums, DType.FLOAT32) if sums.dtype.bits < 32 else sums


def _require_square(query: Tensor, key: Tensor, is_causal: bool) -> None:
    """Kernels differ in where the diagonal of a causal mask starts when the lengths differ."""
    if is_causal and query.shape[-2] != key.shape[-2]:
        raise ShapeProblem(f"causal attention of {query.shape[-2]} queries to {key.shape[-2]} keys in this kernel")


@operator("aten._scaled_dot_product_flash_attention.default", category=_ATTENTION)
def flash_attention(
    b: Builder,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    return_debug_mask: bool = False,
    *,
    scale: Scalar | None = None,
) -> tuple[Tensor | None, ...]:
    """softmax(scale * query key^T + mask) value; the logarithms of the sums of exponentials; no other results"""
    if return_debug_mask:
        raise ShapeProblem("return_debug_mask = True")
    _require_square(query, key, is_causal)
    return (*_with_sums(b, query, key, value, None, dropout_p, is_causal, scale), *[None] * 7)


@operator("aten._scaled_dot_product_flash_attention_for_cpu.default", category=_ATTENTION)
def flash_attention_cpu(
    b: Builder,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    attn_mask: Tensor | None = None,
    scale: Scalar | None = None,
) -> tuple[Tensor, Tensor]:
    """softmax(scale * query key^T + mask) value; the logarithms of the sums of exponentials"""
    return _with_sums(b, query, key, value, attn_mask, dropout_p, is_causal, scale)


@operator("aten._scaled_dot_product_efficient_attention.default", category=_ATTENTION)
def efficient_attention(
    b: Builder,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_bias: Tensor | None,
    compute_log_sumexp: Layout,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: Scalar | None = None,
) -> tuple[Tensor | None, ...]:
    """softmax(scale * query key^T + bias) value; no other results"""
    return (_with_sums(b, query, key, value, attn_bias, dropout_p, is_causal, scale)[0], *[None] * 3)


@operator("aten._scaled_dot_product_cudnn_attention.default", category=_ATTENTION)
def cudnn_attention(
    b: Builder,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_bias: Tensor | None,
    compute_log_sumexp: Layout,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    return_debug_mask: bool = False,
    *,
    scale: Scalar | None = None,
) -> tuple[Tensor | None, ...]:
    """softmax(scale * query key^T + bias) value; no other results"""
    if return_debug_mask:
        raise ShapeProblem("return_debug_mask = True")
    _require_square(query, key, is_causal)
    return (_with_sums(b, query, key, value, attn_bias, dropout_p, is_causal, scale)[0], *[None] * 8)
