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
        "REFUTED  wrong.toml   loss: a factor: 2x too large\n"
        "\n"
        "First operator without a counterpart\n"
        "  specification   spec.py:7  `loss = y.mean()`\n"
        "                  mean = aten.mean.default\n"
        "  implementation  impl.py:40\n"
        "                  add_3 = aten.add.Tensor on rank 1\n"
        "\n"
        "Difference\n"
        "  a factor: 2x too large\n"
        "  (sum of two means)\n"
        "    specification   1/8 SUM y\n"
        "    implementation  1/4 SUM y\n"
        "\n"
        "Counterexample: both programs were executed on this input (seed 3)\n"
        "  loss: expected 0.5, rank 1 has 1\n"
        "  y     = [[0.5, 0], [0.5, 1], [0.5, 2], ...]   (8x2)\n"
        "  scale = 2   (scalar)\n"
        "\n"
        "2 of 19 outputs checked: 1 REFUTED, 1 PROVED\n"
        "  REFUTED  loss: expected Replicate()\n"
        "           the implementation's value is 2x too large\n"
        "  PROVED   x = Shard(0) of x_1   (inferred)\n"
        "           note: this sums over tp\n"
    )


def test_headline_and_hint() -> None:
    found = refuted().mismatch
    assert found is not None
    mismatch = replace(found, headline="The loss is summed, not averaged.", hint="divide by 2\nor so", difference="d")
    lines = text(replace(refuted(), mismatch=mismatch)).splitlines()
    assert lines[0] == "REFUTED  wrong.toml   The loss is summed, not averaged."
    titles = [line.partition(":")[0] for line in lines if line and not line.startswith(" ")]
    assert titles[1:] == [
        "First operator without a counterpart", "Difference", "Counterexample", "Hint", "2 of 19 outputs checked",
    ]  # fmt: skip
    at = lines.index("Hint")
    assert lines[at : at + 4] == ["Hint", "  divide by 2", "  or so", ""]


def test_a_difference_that_is_the_headline_is_not_said_twice() -> None:
    found = refuted().mismatch
    assert found is not None
    shown = text(replace(refuted(), mismatch=replace(found, headline="twice", difference="twice", equations=())))
    assert shown.count("twice") == 1
    assert "Difference" not in shown


def test_a_mismatch_without_an_operator_of_the_specification() -> None:
    found = refuted().mismatch
    assert found is not None
    mismatch = replace(found, specification="", operator="", specification_source=None)
    shown = text(replace(refuted(), mismatch=mismatch))
    assert "First operator without a counterpart\n  implementation  impl.py:40\n" in shown


def test_unknown() -> None:
    assert text(unknown()) == (
        "UNKNOWN  open.toml   --strict refuses dropout: equal masks\n"
        "\n"
        "First operator without a counterpart\n"
        "  specification   sort_1 = aten.sort.default\n"
        "  implementation  no tensor comes near\n"
        "\n"
        "How their normal forms differ\n"
        "  its value appears nowhere\n"
        "\n"
        "1 output, checked\n"
        "  UNKNOWN  loss: no relation found\n"
        "           no counterpart for sort_1\n"
        "\n"
        "Refused by --strict\n"
        "  - dropout: equal masks\n"
        "\n"
        "Notes\n"
        "  - an engine limit: 10 terms\n"
    )


def test_a_reason_that_names_the_relation_is_the_whole_line() -> None:
    why = "loss = Replicate() does not hold: loss is 1 in the specification and 2 on rank 0"
    output = replace(refuted().outputs[0], reason=f"{why}\nbecause of that")
    report = replace(refuted(), outputs=(output,), outputs_total=1, mismatch=None)
    assert text(report).startswith(f"REFUTED  wrong.toml   {why}\n")
    assert text(replace(report, outputs=(output, output))).startswith(f"REFUTED  wrong.toml   {why} (1 more)\n")
    assert text(report).endswith(f"1 output, checked\n  REFUTED  {why}\n")
    assert f"  REFUTED  {why}\n           because of that\n" in text(report, verbose=True)


def test_many_outputs() -> None:
    outputs = [OutputReport(f"y{k}", Verdict.PROVED, Relation(f"y{k}", "Shard(0)", ""), "infer") for k in range(20)]
    summed = [replace(output, notes=("sums over tp",)) for output in outputs[15:]]
    report = replace(proved(), outputs=(*outputs[:15], *summed), outputs_total=20)
    lines = text(report).splitlines()
    assert "  PROVED  y9 = Shard(0)   (inferred)" in lines
    assert "  PROVED  and 10 more (-v lists them)" in lines
    assert "  note: sums over tp (y15, y16, y17 and 2 more)" in lines
    assert not any("y10" in line for line in lines)
    verbose = text(report, verbose=True)
    assert verbose.count("note: sums over tp\n") == 5
    assert verbose.count("(inferred)") == 20


def test_the_input_of_a_counterexample_is_short() -> None:
    found = refuted().counterexample
    assert found is not None
    inputs = {"w": [[0.0, 0], [0, False]], "b": 0, **{f"x{k}": [1 / 3] * 2 for k in range(9)}, "y": [[0.1] * 40] * 40}
    sizes = {2**k: (2,) for k in range(2, 12)}
    small = replace(found, inputs=inputs, sizes=sizes, expected=1.0, actual=1.0 + 2**-40)
    report = replace(refuted(), counterexample=small)
    lines = text(report).splitlines()
    assert "  loss: expected 1, rank 1 has 1.0000000000009095" in lines
    assert "  x0 = [0.3333, 0.3333]   (2)" in lines
    assert "  and 4 more inputs (-v shows them)" in lines
    assert "  0 in w (2x2), b (scalar)" in lines
    assert "  at reduced sizes: 2048 -> 2, 1024 -> 2, 512 -> 2, 256 -> 2, 128 -> 2, 64 -> 2 and 4 more" in lines
    verbose = text(report, verbose=True)
    assert "  w  = [[0, 0], [0, False]]   (2x2)\n" in verbose
    assert "  x8 = [0.33333333333333331, 0.33333333333333331]   (2)\n" in verbose
    assert "32 -> 2, 16 -> 2, 8 -> 2, 4 -> 2\n" in verbose


def test_vacuous() -> None:
    assert text(vacuous()) == "VACUOUS  empty.toml   nothing was checked\n\n0 of 4 outputs checked\n"


def test_verbose_adds_relations_places_and_statistics() -> None:
    lines = text(proved(), verbose=True).splitlines()
    assert "  real-arithmetic  casts between float types are the identity   at a, b, c, d, e" in lines
    assert "  mm    = Shard(1) of mm_1   model.py:12" in lines
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
    report = replace(unknown(), outputs=outputs, outputs_total=3, refused=(), mismatch=None)
    assert text(report).startswith("UNKNOWN  open.toml   a and 2 more: r\n\n3 outputs, all checked\n")


@pytest.mark.parametrize("report", [proved(), refuted(), unknown(), vacuous()])
def test_the_verdict_is_the_first_word_and_styled(report: object) -> None:
    first = render(report)[0][0]  # type: ignore[arg-type]
    assert first.style is {"PROVED": Style.GOOD, "REFUTED": Style.BAD}.get(first.text.strip(), Style.OPEN)


def test_control_characters_of_names_are_escaped() -> None:
    output = OutputReport("\x1b[2Jevil\u202e", Verdict.PROVED, Relation("a\rb", "Replicate()", "a\rb"), "infer")
    shown = text(replace(proved(), outputs=(output,), relations=()))
    assert "\x1b" not in shown
    assert "\r" not in shown
    assert "\u202e" not in shown
    assert "\\x1b[2Jevil\\u202e" in shown


def test_what_is_unknown_is_not_said_to_differ() -> None:
    """Normal forms that differ show no difference of values."""
    found = refuted().mismatch
    assert found is not None
    undecided = replace(found, headline="b is not the specification's a: 2 stands where 1 is wanted").undecided()
    assert undecided.headline == "b was not shown to be the specification's a: 2 stands where 1 is wanted"
