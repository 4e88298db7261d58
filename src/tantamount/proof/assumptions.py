"""The assumptions that a verdict rests on, collected from both runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import cast

from tantamount.calculus.answers import Equal
from tantamount.calculus.atoms import Store
from tantamount.calculus.boxes import Box
from tantamount.calculus.compare import solve
from tantamount.calculus.constants import Reading
from tantamount.calculus.expand import equal_polynomials
from tantamount.calculus.index_ranges import in_range
from tantamount.calculus.printing import show_number
from tantamount.calculus.rebuild import Rebuild, refresh
from tantamount.calculus.symbolic import Obligation
from tantamount.calculus.terms import ONE, ZERO, Polynomial, sole_number
from tantamount.errors import Unsupported
from tantamount.ir.graph import Graph
from tantamount.ir.job import SAME_NAME, Job
from tantamount.ops.calls import COUNTS, asserts, operator_of, requires
from tantamount.ops.given_indices import assumed_from_start
from tantamount.ops.literals import rest_of_one
from tantamount.ops.widths import assumed_sentences
from tantamount.proof.inputs import Inputs
from tantamount.proof.run import RanksRun, SpecificationRun
from tantamount.sizes.symbolic import is_size
from tantamount.verdict import Assumption

__all__ = [
    "REAL_ARITHMETIC",
    "always_stops",
    "unlike_its_capture",
    "arithmetic_assumptions",
    "gather_assumptions",
    "index_assumptions",
    "open_obligations",
    "operator_assumptions",
]

REAL_ARITHMETIC = "numbers are real: rounding and overflow are not modelled, float-to-float casts are the identity"
_REQUIRED = "where the specification is defined: its operator requires that "
_STOPPING = ("index", "divisor")  # kinds of obligations without which a whole program stops


def gather_assumptions(
    store: Store, job: Job, inputs: Inputs, specification: SpecificationRun, implementation: RanksRun
) -> tuple[Assumption, ...]:
    """Every assumption that this proof used, in a fixed order."""
    out = arithmetic_assumptions(job)
    readings = {
        k: v for run in (specification, implementation) for trace in run.traces for k, v in trace.readings.items()
    }
    readings.update(_rests_of_one(job))
    if readings:
        what = ", ".join(f"{show_number(k)} is {_shown(v)}" for k, v in sorted(readings.items()))
        out.append(Assumption("rounded-literals", f"literals of all digits stand for the number they round: {what}"))
    out.extend(inputs.restrictions)
    if specification.dropouts or implementation.fresh_masks:
        paired = len(specification.dropouts)
        if job.assume.dropout and paired:
            out.append(
                Assumption(
                    "dropout",
                    "the k-th dropout of every rank uses its part of the k-th mask of the specification"
                    f" (k = 1..{paired})",
                )
            )
        if implementation.fresh_masks:
            out.append(
                Assumption("dropout-fresh", "dropouts with a mask of their own", tuple(implementation.fresh_masks))
            )
    laws = sorted({law.name for law in specification.draws})
    if job.assume.dropout and laws:
        out.append(
            Assumption(
                "random-draws",
                "the k-th draw of every rank from a distribution is its part of the specification's k-th draw from it: "
                + ", ".join(laws),
            )
        )
    if job.assume.seeds and (laws or specification.dropouts):
        said = ", ".join(f"{what} along {axis}" for axis, what in job.assume.seeds)
        out.append(Assumption("random-seeds", f"random generators of the ranks: {said}"))
    constants = {**specification.constants, **implementation.constants}
    if constants:
        what = (
            "have the same value under the same name"
            if job.assume.constants == SAME_NAME
            else f"are {job.assume.constants}"
        )
        out.append(Assumption("constants", f"constants that the graphs do not record {what}", tuple(sorted(constants))))
    out.extend(operator_assumptions(job))
    assumed = [site for trace in specification.traces for site in trace.assumed_indices]
    if assumed:
        out.append(Assumption("index-range", "indices of the specification are in range (0 <= i < n)", tuple(assumed)))
    out.extend(index_assumptions(job))
    conditions = [(o.kind, o.site) for trace in specification.traces for o in trace.obligations]
    fitting = [site.removeprefix("specification ") for kind, site in conditions if kind == "fits"]
    if fitting:
        text = "numbers that the specification converts to integers of 8 and 16 bits are in their range"
        out.append(Assumption("narrow-conversion", text, tuple(dict.fromkeys(fitting))))
    sites = [site.removeprefix("specification ") for kind, site in conditions if kind != "fits"]
    if sites:
        out.append(
            Assumption(
                "domain",
                "where the specification is defined: divisors are not 0,"
                " arguments of roots and logarithms are not negative",
                tuple(dict.fromkeys(sites)),
            )
        )
    return tuple(out)


def arithmetic_assumptions(job: Job) -> list[Assumption]:
    """That numbers are real, and which integers are taken not to overflow."""
    sentences = (REAL_ARITHMETIC, *assumed_sentences(job))
    return [Assumption("real-arithmetic", text) for text in sentences]


def index_assumptions(job: Job) -> list[Assumption]:
    """The assumption about indices that the specification is given and may count from the end."""
    counted = assumed_from_start(job)
    text = "indices that the specification is given are not negative, though PyTorch counts such from the end"
    return [Assumption("index-range", text, counted)] if counted else []


def _rests_of_one(job: Job) -> dict[Fraction, Reading]:
    """The literals that are taken for what Python computed them from."""
    found: dict[Fraction, Reading] = {}
    pending: list[object] = [
        part
        for graph in (job.specification, *job.programs)
        for node in graph.nodes
        for part in (node.args, node.kwargs)
    ]
    while pending:
        item = pending.pop()
        if isinstance(item, Mapping):
            pending.extend(cast("Mapping[str, object]", item).values())
        elif isinstance(item, (tuple, list)):
            pending.extend(cast("Sequence[object]", item))
        elif isinstance(item, float) and (meant := rest_of_one(item)) is not None:
            found[Fraction(repr(item))] = Reading(meant, 1)
    return found


def _shown(read: Reading) -> str:
    number = f"{read.radicand.numerator}/{read.radicand.denominator}".removesuffix("/1")
    return number if read.root == 1 else f"({number})^(1/{read.root})"


def operator_assumptions(job: Job) -> list[Assumption]:
    """The assumptions of the definitions of the operators that occur, and what the specification's require, with the
    nodes that call them."""
    places: dict[tuple[str, str], dict[str, None]] = {}
    for graph in (job.specification, *job.programs):
        for node in graph.nodes:
            row = operator_of(graph, node) if node.op == "call" and node.target != "getitem" else None
            for text in row.assumes if row is not None else ():
                name = "opaque-operator" if row is not None and row.opaque else "operator"
                places.setdefault((name, text), {}).setdefault(node.name)
    for node in job.specification.nodes:
        if required := requires(job.specification, node.name):
            places.setdefault(("domain", f"{_REQUIRED}{required}"), {}).setdefault(node.name)
    return [Assumption(name, text, tuple(sites)) for (name, text), sites in places.items()]


def open_obligations(store: Store, specification: SpecificationRun, implementation: RanksRun) -> list[Obligation]:
    """Obligations whose failure would stop the implementation, that were not shown to hold and do not stop the
    specification, too: indices are in range, integers are divided by other numbers than 0. The result is kept with the
    implementation for as long as no obligation, fact of an index or join is new."""
    known = [o for trace in specification.traces for o in trace.obligations if o.kind in _STOPPING]
    asked = [o for trace in implementation.traces for o in trace.obligations if o.kind in _STOPPING]
    state = (len(known), len(asked), len(store.redirects), len(store.ranges.assumed))
    if implementation.open_obligations is None or implementation.open_obligations[0] != state:
        implementation.open_obligations = (state, _open(store, known, asked))
    return implementation.open_obligations[1]


def _open(store: Store, known: Sequence[Obligation], asked: Sequence[Obligation]) -> list[Obligation]:
    """The obligations of ``asked`` that neither hold nor follow from those known. Each distinct one is settled once,
    however many nodes have it."""
    settled: dict[tuple[str, Polynomial, int, Box], bool] = {(k.kind, k.value, k.size, k.box): True for k in known}
    found: list[Obligation] = []
    for o in asked:
        key = (o.kind, o.value, o.size, o.box)
        if key not in settled:
            settled[key] = _met(store, o) or _implied(store, known, o) or _never(store, o)
        if not settled[key]:
            found.append(o)
    return found


def always_stops(store: Store, job: Job, specification: SpecificationRun) -> str | None:
    """The clause that says where the specification stops whatever it is given, so that there is nothing to prove of it;
    ``None`` if it is not known to. It is looked at numbers, and at conditions that hold at one of their places."""
    for trace in specification.traces:
        for value, size, _ in trace.indices:
            number = sole_number(value)
            if number is not None and not is_size(size) and not 0 <= number < size:
                return f"an index is {show_number(number)}, not in 0..{size - 1} ({', '.join(trace.assumed_indices)})"
        for o in trace.obligations:
            if o.kind == "divisor" and _breaks_somewhere(store, o):
                return _breach(job.specification, o)
    return None


def unlike_its_capture(store: Store, job: Job, specification: SpecificationRun) -> str | None:
    """The clause that names a node of the specification whose result has the size that it was captured with only where
    a condition holds which was not shown; ``None`` if there is none. Elsewhere the program goes on, with other sizes:
    that is nothing to assume."""
    for trace in specification.traces:
        for o in trace.obligations:
            name = o.site.rpartition(" ")[2]
            node = job.specification.by_name.get(name)
            if node is not None and node.target == COUNTS and not (_met(store, o) or _never(store, o)):
                return f"that {name} counts no number of its length or more was not shown"
    return None


def _breach(graph: Graph, o: Obligation) -> str:
    """The clause that says what breaks where an obligation about a divisor does."""
    name = o.site.rpartition(" ")[2]
    if asserts(graph, name):
        return f"what {name} asserts does not hold"
    required = requires(graph, name)
    return f"{name} requires that {required}, which does not hold" if required else f"the divisor of {name} is 0"


def _breaks_somewhere(store: Store, o: Obligation) -> bool:
    """True if the condition at which an obligation breaks is known to be 1 at one of its places."""
    if any(is_size(low) or is_size(high) or low >= high for low, high in o.box):
        return False  # what holds for some sizes only is not asked: to ask would make it a condition on them
    places = _places(store, o) or [o.box]
    try:
        budget = store.effort.bounds.recomputed_factors
        return any(Rebuild(store, budget=budget, box=p).polynomial(o.value) == ONE for p in places)
    except Unsupported:
        return False


def _met(store: Store, o: Obligation) -> bool:
    """True if an obligation holds by what was assumed of the specification's indices, or joined, since it was met."""
    if o.kind == "index":
        return in_range(store, o.value, o.size, o.box) or _by_coordinate(store, o)
    return not refresh(store, o.value)


def _never(store: Store, o: Obligation) -> bool:
    """True if the condition at which an obligation breaks is 0 on its box, once it is computed anew there."""
    return o.kind == "divisor" and isinstance(equal_polynomials(store, refresh(store, o.value), ZERO, o.box), Equal)


def _by_coordinate(store: Store, o: Obligation) -> bool:
    """True if an index is shown to be in range at every coordinate along the first axis of its places: what several
    tensors of the specification say together (of microbatches) of ranks that are run as one."""
    places = _places(store, o)
    return places is not None and all(in_range(store, o.value, o.size, place) for place in places)


def _places(store: Store, o: Obligation) -> list[Box] | None:
    """The box of an obligation cut at every coordinate along its first axis; ``None`` where that is too long, or not
    longer than 1."""
    axis = next((k for k, (low, high) in enumerate(o.box) if high - low > 1), None)
    if axis is None or store.effort.exceeds("index_places", o.box[axis][1] - o.box[axis][0]):
        return None
    return [(*o.box[:axis], (at, at + 1), *o.box[axis + 1 :]) for at in range(*o.box[axis])]


def _implied(store: Store, known: Sequence[Obligation], o: Obligation) -> bool:
    """True if an obligation is one of some others at (some of) its own places: a shard of what the specification needs;
    or, of divisors, if it is so at every coordinate along the first axis of its places, which may be several tensors of
    the specification."""
    if any(_includes(store, k, o) for k in known):
        return True
    places = _places(store, o) if o.kind == "divisor" else None
    return places is not None and all(any(_includes(store, k, replace(o, box=p)) for k in known) for p in places)


def _includes(store: Store, known: Obligation, other: Obligation) -> bool:
    if (known.kind, known.size) != (other.kind, other.size):
        return False
    value, wanted = refresh(store, known.value), refresh(store, other.value)
    return solve(store, known.box, value, other.box, wanted, anywhere=True) is not None
