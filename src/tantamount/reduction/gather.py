"""The facts about its sizes that a job rests on: both programs type-checked on integers that remember.

Which integers are one variable? Sizes of inputs are, where relations or operators make them equal. An integer in an
attribute is the size of the same value among the operands' (the k-th of that value the k-th, unless there are more than
among the operands; of bounds, one for every dimension, that of the dimension), else one variable with those at the same
place of calls with the same attributes. So sizes that are equal by chance (hidden size and sequence
length) can come apart; what corresponds without being tied by a fact is kept equal where that costs little
(:mod:`.reduce`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import product
from math import prod
from typing import Any

from tantamount.ir.graph import Argument, Graph, Node, Ref, references
from tantamount.ir.job import Job
from tantamount.ir.mesh import Mesh
from tantamount.ir.relation import (
    Expectation,
    Expression,
    InputRelation,
    RankTensor,
    Reshape,
    Shard,
    Slice,
    operands,
    rank_tensors,
)
from tantamount.ir.relation_types import RelationProblem, box_at, resolve
from tantamount.ir.types import Shape, TensorType
from tantamount.ops.algebra import Tensor
from tantamount.ops.builder import Builder
from tantamount.ops.execute import Environment, Result, constant_type, run_node
from tantamount.reduction.literals import Number, lists_of, map_expression, map_node, output_node
from tantamount.reduction.positions import Positions, with_positions, with_shapes
from tantamount.sizes.traced import Polynomial, Size, SizeFacts, plus, polynomial

__all__ = ["Gathered", "Lifted", "Pins", "call_key", "constant_of_type", "gather", "groups_of", "lifted_expression"]

_SHAPES = ("shape", "size")  # attributes that are sizes of what is made, and mark no place inside an operand
_COUNTING = ("aten.arange.start", "aten.arange.start_step")  # from a first number on
Pins = frozenset[tuple[str, str, int]]  # operator, attribute and value of integers that must stay


@dataclass(frozen=True)
class Lifted:
    """A graph with variables for integers: the nodes, and the type of every node's value."""

    graph: Graph
    nodes: tuple[Node, ...]
    types: Environment


@dataclass
class Gathered:
    """``lifted``: the graphs by their identity; ``values``: the numbers that programs compute with."""

    pins: Pins
    facts: SizeFacts = field(default_factory=SizeFacts)
    lifted: dict[int, Lifted] = field(default_factory=dict[int, Lifted])
    values: dict[str, Number] = field(default_factory=dict[str, Number])
    done: dict[Any, Result] = field(default_factory=dict[Any, Result])
    axes: dict[str, int] = field(default_factory=dict[str, int])  # sizes of mesh axes
    ranks: tuple[int, ...] = ()  # those that stay
    exact: bool = True  # what is recorded stays
    bounds: dict[tuple[Polynomial, int], int] = field(default_factory=dict[tuple[Polynomial, int], int])

    def inside(self, bound: int, shapes: Iterable[Shape]) -> int:
        """A number that marks a place inside a dimension is the same number wherever it does so: a slice ends where the
        next one begins, on every rank and in the job's relations."""
        if isinstance(bound, Size):
            for n in (n for shape in shapes for n in shape if isinstance(n, Size) and n.__int__() > bound.__int__()):
                first = self.bounds.setdefault((self.facts.settled(n.polynomial), int(bound)), bound)
                self.facts.add("==", plus(polynomial(bound), polynomial(first), -1))
        return bound

    def shapes(self, job: Job) -> Iterator[tuple[Shape, int]]:
        """The shapes of all tensors that executing the job holds, each with how many programs hold it."""
        graphs = [job.specification, *(job.implementation[rank] for rank in self.ranks)]
        for found, times in Counter(map(id, graphs)).items():
            for result in self.lifted[found].types.values():
                for shape in _shapes(result):
                    yield shape, times


def groups_of(mesh: Mesh, axes: Mapping[str, int] | None = None) -> Mapping[str, int]:
    """The size of every process group of the implementation; ``axes``: sizes of the mesh axes, if not the mesh's."""
    sizes = mesh.axes if axes is None else axes
    return {name: prod(sizes[axis] for axis in spanned) for name, spanned in mesh.groups.items()}


def gather(
    job: Job, pins: Pins = frozenset(), *, shrunk: Collection[str] = (), ranks: int = 2, exact: bool = True
) -> Gathered:
    """Raises :class:`UserError` as type checking does. ``shrunk``: mesh axes whose sizes are variables, of which the
    first ``ranks`` coordinates stay. Unless ``exact``, recorded constants may be cut."""
    out = Gathered(pins, exact=exact)
    mesh = job.mesh
    out.axes = {
        axis: out.facts.variable(("mesh", axis), size) if axis in shrunk else size for axis, size in mesh.axes.items()
    }
    gone = [k for k, axis in enumerate(mesh.names) if isinstance(out.axes[axis], Size)]
    out.ranks = tuple(
        mesh.rank(at) for at in product(*(range(ranks if k in gone else n) for k, n in enumerate(mesh.sizes)))
    )
    whole = _inputs(out, job.specification, "specification")
    known: dict[int, dict[str, TensorType]] = {}
    for rank in out.ranks:
        graph = job.implementation[rank]
        if id(graph) not in known:
            known[id(graph)] = _inputs(out, graph, "implementation")
    for name, relation in job.inputs.items():
        _relation(out, job, whole[name], relation, lambda rank, tensor: known[id(job.implementation[rank])][tensor])
    _graph(out, job.specification, None, whole)
    groups = groups_of(mesh, out.axes)
    for rank in out.ranks:
        graph = job.implementation[rank]
        if id(graph) not in out.lifted:
            _graph(out, graph, groups, known[id(graph)])
    for name, expectation in job.outputs.items():
        if not expectation.problem:
            node = next(o.node for o in job.specification.outputs if o.name == name)
            type_ = _type(out, job.specification, node)
            _relation(
                out,
                job,
                type_,
                expectation,
                lambda rank, tensor: _type(
                    out, job.implementation[rank], output_node(job.implementation[rank], tensor)
                ),
            )
    return out


def _type(out: Gathered, graph: Graph, node: str) -> TensorType:
    found = out.lifted[id(graph)].types[node]
    if not isinstance(found, Tensor) or found.dtype.is_complex:
        raise RelationProblem(f"{node} is not one tensor of real numbers")
    return found.type


# ---------------------------------------------------------------------------------------------- graphs


def _inputs(out: Gathered, graph: Graph, side: str) -> dict[str, TensorType]:
    return {
        node.name: replace(
            node.type, shape=tuple(out.facts.variable((side, node.name, k), n) for k, n in enumerate(node.type.shape))
        )
        for node in graph.inputs
        if node.type is not None
    }


def _graph(out: Gathered, graph: Graph, groups: Mapping[str, int] | None, inputs: Mapping[str, TensorType]) -> None:
    """The sizes of every node's value are tied to variables: then a call like an earlier one (the same operator,
    attributes and operand types) has nothing new to say and is not looked at again."""
    environment: Environment = {name: Tensor(t.shape, t.dtype, None) for name, t in inputs.items()}
    nodes: list[Node] = []
    for node in graph.nodes:
        lifted = _lifted(out, graph, node, environment)
        nodes.append(lifted)
        if node.op == "input":
            continue
        if node.op == "constant":
            environment[node.name] = _constant(out, graph, node)
            continue
        key = call_key(lifted, environment, out.facts.settled)
        if key not in out.done:
            builder = Builder(Positions(out.facts, groups), node.name)
            known = {name: environment[name] for name in references(lifted)}
            result = run_node(graph, lifted, builder, with_shapes(known), constant_of_type, groups)
            out.done[key] = _tied(with_positions(result), out.facts)
            _counted(out.facts, lifted, out.done[key])
            _alike(out.facts, lifted, known)
        environment[node.name] = out.done[key]
    out.lifted[id(graph)] = Lifted(graph, tuple(nodes), environment)


def _counted(facts: SizeFacts, node: Node, result: Result) -> None:
    """Positions of a part of a sequence go on beginning where the parts before it end: where the numbers from n to m
    begin at a multiple of how many they are, they go on doing so."""
    if node.target not in _COUNTING or not isinstance(result, Tensor):
        return
    first, length = node.args[0] if node.args else None, result.shape[0]
    if isinstance(first, Size) and int(length) and int(first) % int(length) == 0:
        times = int(first) // int(length)
        facts.add("==", plus(polynomial(first), polynomial(length), -times))


def _alike(facts: SizeFacts, node: Node, known: Mapping[str, Result]) -> None:
    """Pieces of one length that are put together stay of one length: blocks of a dimension in another order, and what
    counts their positions, come of different calls, and may be the same blocks."""
    pieces = node.args[0] if node.target == "aten.cat.default" and node.args else ()
    dim = node.args[1] if len(node.args) > 1 else node.kwargs.get("dim", 0)
    first: dict[int, int] = {}
    for ref in pieces if isinstance(pieces, tuple) else ():
        piece = known[ref.name] if isinstance(ref, Ref) else None
        if isinstance(piece, Tensor) and isinstance(dim, int) and -len(piece.shape) <= dim < len(piece.shape):
            length = piece.shape[dim]
            one = first.setdefault(int(length), length)
            if one is not length:
                facts.add("==", plus(polynomial(one), polynomial(length), -1))


def _lifted(out: Gathered, graph: Graph, node: Node, environment: Environment) -> Node:
    shapes = [shape for name in references(node) for shape in _shapes(environment[name])]
    operands: dict[int, list[int]] = {}
    for shape in shapes:
        for n in shape:
            operands.setdefault(int(n), []).append(n)
    seen: dict[int, int] = {}
    written = _integers((*node.args, *node.kwargs.values()))
    aligned: dict[str, int] = {}
    bounded: dict[str, int] = {}  # the dimensions that bounds are of
    unclear: set[tuple[str, int]] = set()  # numbers that a list has more often than operands: which one is theirs?
    lists = list(lists_of(graph, node))
    bounds = [place for place, sizes in lists if shapes and len(sizes) == len(shapes[0])]
    for place, sizes in lists:
        for k, n in _aligned(sizes, shapes).items():
            aligned[f"{place}.{k}"] = n
        unclear.update((place, n) for n, times in Counter(sizes).items() if times > len(operands.get(n, ())) > 0)
        if place in bounds and len(bounds) > 1:  # of slices and paddings: one for every dimension
            bounded.update((f"{place}.{k}", n) for k, n in enumerate(shapes[0]))

    def size(n: int, place: str) -> int:
        if place in aligned:
            return pinned(aligned[place], n, place)
        if place in bounded:
            whole = bounded[place]
            return pinned(whole, n, place) if int(whole) == n else out.inside(named(n, place), [(whole,)])
        position = seen[n] = seen.get(n, -1) + 1
        same = operands.get(n, [])
        written_in = place.partition(".")[0]
        if position < len(same) and not aligned and (written_in, n) not in unclear:
            return pinned(same[position], n, place)
        return named(n, place) if written_in in _SHAPES else out.inside(named(n, place), shapes)

    def named(n: int, place: str) -> int:
        return pinned(out.facts.variable((node.target, place, written), n), n, place)

    def pinned(size: int, n: int, place: str) -> int:
        if (node.target, place, n) in out.pins:
            out.facts.pin(size)
        return size

    def value(number: Number, place: str) -> Number:
        out.values[repr(number)] = number
        return number if isinstance(number, float) else named(number, place)

    return map_node(graph, node, size, value)


def _shapes(result: Result) -> list[Shape]:
    return [x.shape for x in (result if isinstance(result, tuple) else (result,)) if isinstance(x, Tensor)]


def _aligned(sizes: tuple[int, ...], shapes: list[Shape]) -> dict[int, int]:
    """The sizes of a reshape that are dimensions of the operand: equal, with as many elements before them."""
    for shape in shapes:
        total, rest = prod(map(int, shape)), prod(n for n in sizes if n != -1)
        whole = tuple(total // rest if n == -1 and rest else n for n in sizes)
        if len(sizes) > 1 and prod(whole) == total > 0:
            before = {(prod(map(int, shape[:k])), int(n)): n for k, n in enumerate(shape)}
            places = {k: (prod(whole[:k]), n) for k, n in enumerate(whole)}
            return {k: before[place] for k, place in places.items() if place in before and sizes[k] != -1}
    return {}


def _integers(argument: Argument) -> tuple[int, ...]:
    if isinstance(argument, tuple):
        return tuple(n for item in argument for n in _integers(item))
    return (argument,) if isinstance(argument, int) else ()


def _constant(out: Gathered, graph: Graph, node: Node) -> Tensor:
    type_ = constant_type(graph, node)
    sizes = tuple(out.facts.variable(("constant", node.target, k), n) for k, n in enumerate(type_.shape))
    recorded = graph.constants.get(node.target)
    if recorded is not None:
        for size in sizes if out.exact else ():
            out.facts.pin(size)
        if len(recorded.data) == 1 and isinstance(recorded.data[0], (int, float)):
            out.values[repr(recorded.data[0])] = recorded.data[0]
    return Tensor(sizes, type_.dtype, None)


def constant_of_type(graph: Graph, node: Node, builder: Builder) -> Tensor:
    """A ``constant`` node's tensor without its value."""
    found = constant_type(graph, node)
    return Tensor(found.shape, found.dtype, None)


def call_key(node: Node, environment: Environment, settled: Callable[[Polynomial], object] | None = None) -> Any:
    """A key of all that the type of a call depends on."""

    def shown(argument: Argument | Result) -> Any:
        if isinstance(argument, Ref):
            return shown(environment[argument.name])
        if isinstance(argument, tuple):
            return tuple(map(shown, argument))
        if isinstance(argument, Tensor):
            return (tuple(map(shown, argument.shape)), argument.dtype, shown(argument.value) if settled else None)
        if isinstance(argument, Size) and settled is not None:
            return ("size", int(argument), settled(argument.polynomial))
        return (type(argument), argument)

    kwargs = tuple((name, shown(argument)) for name, argument in node.kwargs.items())
    return (node.target, shown(node.args), kwargs, node.type and node.type.dtype)


def _tied(result: Result, facts: SizeFacts) -> Result:
    if isinstance(result, tuple):
        return tuple(None if x is None else replace(x, shape=tuple(map(facts.tie, x.shape))) for x in result)
    return replace(result, shape=tuple(map(facts.tie, result.shape))) if isinstance(result, Tensor) else result


# ---------------------------------------------------------------------------------------------- relations
def _relation(
    out: Gathered,
    job: Job,
    whole: TensorType,
    relation: InputRelation | Expectation,
    held: Callable[[int, str], TensorType],
) -> None:
    def same(found: Shape, wanted: Shape) -> None:
        for a, b in zip(found, wanted, strict=True):
            if out.facts.tie(a) != b:
                raise RelationProblem(f"{relation.text}: {int(a)} where {int(b)} is needed")

    if relation.placements is not None:
        mesh, seen = job.mesh, set[object]()
        for rank in out.ranks:
            at = mesh.coordinates(rank)
            key = (
                id(job.implementation[rank]),
                tuple(n for n, p in zip(at, relation.placements, strict=True) if isinstance(p, Shard)),
            )
            if key in seen:  # replicas say nothing new
                continue
            seen.add(key)
            box = box_at(whole.shape, relation.placements, tuple(out.axes.values()), at)
            same(tuple(stop - start for start, stop in box), held(rank, relation.name).shape)
    elif relation.expression is not None:

        def tensor(term: RankTensor) -> tuple[RankTensor, TensorType]:
            return term, held(term.rank, term.name or relation.name)

        held_shapes = [tensor(term)[1].shape for term in rank_tensors(relation.expression)]
        lifted = lifted_expression(relation.expression, out.facts, lambda bound: out.inside(bound, held_shapes))
        same(_expression(out, lifted, tensor).shape, whole.shape)
    for a, b in relation.equal:

        def of(term: RankTensor) -> tuple[RankTensor, TensorType]:
            return term, held(term.rank, term.name or relation.name)

        shapes = [of(term)[1].shape for term in (*rank_tensors(a), *rank_tensors(b))]
        sides = [lifted_expression(e, out.facts, partial(out.inside, shapes=shapes)) for e in (a, b)]
        left, right = (_expression(out, side, of) for side in sides)
        same(left.shape, right.shape)


def lifted_expression(
    expression: Expression, facts: SizeFacts, inside: Callable[[int], int] = lambda bound: bound
) -> Expression:
    """The expression with variables for its integers: a slice ends where others do, sizes of reshapes are their own."""
    text = str(expression)
    return map_expression(
        expression,
        lambda n: inside(facts.variable("relation", n)),
        lambda n, place: facts.variable(("reshape", text, place), n),
    )


def _expression(
    out: Gathered, expression: Expression, tensor: Callable[[RankTensor], tuple[RankTensor, TensorType]]
) -> TensorType:
    """Its type, with the sizes of every part tied to variables."""
    if not isinstance(expression, RankTensor):
        for part in operands(expression):
            inner = _expression(out, part, tensor)
            if isinstance(expression, Reshape):
                for k, n in _aligned(tuple(map(int, expression.shape)), [inner.shape]).items():
                    out.facts.add("==", plus(polynomial(expression.shape[k]), polynomial(n), -1))
            if isinstance(expression, Slice):  # what ends with a dimension goes on doing so
                for (_, high, _), n in zip(expression.bounds, inner.shape, strict=False):
                    if high is not None and int(high) == int(n):
                        out.facts.add("==", plus(polynomial(high), polynomial(n), -1))
    found = resolve(expression, tensor)[1]
    return replace(found, shape=tuple(map(out.facts.tie, found.shape)))
