"""Calls that write their result into their operand, where nothing can see it.

To a compiler an in-place call of a tensor that nothing else reads afterwards is the same as the call that makes a new
one; it has to find out for itself. The operator table knows in-place operators by their results, so such a program has
the values that it had.
"""

from __future__ import annotations

from dataclasses import replace
from random import Random

from tantamount.fuzz.draft import Policy
from tantamount.fuzz.samplers import SAMPLERS
from tantamount.ir.graph import Graph, Node, Ref, references

__all__ = ["VIEWS", "WRITING", "writes_unseen", "written"]

WRITING = {
    f"aten.{name}.{overload}": f"aten.{name}_.{overload}"
    for overload, names in {
        "Tensor": "add sub mul div bitwise_and bitwise_or",
        "default": "clamp neg relu exp sqrt tanh sigmoid silu",
    }.items()
    for name in names.split()
}  # operator -> the one that writes into its first operand
_INTO = frozenset(WRITING.values())
_OVERLAPPING = "aten.expand.default"  # one element of memory is several of the result: cannot be written into
VIEWS = frozenset({
    "aten.permute.default", "aten.transpose.int", "aten.reshape.default", "aten.slice.Tensor", "aten.select.int",
    "aten.unsqueeze.default", "aten.squeeze.dim", "aten.split_with_sizes.default", "getitem", _OVERLAPPING,
})  # fmt: skip


def writes_unseen(graph: Graph) -> bool:
    """True if every in-place call writes into memory that a call of the program made and that nothing reads
    afterwards, neither by its name nor through a view."""
    if not any(node.target in _INTO for node in graph.nodes):
        return True
    memory: dict[str, str] = {}  # what made the memory that a value lies in; none where it is not the program's own
    overlapping: set[str] = set()
    overwritten: set[str] = set()
    for node in graph.nodes:
        read = [*references(node)]
        if not overwritten.isdisjoint(read):
            return False
        if node.target in _INTO:
            into = memory.get(read[0])
            if into is None or read[0] in overlapping or any(memory.get(name) == into for name in read[1:]):
                return False
            overwritten.update(name for name, place in memory.items() if place == into)
            memory[node.name] = into
        elif node.target in VIEWS:
            if read[0] in memory:
                memory[node.name] = memory[read[0]]
            if read[0] in overlapping or node.target == _OVERLAPPING:
                overlapping.add(node.name)
        elif node.target in SAMPLERS:
            memory[node.name] = node.name
        elif node.op == "call":  # it might be a view
            return False
    return overwritten.isdisjoint(output.node for output in graph.outputs)


def written(graph: Graph, policy: Policy, random: Random) -> Graph:
    """The graph with about half of the calls that may write into their operand written so. Its calls are typed."""
    for node in graph.nodes:
        into = WRITING.get(node.target)
        if into is None or (policy.targets is not None and into not in policy.targets) or random.random() < 0.5:
            continue
        changed = _with(graph, replace(node, target=into))
        if _keeps_type(graph, node) and writes_unseen(changed):
            graph = changed
    return graph


def _keeps_type(graph: Graph, node: Node) -> bool:
    first = node.args[0]
    return isinstance(first, Ref) and node.type is not None and graph.by_name[first.name].type == node.type


def _with(graph: Graph, node: Node) -> Graph:
    return replace(graph, nodes=tuple(node if old.name == node.name else old for old in graph.nodes))
