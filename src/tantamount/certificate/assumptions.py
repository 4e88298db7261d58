"""Which assumptions the two programs need, found again, and compared with those that a certificate lists.

What follows from the files is found again exactly: operators, constants that are not recorded, literals that are read,
dropouts. Where an index may leave its range, or a divisor be 0, is bounded from both sides instead. A node that does
nothing of the kind needs no such assumption; one that was seen to fail on some input does.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np

from tantamount.certificate.execution import Executed
from tantamount.certificate.inputs import Layout
from tantamount.certificate.literals import Reading, stands_for
from tantamount.ir.graph import Graph, Node, references
from tantamount.ir.job import SAME_NAME, Job
from tantamount.ir.types import Kind, Shape
from tantamount.ops.algebra import Number, PerRank, Scalar, Tensor, TypesOnly
from tantamount.ops.builder import Builder
from tantamount.ops.calls import operator_of
from tantamount.ops.execute import Result, constant_type, run
from tantamount.verdict import Assumption

__all__ = ["Seen", "compare_assumptions", "look", "of_implementation"]

_REAL = (
    "numbers are real, integers unbounded: rounding and overflow are not modelled, "
    "float-to-float casts are the identity"
)
_LITERALS = "literals of all digits stand for the number they round: "
_FRESH = "dropouts with a mask of their own"
_SIZES = "operators of the implementation whose sizes data decide do not fail"
_INDICES = "indices of the specification are in range (0 <= i < n)"
_DEFINED = "where the specification is defined: divisors are not 0, arguments of roots and logarithms are not negative"
_OF_IMPLEMENTATION = re.compile(
    r"where a value of the implementation is (not 0|positive|not negative)"
    r"|where an index of the implementation is in 0\.\.\d+"
)
_RESTRICTION = re.compile(
    r"the relation restricts the specification: (\S+)"
    r"( and \S+ are one tensor of the implementation \(.+\)| = .+ uses .+ of rank \d+ more than once)"
)
_PARTIAL = frozenset({"log", "pow", "atan2", "erfinv", "floor_divide"})


@dataclass
class Seen:
    """What executions showed of the specification: nodes where an index left its range, or a value was not defined
    though the operands were."""

    outside: set[str] = field(default_factory=set[str])
    undefined: set[str] = field(default_factory=set[str])


def look(seen: Seen, graph: Graph, done: Executed) -> None:
    """What one execution shows of the specification."""
    values = done.specification
    flags = [flag.what for flag in done.reference.flags]
    seen.outside |= done.outside
    if any(what in ("undefined-integer", "inexact") for what in flags) or done.reference.left_range & {"overflow"}:
        return
    for node in graph.nodes:
        if node.op != "call" or node.name in seen.outside:
            continue
        operands = [x for name in references(node) for x in _floats(values[name])]
        defined = all(np.isfinite(x).all() for x in operands)
        if defined and any(not np.isfinite(x).all() for x in _floats(values[node.name])):
            seen.undefined.add(node.name)


def _floats(result: Result) -> list[Any]:
    found = result if isinstance(result, tuple) else (result,)
    return [x.value for x in found if isinstance(x, Tensor) and not x.dtype.is_integral]


# ---------------------------------------------------------------------------------------------- what programs do
class _Survey(TypesOnly):
    """Types only, noting what the primitives were asked for."""

    def __init__(self, groups: Mapping[str, int] | None) -> None:
        super().__init__(groups)
        self.partial = self.gathered = self.scattered = False
        self.literals: dict[Fraction, Reading] = {}

    def power(self, x: None, exponent: Fraction) -> None:
        self.partial |= exponent < 0 or exponent.denominator > 1

    def log(self, x: None) -> None:
        self.partial = True

    def function(self, name: str, xs: Sequence[None]) -> None:
        self.partial |= name in _PARTIAL

    def gather(self, x: None, indices: Sequence[None]) -> None:
        self.gathered = True

    def scatter(self, x: None, indices: Sequence[None], source: None, accumulate: bool) -> None:
        self.scattered = True

    def rows(self, name: str, xs: Any, attributes: tuple[Number | str, ...], results: Sequence[int]) -> tuple[Any, ...]:
        self.partial = True
        return (None,) * len(results)

    def constant(self, value: Scalar, kind: Kind) -> None:
        if kind is Kind.FLOAT:
            self._note(value.values if isinstance(value, PerRank) else [value])

    def table(self, data: tuple[Number, ...], shape: Shape, kind: Kind) -> None:
        if kind is Kind.FLOAT and len(data) == 1:
            self._note(data)

    def _note(self, values: Iterable[Number]) -> None:
        for value in values:
            if isinstance(value, float) and not np.isfinite(value):
                continue
            literal = Fraction(repr(value)) if isinstance(value, float) else Fraction(value)
            if read := stands_for(literal):
                self.literals[literal] = read


@dataclass(frozen=True)
class _Uses:
    """Nodes that divide or take roots, that read by an index, and that read or write by one; literals that are read."""

    partial: frozenset[str]
    gathered: frozenset[str]
    indexed: frozenset[str]
    literals: Mapping[Fraction, Reading]


def _uses(graph: Graph, groups: Mapping[str, int] | None) -> _Uses:
    survey = _Survey(groups)
    partial: set[str] = set()
    gathered: set[str] = set()
    indexed: set[str] = set()

    def each(node: Node, result: Result) -> Result:
        if survey.partial:
            partial.add(node.name)
        if survey.gathered:
            gathered.add(node.name)
        if survey.gathered or survey.scattered:
            indexed.add(node.name)
        survey.partial = survey.gathered = survey.scattered = False
        return result

    inputs = {n.name: Tensor(n.type.shape, n.type.dtype, None) for n in graph.inputs if n.type is not None}
    run(graph, survey, inputs, constant=_constant, groups=groups, each=each)
    return _Uses(frozenset(partial), frozenset(gathered), frozenset(indexed), survey.literals)


def _constant(graph: Graph, node: Node, builder: Builder) -> Tensor:
    if node.target in graph.constants:
        recorded = graph.constants[node.target]
        return builder.table(recorded.data, recorded.type.shape, recorded.type.dtype)
    found = constant_type(graph, node)
    return Tensor(found.shape, found.dtype, None)


# ---------------------------------------------------------------------------------------------- comparing
def of_implementation(listed: Iterable[Assumption]) -> bool:
    """Whether it is assumed that the implementation is defined where the specification is."""
    return any(a.name == "domain" and _OF_IMPLEMENTATION.fullmatch(a.text) for a in listed)


def compare_assumptions(
    listed: Sequence[Assumption], job: Job, layout: Layout, last: Executed, seen: Seen
) -> list[str]:
    """What is wrong with the assumptions of a certificate about a job, one sentence each."""
    groups = {name: job.mesh.group_size(name) for name in job.mesh.groups}
    ours = _uses(job.specification, None)
    theirs = [_uses(graph, groups) for graph in {id(graph): graph for graph in job.implementation}.values()]
    wanted = _exactly(job, ours, theirs, last)
    wrong: list[str] = []
    exact = {"real-arithmetic", "rounded-literals", "dropout", "constants", "operator", "opaque-operator"}
    found = [a for a in listed if a.name in exact]
    wrong += [f"the assumption {a.name} is not one of these programs: {a.text}" for a in found if a not in wanted]
    wrong += [f"the assumption {a.name} is missing: {a.text}" for a in wanted if a not in found]
    if len(set(listed)) < len(listed):
        wrong.append("an assumption twice")
    partial = frozenset[str]().union(*(uses.partial for uses in theirs))
    indexed = frozenset[str]().union(*(uses.indexed for uses in theirs))
    fresh = {*last.dropouts.fresh, *last.dropouts.unclear}
    names = {node.name for graph in job.implementation for node in graph.nodes}
    for a in listed:
        places = {re.sub(r"^ranks? [\d, .-]+ ", "", place) for place in a.places}
        if a.name in exact:
            continue
        if a.name == "index-range" and a.text == _INDICES:
            strange = places - ours.indexed
        elif a.name == "domain" and a.text == _DEFINED:
            strange = places - ours.partial
        elif a.name == "domain" and _OF_IMPLEMENTATION.fullmatch(a.text):
            strange = places - (indexed if "index" in a.text else partial)
        elif a.name == "input-restriction" and (match := _RESTRICTION.fullmatch(a.text)):
            strange = {*places, match[1]} - layout.shared
        elif a.name == "dropout-fresh" and a.text == _FRESH:
            strange = places - fresh
        elif a.name == "data-dependent-sizes" and a.text == _SIZES:
            strange = places - names
        else:
            wrong.append(f"an assumption that no proof makes: {a.name}: {a.text}")
            continue
        if strange or not places:
            wrong.append(f"the assumption {a.name} is not one of {', '.join(sorted(strange)) or 'any place'}: {a.text}")

    def need(name: str, text: str, places: Iterable[str]) -> None:
        known = {place for a in listed if a.name == name and a.text == text for place in a.places}
        lacking = sorted({*places} - {re.sub(r"^ranks? [\d, .-]+ ", "", place) for place in known})
        if lacking:
            wrong.append(f"the assumption {name} is missing for {', '.join(lacking)}: {text}")

    need("index-range", _INDICES, seen.outside & ours.gathered)  # what is written outside changes nothing
    need("domain", _DEFINED, seen.undefined & ours.partial)
    if job.assume.dropout:
        need("dropout-fresh", _FRESH, last.dropouts.fresh)
    restricted = {place for a in listed if a.name == "input-restriction" for place in a.places}
    if layout.restricted - restricted:
        lacking = ", ".join(sorted(layout.restricted - restricted))
        wrong.append(f"the assumption input-restriction is missing for {lacking}")
    return wrong


def _exactly(job: Job, ours: _Uses, theirs: Sequence[_Uses], last: Executed) -> list[Assumption]:
    """The assumptions that follow from the files."""
    out = [Assumption("real-arithmetic", _REAL)]
    literals = {k: v for uses in (ours, *theirs) for k, v in uses.literals.items()}
    if literals:
        text = ", ".join(f"{_decimal(k)} is {v}" for k, v in sorted(literals.items()))
        out.append(Assumption("rounded-literals", _LITERALS + text))
    count = len(last.dropouts.drawn)
    if job.assume.dropout and count:
        text = f"the k-th dropout of every rank uses its part of the k-th mask of the specification (k = 1..{count})"
        out.append(Assumption("dropout", text))
    graphs = list({id(graph): graph for graph in (job.specification, *job.implementation)}.values())
    names = {
        n.target for graph in graphs for n in graph.nodes if n.op == "constant" and n.target not in graph.constants
    }
    if names:
        same = job.assume.constants == SAME_NAME
        what = "have the same value under the same name" if same else f"are {job.assume.constants}"
        text = f"constants that the graphs do not record {what}"
        out.append(Assumption("constants", text, tuple(sorted(names))))
    places: dict[tuple[str, str], dict[str, None]] = {}
    for graph in graphs:
        for node in graph.nodes:
            if node.op == "call" and node.target != "getitem":
                row = operator_of(graph, node)
                for text in row.assumes:
                    places.setdefault(("opaque-operator" if row.opaque else "operator", text), {}).setdefault(node.name)
    return [*out, *(Assumption(name, text, tuple(sites)) for (name, text), sites in places.items())]


def _decimal(value: Fraction) -> str:
    text = str(value)
    decimal = repr(float(value))
    return text if len(text) <= 9 else decimal if Fraction(decimal) == value else f"{float(value):.10g}…"
