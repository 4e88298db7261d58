"""A smaller job of the same structure."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import reduce
from itertools import count, pairwise, product
from math import prod

from tantamount.effort import Effort
from tantamount.errors import InternalError, TantamountError, Unsupported, UserError
from tantamount.ir.graph import Constant, Graph, Node
from tantamount.ir.job import Job
from tantamount.ir.relation import Equality, Expectation, Expression, InputRelation
from tantamount.ir.relation_types import RelationProblem
from tantamount.ops.algebra import Tensor
from tantamount.ops.builder import Builder
from tantamount.ops.execute import Environment, Result, check_types, run_node
from tantamount.reduction.gather import (
    Gathered,
    Lifted,
    Pins,
    call_key,
    constant_of_type,
    gather,
    groups_of,
    lifted_expression,
)
from tantamount.reduction.literals import Number, map_expression, map_node
from tantamount.reduction.numbers import plain, readings, rewritten
from tantamount.reduction.relations import check_relations
from tantamount.reduction.solve import drawn, moved, solve
from tantamount.reduction.structure import Step, Structure
from tantamount.sizes.traced import FIXED, HUGE, Polynomial, Size, SizeFacts, constant, evaluate, polynomial, variables
from tantamount.sizes.traced import plus as _plus
from tantamount.sizes.traced import times as _times

__all__ = ["NotReduced", "Reduction", "reduce_job", "resized", "sketch"]


class NotReduced(TantamountError):
    """Raised for a job that has no smaller form; the text says why, in one clause."""


@dataclass(frozen=True)
class Reduction:
    """``job``: the smaller job. Its graphs type-check, apply the same primitives node by node, and its relations fit.
    ``sizes``: for every size that changed what it became (several, if sizes that are equal by chance came apart);
    ``numbers``: the same for numbers that programs compute with and that are functions of sizes, as they are
    written."""

    job: Job
    sizes: Mapping[int, tuple[int, ...]]
    numbers: Mapping[str, Number]


class _Broken(Exception):
    """The smaller job is none: ``pins`` are integers that may have been structure."""

    def __init__(self, place: str, pins: Pins = frozenset()) -> None:
        super().__init__(place)
        self.place = place
        self.pins = pins


def sketch(
    job: Job, axes: Collection[str], effort: Effort, ranks: int = 2, *, outputs: bool = False, ordered: bool = True
) -> Job:
    """A smaller job that seems to compute something alike: so many ``ranks`` along those of ``axes`` that are longer
    than four, the sizes that this takes, and others smaller only where the job is too large to execute. Ranks at the
    first coordinates stay; outputs are not asked for, unless ``outputs`` says that their relations are to fit as well.
    For hints alone: constants are cut, and nothing is checked. ``ordered``: unless ranks are fewer, what is longer
    stays longer, for a table has a row for every position; numbers in programs (heads) may keep all large that way.

    Raises :class:`NotReduced` where there is none."""
    effort.check()
    if not job.counted.isdisjoint(axes):
        raise NotReduced(f"the specification has something for each rank along {', '.join(sorted(job.counted))}")
    if axes and any(relation.expression is not None or relation.equal for relation in job.inputs.values()):
        raise NotReduced("relations name single ranks")
    bare = job if outputs else replace(job, outputs={})
    try:
        gathered = gather(bare, shrunk=axes, ranks=ranks, exact=False)
        facts = gathered.facts
        short = {facts.representative(v): ranks for n in gathered.axes.values() for v in variables(polynomial(n))}
        prices = _prices(gathered, bare)
        known = {v for kind, p in facts.found if kind == "==" for v in variables(p)} | set(short)
        known |= {v for p in prices for v in variables(p)}
        numbers = [number for number in gathered.values.values() if not plain(number)]
        found, _ = readings(numbers, sorted(known), sorted(prices), facts.values, job.mesh.world_size)
        values = {v: facts.values[v] for v in map(facts.representative, known)}
        conditions = [fact for fact in facts.found if variables(fact[1]) <= values.keys()]
        order = (
            []
            if axes or not ordered
            else [(">=", _plus((((b,), 1),), (((a,), 1),), -1)) for a, b in _ascending(values)]
        )
        sizes = moved([*conditions, *order], prices, values, short, _taken(gathered, bare), effort)
    except (RelationProblem, Unsupported) as problem:
        raise NotReduced(str(problem)) from None
    if sizes is None or sizes == values:
        raise NotReduced("no size can shrink")
    whole = _Everywhere(facts, sizes)
    return _rewritten(bare, gathered, whole, rewritten(found, whole))


def _ascending(values: Mapping[int, int]) -> Iterator[tuple[int, int]]:
    """A variable of each value and one of the next larger value."""
    return pairwise({values[v]: v for v in sorted(values, key=values.__getitem__)}.values())


def reduce_job(job: Job, effort: Effort | None = None) -> Reduction:
    """The job with every size as small as the programs allow, and different sizes different. ``effort`` (default:
    normal) bounds how often that is tried.

    Raises :class:`NotReduced` where no size can shrink or the smaller job is not a valid one."""
    effort = effort if effort is not None else Effort()
    pins: Pins = frozenset()
    for done in count(1):
        try:
            return _attempt(job, pins, effort)
        except _Broken as broken:  # numbers that turn out to be structure are fixed
            if broken.pins <= pins or effort.exceeds("reduced_rounds", done + 1):
                raise NotReduced(f"at smaller shapes {broken.place} does not do the same") from None
            pins |= broken.pins
        except RelationProblem as problem:
            raise NotReduced(str(problem)) from None
        except Unsupported as problem:
            raise NotReduced(problem.reason) from None
    raise InternalError("counting ended")


def resized(job: Job, new: Callable[[int], int], most: int, effort: Effort) -> Job:
    """The job at other sizes: one that nothing else decides, and was n, becomes ``new(n)`` where the programs allow
    that; there are about ``most`` elements in a tensor at most. Every node has the type that its operator gives it, and
    applies the same primitives; what is computed may be something else (a number that came from a size stays).

    Raises :class:`NotReduced` where the sizes stay, or the job with others is not a valid one."""
    try:
        gathered = gather(job)
        facts = gathered.facts
        prices = _prices(gathered, job)
        known = {v for kind, p in facts.found if kind == "==" for v in variables(p)}
        known |= {v for p in prices for v in variables(p)}
        values = {v: facts.values[v] for v in map(facts.representative, known)}
        conditions = [fact for fact in facts.found if variables(fact[1]) <= values.keys()]
        tensors = sum(prices.values())
        sizes = drawn(conditions, prices, values, new, most * tensors, effort)
        if sizes == values:
            raise NotReduced("no size can change")
        other = _rewritten(job, gathered, _Everywhere(facts, sizes), {})
        _check(job, other)
    except _Broken as broken:
        raise NotReduced(f"at other shapes {broken.place} does not do the same") from None
    except (RelationProblem, Unsupported) as problem:
        raise NotReduced(str(problem)) from None
    return other


def _attempt(job: Job, pins: Pins, effort: Effort) -> Reduction:
    effort.check()
    gathered = gather(job, pins)
    facts = gathered.facts
    prices = _prices(gathered, job)
    products = sorted({part for p in prices for part in (p,)})
    known = {v for kind, p in facts.found if kind == "==" for v in variables(p)} | {
        v for p in prices for v in variables(p)
    }
    found, asked = readings(gathered.values.values(), sorted(known), products, facts.values, job.mesh.world_size)
    for kind, p in asked:
        facts.add(kind, p)
    classes = {facts.representative(v) for v in known}
    conditions = [fact for fact in facts.found if variables(fact[1]) <= classes]
    values = {v: facts.values[v] for v in classes}
    sizes = solve(conditions, _prices(gathered, job), values, _taken(gathered, job), effort)
    if all(new == facts.values[v] for v, new in sizes.items()):
        raise NotReduced("no size can shrink")
    whole = _Everywhere(facts, sizes)
    smaller = _rewritten(job, gathered, whole, rewritten(found, whole))
    _check(job, smaller)
    changed: dict[int, set[int]] = {}
    for v, new in sizes.items():
        if new != facts.values[v]:
            changed.setdefault(facts.values[v], set()).add(new)
    numbers = {repr(r.number): r.at(whole) for r in found if r.at(whole) != r.number}
    return Reduction(smaller, {old: tuple(sorted(new)) for old, new in sorted(changed.items())}, numbers)


class _Everywhere(dict[int, int]):
    """The new value of every variable; of those that nothing is known about, the old one."""

    def __init__(self, facts: SizeFacts, sizes: Mapping[int, int]) -> None:
        super().__init__(sizes)
        self.facts = facts

    def __missing__(self, variable: int) -> int:
        found = self.facts.representative(variable)
        return self[found] if found != variable else self.facts.values[variable]


def _prices(gathered: Gathered, job: Job) -> dict[Polynomial, int]:
    """The number of elements of every tensor, with how often it occurs."""
    shapes: dict[tuple[Polynomial, ...], int] = {}
    for shape, times in gathered.shapes(job):
        key = tuple(map(polynomial, shape))
        shapes[key] = shapes.get(key, 0) + times
    found: dict[Polynomial, int] = {}
    for key, times in shapes.items():
        p = gathered.facts.settled(reduce(_times, key, constant(1)))
        if variables(p):
            found[p] = found.get(p, 0) + times
    return found


def _taken(gathered: Gathered, job: Job) -> set[int]:
    """Numbers that stay, which no size may come to equal."""
    small = {int(size) for shape, _ in gathered.shapes(job) for size in shape if int(size) <= FIXED}
    written = {number for number in gathered.values.values() if isinstance(number, int) and 1 < number < HUGE}
    return {0, 1, *small, *written, *job.mesh.sizes, job.mesh.world_size}


# ---------------------------------------------------------------------------------------------- writing it anew
def _rewritten(job: Job, gathered: Gathered, sizes: Mapping[int, int], numbers: Mapping[str, Number]) -> Job:
    facts = gathered.facts

    def size(n: int) -> int:
        return evaluate(n.polynomial, sizes) if isinstance(n, Size) else n

    def node_of(graph: Graph, node: Node, types: Environment) -> Node:
        def value(number: Number, place: str) -> Number:
            if isinstance(number, Size) and any(facts.representative(v) in sizes for v in variables(number.polynomial)):
                return size(number)
            return numbers.get(repr(number), int(number) if isinstance(number, Size) else number)

        found = types.get(node.name)
        type_ = node.type
        if type_ is not None and isinstance(found, Tensor):
            type_ = replace(type_, shape=tuple(map(size, found.shape)))
        return replace(map_node(graph, node, lambda n, place: size(n), value), type=type_)

    def graph_of(lifted: Lifted) -> Graph:
        nodes = tuple(node_of(lifted.graph, node, lifted.types) for node in lifted.nodes)
        shapes = {node.target: lifted.types[node.name] for node in lifted.graph.nodes if node.op == "constant"}
        constants = {key: constant(c, shapes.get(key)) for key, c in lifted.graph.constants.items()}
        return replace(lifted.graph, nodes=nodes, constants=constants)

    def constant(c: Constant, found: Result) -> Constant:
        shape = tuple(map(size, found.shape)) if isinstance(found, Tensor) else c.type.shape
        if shape != c.type.shape:
            places = product(*map(range, shape))
            strides = [prod(c.type.shape[k + 1 :]) for k in range(len(shape))]
            data = tuple(c.data[sum(i * s for i, s in zip(place, strides, strict=True))] for place in places)
            return Constant(replace(c.type, shape=shape), data)
        first = c.data[0] if len(c.data) == 1 else True
        return c if isinstance(first, (bool, complex)) else replace(c, data=(numbers.get(repr(first), first),))

    def expression(e: Expression) -> Expression:
        lifted = lifted_expression(e, facts)
        return map_expression(lifted, size, lambda n, _: size(n))

    def equal(r: InputRelation | Expectation) -> tuple[Equality, ...]:
        return tuple((expression(a), expression(b)) for a, b in r.equal)

    def input_of(r: InputRelation) -> InputRelation:
        r = replace(r, equal=equal(r))
        if r.expression is None:
            return r
        new = expression(r.expression)
        return replace(r, expression=new, text=str(new))

    def output_of(r: Expectation) -> Expectation:
        if r.problem:
            return r
        r = replace(r, equal=equal(r))
        if r.expression is None:
            return r
        new = expression(r.expression)
        return replace(r, expression=new, text=str(new))

    done = {key: graph_of(lifted) for key, lifted in gathered.lifted.items()}
    return replace(
        job,
        specification=done[id(job.specification)],
        implementation=tuple(done[id(job.implementation[rank])] for rank in gathered.ranks),
        mesh=replace(job.mesh, axes={axis: size(n) for axis, n in gathered.axes.items()}),
        inputs={name: input_of(r) for name, r in job.inputs.items()},
        outputs={name: output_of(r) for name, r in job.outputs.items()},
    )


# ---------------------------------------------------------------------------------------------- is it the same?
def _check(job: Job, smaller: Job) -> None:
    """Raises :class:`_Broken` unless every node of the smaller job has the type recorded (that is: the one rewritten)
    and applies the same primitives, and the relations fit."""
    done: set[int] = set()
    known: dict[object, tuple[Result, Result]] = {}
    pairs = zip((job.specification, *job.implementation), (smaller.specification, *smaller.implementation), strict=True)
    for old, new in pairs:
        if id(old) not in done:
            done.add(id(old))
            _check_graph(old, new, None if old is job.specification else groups_of(job.mesh), known)
    problem = check_relations(smaller)
    if problem:
        raise _Broken(problem)


def _check_graph(
    old: Graph, new: Graph, groups: Mapping[str, int] | None, known: dict[object, tuple[Result, Result]]
) -> None:
    before: Environment = {}
    after: Environment = {}
    for node, twin in zip(old.nodes, new.nodes, strict=True):
        if node.op == "input":
            for one, environment in ((node, before), (twin, after)):
                if one.type is not None:
                    environment[one.name] = Tensor(one.type.shape, one.type.dtype, None)
            continue
        key = (node.op, call_key(node, before), call_key(twin, after), groups is None)
        try:
            if node.op == "constant" or key not in known:
                first, steps = _apply(old, node, before, groups)
                second, others = _apply(new, twin, after, groups)
                if steps != others:
                    raise _Broken(f"node {node.name}", _integers(old, node))
                known[key] = first, second
            before[node.name], after[node.name] = known[key]
            check_types(new, twin, after[node.name])
        except UserError as problem:
            raise _Broken(f"node {node.name} ({problem.found})", _integers(old, node)) from None


def _apply(
    graph: Graph, node: Node, environment: Environment, groups: Mapping[str, int] | None
) -> tuple[Result, list[Step]]:
    structure = Structure()
    result = run_node(graph, node, Builder(structure, node.name), environment, constant_of_type, groups)
    return result, structure.steps


def _integers(graph: Graph, node: Node) -> Pins:
    """Those among a node's attributes that may have changed."""
    found: set[tuple[str, str, int]] = set()

    def note(number: int, place: str) -> int:
        if FIXED < abs(number) < HUGE:
            found.add((node.target, place, number))
        return number

    map_node(graph, node, note, lambda number, place: note(number, place) if isinstance(number, int) else number)
    return frozenset(found)
