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

__all__ = ["ASSUMED", "attention_over_ranks", "in_natural_order", "in_order_of_ranks"]

ASSUMED = (
    'Transformer Engine\'s attention with cp_comm_type "all_gather" gathers the keys and values of all ranks of cp, '
    "reduce-scatters their gradients, and masks by the positions that Megatron gives every rank: Megatron-Core's own "
    "attention stands in its place, with that around it"
)


def _chunks(ranks: int) -> list[int]:
    """The chunks of the sequence that the ranks have, one rank after the other."""
    return [chunk for rank in range(ranks) for chunk in (rank, 2 * ranks - 1 - rank)]


def _put(x: Tensor, order: list[int], dim: int) -> Tensor:
    chunks = x.chunk(len(order), dim)
    return torch.cat([chunks[k] for k in order], dim)


def in_order_of_ranks(x: Tensor, ranks: int, dim: int = 0) -> Tensor:
    """A tensor whose dimension ``dim`` is the sequence, with the parts of all ranks of ``cp`` one after the other."""
    return x if ranks == 1 else _put(x, _chunks(ranks), dim)


def in_natural_order(x: Tensor, ranks: int, dim: int = 0) -> Tensor:
    """What :func:`in_order_of_ranks` is made of."""
    order = _chunks(ranks)
    return x if ranks == 1 else _put(x, [order.index(k) for k in range(len(order))], dim)


def attention_over_ranks() -> type:
    """A class in the place of ``TEDotProductAttention`` with ``cp_comm_type="all_gather"``: keys and values of all
    ranks, put into their natural order as Transformer Engine does; the rows of the causal mask that belong to the
    positions of this rank's queries; and Megatron's ``DotProductAttention`` of these."""
    base: Any = import_module("megatron.core.transformer.dot_product_attention").DotProductAttention
    mappings = import_module("megatron.core.tensor_parallel.mappings")
    parallel_state = import_module("megatron.core.parallel_state")

    class Attention(base):
        def __init__(self, config: Any, *args: Any, **more: Any) -> None:
            alone = copy.copy(config)
            alone.context_parallel_size = 1
            super().__init__(alone, *args, **more)

        def forward(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, **more: Any) -> Tensor:
            """The attention of this rank's queries."""
            group = parallel_state.get_context_parallel_group()
            ranks, rank = group.size(), group.rank()
            gather = mappings.gather_from_sequence_parallel_region
            key, value = (in_natural_order(gather(x.contiguous(), group=group), ranks) for x in (key, value))
            return super().forward(query, key, value, masked(len(key), ranks, rank), **more)

    return Attention


def masked(length: int, ranks: int, rank: int) -> Tensor:
    """True for the keys, in their natural order, that the queries of a rank must not see, in the order of the rank:
    of shape (queries, keys)."""
    chunks = torch.arange(length).chunk(2 * ranks)
    own = torch.cat([chunks[rank], chunks[2 * ranks - 1 - rank]])
    return torch.arange(length) > own.unsqueeze(1)
