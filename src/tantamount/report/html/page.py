"""The page of a report: the template with what it shows. Nothing of a report becomes markup or script."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from importlib.metadata import version
from importlib.resources import files
from typing import Any

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from tantamount.ir.graph import Source
from tantamount.report.html.marks import Marked, marks
from tantamount.report.html.scene import culprit_program, scene
from tantamount.report.lines import listed, middle, printable
from tantamount.report.text import summary, titles_of_refused
from tantamount.report.values import is_zero, pair, shape_of, shortened
from tantamount.verdict import Counterexample, Mismatch, OutputReport, Picture, ProgramPicture, Report, Verdict

__all__ = ["page"]

_LIBRARY = "dagre/dagre.min.js"
_SCRIPTS = (_LIBRARY, "layout.js", "pane.js", "report.js")
_OUTPUTS = 12  # that are shown; more are folded away
_NAME = re.compile(r"[\w.]*\d[\w.]*(?:\[[^\]]*\])?|[\w.]+\[[^\]]*\]")
_LINE = 56  # characters of a statement that are shown in one line
_NOTES = 3  # of outputs, under the headline
_VALUE = 400  # characters of an input of a counterexample
_FORMULA = 1500  # characters
_SIDED = re.compile(r"(specification|implementation|first|second)[: ]\s*(.*)", re.DOTALL)
_ROLES = {"first": "specification", "second": "implementation"}  # of programs of which neither is the specification
_DENIED = "{0.name} = {0.expectation} does not hold: "  # how a reason begins: the page says it beside the name
_INSTALLED = re.compile(r"(?:[^\s`'\"(]*/)?(?:site|dist)-packages/")
_WORST_FIRST = (Verdict.REFUTED, Verdict.UNKNOWN, Verdict.VACUOUS, Verdict.EQUAL_REDUCED, Verdict.PROVED)


def page(report: Report, picture: Picture | None = None) -> str:
    """The report as HTML, in one file that needs no other; with both programs drawn if there is a picture."""
    style = _static("report.css")
    scripts = [_script(name) for name in (_SCRIPTS if picture is not None else _SCRIPTS[-1:])]
    environment = Environment(
        autoescape=True, undefined=StrictUndefined, finalize=_shown, trim_blocks=True, lstrip_blocks=True
    )
    headline, difference = _headline(report)
    specification, implementation, equations = _cards(report.mismatch, picture)
    return environment.from_string(_static("../page.html")).render(
        report=report,
        version=version("tantamount"),
        policy=_policy(style, scripts),
        breakable=_breakable,
        style=Markup(style),
        scripts=[Markup(script) for script in scripts],
        scene=None if picture is None else Markup(as_json_in_html(scene(report, picture))),
        headline=headline,
        difference=difference,
        equations=equations,
        hint=_without_folders(report.mismatch.hint) if report.mismatch is not None else "",
        specification=specification,
        implementation=implementation,
        implementation_label=_ranks(report),
        specification_label="First program" if _of_two(report) else "Specification",
        first=_called(report, 0),
        second=_called(report, 1),
        weights=[(one.tensor, one.expression) for one in report.weights],
        refused=titles_of_refused(report),
        counterexample=_counterexample(report.counterexample),
        checked=_checked(report),
        outputs=_outputs(report),
        statistics=_statistics(report),
    )


def as_json_in_html(value: object) -> str:
    """JSON that can stand inside a script element: nothing in it ends the element or begins a comment."""
    text = json.dumps(value, separators=(",", ":"))
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def _static(name: str) -> str:
    return files("tantamount.report.html").joinpath("static", name).read_text(encoding="utf-8")


def _script(name: str) -> str:
    """A script as it stands in the page: the library with its licence, and without a reference to another file."""
    text = _static(name)
    if name != _LIBRARY:
        return text
    text = re.sub(r"\n//# sourceMappingURL=.*", "", text)
    return f"/*! dagre, https://github.com/dagrejs/dagre\n{_static('dagre/LICENSE')}*/\n{text}"


def _policy(style: str, scripts: Iterable[str]) -> str:
    """The policy of what the browser may run: the scripts of this page, whatever else may have got into it."""
    allowed = " ".join(_digest(script) for script in scripts)
    return f"default-src 'none'; script-src {allowed}; style-src {_digest(style)}; base-uri 'none'; form-action 'none'"


def _digest(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _shown(value: object) -> object:
    """A value as a template shows it: control characters and changes of direction as escapes, as on a terminal."""
    if not isinstance(value, str) or isinstance(value, Markup):
        return value
    return "\n".join(map(printable, value.split("\n")))


# ------------------------------------------------------------------------------------------------ what went wrong
def _headline(report: Report) -> tuple[str, list[str]]:
    """One sentence, and what belongs below it: the difference in other words; of a proof, what must not be missed (such
    as: an output is a sum over ranks)."""
    if report.proved:
        every = "every checked output" if len(report.outputs) < report.outputs_total else "every output"
        sentence = f"The implementation computes {every} of the specification, for all real inputs, on every rank."
        if _of_two(report):
            sentence = f"The second program computes {every} of the first, for all real inputs."
        return sentence, list(dict.fromkeys(note for output in report.outputs for note in output.notes))[:_NOTES]
    rows = [] if report.mismatch is None else _without_folders(report.mismatch.difference).splitlines()
    if report.mismatch is not None and not report.mismatch.headline and rows:
        return rows[0], rows[1:]
    sentence = _without_folders(summary(report))
    return sentence, [row for row in rows if not _says(sentence, row)]


def _says(sentence: str, row: str) -> bool:
    """True if a headline relates the tensors that a row relates: then the row is the same in other words."""
    names = set(_NAME.findall(row))
    return row == sentence or (len(names) > 1 and names <= set(_NAME.findall(sentence)))


def _without_folders(text: str) -> str:
    """The text with files of libraries as they are known: ``transformers/models/llama/modeling_llama.py``."""
    return _INSTALLED.sub("", text)


@dataclass(frozen=True, slots=True)
class Card:
    """One side of the mismatch; ``operator`` says what the node is, ``formula`` is in pieces that the other side has or
    lacks."""

    kind: str
    node: str
    operator: str
    path: str
    place: str
    where: str
    code: str
    rank: int | None
    formula: Marked


def _cards(mismatch: Mismatch | None, picture: Picture | None) -> tuple[Card | None, Card | None, list[str]]:
    """Both sides of the mismatch, and the equations that are of neither: a mismatch that has none shows the normal
    forms of its tensors."""
    if mismatch is None:
        return None, None, []
    formulas = {"specification": "", "implementation": ""}
    others: list[str] = []
    for equation in mismatch.equations:
        sided = _SIDED.match(equation)
        side = "" if sided is None else _ROLES.get(sided[1], sided[1])
        if sided is None or formulas[side]:
            others.append(equation)
        else:
            formulas[side] = sided[2]
    sides = (None, None)
    if picture is not None:
        sides = picture.specification, picture.implementation[culprit_program(mismatch, picture)]
        if not mismatch.equations:
            names = (mismatch.specification, mismatch.implementation)
            formulas = {k: side.forms.get(name, "") for k, side, name in zip(formulas, sides, names, strict=True)}
    left, right = marks(*(middle(formula, _FORMULA) for formula in formulas.values()))
    specification = Card(
        "specification", mismatch.specification, _operator(sides[0], mismatch.specification, mismatch.operator),
        *_place(mismatch.specification_source), None, left,
    )  # fmt: skip
    implementation = Card(
        "implementation", mismatch.implementation,
        _operator(sides[1], mismatch.implementation, mismatch.implementation_operator),
        *_place(mismatch.implementation_source), mismatch.rank, right,
    )  # fmt: skip
    return specification, implementation, others


def _operator(side: ProgramPicture | None, name: str, operator: str) -> str:
    node = None if side is None else side.graph.by_name.get(name)
    if node is not None and node.op != "call":
        return f"is an {node.op}" if node.op == "input" else f"is a {node.op}"
    return f"= {operator}" if operator else ""


def _place(source: Source | None) -> tuple[str, str, str, str]:
    """File and line, the same without the folder where libraries are installed, module and function, and the code."""
    if source is None:
        return "", "", "", ""
    path = str(source) if source.file else ""
    return path, _without_folders(path), source.function, source.text.strip()


def _counterexample(found: Counterexample | None) -> dict[str, Any] | None:
    if found is None:
        return None
    expected, actual = pair(found.expected, found.actual)
    changes = [f"{old} → {' or '.join(map(str, new))}" for old, new in sorted(found.sizes.items(), reverse=True)]
    return {
        "element": f"{found.output}[{', '.join(map(str, found.element))}]" if found.element else found.output,
        "expected": expected,
        "actual": actual,
        "rank": found.rank,
        "seed": found.seed,
        "sizes": ", ".join(changes),
        "inputs": [
            (
                name,
                "x".join(map(str, shape_of(value))) or "scalar",
                "0 everywhere" if is_zero(value) else middle(shortened(value, digits=6), _VALUE),
            )
            for name, value in found.inputs.items()
        ],
    }


# ------------------------------------------------------------------------------------------------ what was found
def _of_two(report: Report) -> bool:
    """True of a report on two programs of which neither is the specification."""
    return report.sides == ("first", "second")


def _called(report: Report, side: int) -> str:
    """The name that prose has for a program."""
    return f"{report.sides[side]} program" if _of_two(report) else report.sides[side]


def _ranks(report: Report) -> str:
    if _of_two(report):
        return "Second program"
    ranks = report.statistics.ranks
    if ranks == 1:
        return "Implementation"
    return f"Implementation: {ranks} ranks" + (", one program" if report.statistics.folded else "")


def _checked(report: Report) -> str:
    checked, total = len(report.outputs), report.outputs_total
    if report.not_compared:
        return f"{checked} output{'s' * (checked != 1)} compared, {len(report.not_compared)} not"
    return f"{checked} of {total} outputs checked" if checked < total else f"{total} output{'s' * (total != 1)}"


def _outputs(report: Report) -> list[dict[str, Any]]:
    """Rows of outputs, those that are not proved first, in a group that is shown and one that is folded away."""
    rows = sorted(report.outputs, key=lambda output: _WORST_FIRST.index(output.verdict))
    groups = [{"folded": False, "rows": [_output(output) for output in rows[:_OUTPUTS]]}]
    if len(rows) > _OUTPUTS:
        groups.append({"folded": True, "rows": [_output(output) for output in rows[_OUTPUTS:]]})
    return groups


def _output(output: OutputReport) -> dict[str, Any]:
    proved = output.verdict is Verdict.PROVED
    if output.relation is None:
        statement = "no relation found" if output.expectation == "infer" else f"expected {output.expectation}"
    else:
        statement = f"= {output.relation.expression}"
        if output.relation.implementation not in ("", output.name):
            statement += f" of {output.relation.implementation}"
        if not proved and output.expectation != "infer":
            statement += f", expected {output.expectation}"
    reason, *rest = ("" if proved else output.reason.removeprefix(_DENIED.format(output))).splitlines() or [""]
    return {
        "name": output.name,
        "verdict": output.verdict.value,
        "lines": _unfolded(middle(statement, _VALUE)),
        "reason": reason,
        "rest": rest,
        "notes": output.notes,
    }


def _unfolded(statement: str) -> list[str]:
    """A statement in lines: a long one has an operand of its outermost call on each."""
    if len(statement) <= _LINE or "(" not in statement:
        return [statement]
    lines: list[str] = []
    begun = depth = 0
    for place, character in enumerate(statement, 1):
        depth += (character in "([") - (character in ")]")
        if depth == 1 and character in "(,":
            lines.append(statement[begun:place].strip())
            begun = place
        elif not depth and character == ")":
            break
    return [*lines, statement[begun:].strip()]


def _breakable(text: object) -> Markup:
    """A text that a browser may break after the dots of a name, and after what joins its words."""
    parts = re.split(r"(?<=[._/])(?=\w)", str(_shown(text)))
    return Markup("<wbr>").join(parts)


def _statistics(report: Report) -> list[tuple[str, str]]:
    found = report.statistics
    ranks = f"{found.ranks} rank{'s' * (found.ranks != 1)}" + (" folded into mesh axes" if found.folded else "")
    phases = [f"{phase} {seconds:.2f}" for phase, seconds in found.seconds.items()]
    return [
        ("nodes", f"{found.specification_nodes} in the {_called(report, 0)}, {found.implementation_nodes} on {ranks}"),
        ("related", f"{len(report.relations)} tensors of the {_called(report, 0)}"),
        ("atoms", str(found.atoms)),
        ("terms", str(found.terms)),
        *([("rules", listed([f"{name} {count}" for name, count in found.rules.items()], 99))] if found.rules else []),
        ("CPU seconds", f"{sum(found.seconds.values()):.2f}" + (f": {listed(phases, 9)}" if phases else "")),
        ("memory", f"{found.peak_memory_bytes / 2**20:.0f} MiB at most"),
    ]
