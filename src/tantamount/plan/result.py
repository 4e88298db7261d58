"""The answer to a plan: plain data, that can show itself as text and as JSON values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import prod
from typing import Any

from tantamount.plan.joints import Joint
from tantamount.plan.parts import Approximation, Plan
from tantamount.plan.timing import Timing, costs, said_of
from tantamount.verdict import Assumption, Counterexample, Mismatch, OutputReport, Verdict

__all__ = ["PartReport", "PlanReport"]

_SHOWN = 12  # problems of one kind that are printed


@dataclass(frozen=True)
class PartReport:
    """The findings about one part. ``count``: for how many pieces it stands; ``nodes``: operators of all ranks, in all
    pieces and microbatches, that it stands for; ``seconds`` of CPU. ``reduced`` says in one clause at which smaller
    shapes a part that is not proved was looked at, ``where`` which microbatch, and which place of the mesh, the rank
    of the counterexample is."""

    part: str
    verdict: Verdict
    outputs: tuple[OutputReport, ...]
    assumptions: tuple[Assumption, ...]
    count: int
    ranks: int
    nodes: int
    seconds: float
    mismatch: Mismatch | None = None
    counterexample: Counterexample | None = None
    notes: tuple[str, ...] = ()
    reduced: str = ""
    where: str = ""


@dataclass(frozen=True)
class PlanReport:
    """The whole answer. ``parts`` in the order in which they run; ``joints`` those of the model, then those of what
    comes after it; ``ownership`` and ``schedule`` are sentences about pieces that do not have exactly one stage, and
    about the schedule. ``holds`` are sentences about other plans that are right as well, if this one is proved.
    ``approximations`` are those that the verdict is up to, ``accepted`` the names of those that are allowed.
    ``names`` are those of parameters, with the stage that has them. ``seconds`` is CPU time by phase; ``subject`` the
    plan, where it was a ``plan/1`` file. ``timing`` is what its schedule costs, if it has an end."""

    plan: str
    name: str
    verdict: Verdict
    mesh: Mapping[str, int]
    microbatches: int
    pieces: int
    stages: int
    schedule_name: str
    parts: tuple[PartReport, ...]
    joints: tuple[Joint, ...]
    ownership: tuple[str, ...]
    schedule: tuple[str, ...]
    assumptions: tuple[Assumption, ...]
    notes: tuple[str, ...]
    seconds: Mapping[str, float]
    megabytes: float
    holds: tuple[str, ...] = ()
    approximations: tuple[Approximation, ...] = ()
    accepted: tuple[str, ...] = ()
    stage_ranks: tuple[int, ...] = ()  # of every device, where they are not as many as the mesh says
    names: tuple[tuple[int, str], ...] = ()
    subject: Plan | None = field(default=None, repr=False, compare=False)
    timing: Timing | None = field(default=None, repr=False, compare=False)

    @property
    def refused(self) -> tuple[Approximation, ...]:
        """The approximations that a verdict of PROVED is up to and that are not accepted."""
        return tuple(one for one in self.approximations if one.name not in self.accepted)

    @property
    def ranks(self) -> tuple[int, str]:
        """The number of ranks, and the sizes of their mesh as text; or those of every device."""
        if self.stage_ranks:
            return sum(self.stage_ranks), f"on devices of {', '.join(map(str, self.stage_ranks))}"
        return prod(self.mesh.values()), " x ".join(f"{axis} {size}" for axis, size in self.mesh.items()) or "one rank"

    @property
    def exit_code(self) -> int:
        """That of the verdict; of what is proved up to approximations that are not accepted, that of UNKNOWN."""
        known = self.verdict is not Verdict.PROVED or self.proved
        return self.verdict.exit_code if known else Verdict.UNKNOWN.exit_code

    @property
    def proved(self) -> bool:
        """True if the verdict is PROVED, and all approximations that it is up to are accepted."""
        return self.verdict is Verdict.PROVED and not self.refused

    def __str__(self) -> str:
        return self.text().rstrip("\n")

    def text(self, *, verbose: bool = False) -> str:
        """The report as the command line prints it; ``verbose``: with every joint and every output."""
        return "\n".join(_lines(self, verbose)) + "\n"

    def document(self) -> dict[str, Any]:
        """The report as values that JSON has (``plan-report/1``)."""
        return {
            "format": "plan-report/1",
            "plan": self.plan,
            "name": self.name,
            "verdict": self.verdict.value,
            "mesh": dict(self.mesh),
            **({"stage_ranks": list(self.stage_ranks)} if self.stage_ranks else {}),
            "microbatches": self.microbatches,
            "pieces": self.pieces,
            "stages": self.stages,
            "parts": [_part(part) for part in self.parts],
            "joints": [
                {
                    "tensor": joint.tensor, "source": joint.source, "target": joint.target,
                    "relation": joint.relation, "count": joint.count, "problem": joint.problem,
                }
                for joint in self.joints
            ],
            "ownership": list(self.ownership),
            **({"parameters": [{"stage": stage, "name": name} for stage, name in self.names]} if self.names else {}),
            "schedule": {
                "name": self.schedule_name, "problems": list(self.schedule),
                **({} if self.timing is None else costs(self.timing)),
            },
            "assumptions": [{"name": a.name, "text": a.text} for a in self.assumptions],
            "notes": list(self.notes),
            "holds": list(self.holds),
            "approximations": [
                {"name": one.name, "part": one.part, "text": one.text, "accepted": one.name in self.accepted}
                for one in self.approximations
            ],
            "seconds": {phase: round(seconds, 3) for phase, seconds in self.seconds.items()},
            "megabytes": round(self.megabytes, 1),
        }  # fmt: skip


def _part(part: PartReport) -> dict[str, Any]:
    found: dict[str, Any] = {
        "part": part.part,
        "verdict": part.verdict.value,
        "pieces": part.count,
        "ranks": part.ranks,
        "nodes": part.nodes,
        "seconds": round(part.seconds, 3),
        "outputs": [
            {
                "name": output.name, "verdict": output.verdict.value,
                "relation": None if output.relation is None else output.relation.expression,
                "expectation": output.expectation, "reason": output.reason, "notes": list(output.notes),
            }
            for output in part.outputs
        ],
        "notes": list(part.notes),
    }  # fmt: skip
    if part.reduced:
        found["reduced"] = part.reduced
    if part.mismatch is not None:
        found["mismatch"] = {
            "specification": part.mismatch.specification,
            "operator": part.mismatch.operator,
            "implementation": part.mismatch.implementation,
            "headline": part.mismatch.headline,
            "difference": part.mismatch.difference,
            "hint": part.mismatch.hint,
            "kind": part.mismatch.kind,
        }
    if part.counterexample is not None:
        shown = part.counterexample
        found["counterexample"] = {
            "output": shown.output, "element": list(shown.element), "expected": shown.expected,
            "actual": shown.actual, "rank": shown.rank, "where": part.where,
        }  # fmt: skip
    return found


def _lines(report: PlanReport, verbose: bool) -> list[str]:
    ranks, mesh = report.ranks
    up_to = (
        f" up to {', '.join(dict.fromkeys(one.name for one in report.approximations))}"
        if report.verdict is Verdict.PROVED
        else ""
    )
    verdict = report.verdict.value + (up_to if report.approximations else "")
    rows = [
        f"{verdict}  {report.name}   {ranks} ranks ({mesh}), {report.microbatches} microbatches, "
        f"{report.pieces} pieces on {report.stages} stages, {report.schedule_name}",
        "",
    ]
    wide = max(8, *(len(part.verdict.value) for part in report.parts)) if report.parts else 8
    name = max(20, *(len(part.part) for part in report.parts)) if report.parts else 20
    rows += [
        f"  {'part':<{name}} {'verdict':<{wide}} {'pieces':>6} {'ranks':>8} {'operators stood for':>20} {'CPU s':>7}"
    ]
    for part in report.parts:
        rows.append(
            f"  {part.part:<{name}} {part.verdict.value:<{wide}} {part.count:>6} {part.ranks:>8} {part.nodes:>20,} "
            f"{part.seconds:>7.2f}"
        )
    rows += ["", *(row for part in report.parts for row in _why(part, verbose))]
    wrong = [joint for joint in report.joints if joint.problem]
    total = sum(joint.count for joint in report.joints)
    rows.append(
        f"  joints     {total}, of {len(report.joints)} kinds" + (f"; {len(wrong)} do not fit" if wrong else "")
    )
    for joint in wrong[: None if verbose else _SHOWN]:
        rows.append(f"    {joint.mistake}")
    if verbose:
        for joint in report.joints:
            if not joint.problem:
                often = f"   ({joint.count} times)" if joint.count > 1 else ""
                rows.append(f"    {joint.tensor}: {joint.source} -> {joint.target}: {joint.relation}{often}")
    for what, problems in (("stages", report.ownership), ("schedule", report.schedule)):
        rows.append(f"  {what:<10} {'right' if not problems else 'WRONG'}")
        shown = problems if verbose else problems[:_SHOWN]
        rows += [f"    {problem}" for problem in shown]
        if len(shown) < len(problems):
            rows.append(f"    and {len(problems) - len(shown)} more")
        if what == "schedule" and report.timing is not None:
            rows.append(f"    {said_of(report.timing)}")
        if what == "stages" and verbose:
            rows += _of_stages(report)
    if report.approximations and report.verdict is Verdict.PROVED:
        rows += ["", "  up to approximations that are declared"]
        for one in report.approximations:
            accepted = "accepted" if one.name in report.accepted else f"not accepted (--accept {one.name})"
            rows.append(f"    {one.name}, {one.part}: {one.text}; {accepted}")
    if report.holds:
        rows += ["", "  holds as well", *(f"    {sentence}" for sentence in report.holds)]
    if report.assumptions:
        rows += ["", "  assuming that"]
        rows += [f"    {assumption.text}" for assumption in report.assumptions]
    rows += [f"  note: {note}" for note in report.notes]
    seconds = ", ".join(f"{phase} {took:.2f}" for phase, took in report.seconds.items())
    rows += ["", f"  {sum(report.seconds.values()):.1f} CPU s ({seconds}), {report.megabytes:.0f} MB"]
    return rows


def _of_stages(report: PlanReport) -> list[str]:
    """Lines that say which parameters are on which stage."""
    own: dict[int, list[str]] = {}
    for stage, name in report.names:
        own.setdefault(stage, []).append(name)
    return [f"    stage {stage}: {', '.join(names)}" for stage, names in own.items()]


def _why(part: PartReport, verbose: bool) -> list[str]:
    """Lines that say what is wrong with a part, or what was proved of it."""
    rows: list[str] = []
    right = (Verdict.PROVED, Verdict.EQUAL_REDUCED)
    open_ = [output for output in part.outputs if output.verdict not in right]
    for output in part.outputs if verbose else open_[:1]:
        if output.verdict in right:
            rows.append(f"    {output.name} = {output.expectation}")
        else:
            reason = output.reason.replace("\n", "\n      ")
            rows.append(f"    {output.name}: {output.verdict.value}: {reason}")
    if len(open_) > 1 and not verbose:
        rows.append(f"    as are {', '.join(output.name for output in open_[1:])}")
    if part.mismatch is not None:
        found = part.mismatch
        rows.append("    " + (found.headline or found.difference).replace("\n", "\n      "))
        for whose, node, source in (
            ("the specification", found.specification, found.specification_source),
            ("the implementation", found.implementation, found.implementation_source),
        ):
            if node:
                line = (
                    f", {source.file}:{source.line} in {source.function}: {source.text}" if source is not None else ""
                )
                rows.append(f"      {node} of {whose}{line}")
        texts = (found.difference if found.headline not in ("", found.difference) else "", found.hint)
        rows += ["      " + text.replace("\n", "\n      ") for text in texts if text]
    if part.counterexample is not None:
        shown = part.counterexample
        at = f"[{', '.join(map(str, shown.element))}]" if shown.element else ""
        rows.append(
            f"    executed: {shown.output}{at} is {shown.expected:g} by the specification, and {shown.actual:g} by "
            f"what rank {shown.rank}{f' ({part.where})' if part.where else ''} holds"
        )
    rows += [f"    {note}" for note in part.notes]
    if not rows:
        return []
    return [f"  {part.part}" + (f" ({part.reduced})" if part.reduced else ""), *rows, ""]
