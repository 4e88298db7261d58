"""Changes that a compiler must not notice: constants that become inputs and inputs that become constants, calls that
are made twice, calls that nothing needs, and calls that write into their operand."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import numpy as np

from tantamount.fuzz.draft import Policy
from tantamount.fuzz.in_place import written
from tantamount.ir.graph import Argument, Constant, Graph, Node, Ref
from tantamount.semantics.reference import Array
from tantamount.semantics.rounding import array_type

__all__ = ["varied"]

# The share of programs with a call made twice, with a call that nothing needs, and with calls in place.
_TWICE, _DEAD, _IN_PLACE = 0.4, 0.2, 0.5


def varied(graph: Graph, inputs: dict[str, Array], random: Random, policy: Policy) -> tuple[Graph, dict[str, Array]]:
    """The program with some of its constants made inputs and inputs made constants, and now and then a call made twice,
    each for some of its readers, or made once more for none, or calls in place. The graph's calls are typed."""
    graph, inputs = _exchanged(graph, inputs, random)
    for share, read in ((_TWICE, True), (_DEAD, False)):
        if random.random() < share:
            graph = _copied(graph, random, read)
    return (written(graph, policy, random) if random.random() < _IN_PLACE else graph), inputs


def _copied(graph: Graph, random: Random, read: bool) -> Graph:
    """The graph with a copy of a call behind it, which some of several readers read, if it is to be ``read``."""
    users = graph.users
    calls = [
        node for node in graph.nodes
        if node.op == "call" and node.type is not None and (not read or len(users[node.name]) >= 2)
    ]  # fmt: skip
    if not calls:
        return graph
    chosen = random.choice(calls)
    copy = f"{chosen.name}_again"
    if copy in graph.by_name:
        return graph
    readers = [name for name in users[chosen.name] if random.random() < 0.5] if read else []
    nodes: list[Node] = []
    for node in graph.nodes:
        if node.name in readers:
            kwargs = {key: _renamed(item, chosen.name, copy) for key, item in node.kwargs.items()}
            node = replace(node, args=tuple(_renamed(item, chosen.name, copy) for item in node.args), kwargs=kwargs)
        nodes.append(node)
        if node is chosen:
            nodes.append(replace(node, name=copy))
    return replace(graph, nodes=tuple(nodes))


def _renamed(item: Argument, old: str, new: str) -> Argument:
    if isinstance(item, Ref):
        return Ref(new) if item.name == old else item
    return tuple(_renamed(entry, old, new) for entry in item) if isinstance(item, tuple) else item


def _exchanged(graph: Graph, inputs: dict[str, Array], random: Random) -> tuple[Graph, dict[str, Array]]:
    """Some constants made inputs and some inputs constants."""
    nodes: list[Node] = []
    constants, before = dict(graph.constants), dict(inputs)
    count = len(graph.inputs)
    for node in graph.nodes:
        if node.type is None or random.random() < 0.6:
            nodes.append(node)
        elif node.op == "constant":
            constant = constants.pop(node.target)
            array = np.array(
                constant.data, dtype=np.float64 if node.type.dtype.is_float else array_type(node.type.dtype)
            )
            inputs[node.name] = np.asarray(array, dtype=array_type(node.type.dtype)).reshape(node.type.shape)
            nodes.append(replace(node, op="input"))
        elif node.op == "input" and count > 1 and inputs[node.name].size <= 512:
            array = inputs.pop(node.name)
            data = np.asarray(array, dtype=np.float64) if node.type.dtype.is_float else array
            constants[node.name] = Constant(node.type, tuple(data.ravel().tolist()))
            nodes.append(replace(node, op="constant", target=node.name))
        else:
            nodes.append(node)
    if not any(node.op == "input" for node in nodes):
        return graph, before
    return replace(graph, nodes=tuple(nodes), constants=constants), inputs
