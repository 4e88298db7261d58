"""The conditions under which equality at reduced shapes is said to mean equality at all.

Per size that was reduced: it is 2 at least; every operator on tensors of that size is the same function at every place
(SIMD), of elements at places that are linear in it; and no masks, embeddings or tables are among them. Facts of the
operators decide, found from their definitions. No verdict rests on this: ``x[i]`` and ``x[2 * i]`` fulfil all of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tantamount.ir.graph import Graph, Node, references
from tantamount.ir.job import Job
from tantamount.ops.algebra import Tensor
from tantamount.ops.calls import facts_of
from tantamount.ops.facts import Facts
from tantamount.verdict import SideCondition

__all__ = ["side_conditions"]

_LINEAR = frozenset({"squeeze", "permute", "expand", "slice", "stride", "flip", "diagonal"})


def side_conditions(job: Job, sizes: Mapping[int, tuple[int, ...]]) -> tuple[SideCondition, ...]:
    """The conditions of every size of the job that became another one."""
    found: dict[int, tuple[dict[str, None], dict[str, None]]] = {old: ({}, {}) for old in sizes}
    known: dict[object, tuple[str, str]] = {}
    for graph in {id(graph): graph for graph in (job.specification, *job.implementation)}.values():
        for node in graph.nodes:
            touched = [old for old in _dimensions(graph, node) if old in found]
            if not touched or node.op == "input" or node.target == "getitem":
                continue
            key = (node.target, repr(node.args), repr(node.kwargs), tuple(_types(graph, node)))
            if key not in known:
                known[key] = _broken(graph, node, job)
            simd, apart = known[key]
            for old in touched:
                if simd:
                    found[old][0][simd] = None
                if apart:
                    found[old][1][apart] = None
    out: list[SideCondition] = []
    for old, (simd, apart) in sorted(found.items(), reverse=True):
        size = f"{old} -> {' or '.join(map(str, sizes[old]))}"
        small = tuple(str(new) for new in sizes[old] if new < 2)
        out += [
            SideCondition(size, "at least 2", small),
            SideCondition(size, "one function at every place, of places linear in it", tuple(simd)),
            SideCondition(size, "no masks, embeddings or tables", tuple(apart)),
        ]
    return tuple(out)


def _types(graph: Graph, node: Node) -> Iterator[str]:
    for name in references(node):
        yield str(graph.by_name[name].type)


def _dimensions(graph: Graph, node: Node) -> list[int]:
    types = [node.type, *(graph.by_name[name].type for name in references(node))]
    return list(dict.fromkeys(size for type_ in types if type_ is not None for size in type_.shape))


def _broken(graph: Graph, node: Node, job: Job) -> tuple[str, str]:
    """Texts that say what breaks the second and the third condition, or empty texts."""
    if node.op == "constant":
        return "", f"constant {node.target}"

    def operand(name: str) -> Tensor | None:
        type_ = graph.by_name[name].type
        return None if type_ is None else Tensor(type_.shape, type_.dtype, None)

    groups = None if graph is job.specification else {g: job.mesh.group_size(g) for g in job.mesh.groups}
    facts = facts_of(graph, node, operand, groups)
    if facts.factory:
        return "", f"{node.target} (made of positions)"
    moves = sorted(facts.moves - _LINEAR)
    if facts.moves & {"gather", "scatter", "choose"}:
        return "", f"{node.target} ({', '.join(moves)})"
    if facts.random:
        return "", f"{node.target} (random)"
    return ("" if _simd(facts) and not moves else f"{node.target} ({', '.join(moves) or 'not shown'})"), ""


def _simd(facts: Facts) -> bool:
    return facts.elementwise or facts.layout or bool(facts.linear) or bool(facts.reduction)
