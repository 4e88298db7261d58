"""``as_strided``, which reads memory, as views of values: a trace knows how every tensor lies in memory."""

# pyright: basic
from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, fx

__all__ = ["views_for_strides"]

_aten = torch.ops.aten


def views_for_strides(graph: fx.Graph) -> None:
    """Replace every ``as_strided`` that reads a row-major block, or a permutation of one, by ``slice``, ``view`` and
    ``permute`` of the tensor that fills the memory it reads. Others stay, and rest on the assumption that their
    operator states."""
    for node in list(graph.nodes):
        if node.op == "call_function" and node.target is _aten.as_strided.default:
            replacement = _as_views(graph, node)
            if replacement is not None:
                node.replace_all_uses_with(replacement)
                graph.erase_node(node)


def _as_views(graph: fx.Graph, node: fx.Node) -> fx.Node | None:
    whole, result = _whole(node.args[0]), node.meta.get("val")
    if whole is None or not isinstance(result, Tensor) or any(not isinstance(n, int) for n in _layout(result)):
        return None
    # dimensions from the slowest to the fastest; those of size 1 lie anywhere
    order = sorted(range(result.dim()), key=lambda d: (-result.stride(d), -result.size(d)))
    sizes = [result.size(d) for d in order]
    step = 1
    for d in reversed(order):
        if result.size(d) != 1 and result.stride(d) != step:
            return None
        step *= result.size(d)
    start, count = int(result.storage_offset()), result.numel()
    with graph.inserting_before(node):
        found = whole
        if whole.meta["val"].dim() != 1:
            found = _call(graph, node, _aten.view.default, found, [-1])
        if (start, count) != (0, whole.meta["val"].numel()):
            found = _call(graph, node, _aten.slice.Tensor, found, 0, start, start + count)
        if sizes != [count]:
            found = _call(graph, node, _aten.view.default, found, sizes)
        if order != list(range(len(order))):
            found = _call(graph, node, _aten.permute.default, found, [order.index(d) for d in range(len(order))])
    return found


def _whole(node: Any) -> fx.Node | None:
    """The tensor whose elements in order are the memory that ``node`` is a view of."""
    memory = _memory(node)
    while memory is not None:
        value = node.meta["val"]
        if any(not isinstance(n, int) for n in _layout(value)):
            return None
        if value.is_contiguous() and value.storage_offset() == 0 and memory[1] == value.numel() * value.element_size():
            return node
        node = node.args[0] if node.args else None
        memory = memory if _memory(node) == memory else None
    return None


def _memory(node: Any) -> tuple[int, int] | None:
    """Which memory a value lies in, and its bytes."""
    value = node.meta.get("val") if isinstance(node, fx.Node) else None
    if not isinstance(value, Tensor):
        return None
    storage = value.untyped_storage()
    return storage._cdata, storage.nbytes()


def _layout(value: Tensor) -> tuple[Any, ...]:
    return (*value.shape, *value.stride(), value.storage_offset(), value.untyped_storage().nbytes())


def _call(graph: fx.Graph, like: fx.Node, target: Any, source: fx.Node, *rest: Any) -> fx.Node:
    """A call with the metadata (source line, module) of another node."""
    made = graph.call_function(target, (source, *rest))
    made.meta = dict(like.meta)
    value = source.meta["val"]
    with value.fake_mode:
        made.meta["val"] = target(value, *rest)
    return made
