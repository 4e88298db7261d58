"""Splits into very many parts, of which a program reads some: each of these is read from the whole.

``split(x, s, d)[i]`` is ``slice(x, d, i s, min((i + 1) s, n))`` for a dimension of n elements, and ``unbind(x, d)[i]``
is ``select(x, d, i)``. So that nothing is made of the parts that nobody reads, a split into more parts than are made
(65,536) is left out, where all that is done with its results is to take one of them.
"""

from __future__ import annotations

from dataclasses import replace

from tantamount.ir.graph import Graph, Node, Ref, references

__all__ = ["read_from_the_whole"]

_MANY = 1 << 16
_SPLITS = frozenset({"aten.split.Tensor", "aten.unsafe_split.Tensor", "aten.split_copy.Tensor"})
_CHUNKS = frozenset({"aten.chunk.default", "aten.unsafe_chunk.default"})
_UNBINDS = frozenset({"aten.unbind.int", "aten.unbind_copy.int"})


def read_from_the_whole(graph: Graph) -> Graph:
    """The program without splits into very many parts. What does not fit their definitions stays as it is, for an error
    that says so."""
    known = _SPLITS | _CHUNKS | _UNBINDS
    splits = [node for node in graph.nodes if node.op == "call" and node.target in known]
    new: dict[str, Node | None] = {}
    asked = {output.node for output in graph.outputs}
    for split in splits:
        items = [graph.by_name[name] for name in graph.users[split.name]] if _long(graph, split) else []
        read = [_read(graph, split, item) for item in items]
        if items and split.name not in asked and all(one is not None for one in read):
            new |= {split.name: None, **{item.name: one for item, one in zip(items, read, strict=True)}}
    if not new:
        return graph
    nodes = (new.get(node.name, node) for node in graph.nodes)
    return replace(graph, nodes=tuple(node for node in nodes if node is not None))


def _long(graph: Graph, split: Node) -> bool:
    """True if the first operand has more elements along a dimension than there may be parts."""
    operand = split.args[0] if split.args else None
    type_ = graph.by_name[operand.name].type if isinstance(operand, Ref) else None
    return type_ is not None and any(type(size) is int and size > _MANY for size in type_.shape)


def _read(graph: Graph, split: Node, item: Node) -> Node | None:
    """One part of the split as what it is of the whole; ``None`` if it is none, or there are not so many."""
    operand, index = split.args[0], item.args[1] if len(item.args) == 2 else None
    if item.target != "getitem" or type(index) is not int or not isinstance(operand, Ref) or split.kwargs:
        return None
    type_ = graph.by_name[operand.name].type
    given = split.args[1:]
    if type_ is None or any(type(number) is not int for number in given) or [*references(item)] != [split.name]:
        return None
    unbound = split.target in _UNBINDS
    sizes = () if unbound else given[:1]
    dims = given[len(sizes) :] or (0,)
    dim = dims[0]
    if len(dims) > 1 or not isinstance(dim, int) or not -len(type_.shape) <= dim < len(type_.shape):
        return None
    length = type_.shape[dim]
    if type(length) is not int or (not unbound and (not sizes or not isinstance(sizes[0], int) or sizes[0] < 1)):
        return None
    size = sizes[0] if sizes and isinstance(sizes[0], int) else 1
    if split.target in _CHUNKS:
        size = -(-length // size)
    count = -(-length // size) if size else 0
    if count <= _MANY or not -count <= index < count:
        return None
    k = index % count
    if unbound:
        return replace(item, target="aten.select.int", args=(operand, dim, k))
    return replace(item, target="aten.slice.Tensor", args=(operand, dim, k * size, min((k + 1) * size, length)))
