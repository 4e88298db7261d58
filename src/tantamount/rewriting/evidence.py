"""The evidence for a rule that a user gives: proved by the calculus at symbolic sizes, else tested, else nothing.

A proof is one that the right side refines the left side for all real inputs that satisfy the rule's condition, at all
sizes of its domain (``everywhere``) or at those asked about. What the proof rests on beyond real arithmetic is handed
on to whoever uses the rule. A condition that no input was found to satisfy rejects the rule, proved or not: it would be
true of anything.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum
from functools import reduce

from tantamount.effort import Effort
from tantamount.errors import TantamountError
from tantamount.ir.job import Job, UserRule
from tantamount.ir.types import DType
from tantamount.limits import Limits
from tantamount.refinement import Refinement, refine_job
from tantamount.rewriting.match import retyped
from tantamount.rewriting.solved import condition_of, equal_at, equal_elements
from tantamount.rewriting.trials import Trials, try_rule, unknown_operators
from tantamount.verdict import Assumption, Verdict

__all__ = ["Evidence", "Standing", "evidence_of", "proved_at"]

_GRANTED = frozenset({"real-arithmetic", "sizes"})
_SYMMETRIC = frozenset({"rounded-literals", "opaque-operator"})  # what they say holds of both programs alike


class Standing(Enum):
    """The kinds of knowledge of a rule."""

    PROVED = "PROVED"
    TESTED = "tested"
    REFUTED = "REFUTED"
    REJECTED = "rejected"
    UNKNOWN = "UNKNOWN"


@dataclass(frozen=True)
class Evidence:
    """The knowledge of a rule, in one clause (``text``). ``assumptions``: what its proof rests on beyond real
    arithmetic. ``everywhere``: it is proved at all sizes of its domain. ``first_only``: of the specification alone, as
    the left side's indices were taken to be in range, or (of a rule that was tested) as the left side is undefined
    where the right side is not. ``report``: the proof or the refutation."""

    rule: str
    standing: Standing
    text: str
    assumptions: tuple[Assumption, ...] = ()
    everywhere: bool = False
    first_only: bool = False
    report: Refinement | None = None

    @property
    def usable(self) -> bool:
        """True if a program may be rewritten by the rule, be it under an assumption."""
        return self.standing in (Standing.PROVED, Standing.TESTED)

    def __str__(self) -> str:
        return f"{self.rule}: {self.text}"


def evidence_of(rule: UserRule, limits: Limits, effort: Effort) -> Evidence:
    """The strongest evidence that there is for a rule."""
    wanted = effort.bounds.rule_tests
    also: Mapping[str, float] = {}
    trials = try_rule(rule, limits, effort, wanted if rule.native is not None else 1 if rule.holds is not None else 0)
    if rule.holds is not None and not trials.satisfied and not trials.problem and not trials.difference:
        known = condition_of(rule, effort)
        if known is False:
            return Evidence(rule.name, Standing.REJECTED, "no input satisfies its condition: it would say nothing")
        if isinstance(known, Mapping):
            also = known
            trials = try_rule(rule, limits, effort, wanted, also)
        if not trials.satisfied and not trials.problem:
            return Evidence(
                rule.name, Standing.REJECTED, "no input was found that satisfies its condition: it would say nothing"
            )
    if trials.difference:
        return _refuted(rule, trials)
    report = _proof(rule.guarded, limits, effort)
    if report is not None and report.verdict is Verdict.PROVED and (rule.holds is None or trials.satisfied):
        more, first_only = _rests_on(report)
        covered = not any(a.name == "sizes-covered" for a in report.assumptions)
        domain = rule.sides.sizes
        sizes = f"all sizes with {domain}" if domain.symbols else "the sizes that it has"
        text = f"proved for {sizes}" if covered else f"proved for some sizes with {domain}"
        return Evidence(rule.name, Standing.PROVED, text, more, covered, first_only, report)
    if report is not None and report.verdict is Verdict.REFUTED and not unknown_operators(rule):
        return Evidence(rule.name, Standing.REFUTED, f"it is wrong: {_reason(report)}", report=report)
    if rule.native is None:
        trials = try_rule(rule, limits, effort, wanted, also)
    if trials.difference:
        return _refuted(rule, trials)
    solved = (
        None
        if unknown_operators(rule) or not (rule.holds is None or trials.satisfied)
        else equal_elements(rule, effort)
    )
    if solved is not None:
        domain = rule.sides.sizes
        where = (
            f"all sizes with {domain}"
            if domain.symbols
            else "all sizes"
            if solved.everywhere
            else "the sizes that it has"
        )
        return Evidence(
            rule.name,
            Standing.PROVED,
            f"proved by z3 for {where}",
            everywhere=solved.everywhere,
            first_only=solved.indices,
        )
    if not trials.compared:
        why = trials.problem or "no input satisfies its condition"
        return Evidence(rule.name, Standing.UNKNOWN, f"neither proved nor executed: {why}")
    effort.hit("rule_tests")
    where = f" at {'; '.join(trials.sizes)}" if trials.sizes else ""
    how = ", executed as it was given" if trials.native else ""
    text = f"only tested, on {trials.compared} random inputs{where}{how}"
    return Evidence(rule.name, Standing.TESTED, text, first_only=trials.undefined)


def proved_at(
    rule: UserRule, sizes: Mapping[str, int], dtype: tuple[DType, DType] | None, limits: Limits, effort: Effort
) -> bool:
    """True if a rule is proved at these sizes, with this element type in the place of its own."""
    job = rule.guarded
    one = job.at(sizes) if job.at is not None else job
    one = replace(
        one,
        specification=retyped(one.specification, dtype),
        implementation=tuple(retyped(graph, dtype) for graph in one.implementation),
    )
    report = _proof(one, limits, effort)
    if report is not None and report.verdict is Verdict.PROVED:
        return True
    return not unknown_operators(rule) and equal_at(one, effort) is False


def _proof(job: Job, limits: Limits, effort: Effort) -> Refinement | None:
    try:
        return refine_job(job, limits=limits, effort=effort)
    except (TantamountError, ArithmeticError):
        return None


def _rests_on(report: Refinement) -> tuple[tuple[Assumption, ...], bool]:
    more = tuple(a for a in report.assumptions if a.name not in _GRANTED and a.name != "sizes-covered")
    return more, any(a.name not in _SYMMETRIC for a in more)


def _refuted(rule: UserRule, trials: Trials) -> Evidence:
    return Evidence(rule.name, Standing.REFUTED, f"it is wrong: {trials.difference}")


def _reason(report: Refinement) -> str:
    """The difference that refutes a rule, in words of its two sides."""
    found = next((o.reason for o in report.outputs if o.verdict is Verdict.REFUTED and o.reason), "its sides differ")
    found = found.splitlines()[0].partition("does not hold: ")[2] or found.splitlines()[0]
    words = {"in the specification": "on the left", "on rank 0": "on the right"}
    return reduce(lambda text, pair: text.replace(*pair), words.items(), found)
