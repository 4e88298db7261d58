"""A verdict with the help of rules that a user gives, where there is none without.

Rules are tried only on what is UNKNOWN without them; and those about operators of which nothing but labels is known on
what such an operator, being any function, has refuted. Both programs are rewritten, then the first alone, then the
second alone (where the right side contains the left side, one of these may make both alike): with the rules that
are proved, and then with those that were tested, too. What a rewritten job does not prove says nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from tantamount.effort import Effort, Stopped, stopping
from tantamount.errors import TantamountError
from tantamount.ir.graph import Graph
from tantamount.ir.job import Job, UserRule
from tantamount.limits import Limits
from tantamount.ops.calls import operator_of
from tantamount.refinement import Refinement
from tantamount.rewriting.apply import Rewritten, Use, rewritten
from tantamount.rewriting.evidence import Evidence, Standing, evidence_of
from tantamount.rewriting.match import Pattern
from tantamount.rewriting.trials import unknown_operators
from tantamount.verdict import Assumption, Verdict

__all__ = ["TESTED", "with_rules"]

TESTED = "tested-rules"
_SIDES = ((True, True), (True, False), (False, True))
_SHOWN = 4  # places of a rule's use


@dataclass
class _Known:
    """The evidence of rules, gathered when a rule occurs for the first time."""

    limits: Limits
    effort: Effort
    found: dict[str, Evidence]

    def __call__(self, rule: UserRule) -> Evidence:
        if rule.name not in self.found:
            self.found[rule.name] = evidence_of(rule, self.limits, self.effort)
        return self.found[rule.name]


def with_rules(
    found: Refinement,
    job: Job,
    rules: Sequence[UserRule],
    again: Callable[[Job], Refinement],
    *,
    limits: Limits,
    effort: Effort,
    accept_tested: bool,
    strict: bool = False,
    known: Mapping[str, Evidence] | None = None,
) -> Refinement:
    """The report, or that on a rewritten job which is proved: ``again`` refines one. A proof with rules that were only
    tested is UNKNOWN, with ``tested-rules`` refused, unless ``accept_tested``; with ``strict``, so is one with anything
    that is assumed. A refutation of what was UNKNOWN is none either where rules that were only tested led to it. Notes
    say which rules were used, and why others were not. ``known`` is the evidence of rules of which there is some
    already."""
    if found.stopped or not rules:
        return found
    if found.verdict is Verdict.REFUTED:
        rules = _about_unknown(rules)
        if not rules:
            return found
    elif found.verdict is not Verdict.UNKNOWN:
        return found
    if job.at is not None:
        return replace(found, notes=(*found.notes, "rules are not applied to programs with size symbols"))
    try:
        with stopping(effort):
            return _settled(found, job, rules, again, _Known(limits, effort, dict(known or {})), accept_tested, strict)
    except Stopped as stop:
        return replace(found, notes=(*found.notes, f"{stop} while rules were tried"), stopped=stop.limit)


def _settled(
    found: Refinement,
    job: Job,
    rules: Sequence[UserRule],
    again: Callable[[Job], Refinement],
    known: _Known,
    accept_tested: bool,
    strict: bool,
) -> Refinement:
    """The report with the help of rules. Raises :class:`Stopped` where time or memory are used up."""
    limits, effort = known.limits, known.effort
    patterns = [Pattern.of(rule) for rule in rules]
    refused: dict[str, str] = {}
    occurring: set[str] = set()
    last: Refinement | None = None
    for tested in (False, True):
        refused.clear()

        def usable(rule: UserRule, tested: bool = tested) -> Evidence:
            evidence = known(rule)
            occurring.add(rule.name)
            if evidence.standing is Standing.TESTED and not tested:
                return replace(evidence, standing=Standing.UNKNOWN)
            return evidence

        for one, uses in _rewritings(job, patterns, usable, refused, limits, effort):
            if tested and not any(known.found[use.rule].standing is Standing.TESTED for use in uses):
                continue
            try:
                report = again(one)
            except TantamountError:
                continue
            if report.verdict is Verdict.PROVED:
                return _with_uses(report, found, uses, known.found, accept_tested, strict)
            refuted = Verdict.REFUTED in (found.verdict, report.verdict)
            if last is None and refuted and not _unknown_in(one):
                last = _with_uses(report, found, uses, known.found, accept_tested, strict)
    if last is not None:
        return last
    return replace(found, notes=(*found.notes, *_unused(rules, occurring, refused, known.found)))


def _about_unknown(rules: Sequence[UserRule]) -> list[UserRule]:
    """The rules that say something of an operator of which only labels are known. What refutes a job with such an
    operator is a function that stands in for it, for which the rule need not hold."""
    return [rule for rule in rules if unknown_operators(rule)]


def _unknown_in(job: Job) -> bool:
    return any(
        node.op == "call" and node.target != "getitem" and operator_of(graph, node).opaque
        for graph in (job.specification, *job.programs)
        for node in graph.nodes
    )


def _rewritings(
    job: Job,
    patterns: Sequence[Pattern],
    known: Callable[[UserRule], Evidence],
    refused: dict[str, str],
    limits: Limits,
    effort: Effort,
) -> Iterator[tuple[Job, tuple[Use, ...]]]:
    """The rewritten jobs, each another one, with the uses of rules in them."""
    groups = {group: job.mesh.group_size(group) for group in job.mesh.groups}

    def apply(graph: Graph, sizes: Mapping[str, int] | None, first: bool) -> tuple[Graph, tuple[Use, ...]]:
        uses: list[Use] = []
        done: set[Use] = set()
        for _ in range(effort.bounds.rewriting_rounds):
            step: Rewritten = rewritten(
                graph, sizes, patterns, known, first=first, limits=limits, effort=effort, done=frozenset(done)
            )
            refused.update(step.refused)
            if not step.uses:
                break
            graph = step.graph
            uses += step.uses
            done |= {*step.uses, *step.made}
        else:
            effort.hit("rewriting_rounds")
        return graph, tuple(uses)

    specification = apply(job.specification, None, True)
    programs = [apply(graph, groups, False) for graph in job.programs]
    theirs = tuple(use for _, uses in programs for use in uses)
    seen: set[tuple[bool, bool]] = set()
    for first, second in _SIDES:
        here = (first and bool(specification[1]), second and bool(theirs))
        if here in seen or not any(here):
            continue
        seen.add(here)
        one = replace(
            job,
            specification=specification[0] if here[0] else job.specification,
            implementation=job.on_ranks([graph for graph, _ in programs]) if here[1] else job.implementation,
            record=None,
            rules=(),
        )
        yield one, (*(specification[1] if here[0] else ()), *(theirs if here[1] else ()))


def _with_uses(
    report: Refinement,
    before: Refinement,
    uses: Sequence[Use],
    known: Mapping[str, Evidence],
    accept_tested: bool,
    strict: bool,
) -> Refinement:
    """The report on a rewritten job, with what it rests on."""
    used = list(dict.fromkeys(use.rule for use in uses))
    tested = [name for name in used if known[name].standing is Standing.TESTED]
    more = [
        replace(assumption, text=f"{assumption.text} (rule {name})")
        for name in used
        for assumption in known[name].assumptions
    ]
    if tested:
        text = "; ".join(str(known[name]) for name in tested)
        places = tuple(use.node for use in uses if use.rule in tested)
        more.append(Assumption(TESTED, f"rules that are not proved hold: {text}", places[:_SHOWN]))
    notes = [_told(name, known[name], uses) for name in used]
    found = replace(
        report,
        job=before.job,
        assumptions=tuple(dict.fromkeys((*report.assumptions, *more))),
        notes=(*report.notes, *notes),
        subject=None,
        in_pieces=False,
    )
    if found.verdict is not Verdict.PROVED:
        if found.verdict is before.verdict or not tested or accept_tested:
            return found
        note = f"REFUTED up to tested rules {', '.join(tested)}; --accept-tested takes them as they are"
        return replace(found, verdict=Verdict.UNKNOWN, refused=(TESTED,), notes=(note, *found.notes))
    if strict and more:
        return replace(found, verdict=Verdict.UNKNOWN, refused=tuple(dict.fromkeys(one.name for one in more)))
    if not tested or accept_tested:
        return found
    note = f"PROVED up to tested rules {', '.join(tested)}; --accept-tested takes them as they are"
    return replace(found, verdict=Verdict.UNKNOWN, refused=(TESTED,), notes=(note, *found.notes))


def _told(name: str, evidence: Evidence, uses: Sequence[Use]) -> str:
    places = [node for node, _ in Counter(use.node for use in uses if use.rule == name).items()]
    more = f" and {len(places) - _SHOWN} more" if len(places) > _SHOWN else ""
    return f"rule {name} ({evidence.text}) was used at {', '.join(places[:_SHOWN])}{more}"


def _unused(
    rules: Sequence[UserRule], occurring: set[str], refused: Mapping[str, str], known: Mapping[str, Evidence]
) -> Iterator[str]:
    for rule in rules:
        if rule.name not in occurring:
            yield f"rule {rule.name} was not used: its left side does not occur"
        elif rule.name in refused:
            yield f"rule {rule.name} was not used: {refused[rule.name]}"
        else:
            yield f"rule {rule.name} ({known[rule.name].text}) did not help"
