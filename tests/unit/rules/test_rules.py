"""Rules are proved, wrong ones are not, and the record of what is proved is that of these rules."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tantamount.errors import UserError
from tantamount.rules.evidence import evidence
from tantamount.rules.library import rules
from tantamount.rules.library.words import example, mm, permute, x, y
from tantamount.rules.record import digest, known_evidence, proved_rules
from tantamount.rules.rule import Match, Rule, rule
from tantamount.rules.terms import Part, term

PAPER = {
    "add-commutes", "mul-commutes", "add-associates", "mul-associates", "mm-associates", "mul-distributes",
    "mm-distributes", "permute-twice", "permute-there-and-back", "add-under-permute", "mul-under-permute",
    "mm-under-transpose", "concat-under-permute", "part-of-double", "concat-of-parts",
}  # fmt: skip


@pytest.mark.parametrize("name", list(rules()))
def test_a_rule_is_proved(name: str) -> None:
    row = rules()[name]
    found = evidence(replace(row, examples=row.examples[-1:]))  # all of them: `tantamount fuzz rules --prove`
    assert found.failures == ()
    assert found.examples == 1


def test_the_record_is_of_these_rules() -> None:
    def unknown(row: Rule) -> None:
        raise AssertionError(f"{row.name} is not recorded: run benchmarks/rules.py")

    for row in rules().values():
        known = known_evidence(row, unknown)  # type: ignore[arg-type]
        assert known.proved
        assert known.examples == len(row.examples)


def test_the_rules_of_the_paper_are_there() -> None:
    assert {name for name, row in rules().items() if row.origin} >= PAPER


def test_rules_that_hold_for_reals_alone_are_not_used_on_integers() -> None:
    proved = proved_rules()
    assert "i" in proved["add-commutes"].kinds  # of rings
    assert "i" in proved["max-commutes"].kinds  # of orders
    assert proved["min-as-max"].kinds == "f"  # min(x, -128) is not -max(-x, 128) in 8 bits


def own(name: str, pattern: object, build: object, *examples: object) -> Rule:
    table: dict[str, Rule] = {}
    rule(name, pattern, "", examples, into=table)(build)  # type: ignore[arg-type]
    return table[name]


def test_wrong_rules_are_not_proved() -> None:
    turned = own("mm-commutes", mm(x, y), lambda m: mm(m.y, m.x), example(x="M M", y="M M"))
    assert not evidence(turned).proved
    transposed = own("transpose-of-square", permute(x, (1, 0)), lambda m: m.x, example(x="4 4"))
    assert evidence(transposed).failures == ("not proved: x: 4 4",)
    half = own("shape", term("aten.relu.default", x), lambda m: term("aten.neg.default", m.x), example(x="M"))
    assert not evidence(half).proved


def test_a_rule_that_never_applies_is_not_proved() -> None:
    def never(m: Match) -> Part | None:
        return None

    assert evidence(own("never", mm(x, y), never, example(x="M K", y="K N"))).failures == (
        "does not apply to x: M K, y: K N",
    )


def test_a_rule_of_another_type_is_not_proved() -> None:
    def wider(m: Match) -> Part:
        return term("aten.unsqueeze.default", m.x, 0)

    assert evidence(own("wider", term("aten.relu.default", x), wider, example(x="M"))).failures == (
        "another type: x: M",
    )


def test_rules_need_a_name_and_an_example() -> None:
    with pytest.raises(UserError, match="rule-definition"):
        own("none", mm(x, y), lambda m: m.x)


def test_a_digest_is_of_what_a_rule_says() -> None:
    row = rules()["add-commutes"]
    assert digest(row) == digest(replace(row, share=0.1))
    assert digest(row) != digest(replace(row, examples=row.examples[1:]))
    assert digest(row) != digest(replace(row, build=rules()["mul-commutes"].build))
