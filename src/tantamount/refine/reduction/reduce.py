"""A smaller job of the same structure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from tantamount.errors import InternalError, TantamountError, Unsupported, UserError
from tantamount.ir.graph import Constant, Graph, Node
from tantamount.ir.job import Job
from tantamount.ir.relation import Expectation, InputRelation
from tantamount.ops.algebra import Tensor
from tantamount.ops.builder import Builder
from tantamount.ops.execute import Environment, Result, check_types, run_node
from tantamount.refine.reduction.gather import Gathered, call_key, constant_of_type, gather, groups_of
from tantamount.refine.reduction.literals import Number, map_expression, map_node
from tantamount.refine.reduction.numbers import readings, rewritten
from tantamount.refine.reduction.relations import check_relations
from tantamount.refine.reduction.sizes import FIXED, HUGE
from tantamount.refine.reduction.solve import solve
from tantamount.refine.reduction.structure import Structure

__all__ = ["NotReduced", "Reduction", "reduce_job"]

_ROUNDS = 6  # how often numbers that turn out to be structure are fixed before giving up


class NotReduced(TantamountError):
    """Why a job has no smaller form; the text is one clause."""


@dataclass(frozen=True)
class Reduction:
    """``job``: the smaller job. Its graphs type-check, apply the same primitives node by node, and its relations fit.
    ``sizes``: old and new value of every size that changed; ``numbers``: of every number that programs compute with
    and that is a function of sizes (old numbers as they are written)."""

    job: Job
    sizes: Mapping[int, int]
    numbers: Mapping[str, Number]


@dataclass(frozen=True, slots=True)
class _Broken(Exception):
    """The smaller job is none: ``numbers`` are those that may have been structure."""

    place: str
    numbers: frozenset[int]


def reduce_job(job: Job) -> Reduction:
    """The job with every size as small as the programs allow, the same number for the same number and different ones
    for different ones. Raises :class:`NotReduced` where no size can shrink or the smaller job is not a valid one."""
    pinned: frozenset[int] = frozenset()
    place = ""
    for _ in range(_ROUNDS):
        try:
            return _attempt(job, pinned)
        except _Broken as broken:
            place = broken.place
            if broken.numbers <= pinned:
                break
            pinned |= broken.numbers
        except Unsupported as problem:
            raise NotReduced(problem.reason) from None
    raise NotReduced(f"at smaller shapes {place} does not do the same")


def _attempt(job: Job, pinned: frozenset[int]) -> Reduction:
    gathered = gather(job, pinned)
    known = gathered.known
    found, fixed = readings(gathered.values.values(), sorted(known), gathered.shapes, job.mesh.world_size)
    facts = {fact: None for fact in (*gathered.facts.found, *fixed) if _about(fact[1], known)}
    sizes = solve(facts, gathered.shapes, _apart(gathered, job))
    sizes = {old: new for old, new in sizes.items() if old in known and new != old}
    if not sizes:
        raise NotReduced("no size can shrink")
    numbers = rewritten(found, {**{n: n for n in known}, **sizes})
    if not isinstance(numbers, dict):
        raise NotReduced(f"the number {numbers!r} equals different functions of sizes")
    smaller = _rewritten(job, sizes, numbers)
    _check(job, smaller)
    return Reduction(smaller, sizes, numbers)


def _about(p: object, known: set[int]) -> bool:
    from tantamount.refine.reduction.sizes import variables

    return variables(p) <= known  # type: ignore[arg-type]


def _apart(gathered: Gathered, job: Job) -> set[int]:
    """Numbers that stay and that no size may come to equal."""
    small = {size for shape in gathered.shapes for size in shape if size <= FIXED}
    written = {number for number in gathered.values.values() if isinstance(number, int) and 1 < number < HUGE}
    return {0, 1, *small, *written, *job.mesh.sizes, job.mesh.world_size}


# ---------------------------------------------------------------------------------------------- writing it anew
def _rewritten(job: Job, sizes: Mapping[int, int], numbers: Mapping[str, Number]) -> Job:
    def size(n: int) -> int:
        return -sizes.get(-n, -n) if n < 0 else sizes.get(n, n)

    def value(n: Number) -> Number:
        return numbers.get(repr(n), n)

    def graph_of(graph: Graph) -> Graph:
        nodes = tuple(map_node(graph, node, size, value) for node in graph.nodes)
        return replace(graph, nodes=nodes, constants={k: constant(c) for k, c in graph.constants.items()})

    def constant(c: Constant) -> Constant:
        first = c.data[0] if len(c.data) == 1 else True
        if isinstance(first, (bool, complex)):
            return c
        return replace(c, data=(value(first),))

    def relation(r: InputRelation | Expectation):
        if r.expression is None or (isinstance(r, Expectation) and r.problem):
            return r
        expression = map_expression(r.expression, size)
        return replace(r, expression=expression, text=str(expression))

    done: dict[int, Graph] = {}
    for graph in job.implementation:
        if id(graph) not in done:
            done[id(graph)] = graph_of(graph)
    return replace(
        job,
        specification=graph_of(job.specification),
        implementation=tuple(done[id(graph)] for graph in job.implementation),
        inputs={name: relation(r) for name, r in job.inputs.items()},
        outputs={name: relation(r) for name, r in job.outputs.items()},
    )


# ---------------------------------------------------------------------------------------------- is it the same?
def _check(job: Job, smaller: Job) -> None:
    """Raises :class:`_Broken` unless every node of the smaller job has the type recorded (that is: the one rewritten)
    and applies the same primitives, and the relations fit."""
    seen: set[tuple[str, str]] = set()
    _check_graph(job.specification, smaller.specification, None, seen)
    done: set[int] = set()
    for old, new in zip(job.implementation, smaller.implementation, strict=True):
        if id(old) not in done:
            done.add(id(old))
            _check_graph(old, new, groups_of(job), seen)
    problem = check_relations(smaller)
    if problem:
        raise _Broken(problem, frozenset())


def _check_graph(old: Graph, new: Graph, groups: Mapping[str, int] | None, seen: set[tuple[str, str]]) -> None:
    before: Environment = {}
    after: Environment = {}
    done: dict[tuple[str, str], tuple[Result, Result]] = {}
    for node, twin in zip(old.nodes, new.nodes, strict=True):
        if node.op == "input":
            for one, environment in ((node, before), (twin, after)):
                if one.type is None:
                    raise InternalError("an input without a type")
                environment[one.name] = Tensor(one.type.shape, one.type.dtype, None)
            continue
        key = (call_key(old, node, before), call_key(new, twin, after))
        if key not in done:
            steps: list[object] = []
            results: list[Result] = []
            try:
                for graph, one, environment in ((old, node, before), (new, twin, after)):
                    structure = Structure()
                    builder = Builder(structure, one.name)
                    results.append(run_node(graph, one, builder, environment, constant_of_type, groups))
                    steps.append(structure.steps)
            except UserError as problem:
                raise _Broken(f"node {node.name} ({problem.found})", _integers(old, node)) from None
            if steps[0] != steps[1]:
                raise _Broken(f"node {node.name}", _integers(old, node))
            done[key] = (results[0], results[1])
        before[node.name], after[node.name] = done[key]
        try:
            check_types(new, twin, after[node.name])
        except UserError as problem:
            raise _Broken(f"node {node.name} ({problem.found})", _integers(old, node)) from None


def _integers(graph: Graph, node: Node) -> frozenset[int]:
    """Those among a node's attributes that may have changed."""
    found: set[int] = set()

    def note(number: int) -> int:
        if FIXED < abs(number) < HUGE:
            found.add(abs(number))
        return number

    map_node(graph, replace(node, type=None), note)
    return frozenset(found)
