"""A graph file with its weights on record, against the model that it was made of: the numbers say which is which.

An exporter writes the weights of a model into the file, transposed, joined or as they are. Random weights are nearly
all different, so that a recorded tensor whose numbers are those of some parameter, in some order, is found by them, and
compared with them again, exactly. Such a tensor becomes an input, and what is proved holds for all weights of that
arrangement. What is not found so (all ones; a number that comes twice) keeps its numbers on both sides: there, what is
proved holds for the numbers of the file. So does a parameter of which some element was found in no tensor, where a
tensor that was not found has the number of that element: it may be made of it. Nothing is assumed either way.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from tantamount.capture.fx_json import graph_of
from tantamount.capture.graph_document import graph_document
from tantamount.capture.programs import Program
from tantamount.comparison.models import Side, pair_of_models
from tantamount.comparison.programs import OtherWeights, Pair
from tantamount.correspond.index_maps import Numbers, Whole, expression_of, numbered
from tantamount.correspond.numbering import Floats, Source
from tantamount.ir.graph import Constant, Graph
from tantamount.ir.relation import Expression, RankTensor, rank_tensors
from tantamount.ir.types import Shape
from tantamount.limits import limits_from_environment

__all__ = ["has_weights", "pair_with_weights"]

Flags = NDArray[np.bool_]
_FEW = 2  # elements of a tensor that its numbers could identify
_NAMED = 4  # tensors that a headline names


def has_weights(graph: Graph) -> bool:
    """True if floating-point tensors are recorded in a graph."""
    return any(_is_weight(constant) for constant in graph.constants.values())


def _is_weight(constant: Constant) -> bool:
    return constant.type.dtype.is_float and len(constant.data) >= _FEW


def pair_with_weights(
    graph: Graph,
    model: Any,
    inputs: tuple[tuple[Any, ...], dict[str, Any]],
    graph_first: bool,
    relations: Mapping[str, Any] | None = None,
    outputs: Mapping[str, Any] | None = None,
) -> Pair:
    """The pair of a graph with recorded weights and a PyTorch model, whose weights those are. Raises
    :class:`tantamount.errors.UserError`."""
    from tantamount.capture import capture
    from tantamount.capture.torch.models import state_names, state_values, with_tables

    program = capture(model, *inputs)
    values = state_values(model)
    wanted = {node.name for node in program.graph.inputs}
    held = {name: value for name, value in values.items() if name in wanted}
    wholes = numbered({name: value.shape for name, value in held.items()})
    parameters, buffers = state_names(model)
    which, whose = ("first", "second") if graph_first else ("second", "first")

    def pair(sources: Mapping[str, Source]) -> Pair:
        used = frozenset(name for source in sources.values() for name in _names(source))
        shapes: dict[str, Shape] = {name: value.shape for name, value in held.items() if name in used}
        own = {whole.name: _itself(whole) for whole in wholes if whole.name in used}
        tabled = with_tables(program, model, frozenset(held) - used)
        side = Side(whose, tabled, own, parameters | buffers, buffers)
        other = Side(which, _with_inputs(graph, sources), sources, frozenset(sources), frozenset())
        sides = (other, side) if graph_first else (side, other)
        return replace(pair_of_models(*sides, shapes, relations=relations, outputs=outputs), assumptions=())

    sources = _sources(graph, held, wholes)
    found = pair(sources)
    count = sum(map(_is_weight, graph.constants.values()))
    note = (
        f"{len(sources)} of {count} recorded tensors of the file have exactly the numbers of the model's parameters: "
        "they are any numbers; the others are those that are recorded"
    )
    return replace(
        found, notes=(note, *found.notes), other_weights=_others(graph, sources, held, wholes, which, whose, pair)
    )


def _others(
    graph: Graph,
    sources: Mapping[str, Source],
    held: Mapping[str, Floats],
    wholes: tuple[Whole, ...],
    which: str,
    whose: str,
    pair: Callable[[Mapping[str, Source]], Pair],
) -> OtherWeights | None:
    """The recorded tensors whose numbers are those of no parameter, each beside one of its shape that no other has: of
    its name, else the nearest in numbers. ``None`` if there are none."""
    used = {name for source in sources.values() for name in _names(source)}
    odd = _other_sizes(graph, held, which, whose)
    free = [whole for whole in wholes if whole.name not in used]
    beside: dict[str, tuple[Whole, Source, float]] = {}
    recorded = [n for n in graph.nodes if n.op == "constant" and n.name not in sources]
    for node in sorted(recorded, key=lambda one: all(whole.name != one.name for whole in free)):
        constant = graph.constants[node.target]
        if not _is_weight(constant):
            continue
        value = _numbers(constant)
        named = [whole for whole in free if (whole.name, whole.shape) == (node.name, value.shape)]
        near = [
            (float(np.abs(way - value).max()), whole, index)
            for whole in named or [whole for whole in free if value.shape in (whole.shape, whole.shape[::-1])]
            for way, index in _ways(held[whole.name], whole)
            if way.shape == value.shape
        ]
        if near:
            distance, whole, index = min(near, key=lambda one: one[0])
            expression = expression_of(index, wholes)
            free.remove(whole)
            if distance and expression is not None:
                beside[node.name] = (whole, Source(expression, sources=index), distance)
    if not beside:
        return OtherWeights(odd, lambda: pair(sources)) if odd else None
    called = [name if whole.name == name else f"{name} ({whole.name})" for name, (whole, _, _) in beside.items()]
    more = f" and {len(called) - _NAMED} more" if len(called) > _NAMED else ""
    furthest = max(distance for _, _, distance in beside.values())
    text = (
        f"other weights: {', '.join(called[:_NAMED])}{more}, recorded in the {which} program, have other numbers than "
        f"the {whose} program's parameters (by up to {furthest:.2g})"
    )
    return OtherWeights(
        f"{odd}; {text}" if odd else text,
        lambda: pair({**sources, **{name: source for name, (_, source, _) in beside.items()}}),
    )


def _other_sizes(graph: Graph, held: Mapping[str, Floats], which: str, whose: str) -> str:
    """A clause on recorded tensors that have the name of a parameter and another shape; empty if there are none."""
    shapes = {node.name: graph.constants[node.target].type.shape for node in graph.nodes if node.op == "constant"}
    odd = [name for name, shape in shapes.items() if name in held and held[name].shape != shape]
    if not odd:
        return ""
    more = f" (and {len(odd) - 1} more)" if len(odd) > 1 else ""
    mine, theirs = list(shapes[odd[0]]), list(held[odd[0]].shape)
    return f"other sizes: {odd[0]} is {mine} in the {which} program and {theirs} in the {whose}{more}"


def _numbers(constant: Constant) -> Floats:
    return np.array([float(cast("float", x)) for x in constant.data]).reshape(constant.type.shape)


def _ways(value: Floats, whole: Whole) -> list[tuple[Floats, Numbers]]:
    """A parameter as it is, and transposed if it is a matrix, with the numbers of its elements."""
    index: Numbers = np.arange(whole.start, whole.stop, dtype=np.int64).reshape(whole.shape)
    return [(value, index)] + ([(value.T, index.T)] if len(whole.shape) == 2 else [])


def _itself(whole: Whole) -> Source:
    index: Numbers = np.arange(whole.start, whole.stop, dtype=np.int64).reshape(whole.shape)
    return Source(RankTensor(0, whole.name), sources=index)


def _names(source: Source) -> set[str]:
    found: Expression | None = source.expression
    return set() if found is None else {tensor.name or "" for tensor in rank_tensors(found)}


def _sources(graph: Graph, held: Mapping[str, Floats], wholes: tuple[Whole, ...]) -> dict[str, Source]:
    """The recorded tensors that are made of the model's, by the names of their nodes."""
    flat = np.concatenate([held[whole.name].reshape(-1) for whole in wholes]) if wholes else np.zeros(0)
    numbers, first, counts = np.unique(flat, return_index=True, return_counts=True)
    out: dict[str, Source] = {}
    left: list[Floats] = []
    for node in graph.nodes:
        constant = graph.constants.get(node.target) if node.op == "constant" else None
        if constant is None or not _is_weight(constant):
            continue
        value = _numbers(constant)
        index = _alike(value, held, wholes)
        if index is None and numbers.size:
            at = np.searchsorted(numbers, value).clip(0, numbers.size - 1)
            if bool((numbers[at] == value).all()) and bool((counts[at] == 1).all()):
                index = first[at].astype(np.int64)
        expression = None if index is None else expression_of(index, wholes)
        if index is not None and expression is not None and bool((flat[index] == value).all()):
            out[node.name] = Source(expression, sources=index)
        else:
            left.append(value.reshape(-1))
    return _whole(out, wholes, np.isin(flat, np.concatenate(left))) if left else out


def _whole(found: dict[str, Source], wholes: tuple[Whole, ...], open_: Flags) -> dict[str, Source]:
    """The sources that are made of parameters of which no element is ``open_`` that is in none of the sources."""
    while True:
        missing = open_.copy()
        for source in found.values():
            if source.sources is not None:
                missing[source.sources] = False
        parts = {whole.name for whole in wholes if missing[whole.start : whole.stop].any()}
        kept = {name: source for name, source in found.items() if not parts & _names(source)}
        if len(kept) == len(found):
            return kept
        found = kept


def _alike(value: Floats, held: Mapping[str, Floats], wholes: tuple[Whole, ...]) -> Numbers | None:
    """The numbers of the elements of the one parameter that a tensor is, as it is or transposed; ``None`` if it is none
    or several, or the same number everywhere."""
    if bool((value == value.reshape(-1)[0]).all()):
        return None
    found: list[Numbers] = []
    for whole in wholes:
        ways = _ways(held[whole.name], whole)
        found += [numbers for tensor, numbers in ways if tensor.shape == value.shape and np.array_equal(tensor, value)]
    return found[0] if len(found) == 1 else None


def _with_inputs(graph: Graph, sources: Mapping[str, Source]) -> Program:
    """The graph as a program, with inputs for the recorded tensors that have a source."""
    document = dict(graph_document(graph))
    nodes: list[dict[str, Any]] = []
    for node in cast("list[dict[str, Any]]", document["nodes"]):
        if node["name"] in sources:
            node = {**node, "op": "placeholder", "target": node["name"]}
        nodes.append(node)
    document["nodes"] = nodes
    return Program(graph_of(document, graph.path, limits_from_environment()), document)
