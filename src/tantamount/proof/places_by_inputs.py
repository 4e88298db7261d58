"""Places where two programs are cut, found by what is read across them: a hint, on which nothing rests.

Two ways of writing a model have little in common but their inputs. At a place of one program some tensors are computed
and still to be read; each depends on some of the inputs. The place of the other program that fits is the one at which
as many tensors wait to be read that depend on the same inputs, as relations say which these are.

Models that serve requests drop the dimension of the batch. What pieces hand on is related as a whole, so both programs
should have it in one shape: :func:`in_shapes_of` makes the specification hand it on as the implementation has it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace

from tantamount.ir.graph import Graph, Node, Ref, reading, references
from tantamount.ir.job import Job
from tantamount.ir.runs import Run, runs
from tantamount.ir.types import Shape, TensorType
from tantamount.proof.pieces import carried, named
from tantamount.proof.places import stretched

__all__ = ["in_shapes_of", "places_by_inputs"]

_LEAST = 2  # places that are worth a proof in pieces
_APART = 4  # inputs on average that one of two places depends on more: operators with several results make some alike

Place = tuple[int, int]
Marks = tuple[int, ...]  # of all that waits to be read, the inputs that it depends on, as bits
Waiting = Sequence["tuple[str, ...] | None"]  # by position: what is computed before and read from it on


def places_by_inputs(job: Job) -> list[Place]:
    """The places where both programs are cut: where the runs of one have pieces, and where the other one fits best. Of
    the two ways the one that fits better; none where fewer than two places are found. A run that is interrupted, by a
    layer that is wrong, goes on behind it."""
    bits = {name: 1 << k for k, name in enumerate(job.inputs)}
    theirs: dict[str, int] = {}
    for name, relation in job.inputs.items():
        for other in named(relation):
            theirs[other] = theirs.get(other, 0) | bits[name]
    graphs = job.specification, job.implementation[0]
    marks = [_marks(graph, of) for graph, of in zip(graphs, (bits, theirs), strict=True)]
    best: tuple[float, list[Place]] | None = None
    for side in (1, 0):
        found_runs = runs(graphs[side])
        for run in found_runs:
            for cuts in _phases(marks[side], run):
                middle = cuts[len(cuts) // 2]
                if best is not None and _fitting(marks[side], [middle], marks[1 - side])[0] >= best[0]:
                    continue
                if sum(one.period == run.period for one in found_runs) > 1:
                    cuts = stretched(graphs[side], cuts, run.period, (0, len(graphs[side].nodes)))
                cost, found = _fitting(marks[side], cuts, marks[1 - side])
                each = cost / max(len(found), 1)
                if len(found) >= _LEAST and each <= _APART and (best is None or each < best[0]):
                    best = each, found if side == 0 else [(b, a) for a, b in found]
    return [] if best is None else best[1]


def _phases(marks: Sequence[Marks | None], run: Run) -> Iterator[list[int]]:
    """The ways to cut a run, at which the fewest tensors wait to be read: those of each piece at one place."""
    ways: dict[int, list[list[int]]] = {}
    for shift in range(run.period):
        cuts = [run.start + shift + k * run.period for k in range(-1, run.count + 1)]
        held = marks[cuts[2]] if cuts[2] < len(marks) else None
        if held:
            alike = [at for at in cuts if 0 <= at < len(marks) and len(marks[at] or ()) == len(held)]
            ways.setdefault(len(held), []).append(alike)
    yield from ways[min(ways)] if ways else ()


def _waiting(graph: Graph) -> Waiting:
    """Tensors that are computed before each position and read from it on, without those that pieces compute anew;
    ``None`` where one of these is no tensor by itself, but several results of one operator."""
    real = carried(graph)
    last: dict[str, int] = {}
    for k, node in enumerate(graph.nodes):
        last.update(dict.fromkeys(references(node), k))
    last.update((output.node, len(graph.nodes)) for output in graph.outputs)
    out: list[tuple[str, ...] | None] = []
    held: dict[str, Node] = {}
    for k, node in enumerate((*graph.nodes, None)):
        held = {name: one for name, one in held.items() if last[name] >= k}
        out.append(None if any(one.type is None for one in held.values()) else tuple(held))
        if node is not None and node.op != "input" and node.name in real and last.get(node.name, 0) > k:
            held[node.name] = node
    return out


def _marks(graph: Graph, inputs: Mapping[str, int]) -> list[Marks | None]:
    """Of all that waits to be read at each position, the inputs that it depends on, as bits."""
    marks: dict[str, int] = {}
    for node in graph.nodes:
        marks[node.name] = inputs.get(node.name, 0)
        for name in references(node):
            marks[node.name] |= marks[name]
    return [None if held is None else tuple(sorted(marks[name] for name in held)) for held in _waiting(graph)]


def _fitting(
    marks: Sequence[Marks | None], cuts: Sequence[int], other: Sequence[Marks | None]
) -> tuple[float, list[Place]]:
    """Positions of one program with those of the other, in order, that fit best, and how badly they do in all."""
    total, begun, found = 0, -1, list[Place]()
    for cut in cuts:
        wanted, least, chosen = marks[cut] if cut < len(marks) else None, None, begun
        for at in range(begun + 1, len(other)) if wanted else ():
            there = other[at]
            if wanted is None or there is None or len(there) != len(wanted):
                continue
            apart = sum((a ^ b).bit_count() for a, b in zip(wanted, there, strict=True))
            if least is None or apart < least:
                least, chosen = apart, at
        if least is not None:
            total, begun = total + least, chosen
            found.append((cut, chosen))
    return total, found


# ---------------------------------------------------------------------------------------------- shapes
def in_shapes_of(job: Job, places: Sequence[Place]) -> tuple[Job, list[Place], Collection[str]]:
    """The job, its specification computing the same, with views: what is read across a place, and has the shape of what
    the implementation hands on there but for dimensions of size 1, is brought into that shape before the place, and
    back behind it. The places in it; and the names of the views. One rank only: on several, parts have other shapes."""
    graph, other = job.specification, job.implementation[0]
    if job.mesh.world_size > 1:
        return job, [*places], ()
    ours, theirs = _waiting(graph), _waiting(other)
    nodes: list[Node] = []
    moved: list[Place] = []
    made: set[str] = set()
    latest: dict[str, str] = {}
    last = {name: k for k, node in enumerate(graph.nodes) for name in references(node)}
    begun = 0
    for a, b in places:
        nodes += (reading(node, latest) for node in graph.nodes[begun:a])
        begun = a
        shapes = {_longer(shape): shape for name in theirs[b] or () if (shape := _shape(other, name)) is not None}
        views: list[Node] = []
        for name in ours[a] or ():
            if last.get(name, -1) < a:
                continue  # it waits to be an output only, which no later piece reads
            type_ = graph.by_name[name].type
            shape = shapes.get(_longer(type_.shape)) if type_ is not None else None
            if type_ is None or shape is None or shape == type_.shape:
                continue
            there = _view(f"{name} at {len(moved)}", latest.get(name, name), shape, type_)
            back = _view(f"{name} from {len(moved)}", there.name, type_.shape, type_)
            if {there.name, back.name} & graph.by_name.keys():
                return job, [*places], ()
            nodes.append(there)
            views.append(back)
            made |= {there.name, back.name}
            latest[name] = back.name
        moved.append((len(nodes), b))
        nodes += views
    nodes += (reading(node, latest) for node in graph.nodes[begun:])
    return replace(job, specification=replace(graph, nodes=tuple(nodes))), moved, made


def _shape(graph: Graph, name: str) -> Shape | None:
    type_ = graph.by_name[name].type
    return None if type_ is None else type_.shape


def _longer(shape: Shape) -> Shape:
    """The sizes that are not 1."""
    return tuple(size for size in shape if size != 1)


def _view(name: str, operand: str, shape: Shape, type_: TensorType) -> Node:
    return Node(name, "call", "aten.reshape.default", (Ref(operand), shape), {}, replace(type_, shape=shape))
