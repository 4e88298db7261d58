"""Calls of captured graphs in the words of the samplers: dimensions counted from the first, sizes written out, one
overload for what several mean."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from tantamount.ir.graph import Argument, Graph, Node, Ref, references
from tantamount.ir.types import TensorType

__all__ = ["plain_calls"]

_SAME = {  # another word for the same
    "aten.view.default": "aten.reshape.default", "aten._unsafe_view.default": "aten.reshape.default",
    "aten.mul.Scalar": "aten.mul.Tensor", "aten.add.Scalar": "aten.add.Tensor", "aten.sub.Scalar": "aten.sub.Tensor",
    "aten.div.Scalar": "aten.div.Tensor",
}  # fmt: skip
_NOTHING = frozenset({"aten.clone.default", "aten.detach.default", "aten.alias.default", "aten.contiguous.default"})
_DIMENSION = {  # the argument that is a dimension, or several
    "aten.transpose.int": (1, 2), "aten.unsqueeze.default": (1,), "aten.squeeze.dim": (1,), "aten.select.int": (1,),
    "aten.slice.Tensor": (1,), "aten.cat.default": (1,), "aten.stack.default": (1,), "aten.softmax.int": (1,),
    "aten.amax.default": (1,), "aten.amin.default": (1,), "aten.sum.dim_IntList": (1,), "aten.mean.dim": (1,),
    "aten.argmax.default": (1,), "aten.argmin.default": (1,), "aten.cumsum.default": (1,), "aten.flip.default": (1,),
    "aten.permute.default": (1,), "aten.index_select.default": (1,), "aten.gather.default": (1,), "aten.any.dim": (1,),
    "aten.all.dim": (1,), "aten.split_with_sizes.default": (2,),
}  # fmt: skip
_DEFAULTS: dict[str, tuple[Argument, ...]] = {  # arguments that samplers write and captures leave out
    "aten.cat.default": (None, 0), "aten.stack.default": (None, 0), "aten.split_with_sizes.default": (None, None, 0),
    "aten.amax.default": (None, None, False), "aten.amin.default": (None, None, False),
    "aten.sum.dim_IntList": (None, None, False), "aten.mean.dim": (None, None, False),
    "aten.argmax.default": (None, None, False), "aten.argmin.default": (None, None, False),
    "aten.any.dim": (None, None, False), "aten.all.dim": (None, None, False),
    "aten.tril.default": (None, 0), "aten.triu.default": (None, 0),
}  # fmt: skip


def plain_calls(graph: Graph) -> Graph:
    """The graph with its calls in plain words; calls without such words stay as they are."""
    types = {node.name: node.type for node in graph.nodes if node.type is not None}
    renamed: dict[str, str] = {}
    nodes: list[Node] = []
    for node in graph.nodes:
        if node.op == "call":
            node = replace(
                node, args=_mapped(node.args, renamed), kwargs={k: _one(v, renamed) for k, v in node.kwargs.items()}
            )
            first = node.args[0] if node.args else None
            same = isinstance(first, Ref) and types.get(first.name) == node.type
            if node.target in _NOTHING and same and isinstance(first, Ref):
                renamed[node.name] = first.name
                continue
            node = _plain(node, types)
        nodes.append(node)
    outputs = tuple(replace(o, node=renamed.get(o.node, o.node)) for o in graph.outputs)
    return replace(graph, nodes=tuple(nodes), outputs=outputs)


def _one(item: Argument, renamed: dict[str, str]) -> Argument:
    if isinstance(item, Ref):
        return Ref(renamed.get(item.name, item.name))
    return _mapped(item, renamed) if isinstance(item, tuple) else item


def _mapped(items: tuple[Argument, ...], renamed: dict[str, str]) -> tuple[Argument, ...]:
    return tuple(_one(item, renamed) for item in items)


def _plain(node: Node, types: dict[str, TensorType]) -> Node:
    special = _SPECIAL.get(node.target)
    if special is not None:
        node = special(node, types)
    node = replace(node, target=_SAME.get(node.target, node.target))
    defaults = _DEFAULTS.get(node.target, ())
    args = (*node.args, *defaults[len(node.args) :])
    first = next((types[name] for name in references(node) if name in types), None)
    if first is not None and node.target in _DIMENSION:
        rank = len(first.shape) + (node.target in ("aten.unsqueeze.default", "aten.stack.default"))
        counted = _DIMENSION[node.target]
        args = tuple(_dimension(item, rank) if k in counted else item for k, item in enumerate(args))
    return replace(node, args=args)


def _dimension(item: Argument, rank: int) -> Argument:
    if isinstance(item, tuple):
        return tuple(_dimension(entry, rank) for entry in item)
    return item + rank if type(item) is int and item < 0 else item


def _written(node: Node, types: dict[str, TensorType]) -> Node:
    """The shape instead of -1 in it."""
    return node if node.type is None else replace(node, args=(node.args[0], tuple(node.type.shape)))


def _turned(node: Node, types: dict[str, TensorType]) -> Node:
    rank = len(node.type.shape) if node.type is not None else 2
    return replace(node, target="aten.permute.default", args=(node.args[0], tuple(reversed(range(rank)))))


def _sliced(node: Node, types: dict[str, TensorType]) -> Node:
    first = node.args[0]
    if not isinstance(first, Ref) or first.name not in types:
        return node
    dim, start, stop, step = (*node.args[1:], *(0, None, None, 1)[len(node.args) - 1 :])
    if not isinstance(dim, int):
        return node
    size = types[first.name].shape[dim]

    def inside(item: Argument, default: int) -> int:
        found = item if isinstance(item, int) else default
        return max(0, min(size, found + size if found < 0 else found))

    return replace(node, args=(first, dim, inside(start, 0), inside(stop, size), step))


def _softmax(node: Node, types: dict[str, TensorType]) -> Node:
    if len(node.args) > 2 and node.args[2] is not False:
        return node
    return replace(node, target="aten.softmax.int", args=node.args[:2])


def _cast(node: Node, types: dict[str, TensorType]) -> Node:
    """Without where the result is and how it is laid out."""
    return replace(node, kwargs={"dtype": node.kwargs["dtype"]}) if "dtype" in node.kwargs else node


_SPECIAL: dict[str, Callable[[Node, dict[str, TensorType]], Node]] = {
    "aten.view.default": _written, "aten._unsafe_view.default": _written, "aten.reshape.default": _written,
    "aten.expand.default": _written, "aten.t.default": _turned, "aten.slice.Tensor": _sliced,
    "aten._softmax.default": _softmax, "aten._to_copy.default": _cast,
}  # fmt: skip
