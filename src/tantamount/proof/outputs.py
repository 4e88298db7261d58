"""Outputs: expectations checked on every rank, and clean relations found where the job leaves them open."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import cache
from math import prod

from tantamount.calculus import forms
from tantamount.calculus.answers import Different
from tantamount.calculus.atoms import Store
from tantamount.calculus.compare import Difference, equal
from tantamount.calculus.forms import Form
from tantamount.calculus.printing import axis_names, show_polynomial
from tantamount.calculus.symbolic import Obligation
from tantamount.calculus.terms import factors_of
from tantamount.effort import further
from tantamount.errors import Unsupported
from tantamount.ir.graph import Graph
from tantamount.ir.job import Job
from tantamount.ir.layouts import layouts
from tantamount.ir.relation import Expectation, Expression, Partial, Placement, RankTensor, rank_tensors
from tantamount.ir.relation_types import local_box
from tantamount.ops.algebra import Tensor
from tantamount.ops.calls import asserts, requires
from tantamount.ops.relations import even
from tantamount.proof.asserted import unshown
from tantamount.proof.assumptions import always_stops, open_obligations, unlike_its_capture
from tantamount.proof.defined import undefined_clause
from tantamount.proof.identical import same_program
from tantamount.proof.placements import distribute, evaluate, part
from tantamount.proof.run import RanksRun, Run, SpecificationRun
from tantamount.sizes.symbolic import is_size, same
from tantamount.verdict import OutputReport, Relation, Verdict

__all__ = [
    "PARTLY",
    "ancestors",
    "assembled",
    "check_outputs",
    "holds",
    "independent",
    "matches",
    "output_node",
    "show",
]

_DIFFERENT = "different normal forms"
_SHOWN = 3  # terms of a difference
_LONG = 80  # characters of one

PARTLY = "equal where both are defined, but "  # why a value is not proved whose normal forms are equal


def show(placements: Sequence[Placement]) -> str:
    """``Shard(0)``, or ``[Replicate(), Shard(0)]`` for several mesh axes."""
    if not placements:
        return "Replicate()"
    if len(placements) == 1:
        return str(placements[0])
    return f"[{', '.join(map(str, placements))}]"


def holds(
    store: Store, whole: Form, placements: Sequence[Placement], run: RanksRun, name: str, expand: bool = True
) -> Difference | str | None:
    """``None`` if the implementation's tensor ``name`` has these placements of ``whole`` on every rank, else the
    difference, or one clause if shapes alone say no."""
    sizes = run.mesh.sizes
    partial = any(isinstance(p, Partial) for p in placements)
    if even(whole.shape, placements, sizes):
        try:
            found = run.collapsed(store, name, placements)
        except Unsupported as problem:  # a sum over ranks that hold infinities
            return str(problem)
        if found is None:
            return "ranks hold tensors of different shapes"
        kept = [(p, size) for p, size in zip(placements, sizes, strict=True) if not isinstance(p, Partial)]
        wanted = distribute(store, whole, [p for p, _ in kept], [size for _, size in kept])
        if wanted.shape != found.shape:
            return f"ranks hold shape {list(found.shape[len(kept) :])}, {list(wanted.shape[len(kept) :])} is needed"
        return _differing(store, wanted, found, expand)
    if partial:
        return "unequal parts of a partial tensor"
    for rank in range(run.mesh.world_size):
        here = run.local(store, rank, name)
        wanted = part(store, whole, local_box(whole.shape, tuple(placements), run.mesh, rank))
        if here is None or here.shape != wanted.shape:
            return (
                f"rank {rank} holds shape {None if here is None else list(here.shape)}, {list(wanted.shape)} is needed"
            )
        difference = _differing(store, wanted, here, expand)
        if difference is not None:
            return difference
    return None


def _differing(store: Store, wanted: Form, found: Form, expand: bool) -> Difference | str | None:
    """``None`` if a tensor of the implementation is defined and equal wherever the specification's is finite."""
    difference = equal(store, wanted, found, expand=expand)
    if difference is not None:
        return difference
    clause = undefined_clause(store, wanted, found)
    return None if clause is None else f"{PARTLY}{clause}"


def output_node(job: Job, rank: int, name: str) -> str:
    """The node behind an implementation output's name on a rank (a node's own name will do)."""
    return _node(job.implementation[rank], name)


def _node(graph: Graph, name: str) -> str:
    return graph.output_nodes.get(name, name)


def _held(store: Store, job: Job, run: RanksRun) -> Callable[[int, str], Form]:
    """The form of an implementation's output on a rank, by its name."""

    def tensor(rank: int, name: str) -> Form:
        found = run.local(store, rank, output_node(job, rank, name))
        if found is None:
            raise Unsupported(f"{name} on rank {rank} is not one tensor")
        return found

    return tensor


def _expression_holds(
    store: Store, job: Job, whole: Form, expectation: Expectation, run: RanksRun, expand: bool
) -> Difference | str | None:
    if expectation.expression is None:
        return "no relation"
    value = evaluate(store, expectation.expression, _held(store, job, run), expectation.name)
    if value.shape != whole.shape:
        return f"the expression has shape {list(value.shape)}, {list(whole.shape)} is needed"
    return _differing(store, whole, value, expand)


def matches(
    store: Store, job: Job, whole: Form, expectation: Expectation, run: RanksRun, expand: bool = True
) -> Difference | str | None:
    """``None`` if an expectation holds, else the difference or a clause. ``expand``: products are multiplied out where
    forms differ."""
    if expectation.problem:
        return expectation.problem
    if expectation.placements is not None:
        nodes = {_node(graph, expectation.name) for graph in job.programs}
        if len(nodes) > 1:  # ranks that run different programs have their outputs under the outputs' names
            if any(expectation.name in graph.by_name for graph in job.programs):
                return f"ranks name different nodes {expectation.name}"
            nodes = {expectation.name}
        found = holds(store, whole, expectation.placements, run, nodes.pop(), expand)
    else:
        found = _expression_holds(store, job, whole, expectation, run, expand)
    if found is not None:
        return found
    for a, b in expectation.equal:
        left, right = (evaluate(store, term, _held(store, job, run), expectation.name) for term in (a, b))
        if left.shape != right.shape:
            return f"{a} == {b} does not hold: shapes differ"
        difference = equal(store, left, right, expand=expand)
        if difference is not None:
            return difference
    return None


def check_outputs(
    store: Store,
    job: Job,
    specification: SpecificationRun,
    implementation: RanksRun,
    *,
    expand: bool = True,
    only: Collection[str] | None = None,
    infer: bool = True,
) -> tuple[OutputReport, ...]:
    """A report for every output that the job asks about (of ``only`` those, if given). ``expand``: products are
    multiplied out where forms differ, which can take long if they differ for a reason. ``infer``: where an expectation
    does not hold, it is looked for what does."""
    out: list[OutputReport] = []
    used: dict[str, frozenset[str]] = {}
    whole = _held_whole(store, job, specification, implementation)
    stopped = cache(lambda: always_stops(store, job, specification))
    sized = cache(lambda: unlike_its_capture(store, job, specification))
    unshown_size = cache(lambda: next(unshown(job, implementation.undecided, whole), None))
    open_ = 0  # outputs that nothing else holds for, either
    for output in job.specification.outputs:
        expectation = job.outputs.get(output.name)
        if expectation is None or (only is not None and output.name not in only):
            continue
        value = specification.values.get(output.node)
        if isinstance(value, Tensor):
            looked = infer and not (open_ and store.effort.exceeds("inferred_outputs", open_ + 1))
            report = _check(store, job, output.name, value.value, expectation, implementation, expand, looked)
            open_ += report.verdict is Verdict.UNKNOWN
            report = _if_it_goes_on(report, stopped, sized)
            report = _if_nothing_stops(store, job, report, specification, implementation, used, unshown_size)
        else:
            reason = "the specification's value is not known"
            report = OutputReport(output.name, Verdict.UNKNOWN, None, expectation.text, reason)
        if report.verdict is Verdict.UNKNOWN:
            behind = output_node(job, 0, expectation.name or output.name)
            notes = (
                *_not_expressed(job.specification, output.node, specification, "the specification's"),
                *_not_expressed(job.implementation[0], behind, implementation, "the implementation's"),
            )
            before, different, _ = report.reason.partition(_DIFFERENT)
            if notes and different:  # for that reason
                report, notes = replace(report, reason=before + notes[0]), notes[1:]
            report = replace(report, notes=(*report.notes, *notes))
        out.append(report)
    return tuple(out)


def _not_expressed(graph: Graph, node: str, run: Run, whose: str) -> tuple[str, ...]:
    """The reasons, at most one, why the first tensor, among those that ``node`` depends on, has no normal form, if that
    is so."""
    above = graph.ancestors(node)
    first = next((n.name for n in graph.nodes if n.name in above and n.name in run.failures), None)
    return () if first is None else (f"{whose} {first} has no normal form: {run.failures[first]}",)


def _if_it_goes_on(
    report: OutputReport, stopped: Callable[[], str | None], sized: Callable[[], str | None]
) -> OutputReport:
    """A proved output stays proved only if the specification has one on some input, as far as is known, and sizes as
    they were captured on all of them."""
    if report.verdict is not Verdict.PROVED:
        return report
    clause = stopped()
    if clause is not None:
        reason = f"the specification stops on every input, so that nothing is shown: {clause}"
    else:
        clause = sized()
        reason = f"{PARTLY}{clause}"
    if clause is None:
        return report
    return replace(report, verdict=Verdict.UNKNOWN, relation=None, reason=reason)


def _if_nothing_stops(
    store: Store,
    job: Job,
    report: OutputReport,
    specification: SpecificationRun,
    implementation: RanksRun,
    used: dict[str, frozenset[str]],
    unshown_size: Callable[[], str | None],
) -> OutputReport:
    """A proved output stays proved only if nothing stops the implementation before it has it: every index was shown to
    be in range, and every divisor of integers not to be 0. ``used`` remembers the nodes that a node needs;
    ``unshown_size`` gives the clause about the first operator whose size data decide that was not shown to go on."""
    if report.verdict is not Verdict.PROVED:
        return report
    stops = unshown_size()
    if stops is not None:
        return replace(report, verdict=Verdict.UNKNOWN, relation=None, reason=f"{PARTLY}{stops}")
    sites = open_obligations(store, specification, implementation)
    if not sites:
        return report
    graph = job.implementation[0]
    wanted = None if len(implementation.classes) > 1 else _wanted(job, report)
    for o in sites:
        name = o.site.rpartition(" ")[2]
        if wanted is not None and name in graph.by_name:
            for node in {output.node for output in graph.outputs} | wanted:
                used.setdefault(node, frozenset(graph.ancestors(node)))
            if not any(name in used[node] for node in wanted) and any(name in nodes for nodes in used.values()):
                continue  # another output needs it; what none needs would stop the program all the same
        unproved = f"{_unproved(graph, o, name)} on every rank"
        return replace(report, verdict=Verdict.UNKNOWN, relation=None, reason=f"{PARTLY}{unproved}")
    return report


def _held_whole(
    store: Store, job: Job, specification: SpecificationRun, run: RanksRun
) -> Callable[[Graph, str, str], bool]:
    """The test whether every rank of a graph holds a tensor of the specification as a whole in one of its nodes, one
    that is finite whatever the inputs are: where it is not, equal forms say nothing."""

    @cache
    def whole(path: int, ours: str, theirs: str) -> bool:
        value = specification.values.get(ours)
        ranks = [rank for rank, graph in enumerate(job.implementation) if id(graph) == path]
        if not isinstance(value, Tensor) or value.value.undefined is not None:
            return False
        held = [run.local(store, rank, theirs) for rank in ranks]
        return all(
            x is not None and x.shape == value.shape and _differing(store, value.value, x, True) is None for x in held
        )

    return lambda graph, ours, theirs: whole(id(graph), ours, theirs)


def _unproved(graph: Graph, o: Obligation, name: str) -> str:
    """The clause that says which obligation of a node was not shown."""
    if o.kind == "index":
        return f"the index of {name} was not shown to lie in 0..{o.size}"
    if asserts(graph, name):
        return f"what {name} asserts was not shown to hold"
    if required := requires(graph, name):
        return f"{name} requires that {required}, which was not shown"
    return f"the divisor of {name} was not shown to be other than 0"


def _wanted(job: Job, report: OutputReport) -> set[str]:
    """The nodes that an output's relation is about, where all ranks run one program. (Where they do not, a collective
    needs what one rank's graph does not show.)"""
    expectation = job.outputs.get(report.name)
    if expectation is not None and expectation.expression is not None:
        named = {t.name or expectation.name for t in rank_tensors(expectation.expression)}
        return {output_node(job, 0, name) for name in named}
    if report.relation is not None and report.relation.implementation:
        return {output_node(job, 0, report.relation.implementation)}
    return {output.node for output in job.implementation[0].outputs}


def ancestors(graph: Graph, name: str) -> dict[str, None]:
    """A node and everything that it depends on, in the order of the program."""
    return graph.ancestors(name)


def _check(
    store: Store, job: Job, name: str, whole: Form, expectation: Expectation, run: RanksRun, expand: bool, infer: bool
) -> OutputReport:
    if expectation.infer:
        found = _infer(store, job, name, whole, run, expand=expand)
        if found is None:
            return OutputReport(
                name, Verdict.UNKNOWN, None, "infer", "no clean relation over implementation outputs was found"
            )
        return OutputReport(name, Verdict.PROVED, found[0], "infer", notes=found[1])
    relation = Relation(name, expectation.text, expectation.name)
    try:
        problem = matches(store, job, whole, expectation, run, expand)
    except Unsupported as unsupported:
        problem = unsupported.reason
    if isinstance(problem, str) and problem.startswith(PARTLY):
        nodes = job.on_ranks([_node(graph, expectation.name) for graph in job.programs])
        if same_program(job, next(o.node for o in job.specification.outputs if o.name == name), nodes, expectation):
            problem = None
    if problem is None:
        notes: tuple[str, ...] = ()
        if expectation.placements is not None and any(isinstance(p, Partial) for p in expectation.placements):
            notes = (f"{_sums(job, expectation.placements)}, which nothing has reduced yet",)
        elif "sum(" in expectation.text:
            notes = ("this relation sums over ranks",)
        return OutputReport(name, Verdict.PROVED, relation, expectation.text, notes=notes)
    holds_in_value = isinstance(problem, str) and problem.startswith(PARTLY)
    other = (
        None if holds_in_value or not infer else _infer(store, job, name, whole, run, expectation.name, expand=expand)
    )
    if other is not None:
        reason = f"the expectation {expectation.text} does not hold: {_clause(store, problem)}"
        return OutputReport(name, Verdict.REFUTED, other[0], expectation.text, reason, notes=other[1])
    if expectation.problem:
        return OutputReport(
            name, Verdict.REFUTED, None, expectation.text, f"the expectation cannot hold: {expectation.problem}"
        )
    return OutputReport(
        name,
        Verdict.UNKNOWN,
        None,
        expectation.text,
        f"{name} = {expectation.text} was not proved: {_clause(store, problem)}",
    )


def _sums(job: Job, placements: Sequence[Placement]) -> str:
    axes = [axis for axis, p in zip(job.mesh.names, placements, strict=True) if isinstance(p, Partial)]
    return f"this relation sums over ranks of {' and '.join(axes)}: each holds one summand"


def _clause(store: Store, problem: Difference | str) -> str:
    """The clause that says why two forms were not shown to be equal, or that they differ only where that was found."""
    if isinstance(problem, str):
        return problem
    answer = problem.answer
    if isinstance(answer, Different):
        names = axis_names(len(problem.sizes))
        terms = [show_polynomial(store, (term,), names) for term in answer.residual[:_SHOWN]]
        more = f" and {len(answer.residual) - _SHOWN} more" if len(answer.residual) > _SHOWN else ""
        shown = ", ".join(term if len(term) <= _LONG else f"{term[:_LONG]}…" for term in terms)
        return f"{_DIFFERENT} (terms {shown}{more})"
    if not answer.hits:
        return f"undecided: {answer.reason}"
    hit = " and ".join(f"{one.topic} ({one.bound})" for one in answer.hits)
    was = "was" if len(answer.hits) == 1 else "were"
    return f"undecided: {hit} {was} hit; {further(store.effort.factor)} would go on"


def _infer(
    store: Store, job: Job, name: str, whole: Form, run: RanksRun, prefer: str | None = None, *, expand: bool
) -> tuple[Relation, tuple[str, ...]] | None:
    """A clean relation over implementation outputs: a placement of one of them, else parts of them put together."""
    outputs = list(dict.fromkeys(output.node for graph in job.programs for output in graph.outputs))
    names = {output.node: output.name for graph in job.programs for output in graph.outputs}
    world = run.mesh.world_size
    outputs.sort(key=lambda node: (names[node] != (prefer or name), node != (prefer or name)))
    for partial in (False, True):
        for node in outputs:
            stacked = run.stacked(store, node)
            if stacked is None or any(output_node(job, rank, names[node]) != node for rank in range(world)):
                continue  # a name of the report must mean this node on every rank
            local_shape = stacked.shape[len(run.mesh.sizes) :]
            for placements in layouts(whole.shape, run.mesh.sizes, local=local_shape, partial=partial):
                if any(isinstance(p, Partial) for p in placements) != partial:
                    continue
                if holds(store, whole, placements, run, node, expand and node == outputs[0]) is not None:
                    continue
                if not partial or independent(store, stacked, placements):
                    relation = Relation(name, show(placements), names[node])
                    note = f"{_sums(job, placements)}: a missing reduction looks exactly like that"
                    return relation, (note,) if partial else ()
    text = assembled(store, whole, run, outputs, names, job)
    return None if text is None else (Relation(name, text, ""), ())


def independent(store: Store, stacked: Form, placements: Sequence[Placement]) -> bool:
    """True if the ranks' summands really differ: replicas must never be summed to make a fit. Every pair of the first
    coordinates along a summed axis is compared, and neighbours wherever a piece of the form begins or ends: inside of
    one, a long one, neighbours are as those that were compared."""
    for axis, p in enumerate(placements):
        if not isinstance(p, Partial):
            continue
        size = stacked.shape[axis]
        paired = size if not store.effort.exceeds("paired_ranks", size) else store.effort.bounds.paired_ranks
        digits = [(stacked.start(axis) + d, prod(of[d + 1 :])) for of in (stacked.dims[axis],) for d in range(len(of))]
        ends = {box[d][j] * n + k for box, _ in stacked.pieces for d, n in digits for j in (0, 1) for k in (-1, 0, 1)}
        pairs = {(j, k) for k in range(paired) for j in range(k)} | {(k - 1, k) for k in ends if 0 < k < size}
        parts = {k: forms.slice_form(store, stacked, axis, k, k + 1, 1) for pair in pairs for k in pair}
        if any(equal(store, parts[j], parts[k], expand=False) is None for j, k in sorted(pairs)):
            return False
    return True


def assembled(
    store: Store, whole: Form, run: RanksRun, nodes: Sequence[str], names: Mapping[str, str], job: Job | None = None
) -> str | None:
    """A concatenation along one dimension of tensors of single ranks, each found to be a slice of the whole. With
    ``job``, the names are those of outputs, which must mean these nodes on the rank."""
    outputs = nodes
    atoms = _atoms(whole)
    for dim in range(len(whole.shape)):
        parts: list[tuple[int, int, Expression]] = []
        for node in outputs:
            for rank in range(run.mesh.world_size):
                if job is not None and output_node(job, rank, names[node]) != node:
                    continue
                here = run.local(store, rank, node)
                if here is None or len(here.shape) != len(whole.shape) or not here.pieces:
                    continue
                if any(a != b for d, (a, b) in enumerate(zip(here.shape, whole.shape, strict=True)) if d != dim):
                    continue
                if not _atoms(here) <= atoms:  # no slice of the whole
                    continue
                start = _offset(store, whole, here, dim)
                if start is not None:
                    parts.append((start, start + here.shape[dim], RankTensor(rank, names[node])))
        chosen = _tile(parts, whole.shape[dim])
        if chosen:
            return str(chosen[0]) if len(chosen) == 1 else f"concat({', '.join(map(str, chosen))}, dim={dim})"
    return None


def _atoms(form: Form) -> set[int]:
    """The atoms of a form's terms."""
    return {factor.atom for _, x in form.pieces for factor in factors_of(x)}


def _offset(store: Store, whole: Form, here: Form, dim: int) -> int | None:
    """The offset along ``dim`` at which a tensor is a slice of the whole, ``None`` if it is none; tried at multiples of
    its size and at box borders."""
    size = here.shape[dim]
    if size == 0:
        return None
    total = whole.shape[dim]
    if is_size(size) or is_size(total):  # there is no list of the places of a part; the whole has one
        starts: Sequence[int] = (0,) if same(size, total) else ()
    else:
        starts = range(0, total - size + 1, size)
    for start in starts:
        box = [(0, n) for n in whole.shape]
        box[dim] = (start, start + size)
        if _differing(store, part(store, whole, box), here, False) is None:
            return start
    return None


def _tile(parts: Sequence[tuple[int, int, Expression]], size: int) -> list[Expression]:
    """Parts that cover ``0..size`` one after the other; empty if there are none."""
    out: list[Expression] = []
    at = 0
    while at < size:
        found = next((p for p in parts if p[0] == at), None)
        if found is None:
            return []
        out.append(found[2])
        at = found[1]
    return out
