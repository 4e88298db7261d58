"""Which assumptions the two programs need, found again, and compared with those that a certificate lists.

What follows from the files is found again exactly: operators, constants that are not recorded, literals that are read,
dropouts. Where an index may leave its range, or a divisor be 0, is bounded from both sides instead. A node that does
nothing of the kind needs no such assumption; one that was seen to fail on some input does.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from tantamount.certificate.execution import Executed, Started
from tantamount.certificate.inputs import Layout
from tantamount.certificate.uses import Uses, uses_of
from tantamount.ir.job import SAME_NAME, Job
from tantamount.ops.calls import operator_of
from tantamount.verdict import Assumption

__all__ = ["Seen", "compare_assumptions", "of_implementation"]

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


@dataclass
class Seen:
    """What executions showed of the specification: nodes where an index left its range though it was in range at all
    places that are ``listed``, and nodes that took a power or logarithm of a number where there is none (or are not
    shown not to)."""

    listed: frozenset[str]
    outside: set[str] = field(default_factory=set[str])
    undefined: set[str] = field(default_factory=set[str])

    def look(self, started: Started) -> None:
        """Add what one execution shows."""
        if not started.outside & self.listed:
            self.outside |= started.outside
        flags = {flag.what for flag in started.ours.flags}
        if flags & {"undefined-integer", "inexact"} or started.outside or "overflow" in started.ours.left_range:
            return
        self.undefined |= started.invalid


# ---------------------------------------------------------------------------------------------- comparing
def of_implementation(listed: Iterable[Assumption]) -> frozenset[str]:
    """Nodes of the implementation that are assumed to be defined where the specification is."""
    own = [a for a in listed if a.name == "domain" and _OF_IMPLEMENTATION.fullmatch(a.text)]
    return frozenset(_node(place) for a in own for place in a.places)


def _node(place: str) -> str:
    """The node of a place, without the ranks that it is on."""
    return re.sub(r"^ranks? [\d, .-]+ ", "", place)


def compare_assumptions(
    listed: Sequence[Assumption], job: Job, layout: Layout, last: Executed, seen: Seen
) -> list[str]:
    """What is wrong with the assumptions of a certificate about a job, one sentence each."""
    groups = {name: job.mesh.group_size(name) for name in job.mesh.groups}
    (ours,) = uses_of([job.specification], None)
    theirs = uses_of([*{id(graph): graph for graph in job.implementation}.values()], groups)
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
        places = {_node(place) for place in a.places}
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
        lacking = sorted({*places} - {_node(place) for place in known})
        if lacking:
            wrong.append(f"the assumption {name} is missing for {', '.join(lacking)}: {text}")

    need("index-range", _INDICES, seen.outside & ours.indexed)
    need("domain", _DEFINED, seen.undefined & ours.powers)
    need("data-dependent-sizes", _SIZES, frozenset[str]().union(*(uses.undecided for uses in theirs)))
    if job.assume.dropout:
        need("dropout-fresh", _FRESH, last.dropouts.fresh)
    restricted = {place for a in listed if a.name == "input-restriction" for place in a.places}
    if layout.restricted - restricted:
        lacking = ", ".join(sorted(layout.restricted - restricted))
        wrong.append(f"the assumption input-restriction is missing for {lacking}")
    return wrong


def _exactly(job: Job, ours: Uses, theirs: Sequence[Uses], last: Executed) -> list[Assumption]:
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
