"""Changes of a job's implementation, and the type check of what comes out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

from tantamount.errors import UserError
from tantamount.ir.graph import Argument, Graph, Node, Output, Ref, references
from tantamount.ir.job import Job
from tantamount.ir.relation import rank_tensors
from tantamount.ir.types import TensorType
from tantamount.ir.validate import check_structure
from tantamount.ops.algebra import Tensor
from tantamount.ops.check import check_graph

__all__ = [
    "Change", "NotAProgram", "Proposal", "at", "call", "changed", "checked", "leaves_of", "live", "replaced",
    "with_literal",
]  # fmt: skip

Change = Callable[[Graph, Node], "tuple[Node, ...] | None"]
"""The nodes that take a node's place, the last one under its name; ``None``: the change does not apply."""
Path = tuple[int | str, ...]  # into a node: position or keyword, then positions in lists


class NotAProgram(Exception):
    """The mutant does not type-check or does not fit its job."""


@dataclass(frozen=True)
class Proposal:
    """A mutant not yet made: ``kind`` for the tables, ``what`` in one line. ``build`` raises :class:`NotAProgram` or
    :class:`UserError` where the result is no valid job."""

    kind: str
    what: str
    build: Callable[[], Job]


# ------------------------------------------------------------------------------------------------ arguments
def leaves_of(node: Node) -> Iterator[tuple[Path, Argument]]:
    """Every argument that is not a list, with its place."""

    def walk(path: Path, value: Argument) -> Iterator[tuple[Path, Argument]]:
        if isinstance(value, tuple):
            for k, item in enumerate(value):
                yield from walk((*path, k), item)
        else:
            yield path, value

    for k, value in enumerate(node.args):
        yield from walk((k,), value)
    for key, value in node.kwargs.items():
        yield from walk((key,), value)


def at(node: Node, path: Path) -> Argument:
    """The argument at a place. ``LookupError`` if there is none."""
    first, *rest = path
    value: Argument = node.kwargs[first] if isinstance(first, str) else node.args[first]
    for k in rest:
        if not isinstance(value, tuple):
            raise LookupError(path)
        value = value[int(k)]
    return value


def with_literal(node: Node, path: Path, new: Argument) -> Node:
    """The node with another argument at a place."""

    def put(value: Argument, rest: Path) -> Argument:
        if not rest:
            return new
        if not isinstance(value, tuple):
            raise LookupError(path)
        return tuple(put(item, rest[1:]) if k == rest[0] else item for k, item in enumerate(value))

    first, *rest = path
    if isinstance(first, str):
        return replace(node, kwargs={**node.kwargs, first: put(node.kwargs[first], tuple(rest))})
    return replace(
        node, args=tuple(put(value, tuple(rest)) if k == first else value for k, value in enumerate(node.args))
    )


def call(name: str, target: str, *args: Argument) -> Node:
    """A node without a recorded type."""
    return Node(name, "call", target, args)


# ------------------------------------------------------------------------------------------------ graphs
def live(job: Job, rank: int) -> list[Node]:
    """The rank's nodes that a checked output depends on, through collectives as well: a node that no rank's output
    reaches cannot change anything. In order."""
    reached: set[str] = set()
    checked_outputs = set(mentioned(job))
    for graph in {id(graph): graph for graph in job.implementation}.values():
        pending = [output.node for output in graph.outputs if output.name in checked_outputs]
        while pending:
            name = pending.pop()
            if name not in reached and name in graph.by_name:
                reached.add(name)
                pending.extend(references(graph.by_name[name]))
    return [node for node in job.implementation[rank].nodes if node.name in reached]


def mentioned(job: Job) -> list[str]:
    """The implementation outputs that expectations are about."""
    found: dict[str, None] = {}
    for expectation in job.outputs.values():
        found[expectation.name] = None
        terms = [*rank_tensors(expectation.expression)] if expectation.expression is not None else []
        for term in (*terms, *(term for pair in expectation.equal for side in pair for term in rank_tensors(side))):
            found[term.name or expectation.name] = None
    return list(found)


def replaced(graph: Graph, edits: Mapping[str, tuple[Node, ...]]) -> Graph:
    """The graph with nodes replaced. What depends on them loses its recorded type, and so do they: a factory without
    operands keeps its own, which may decide its dtype."""
    nodes: list[Node] = []
    stale: set[str] = set()
    known: set[str] = set()
    for node in graph.nodes:
        for new in edits.get(node.name, (node,)):
            refs = list(references(new))
            if not known.issuperset(refs):
                raise NotAProgram("an operand that this rank does not have")
            known.add(new.name)
            if new.op == "call" and ((node.name in edits and refs) or any(ref in stale for ref in refs)):
                stale.add(new.name)
                nodes.append(replace(new, type=None))
            else:
                if node.name in edits:
                    stale.add(new.name)
                nodes.append(new)
    return replace(graph, nodes=tuple(nodes))


def changed(job: Job, ranks: frozenset[int], name: str, change: Change) -> Job:
    """The job with one node changed on some ranks. Ranks that share a graph go on sharing it if both are changed."""
    made: dict[int, Graph] = {}
    graphs: list[Graph] = []
    for rank, graph in enumerate(job.implementation):
        if rank not in ranks or name not in graph.by_name:
            graphs.append(graph)
            continue
        if id(graph) not in made:
            nodes = change(graph, graph.by_name[name])
            made[id(graph)] = graph if nodes is None else replaced(graph, {name: nodes})
        graphs.append(made[id(graph)])
    if all(a is b or a.nodes == b.nodes for a, b in zip(graphs, job.implementation, strict=True)):
        raise NotAProgram("nothing changed")
    return checked(replace(job, implementation=tuple(graphs)), job)


def checked(job: Job, original: Job) -> Job:
    """The job with every node of a changed graph typed; its outputs must keep the shapes that its relations are about.

    Raises :class:`UserError` or :class:`NotAProgram`."""
    sizes = {group: job.mesh.group_size(group) for group in job.mesh.groups}
    typed: dict[int, Graph] = {}
    graphs: list[Graph] = []
    for graph, old in zip(job.implementation, original.implementation, strict=True):
        if graph is old:
            graphs.append(graph)
            continue
        if id(graph) not in typed:
            check_structure(graph)
            types = check_graph(graph, sizes)
            nodes = [_typed(node, types[node.name]) for node in graph.nodes]
            new = replace(graph, nodes=tuple(nodes))
            before, after = _outputs(old), _outputs(new)
            for name, type_ in before.items():
                found = after[name]
                if found.shape != type_.shape or found.dtype.kind is not type_.dtype.kind:
                    raise NotAProgram(f"output {name} is {found}, not {type_}")
            typed[id(graph)] = new
        graphs.append(typed[id(graph)])
    return replace(job, implementation=tuple(graphs))


def _typed(node: Node, result: object) -> Node:
    if node.op != "call" or node.type is not None or not isinstance(result, Tensor):
        return node
    return replace(node, type=result.type)


def _outputs(graph: Graph) -> dict[str, TensorType]:
    found: dict[str, TensorType] = {}
    for output in graph.outputs:
        type_ = graph.by_name[output.node].type
        if type_ is None:
            raise NotAProgram(f"output {output.name} has no type")
        found[output.name] = type_
    return found


def refused(build: Callable[[], Job]) -> Job | str:
    """The mutant, or why it is none."""
    try:
        return build()
    except NotAProgram as problem:
        return str(problem)
    except UserError as problem:
        return f"{problem.code}: {problem.found}"


def with_outputs(graph: Graph, nodes: Mapping[str, str]) -> Graph:
    """The graph with some outputs (by name) taken from other nodes."""
    return replace(graph, outputs=tuple(Output(o.name, nodes.get(o.name, o.node)) for o in graph.outputs))


def same_typed(graph: Graph, name: str) -> list[str]:
    """Earlier nodes of the same type as a node."""
    found: list[str] = []
    wanted = graph.by_name[name].type
    for node in graph.nodes:
        if node.name == name:
            break
        if node.type == wanted and wanted is not None:
            found.append(node.name)
    return found


def ref_type(graph: Graph, value: Argument) -> TensorType | None:
    """The type of the tensor that an argument refers to."""
    return graph.by_name[value.name].type if isinstance(value, Ref) else None
