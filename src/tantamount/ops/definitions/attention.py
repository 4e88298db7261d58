"""Scaled dot-product attention in its variants: all of them are one definition."""

from __future__ import annotations

from fractions import Fraction

from tantamount.ir.types import DType
from tantamount.ops.algebra import Scalar, Tensor
from tantamount.ops.builder import Builder, ShapeProblem, exact
from tantamount.ops.definitions.activation import safe_softmax_of
from tantamount.ops.definitions.contraction import matmul_of
from tantamount.ops.definitions.in_place import require_float
from tantamount.ops.definitions.random import dropout_of
from tantamount.ops.definitions.reduction import logsumexp
from tantamount.ops.doubts import doubted
from tantamount.ops.table import Booleans, operator

_ATTENTION = "attention"


def _scores(
    b: Builder,
    query: Tensor,
    key: Tensor,
    mask: Tensor | None,
    is_causal: bool,
    scale: Scalar | None,
    added: bool = False,
) -> Tensor:
    """``scale * query key^T``, masked: ``(..., L, S)``. ``added``: minus infinity is added to what is masked, which
    leaves a NaN one."""
    scores, mask = _scores_and_mask(b, query, key, mask, is_causal, scale)
    if mask is None:
        return scores
    if mask.dtype is DType.BOOL and added:
        mask = b.where(mask, b.number(0, scores.dtype), b.number(-b.infinity, scores.dtype))
    if mask.dtype is DType.BOOL:
        return b.where(b.expand(mask, scores.shape), scores, b.number(-b.infinity, scores.dtype))
    return b.cast(b.add(scores, b.expand(require_float(mask), scores.shape)), scores.dtype)


def _scores_and_mask(
    b: Builder, query: Tensor, key: Tensor, mask: Tensor | None, is_causal: bool, scale: Scalar | None
) -> tuple[Tensor, Tensor | None]:
    """``scale * query key^T``, and what masks it."""
    if query.rank < 2 or key.rank < 2 or query.shape[-1] != key.shape[-1] or not query.shape[-1]:
        raise ShapeProblem(f"attention of queries {query.type} to keys {key.type}")
    scores = b.mul(matmul_of(b, require_float(query), b.transpose(key, -2, -1)), _factor(b, query, scale))
    if is_causal:
        if mask is not None:
            raise ShapeProblem("attention with both a mask and is_causal")
        i, j = b.unsqueeze(b.iota(scores.shape[-2]), 1), b.unsqueeze(b.iota(scores.shape[-1]), 0)
        mask = b.not_(b.less(i, j))
    return scores, mask


def _factor(b: Builder, query: Tensor, scale: Scalar | None) -> Tensor:
    """The factor of the scores: ``scale``, else exactly 1 / sqrt(head size)."""
    if scale is None:
        return b.power(b.number(query.shape[-1], query.dtype), Fraction(-1, 2))
    return b.number(scale, query.dtype)


def _grouped(b: Builder, x: Tensor, heads: int) -> Tensor:
    """Every key or value head repeated for its group of query heads."""
    own = x.shape[-3]
    if not own or heads % own:
        raise ShapeProblem(f"{heads} query heads in groups for {own} heads of {x.type}")
    wide = b.expand(b.unsqueeze(x, -3), (*x.shape[:-2], heads // own, *x.shape[-2:]))
    return b.reshape(wide, (*x.shape[:-3], heads, *x.shape[-2:]))


def _both_grouped(b: Builder, query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
    """Keys and values with as many heads as queries."""
    if min(query.rank, key.rank, value.rank) < 3:
        raise ShapeProblem(f"grouped heads of {query.type} and {key.type}")
    return _grouped(b, key, query.shape[-3]), _grouped(b, value, query.shape[-3])


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
        key, value = _both_grouped(b, query, key, value)
    scores = _scores(b, query, key, mask, is_causal, scale)
    weights, _ = dropout_of(b, safe_softmax_of(b, scores, -1), dropout_p)
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

    A query all of whose keys are masked attends to nothing: its weights are 0.
    """
    return _attention(b, query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa)[0]


@operator("aten._scaled_dot_product_attention_math.default", category=_ATTENTION)
def attention_math(
    b: Builder,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    dropout_mask: Tensor | None = None,
    *,
    scale: Scalar | None = None,
    enable_gqa: bool = False,
) -> tuple[Tensor, Tensor]:
    """softmax(scale * query key^T + attn_mask) value, and the weights; dropout_mask says which weights dropout keeps

    With a dropout_mask the weights that are returned are not yet divided by 1 - dropout_p. A query all of whose keys
    are masked has weights 0.
    """
    if attn_mask is not None:
        require_float(attn_mask)  # a boolean one would be added as zeros and ones
    if enable_gqa:
        key, value = _both_grouped(b, query, key, value)
    weights = safe_softmax_of(b, _scores(b, query, key, attn_mask, is_causal, scale, added=True), -1)
    if not dropout_p or dropout_mask is None:
        weights, _ = dropout_of(b, weights, dropout_p)
        return matmul_of(b, weights, value), weights
    if dropout_p >= 1:
        raise ShapeProblem(f"a dropout_mask with dropout_p = {dropout_p}")
    weights = b.where(b.expand(dropout_mask, weights.shape), weights, b.number(0, weights.dtype))
    return matmul_of(b, weights, b.mul(value, 1 / (1 - Fraction(exact(dropout_p))))), weights


def attended_with_sums(
    b: Builder,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    dropout_p: float,
    is_causal: bool,
    scale: Scalar | None,
    of_nothing: Scalar | None = None,
) -> tuple[Tensor, Tensor]:
    """The attended values and the logarithms of the sums of exponentials; those of a query all of whose keys are masked
    are ``of_nothing`` (``None``: not known)."""
    if query.rank != 4:
        raise ShapeProblem(f"queries {query.type}, which are not (batch, heads, length, size)")
    grouped = key.shape[:-2] != query.shape[:-2]  # these kernels take fewer key heads as they are
    out, scores = _attention(b, query, key, value, mask, dropout_p, is_causal, scale, grouped)
    sums = logsumexp(b, scores, (-1,))
    if mask is not None:  # the kernels differ in what they save of a query that attends to nothing
        nothing = b.equal(b.amax(scores, (-1,)), -b.infinity)
        given = b.number(of_nothing, sums.dtype) if of_nothing is not None else b.unknown(sums.shape, sums.dtype)
        sums = b.where(nothing, given, sums)
    sums = doubted(b, sums)  # they differ in what they save of infinite scores, too
    return out, b.cast(sums, DType.FLOAT32) if sums.dtype.bits < 32 else sums


def _require_heads(query: Tensor, key: Tensor) -> None:
    """This kernel has no groups of heads."""
    if query.shape[:-2] != key.shape[:-2]:
        raise ShapeProblem(f"grouped heads of {query.type} and {key.type} in this kernel")


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
    """softmax(scale * query key^T + mask) value; the logarithms of the sums of exponentials; a random state, unknown"""
    if return_debug_mask:
        raise ShapeProblem("return_debug_mask = True")
    _require_square(query, key, is_causal)
    out, sums = attended_with_sums(b, query, key, value, None, dropout_p, is_causal, scale)
    state = (b.unknown((2,), DType.UINT64), b.unknown((), DType.UINT64))
    return (out, sums, None, None, None, None, *state, None)


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
    """softmax(scale * query key^T + mask) value; the logarithms of the sums of exponentials

    A query all of whose keys are masked has the value 0 and the logarithm 0.
    """
    return attended_with_sums(b, query, key, value, attn_mask, dropout_p, is_causal, scale, of_nothing=0)


@operator("aten._scaled_dot_product_efficient_attention.default", category=_ATTENTION)
def efficient_attention(
    b: Builder,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_bias: Tensor | None,
    compute_log_sumexp: bool,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: Scalar | None = None,
) -> tuple[Tensor | None, ...]:
    """softmax(scale * query key^T + bias) value; the logarithms of the sums of exponentials; a random state, unknown

    The logarithms are padded to a multiple of 32 by unknowns.
    """
    _require_heads(query, key)
    out, sums = attended_with_sums(b, query, key, value, attn_bias, dropout_p, is_causal, scale)
    *lead, length = sums.shape
    missing = -length % 32
    if not compute_log_sumexp:
        sums = b.slice(sums, -1, 0, 0)
    elif missing:
        sums = b.concat([sums, b.unknown((*lead, missing), sums.dtype)], -1)
    return (out, sums, b.unknown((), DType.INT64), b.unknown((), DType.INT64))


@operator("aten._scaled_dot_product_cudnn_attention.default", category=_ATTENTION)
def cudnn_attention(
    b: Builder,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_bias: Tensor | None,
    compute_log_sumexp: bool,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    return_debug_mask: bool = False,
    *,
    scale: Scalar | None = None,
) -> tuple[Tensor | None, ...]:
    """softmax(scale * query key^T + bias) value; the logarithms of the sums of exponentials; a random state, unknown"""
    if return_debug_mask:
        raise ShapeProblem("return_debug_mask = True")
    _require_square(query, key, is_causal)
    out, sums = attended_with_sums(b, query, key, value, attn_bias, dropout_p, is_causal, scale)
    state = (b.unknown((), DType.INT64), b.unknown((), DType.INT64))
    kept = b.unsqueeze(sums, -1) if compute_log_sumexp else None
    return (out, kept, None, None, None, None, *state, None)


# ---------------------------------------------------------------------------------------------- gradients
def _weights_and_change(
    b: Builder,
    grad: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    out: Tensor,
    sums: Tensor,
    mask: Tensor | None,
    dropout_p: float,
    is_causal: bool,
    scale: Scalar | None,
) -> tuple[Tensor, Tensor]:
    """With the given ``out`` and ``sums``, which may be those of more keys (ring attention): weights
    ``p = exp(scores - sums)`` and the gradient of the scores, ``ds = p * (grad value^T - sum(grad * out))``. A masked
    score has the weight 0."""
    if dropout_p:
        raise ShapeProblem(f"the gradient of attention with dropout_p = {dropout_p}")
    heads = query.shape[:-2]
    if query.rank != 4 or not heads == key.shape[:-2] == value.shape[:-2] or grad.shape != out.shape:
        raise ShapeProblem(f"the gradient of attention of {query.type} to {key.type} and {value.type}")
    if out.shape != (*query.shape[:-1], value.shape[-1]) or sums.shape != query.shape[:-1]:
        raise ShapeProblem(f"results {out.type} and {sums.type} of attention of {query.type} to {value.type}")
    scores, mask = _scores_and_mask(b, query, key, mask, is_causal, scale)
    if mask is not None and mask.dtype is not DType.BOOL:
        scores, mask = b.cast(b.add(scores, b.expand(require_float(mask), scores.shape)), scores.dtype), None
    weights = b.exp(b.sub(scores, b.cast(b.unsqueeze(sums, -1), scores.dtype)))
    if mask is not None:
        weights = b.where(b.expand(mask, scores.shape), weights, b.number(0, weights.dtype))
    mean = b.sum(b.mul(require_float(grad), out), (-1,), keepdim=True)
    return weights, b.mul(weights, b.sub(matmul_of(b, grad, b.transpose(value, -2, -1)), mean))


def attention_gradients(
    b: Builder,
    grad: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    out: Tensor,
    sums: Tensor,
    mask: Tensor | None,
    dropout_p: float,
    is_causal: bool,
    scale: Scalar | None,
) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients ``scale ds key``, ``scale ds^T query`` and ``p^T grad``; of keys and values whose heads are fewer,
    summed over the group."""
    wide = (key, value) if key.shape[:-2] == query.shape[:-2] else _both_grouped(b, query, key, value)
    given = (out, sums, mask, dropout_p, is_causal, scale)
    weights, of_scores = _weights_and_change(b, grad, query, *wide, *given)
    change = b.mul(of_scores, _factor(b, query, scale))
    of_query, of_key = matmul_of(b, change, wide[0]), matmul_of(b, b.transpose(change, -2, -1), query)
    of_value = matmul_of(b, b.transpose(weights, -2, -1), grad)
    return b.cast(of_query, query.dtype), _group_sum(b, of_key, key), _group_sum(b, of_value, value)


def _group_sum(b: Builder, x: Tensor, like: Tensor) -> Tensor:
    """x summed over the heads that share one of ``like``."""
    if x.shape != like.shape:
        heads = like.shape[-3]
        groups = b.reshape(x, (*x.shape[:-3], heads, x.shape[-3] // heads, *x.shape[-2:]))
        x = b.sum(groups, (x.rank - 2,))
    return b.cast(x, like.dtype)


@operator("aten._scaled_dot_product_flash_attention_backward.default", category=_ATTENTION)
def flash_attention_backward(
    b: Builder,
    grad_out: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    out: Tensor,
    logsumexp: Tensor,
    cum_seq_q: Tensor | None,
    cum_seq_k: Tensor | None,
    max_q: int | None,
    max_k: int | None,
    dropout_p: float,
    is_causal: bool,
    philox_seed: Tensor | None,
    philox_offset: Tensor | None,
    *,
    scale: Scalar | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """the gradients of query, key and value, with the weights exp(scale * query key^T + mask - logsumexp)"""
    if cum_seq_q is not None or cum_seq_k is not None:
        raise ShapeProblem("the gradient of attention to sequences of several lengths")
    _require_square(query, key, is_causal)
    # without sequences of several lengths their greatest has no effect, nor without dropout the random numbers' state
    return attention_gradients(b, grad_out, query, key, value, out, logsumexp, None, dropout_p, is_causal, scale)


@operator("aten._scaled_dot_product_flash_attention_for_cpu_backward.default", category=_ATTENTION)
def flash_attention_cpu_backward(
    b: Builder,
    grad_out: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    out: Tensor,
    logsumexp: Tensor,
    dropout_p: float,
    is_causal: bool,
    *,
    attn_mask: Tensor | None = None,
    scale: Scalar | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """the gradients of query, key and value, with the weights exp(scale * query key^T + mask - logsumexp)"""
    return attention_gradients(b, grad_out, query, key, value, out, logsumexp, attn_mask, dropout_p, is_causal, scale)


@operator("aten._scaled_dot_product_cudnn_attention_backward.default", category=_ATTENTION)
def cudnn_attention_backward(
    b: Builder,
    grad_out: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    out: Tensor,
    logsumexp: Tensor,
    philox_seed: Tensor | None,
    philox_offset: Tensor | None,
    attn_bias: Tensor | None,
    cum_seq_q: Tensor | None,
    cum_seq_k: Tensor | None,
    max_q: int | None,
    max_k: int | None,
    dropout_p: float,
    is_causal: bool,
    *,
    scale: Scalar | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """gradients of attention: of query, of key, of value (from the saved result and logarithms of sums)"""
    if cum_seq_q is not None or cum_seq_k is not None:
        raise ShapeProblem("the gradient of attention to sequences of several lengths")
    if max_q not in (None, query.shape[-2]) or max_k not in (None, key.shape[-2]):
        raise ShapeProblem(f"lengths {max_q} and {max_k} of {query.type} and {key.type}")
    _require_square(query, key, is_causal)
    sums = b.squeeze(logsumexp, (-1,))
    return attention_gradients(b, grad_out, query, key, value, out, sums, attn_bias, dropout_p, is_causal, scale)[:3]


@operator("aten._scaled_dot_product_efficient_attention_backward.default", category=_ATTENTION)
def efficient_attention_backward(
    b: Builder,
    grad_out_: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_bias: Tensor | None,
    out: Tensor,
    logsumexp: Tensor,
    philox_seed: Tensor | None,
    philox_offset: Tensor | None,
    dropout_p: float,
    grad_input_mask: Booleans,
    is_causal: bool = False,
    *,
    scale: Scalar | None = None,
) -> tuple[Tensor | None, ...]:
    """gradients of attention: of query, of key, of value, of attn_bias, as far as grad_input_mask wants them"""
    if len(grad_input_mask) != 4:
        raise ShapeProblem(f"a grad_input_mask of {len(grad_input_mask)} entries where 4 are needed")
    _require_heads(query, key)
    sums = b.slice(logsumexp, -1, 0, query.shape[-2])  # without the padding
    given = (grad_out_, query, key, value, out, sums, attn_bias, dropout_p, is_causal, scale)
    gradients = attention_gradients(b, *given)
    of_bias = None
    if attn_bias is not None and attn_bias.dtype.is_float:
        of_scores = _weights_and_change(b, *given)[1]
        lead = of_scores.rank - attn_bias.rank
        repeated = [k for k in range(of_scores.rank) if k < lead or attn_bias.shape[k - lead] != of_scores.shape[k]]
        summed = b.sum(of_scores, repeated, keepdim=True) if repeated else of_scores
        of_bias = b.cast(b.reshape(summed, attn_bias.shape), attn_bias.dtype)
    return tuple(x if wanted else None for x, wanted in zip((*gradients, of_bias), grad_input_mask, strict=True))
