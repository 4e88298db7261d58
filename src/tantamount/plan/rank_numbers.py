"""Numbers in programs that may be numbers of ranks, where a part is looked at on fewer of them.

``mean over 32 ranks`` and ``times 1/32`` are equal on 32 ranks and differ on 2. So what differs on fewer ranks is taken
for a difference of the part only if it is there as well with every number that may be one of ranks made smaller, too.
(Either alone would not do: a mean may stand beside a number, or beside the mean of a row that became shorter.)
"""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from math import prod

from tantamount.ir.graph import Argument, Graph, Node
from tantamount.ir.job import Job

__all__ = ["with_fewer"]

_SCALES = ("mul", "div", "full", "full_like", "scalar_tensor", "new_full")
_NEAR = 1e-6  # of a whole number: literals are rounded


def with_fewer(small: Job, job: Job) -> Job | None:
    """``small``, a job on shorter axes of the mesh than ``job``, with factors that are multiples of the number of ranks
    along such axes, or one over them, made smaller as the axes are; ``None`` if there are none."""
    axes = [(n, m) for axis, n in job.mesh.axes.items() if n != (m := small.mesh.axes.get(axis, n))]
    subsets = [some for count in range(len(axes), 0, -1) for some in combinations(axes, count)]
    ratios = sorted({(prod(n for n, _ in some), prod(m for _, m in some)) for some in subsets}, reverse=True)
    done: dict[int, Graph] = {}
    for graph in (small.specification, *small.implementation):
        if id(graph) not in done:
            nodes = tuple(_changed(node, ratios) for node in graph.nodes)
            same = all(new is old for new, old in zip(nodes, graph.nodes, strict=True))
            done[id(graph)] = graph if same else replace(graph, nodes=nodes)
    if all(graph is done[id(graph)] for graph in (small.specification, *small.implementation)):
        return None
    ranks = tuple(done[id(graph)] for graph in small.implementation)
    return replace(small, specification=done[id(small.specification)], implementation=ranks)


def _changed(node: Node, ratios: list[tuple[int, int]]) -> Node:
    parts = node.target.split(".")
    if node.op != "call" or len(parts) < 2 or parts[0] != "aten" or parts[1].rstrip("_") not in _SCALES:
        return node
    args = tuple(_fewer(argument, ratios) for argument in node.args)
    return node if all(new is old for new, old in zip(args, node.args, strict=True)) else replace(node, args=args)


def _fewer(argument: Argument, ratios: list[tuple[int, int]]) -> Argument:
    if isinstance(argument, bool) or not isinstance(argument, (int, float)) or not 0 < abs(argument) < 1e18:
        return argument
    below = abs(argument) < 1
    size = 1 / argument if below else argument
    if abs(size - round(size)) > _NEAR * abs(size):
        return argument
    for n, m in ratios:
        if round(size) % n == 0:
            return argument * n / m if below else argument * m / n
    return argument
