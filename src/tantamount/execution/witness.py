"""Counterexamples: both programs executed on the same random inputs, simplified while they still differ."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from tantamount.errors import Unsupported
from tantamount.execution.differences import Discrepancy, confirm, examine, output_claim
from tantamount.execution.leaves import SAMPLED
from tantamount.execution.plans import (
    Execution,
    Leaves,
    NotExecuted,
    Plan,
    Scale,
    TooLarge,
    execute,
    executed_on,
    plan_execution,
)
from tantamount.execution.simplify import simplify
from tantamount.ir.job import Job
from tantamount.limits import Limits
from tantamount.proof import Proof
from tantamount.proof.outputs import PARTLY
from tantamount.semantics.reference import Array
from tantamount.verdict import Counterexample, OutputReport, Verdict

__all__ = ["SCALES", "Searched", "search", "search_on"]


@dataclass(frozen=True)
class Searched:
    """The outputs with what was found, the simplest counterexample for the first of them, notes, and (if something was
    executed) how to execute both programs again. ``rest`` goes on with a search that was interrupted, for some outputs.
    ``small``: outputs that differ, but by too little to tell; known where all must differ ``together``."""

    outputs: tuple[OutputReport, ...]
    counterexample: Counterexample | None = None
    notes: tuple[str, ...] = ()
    plan: Plan | None = None
    rest: Callable[[Sequence[str]], Searched] | None = None
    small: frozenset[str] = frozenset()


SCALES = (
    Scale(),
    Scale(0.1),  # before a proof takes more effort: another epsilon shows on small numbers only
    Scale(3.0),
    Scale(1.0, positive=True),
    Scale(10.0),
    Scale(),
    Scale(10.0, positive=True),
    Scale(),
    Scale(sparse=True),
    Scale(positive=True, sparse=True),
)
_SINGULAR = (*(Scale(sparse=True),) * 4, *(Scale(positive=True, sparse=True),) * 2)  # first, of values equal otherwise
_LEAVING = (Scale(), Scale(300.0), Scale(70000.0))  # first, of programs with integers of 8 and 16 bits
_SAMPLED = tuple(Scale(sampled=how) for how in SAMPLED)  # last, of programs that compare, round or choose
_SHOWN = 1 << 14  # elements of one input that a counterexample lists
_EDGE = 8  # elements per dimension that it lists of a larger one


@dataclass(frozen=True, slots=True)
class _Found:
    """A difference of one output, and the input. ``confirmed``: it is one of the real functions; else that remains to
    be asked, of a simpler input if there is one."""

    difference: Discrepancy
    leaves: Leaves
    seed: int
    inputs: Mapping[str, Array]
    sampled: bool = False
    confirmed: bool = True


@dataclass
class _Search:
    """The findings of the executions so far."""

    plan: Plan
    found: dict[str, _Found]
    agreed: dict[str, int]  # executions in which an output was compared and was the same
    small: dict[str, float]
    singular: frozenset[str] = frozenset()  # outputs whose values are equal where both sides are defined
    executed: int = 0
    seed: int = 0  # of the next input
    cautious: bool = False  # every difference is confirmed when it is found
    together: bool = False  # the search ends where one input tells some outputs apart, and not all
    first: str = ""  # the output that is shown, if it differs
    apart: bool = False  # the search is to end: on one input some outputs differ, and others do not

    def sample(self, seed: int, scale: Scale, open_: Sequence[str]) -> None:
        leaves, execution = executed_on(self.plan, seed, scale)
        if execution is None or not execution.in_reals or not execution.within_assumptions:
            return
        self.executed += 1
        sampled = bool(scale.sampled)
        done: dict[str, Execution | None] = {}
        claims = {name: output_claim(self.plan.job, name) for name in open_}
        found = {name: examine(self.plan, claim, execution) for name, claim in claims.items()}
        differ = sum(one.difference is not None or one.small > 0 for one in found.values())
        if self.together and not self.found and 0 < differ < len(found):
            self.apart = True  # none of them needs to be confirmed
            return
        for name, checked in found.items():
            claim, difference = claims[name], checked.difference
            if difference is None:
                self.agreed[name] = self.agreed.get(name, 0) + bool(checked.compared)
                self.small[name] = max(self.small.get(name, 0.0), checked.small)
            elif difference.stop or not difference.fails or not execution.underflow:
                # of the output that is shown the simplest input that is found is confirmed, instead of this one; where
                # others are confirmed on this one, too, they share its executions
                shown = len(open_) == 1 and name == self.first
                later = shown and not (self.cautious or self.singular or sampled)
                if later or confirm(
                    self.plan, claim, leaves, seed, difference, done, singular=name in self.singular, sampled=sampled
                ):
                    self.found[name] = _Found(difference, leaves, seed, execution.inputs, sampled, not later)


def search(
    proof: Proof, outputs: tuple[OutputReport, ...], limits: Limits, agreeing: int = 0, plan: Plan | None = None
) -> Searched:
    """Execute both sides where outputs are not proved; notes say why nothing was executed, or what the executions say.
    Where the sides agree on the first ``agreeing`` inputs (if that is not 0), the search is interrupted. ``plan``: that
    of the proof, where it is known.

    Raises :class:`TooLarge` beyond the limits of what is executed."""
    job = proof.job
    if not _open(job, outputs):
        return Searched(outputs)

    def begun() -> Searched:
        found = plan
        if found is None:
            found = plan_execution(proof.store, job, proof.inputs, proof.specification, proof.implementation, limits)
        return search_on(found, outputs, agreeing)

    return _executing(outputs, begun)


def search_on(plan: Plan, outputs: tuple[OutputReport, ...], agreeing: int = 0, *, together: bool = False) -> Searched:
    """The same, of the programs of a plan; ``together``: only if one input refutes all outputs that are not proved, but
    for those that differ there by too little to tell. Raises :class:`NotExecuted`."""
    singular = frozenset(o.name for o in outputs if o.reason and PARTLY in o.reason)
    open_ = _open(plan.job, outputs)
    state = _Search(plan, {}, {}, {}, singular, together=together, first=open_[0] if open_ else "")
    return _searched(outputs, open_, state, agreeing)


def _open(job: Job, outputs: Sequence[OutputReport]) -> list[str]:
    """The outputs that an execution may say something of."""
    return [o.name for o in outputs if o.verdict in (Verdict.UNKNOWN, Verdict.REFUTED) and _checkable(job, o)]


def _executing(outputs: tuple[OutputReport, ...], search: Callable[[], Searched]) -> Searched:
    """The result of a search, or the reason why nothing was executed."""
    try:
        return search()
    except TooLarge:
        raise
    except NotExecuted as problem:
        return Searched(outputs, notes=(f"no counterexample was looked for: {problem}",))
    except Unsupported as problem:
        return Searched(outputs, notes=(f"no counterexample was looked for: {problem.reason}",))


def _searched(outputs: tuple[OutputReport, ...], open_: Sequence[str], state: _Search, agreeing: int) -> Searched:
    """The search from its state on."""
    plan = state.plan
    job = plan.job
    first = (*(_SINGULAR if state.singular else ()), *(_LEAVING if _narrow(job) else ()))
    scales = (*first, *SCALES, *(_SAMPLED if plan.jumps else ()))
    counterexample: Counterexample | None = None
    while True:
        if agreeing and state.executed >= agreeing and not state.found:

            def rest(names: Sequence[str]) -> Searched:
                left = [name for name in open_ if name in names]
                return _executing(outputs, lambda: _searched(outputs, left, state, 0))

            return Searched(tuple(_agreeing(o, state) for o in outputs), plan=plan, rest=rest)
        seed = state.seed
        unrefuted = [name for name in open_ if name not in state.found]
        if state.apart or (state.together and state.found and not all(map(state.small.get, unrefuted))):
            return Searched(outputs)
        most, done = ("refuting_inputs", seed) if state.found else ("witness_inputs", seed - len(scales) + len(SCALES))
        if unrefuted and not plan.store.effort.exceeds(most, done + 1):
            state.seed += 1
            state.sample(seed, scales[seed % len(scales)], unrefuted)
            continue
        first = next((name for name in open_ if name in state.found), None)
        if first is None:
            break
        simplest = _simplest(plan, state.found[first], first in state.singular)
        if simplest is not None:
            state.found[first] = simplest
            counterexample = _counterexample(simplest)
            break
        del state.found[first]  # it was rounding: the search goes on, and takes nothing for granted
        state.cautious = True
    notes = (
        []
        if plan.paired or not plan.specification.dropouts
        else [
            "both sides were executed with nothing dropped: not every dropout of the implementation has a counterpart"
        ]
    )
    if counterexample is not None and _cut(plan, state.found[counterexample.output]):
        notes.append(f"inputs with more than {_SHOWN} elements are shown by their first {_EDGE} elements per dimension")
    found = tuple(_report(job, o, state) if o.name in open_ else o for o in outputs)
    small = frozenset(name for name in open_ if state.together and name not in state.found and state.small.get(name))
    return Searched(found, counterexample, tuple(notes), plan, small=small)


def _narrow(job: Job) -> bool:
    graphs = (job.specification, *job.implementation)
    return any(node.type is not None and node.type.dtype.is_narrow for graph in graphs for node in graph.nodes)


def _checkable(job: Job, output: OutputReport) -> bool:
    expectation = job.outputs[output.name]
    return not expectation.infer and not expectation.problem


def _report(job: Job, output: OutputReport, state: _Search) -> OutputReport:
    found = state.found.get(output.name)
    if found is not None:
        values = _values(found.difference)
        if output.verdict is Verdict.REFUTED:
            return replace(output, reason=f"{output.reason}\n{values}")
        return replace(
            output, verdict=Verdict.REFUTED, reason=f"{output.name} = {output.expectation} does not hold: {values}"
        )
    agreed = state.agreed.get(output.name, 0)
    if state.small.get(output.name):
        most = f"{state.small[output.name]:.1e}"
        text = f"executed on {agreed} random inputs, no element differs by more than {most} of it: too small to tell"
    elif agreed:
        text = f"executed on {agreed} random inputs, both sides agree"
    else:
        text = "both sides were executed, but on no input was the specification defined"
    if output.verdict is Verdict.REFUTED and agreed:
        # another relation holds, and nothing shows that the expectation fails
        return replace(output, verdict=Verdict.UNKNOWN, notes=(*output.notes, text))
    return replace(output, notes=(*output.notes, text))


def _agreeing(output: OutputReport, state: _Search) -> OutputReport:
    """The report while nothing shows that the expectation fails, though another relation holds."""
    agreed = output.verdict is Verdict.REFUTED and state.agreed.get(output.name)
    return replace(output, verdict=Verdict.UNKNOWN) if agreed else output


def _values(found: Discrepancy) -> str:
    at = f"{found.output}[{', '.join(map(str, found.element))}]" if found.element else found.output
    if found.stop:
        return f"on rank {found.rank}, {found.stop} where {at} is defined"
    if found.fails:
        return f"{at} is {found.expected:.6g} in the specification and undefined on rank {found.rank}"
    return f"{at} is {found.expected:.6g} in the specification and {found.actual:.6g} on rank {found.rank}"


# ------------------------------------------------------------------------------------------------ the simplest input
def _simplest(plan: Plan, found: _Found, singular: bool) -> _Found | None:
    """The same difference (of the same kind, and not much smaller) on an input that reads well. It is confirmed in the
    end; at every step on the way there only where values jump, or if it turns out in the end that it is none. ``None``
    if none is confirmed."""
    claim = output_claim(plan.job, found.difference.output)

    def confirmed(one: _Found) -> bool:
        return confirm(plan, claim, one.leaves, one.seed, one.difference, singular=singular, sampled=one.sampled)

    for cautious in (True,) if singular or found.sampled else (False, True):
        simplest = _simplified(plan, found, singular, cautious)
        if simplest is found:
            break
        if confirmed(replace(simplest, sampled=False)):
            return simplest
    return found if found.confirmed or confirmed(found) else None


def _simplified(plan: Plan, found: _Found, singular: bool, cautious: bool) -> _Found:
    """The same difference on the simplest input that was found; ``cautious``: each step is confirmed."""
    claim = output_claim(plan.job, found.difference.output)
    least = 0.1 * found.difference.ratio
    best = [found]

    def differs(leaves: Leaves) -> bool:
        execution = execute(plan, leaves, found.seed)
        if execution is None or not execution.in_reals or not execution.within_assumptions:
            return False
        difference = examine(plan, claim, execution).difference
        if difference is None or difference.ratio < least:
            return False
        if (difference.fails, difference.stop) != (found.difference.fails, found.difference.stop):
            return False
        if difference.fails and not difference.stop and execution.underflow:
            return False
        if (cautious or execution.tied) and not confirm(
            plan, claim, leaves, found.seed, difference, singular=singular, quick=True, sampled=found.sampled
        ):
            return False
        best[0] = _Found(difference, leaves, found.seed, execution.inputs, found.sampled)
        return True

    simplify(plan, found.leaves, differs)
    return best[0]


def _counterexample(found: _Found) -> Counterexample:
    d = found.difference
    return Counterexample(
        output=d.output,
        element=d.element,
        expected=d.expected,
        actual=d.actual,
        rank=d.rank,
        inputs={name: _listed(value) for name, value in found.inputs.items()},
        seed=found.seed,
    )


def _listed(value: Array) -> object:
    if value.size > _SHOWN:
        value = value[tuple(slice(0, _EDGE) for _ in value.shape)]
    return (value + 0.0 if value.dtype.kind == "f" else value).tolist()  # no -0.0


def _cut(plan: Plan, found: _Found) -> bool:
    return any(np.size(value) > _SHOWN for value in found.leaves.values())
