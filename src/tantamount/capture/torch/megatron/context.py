"""Context parallelism of Megatron-Core: the order in which ranks have the sequence, and attention over parts of it.

Megatron cuts a sequence into two chunks for every rank of ``cp``; rank ``r`` of ``n`` has the chunks ``r`` and
``2 n - 1 - r``, so that causal masks leave all ranks as much to do. Parts of that kind are no placement of the whole;
they are one of the whole *in the order of the ranks*, which is how plans have it (:func:`in_order_of_ranks`).

Megatron-Core's own attention knows of no other ranks than those of ``tp``; with context parallelism it asks for
Transformer Engine's, which runs on GPUs only. :func:`attention_over_ranks` makes what stands in its place.
"""

# pyright: basic
from __future__ import annotations

import copy
from importlib import import_module
from typing import Any

import torch
from torch import Tensor

__all__ = ["ASSUMED", "attention_over_ranks", "in_natural_order", "in_order_of_ranks", "positions_in_order_of_ranks"]

ASSUMED = (
    "Transformer Engine's attention with cp_comm_type \"all_gather\" is that of a rank's queries to the keys and "
    "values of all ranks of cp, masked by the positions that Megatron gives them; their gradients are reduce-scattered",
    "a layer on one device takes its sequence in the order of the ranks of cp: rotary embeddings and the causal mask "
    "are those of the positions, and nothing else of a layer asks for the order",
)


def _chunks(ranks: int) -> list[int]:
    """The chunks of the sequence that the ranks have, one rank after the other."""
    return [chunk for rank in range(ranks) for chunk in (rank, 2 * ranks - 1 - rank)]


def _put(x: Tensor, order: list[int]) -> Tensor:
    chunks = x.chunk(len(order))
    return torch.cat([chunks[k] for k in order])


def in_order_of_ranks(x: Tensor, ranks: int) -> Tensor:
    """A tensor whose first dimension is the sequence, with the parts of all ranks of ``cp`` one after the other."""
    return x if ranks == 1 else _put(x, _chunks(ranks))


def in_natural_order(x: Tensor, ranks: int) -> Tensor:
    """The tensor that :func:`in_order_of_ranks` makes this one of."""
    order = _chunks(ranks)
    return x if ranks == 1 else _put(x, [order.index(k) for k in range(len(order))])


def attention_over_ranks(ranks: int) -> type:
    """A class in the place of ``TEDotProductAttention`` with ``cp_comm_type="all_gather"``: Megatron's
    ``DotProductAttention`` of this rank's queries and of the keys and values of all, one rank after the other, with the
    mask that follows from the positions of both. On one device it is causal attention over a sequence in the order of
    ``ranks``."""
    base: Any = import_module("megatron.core.transformer.dot_product_attention").DotProductAttention
    mappings = import_module("megatron.core.tensor_parallel.mappings")
    parallel_state = import_module("megatron.core.parallel_state")

    class Attention(base):
        def __init__(self, config: Any, *args: Any, cp_comm_type: str | None = None, **more: Any) -> None:
            alone = copy.copy(config)
            alone.context_parallel_size = 1
            super().__init__(alone, *args, **more)

        def forward(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, **more: Any) -> Tensor:
            """The attention of this rank's queries."""
            group = parallel_state.get_context_parallel_group()
            key = mappings.gather_from_sequence_parallel_region(key, group=group)
            value = mappings.gather_from_sequence_parallel_region(value.contiguous(), group=group)
            unseen = later(len(key), ranks, group.size(), group.rank())
            return super().forward(query, key, value, unseen, **more)

    return Attention


def later(length: int, ranks: int, parts: int, part: int) -> Tensor:
    """True where a key is of a later token than a query, of shape (queries, keys): keys in the order of ``ranks``, and
    of the queries, in the same order, one part of several."""
    positions = in_order_of_ranks(torch.arange(length), ranks)
    return positions > positions.chunk(parts)[part].unsqueeze(1)


def positions_in_order_of_ranks(model: Any, ranks: int) -> None:
    """Let a layer of one device take its sequence in the order of ``ranks``: rotary embeddings are those of the
    positions. (Its mask is that of :func:`attention_over_ranks`; nothing else of a layer asks for positions.)"""

    def put(_: Any, __: Any, made: Tensor) -> Tensor:
        # chunks are chosen as Megatron's ranks choose theirs: forms that are alike are quickly seen to be equal
        chunks = made.unflatten(0, (2 * ranks, -1))
        return chunks.index_select(0, torch.tensor(_chunks(ranks))).flatten(0, 1)

    rotary = getattr(model, "rotary_pos_emb", None)
    if rotary is not None:
        rotary.register_forward_hook(put)
