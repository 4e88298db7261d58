"""Modules of a drawing: every node once, no cycles between closed modules, never too many children."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from support.pictures import chain
from tantamount.ir.graph import Graph, Node, Output, Ref, Source, references
from tantamount.report.html.groups import Child, Group, modules_of


def leaves(children: tuple[Child, ...]) -> list[int]:
    return [k for child in children for k in (leaves(child.children) if isinstance(child, Group) else [child])]


def groups(children: tuple[Child, ...]) -> Iterator[Group]:
    for child in children:
        if isinstance(child, Group):
            yield child
            yield from groups(child.children)


def shape(children: tuple[Child, ...]) -> object:
    return [(c.name, shape(c.children)) if isinstance(c, Group) else c for c in children]


def program(*functions: str, file: str = "model.py") -> Graph:
    """One operator per function, each of which reads the one before it."""
    nodes = [Node("x", "input", "x")]
    for k, function in enumerate(functions):
        source = Source(file, k, function, "code") if function else None
        nodes.append(Node(f"n{k}", "call", "aten.sin.default", (Ref(nodes[-1].name),), source=source))
    return Graph(tuple(nodes), (Output("y", nodes[-1].name),))


def test_modules_are_those_that_the_capture_recorded() -> None:
    graph = program(
        "layers.0.mlp: forward", "layers.0.mlp: forward", "layers.0: forward", "layers.0.mlp backward: forward"
    )
    assert shape(modules_of(graph)) == [("layers.0", [("mlp", [0, 1, 2]), 3]), 4]


def test_without_modules_they_are_functions() -> None:
    graph = program("f", "f", "g", "g", "f")
    assert shape(modules_of(graph)) == [("model.py: f", [0, 1, 2]), ("model.py: g", [3, 4]), 5]


def test_what_wrappers_of_torch_say_is_nothing() -> None:
    graph = program("__call__", "__call__", file="lib/site-packages/torch/_library/custom_ops.py")
    assert shape(modules_of(graph)) == [0, 1, 2]


def test_inputs_stand_where_they_are_first_used() -> None:
    nodes = (
        Node("w", "input", "w"),
        Node("unused", "input", "unused"),
        Node("x", "input", "x"),
        Node("a", "call", "aten.sin.default", (Ref("x"),)),
        Node("b", "call", "aten.mul.Tensor", (Ref("a"), Ref("w"))),
    )
    assert leaves(modules_of(Graph(nodes, ()))) == [2, 3, 0, 4, 1]


@pytest.mark.parametrize(("count", "modules"), [(1, False), (70, False), (3000, False), (3000, True)])
def test_every_node_is_drawn_once_and_no_module_has_too_many(count: int, modules: bool) -> None:
    graph = chain(count, modules)
    tree = modules_of(graph)
    assert sorted(leaves(tree)) == list(range(count + 1))
    assert len(tree) <= 48
    assert all(1 < len(group.children) <= 48 for group in groups(tree))


def test_closed_modules_have_no_cycles() -> None:
    graph = chain(400, True)
    position = {node.name: k for k, node in enumerate(graph.nodes)}
    order = {k: place for place, k in enumerate(leaves(modules_of(graph)))}
    for node in graph.nodes:  # modules are stretches of an order in which everything comes after what it reads
        assert all(order[position[name]] < order[position[node.name]] for name in references(node))
