"""One case: a random graph and the graphs that it is rewritten into, all with their exact values."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from random import Random
from typing import Any

import numpy as np

from tantamount.errors import InternalError, TantamountError
from tantamount.fuzz.draft import CAST, Policy, usable
from tantamount.fuzz.generate import Sample, generate
from tantamount.fuzz.goals import Goal
from tantamount.fuzz.variants import varied
from tantamount.ir.graph import Argument, Graph, Node, Ref, references
from tantamount.ir.types import Kind, TensorType
from tantamount.ops.algebra import Tensor
from tantamount.rules.rule import Rule
from tantamount.saturate.extract import as_graph, most_complex, random_form, simplest
from tantamount.saturate.rewrite import Limits, saturated
from tantamount.saturate.types import ResultType, Types
from tantamount.semantics.exact import Discontinuous, Exact, held_input
from tantamount.semantics.reference import Array, Flag

__all__ = ["Case", "Form", "Maker", "Values"]


@dataclass(frozen=True)
class Form:
    """One way of computing: ``original``, ``simplest``, ``complex``, ``random-0`` ...; ``expected``: its outputs in
    order with their bounds; ``inputs`` may be fewer or more than the original's (constants made inputs)."""

    name: str
    graph: Graph
    inputs: Mapping[str, Array]
    expected: tuple[Tensor, ...]


@dataclass(frozen=True)
class Case:
    """All forms, the original first. ``dropped``: forms that are not compared and why."""

    seed: int
    index: int
    forms: tuple[Form, ...]
    fired: Mapping[str, int]
    dropped: tuple[str, ...] = ()


@dataclass
class Maker:
    """Makes cases. The same seed, index, policy, rules and source give the same case. ``source``: makes the original of
    a seed and an index (default: :func:`generate`)."""

    policy: Policy
    rules: Mapping[str, Rule]
    randoms: int = 1
    source: Callable[[int, int], Sample] | None = None
    limits: Limits = field(default_factory=Limits)
    types: Types = field(default_factory=Types)

    def __post_init__(self) -> None:
        self.types.accepts = self._accepts

    def _accepts(self, target: str, operands: tuple[ResultType, ...], result: ResultType) -> bool:
        """True if programs may have this call: the policy has its operator, for operands of these types."""
        policy = self.policy
        if policy.targets is not None and target not in policy.targets and target != "getitem":
            return False
        results = result if isinstance(result, tuple) else (result,)
        given = [x.dtype for x in operands if isinstance(x, TensorType)]
        if target == CAST:
            given += [x.dtype for x in results]
        return policy.has(target, given) and all(
            x.dtype in policy.dtypes and prod(x.shape) <= 4 * policy.largest for x in results
        )

    def case(self, seed: int, index: int, goals: Sequence[Goal] = (), taste: Mapping[str, float] | None = None) -> Case:
        """The case number ``index`` of a seed, with ``goals`` and ``taste`` for what is drawn at random."""
        if self.source is None:
            sample = generate(seed, index, self.policy, goals, taste)
        else:
            sample = self.source(seed, index)
        return self.forms(sample, Random(f"{seed}/{index}/forms"))

    def forms(self, sample: Sample, random: Random) -> Case:
        """A sample with the forms that it is rewritten into. Raises :class:`InternalError` where one has other values
        by the exact interpreter: then a rule is wrong, not a compiler."""
        graph = sample.graph
        expected = tuple(sample.values[output.node] for output in graph.outputs)
        forms = [Form("original", graph, sample.inputs, expected)]
        values = Values(sample)
        dropped: list[str] = []
        found = saturated(graph, self.rules, random, self.limits, self.types)
        made = [("simplest", as_graph(found, simplest(found, graph), graph))]
        made.append(("complex", as_graph(found, most_complex(found, graph), graph)))
        made += [
            (f"random-{k}", as_graph(found, random_form(found, graph, random), graph)) for k in range(self.randoms)
        ]
        seen = {_key(graph)}
        for name, other in made:
            inputs = dict(sample.inputs)
            if name.startswith("random"):
                other, inputs = varied(other, inputs, random, self.policy)
            key = _key(other)
            if key in seen:
                continue
            seen.add(key)
            form, why = self._checked(name, other, inputs, forms[0], values)
            if form is None:
                dropped.append(f"{name}: {why}")
            else:
                forms.append(form)
        return Case(sample.seed, sample.index, tuple(forms), found.fired, tuple(dropped))

    def _checked(
        self, name: str, graph: Graph, inputs: Mapping[str, Array], original: Form, known: Values
    ) -> tuple[Form | None, str]:
        exact = Exact()
        try:
            values = known.of(graph, inputs, exact)
        except Discontinuous:
            return None, "it jumps on a value that is not exact"
        except TantamountError as problem:
            raise InternalError(f"{graph.path}: the form {name} does not run: {problem}") from problem
        if not all(usable(x) for x in values.values() if isinstance(x, Tensor)):
            return None, "its values are not bounded well"
        if not self.policy.allows(exact):
            return None, "its integers may wrap around"
        limit = self.policy.integer_limit
        for node in graph.nodes:
            x = values[node.name]
            if not isinstance(x, Tensor):
                continue
            if limit is not None and x.dtype.kind is Kind.INT and x.value.total > limit:
                return None, "its integers are too large"
            if x.dtype not in self.policy.dtypes:
                return None, f"it has elements of type {x.dtype}"
        outputs: list[Tensor] = []
        for output, first in zip(graph.outputs, original.expected, strict=True):
            x = values[output.node]
            if not isinstance(x, Tensor) or x.type != first.type:
                raise InternalError(f"{graph.path}: output {output.name} of the form {name} has another type")
            if first.value.exact and not x.value.exact:
                return None, "it is exact in another order of computing only"
            distance = np.abs(
                np.asarray(x.value.array, dtype=np.float64) - np.asarray(first.value.array, dtype=np.float64)
            )
            if np.any(distance > x.value.error + first.value.error):
                raise InternalError(f"{graph.path}: output {output.name} of the form {name} differs: a rule is wrong")
            outputs.append(x)
        return Form(name, graph, inputs, tuple(outputs)), ""


class Values:
    """The values of the calls of a case, each computed once: forms have many in common. A call is known by its operator
    and arguments and by what its operands are."""

    def __init__(self, sample: Sample) -> None:
        self.kept: list[object] = []  # what is known by its identity
        self.numbers: dict[Any, int] = {}
        self.found: dict[int, _Value] = {}
        numbers: dict[str, int] = {}
        for node in sample.graph.nodes:
            number = numbers[node.name] = self._number(node, sample.graph, sample.inputs, numbers)
            if node.name in sample.values:  # allowed, so that it does not count what wraps around in it
                self.found[number] = _Value(sample.values[node.name])

    def of(self, graph: Graph, inputs: Mapping[str, Array], exact: Exact) -> dict[str, Any]:
        """The value of every node of a graph, as :func:`tantamount.semantics.exact.evaluate` gives them; what wraps
        around in it is counted in ``exact``. Raises what evaluating raises."""
        numbers: dict[str, int] = {}
        values: dict[str, Any] = {}
        for node in graph.nodes:
            number = numbers[node.name] = self._number(node, graph, inputs, numbers)
            found = self.found.get(number)
            if found is None:
                found = self.found[number] = _computed(node, graph, inputs, values)
            exact.wraps += found.wraps
            exact.wrapped_by |= found.wrapped_by
            exact.flags.extend(found.flags)
            values[node.name] = found.value
        return values

    def _number(self, node: Node, graph: Graph, inputs: Mapping[str, Array], numbers: Mapping[str, int]) -> int:
        if node.op == "call":
            kwargs = tuple((key, _numbered(item, numbers)) for key, item in sorted(node.kwargs.items()))
            key: Any = (node.target, tuple(_numbered(item, numbers) for item in node.args), kwargs)
        else:
            source = inputs[node.name] if node.op == "input" else graph.constants[node.target]
            self.kept.append(source)
            key = (node.op, id(source), node.type)
        return self.numbers.setdefault(key, len(self.numbers))


@dataclass(frozen=True, slots=True)
class _Value:
    """A value, and what computing it flagged and wrapped around."""

    value: Any
    wraps: int = 0
    wrapped_by: frozenset[str] = frozenset()
    flags: tuple[Flag, ...] = ()


def _computed(node: Node, graph: Graph, inputs: Mapping[str, Array], values: Mapping[str, Any]) -> _Value:
    if node.op == "input":
        if node.type is None:
            raise TypeError(f"input {node.name} has no type")
        return _Value(_given(inputs[node.name], node.type))
    if node.op == "constant" and node.type is not None:  # whole numbers, as they were drawn: not one by one
        array = np.array(graph.constants[node.target].data).reshape(node.type.shape)
        if array.dtype.kind in "iub" or bool(np.all((np.abs(array) <= 128) & (array % 1 == 0))):
            return _Value(_given(array, node.type))
    exact = Exact()
    return _Value(
        exact.step(graph, node, {name: values[name] for name in references(node)}),
        exact.wraps,
        frozenset(exact.wrapped_by),
        tuple(exact.flags),
    )


def _given(array: Array, type_: TensorType) -> Tensor:
    return Tensor(type_.shape, type_.dtype, held_input(array, type_.dtype))


def _numbered(item: Argument, numbers: Mapping[str, int]) -> Any:
    """An argument with numbers of values for their names; numbers that Python calls equal (1, 1.0, True) apart."""
    if isinstance(item, Ref):
        return Ref, numbers[item.name]
    if isinstance(item, tuple):
        return tuple(_numbered(entry, numbers) for entry in item)
    return type(item), repr(item) if isinstance(item, float) else item


def _key(graph: Graph) -> str:
    """The graph without names."""
    names = {node.name: f"#{k}" for k, node in enumerate(graph.nodes)}
    return repr(
        [
            (n.target if n.op == "call" else n.op, [_shown(a, names) for a in n.args], dict(n.kwargs))
            for n in graph.nodes
        ]
    ) + repr([names[output.node] for output in graph.outputs])


def _shown(item: object, names: Mapping[str, str]) -> str:
    if isinstance(item, Ref):
        return names[item.name]
    if isinstance(item, tuple):
        return f"({', '.join(_shown(entry, names) for entry in item)})"  # type: ignore[reportUnknownVariableType]
    return repr(item)
