"""The second engine's answer to a job: equality of every element at reduced shapes, for a cross-check of the calculus.

What the calculus knows decides nothing here. It comes in only where something differs: a counterexample is looked for
by executing both programs, as the first engine does, and only what was executed is REFUTED.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from tantamount.clock import Clock
from tantamount.effort import Effort, Stopped, stopping
from tantamount.errors import Unsupported
from tantamount.execution.reduced import find_differences
from tantamount.execution.witness import Searched
from tantamount.ir.job import SAME_NAME, Job
from tantamount.limits import Limits, limits_from_environment
from tantamount.proof import Options, prove
from tantamount.proof.assumptions import arithmetic_assumptions, index_assumptions, operator_assumptions
from tantamount.reduction import NotReduced, reduce_job
from tantamount.refinement.result import Refinement, limits_hit, statistics, up_to
from tantamount.sizes.domain import shown_sizes
from tantamount.smt.conditions import side_conditions
from tantamount.smt.engine import Compared, Output, compare
from tantamount.verdict import Assumption, Counterexample, Elementwise, OutputReport, Relation, Verdict, worst

__all__ = ["refine_elementwise"]


def refine_elementwise(job: Job, *, limits: Limits | None = None, effort: Effort | None = None) -> Refinement:
    """The second engine's verdict on a job: ``EQUAL AT REDUCED SHAPES``, ``REFUTED`` by an executed counterexample, or
    ``UNKNOWN``. Programs with size symbols are taken at the sizes of their capture. Raises :class:`UserError`."""
    how = effort if effort is not None else Effort()
    state = _State(job, how, limits if limits is not None else limits_from_environment())
    try:
        with stopping(how):
            _compare(state)
    except Stopped as stop:
        state.stopped = stop
    except MemoryError:
        if how.megabytes is None:
            raise
        state.stopped = how.out_of_memory()
    return state.report()


def _compare(state: _State) -> None:
    job, how = state.job, state.effort
    if job.at is not None:
        sizes = {symbol.name: symbol.hint for symbol in job.sizes.symbols}
        state.notes += (f"size symbols are those of the capture: {shown_sizes(sizes)}",)
        job = job.at(sizes)
    state.at = "while sizes were reduced"
    small = job
    try:
        reduction = reduce_job(job, how)
        small = reduction.job
        state.engine = Elementwise(sizes=reduction.sizes, conditions=side_conditions(job, reduction.sizes))
    except NotReduced as problem:
        state.engine = Elementwise(unreduced=str(problem))
    state.clock.lap("reduction")
    state.at = "while elements were compared"
    differs = True
    try:
        found = compare(small, how)
        differs = any(output.differs for output in found.outputs)
        state.compared(found)
    except Unsupported as problem:
        state.reason = f"the second engine has no terms for it: {problem.reason}"
    state.clock.lap("elements")
    open_ = tuple(o for o in state.all_outputs() if o.verdict is not Verdict.EQUAL_REDUCED)
    if open_ and differs:
        state.at = "while a counterexample was looked for"
        searched = _executed(job, open_, state)
        state.outputs.update({output.name: output for output in searched.outputs})
        state.counterexample = searched.counterexample
        state.notes += searched.notes
        state.clock.lap("witness")


def _executed(job: Job, outputs: tuple[OutputReport, ...], state: _State) -> Searched:
    proof = prove(job, Options(limits=state.limits, effort=state.effort))
    return find_differences(proof, outputs, state.limits)


@dataclass
class _State:
    """The findings so far."""

    job: Job
    effort: Effort
    limits: Limits

    def __post_init__(self) -> None:
        self.clock = Clock()
        self.engine = Elementwise()
        self.outputs: dict[str, OutputReport] = {}
        self.assumptions: tuple[Assumption, ...] = ()
        self.counterexample: Counterexample | None = None
        self.notes: tuple[str, ...] = ()
        self.stopped: Stopped | None = None
        self.reason = ""
        self.at = "before anything was compared"

    def compared(self, found: Compared) -> None:
        """Enter what the engine found."""
        self.engine = replace(
            self.engine,
            elements=sum(output.elements for output in found.outputs),
            by_expression=found.by_expression,
            by_solver=found.by_solver,
            undecided=found.undecided,
            stages=tuple((one.rank, one.node, one.elements) for one in found.stages),
            questions=found.questions,
            renamed=found.renamed,
            terms=found.terms,
        )
        self.assumptions = _assumptions(self.job, found)
        self.outputs = {output.name: self._output(output, found.contradictory) for output in found.outputs}

    def _output(self, found: Output, contradictory: bool) -> OutputReport:
        expected = self.job.outputs[found.name]
        relation = Relation(found.name, found.relation, expected.name if not expected.infer else found.name)
        if found.equal and contradictory:
            why = "what is assumed of the specification holds at none of a few random inputs"
            return OutputReport(found.name, Verdict.UNKNOWN, None, expected.text, why)
        if found.equal:
            return OutputReport(found.name, Verdict.EQUAL_REDUCED, relation, expected.text)
        return OutputReport(found.name, Verdict.UNKNOWN, None, expected.text, found.reason)

    def all_outputs(self) -> tuple[OutputReport, ...]:
        """A report for every output that the job asks about."""
        why = self.reason or (f"{self.stopped} {self.at}" if self.stopped is not None else "not looked at")
        return tuple(
            self.outputs.get(o.name) or OutputReport(o.name, Verdict.UNKNOWN, None, self.job.outputs[o.name].text, why)
            for o in self.job.specification.outputs
            if o.name in self.job.outputs
        )

    def report(self) -> Refinement:
        """The report on what is known."""
        outputs, stop = self.all_outputs(), self.stopped
        figures = statistics(self.job, (), self.clock.seconds)
        return Refinement(
            job=self.job.path,
            verdict=worst(output.verdict for output in outputs),
            outputs=outputs,
            outputs_total=len(self.job.specification.outputs),
            assumptions=(*self.assumptions, *up_to(self.job)),
            relations=(),
            mismatch=None,
            counterexample=self.counterexample,
            statistics=replace(figures, classes=figures.ranks, terms=self.engine.terms),
            notes=self.notes if stop is None else (*self.notes, f"{stop} {self.at}: what is known so far"),
            limits=limits_hit(self.effort, stop),
            stopped="" if stop is None else stop.limit,
            elementwise=self.engine,
        )


def _assumptions(job: Job, found: Compared) -> tuple[Assumption, ...]:
    out = arithmetic_assumptions(job)
    if found.restricted:
        text = "the input relation settles elements of inputs by others: " + ", ".join(found.restricted)
        out.append(Assumption("input-restriction", text))
    if found.dropouts and job.assume.dropout:
        text = "the k-th dropout of every rank uses its part of the k-th mask of the specification"
        out.append(Assumption("dropout", text))
    if found.constants:
        same = job.assume.constants == SAME_NAME
        what = "have the same value under the same name" if same else f"are {job.assume.constants}"
        out.append(Assumption("constants", f"constants that the graphs do not record {what}", found.constants))
    out += operator_assumptions(job)
    if found.indices:
        text = "indices of the specification are in range (0 <= i < n)"
        out.append(Assumption("index-range", text, found.indices))
    out += index_assumptions(job)
    if found.assumed:
        text = (
            "all outputs that are checked are finite in the specification: "
            "divisors are not 0, roots and logarithms are of numbers that have them"
        )
        out.append(Assumption("domain", text))
    return tuple(out)
