"""Values that programs write and read again at the same place, taken from where they came: FSDP puts what a rank gives
to a collective into its part of the buffer for the result, so that the programs of ranks differ in a place where
nothing else looks."""

# pyright: basic
from __future__ import annotations

from typing import Any

import torch
from torch import fx

__all__ = ["window", "without_detours"]

_aten = torch.ops.aten


def without_detours(graph: fx.Graph) -> None:
    """Rewrite ``copy(x, y)`` of equal shapes and types as ``y``, and ``slice(slice_scatter(x, y, ...), ...)`` of the
    same elements as ``y``; what nobody uses then is taken out."""
    for node in list(graph.nodes):
        found = _source(node)
        if found is not None:
            node.replace_all_uses_with(found)
    for node in reversed(list(graph.nodes)):
        if not node.users and node.target in (
            _aten.copy.default, _aten.slice.Tensor, _aten.slice_scatter.default, _aten.empty.memory_format,
        ):  # fmt: skip
            graph.erase_node(node)


def _source(node: fx.Node) -> fx.Node | None:
    if node.target is _aten.copy.default:
        target, source = node.args[:2]
        if isinstance(source, fx.Node) and isinstance(target, fx.Node) and _type(target) == _type(source):
            return source
        return None
    if node.target is _aten.slice.Tensor:
        made = node.args[0]
        if isinstance(made, fx.Node) and made.target is _aten.slice_scatter.default:
            source, where = made.args[1], window(node, 1)
            if isinstance(source, fx.Node) and where is not None and where == window(made, 2):
                return source
    return None


def window(node: fx.Node, first: int) -> tuple[Any, ...] | None:
    """Dimension, start, end and step of a slice, with what is left out; ``None`` if something is no number."""
    given: list[Any] = [*node.args[first:], *([None] * 4)][:4]
    if node.kwargs:
        return None
    dim, start, end, step = given
    found = (0 if dim is None else dim, 0 if start is None else start, end, 1 if step is None else step)
    return found if all(x is None or type(x) is int for x in found) else None


def _type(node: fx.Node) -> tuple[object, ...]:
    value = node.meta.get("val")
    return (tuple(value.shape), value.dtype) if isinstance(value, torch.Tensor) else (None, node)
