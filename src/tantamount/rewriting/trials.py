"""Rules tried on random inputs: small sizes of their domain, extreme and boundary numbers among them.

Inputs that the rule's condition excludes are drawn again. Where the rule is known as it was given (functions that run
kernels), these are executed too. Tests prove nothing: they refute, and they say that a condition can be satisfied.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import prod

import numpy as np

from tantamount.effort import Effort
from tantamount.errors import TantamountError, Unsupported
from tantamount.ir.graph import Graph
from tantamount.ir.job import UserRule
from tantamount.ir.types import Kind, TensorType
from tantamount.limits import Limits
from tantamount.ops.calls import operator_of
from tantamount.ops.execute import input_type
from tantamount.semantics.interpret import interpret
from tantamount.semantics.reference import Array
from tantamount.semantics.survey import index_bounds
from tantamount.sizes.domain import shown_sizes
from tantamount.sizes.search import varied_sizes

__all__ = ["Trials", "try_rule", "unknown_operators"]

_SIZES = 4  # assignments of the symbols
_DRAWS = 40  # inputs that are drawn for one that satisfies the condition
_CLOSE = 1e-9  # of the largest number in sight: what float64 may be off
_ROUNDINGS = 64  # of the precision of its element type, what a kernel may be off
_SCALES = (1.0, 3.0, 0.1, 30.0, 1.0, 1e-3)
_EDGES = (0.0, 1.0, -1.0, 0.5, -2.0)


@dataclass(frozen=True)
class Trials:
    """The outcome of executions: how many inputs satisfied the condition, on how many of them both sides were compared,
    at which sizes; ``difference`` says where the sides differ, ``problem`` why nothing could be executed; both may be
    empty. ``native``: the rule was executed as it was given."""

    satisfied: int
    compared: int
    sizes: tuple[str, ...]
    difference: str = ""
    problem: str = ""
    native: bool = False


def try_rule(rule: UserRule, limits: Limits, effort: Effort, wanted: int) -> Trials:
    """The outcome of executing both sides on up to ``wanted`` inputs that satisfy the condition."""
    satisfied = compared = 0
    shown: dict[str, None] = {}
    problem = ""
    points: list[dict[str, int]] = varied_sizes(rule.sides.sizes, _SIZES, effort) if rule.sides.sizes.symbols else [{}]
    each = -(-wanted // max(len(points), 1))
    for values in points:
        left, right, holds = (
            graph if graph is None or not graph.sizes.symbols else graph.at(values)
            for graph in (rule.sides.specification, rule.sides.implementation[0], rule.holds)
        )
        if left is None or right is None:
            continue
        if sum(prod(node.type.shape) for node in left.nodes if node.type) > limits.witness_elements:
            problem = "it is too large to be executed"
            continue
        found = 0
        for inputs in _inputs(left, holds, each * _DRAWS):
            effort.check()
            try:
                if holds is not None and not np.all(_value(holds, inputs)):
                    continue
                satisfied += 1
                pairs = _pairs(rule, left, right, inputs)
            except (TantamountError, ArithmeticError) as trouble:
                problem = str(trouble).splitlines()[0]
                break
            for one, other, close, how in pairs:
                text = _difference(one, other, inputs, close)
                if text:
                    place = f" at {shown_sizes(values)}" if values else ""
                    return Trials(satisfied, compared, tuple(shown), f"{text}{place}{how}")
            compared += 1
            if values:
                shown[shown_sizes(values)] = None
            found += 1
            if found >= each:
                break
    return Trials(satisfied, compared, tuple(shown), problem=problem, native=rule.native is not None)


def _pairs(
    rule: UserRule, left: Graph, right: Graph, inputs: Mapping[str, Array]
) -> list[tuple[Array, Array, float, str]]:
    """Both results by their definitions, and as the rule was given. What has no definition is only compared
    there. Raises :class:`Unsupported` where nothing can be executed."""
    found: list[tuple[Array, Array, float, str]] = []
    unknown = unknown_operators(rule)
    if unknown and rule.native is None:
        raise Unsupported(f"of {unknown[0]} only labels are known")
    if not unknown:
        found.append((_value(left, inputs), _value(right, inputs), _CLOSE, ""))
    if rule.native is not None:
        one, other, precision = rule.native(inputs)
        close = max(_CLOSE, _ROUNDINGS * precision)
        found.append((np.asarray(one), np.asarray(other), close, " (executed as they were given)"))
    return found


def unknown_operators(rule: UserRule) -> tuple[str, ...]:
    """The operators of a rule of which nothing but labels is known, by name: any function, for the calculus."""
    return tuple(
        dict.fromkeys(
            node.target
            for graph in (rule.sides.specification, rule.sides.implementation[0])
            for node in graph.nodes
            if node.op == "call" and node.target != "getitem" and operator_of(graph, node).opaque
        )
    )


def _value(graph: Graph, inputs: Mapping[str, Array]) -> Array:
    given = {node.name: inputs[node.name] for node in graph.inputs}
    return interpret(graph, given).array(graph.outputs[0].node)


def _difference(one: Array, other: Array, inputs: Mapping[str, Array], close: float) -> str:
    """The element that is farthest apart, where the left side is finite; empty, if none is apart."""
    if one.shape != other.shape:
        return f"shapes {list(one.shape)} and {list(other.shape)}"
    a, b = np.asarray(one, dtype=np.float64), np.asarray(other, dtype=np.float64)
    known = np.isfinite(a)
    if not known.any():
        return ""
    largest = max([1.0, float(np.abs(a[known]).max()), *(float(np.abs(x).max()) for x in _floats(inputs))])
    with np.errstate(invalid="ignore"):
        apart = np.where(known, np.abs(a - b), 0.0)
    apart = np.where(np.isnan(apart), np.inf, apart)
    place = np.unravel_index(int(apart.argmax()), apart.shape)
    if not apart[place] > close * largest:
        return ""
    index = ", ".join(str(int(k)) for k in place)
    return f"[{index}] is {float(a[place]):g} on the left and {float(b[place]):g} on the right"


def _floats(inputs: Mapping[str, Array]) -> Iterator[Array]:
    return (x for x in inputs.values() if x.dtype.kind == "f" and x.size)


def _inputs(left: Graph, holds: Graph | None, count: int) -> Iterator[dict[str, Array]]:
    """Inputs of the left side, each drawn in its own way."""
    bounds = {**({} if holds is None else index_bounds(holds)), **index_bounds(left)}
    for seed in range(count):
        generator = np.random.default_rng([17, seed])
        yield {
            node.name: _drawn(input_type(left, node), bounds.get(node.name), generator, seed) for node in left.inputs
        }


def _drawn(type_: TensorType, bound: int | None, generator: np.random.Generator, seed: int) -> Array:
    shape, kind = type_.stored.shape, type_.stored.dtype.kind
    if kind is Kind.BOOL:
        return np.asarray(generator.integers(0, 2, shape), dtype=np.bool_)
    if kind is Kind.INT:
        return _integers(shape, max(bound or max(prod(shape), 4), 1), generator)
    values: Array = np.asarray(generator.standard_normal(shape)) * _SCALES[seed % len(_SCALES)]
    how = int(generator.integers(0, 4))
    if how == 1:
        values = np.abs(values)
    elif how == 2:
        values = np.where(generator.integers(0, 3, shape) == 0, generator.choice(_EDGES, shape), values)
    elif how == 3:
        values = np.sort(values.reshape(-1)).reshape(shape)
    return np.asarray(values)


def _integers(shape: tuple[int, ...], bound: int, generator: np.random.Generator) -> Array:
    """Indices below a bound: any, in order, each once, one alone, the last."""
    count = prod(shape)
    how = int(generator.integers(0, 5))
    values = generator.integers(0, bound, shape)
    if how == 1:
        values = np.sort(values.reshape(-1)).reshape(shape)
    elif how == 2:
        values = (generator.permutation(max(count, bound))[:count] % bound).reshape(shape)
    elif how == 3:
        values = np.full(shape, int(generator.integers(0, bound)))
    elif how == 4:
        values = (np.arange(count) % bound).reshape(shape)
    return np.asarray(values, dtype=np.int64)
