"""``as_strided``, which reads memory, as views of values: a trace knows how every tensor lies in memory."""

# pyright: basic
from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, fx

from tantamount.errors import UserError

__all__ = ["views_for_strides"]

_aten = torch.ops.aten


def views_for_strides(graph: fx.Graph) -> None:
    """Replace every ``as_strided`` that reads a row-major block, or a permutation of one, by ``slice``, ``view`` and
    ``permute`` of the tensor that fills the memory it reads; ``as_strided_scatter`` likewise. Any other ``as_strided``
    reads the elements of that tensor in the order that they have in memory. Raises :class:`UserError` where no
    tensor is known to fill the memory: what is read there cannot be said of values."""
    for node in list(graph.nodes):
        found = None
        if node.op == "call_function" and node.target in (_aten.as_strided.default, _aten.as_strided_copy.default):
            found = _read(graph, node)
        elif node.op == "call_function" and node.target is _aten.as_strided_scatter.default:
            found = _written(graph, node)
        if found is not None:
            node.replace_all_uses_with(found)
            graph.erase_node(node)


def _read(graph: fx.Graph, node: fx.Node) -> fx.Node:
    source, *geometry = node.args
    if not isinstance(source, fx.Node):  # a tensor that the graph keeps as an attribute
        raise UserError(
            "capture", place=f"node {node.name}: {node.target}", found="no tensor of the graph",
            needed="an operand that the graph computes",
        )  # fmt: skip
    with graph.inserting_before(node):
        found = _elements(graph, node, source)
        if found is None:
            raise UserError(
                "capture", place=f"node {node.name}: {node.target}",
                found="memory that no tensor of the graph fills", needed="a tensor whose elements are all of it",
                hint="write views, or make the tensor contiguous before as_strided",
            )  # fmt: skip
        value = source.meta["val"]
        with value.fake_mode:
            view = _aten.as_strided.default(value, *geometry, **node.kwargs)
        block = _block(view)
        if block is None:
            geometry = [list(view.shape), list(view.stride()), view.storage_offset()]
            found = _call(graph, node, _aten.clone.default, found, memory_format=torch.contiguous_format)  # says so
            return _call(graph, node, _aten.as_strided.default, found, *geometry)
        sizes, order, start, count = block
        if (start, count) != (0, found.meta["val"].numel()):
            found = _call(graph, node, _aten.slice.Tensor, found, 0, start, start + count)
        if sizes != [count]:
            found = _call(graph, node, _aten.view.default, found, sizes)
        if order != list(range(len(order))):
            found = _call(graph, node, _aten.permute.default, found, [order.index(d) for d in range(len(order))])
    return found


def _elements(graph: fx.Graph, like: fx.Node, node: Any) -> fx.Node | None:
    """The elements of the memory that a node is a view of, in order: those of a tensor that fills it, whatever the
    order of its dimensions there."""
    while True:
        memory = _memory(node)
        if memory is None or any(not isinstance(n, int) for n in _layout(node.meta["val"])):
            return None
        value = node.meta["val"]
        block = _block(value)
        if block is not None and block[2] == 0 and block[3] * value.element_size() == memory[1]:
            order = block[1]
            if order != list(range(len(order))):
                node = _call(graph, like, _aten.permute.default, node, order)
            return _flat(graph, like, node)
        node = node.args[0] if node.args else None
        if _memory(node) != memory:
            return None


def _written(graph: fx.Graph, node: fx.Node) -> fx.Node | None:
    """``as_strided_scatter(whole, source, size, stride, offset)``: the block of the memory replaced."""
    whole, source, *geometry = node.args
    if not isinstance(whole, fx.Node) or not isinstance(source, fx.Node) or _whole(whole) is not whole:
        return None
    value = whole.meta["val"]
    with value.fake_mode:
        block = _block(_aten.as_strided.default(value, *geometry))
    if block is None:
        return None
    _, order, start, count = block
    with graph.inserting_before(node):
        given = source
        if order != list(range(len(order))):
            given = _call(graph, node, _aten.permute.default, given, order)
        if given.meta["val"].dim() != 1:
            given = _call(graph, node, _aten.reshape.default, given, [-1])
        flat = _flat(graph, node, whole)
        found = _call(graph, node, _aten.slice_scatter.default, flat, given, 0, start, start + count)
        if value.dim() != 1:
            found = _call(graph, node, _aten.view.default, found, list(value.shape))
    return found


def _block(view: Any) -> tuple[list[int], list[int], int, int] | None:
    """A view of memory as a contiguous block: its sizes from the slowest to the fastest dimension, which dimensions
    these are, where the block starts, and how many elements it has."""
    if not isinstance(view, Tensor) or any(not isinstance(n, int) for n in _layout(view)):
        return None
    # dimensions of size 1 lie anywhere
    order = sorted(range(view.dim()), key=lambda d: (-view.stride(d), -view.size(d)))
    step = 1
    for d in reversed(order):
        if view.size(d) != 1 and view.stride(d) != step:
            return None
        step *= view.size(d)
    return [view.size(d) for d in order], order, int(view.storage_offset()), view.numel()


def _flat(graph: fx.Graph, like: fx.Node, whole: fx.Node) -> fx.Node:
    return whole if whole.meta["val"].dim() == 1 else _call(graph, like, _aten.view.default, whole, [-1])


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
    """The memory that a value lies in, and its bytes."""
    value = node.meta.get("val") if isinstance(node, fx.Node) else None
    if not isinstance(value, Tensor):
        return None
    storage = value.untyped_storage()
    return storage._cdata, storage.nbytes()


def _layout(value: Tensor) -> tuple[Any, ...]:
    return (*value.shape, *value.stride(), value.storage_offset(), value.untyped_storage().nbytes())


def _call(graph: fx.Graph, like: fx.Node, target: Any, source: fx.Node, *rest: Any, **more: Any) -> fx.Node:
    """A call with the metadata (source line, module) of another node."""
    made = graph.call_function(target, (source, *rest), more)
    made.meta = dict(like.meta)
    value = source.meta["val"]
    with value.fake_mode:
        made.meta["val"] = target(value, *(a.meta["val"] if isinstance(a, fx.Node) else a for a in rest), **more)
    return made
