"""Rules tried on random inputs: small sizes of their domain, extreme and boundary numbers among them.

Inputs that the rule's condition excludes are drawn again. Where the rule is known as it was given (functions that run
kernels), these are executed too. Tests prove nothing: they refute, and they say that a condition can be satisfied.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import prod
from typing import cast

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
_BESIDE = (1.0, 1.0, 0.999, 1.001, 1.5)
_SMALLEST, _LARGEST = -5.0, 4.0  # powers of ten: beyond, float64 says little of sums that cancel
_FAR = 1e6  # literals beyond are no places
_WRITTEN = 6  # literals of which products and quotients are taken


@dataclass(frozen=True)
class Trials:
    """The outcome of executions: how many inputs satisfied the condition, on how many of them both sides were compared,
    at which sizes; ``difference`` says where the sides differ, ``problem`` why nothing could be executed; both may be
    empty. ``native``: the rule was executed as it was given. ``undefined``: the left side was not finite somewhere
    where the right side was."""

    satisfied: int
    compared: int
    sizes: tuple[str, ...]
    difference: str = ""
    problem: str = ""
    native: bool = False
    undefined: bool = False


def try_rule(
    rule: UserRule, limits: Limits, effort: Effort, wanted: int, also: Mapping[str, float] | None = None
) -> Trials:
    """The outcome of executing both sides on up to ``wanted`` inputs that satisfy the condition. Every other input is
    the number that ``also`` has for it, in some of its elements, and all of them at first."""
    satisfied = compared = 0
    undefined = False
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
        for inputs in _inputs(rule, left, holds, each * _DRAWS, also or {}):
            effort.check()
            try:
                if holds is not None and not np.all(_value(holds, inputs)):
                    continue
                satisfied += 1
                pairs = _pairs(rule, left, right, inputs)
            except _OutOfRange:
                continue
            except (TantamountError, ArithmeticError) as trouble:
                problem = str(trouble).splitlines()[0]
                break
            for one, other, close, how in pairs:
                text = _difference(one, other, inputs, close)
                undefined = undefined or bool((np.isfinite(other) & ~np.isfinite(one)).any())
                if text:
                    place = f" at {shown_sizes(values)}" if values else ""
                    return Trials(satisfied, compared, tuple(shown), f"{text}{place}{how}")
            compared += 1
            if values:
                shown[shown_sizes(values)] = None
            found += 1
            if found >= each:
                break
    native = rule.native is not None
    return Trials(satisfied, compared, tuple(shown), problem=problem, native=native, undefined=undefined)


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


class _OutOfRange(Exception):
    """Numbers left the range of float64: what comes of them says nothing of real numbers."""


def _value(graph: Graph, inputs: Mapping[str, Array]) -> Array:
    """The result. Raises :class:`_OutOfRange`."""
    given = {node.name: inputs[node.name] for node in graph.inputs}
    found = interpret(graph, given)
    if found.left_range:
        raise _OutOfRange
    return found.array(graph.outputs[0].node)


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


def _inputs(
    rule: UserRule, left: Graph, holds: Graph | None, count: int, also: Mapping[str, float]
) -> Iterator[dict[str, Array]]:
    """Inputs of the left side, each drawn in its own way."""
    bounds = {**({} if holds is None else index_bounds(holds)), **index_bounds(left)}
    numbers = _boundaries(rule)
    for seed in range(count):
        generator = np.random.default_rng([17, seed])
        found = {
            node.name: _drawn(input_type(left, node), bounds.get(node.name), generator, seed, numbers)
            for node in left.inputs
        }
        if also and seed % 2 == 0:
            for name, number in also.items():
                found[name] = np.full(found[name].shape, number).astype(found[name].dtype)
        yield found


def _boundaries(rule: UserRule) -> Array:
    """Numbers at which the sides of a rule may change what they do: those that they are written with, products and
    quotients of two, with both signs."""
    graphs = (rule.sides.specification, rule.sides.implementation[0], *(() if rule.holds is None else (rule.holds,)))
    written = {
        abs(float(x)) for graph in graphs for node in graph.nodes for x in _numbers((node.args, *node.kwargs.values()))
    }
    plain = sorted(x for x in written if 0 < x < _FAR)[:_WRITTEN]
    both = {a * b for a in plain for b in plain} | {a / b for a in plain for b in plain}
    found = sorted({*plain, *(x for x in both if 1 / _FAR < x < _FAR)})
    return np.array([0.0, *found, *(-x for x in found)])


def _numbers(argument: object) -> Iterator[float]:
    if isinstance(argument, tuple):
        for one in cast("tuple[object, ...]", argument):
            yield from _numbers(one)
    elif type(argument) in (int, float):
        yield cast(float, argument)


def _drawn(type_: TensorType, bound: int | None, generator: np.random.Generator, seed: int, boundaries: Array) -> Array:
    shape, kind = type_.stored.shape, type_.stored.dtype.kind
    if kind is Kind.BOOL:
        return np.asarray(generator.integers(0, 2, shape), dtype=np.bool_)
    if kind is Kind.INT:
        return _integers(shape, max(bound or max(prod(shape), 4), 1), generator)
    values: Array = np.asarray(generator.standard_normal(shape)) * _SCALES[seed % len(_SCALES)]
    how = int(generator.integers(0, 6))
    if how == 1:
        values = np.abs(values)
    elif how == 2:
        values = np.where(generator.integers(0, 3, shape) == 0, generator.choice(_EDGES, shape), values)
    elif how == 3:
        values = np.sort(values.reshape(-1)).reshape(shape)
    elif how == 4:  # at, just beside and beyond the numbers that the rule is written with
        near = generator.choice(boundaries, shape)
        values = near * generator.choice(_BESIDE, shape) + np.where(near == 0, values, 0.0)
    elif how == 5:  # of every size
        values = np.sign(values) * 10.0 ** generator.uniform(_SMALLEST, _LARGEST, shape)
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
