"""Captured graphs made small enough to execute: sizes replaced one by one, everywhere that they occur."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from tantamount.ir.graph import Graph
from tantamount.ir.types import TensorType

__all__ = ["MEGATRON", "shrunk"]

# Megatron-LM GPT with 24 heads of 32, sequence 1536, batch 8, vocabulary 98304, as 4 heads of 2, sequence 16, batch 3,
# vocabulary 20. The products of these sizes, and their halves and quarters on the ranks, follow consistently.
MEGATRON: Mapping[int, int] = {
    98304: 20, 49152: 10, 24576: 5,  # vocabulary
    1536: 16, 768: 8, 384: 4, 192: 12,  # sequence, which is also half of the feed-forward size; hidden size
    3072: 32, 2304: 24, 1152: 12, 576: 6,  # feed-forward size; queries, keys and values
    12288: 48, 6144: 24, 3: 3, 8: 3,  # sequence times batch; batch
    24: 4, 12: 2, 32: 2, 96: 6,  # heads; head size; three head sizes, or half of the heads times the batch
}  # fmt: skip


def shrunk(graph: Graph, sizes: Mapping[int, int]) -> Graph:
    """The graph with every size in shapes and arguments replaced; sizes that ``sizes`` lacks stay."""

    def smaller(item: Any) -> Any:
        if isinstance(item, tuple):
            return tuple(smaller(entry) for entry in item)
        return sizes.get(item, item) if isinstance(item, int) and not isinstance(item, bool) else item

    nodes = [
        replace(
            node,
            args=smaller(node.args),
            kwargs={key: smaller(value) for key, value in node.kwargs.items()},
            type=None if node.type is None else TensorType(smaller(node.type.shape), node.type.dtype),
        )
        for node in graph.nodes
    ]
    return replace(graph, nodes=tuple(nodes))
