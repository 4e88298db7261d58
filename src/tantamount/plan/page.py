"""The answer to a plan as a page of HTML that needs nothing else: mesh, stages with their time line, parts, joints."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape

from tantamount.plan.check import check_schedule
from tantamount.plan.flow import flow_of
from tantamount.plan.parts import Plan
from tantamount.plan.result import PartReport, PlanReport
from tantamount.plan.show import runs_of
from tantamount.plan.timeline import timeline_svg
from tantamount.plan.timing import timing_of
from tantamount.verdict import Verdict

__all__ = ["plan_page"]

_STYLE = """
:root { color-scheme: light dark; --line: #8885; --right: #2a7d3f; --wrong: #c22; --open: #a60; }
body { font: 15px/1.45 system-ui, sans-serif; margin: 2rem auto; max-width: 90rem; padding: 0 1rem; }
table { border-collapse: collapse; margin: 0.5rem 0 1.5rem; }
th, td { border-bottom: 1px solid var(--line); padding: 0.2rem 0.8rem 0.2rem 0; text-align: left; vertical-align: top; }
td.number, th.number { text-align: right; font-variant-numeric: tabular-nums; }
.PROVED { color: var(--right); } .REFUTED { color: var(--wrong); } .UNKNOWN { color: var(--open); }
.timeline { overflow-x: auto; background: #fff; } .timeline text { fill: #222; }
.timeline svg { max-width: 100%; height: auto; }
pre { white-space: pre-wrap; } h2 { margin-top: 2rem; }
"""


def plan_page(report: PlanReport) -> str:
    """The page. What a report of another source than a ``plan/1`` file has no stages for is left out."""
    return "\n".join(
        ("<!doctype html>", f'<html lang="en"><meta charset="utf-8"><title>{escape(report.name)}</title>',
         f"<style>{_STYLE}</style>", *_body(report), "</html>", "")
    )  # fmt: skip


def _body(report: PlanReport) -> Iterator[str]:
    ranks, mesh = report.ranks
    mesh = mesh.replace(" x ", " × ")
    up_to = (
        ", ".join(dict.fromkeys(one.name for one in report.approximations)) if report.verdict is Verdict.PROVED else ""
    )
    yield (
        f'<h1><span class="{report.verdict.value}">{report.verdict.value}</span>'
        f"{f' up to {escape(up_to)}' if up_to else ''} {escape(report.name)}</h1>"
    )
    yield (
        f"<p>{ranks} ranks ({escape(mesh)}), {report.microbatches} microbatches, {report.pieces} pieces on "
        f"{report.stages} stages, {escape(report.schedule_name)}</p>"
    )
    for one in report.approximations:
        yield f"<p>Up to {escape(one.name)}, {escape(one.part)}: {escape(one.text)}.</p>"
    yield from (f"<p>Holds as well {escape(sentence)}.</p>" for sentence in report.holds)
    yield "<h2>Parts</h2>"
    yield from _table(
        ("part", "verdict", "pieces", "ranks", "operators stood for", "CPU s"),
        [
            (part.part, part.verdict.value, f"{part.count}", f"{part.ranks}", f"{part.nodes:,}", f"{part.seconds:.2f}")
            for part in report.parts
        ],
        numbers=2,
    )
    for part in report.parts:
        if part.verdict is not Verdict.PROVED:
            yield from _wrong(part)
    if report.subject is not None:
        yield from _stages(report.subject, report)
    yield "<h2>Joints</h2>"
    joints = sorted(report.joints, key=lambda joint: not joint.problem)
    yield from _table(
        ("tensor", "from", "to", "relation", "times", "problem"),
        [(j.tensor, j.source, j.target, j.relation, f"{j.count}", j.problem) for j in joints],
    )
    yield "<h2>Assuming that</h2><ul>"
    yield from (f"<li>{escape(assumption.text)}</li>" for assumption in report.assumptions)
    yield "</ul>"
    yield from (f"<p>Note: {escape(note)}</p>" for note in report.notes)
    yield f"<p>{sum(report.seconds.values()):.1f} CPU s, {report.megabytes:.0f} MB</p>"


def _stages(plan: Plan, report: PlanReport) -> Iterator[str]:
    schedule = plan.schedule
    flow = flow_of(schedule)
    kept: Sequence[int] = ()
    yield "<h2>Stages and schedule</h2>"
    for problems in (report.ownership, report.schedule):
        yield from (f'<p class="REFUTED">{escape(problem)}</p>' for problem in problems[:_SHOWN])
        if len(problems) > _SHOWN:
            yield f'<p class="REFUTED">and {len(problems) - _SHOWN} more</p>'
    if not flow.cycle:
        timing = timing_of(schedule, flow)
        kept = timing.kept
        marked = frozenset(str(one.action) for one in check_schedule(schedule, flow) if one.action is not None)
        yield f'<div class="timeline">{timeline_svg(timing, marked)}</div>'
    rows: list[tuple[str, ...]] = []
    for stage, pieces in enumerate(plan.stages):
        device = schedule.owners[stage] if stage < len(schedule.owners) else -1
        most = f"{kept[device]}" if 0 <= device < len(kept) else ""
        rows.append((f"{stage}", f"{device}" if device >= 0 else "none", ", ".join(runs_of(pieces)), most))
    yield from _table(("stage", "device", "pieces", "passes whose activations the device keeps at most"), rows)


_SHOWN = 8  # problems of stages, and of the schedule


def _wrong(part: PartReport) -> Iterator[str]:
    yield f'<h3 class="{part.verdict.value}">{escape(part.part)}</h3>'
    if part.reduced:
        yield f"<p>It was {escape(part.reduced)}; ranks are those of that form.</p>"
    found = part.mismatch
    if found is not None:
        source = found.implementation_source or found.specification_source
        place = "" if source is None else f"\n{source.file}:{source.line} in {source.function}: {source.text}"
        more = found.difference if found.headline not in ("", found.difference) else ""
        texts = (found.headline or found.difference, more, found.hint)
        yield f"<pre>{escape(chr(10).join(text for text in texts if text) + place)}</pre>"
    if part.counterexample is not None:
        shown = part.counterexample
        where = f" ({escape(part.where)})" if part.where else ""
        at = f"[{', '.join(map(str, shown.element))}]" if shown.element else ""
        yield (
            f"<p>Executed: {escape(shown.output)}{at} is {shown.expected:g} by the "
            f"specification, and {shown.actual:g} by what rank {shown.rank}{where} holds.</p>"
        )
    for output in part.outputs:
        if output.verdict is not Verdict.PROVED:
            yield f"<p>{escape(output.name)}: {output.verdict.value}: {escape(output.reason)}</p>"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]], numbers: int | None = None) -> Iterator[str]:
    """A table; columns from ``numbers`` on are numbers."""

    def kind(column: int) -> str:
        return ' class="number"' if numbers is not None and column >= numbers else ""

    yield "<table><tr>" + "".join(f"<th{kind(k)}>{escape(text)}</th>" for k, text in enumerate(head)) + "</tr>"
    for row in rows:
        cells = (
            f'<td class="{text}">{text}</td>' if text in ("PROVED", "REFUTED", "UNKNOWN")
            else f"<td{kind(k)}>{escape(text)}</td>"
            for k, text in enumerate(row)
        )  # fmt: skip
        yield f"<tr>{''.join(cells)}</tr>"
    yield "</table>"
