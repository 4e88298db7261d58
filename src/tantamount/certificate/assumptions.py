"""The assumptions that the two programs need, found again, and compared with those that a certificate lists.

What follows from the files is found again exactly: operators, constants that are not recorded, literals that are read,
dropouts. Where an index may leave its range, or a divisor be 0, is bounded from both sides instead. A node that does
nothing of the kind needs no such assumption; one that was seen to fail on some input does. Of one that was neither
shown to be defined nor seen to fail, just that is said.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np

from tantamount.certificate.execution import Executed, Started
from tantamount.certificate.inputs import Layout
from tantamount.certificate.uses import Uses, uses_of
from tantamount.ir.job import SAME_NAME, Job
from tantamount.ops.algebra import Tensor
from tantamount.ops.calls import operator_of, requires
from tantamount.ops.execute import Result
from tantamount.ops.given_indices import assumed_from_start
from tantamount.ops.widths import assumed_sentences
from tantamount.verdict import Assumption

__all__ = ["Seen", "compare_assumptions", "listed_domain"]

_REAL = "numbers are real: rounding and overflow are not modelled, float-to-float casts are the identity"
_LITERALS = "literals of all digits stand for the number they round: "
_FRESH = "dropouts with a mask of their own"
_DRAWS = "the k-th draw of every rank from a distribution is its part of the specification's k-th draw from it: "
_SEEDS = "random generators of the ranks: "
_INDICES = "indices of the specification are in range (0 <= i < n)"
_FROM_START = "indices that the specification is given are not negative, though PyTorch counts such from the end"
_REQUIRED = "where the specification is defined: its operator requires that "
_DEFINED = "where the specification is defined: divisors are not 0, arguments of roots and logarithms are not negative"
_FITTING = "numbers that the specification converts to integers of 8 and 16 bits are in their range"
_REPEATS = 4  # executions with other rounding errors before a failure is believed
_RESTRICTION = re.compile(
    r"the relation restricts the specification: (\S+)"
    r"( and \S+ are one tensor of the implementation \(.+\)| = .+ uses .+ of rank \d+ more than once)"
)


@dataclass
class Seen:
    """The findings of all executions. ``outside``: nodes of the specification where an index left its range though it
    was in range at all places that are ``listed``; ``undefined``: nodes that took a power or logarithm of a number
    where there is none, and a tensor of which something is claimed (``claimed``) was not finite then; ``unfit``: nodes
    of the specification that converted a number to an integer type that does not hold it; ``failed``: nodes of the
    implementation where an index left its range though those of the specification did not. ``assumed``: nodes that a
    certificate assumes to be defined; ``tries``: executions of the specification that followed the reals."""

    listed: frozenset[str]
    assumed: frozenset[str]
    claimed: frozenset[str]
    outside: set[str] = field(default_factory=set[str])
    undefined: set[str] = field(default_factory=set[str])
    unfit: set[str] = field(default_factory=set[str])
    failed: set[str] = field(default_factory=set[str])
    tries: int = 0

    def look(self, started: Started, again: Callable[[int], Started | None]) -> None:
        """Add what one execution shows. ``again`` executes once more with other rounding errors: what is 0 or negative
        in some of them only may be so by rounding."""
        if not started.outside & self.listed:
            self.outside |= started.outside
        if not _followed(started):
            return
        self.unfit |= started.unfit
        if started.unfit:
            return
        self.tries += 1
        found = self._failing(started)
        for noise in range(1, _REPEATS + 1):
            if found and (other := again(noise)) is not None:
                found &= self._failing(other)
        self.undefined |= found

    def _failing(self, started: Started) -> set[str]:
        """Nodes that failed, at or before a tensor of which something is claimed and that is not finite."""
        new = started.invalid - self.assumed - self.undefined
        found: set[str] = set()
        reached = False
        for node in reversed(started.job.specification.nodes if new else ()):
            reached |= node.name in self.claimed and not _finite(started.specification.get(node.name))
            if reached and node.name in new:
                found.add(node.name)
        return found


def _followed(started: Started) -> bool:
    """True if float64 followed the reals, and indices were in range."""
    flags = {flag.what for flag in started.ours.flags}
    return not (
        flags & {"zero-divisor", "undefined-integer", "inexact"}
        or started.outside
        or "overflow" in started.ours.left_range
    )


def _finite(result: Result) -> bool:
    return not isinstance(result, Tensor) or bool(np.all(np.isfinite(np.asarray(result.value))))


# ---------------------------------------------------------------------------------------------- comparing
def listed_domain(listed: Iterable[Assumption]) -> frozenset[str]:
    """Nodes of the specification that are assumed to be defined."""
    own = [a for a in listed if a.name == "domain" and a.text == _DEFINED]
    return frozenset(_node(place) for a in own for place in a.places)


def _node(place: str) -> str:
    """The node of a place, without the ranks that it is on."""
    return re.sub(r"^ranks? [\d, .-]+ ", "", place)


def compare_assumptions(
    listed: Sequence[Assumption], job: Job, layout: Layout, last: Executed, seen: Seen
) -> list[str]:
    """The faults of the assumptions of a certificate about a job, one sentence each."""
    groups = {name: job.mesh.group_size(name) for name in job.mesh.groups}
    (ours,) = uses_of([job.specification], None)
    theirs = uses_of([*{id(graph): graph for graph in job.implementation}.values()], groups)
    wanted = _exactly(job, ours, theirs, last)
    wrong: list[str] = []
    exact = {
        "real-arithmetic",
        "rounded-literals",
        "dropout",
        "random-draws",
        "random-seeds",
        "constants",
        "operator",
        "opaque-operator",
    }
    found = [a for a in listed if a.name in exact or a.text.startswith(_REQUIRED)]
    wrong += [f"the assumption {a.name} is not one of these programs: {a.text}" for a in found if a not in wanted]
    wrong += [f"the assumption {a.name} is missing: {a.text}" for a in wanted if a not in found]
    if len(set(listed)) < len(listed):
        wrong.append("an assumption twice")
    fresh = {*last.dropouts.fresh, *last.dropouts.unclear}
    for a in listed:
        places = {_node(place) for place in a.places}
        if a in found:
            continue
        if a.name == "index-range" and a.text == _INDICES:
            strange = places - ours.indexed
        elif a.name == "index-range" and a.text == _FROM_START:
            strange = places - {*assumed_from_start(job)}
        elif a.name == "domain" and a.text == _DEFINED:
            strange = places - ours.partial
        elif a.name == "narrow-conversion" and a.text == _FITTING:
            strange = places - ours.fitting
        elif a.name == "input-restriction" and (match := _RESTRICTION.fullmatch(a.text)):
            strange = {*places, match[1]} - layout.shared
        elif a.name == "dropout-fresh" and a.text == _FRESH:
            strange = places - fresh
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
    need("index-range", _FROM_START, assumed_from_start(job))
    need("domain", _DEFINED, seen.undefined & ours.powers)
    need("narrow-conversion", _FITTING, seen.unfit & ours.fitting)
    if job.assume.dropout:
        need("dropout-fresh", _FRESH, last.dropouts.fresh)
    restricted = {place for a in listed if a.name == "input-restriction" for place in a.places}
    if layout.restricted - restricted:
        lacking = ", ".join(sorted(layout.restricted - restricted))
        wrong.append(f"the assumption input-restriction is missing for {lacking}")
    return wrong


def _exactly(job: Job, ours: Uses, theirs: Sequence[Uses], last: Executed) -> list[Assumption]:
    """The assumptions that follow from the files."""
    out = [Assumption("real-arithmetic", text) for text in (_REAL, *assumed_sentences(job))]
    literals = {k: v for uses in (ours, *theirs) for k, v in uses.literals.items()}
    if literals:
        text = ", ".join(f"{_decimal(k)} is {v}" for k, v in sorted(literals.items()))
        out.append(Assumption("rounded-literals", _LITERALS + text))
    count = len(last.dropouts.drawn)
    if job.assume.dropout and count:
        text = f"the k-th dropout of every rank uses its part of the k-th mask of the specification (k = 1..{count})"
        out.append(Assumption("dropout", text))
    laws = sorted({law.name for law in last.dropouts.others})
    if job.assume.dropout and laws:
        out.append(Assumption("random-draws", _DRAWS + ", ".join(laws)))
    if job.assume.seeds and (count or laws):
        said = ", ".join(f"{what} along {axis}" for axis, what in job.assume.seeds)
        out.append(Assumption("random-seeds", f"{_SEEDS}{said}"))
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
    for node in job.specification.nodes:
        if required := requires(job.specification, node.name):
            places.setdefault(("domain", f"{_REQUIRED}{required}"), {}).setdefault(node.name)
    return [*out, *(Assumption(name, text, tuple(sites)) for (name, text), sites in places.items())]


def _decimal(value: Fraction) -> str:
    text = str(value)
    decimal = repr(float(value))
    return text if len(text) <= 9 else decimal if Fraction(decimal) == value else f"{float(value):.10g}…"
