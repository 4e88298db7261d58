"""Random inputs of both programs that satisfy a job's input relations, found without solving them.

Every element of every input has a number. What the relations say is equal makes classes of elements, and one random
number is drawn for each class. A specification input that is a sum of implementation inputs is computed from these.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from itertools import product
from math import prod

import numpy as np

from tantamount.certificate.draws import Draw, Elements, limits_of
from tantamount.ir.graph import Graph
from tantamount.ir.job import Job
from tantamount.ir.relation import InputRelation, Partial, Replicate, Shard
from tantamount.ir.types import Kind, TensorType
from tantamount.ops.algebra import Interpretation, Value
from tantamount.ops.functions import ROUNDINGS, rounded_by
from tantamount.ops.relations import evaluate, has_sum, pairs, reduced
from tantamount.semantics.reference import Array, Reference
from tantamount.semantics.survey import index_bounds

__all__ = ["Layout", "draw_inputs", "lay_out"]

Key = tuple[int, str]  # a rank (the specification: -1) and the name of an input
SPECIFICATION = -1


@dataclass(frozen=True)
class Layout:
    """``classes``: for every input, the class of each element; ``kinds``: the classes of each kind; ``elements``: what
    is known of each class; ``wild``: the numbers of the tensors of the specification with integers that are indices.
    ``computed``: specification inputs that are sums. ``shared``: specification inputs that use an implementation input
    which is used elsewhere, too. ``restricted``: those of which an element must equal another one."""

    classes: Mapping[Key, Array]
    kinds: Mapping[Kind, Array]
    elements: Elements
    wild: tuple[int, ...]
    computed: frozenset[str]
    shared: frozenset[str]
    restricted: frozenset[str]


def lay_out(job: Job, divisors: Collection[str]) -> Layout:
    """The classes of a job's input elements. ``divisors``: inputs of the specification that reach a divisor."""
    types = _types(job)
    offsets: dict[Key, int] = {}
    total = 0
    for key, type_ in types.items():
        offsets[key] = total
        total += prod(type_.shape)
    numbers = {
        key: np.arange(offsets[key], offsets[key] + prod(type_.shape), dtype=np.int64).reshape(type_.shape)
        for key, type_ in types.items()
    }
    edges: list[tuple[Array, Array]] = []
    counting = Reference()
    for name, relation in job.inputs.items():
        edges += _equal(job, counting, name, relation, numbers)
    labels = _components(total, edges)
    elements = _elements(job, types, numbers, labels, divisors)
    wild = tuple(
        k
        for k, (key, type_) in enumerate(types.items())
        if key[0] == SPECIFICATION
        and type_.dtype.kind is Kind.INT
        and bool(elements.bounds[labels[numbers[key]]].any())
    )
    found: dict[Kind, Array] = {}
    for kind in (Kind.BOOL, Kind.INT, Kind.FLOAT):
        own = [labels[numbers[key].ravel()] for key, type_ in types.items() if type_.dtype.kind is kind]
        if own:
            found[kind] = np.unique(np.concatenate(own))
    computed = frozenset(name for name, relation in job.inputs.items() if has_sum(relation))
    classes = {key: labels[number] for key, number in numbers.items()}
    shared = _shared(job, classes, computed)
    return Layout(classes, found, elements, wild, computed, shared, _restricted(classes, shared - computed))


def _types(job: Job) -> dict[Key, TensorType]:
    def of(graph: Graph, rank: int) -> dict[Key, TensorType]:
        return {(rank, node.name): node.type.stored for node in graph.inputs if node.type is not None}

    found = of(job.specification, SPECIFICATION)
    for rank, graph in enumerate(job.implementation):
        found |= of(graph, rank)
    return found


def _equal(
    job: Job, counting: Reference, name: str, relation: InputRelation, numbers: Mapping[Key, Array]
) -> list[tuple[Array, Array]]:
    """Pairs of arrays of elements that are equal."""

    def held(rank: int, tensor: str) -> Array:
        return numbers[rank, tensor]

    whole = numbers[SPECIFICATION, name]
    if not has_sum(relation):
        found = pairs(counting, whole, whole.shape, relation, job.mesh, held)
        return [(pair.wanted.ravel(), pair.found.ravel()) for pair in found]
    sides = [[evaluate(counting, side, held, relation.name).ravel() for side in pair] for pair in relation.equal]
    out = [(left, right) for left, right in sides]
    if relation.placements is not None:  # the summands are replicated along the axes that say so
        lead = [range(size) for size in job.mesh.sizes]
        same = [k for k, p in enumerate(relation.placements) if isinstance(p, Replicate)]
        for place in product(*lead):
            first = tuple(0 if k in same else digit for k, digit in enumerate(place))
            a, b = (held(job.mesh.rank(at), relation.name) for at in (first, place))
            out.append((a.ravel(), b.ravel()))
    return out


def _components(count: int, edges: list[tuple[Array, Array]]) -> Array:
    """The smallest number that each is connected to."""
    labels = np.arange(count, dtype=np.int64)
    if not edges:
        return labels
    a, b = (np.concatenate(ends) for ends in zip(*edges, strict=True))
    while True:
        low = np.minimum(labels[a], labels[b])
        before = labels.copy()
        np.minimum.at(labels, a, low)
        np.minimum.at(labels, b, low)
        np.minimum.at(labels, before[a], low)
        np.minimum.at(labels, before[b], low)
        labels = labels[labels]
        if np.array_equal(labels, before):
            return labels


def _elements(
    job: Job,
    types: Mapping[Key, TensorType],
    numbers: Mapping[Key, Array],
    labels: Array,
    divisors: Collection[str],
) -> Elements:
    """The facts about the element that each class stands for."""
    count = len(labels)
    low = np.full(count, np.iinfo(np.int64).min)
    high = np.full(count, np.iinfo(np.int64).max)
    tensor, place, row = (np.zeros(count, dtype=np.int64) for _ in range(3))
    divides = np.zeros(count, dtype=np.bool_)
    for k, (key, type_) in reversed([*enumerate(types.items())]):  # the specification's come first, and count
        own = labels[numbers[key].ravel()]
        tensor[own], place[own] = k, np.arange(own.size)
        row[own] = np.arange(own.size) // max(1, type_.shape[-1] if type_.shape else 1)
        least, most = limits_of(type_.dtype)
        low[own], high[own] = np.maximum(low[own], least), np.minimum(high[own], most)
        if key[0] == SPECIFICATION and key[1] in divisors:
            divides[own] = True
    return Elements(_bounds(job, types, numbers, labels), low, high, tensor, place, row, divides)


def _bounds(job: Job, types: Mapping[Key, TensorType], numbers: Mapping[Key, Array], labels: Array) -> Array:
    """Of the specification's inputs what its own indices allow; of others what the implementation's do; 0: unknown."""
    groups = {name: job.mesh.group_size(name) for name in job.mesh.groups}
    ours = index_bounds(job.specification)
    theirs = {id(graph): index_bounds(graph, groups) for graph in job.implementation}
    bounds = np.full(len(labels), np.iinfo(np.int64).max)
    related = np.zeros(len(labels), dtype=np.bool_)
    for key, type_ in types.items():
        if key[0] == SPECIFICATION and type_.dtype.kind is Kind.INT:
            related[labels[numbers[key]]] = True
    for (rank, name), type_ in types.items():
        if type_.dtype.kind is not Kind.INT:
            continue
        bound = (ours if rank == SPECIFICATION else theirs[id(job.implementation[rank])]).get(name)
        where = labels[numbers[rank, name].ravel()]
        where = where if rank == SPECIFICATION else where[~related[where]]
        if bound is not None:
            bounds[where] = np.minimum(bounds[where], max(1, bound))
    return np.where(bounds == np.iinfo(np.int64).max, 0, bounds)


def _shared(job: Job, classes: Mapping[Key, Array], computed: frozenset[str]) -> frozenset[str]:
    found: set[str] = set()
    seen: dict[str, Array] = {}
    for name, relation in job.inputs.items():
        own: list[Array] = []
        if name not in computed:
            own = [classes[SPECIFICATION, name].ravel()]
        else:
            names = [(rank, relation.name) for rank in range(job.mesh.world_size)] if relation.placements else []
            own = [classes[key].ravel() for key in names if key in classes]
            if relation.expression is not None:
                used: list[Array] = []

                def held(rank: int, tensor: str, used: list[Array] = used) -> Array:
                    used.append(classes[rank, tensor].ravel())
                    return classes[rank, tensor]

                evaluate(Reference(), relation.expression, held, relation.name)
                own = used
        merged = np.concatenate(own) if own else np.zeros(0, dtype=np.int64)
        replicated = name in computed and relation.placements is not None
        distinct = np.unique(merged)
        if (not replicated and len(distinct) < len(merged)) or any(
            np.intersect1d(distinct, other).size for other in seen.values()
        ):
            found.add(name)
        seen[name] = distinct
    return frozenset(found)


def _restricted(classes: Mapping[Key, Array], names: frozenset[str]) -> frozenset[str]:
    """Of inputs that are not computed, all but the first with an element."""
    found: set[str] = set()
    known: list[Array] = []
    for (rank, name), own in classes.items():
        if rank == SPECIFICATION:
            flat = own.ravel()
            if name in names and (
                len(np.unique(flat)) < flat.size or any(np.intersect1d(flat, other).size for other in known)
            ):
                found.add(name)
            known.append(flat)
    return frozenset(found)


def draw_inputs(
    job: Job, layout: Layout, on: Interpretation, draw: Draw
) -> tuple[dict[str, Value], list[dict[str, Value]]]:
    """Inputs of the specification and of every rank."""
    drawn = {kind: draw(kind, layout.elements.take(classes), 0) for kind, classes in layout.kinds.items()}
    values: dict[Key, Value] = {}
    for key, classes in layout.classes.items():
        graph = job.specification if key[0] == SPECIFICATION else job.implementation[key[0]]
        type_ = graph.by_name[key[1]].type
        kind = Kind.FLOAT if type_ is None else type_.stored.dtype.kind
        if key[0] != SPECIFICATION or key[1] not in layout.computed:
            value = on.gather(drawn[kind], [np.searchsorted(layout.kinds[kind], classes)])
            rounding = None if type_ is None else ROUNDINGS.get(type_.dtype)
            values[key] = rounded_by(rounding, value) if rounding and isinstance(value, np.ndarray) else value
    specification: dict[str, Value] = {}
    for node in job.specification.inputs:
        relation = job.inputs[node.name]
        specification[node.name] = (
            _computed(job, on, relation, values) if node.name in layout.computed else values[SPECIFICATION, node.name]
        )
    ranks = [
        {node.name: values[rank, node.name] for node in graph.inputs} for rank, graph in enumerate(job.implementation)
    ]
    return specification, ranks


def _computed(job: Job, on: Interpretation, relation: InputRelation, values: Mapping[Key, Value]) -> Value:
    """The whole that ranks hold summands of."""
    if relation.expression is not None:
        return evaluate(on, relation.expression, lambda rank, name: values[rank, name], relation.name)
    placements = relation.placements or ()
    partial = [k for k, p in enumerate(placements) if isinstance(p, Partial)]
    sharded = [(k, p.dim) for k, p in enumerate(placements) if isinstance(p, Shard)]
    sizes = job.mesh.sizes

    def put(axes: list[tuple[int, int]], fixed: dict[int, int]) -> Value:
        if not axes:
            places = product(*(range(sizes[k]) for k in partial))
            members = [{**fixed, **dict(zip(partial, digits, strict=True))} for digits in places]
            own = [values[job.mesh.rank(tuple(m.get(k, 0) for k in range(len(sizes)))), relation.name] for m in members]
            return reduced(on, own, placements, job.mesh)
        (axis, dim), *rest = axes
        parts = [put(rest, {**fixed, axis: digit}) for digit in range(sizes[axis])]
        filled = [part for part in parts if part.shape[dim]]
        return on.concat(filled, dim) if filled else parts[0]

    return put(sharded, {})
