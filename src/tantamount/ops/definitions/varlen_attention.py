"""Attention within sequences of several lengths that follow each other in one tensor (*varlen*), with windows.

``cu_seq`` are the places at which sequences start, and where the last one ends: sequence n is rows ``cu_seq[n]`` to
``cu_seq[n + 1]``, and every row is in one, as PyTorch's documentation has it (kernels leave others unwritten). Queries
are aligned with the last keys of their sequence: query i of m sees the keys up to ``i + n - m`` of n if attention is
causal, and those from ``i + n - m - left`` to ``i + n - m + right`` through a window (FlashAttention 2.1 and later).
"""

from __future__ import annotations

from dataclasses import dataclass

from tantamount.ir.types import DType
from tantamount.ops.algebra import Scalar, Tensor
from tantamount.ops.builder import Builder, ShapeProblem
from tantamount.ops.definitions.attention import attended_with_sums, attention_gradients
from tantamount.ops.definitions.numbers import stop_unless
from tantamount.ops.definitions.products import group_of_place
from tantamount.ops.table import Integers, operator

_ATTENTION = "attention"
_ORDER = "its sequences are all rows, in order, and no longer than max_q and max_k"


@dataclass(frozen=True)
class _Window:
    """The keys that a query sees before and after the one that it is aligned with; ``None``: all."""

    left: int | None
    right: int | None


def _window(is_causal: bool, left: int | None, right: int | None, longest: int) -> _Window:
    """Numbers that are negative, or not below the greatest number of keys, are no bound; a causal mask is one of 0 on
    the right, whatever is given there. Where there is a bound on the left alone, kernels put that number on the right,
    which tells where queries are more than keys."""
    before, after = _bound(left, longest), 0 if is_causal else _bound(right, longest)
    return _Window(before, longest if after is None and before is not None else after)


def _bound(width: int | None, longest: int) -> int | None:
    return width if width is not None and 0 <= width < longest else None


def _seen(b: Builder, ahead: Tensor, window: _Window) -> Tensor | None:
    """``ahead[i, j]``: by how many places key j is before the one that query i is aligned with."""
    seen: Tensor | None = None
    if window.right is not None:
        seen = b.not_(b.less(ahead, b.number(-window.right, ahead.dtype)))
    if window.left is not None:
        near = b.not_(b.less(b.number(window.left, ahead.dtype), ahead))
        seen = near if seen is None else b.and_(seen, near)
    return seen


def _aligned(b: Builder, queries: Tensor, keys: Tensor) -> Tensor:
    """[i, j]: ``queries[i] - keys[j]``."""
    return b.sub(b.unsqueeze(queries, 1), b.unsqueeze(keys, 0))


def _places(b: Builder, starts: Tensor, rows: Tensor, longest: int) -> tuple[Tensor, Tensor]:
    """The sequence that each row is in, and how far it is from that one's end. The program stops unless the sequences
    are all rows, in order, and no longer than ``longest``."""
    if starts.rank != 1 or starts.shape[0] < 2 or not starts.dtype.is_integral:
        raise ShapeProblem(f"starts of sequences {starts.type}")
    count, size = starts.shape[0] - 1, rows.shape[0]
    first, ends = b.slice(starts, 0, 0, 1), b.slice(starts, 0, 1, count + 1)
    stop_unless(b, b.equal(first, b.full((1,), 0, starts.dtype)))
    stop_unless(b, b.equal(b.slice(ends, 0, -1), b.full((1,), size, starts.dtype)))
    lengths = b.sub(ends, b.slice(starts, 0, 0, count))
    stop_unless(b, b.not_(b.less(b.full((count,), longest, starts.dtype), lengths)))
    group = group_of_place(b, ends, size)
    chosen = b.cast(b.equal(b.unsqueeze(group, 1), b.iota(count, group.dtype)), ends.dtype)
    end = b.sum(b.mul(chosen, b.expand(ends, chosen.shape)), (1,))
    return group, b.sub(end, b.iota(size, end.dtype))


@dataclass(frozen=True)
class _Rows:
    """Queries, keys and values as batches of heads; the mask; ``packed``: they were sequences in one tensor."""

    query: Tensor
    key: Tensor
    value: Tensor
    mask: Tensor | None
    packed: bool

    def returned(self, b: Builder, x: Tensor) -> Tensor:
        """A result as the operands were."""
        return b.transpose(b.reshape(x, x.shape[1:]), 0, 1) if self.packed else b.transpose(x, 1, 2)


def _heads_first(b: Builder, x: Tensor) -> Tensor:
    return b.transpose(x if x.rank == 4 else b.unsqueeze(x, 0), 1, 2)


def _rows(
    b: Builder,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    starts: tuple[Tensor | None, Tensor | None],
    longest: tuple[int, int],
    sides: tuple[bool, int | None, int | None],
) -> _Rows:
    """The operands of the kernels as ours: (batch, length, heads, size), or (rows, heads, size) of sequences."""
    of_queries, of_keys = starts
    if (of_queries is None) != (of_keys is None):
        raise ShapeProblem("starts of sequences of queries and not of keys, or of keys and not of queries")
    rank = 4 if of_queries is None else 3
    if not query.rank == key.rank == value.rank == rank or key.shape[:-1] != value.shape[:-1]:
        raise ShapeProblem(f"queries {query.type}, keys {key.type} and values {value.type} of rank {rank}")
    heads = (_heads_first(b, query), _heads_first(b, key), _heads_first(b, value))
    window = _window(*sides, longest[1] if of_keys is not None else key.shape[1])
    if of_queries is None or of_keys is None:
        size, others = query.shape[1], key.shape[1]
        ahead = _aligned(b, b.add(b.iota(size), b.full((size,), others - size, DType.INT64)), b.iota(others))
        return _Rows(*heads, _seen(b, ahead, window), packed=False)
    group, left = _places(b, of_queries, query, longest[0])
    key_group, key_left = _places(b, of_keys, key, longest[1])
    if of_keys.value is of_queries.value and key.shape[0] == query.shape[0]:
        ahead = _aligned(b, b.iota(query.shape[0]), b.iota(key.shape[0]))
    else:
        ahead = b.neg(_aligned(b, left, key_left))
    same = b.equal(b.unsqueeze(group, 1), b.unsqueeze(key_group, 0))
    seen = _seen(b, ahead, window)
    return _Rows(*heads, same if seen is None else b.and_(same, seen), packed=True)


def _forward(b: Builder, rows: _Rows, scale: Scalar | None) -> tuple[Tensor, Tensor]:
    """The attended values as the queries are, and the logarithms of the sums: (batch, heads, length), or (heads, rows)
    of sequences."""
    out, sums = attended_with_sums(b, rows.query, rows.key, rows.value, rows.mask, 0.0, False, scale)
    return rows.returned(b, out), b.reshape(sums, sums.shape[1:]) if rows.packed else sums


def _backward(
    b: Builder, rows: _Rows, grad: Tensor, out: Tensor, sums: Tensor, scale: Scalar | None
) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients of queries, keys and values, each as that is."""
    query, key, value = attention_gradients(
        b, _heads_first(b, grad), rows.query, rows.key, rows.value, _heads_first(b, out),
        b.unsqueeze(sums, 0) if rows.packed else sums, rows.mask, 0.0, False, scale,
    )  # fmt: skip
    return rows.returned(b, query), rows.returned(b, key), rows.returned(b, value)


def _require_no(**given: object) -> None:
    for name, item in given.items():
        if item is not None:
            raise ShapeProblem(f"attention with {name}")


@operator("aten._flash_attention_forward.default", category=_ATTENTION, requires=_ORDER)
def flash_attention_forward(
    b: Builder,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    cum_seq_q: Tensor | None,
    cum_seq_k: Tensor | None,
    max_q: int,
    max_k: int,
    dropout_p: float,
    is_causal: bool,
    return_debug_mask: bool,
    *,
    scale: Scalar | None = None,
    window_size_left: int | None = None,
    window_size_right: int | None = None,
    seqused_k: Tensor | None = None,
    alibi_slopes: Tensor | None = None,
    block_table: Tensor | None = None,
    num_splits: int | None = None,
) -> tuple[Tensor | None, ...]:
    """softmax(scale * query key^T + mask) value within sequences; the logarithms of the sums; a random state, unknown

    Without starts of sequences, of batches. A query that sees no key has the value 0.
    """
    # num_splits says in how many pieces the keys are read
    _require_no(seqused_k=seqused_k, alibi_slopes=alibi_slopes, block_table=block_table)
    if dropout_p or return_debug_mask:
        raise ShapeProblem("attention with dropout in this kernel" if dropout_p else "return_debug_mask = True")
    sides = is_causal, window_size_left, window_size_right
    rows = _rows(b, query, key, value, (cum_seq_q, cum_seq_k), (max_q, max_k), sides)
    return (*_forward(b, rows, scale), b.unknown((2,), DType.UINT64), b.unknown((), DType.UINT64), None)


@operator("aten._flash_attention_backward.default", category=_ATTENTION, requires=_ORDER)
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
    max_q: int,
    max_k: int,
    dropout_p: float,
    is_causal: bool,
    rng_state: Tensor | None,
    unused: Tensor | None,
    *,
    scale: Scalar | None = None,
    window_size_left: int | None = None,
    window_size_right: int | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """the gradients of query, key and value within sequences, with the weights exp(scale * query key^T - logsumexp)"""
    if dropout_p:  # without it the random numbers' state has no effect
        raise ShapeProblem("the gradient of attention with dropout in this kernel")
    sides = is_causal, window_size_left, window_size_right
    rows = _rows(b, query, key, value, (cum_seq_q, cum_seq_k), (max_q, max_k), sides)
    return _backward(b, rows, grad_out, out, logsumexp, scale)


def _two(window_size: Integers | None) -> tuple[int, int]:
    if window_size is None:
        return -1, -1
    if len(window_size) != 2:
        raise ShapeProblem(f"window_size {window_size}, not two numbers")
    return window_size[0], window_size[1]


@operator("torch_attn._varlen_attn.default", category=_ATTENTION, requires=_ORDER)
def varlen_attention(
    b: Builder,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    cu_seq_q: Tensor,
    cu_seq_k: Tensor | None,
    max_q: int,
    max_k: int,
    is_causal: bool = False,
    scale: Scalar | None = None,
    window_size: Integers | None = None,
    enable_gqa: bool = False,
    seqused_k: Tensor | None = None,
    block_table: Tensor | None = None,
    num_splits: int | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """softmax(scale * query key^T + mask) value within sequences; the logarithms of the sums; a random state, unknown

    That is torch.nn.attention.varlen.varlen_attn.
    """
    _require_no(seqused_k=seqused_k, block_table=block_table)  # num_splits: in how many pieces the keys are read
    if query.rank == key.rank == 3 and query.shape[1] != key.shape[1] and not enable_gqa:
        raise ShapeProblem(f"{query.shape[1]} heads of queries and {key.shape[1]} of keys without enable_gqa")
    sides = is_causal, *_two(window_size)
    rows = _rows(b, query, key, value, (cu_seq_q, cu_seq_k), (max_q, max_k), sides)
    return (*_forward(b, rows, scale), b.unknown((2,), DType.UINT64))


@operator("torch_attn._varlen_attn_backward.default", category=_ATTENTION, requires=_ORDER)
def varlen_attention_backward(
    b: Builder,
    grad_out: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    out: Tensor,
    lse: Tensor,
    cu_seq_q: Tensor,
    cu_seq_k: Tensor,
    max_q: int,
    max_k: int,
    is_causal: bool,
    rng_state: Tensor,
    scale: Scalar | None = None,
    window_size: Integers | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """the gradients of query, key and value within sequences, with the weights exp(scale * query key^T - lse)"""
    # there is no dropout, so that the random numbers' state has no effect
    sides = is_causal, *_two(window_size)
    rows = _rows(b, query, key, value, (cu_seq_q, cu_seq_k), (max_q, max_k), sides)
    return _backward(b, rows, grad_out, out, lse, scale)
