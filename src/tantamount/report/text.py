"""The report as text: the verdict first, then what a reader needs to believe it or to act on it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tantamount.ir.graph import Source
from tantamount.report.elementwise import elementwise
from tantamount.report.lines import Line, Span, Style, cut, listed, middle, paragraph, plain
from tantamount.report.values import is_zero, pair, shape_of, shortened, sparse
from tantamount.verdict import (
    Assumption,
    Counterexample,
    Mismatch,
    OutputReport,
    Relation,
    Report,
    Verdict,
)

__all__ = ["STYLE_OF", "difference", "disagreement", "render", "summary", "text", "titles_of_refused"]

STYLE_OF = {
    Verdict.PROVED: Style.GOOD,
    Verdict.REFUTED: Style.BAD,
    Verdict.UNKNOWN: Style.OPEN,
    Verdict.VACUOUS: Style.OPEN,
    Verdict.EQUAL_REDUCED: Style.OPEN,
}
_SHOWN_EQUAL = (Verdict.PROVED, Verdict.EQUAL_REDUCED)
_WIDTH = 200  # of an expression, unless verbose
_PLACES = 3  # of an assumption, unless verbose
_OUTPUTS = 12  # of one verdict, unless verbose
_INPUTS = 8  # of a counterexample, unless verbose
_VALUE = 100  # characters of each of them
_NAME = 24  # characters of a tensor's name that relations are aligned behind
_NAMED = 6  # outputs that are not compared
_LIMITS = 6  # that were hit, unless verbose
_SIZES = 6  # of a reduction, unless verbose
_BLANK: Line = ()


def text(report: Report, *, verbose: bool = False) -> str:
    """The report as plain text, every line ended by a newline."""
    return plain(render(report, verbose=verbose))


def render(report: Report, *, verbose: bool = False) -> tuple[Line, ...]:
    """The report as styled lines: what is wrong, where, how, on which input, what to do about it; then the outputs and
    what the verdict rests on. ``verbose`` leaves nothing out, and adds the relation per operator and the statistics."""
    sections = [
        [(Span(f"{_verdict(report)}  ", STYLE_OF[report.verdict]), Span(f"{report.job}   {summary(report)}"))],
        *(_mismatch(report.mismatch, report, verbose) if report.mismatch is not None else []),
        _counterexample(report.counterexample, report.sides[1], verbose) if report.counterexample is not None else [],
        _titled("Hint", paragraph(report.mismatch.hint, 2)) if report.mismatch is not None else [],
        _outputs(report, verbose),
        elementwise(report.elementwise, verbose) if report.elementwise is not None else [],
        _assumptions(report, verbose),
        _titled("Notes", [row for note in report.notes for row in _bullet(note)]),
        _limits(report, verbose),
        _relations(report.weights, "Parameters of the first program, made of those of the second") if verbose else [],
        _relations(report.relations, _EVERY) if verbose else [],
        _statistics(report) if verbose else [],
    ]
    lines: list[Line] = []
    for section in sections:
        if section and lines:
            lines.append(_BLANK)
        lines += section
    return tuple(lines)


def _verdict(report: Report) -> str:
    """The verdict; of what is proved up to approximations that nobody accepted, that it is."""
    if report.refused != ("approximate",):
        return report.verdict.value
    names = [name for one in report.assumptions if one.name == "approximate" for name in one.places]
    return f"PROVED up to {', '.join(names)}"


def summary(report: Report) -> str:
    """One line that says what the verdict is about: the mismatch's headline, or else how its difference begins; and how
    many outputs it is not about."""
    alone = f"   ({len(report.not_compared)} not compared)" if report.not_compared else ""
    return _about(report) + (alone if report.verdict is Verdict.PROVED else "")


def _about(report: Report) -> str:
    if report.refused:
        return f"{_refusal(report)} {', '.join(report.refused)}"
    if report.mismatch is not None and report.mismatch.headline:
        return report.mismatch.headline
    chosen = [output for output in report.outputs if output.verdict is report.verdict]
    if not chosen:
        if report.stopped:
            return next(iter(report.notes), report.stopped)
        return "nothing was checked" if report.verdict is Verdict.VACUOUS else ""
    more = f" and {len(chosen) - 1} more" if len(chosen) > 1 else ""
    first = chosen[0]
    if report.verdict in _SHOWN_EQUAL and first.relation is not None:
        return middle(f"{first.name} = {first.relation.expression}", _WIDTH) + more
    if first.relation is not None and first.verdict is Verdict.REFUTED:
        why = f"expected {first.expectation}, but what holds is {first.relation.expression}"
    else:
        # a mismatch is about the first output that is not proved
        failing = next((output for output in report.outputs if output.verdict is not Verdict.PROVED), None)
        told = report.mismatch.difference if report.mismatch is not None and failing is first else first.reason
        why = next(iter(told.splitlines()), "no reason was recorded")
    if why.startswith(f"{first.name} = "):
        return middle(why, _WIDTH) + (f" ({len(chosen) - 1} more)" if more else "")
    return middle(f"{first.name}{more}: {why}", _WIDTH)


_NOT_ACCEPTED = "nobody accepted"
_ACCEPTABLE = {"relation-guessed", "outputs-unpaired", "tested-rules", "approximate"}  # what an option accepts


def _refusal(report: Report) -> str:
    """The words for who refuses assumptions: ``--strict``, or nobody having accepted them."""
    return _NOT_ACCEPTED if report.refused and _ACCEPTABLE.issuperset(report.refused) else "--strict refuses"


def titles_of_refused(report: Report) -> str:
    """The title above the assumptions that were refused, by whom."""
    return "Not accepted" if _refusal(report) == _NOT_ACCEPTED else "Refused by --strict"


def _titled(title: str, body: Sequence[Line]) -> list[Line]:
    return [(Span(title, Style.HEADING),), *body] if body else []


def _bullet(note: str) -> list[Line]:
    first, *rest = note.splitlines() or [""]
    return [(Span(f"  - {first}"),), *(line for row in rest for line in paragraph(row, 4))]


# ------------------------------------------------------------------------------------------------ outputs
def _checked(report: Report) -> str:
    checked, total = len(report.outputs), report.outputs_total
    if report.not_compared:
        return f"{checked} output{'s' * (checked != 1)} compared; not compared: {listed(report.not_compared, _NAMED)}"
    if checked < total:
        return f"{checked} of {total} outputs checked"
    return "1 output, checked" if total == 1 else f"{total} outputs, all checked"


def _outputs(report: Report, verbose: bool) -> list[Line]:
    """Every output, those that are not proved first."""
    groups = [
        [output for output in report.outputs if output.verdict is verdict]
        for verdict in (Verdict.REFUTED, Verdict.UNKNOWN, Verdict.VACUOUS, Verdict.EQUAL_REDUCED, Verdict.PROVED)
    ]
    groups = [group for group in groups if group]
    counts = [f"{len(group)} {group[0].verdict.value}" for group in groups]
    title = _checked(report) + (f": {', '.join(counts)}" if len(counts) > 1 else "")
    width = max((len(output.verdict.value) for output in report.outputs), default=0)
    notes: dict[str, list[str]] = {}
    for output in report.outputs:
        for note in output.notes:
            notes.setdefault(note, []).append(output.name)
    lines: list[Line] = [(Span(title, Style.HEADING),)]
    for group in groups:
        label = Span(f"  {group[0].verdict.value:<{width}}  ", STYLE_OF[group[0].verdict])
        shown = group if verbose or len(group) <= _OUTPUTS else group[: _OUTPUTS - 2]
        for output in shown:
            statement, *rest = _statement(output, verbose)
            lines.append((label, Span(statement)))
            lines += [line for row in rest for line in paragraph(row, width + 4)]
            own = [note for note in output.notes if verbose or len(notes[note]) == 1]
            lines += [(Span(f"{'':<{width + 4}}note: ", Style.OPEN), Span(note, Style.OPEN)) for note in own]
        if len(shown) < len(group):
            lines.append((label, Span(f"and {len(group) - len(shown)} more (-v lists them)")))
    for note, names in notes.items():
        if len(names) > 1 and not verbose:
            lines.append((Span("  note: ", Style.OPEN), Span(f"{note} ({listed(names, 3)})", Style.OPEN)))
    return lines


def _statement(output: OutputReport, verbose: bool) -> list[str]:
    """The output's relation and how it compares with what the job wanted; why it is not proved. What else is known of
    the reason only if ``verbose``: of one output the mismatch says it."""
    wanted = output.expectation
    rows = output.reason.splitlines() if output.verdict not in _SHOWN_EQUAL else []
    known = output.relation is not None and output.verdict is not Verdict.UNKNOWN  # else it holds in part only
    if output.relation is None or not known:
        if rows and rows[0].startswith(f"{output.name} = "):
            return rows if verbose else rows[:1]
        statement = f"{output.name}: {'no relation found' if wanted == 'infer' else f'expected {wanted}'}"
    else:
        relation = str(output.relation)
        relation = relation if verbose else middle(relation, _WIDTH)
        if wanted == "infer":
            statement = f"{relation}   (inferred)"
        elif output.verdict in _SHOWN_EQUAL:
            statement = f"{relation}   (as expected)"
        else:
            about = output.relation.implementation
            other = f" of {about}" if about and about != output.name and not relation.endswith(f" of {about}") else ""
            statement = f"{output.name}: expected {wanted}, but what holds is {relation}{other}"
    if verbose or not known:
        return [statement, *(rows if verbose else rows[:1])]
    return [statement]


# ------------------------------------------------------------------------------------------------ what went wrong
def _place(source: Source | None) -> str:
    if source is None:
        return ""
    code = source.text.strip() if source.file else ""
    return f"{source}" + (f"  `{code}`" if code else "")


def _side(label: str, what: str, source: Source | None) -> list[Line]:
    """One side's place: the line of code first, where it is known."""
    rows = [row for row in (_place(source), what) if row]
    labels = [label, ""][: len(rows)]
    return [
        (Span(f"  {label:<16}", Style.QUIET), Span(row, Style.QUIET if row == what and len(rows) > 1 else Style.PLAIN))
        for label, row in zip(labels, rows, strict=True)
    ]


def _mismatch(mismatch: Mismatch, report: Report, verbose: bool) -> list[list[Line]]:
    """Lines that say where the two part, and how."""
    near = "no tensor comes near"
    if mismatch.implementation:
        operator = f" = {mismatch.implementation_operator}" if mismatch.implementation_operator else ""
        rank = f" on rank {mismatch.rank}" if mismatch.rank is not None else ""
        near = f"{mismatch.implementation}{operator}{rank}"
    here = f"{mismatch.specification} = {mismatch.operator}" if mismatch.specification else ""
    places = [
        *_side(report.sides[0], here, mismatch.specification_source),
        *_side(report.sides[1], near, mismatch.implementation_source),
    ]
    rows = [line for row in difference(mismatch) for line in paragraph(row, 2, Style.BAD)]
    for equation in mismatch.equations:
        formula = equation.partition(" ")[2].lstrip()
        label = Span(f"    {equation.removesuffix(formula)}")
        rows.append((label, Span(formula if verbose else middle(formula, 2 * _WIDTH))))
    how = "Difference" if report.verdict is Verdict.REFUTED else "How their normal forms differ"
    return [_titled("First operator without a counterpart", places), _titled(how, rows)]


def difference(mismatch: Mismatch) -> list[str]:
    """The difference in words, a row for each line; none if the headline has said it."""
    return [] if mismatch.difference == mismatch.headline else mismatch.difference.splitlines()


def disagreement(found: Counterexample, side: str = "implementation") -> str:
    """The two values that a counterexample shows; ``side`` is what the second program is called."""
    element = f"[{', '.join(map(str, found.element))}]" if found.element else ""
    expected, actual = pair(found.expected, found.actual)
    who = f"rank {found.rank}" if side == "implementation" else f"the {side} program"
    return f"{found.output}{element}: expected {expected}, {who} has {actual}"


def _counterexample(found: Counterexample, side: str, verbose: bool) -> list[Line]:
    lines = paragraph(disagreement(found, side), 2, Style.BAD)
    zeros = {} if verbose else {name: value for name, value in found.inputs.items() if is_zero(value)}
    others = {name: value for name, value in found.inputs.items() if name not in zeros}
    shown = others if verbose or len(others) <= _INPUTS else dict(list(others.items())[: _INPUTS - 2])
    width = max((len(name) for name in shown), default=0)
    for name, value in shown.items():
        size = Span(f"   ({_shape(value)})", Style.QUIET)
        digits = None if verbose else 4
        content = sparse(value, digits=digits) or shortened(value, digits=digits)
        content = content if verbose else cut(content, _VALUE)
        lines.append((Span(f"  {name:<{width}} = "), Span(content), size))
    if len(shown) < len(others):
        lines += paragraph(f"and {len(others) - len(shown)} more inputs (-v shows them)", 2, Style.QUIET)
    if zeros:
        named = listed([f"{name} ({_shape(value)})" for name, value in zeros.items()], _INPUTS)
        lines.append((Span("  0 in "), Span(named)))
    if found.sizes:
        changes = [f"{old} -> {' or '.join(map(str, new))}" for old, new in sorted(found.sizes.items(), reverse=True)]
        sizes = listed(changes, len(changes) if verbose else _SIZES)
        lines.append((Span("  at reduced sizes: "), Span(sizes)))
    return _titled(f"Counterexample: both programs were executed on this input (seed {found.seed})", lines)


def _shape(value: object) -> str:
    return "x".join(map(str, shape_of(value))) or "scalar"


# ------------------------------------------------------------------------------------------------ what it rests on
def _assumptions(report: Report, verbose: bool) -> list[Line]:
    width = max((len(assumption.name) for assumption in report.assumptions), default=0)
    lines = [line for one in report.assumptions for line in _assumption(one, width, verbose)]
    if not report.assumptions and report.verdict is Verdict.PROVED:
        lines = paragraph("none", 2)
    refused = _titled(titles_of_refused(report), [row for name in report.refused for row in _bullet(name)])
    return [*_titled("Assumptions", lines), *([_BLANK] if lines and refused else []), *refused]


def _assumption(assumption: Assumption, width: int, verbose: bool) -> Iterable[Line]:
    places = listed(assumption.places, len(assumption.places) if verbose else _PLACES)
    at = Span(f"   at {places}", Style.QUIET) if places else Span("")
    first, *rest = assumption.text.splitlines() or [""]
    yield (Span(f"  {assumption.name:<{width}}  "), Span(first), at)
    for row in rest:
        yield from paragraph(row, width + 4)


def _limits(report: Report, verbose: bool) -> list[Line]:
    """The limits that were hit: of what is proved or refuted, only if ``verbose``."""
    if not verbose and report.verdict in (Verdict.PROVED, Verdict.REFUTED):
        return []
    shown = report.limits if verbose else report.limits[:_LIMITS]
    width = max((len(hit.name) for hit in shown), default=0)
    rows: list[str] = []
    for hit in shown:
        more = [f"at least {hit.needed} needed"] if hit.needed is not None else []
        more += [f"{hit.count} times"] if hit.count > 1 else []
        rows.append(f"{hit.name:<{width}}  {hit.allowed}" + (f" ({', '.join(more)})" if more else ""))
    if len(shown) < len(report.limits):
        rows.append(f"and {len(report.limits) - len(shown)} more (-v lists them)")
    return _titled("Limits that were hit", [line for row in rows for line in paragraph(row, 2)])


# ------------------------------------------------------------------------------------------------ verbose
_EVERY = "Relation of every specification tensor that has one"


def _relations(relations: Sequence[Relation], title: str) -> list[Line]:
    width = min(max((len(relation.tensor) for relation in relations), default=0), _NAME)
    lines: list[Line] = []
    for relation in relations:
        whole = str(relation).removeprefix(relation.tensor)
        place = f"   {relation.source}" if relation.source is not None else ""
        lines.append((Span(f"  {relation.tensor:<{width}}"), Span(whole), Span(place, Style.QUIET)))
    return _titled(title, lines)


def _statistics(report: Report) -> list[Line]:
    found = report.statistics
    ranks = f"{found.ranks} rank{'s' if found.ranks != 1 else ''}"
    if found.folded:
        folded = " folded into mesh axes"
    elif found.classes < found.ranks:
        folded = f" folded into mesh axes of {found.classes} programs"
    else:
        folded = " one by one" if found.ranks > 1 else ""
    total = sum(found.seconds.values())
    phases = ", ".join(f"{phase} {seconds:.2f}" for phase, seconds in found.seconds.items())
    nodes = f"{report.sides[0]} {found.specification_nodes}, {report.sides[1]} {found.implementation_nodes}"
    alone = report.sides[1] != "implementation"
    rows = (
        f"nodes    {nodes}" + ("" if alone else f" ({ranks}{folded})"),
        f"atoms    {found.atoms}",
        f"terms    {found.terms}",
        *([f"rules    {', '.join(f'{name} {count}' for name, count in found.rules.items())}"] if found.rules else []),
        f"seconds  {total:.2f} CPU" + (f" ({phases})" if phases else ""),
        f"memory   {found.peak_memory_bytes / 2**20:.0f} MiB at most",
    )
    return _titled("Statistics", [line for row in rows for line in paragraph(row, 2)])
