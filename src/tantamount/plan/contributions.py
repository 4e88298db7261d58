"""Gradients of which ranks lack what other ranks contribute, or have that of an earlier run: declared approximations of
context parallelism, and what stands in their place in a proof.

A rank finds a gradient for all positions, of its own rows alone; the gradient is the sum of what all ranks along an
axis find, of which each needs its own part. Here is checked, of the node that is declared to be the rank's own part:

- it is exactly that: the k-th of n equal parts, on the ranks at coordinate k of n;
- what it is a part of are contributions of the rank itself: it has seen nothing of the gradients that come to other
  ranks along the axis, and is zero where those that come to this one are;
- nothing that ranks along the axis must have alike depends on it: they would drift apart. What all of them gather or
  add up of it is alike, and what all compute alike of that alone;
- what depends on it (or on what is kept of an earlier run) reads nothing in which gradients of other ranks are by
  another way: with the sum ``s`` in the place of the own part ``o``, ``o + 5 (o - s)`` is right, too.

From the first two follows that it is what this rank's gradients contribute and nothing else, once the strict form is
proved: that is right for all gradients that may come in, so also where they are zero on all other ranks.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from tantamount.capture.late import group_axes, late, reached
from tantamount.capture.strict import NotThat, check_names, group_along
from tantamount.ir.graph import Argument, Graph, Node, Output, Ref, references
from tantamount.ir.job import Job
from tantamount.ir.mesh import Mesh
from tantamount.ir.relation import Expectation, Replicate
from tantamount.ir.types import TensorType
from tantamount.ops.classes import differs
from tantamount.plan.vanishing import vanishing

__all__ = ["KINDS", "earlier_job", "whole_job"]

KINDS = ("truncated-gradient", "stale-gradient")
_ALIKE = ("_c10d_functional.all_reduce.default", "_c10d_functional.all_gather_into_tensor.default")


@dataclass(frozen=True)
class _Own:
    """The ``number``-th of ``count`` equal parts of a node, along a dimension."""

    whole: Node
    dim: int
    number: int
    count: int


def whole_job(job: Job, nodes: Sequence[str], axis: str, gradients: Collection[str]) -> Job:
    """The job with the sum over the ranks along ``axis`` in the place of a rank's own part. ``gradients`` are the
    inputs, of the specification, that come back. Raises :class:`NotThat`."""
    owned = _checked(job, nodes, axis, gradients, nodes)
    group, mesh = group_along(job.mesh, (axis,))

    def strict(graph: Graph) -> Graph:
        changed: dict[str, tuple[Node, ...]] = {}
        for name in nodes:
            node = graph.by_name[name]
            *made, last = _summed(node, owned[id(graph)][name], group)
            changed[name] = (*made, replace(last, name=name))
        return replace(graph, nodes=tuple(new for node in graph.nodes for new in changed.get(node.name, (node,))))

    return _with(job, mesh, {id(graph): strict(graph) for graph in job.programs})


def earlier_job(
    job: Job, nodes: Sequence[str], state: Mapping[str, str], axis: str, gradients: Collection[str]
) -> tuple[Job, Job]:
    """The job with what other ranks contribute in the place of ``state`` (input of the implementation: its output that
    the next run is given), one for each of the ``nodes``; and the job of the claim that these outputs are just that.
    Raises :class:`NotThat`."""
    if len(state) != len(nodes) or len({*nodes}) < len(nodes) or len({*state.values()}) < len(state):
        raise NotThat(f"{len(state)} tensors that are kept and {len(nodes)} parts, which belong together one by one")
    known = {relation.name for relation in job.inputs.values()} | {wanted.name for wanted in job.outputs.values()}
    for kept, left in state.items():
        if known & {kept, left}:
            raise NotThat(f"{kept} and {left}, which the specification knows of")
    owned = _checked(job, nodes, axis, gradients, state)
    graphs = job.programs
    for graph in graphs:
        for name, kept, left in zip(nodes, state, state.values(), strict=True):
            node = graph.by_name.get(kept)
            if node is None or node.op != "input" or node.type != graph.by_name[name].type:
                raise NotThat(f"{kept}, which is no input of {graph.path} of the type of {name}")
            if left not in graph.output_nodes:
                raise NotThat(f"{left}, which {graph.path} does not give")
    for graph, waiting in zip(graphs, late(graphs, set(state), job.mesh), strict=True):
        for left in state.values():
            if graph.output_nodes[left] in waiting:
                raise NotThat(f"{left}, which depends on what an earlier run left")
        for kept, left in state.items():
            if graph.by_name[graph.output_nodes[left]].type != graph.by_name[kept].type:
                raise NotThat(f"{left} of {graph.path}, which is not of the type of {kept}")
    group, mesh = group_along(job.mesh, (axis,))
    names = {kept: f"{kept}.others" for kept in state}
    strict, claims = dict[int, Graph](), dict[int, Graph]()
    for graph in graphs:
        changed = graph
        for name, kept in zip(nodes, state, strict=True):
            changed = _with_others(changed, changed.by_name[name], kept, owned[id(graph)][name], group)
        asked = tuple(output for output in graph.outputs if output.name not in state.values())
        strict[id(graph)] = replace(changed, outputs=asked)
        rests = tuple(
            Node(f"{kept}.rest", "call", "aten.sub.Tensor", (Ref(changed.output_nodes[left]), Ref(names[kept])),
                 type=graph.by_name[kept].type)
            for kept, left in state.items()
        )  # fmt: skip
        outputs = tuple(Output(rest.name, rest.name) for rest in rests)
        claims[id(graph)] = replace(changed, nodes=(*changed.nodes, *rests), outputs=outputs)
    return _with(job, mesh, strict), _nothing_else(_with(job, mesh, claims), state)


def _nothing_else(job: Job, state: Mapping[str, str]) -> Job:
    """The job that claims that the outputs are zero on all ranks."""
    spec, (first, *_) = job.specification, job.implementation
    nodes, outputs, expected = list(spec.nodes), list[Output](), dict[str, Expectation]()
    for kept, left in state.items():
        type_ = first.by_name[f"{kept}.rest"].type
        if type_ is None:
            raise NotThat(f"{kept}, of whose type the file says nothing")
        name = f"{left} without what others contribute"
        arguments: tuple[Argument, ...] = (tuple(type_.shape),)
        nodes.append(Node(name, "call", "aten.zeros.default", arguments, {"dtype": type_.dtype}, type_))
        outputs.append(Output(name, name))
        placements = (Replicate(),) * len(job.mesh.names)
        expected[name] = Expectation(f"{kept}.rest", placements, text=str(list(map(str, placements))))
    return replace(
        job, specification=replace(spec, nodes=tuple(nodes), outputs=tuple(outputs)), outputs=expected
    )  # fmt: skip


# ---------------------------------------------------------------------------------------------- what is checked
def _checked(
    job: Job, nodes: Sequence[str], axis: str, gradients: Collection[str], begins: Collection[str]
) -> dict[int, dict[str, _Own]]:
    """The own part that every declared node is, by program; what is not as it should be raises :class:`NotThat`.
    ``begins``: the nodes that are not what they are on one device."""
    size = job.mesh.axes[axis]
    position = job.mesh.names.index(axis)
    graphs = job.programs
    sources = _sources(job, gradients, position)
    at: dict[int, set[int]] = {}
    for rank, graph in enumerate(job.implementation):
        at.setdefault(id(graph), set()).add(job.mesh.coordinates(rank)[position])
    found: dict[int, dict[str, _Own]] = {}
    for graph in graphs:
        found[id(graph)] = {}
        for name in nodes:
            own = _own(graph, graph.by_name.get(name), size)
            if own is None:
                raise NotThat(f"{name}, which is not one of {size} equal parts of a tensor of {graph.path}")
            if at[id(graph)] != {own.number}:
                ranks = " and ".join(map(str, sorted(at[id(graph)])))
                raise NotThat(f"{name}, part {own.number} of {own.whole.name} on ranks {ranks} of {axis}")
            found[id(graph)][name] = own
    back = late(graphs, sources, job.mesh)
    number_of = {id(graph): number for number, graph in enumerate(graphs)}

    def meets(number: int, node: Node) -> bool:
        return node.name in back[number] and axis in group_axes(graphs[number], node, job.mesh)

    mixed = reached(graphs, meets, job.mesh)
    zero = vanishing(graphs, sources, axis, job.mesh)
    for graph in graphs:
        number = number_of[id(graph)]
        for name, own in found[id(graph)].items():
            whole = own.whole.name
            if whole in mixed[number]:
                raise NotThat(f"{name}: {whole} has gradients of other ranks along {axis} in it")
            if whole not in zero[number]:
                raise NotThat(f"{name}: {whole} is not seen to vanish with the gradients that come to its rank")
    changed = reached(graphs, lambda _, node: node.name in begins, job.mesh)
    for graph, names, others in zip(graphs, changed, mixed, strict=True):
        for node in graph.nodes:
            beside = [one for one in references(node) if one in others and one not in names]
            if node.name in names and beside:
                by = f"beside {beside[0]}, which has gradients of other ranks along {axis} in it"
                raise NotThat(f"a part of {node.name} of {graph.path} {by}")
    _check_alike(job, axis, begins, changed)
    return found


def _sources(job: Job, gradients: Collection[str], position: int) -> set[str]:
    """The inputs of the implementation that are gradients; of each, what ranks have must be independent."""
    if not gradients:
        raise NotThat("a node of a part to which no gradients come")
    for name in gradients:
        placements = job.inputs[name].placements
        if placements is None or isinstance(placements[position], Replicate):
            raise NotThat(f"a node of a part whose gradient {name} ranks along {job.mesh.names[position]} have alike")
    return {job.inputs[name].name for name in gradients}


def _own(graph: Graph, node: Node | None, count: int) -> _Own | None:
    """The part that a node is of another one, if that has ``count`` equal parts of which it is one."""
    if node is None or node.op != "call" or not node.args or not isinstance(node.args[0], Ref):
        return None
    source = graph.by_name[node.args[0].name]
    if node.target == "getitem":
        pieces, number = source, node.args[1]
        if pieces.target != "aten.split.Tensor" or not isinstance(pieces.args[0], Ref):
            return None
        whole = graph.by_name[pieces.args[0].name]
        given = {"split_size": 1, "dim": 0, **dict(zip(("self", "split_size", "dim"), pieces.args, strict=False))}
        given |= pieces.kwargs
        dim, length = given["dim"], given["split_size"]
        start = number * length if isinstance(number, int) and isinstance(length, int) else None
    elif node.target == "aten.slice.Tensor":
        whole = source
        given = {"dim": 0, "start": 0, "end": None, "step": 1}
        given |= dict(zip(("self", "dim", "start", "end", "step"), node.args, strict=False)) | dict(node.kwargs)
        dim, start, end = given["dim"], given["start"] or 0, given["end"]
        if given["step"] != 1 or whole.type is None or not isinstance(dim, int):
            return None
        size = whole.type.shape[dim]
        end = size if end is None or (isinstance(end, int) and end > size) else end
        length = end - start if isinstance(end, int) and isinstance(start, int) else None
    else:
        return None
    if whole.type is None or not isinstance(dim, int) or not isinstance(start, int) or not isinstance(length, int):
        return None
    size = whole.type.shape[dim]
    if length < 1 or start < 0 or size != length * count or start % length:
        return None
    return _Own(whole, dim % len(whole.type.shape), start // length, count)


def _check_alike(job: Job, axis: str, begins: Collection[str], changed: Sequence[set[str]]) -> None:
    """Raises :class:`NotThat` if an output that ranks along the axis have alike may differ between them. ``changed``:
    what depends on what is not as it is on one device, by program."""
    graphs, position = job.programs, job.mesh.names.index(axis)

    def alike(number: int, node: Node) -> bool:
        return node.target in _ALIKE and axis in group_axes(graphs[number], node, job.mesh)

    found = reached(graphs, lambda _, node: node.name in begins, job.mesh, alike)
    for name, wanted in job.outputs.items():
        own = None if wanted.placements is None else wanted.placements[position]
        if own is not None and not isinstance(own, Replicate):
            continue
        given = [graph.output_nodes.get(wanted.name, wanted.name) for graph in graphs]
        if not any(node in names for node, names in zip(given, changed, strict=True)):
            continue
        if any(node in names for node, names in zip(given, found, strict=True)):
            raise NotThat(f"something on which {name} depends, which ranks along {axis} have alike")
        ways = [_way(graphs[k], node, changed[k], partial(alike, k)) for k, node in enumerate(given)]
        same = all(way is not None and way == ways[0] for way in ways)
        if not same or any(differs(graphs[0].by_name[one], graphs) for one in ways[0] or ()):
            raise NotThat(f"a part of {name}, which ranks along {axis} have alike, but find in ways of their own")


def _way(graph: Graph, name: str, changed: Collection[str], alike: Callable[[Node], bool]) -> set[str] | None:
    """The nodes by which a result is computed of what ranks have alike; ``None`` if anything else has a part in it."""
    found, pending = set[str](), [name]
    while pending:
        node = graph.by_name[pending.pop()]
        if node.name in found:
            continue
        if node.name not in changed:
            return None
        found.add(node.name)
        if not alike(node):
            pending += references(node)
    return found


# ---------------------------------------------------------------------------------------------- what stands there
def _with(job: Job, mesh: Mesh, graphs: Mapping[int, Graph]) -> Job:
    for graph in graphs.values():
        check_names(graph)
    return replace(job, mesh=mesh, implementation=tuple(graphs[id(graph)] for graph in job.implementation))


def _summed(node: Node, own: _Own, group: str) -> list[Node]:
    """Nodes the last of which is a rank's part of the sum over the ranks."""
    whole, part = own.whole.type, node.type
    if whole is None or part is None:
        raise NotThat(f"{node.name}, of whose type the file says nothing")
    swapped, smaller = (_swapped(type_, own.dim) for type_ in (whole, part))

    def call(what: str, target: str, type_: TensorType, *args: Argument) -> Node:
        return Node(f"{node.name}.{what}", "call", target, args, type=type_, source=node.source)

    turned = call("turned", "aten.transpose.int", swapped, Ref(own.whole.name), 0, own.dim)
    dense = call("dense", "aten.clone.default", swapped, Ref(turned.name))
    target = "_c10d_functional.reduce_scatter_tensor.default"
    sent = call("sent", target, smaller, Ref(dense.name), "sum", own.count, group)
    sum_ = call("sum", "_c10d_functional.wait_tensor.default", smaller, Ref(sent.name))
    return [turned, dense, sent, sum_, call("all", "aten.transpose.int", part, Ref(sum_.name), 0, own.dim)]


def _swapped(type_: TensorType, dim: int) -> TensorType:
    shape = list(type_.shape)
    shape[0], shape[dim] = shape[dim], shape[0]
    return replace(type_, shape=tuple(shape))


def _with_others(graph: Graph, node: Node, kept: str, own: _Own, group: str) -> Graph:
    """The program with what other ranks contribute to a rank's part in the place of what it kept."""
    made = _summed(node, own, group)
    name = f"{kept}.others"
    others = Node(name, "call", "aten.sub.Tensor", (Ref(made[-1].name), Ref(node.name)), type=node.type)

    def read(argument: Argument) -> Argument:
        if isinstance(argument, tuple):
            return tuple(map(read, argument))
        return Ref(name) if argument == Ref(kept) else argument

    found: list[Node] = []
    for old in graph.nodes:
        if old.name == kept:
            continue
        if kept in references(old) and node.name not in {one.name for one in found}:
            raise NotThat(f"{kept}, which {old.name} reads before {node.name} is there")
        kwargs = {key: read(value) for key, value in old.kwargs.items()}
        found.append(replace(old, args=tuple(map(read, old.args)), kwargs=kwargs))
        if old.name == node.name:
            found += [*made, others]
    return replace(graph, nodes=tuple(found))
