"""The report as text: the verdict first, then what a reader needs to believe it or to act on it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tantamount.ir.graph import Source
from tantamount.report.lines import Line, Span, Style, listed, middle, paragraph, plain
from tantamount.report.values import number, shape_of, shortened
from tantamount.verdict import (
    Assumption,
    Counterexample,
    Mismatch,
    OutputReport,
    Relation,
    Report,
    Statistics,
    Verdict,
)

__all__ = ["STYLE_OF", "render", "text"]

STYLE_OF = {
    Verdict.PROVED: Style.GOOD,
    Verdict.REFUTED: Style.BAD,
    Verdict.UNKNOWN: Style.OPEN,
    Verdict.VACUOUS: Style.OPEN,
}
_WIDTH = 200  # of an expression, unless verbose
_PLACES = 3  # of an assumption, unless verbose
_BLANK: Line = ()


def text(report: Report, *, verbose: bool = False) -> str:
    """The report as plain text, every line ended by a newline."""
    return plain(render(report, verbose=verbose))


def render(report: Report, *, verbose: bool = False) -> tuple[Line, ...]:
    """The report as styled lines. ``verbose`` adds every place, the relation per operator, and the statistics."""
    sections = [
        _headline(report),
        _outputs(report, verbose),
        _mismatch(report.mismatch) if report.mismatch is not None else [],
        _counterexample(report.counterexample) if report.counterexample is not None else [],
        _assumptions(report, verbose),
        _titled("Notes", [row for note in report.notes for row in _bullet(note)]),
        _relations(report.relations) if verbose else [],
        _statistics(report.statistics) if verbose else [],
    ]
    lines: list[Line] = []
    for section in sections:
        if section and lines:
            lines.append(_BLANK)
        lines += section
    return tuple(lines)


def _titled(title: str, body: Sequence[Line]) -> list[Line]:
    return [(Span(title, Style.HEADING),), *body] if body else []


def _bullet(note: str) -> list[Line]:
    first, *rest = note.splitlines() or [""]
    return [(Span(f"  - {first}"),), *(line for row in rest for line in paragraph(row, 4))]


# ------------------------------------------------------------------------------------------------ headline, outputs
def _headline(report: Report) -> list[Line]:
    return [
        (Span(report.verdict.value, STYLE_OF[report.verdict]), Span(f"  {report.job}   "), Span(_summary(report))),
    ]


def _summary(report: Report) -> str:
    if report.verdict is Verdict.VACUOUS and not report.outputs:
        return "nothing was checked"
    chosen = [output for output in report.outputs if output.verdict is report.verdict]
    if not chosen:
        return ""
    more = f" and {len(chosen) - 1} more" if len(chosen) > 1 else ""
    first = chosen[0]
    if report.verdict is Verdict.PROVED and first.relation is not None:
        return middle(f"{first.name} = {first.relation.expression}", _WIDTH) + more
    return middle(f"{first.name}{more}: {_why(first)}", _WIDTH)


def _why(output: OutputReport) -> str:
    rows = output.reason.splitlines()
    return rows[0] if rows else "no reason was recorded"


def _checked(report: Report) -> str:
    checked, total = len(report.outputs), report.outputs_total
    if checked < total:
        return f"{checked} of {total} outputs checked"
    return "1 output, checked" if total == 1 else f"{total} outputs, all checked"


def _outputs(report: Report, verbose: bool) -> list[Line]:
    width = max((len(output.verdict.value) for output in report.outputs), default=0)
    lines: list[Line] = [(Span(_checked(report), Style.HEADING),)]
    for output in report.outputs:
        verdict = Span(f"  {output.verdict.value:<{width}}", STYLE_OF[output.verdict])
        lines.append((verdict, Span("  " + _statement(output, verbose))))
        indent = width + 4
        if output.verdict is not Verdict.PROVED:
            lines += paragraph(output.reason, indent)
        lines += [line for note in output.notes for line in paragraph(f"note: {note}", indent, Style.OPEN)]
    return lines


def _statement(output: OutputReport, verbose: bool) -> str:
    """The output's relation, and how it compares with what the job wanted."""
    wanted = output.expectation
    if output.relation is None:
        return f"{output.name}: {'no relation found' if wanted == 'infer' else f'expected {wanted}'}"
    relation = str(output.relation)
    relation = relation if verbose else middle(relation, _WIDTH)
    if wanted == "infer":
        return f"{relation}   (inferred)"
    if output.verdict is Verdict.PROVED:
        return f"{relation}   (as expected)"
    about = output.relation.implementation
    other = f" of {about}" if about and about != output.name and not relation.endswith(f" of {about}") else ""
    return f"{output.name}: expected {wanted}, but what holds is {relation}{other}"


# ------------------------------------------------------------------------------------------------ what went wrong
def _place(source: Source | None) -> str:
    if source is None:
        return ""
    code = source.text.strip() if source.file else ""
    return f"   {source}" + (f"  `{code}`" if code else "")


def _mismatch(mismatch: Mismatch) -> list[Line]:
    lines: list[Line] = [
        (
            Span("  specification   ", Style.QUIET),
            Span(f"{mismatch.specification} = {mismatch.operator}"),
            Span(_place(mismatch.specification_source), Style.QUIET),
        )
    ]
    if mismatch.implementation:
        operator = f" = {mismatch.implementation_operator}" if mismatch.implementation_operator else ""
        rank = f" on rank {mismatch.rank}" if mismatch.rank is not None else ""
        lines.append(
            (
                Span("  implementation  ", Style.QUIET),
                Span(f"{mismatch.implementation}{operator}{rank}"),
                Span(_place(mismatch.implementation_source), Style.QUIET),
            )
        )
    else:
        lines.append((Span("  implementation  ", Style.QUIET), Span("no tensor comes near")))
    lines += paragraph(mismatch.difference, 2, Style.BAD)
    lines += [line for equation in mismatch.equations for line in paragraph(equation, 4)]
    return _titled("First operator without a counterpart", lines)


def _counterexample(found: Counterexample) -> list[Line]:
    element = f"[{', '.join(map(str, found.element))}]" if found.element else ""
    width = max((len(name) for name in found.inputs), default=0)
    lines: list[Line] = []
    for name, value in found.inputs.items():
        shape = "x".join(map(str, shape_of(value))) or "scalar"
        lines.append((Span(f"  {name:<{width}} = "), Span(shortened(value)), Span(f"   ({shape})", Style.QUIET)))
    expected, actual = number(found.expected), number(found.actual)
    lines.append((Span(f"  {found.output}{element}: expected {expected}, rank {found.rank} has {actual}", Style.BAD),))
    if found.sizes:
        changes = [f"{old} -> {' or '.join(map(str, new))}" for old, new in sorted(found.sizes.items(), reverse=True)]
        lines += paragraph(f"at reduced sizes: {', '.join(changes)}", 2)
    return _titled(f"Counterexample: both programs were executed on this input (seed {found.seed})", lines)


# ------------------------------------------------------------------------------------------------ what it rests on
def _assumptions(report: Report, verbose: bool) -> list[Line]:
    width = max((len(assumption.name) for assumption in report.assumptions), default=0)
    lines = [line for one in report.assumptions for line in _assumption(one, width, verbose)]
    if not report.assumptions and report.verdict is Verdict.PROVED:
        lines = paragraph("none", 2)
    refused = _titled("Refused by --strict", [row for name in report.refused for row in _bullet(name)])
    return [*_titled("Assumptions", lines), *([_BLANK] if lines and refused else []), *refused]


def _assumption(assumption: Assumption, width: int, verbose: bool) -> Iterable[Line]:
    places = listed(assumption.places, len(assumption.places) if verbose else _PLACES)
    at = Span(f"   at {places}", Style.QUIET) if places else Span("")
    first, *rest = assumption.text.splitlines() or [""]
    yield (Span(f"  {assumption.name:<{width}}  "), Span(first), at)
    for row in rest:
        yield from paragraph(row, width + 4)


# ------------------------------------------------------------------------------------------------ verbose
def _relations(relations: Sequence[Relation]) -> list[Line]:
    lines: list[Line] = [(Span(f"  {relation}"), Span(_place(relation.source), Style.QUIET)) for relation in relations]
    return _titled("Relation of every specification tensor that has one", lines)


def _statistics(found: Statistics) -> list[Line]:
    ranks = f"{found.ranks} rank{'s' if found.ranks != 1 else ''}"
    folded = " folded into mesh axes" if found.folded else " one by one" if found.ranks > 1 else ""
    total = sum(found.seconds.values())
    phases = ", ".join(f"{phase} {seconds:.2f}" for phase, seconds in found.seconds.items())
    nodes = f"specification {found.specification_nodes}, implementation {found.implementation_nodes}"
    rows = (
        f"nodes    {nodes} ({ranks}{folded})",
        f"atoms    {found.atoms}",
        f"terms    {found.terms}",
        f"seconds  {total:.2f} CPU" + (f" ({phases})" if phases else ""),
        f"memory   {found.peak_memory_bytes / 2**20:.0f} MiB at most",
    )
    return _titled("Statistics", [line for row in rows for line in paragraph(row, 2)])
