"""The place where the two sides part: the specification operator to blame, and the implementation tensor nearest to it.

Where both programs can be executed, it is where a small change repairs the implementation (``search``). Else two views
are combined. Walking back from a failing output through specification tensors without a counterpart ends at *frontier*
operators, whose inputs all have one. Comparing the normal forms of the output descends to the atom that differs, which
some operator introduced. A frontier operator on the way to that one, with a like implementation operator to compare
with, is named; else the operator that introduced the difference.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np

from tantamount.calculus.compare import Difference, equal
from tantamount.calculus.forms import Form, reshape
from tantamount.calculus.terms import Polynomial
from tantamount.diagnosis.explain import Finding, describe
from tantamount.diagnosis.following import Followed, once
from tantamount.diagnosis.hints import NO_HINT, Hint
from tantamount.diagnosis.kinds import account
from tantamount.diagnosis.naming import Account
from tantamount.diagnosis.parted import Parted, first_value, unrepaired
from tantamount.diagnosis.relations import relation_that_proves
from tantamount.diagnosis.search import Repair, find_repairs
from tantamount.diagnosis.totals import Totals
from tantamount.diagnosis.twins import kind_of, other_number, twin_of
from tantamount.diagnosis.unreduced import Summand, bare_summand, misuse, summand_of
from tantamount.diagnosis.value_matches import Part
from tantamount.effort import Stopped, within
from tantamount.errors import Unsupported
from tantamount.execution.plans import Plan
from tantamount.ir.graph import Graph, Node, references
from tantamount.ir.layouts import layouts
from tantamount.ir.relation import Partial, rank_tensors
from tantamount.ops.algebra import Tensor
from tantamount.ops.functionalized import unwrapped
from tantamount.ops.relations import even
from tantamount.proof import Proof
from tantamount.proof.outputs import ancestors, holds, matches, output_node
from tantamount.proof.placements import distribute, part
from tantamount.verdict import DIFFERENCES, Mismatch, OutputReport, Relation, Verdict

__all__ = ["find_mismatch"]


@np.errstate(all="ignore")  # the values of wrong programs may be infinite, or no numbers
def find_mismatch(
    proof: Proof,
    failing: Sequence[OutputReport],
    plan: Plan | None = None,
    seconds: float = 0.0,
    patience: float | None = None,
    proves: Callable[[Hint], bool] | None = None,
) -> tuple[Mismatch | None, Mapping[str, str]]:
    """The first place where the implementation leaves the specification, for the first failing output that has one; and
    for every failing output that comes of a missing reduction, by name, where. ``plan`` executes both programs;
    ``seconds`` of CPU time may be taken beyond the bound ``repair_seconds``. Forms are compared for ``patience``
    CPU seconds at most (``None``: no bound); then what values say must do, and the proof may not be asked for more.
    ``proves``: of a job that is a piece of another one, whether the whole is proved once a change of lines is made."""
    nodes = {output.name: output.node for output in proof.job.specification.outputs}
    search = _Search(proof, formulas=patience is None)
    refuted = [report.name for report in failing if report.verdict is Verdict.REFUTED]
    repair: Repair | None = None
    told: Account | None = None
    parted: Parted | None = None
    tell = once(lambda one: account(one.matches, one.edit, one.c, proof.job))

    followed = Followed(proof, proof.options.effort.bounds.repair_seconds + seconds, refuted, tell, proves)
    for found in find_repairs(plan, refuted, seconds, followed.of_all) if plan is not None and refuted else ():
        if isinstance(found, Parted):
            parted = found
            break
        said = tell(found)
        if found.repaired or (said.sure and (found.first or said.kind in _ONCE_MORE)):
            repair, told = found, said if found.right else replace(said, hint=NO_HINT)  # all is made right, or no hint
        if told is not None and told.sure:
            break
    seen = repair or parted
    search.totals = None if seen is None else Totals(seen.matches.replay)
    alone = proves is None
    if alone and repair is not None and told is not None and repair.of_input and repair.right:  # no other stays wrong
        relation = relation_that_proves(repair.matches, repair.edit, repair.repaired, proof.options.silent())
        if relation:
            text = f"it would be proved if {told.specification} were {relation}"
            told = replace(told, hint=Hint(text, proved=True))
    if repair is not None and told is not None and told.hint and not (told.hint.proved or repair.proved):
        told = told if followed.proves(repair, told.hint) else replace(told, hint=NO_HINT)
    first: Mismatch | None = None
    reductions: dict[str, str] = {}
    short = patience is not None
    bound = "doubtful_seconds"
    if short and told is None and parted is not None:
        found = unrepaired(parted)
        if found is not None:  # values tell the place, and forms are compared there alone
            return search.repaired(found, nodes, failing, here=True), reductions
    if patience is None and (parted is not None or told is not None):  # the place is known, whatever forms say
        bound, patience = "repair_seconds", followed.left()
    try:
        with within(patience):
            if told is not None and told.sure:
                first = search.repaired(told, nodes, failing)
        if first is not None:  # forms say no more than which other outputs lack reductions, too
            bound, patience = "doubtful_seconds", proof.options.effort.bounds.doubtful_seconds
        with within(patience):
            if first is None or not short:  # where time is short, the first place says enough
                done: Sequence[str] = repair.repaired if repair is not None and first is not None else ()
                if repair is not None and repair.right and first is not None:
                    done = [report.name for report in failing]  # nothing else is wrong
                if first is not None and first.kind == "unreduced":
                    reductions = dict.fromkeys(done, first.difference)
                known = bool(search.specification.values)  # else forms say nothing
                rest = [report for report in failing if known and report.name not in done]
                first = _by_forms(search, rest, nodes, first, reductions)
    except Stopped:
        left = proof.options.effort.left()
        if left is not None and left <= 0:
            raise
        proof.options.effort.hit(bound)
        search.stop_relating()
    return _told_of_place(search, first, told, repair is not None and repair.right, parted, nodes, failing), reductions


def _told_of_place(
    search: _Search,
    first: Mismatch | None,
    told: Account | None,
    whole: bool,
    parted: Parted | None,
    nodes: Mapping[str, str],
    failing: Sequence[OutputReport],
) -> Mismatch | None:
    """The mismatch where no change says why: values tell the place, if they part somewhere; forms, ``first``, say more
    of it, if theirs is the same place, or if the implementation makes the same tensor in steps of its own. Of several
    places where the two sides part, that where one change makes the ``whole`` of the job right is it."""
    if told is not None and told.sure:
        return first or search.repaired(told, nodes, failing)
    if first is not None and (parted is None or (first.kind == "unreduced" and parted.may_be(first.implementation))):
        return first
    found = None if parted is None else unrepaired(parted)
    sure = found is not None and found.sure
    if parted is not None and first is not None and not sure:
        if told is not None and whole and told.place[1] != first.implementation and parted.begins_at(told.place[1]):
            return search.repaired(told, nodes, failing)
        if parted.begins_at(first.implementation):
            return first
        if found is not None and parted.in_other_steps(found.place, first.specification):
            return replace(first, difference=f"{first.difference}\n{first_value(parted.matches, found.place)}")
    if parted is not None and told is not None and not sure and parted.begins_at(told.place[1]):
        return search.repaired(told, nodes, failing)
    if found is not None:
        return search.repaired(found, nodes, failing)
    return first or (None if told is None else search.repaired(told, nodes, failing))


def _by_forms(
    search: _Search,
    failing: Sequence[OutputReport],
    nodes: Mapping[str, str],
    first: Mismatch | None,
    reductions: dict[str, str],
) -> Mismatch | None:
    """The first place by what forms say, if none is known yet; ``reductions`` get what is missing where."""
    for report in failing:
        node = nodes.get(report.name)
        if node is None:
            continue
        try:
            if first is None:
                first = search.run(report, node)
            found = search.unreduced(report, node)
            if found is not None:
                reductions[report.name] = found.difference
        except Unsupported:
            continue
    return first


# what is said of a change that repairs no output alone: formulas do not say it
_ONCE_MORE = ("extra", "unreduced", "offset", "operation")

# what says all there is to say when it is found in the output itself, not inside one of its atoms
_PLAIN = ("factor", "constant", "missing", "extra")


def _says_all(finding: Finding) -> bool:
    return finding.atom is None and finding.kind in _PLAIN


def _shows(local: Finding, kind: str) -> bool:
    """True if the formulas of a finding show a difference of some kind: a sum over fewer elements is what a tensor is
    that lacks something, or one summand of it; beside a factor, or a term too many, it is another matter."""
    return local.kind != "range" or kind not in ("factor", "extra", "constant", "attribute", "operation")


_RANK = tuple(DIFFERENCES)  # the most telling kind first


class _Search:
    """``formulas``: what both sides compute at a place is shown, also where words say what differs."""

    def __init__(self, proof: Proof, formulas: bool) -> None:
        self.proof = proof
        self.formulas = formulas
        self.store = proof.store
        self.job = proof.job
        self.specification = proof.specification
        self.implementation = proof.implementation
        self.summands: dict[str, Summand | None] = {}
        self.totals: Totals | None = None  # by values, of what nodes may be summands
        self.order = {node.name: k for k, node in enumerate(proof.job.specification.nodes)}

    @cached_property
    def relations(self) -> Mapping[str, Relation]:
        """The relations of the specification's tensors, which forms are asked for when they are needed first."""
        return self.proof.relations()

    def stop_relating(self) -> None:
        """Let what has no relation so far have none."""
        self.relations = self.proof.known_relations()

    def run(self, report: OutputReport, node: str) -> Mismatch | None:
        finding = self._output_difference(report, node)
        source = self._introduced_by(finding, node) if finding is not None else None
        frontier = [
            name for name in sorted(self._frontier(node), key=self.order.__getitem__) if self._worth(name, node)
        ]
        if finding is not None and source is not None and _says_all(finding):
            return self._mismatch(source, self._twin(source) or self._output(report), finding)
        unreduced = self._misused(report, node)
        if unreduced is not None:
            return unreduced
        for name in frontier:
            summand = self._summand(name)
            if summand is not None:
                finding = Finding("unreduced", bare_summand(self.job, summand), "", "")
                return self._mismatch(name, summand.node, finding)
        best: tuple[int, str, str, Finding] | None = None
        for name in frontier:
            twin = self._twin(name)
            local = None if twin is None else self._compare(name, twin)
            if twin is not None and local is not None and (best is None or _RANK.index(local.kind) < best[0]):
                best = (_RANK.index(local.kind), name, twin, local)
        if best is not None and (finding is None or best[0] <= _RANK.index(finding.kind)):
            return self._mismatch(best[1], best[2], best[3])
        if finding is None:
            return None
        if source is None or source in self.relations:  # what has a counterpart is not to blame
            source = next(iter(frontier), source or node)
        return self._mismatch(source, self._twin(source) or self._below(source, node) or self._output(report), finding)

    def repaired(
        self, found: Account, nodes: Mapping[str, str], failing: Sequence[OutputReport], here: bool = False
    ) -> Mismatch:
        """The mismatch that a repair tells of, with the formulas of both sides where they show the difference
        (``here``: those of that place alone, not of the output)."""
        rank, name = found.place
        spec, difference = found.specification, found.difference
        report = next(one for one in failing if one.verdict is Verdict.REFUTED)
        said: Finding | None = None
        if not here and (not spec or found.kind == "factor"):
            end = self._output_difference(report, nodes[report.name])
            if end is not None and _says_all(end):
                said = end
                difference = f"{difference}\n{report.name}: {end.text}"
            if not spec and end is not None:
                spec = self._introduced_by(end, nodes[report.name]) or ""
        local: Finding | None = None
        if said is not None:
            local = said
        elif not (self.formulas or found.kind == "different"):
            pass
        elif spec and self.implementation.mesh.world_size == 1:
            local = self._compare_part(spec, name, found.part)
        elif spec:
            local = self._compare(spec, name)
        node = self._named(self.job.implementation[rank], name)
        whole = self._named(self.job.specification, spec) if spec else None
        headline = found.headline
        if found.kind == "different" and local is not None:
            difference = local.text
            if local.kind not in ("different", "range"):
                headline = f"{headline}: {local.text}"
                found = replace(found, kind=local.kind)
        equations = ()
        if local is not None and local.specification != local.implementation and _shows(local, found.kind):
            equations = (f"specification:  {local.specification}", f"implementation: {local.implementation}")
        return Mismatch(
            specification=spec,
            operator=unwrapped(whole.target, whole.args) if whole is not None else "",
            difference=difference,
            implementation=node.name,
            implementation_operator=unwrapped(node.target, node.args),
            specification_source=whole.source if whole is not None else None,
            implementation_source=node.source,
            rank=rank if found.alone else None,
            equations=equations,
            headline=headline,
            hint=found.hint.text,
            kind=found.kind,
        )

    def _compare_part(self, name: str, twin: str, where: Part | None) -> Finding | None:
        """The difference between a part of a specification tensor and an implementation tensor of one rank."""
        value = self.specification.values.get(name)
        here = self.implementation.local(self.store, 0, twin)
        if not isinstance(value, Tensor) or here is None:
            return None
        whole = value.value
        box = None if where is None or where[0] != name else where[1]
        if box is not None and len(box) == len(whole.shape):
            if any(high > n for (_, high), n in zip(box, whole.shape, strict=True)):
                return None  # of smaller shapes
            whole = part(self.store, whole, box)
        if whole.shape != here.shape:
            if [n for n in whole.shape if n != 1] != [n for n in here.shape if n != 1]:
                return None
            whole = reshape(self.store, whole, here.shape)  # values correspond whatever dimensions of size 1 they have
        difference = equal(self.store, whole, here, expand=False)
        if difference is None:
            return None
        return describe(self.store, difference.left, difference.right, len(difference.sizes))

    def unreduced(self, report: OutputReport, node: str) -> Mismatch | None:
        """The missing reduction that an output comes of, unless the output's own difference says more."""
        finding = self._output_difference(report, node)
        return None if finding is not None and _says_all(finding) else self._misused(report, node)

    def _output(self, report: OutputReport) -> str:
        """The first implementation tensor that an output is expected to be (made of), on rank 0."""
        expectation = self.job.outputs[report.name]
        tensors = rank_tensors(expectation.expression) if expectation.expression is not None else ()
        named = next((tensor.name for tensor in tensors if tensor.name is not None), expectation.name)
        return output_node(self.job, 0, named)

    # -- the two views
    def _output_difference(self, report: OutputReport, node: str) -> Finding | None:
        value = self.specification.values.get(node)
        expectation = self.job.outputs[report.name]
        if not isinstance(value, Tensor) or expectation.infer or expectation.problem:
            return None
        problem = matches(self.store, self.job, value.value, expectation, self.implementation, expand=False)
        return (
            describe(self.store, problem.left, problem.right, len(problem.sizes))
            if isinstance(problem, Difference)
            else None
        )

    def _frontier(self, node: str) -> set[str]:
        """Specification nodes without a counterpart, reached from ``node`` through such nodes, whose operands all have
        one, or are none that can be blamed."""
        graph = self.job.specification
        found: set[str] = set()
        seen: set[str] = set()
        pending = [node]
        while pending:
            name = pending.pop()
            if name in seen or self._related(name):
                continue
            seen.add(name)
            operands = [ref for ref in self._operands(graph, name) if not self._related(ref) and self._worth(ref, node)]
            pending.extend(operands)
            if not operands and graph.by_name[name].op == "call":
                found.add(name)
        return found

    def _operands(self, graph: Graph, name: str) -> list[str]:
        """The names of a node's operands; for an item of several results, those of their operator."""
        node = graph.by_name[name]
        while node.target == "getitem":
            node = graph.by_name[next(iter(references(node)))]
        return list(references(node))

    def _related(self, name: str) -> bool:
        if name in self.relations:
            return True
        value = self.specification.values.get(name)
        if self.job.specification.by_name[name].op == "call" and not list(
            references(self.job.specification.by_name[name])
        ):
            return True  # made of nothing: a factory
        if isinstance(value, Tensor):
            return self._unwritten(value.value)
        # several results: related if every one that is used is
        users = self.job.specification.users.get(name, ())
        return bool(users) and all(user in self.relations for user in users)

    def _unwritten(self, form: Form) -> bool:
        """Memory that nothing was written to (``empty_like``, or a view of it): nothing corresponds to it, and nothing
        has to."""
        leaves = [self.store.atoms[a] for _, x in form.pieces for m, _ in x for a, _, _ in m]
        return bool(leaves) and all(
            atom.op == "leaf"
            and atom.attributes[0] == "unknown"
            and not any(str(atom.attributes[1][0]).endswith(name) for name in self.specification.failures)
            for atom in leaves
        )

    def _introduced_by(self, finding: Finding, node: str) -> str | None:
        """The first node, among those that ``node`` depends on, whose form contains the differing term or atom;
        preferably one without a counterpart: what has one is not where the two sides part."""
        above = ancestors(self.job.specification, node)
        nodes = [n for n in self.job.specification.nodes if n.name in above and n.op == "call"]
        apart = [n for n in nodes if n.name not in self.relations]
        return self._containing(finding, apart) or self._containing(finding, nodes)

    def _containing(self, finding: Finding, nodes: Sequence[Node]) -> str | None:
        fallback: str | None = None
        for candidate in nodes:
            value = self.specification.values.get(candidate.name)
            if not isinstance(value, Tensor):
                continue
            for _, x in value.value.pieces:
                if finding.term is not None and _has_term(x, finding):
                    return candidate.name
                if fallback is None and finding.atom is not None and any(f[0] == finding.atom for m, _ in x for f in m):
                    fallback = candidate.name
        return fallback

    def _worth(self, name: str, node: str) -> bool:
        """Masks and indices differ between right programs as well: they are not blamed for a difference of floats."""
        value, failing = self.specification.values.get(name), self.specification.values.get(node)
        if not isinstance(value, Tensor) or not isinstance(failing, Tensor):
            return True
        return value.dtype.kind is failing.dtype.kind and bool(list(references(self.job.specification.by_name[name])))

    # -- the implementation's side
    def _summand(self, name: str) -> Summand | None:
        """The implementation tensor whose sum over ranks is this specification tensor: a reduction is missing after
        it."""
        if name not in self.summands:
            value = self.specification.values.get(name)
            among = None if self.totals is None else self.totals.like(name)
            self.summands[name] = (
                summand_of(self.store, self.job, self.implementation, value, among)
                if isinstance(value, Tensor)
                else None
            )
        return self.summands[name]

    def _misused(self, report: OutputReport, node: str) -> Mismatch | None:
        """The first specification operator, of those that ``node`` depends on, without a counterpart in the
        implementation, not even summand by summand, though of all its operands there is one and of some there are
        summands only."""
        graph = self.job.specification
        above = ancestors(graph, node)
        for candidate in graph.nodes:
            name = candidate.name
            if name not in above or candidate.op != "call" or self._related(name):
                continue
            if not isinstance(self.specification.values.get(name), Tensor):
                continue
            operands = {ref: None if self._related(ref) else self._summand(ref) for ref in self._operands(graph, name)}
            if all(found is None for found in operands.values()):
                continue
            if any(found is None and not self._related(ref) for ref, found in operands.items()) or self._summand(name):
                continue
            found = misuse(
                self.store, self.job, self.specification, self.implementation, self.relations, operands,
                self._output(report),
            )  # fmt: skip
            if found is not None:
                return self._mismatch(name, found[0], Finding("unreduced", found[1], "", ""))
        return None

    def _twin(self, name: str) -> str | None:
        return twin_of(self.job.specification, self.job.implementation[0], name)

    def _below(self, name: str, end: str) -> str | None:
        """The implementation node that plays the part of the first operator, between ``name`` and ``end``, of which
        both sides have as many."""
        graph = self.job.specification
        above = ancestors(graph, end)
        counts = [Counter(kind_of(one, n) for n in one.nodes) for one in (graph, self.job.implementation[0])]
        for node in graph.nodes:
            if node.op != "call" or node.name not in above or self._related(node.name):
                continue
            kind = kind_of(graph, node)
            if counts[0][kind] == counts[1][kind] and name in ancestors(graph, node.name):
                return self._twin(node.name)
        return None

    def _compare(self, name: str, twin: str) -> Finding | None:
        """The difference between a specification tensor and an implementation tensor, under the best placement."""
        value = self.specification.values.get(name)
        stacked = self.implementation.stacked(self.store, twin)
        if not isinstance(value, Tensor) or stacked is None:
            return None
        whole = value.value
        sizes = self.job.mesh.sizes
        options = layouts(whole.shape, sizes, local=stacked.shape[len(sizes) :], partial=True)
        for placements in options:
            if (
                any(isinstance(p, Partial) for p in placements)
                and holds(self.store, whole, placements, self.implementation, twin, expand=False) is None
            ):
                return Finding("unreduced", bare_summand(self.job, Summand(twin, placements)), "", "")
        for placements in options:
            if any(isinstance(p, Partial) for p in placements) or not even(whole.shape, placements, sizes):
                continue
            difference = equal(self.store, distribute(self.store, whole, placements, sizes), stacked, expand=False)
            if difference is not None:
                found = describe(self.store, difference.left, difference.right, len(difference.sizes))
                if found.kind in ("offset", "different"):
                    return self._rank_by_rank(whole, twin) or found
                return found
        return self._rank_by_rank(whole, twin)

    def _rank_by_rank(self, whole: Form, twin: str) -> Finding | None:
        """A difference other than of positions, between the specification's tensor and what one rank holds."""
        for rank in self.store.effort.first("mismatch_ranks", range(self.job.mesh.world_size)):
            here = self.implementation.local(self.store, rank, twin)
            if here is None or not here.pieces or not whole.pieces:
                continue
            found = describe(self.store, whole.pieces[0][1], here.pieces[0][1], len(here.sizes))
            if found.kind not in ("offset", "different", "range"):
                return replace(found, text=f"on rank {rank}, {found.text}")
        return None

    def _mismatch(self, name: str, twin: str, finding: Finding) -> Mismatch:
        node = self._named(self.job.specification, name)
        other = self._named(self.job.implementation[0], twin) if twin in self.job.implementation[0].by_name else None
        numbers = None if other is None else other_number(other, node)
        if numbers is not None and finding.kind != "unreduced":
            text = f"it has {numbers[0]!r} where {numbers[1]!r} is wanted"
            finding = replace(finding, kind="attribute", text=text)
        equations = ()
        if finding.specification or finding.implementation:
            equations = (f"specification:  {finding.specification}", f"implementation: {finding.implementation}")
        return Mismatch(
            specification=name,
            operator=unwrapped(node.target, node.args),
            difference=finding.text,
            implementation=other.name if other is not None else twin,
            implementation_operator=unwrapped(other.target, other.args) if other is not None else "",
            specification_source=node.source,
            implementation_source=other.source if other is not None else None,
            equations=equations,
            headline=_headline(name, other.name if other is not None else twin, finding),
            kind=finding.kind,
        )

    def _named(self, graph: Graph, name: str) -> Node:
        """The node; for an item of several results, the node that has them."""
        node = graph.by_name[name]
        while node.target == "getitem":
            node = graph.by_name[next(iter(references(node)))]
        return node


def _headline(name: str, twin: str, finding: Finding) -> str:
    """One sentence: what a missing reduction says first, else what differs between which tensors."""
    first = finding.text.partition("\n")[0]
    if finding.kind == "unreduced":
        return re.sub(r" \(`[^`]*`\)", "", first)  # code that is no place in a file is for the details
    return f"{twin} is not the specification's {name}: {first}"


def _has_term(x: Polynomial, finding: Finding) -> bool:
    """True if a polynomial has the differing term, at whatever index."""
    if finding.term is None:
        return False
    wanted = (finding.term[1], tuple((a, e) for a, e, _ in finding.term[0]))
    return any((c, tuple((a, e) for a, e, _ in m)) == wanted for m, c in x)
