"""The facts about its sizes that a job rests on: both programs type-checked on integers that remember."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from tantamount.ir.graph import Graph, Node
from tantamount.ir.job import Job
from tantamount.ir.relation import Concat, Expectation, Expression, InputRelation, RankTensor, Sum
from tantamount.ir.relation_types import RelationProblem, local_shape, resolve
from tantamount.ir.types import Shape, TensorType
from tantamount.ops.algebra import Tensor, TypesOnly
from tantamount.ops.builder import Builder
from tantamount.ops.execute import Environment, Result, constant_type, run_node
from tantamount.ops.execute import resolve as resolve_arguments
from tantamount.refine.outputs import output_node
from tantamount.refine.reduction.literals import Number, map_expression, map_node
from tantamount.refine.reduction.sizes import FIXED, HUGE, Facts, variables

__all__ = ["Gathered", "call_key", "constant_of_type", "gather", "groups_of"]

Typed = Mapping[str, TensorType]


@dataclass
class Gathered:
    """``facts`` about sizes; ``shapes``: every tensor of the job with its number of occurrences (an execution holds all
    of them); ``values``: the numbers that programs compute with."""

    facts: Facts = field(default_factory=Facts)
    shapes: dict[Shape, int] = field(default_factory=dict[Shape, int])
    values: dict[str, Number] = field(default_factory=dict[str, Number])

    @property
    def known(self) -> set[int]:
        """The numbers that are sizes, or tied to sizes."""
        tied = {v for kind, p in self.facts.found if kind == "==" for v in variables(p)}
        return tied | {size for shape in self.shapes for size in shape if FIXED < size < HUGE}


def groups_of(job: Job) -> Mapping[str, int]:
    """The size of every process group of the implementation."""
    return {name: job.mesh.group_size(name) for name in job.mesh.groups}


def gather(job: Job, pinned: frozenset[int] = frozenset()) -> Gathered:
    """Raises :class:`UserError` as type checking does. ``pinned``: numbers that must stay what they are."""
    out = Gathered()
    for number in pinned:
        out.facts.pin(number)
    specification = _graph(out, job.specification, None, {})
    ranks: list[Typed] = []
    known: dict[int, Typed] = {}
    seen: Environment = {}
    for graph in job.implementation:
        if id(graph) not in known:
            known[id(graph)] = _graph(out, graph, groups_of(job), seen)
        else:
            for shape in _shapes(graph):
                out.shapes[shape] = out.shapes.get(shape, 0) + 1
        ranks.append(known[id(graph)])
    for name, relation in job.inputs.items():
        _relation(out, job, specification[name], relation, ranks, lambda rank, tensor: tensor)
    for name, relation in job.outputs.items():
        if not relation.problem:
            node = next(o.node for o in job.specification.outputs if o.name == name)
            _relation(
                out, job, specification[node], relation, ranks, lambda rank, tensor: output_node(job, rank, tensor)
            )
    return out


# ---------------------------------------------------------------------------------------------- graphs
def _shapes(graph: Graph) -> list[Shape]:
    return [node.type.shape for node in graph.nodes if node.type is not None]


def _graph(out: Gathered, graph: Graph, groups: Mapping[str, int] | None, seen: Environment) -> Typed:
    def value(number: Number) -> Number:
        out.values[repr(number)] = number
        return number

    for node in graph.nodes:
        map_node(graph, node, int, value)
        if node.op == "constant" and node.target in graph.constants:
            constant = graph.constants[node.target]
            for size in constant.type.shape:
                out.facts.pin(size)
            if len(constant.data) == 1 and isinstance(constant.data[0], (int, float)):
                value(constant.data[0])
    types = _types(graph, groups, out.facts, seen)
    found: dict[str, TensorType] = {}
    for name, result in types.items():
        for tensor in result if isinstance(result, tuple) else (result,):
            if tensor is not None:
                shape = tuple(map(int, tensor.shape))
                out.shapes[shape] = out.shapes.get(shape, 0) + 1
        if isinstance(result, Tensor):
            found[name] = result.type
    return found


def _types(graph: Graph, groups: Mapping[str, int] | None, facts: Facts, seen: Environment) -> Environment:
    """The type of every node, with the sizes tied to their values after every node: then a call like an earlier one
    (the same operator, attributes and operand types) has nothing new to say and is not looked at again."""
    environment: Environment = {}
    for node in graph.nodes:
        lifted = map_node(graph, node, facts.size)
        if node.op == "input" and lifted.type is not None:
            environment[node.name] = Tensor(lifted.type.shape, lifted.type.dtype, None)
            continue
        key = call_key(graph, node, environment)
        if key not in seen:
            builder = Builder(TypesOnly(groups), node.name)
            seen[key] = _tied(run_node(graph, lifted, builder, environment, constant_of_type, groups), facts)
        environment[node.name] = seen[key]
    return environment


def constant_of_type(graph: Graph, node: Node, builder: Builder) -> Tensor:
    """A ``constant`` node's tensor without its value."""
    found = constant_type(graph, node)
    return Tensor(found.shape, found.dtype, None)


def call_key(graph: Graph, node: Node, environment: Environment) -> str:
    """What the type of a node depends on."""
    if node.op == "constant":
        return repr(constant_type(graph, node))
    args = resolve_arguments(node.args, environment)
    kwargs = [(name, resolve_arguments(argument, environment)) for name, argument in node.kwargs.items()]
    return repr((node.target, args, kwargs, node.type and node.type.dtype))


def _tied(result: Result, facts: Facts) -> Result:
    if result is None:
        return None
    if isinstance(result, tuple):
        return tuple(None if x is None else replace(x, shape=tuple(map(facts.tie, x.shape))) for x in result)
    return replace(result, shape=tuple(map(facts.tie, result.shape)))


# ---------------------------------------------------------------------------------------------- relations
def _relation(
    out: Gathered,
    job: Job,
    whole: TensorType,
    relation: InputRelation | Expectation,
    ranks: list[Typed],
    node: Callable[[int, str], str],
) -> None:
    def same(found: Shape, wanted: Shape) -> None:
        for a, b in zip(found, wanted, strict=True):
            if out.facts.tie(a) != out.facts.tie(b):
                raise RelationProblem("shapes of a relation")

    if relation.placements is not None:
        for rank in range(len(ranks)):
            local = local_shape(whole.shape, relation.placements, job.mesh, rank)
            same(local, ranks[rank][node(rank, relation.name)].shape)
    elif relation.expression is not None:

        def tensor(term: RankTensor) -> tuple[RankTensor, TensorType]:
            return term, ranks[term.rank][node(term.rank, term.name or relation.name)]

        same(_expression(out, map_expression(relation.expression, out.facts.size), tensor).shape, whole.shape)


def _expression(
    out: Gathered, expression: Expression, tensor: Callable[[RankTensor], tuple[RankTensor, TensorType]]
) -> TensorType:
    """Its type, with the sizes of every part tied to their values."""
    if not isinstance(expression, RankTensor):
        for part in expression.parts if isinstance(expression, (Concat, Sum)) else (expression.operand,):
            _expression(out, part, tensor)
    found = resolve(expression, tensor)[1]
    return replace(found, shape=tuple(map(out.facts.tie, found.shape)))
