"""The wording of every verdict."""

from __future__ import annotations

from dataclasses import replace

import pytest

from support.reports import proved, refuted, unknown, vacuous
from tantamount.report.lines import Style
from tantamount.report.text import render, text
from tantamount.verdict import OutputReport, Relation, Verdict


def test_proved() -> None:
    assert text(proved()) == (
        "PROVED  job.toml   div_2 = Replicate()\n"
        "\n"
        "1 output, checked\n"
        "  PROVED  div_2 = Replicate()   (as expected)\n"
        "\n"
        "Assumptions\n"
        "  real-arithmetic  casts between float types are the identity   at a, b, c and 2 more\n"
    )


def test_refuted() -> None:
    assert text(refuted()) == (
        "REFUTED  wrong.toml   loss: the implementation's value is 2x too large\n"
        "\n"
        "2 of 19 outputs checked\n"
        "  REFUTED  loss: expected Replicate()\n"
        "           the implementation's value is 2x too large\n"
        "  PROVED   x = Shard(0) of x_1   (inferred)\n"
        "           note: this sums over tp\n"
        "\n"
        "First operator without a counterpart\n"
        "  specification   mean = aten.mean.default   spec.py:7  `loss = y.mean()`\n"
        "  implementation  add_3 = aten.add.Tensor on rank 1   impl.py:40\n"
        "  a factor: 2x too large\n"
        "  (sum of two means)\n"
        "    specification   1/8 SUM y\n"
        "    implementation  1/4 SUM y\n"
        "\n"
        "Counterexample: both programs were executed on this input (seed 3)\n"
        "  y     = [[0.5, 0], [0.5, 1], [0.5, 2], ...]   (8x2)\n"
        "  scale = 2   (scalar)\n"
        "  loss: expected 0.5, rank 1 has 1\n"
    )


def test_unknown() -> None:
    assert text(unknown()) == (
        "UNKNOWN  open.toml   loss: no counterpart for sort_1\n"
        "\n"
        "1 output, checked\n"
        "  UNKNOWN  loss: no relation found\n"
        "           no counterpart for sort_1\n"
        "\n"
        "First operator without a counterpart\n"
        "  specification   sort_1 = aten.sort.default\n"
        "  implementation  no tensor comes near\n"
        "  its value appears nowhere\n"
        "\n"
        "Refused by --strict\n"
        "  - dropout: equal masks\n"
        "\n"
        "Notes\n"
        "  - an engine limit: 10 terms\n"
    )


def test_vacuous() -> None:
    assert text(vacuous()) == "VACUOUS  empty.toml   nothing was checked\n\n0 of 4 outputs checked\n"


def test_verbose_adds_relations_places_and_statistics() -> None:
    lines = text(proved(), verbose=True).splitlines()
    assert "  real-arithmetic  casts between float types are the identity   at a, b, c, d, e" in lines
    assert "  mm = Shard(1) of mm_1   model.py:12  `return x @ w`" in lines
    assert "  nodes    specification 120, implementation 150 (2 ranks folded into mesh axes)" in lines
    assert "  seconds  0.75 CPU (read 0.25, specification 0.50)" in lines
    assert "  memory   100 MiB at most" in lines


def test_another_relation_than_the_expected_one_is_named() -> None:
    held = Relation("loss", 'Partial("sum")', "loss")
    report = refuted()
    broken = replace(report.outputs[0], relation=held)
    assert '  REFUTED  loss: expected Replicate(), but what holds is loss = Partial("sum")' in text(
        replace(report, outputs=(broken,))
    )


def test_no_assumption_is_said_for_proved_only() -> None:
    assert text(replace(proved(), assumptions=())).endswith("Assumptions\n  none\n")
    assert "Assumptions" not in text(refuted())


def test_long_expressions_are_shortened_unless_verbose() -> None:
    expression = "concat(" + ", ".join(f"rank({rank})" for rank in range(100)) + ", dim=0)"
    output = OutputReport("y", Verdict.PROVED, Relation("y", expression, "y"), "infer")
    report = replace(proved(), outputs=(output,), relations=())
    assert expression not in text(report)
    assert "..." in text(report)
    assert expression in text(report, verbose=True)


def test_several_outputs_in_the_headline() -> None:
    outputs = tuple(OutputReport(name, Verdict.UNKNOWN, None, "infer", reason="r\ns") for name in "abc")
    report = replace(unknown(), outputs=outputs, outputs_total=3)
    assert text(report).startswith("UNKNOWN  open.toml   a and 2 more: r\n\n3 outputs, all checked\n")


@pytest.mark.parametrize("report", [proved(), refuted(), unknown(), vacuous()])
def test_the_verdict_is_the_first_word_and_styled(report: object) -> None:
    first = render(report)[0][0]  # type: ignore[arg-type]
    assert first.style is {"PROVED": Style.GOOD, "REFUTED": Style.BAD}.get(first.text, Style.OPEN)


def test_control_characters_of_names_are_escaped() -> None:
    output = OutputReport("\x1b[2Jevil\u202e", Verdict.PROVED, Relation("a\rb", "Replicate()", "a\rb"), "infer")
    shown = text(replace(proved(), outputs=(output,), relations=()))
    assert "\x1b" not in shown
    assert "\r" not in shown
    assert "\u202e" not in shown
    assert "\\x1b[2Jevil\\u202e" in shown
