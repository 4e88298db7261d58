"""Approximations that are declared: what ranks compute of their own rows, or of some choices, where one device would of
all. In the proof the strict form stands in their place, and the verdict is *up to* them.

A declaration names nodes of the implementation and one of the kinds below. Each kind is one change of these nodes, so
that what is proved differs from what runs by that change and nothing else; a node that is not of the kind is refused.

- ``local-statistic``: the node is the mean or the sum of what a rank has; strictly, it is that of all ranks along the
  axes ``over``: a reduction follows it. The statistics of a batch normalisation, how many tokens went to an expert.
- ``restricted-choice``: the node is a mask of zeros and ones, made by comparisons; strictly, it is one everywhere.
  Routing among the experts of a few nodes.

Two more kinds are about gradients, in plans (:mod:`tantamount.plan.contributions`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from tantamount.ir.graph import Graph, Node, Ref
from tantamount.ir.job import Job
from tantamount.ir.mesh import Mesh

__all__ = ["KINDS", "NotThat", "check_names", "group_along", "strict_job"]

KINDS = ("local-statistic", "restricted-choice")
_MEANS = {"aten.mean.dim": "avg", "aten.mean.default": "avg", "aten.sum.dim_IntList": "sum", "aten.sum.default": "sum"}
_COMPARISONS = ("lt", "le", "gt", "ge", "eq", "ne", "logical_and", "logical_or", "bitwise_and", "bitwise_or")
_AS_IT_IS = ("aten._to_copy.default", "prims.convert_element_type.default", "aten.to.dtype")


class NotThat(Exception):
    """A declared node is not of its kind; the message is a noun phrase that says what it is."""


def strict_job(job: Job, kind: str, nodes: Sequence[str], over: Sequence[str]) -> Job:
    """The job with the strict form in the place of an approximation, in the programs of all ranks. Raises
    :class:`NotThat`."""
    group, mesh = group_along(job.mesh, over) if kind == "local-statistic" else ("", job.mesh)
    changed = {id(graph): _strict(graph, kind, nodes, group) for graph in job.implementation}
    return replace(job, mesh=mesh, implementation=tuple(changed[id(graph)] for graph in job.implementation))


def _strict(graph: Graph, kind: str, names: Sequence[str], group: str) -> Graph:
    replaced: dict[str, tuple[Node, ...]] = {}
    for name in names:
        node = graph.by_name.get(name)
        if node is None or node.op != "call":
            raise NotThat(f"{name}, which no operator of {graph.path} gives")
        replaced[name] = _summed(node, group) if kind == "local-statistic" else (_all_ones(graph, node),)
    changed = replace(graph, nodes=tuple(new for node in graph.nodes for new in replaced.get(node.name, (node,))))
    check_names(changed)
    return changed


def _summed(node: Node, group: str) -> tuple[Node, ...]:
    """A statistic of what all ranks have, under the name of that of one rank."""
    reduction = _MEANS.get(node.target)
    if reduction is None:
        raise NotThat(f"{node.name}, which is {node.target} and neither a mean nor a sum")
    own, sent = replace(node, name=f"{node.name}.own"), f"{node.name}.all"
    reduce = Node(
        sent, "call", "_c10d_functional.all_reduce.default", (Ref(own.name), reduction, group), type=node.type
    )
    wait = replace(node, target="_c10d_functional.wait_tensor.default", args=(Ref(sent),), kwargs={})
    return own, reduce, wait


def _all_ones(graph: Graph, node: Node) -> Node:
    """A mask that restricts nothing."""
    if not _is_mask(graph.by_name, node):
        raise NotThat(f"{node.name}, which is not made of comparisons alone")
    if node.type is None:
        raise NotThat(f"{node.name}, of whose type the file says nothing")
    return replace(node, target="aten.ones.default", args=(tuple(node.type.shape),), kwargs={"dtype": node.type.dtype})


def _first(nodes: Mapping[str, Node], node: Node) -> Node | None:
    """The node that the first operand is."""
    operand = node.args[0] if node.args else None
    return nodes[operand.name] if isinstance(operand, Ref) else None


def _is_mask(nodes: Mapping[str, Node], node: Node) -> bool:
    """True for comparisons, for what copies the result of one, and for marks of the places of different maxima."""
    name = node.target.split(".")[1] if node.target.count(".") else ""
    operand = _first(nodes, node)
    if name in _COMPARISONS or operand is None:
        return name in _COMPARISONS
    if node.target in _AS_IT_IS:
        return _is_mask(nodes, operand)
    return node.target == "aten.sum.dim_IntList" and _marks(nodes, operand)


def _marks(nodes: Mapping[str, Node], node: Node | None) -> bool:
    """True for indices of the greatest of a row, each compared with all places: their sum has no entry above one."""
    compared = False
    while node is not None:
        if node.target in ("aten.eq.Tensor", "aten.eq.Scalar"):
            compared = True
        elif node.target == "getitem":
            source = _first(nodes, node)
            return compared and node.args[1] == 1 and source is not None and source.target == "aten.topk.default"
        elif node.target not in (*_AS_IT_IS, "aten.unsqueeze.default", "aten.view.default", "aten.detach.default"):
            return False
        node = _first(nodes, node)
    return False


def group_along(mesh: Mesh, axes: Sequence[str]) -> tuple[str, Mesh]:
    """A name for the group along some axes, which no other has, and the mesh that knows it."""
    name = "+".join(("strict", *axes))
    while name in mesh.groups:
        name += "'"
    return name, Mesh(mesh.axes, {**mesh.groups, name: tuple(axes)})


def check_names(graph: Graph) -> None:
    """Raise :class:`NotThat` if a node that stands in the place of another one is called as a third one is: what reads
    that would read it instead."""
    seen = set[str]()
    for node in graph.nodes:
        if node.name in seen:
            raise NotThat(f"{node.name} of {graph.path}, a name that is needed for what stands in the place of a node")
        seen.add(node.name)
