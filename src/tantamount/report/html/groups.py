"""The nodes of a graph in modules that can be opened and closed.

A module is a stretch of the execution order, so that a drawing of closed modules has no cycles: a module that is called
twice, or whose backward pass runs later, appears twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from pathlib import PurePosixPath
from typing import Union

from tantamount.ir.graph import Graph, Node, references

__all__ = ["Child", "Group", "modules_of"]

_MOST = 48  # children of one module: more of them are put into parts
_PART = 24
_BACKWARD = " backward"
_WRAPPERS = ("torch/_library/", "torch/_ops", "torch/distributed/_functional", "torch/nn/", "torch/autograd/")


@dataclass(frozen=True, slots=True)
class Group:
    """A module: its name, and what is inside in execution order (positions of nodes in the graph)."""

    name: str
    children: tuple[Child, ...]


Child = Union[int, Group]


def modules_of(graph: Graph) -> tuple[Child, ...]:
    """The graph's nodes, each once, in modules. Inputs and constants stand where they are first used."""
    order = _order(graph)
    paths: dict[int, tuple[str, ...]] = {}
    here: tuple[str, ...] = ()
    for k in reversed(order):  # what says nothing of its module belongs to what follows, as inputs do
        here = _path(graph.nodes[k]) or here
        paths[k] = here
    return _parts(_tree(order, paths, 0))


def _order(graph: Graph) -> list[int]:
    position = {node.name: k for k, node in enumerate(graph.nodes)}
    order: list[int] = []
    seen: set[int] = set()
    for k, node in enumerate(graph.nodes):
        if node.op != "call":
            continue
        for name in references(node):
            other = position[name]
            if graph.nodes[other].op != "call" and other not in seen:
                seen.add(other)
                order.append(other)
        order.append(k)
    return order + [k for k, node in enumerate(graph.nodes) if node.op != "call" and k not in seen]


def _path(node: Node) -> tuple[str, ...]:
    """The modules that a node is in, outermost first: those that the capture recorded, else file and function; empty
    if nothing is known."""
    source = node.source
    if source is None or not source.file:
        return ()
    module, found, function = source.function.rpartition(": ")
    if found:
        path = _components(module.removesuffix(_BACKWARD))
        return ("backward", *path) if module.endswith(_BACKWARD) else path
    if any(part in source.file for part in _WRAPPERS):
        return ()
    file = PurePosixPath(source.file.replace("\\", "/")).name
    return (f"{file}: {function}" if function else file,)


def _components(module: str) -> tuple[str, ...]:
    """``model.layers.0.attention`` is model, layers.0, attention."""
    path: list[str] = []
    for part in module.split("."):
        if path and part.isdigit():
            path[-1] += f".{part}"
        else:
            path.append(part)
    return tuple(path)


def _tree(order: Sequence[int], paths: dict[int, tuple[str, ...]], depth: int) -> list[Child]:
    children: list[Child] = []
    for name, run in groupby(order, key=lambda k: paths[k][depth] if len(paths[k]) > depth else None):
        nodes = list(run)
        if name is None:
            children += nodes
            continue
        inside = _tree(nodes, paths, depth + 1)
        if len(inside) == 1 and isinstance(inside[0], Group):
            children.append(Group(f"{name}.{inside[0].name}", inside[0].children))
        elif len(inside) == 1:
            children += inside
        else:
            children.append(Group(name, _parts(inside)))
    return children


def _parts(children: Sequence[Child]) -> tuple[Child, ...]:
    """At most so many children that a layout is quick and can be read: of more, stretches become parts."""
    while len(children) > _MOST:
        count = -(-len(children) // _PART)
        cuts = [len(children) * k // count for k in range(count + 1)]
        parts = enumerate(pairwise(cuts), 1)
        children = [Group(f"part {k} of {count}", tuple(children[low:high])) for k, (low, high) in parts]
    return tuple(children)
