"""Several jobs at a glance."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from tantamount.report.lines import Line, Span, Style, cut
from tantamount.report.outcomes import Failure, Outcome, worst_exit
from tantamount.report.text import STYLE_OF, summary
from tantamount.verdict import Verdict

__all__ = ["summarise"]

_WIDTH = 160  # of what is said of one job
_VERDICTS = (Verdict.REFUTED, Verdict.UNKNOWN, Verdict.VACUOUS, Verdict.EQUAL_REDUCED, Verdict.PROVED)
_ORDER = ("ERROR", *(verdict.value for verdict in _VERDICTS))


def summarise(outcomes: Sequence[Outcome]) -> tuple[Line, ...]:
    """A line for every job, in the order given, under a line that counts them and has the exit code of all."""
    counts = Counter(_label(outcome) for outcome in outcomes)
    counted = ", ".join(f"{counts[label]} {label}" for label in _ORDER if counts[label])
    code = worst_exit(outcome.exit_code for outcome in outcomes)
    title = f"{len(outcomes)} jobs: {counted} (exit code {code})"
    names = max(len(outcome.job) for outcome in outcomes)
    rows = [
        (
            Span(f"  {_label(outcome):<7} {_figures(outcome)}  ", _style(outcome)),
            Span(f"{outcome.job:<{names}}   "),
            Span(cut(_said(outcome), _WIDTH), Style.QUIET),
        )
        for outcome in outcomes
    ]
    return ((Span(title, Style.HEADING),), *rows)


def _label(outcome: Outcome) -> str:
    return "ERROR" if isinstance(outcome, Failure) else outcome.verdict.value


def _style(outcome: Outcome) -> Style:
    return Style.BAD if isinstance(outcome, Failure) else STYLE_OF[outcome.verdict]


def _figures(outcome: Outcome) -> str:
    """Outputs proved of those checked, and CPU seconds."""
    if isinstance(outcome, Failure):
        return " " * 15
    proved = sum(output.verdict is Verdict.PROVED for output in outcome.outputs)
    return f"{f'{proved}/{len(outcome.outputs)}':>7} {sum(outcome.statistics.seconds.values()):5.1f} s"


def _said(outcome: Outcome) -> str:
    return f"[{outcome.code}] {outcome.found}" if isinstance(outcome, Failure) else summary(outcome)
