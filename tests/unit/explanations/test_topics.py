"""Everything with a name is explained, nothing else is, and the explanations are true."""

from __future__ import annotations

import ast
import doctest
import re
import tomllib
from collections.abc import Iterator
from importlib import import_module

import pytest

from support.error_codes import PACKAGE, sites
from support.several import case
from tantamount.calculus.rules import RULES as CALCULUS
from tantamount.calculus.rules import RuleName
from tantamount.errors import UserError
from tantamount.explanations.markdown import index, page
from tantamount.explanations.operators import operator_topic
from tantamount.explanations.topic import KINDS, Topic
from tantamount.explanations.topics import find, topics
from tantamount.ops.table import lookup
from tantamount.verdict import DIFFERENCES, Verdict

FOLDER = PACKAGE / "explanations"
RULES = tomllib.loads((FOLDER / "rules.toml").read_text())


def of_kind(kind: str) -> list[Topic]:
    return [topic for topic in topics().values() if topic.kind == kind]


def entries() -> Iterator[tuple[str, dict[str, str]]]:
    for path in sorted(FOLDER.rglob("*.toml")):
        for name, entry in tomllib.loads(path.read_text()).items():
            if name != "preamble":
                yield f"{path.relative_to(FOLDER)}: {name}", entry


# ---------------------------------------------------------------------------------------------- complete
def test_every_error_code_is_explained() -> None:
    """One test for all: who collects tests need not read the whole package for them."""
    places = {code: [f"{site.file}:{site.line}" for site in found] for code, found in sites().items()}
    assert len(places) > 200
    missing = {code: where for code, where in places.items() if code not in topics()}
    assert missing == {}, "raised there: each needs an entry in src/tantamount/explanations/errors/"


def test_no_explanation_is_about_a_code_that_nobody_raises() -> None:
    assert {topic.name for topic in of_kind("error")} <= set(sites())


def test_every_verdict_is_explained() -> None:
    assert [topic.name for topic in of_kind("verdict")] == [verdict.value for verdict in Verdict]


def test_every_assumption_is_explained() -> None:
    explained = {topic.name for topic in of_kind("assumption")}
    texts: set[str] = set()
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Assumption":
                (name, *_) = [*node.args, *(keyword.value for keyword in node.keywords if keyword.arg == "name")]
                if isinstance(name, ast.Constant):
                    assert name.value in explained, f"{path.name}:{node.lineno}: explain it in assumptions.toml"
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                texts.add(node.value)
    assert explained <= texts  # names that no code has


def test_every_kind_of_difference_is_explained() -> None:
    """The first argument of what makes findings and accounts of repairs."""
    made: set[str] = set()
    for path in (PACKAGE / "diagnosis").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            name = getattr(node.func, "attr", getattr(node.func, "id", "")) if isinstance(node, ast.Call) else ""
            if isinstance(node, ast.Call) and node.args and name in ("found", "made", "Finding", "Account"):
                given = node.args[0]
                kinds = [given.body, given.orelse] if isinstance(given, ast.IfExp) else [given]
                made |= {kind.value for kind in kinds if isinstance(kind, ast.Constant)}
    assert made == {topic.name for topic in of_kind("difference")} == set(DIFFERENCES)


def check_entry(file: str, entry: dict[str, str]) -> None:
    """Raises AssertionError for an entry that lacks a part, or has an odd one."""
    wanted = {
        "verdicts.toml": {"title", "meaning", "do"},
        "differences.toml": {"title", "meaning", "why", "do"},
        "assumptions.toml": {"title", "meaning", "consequence", "where"},
        "rules.toml": {"title", "statement", "argument", "where"},
    }.get(file, {"title", "why", "do", "example"})
    optional = {"example"} if file == "rules.toml" else set()
    assert wanted <= set(entry) <= wanted | optional
    assert all(isinstance(text, str) and text.strip() for text in entry.values())
    assert "\n" not in entry["title"]
    assert not entry["title"].endswith(".")


def test_entries_have_what_their_kind_needs() -> None:
    for name, entry in entries():
        with case(name):
            check_entry(name.partition(":")[0], entry)


def test_names_are_unique() -> None:
    names = [name.rpartition(" ")[2] for name, _ in entries()]
    assert len(set(names)) == len(names)


# ---------------------------------------------------------------------------------------------- true
def test_the_example_of_an_error_is_a_message_that_the_source_can_print() -> None:
    for topic in of_kind("error"):
        with case(topic.name):
            check_message(topic)


def check_message(topic: Topic) -> None:
    """Raises AssertionError for an example that no place in the source can print."""
    example = topic.sections[-1].code
    parts = re.fullmatch(
        r"error\[(?P<code>[\w-]+)\] .+\n  found:  (?P<found>.+)\n  needed: (?P<needed>.+?)(\n  help:   (?P<help>.+))?",
        example,
    )
    assert parts is not None
    if topic.name.startswith("limit-") and parts["code"].startswith("limit-"):
        return  # one example for all limits; the limit's own message is tested with the limits
    assert parts["code"] == topic.name
    assert any(
        re.fullmatch(site.found, parts["found"])
        and re.fullmatch(site.needed, parts["needed"])
        and re.fullmatch(site.hint, parts["help"] or "")
        for site in sites()[topic.name]
    ), sites()[topic.name]


@pytest.mark.parametrize("name", [name for name, entry in RULES.items() if "example" in entry and name != "preamble"])
def test_the_example_of_a_rule_holds(name: str) -> None:
    text = RULES["preamble"] + RULES[name]["example"]
    example = doctest.DocTestParser().get_doctest(text, {}, name, str(FOLDER / "rules.toml"), 0)
    report: list[str] = []
    doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE).run(example, out=report.append)
    assert not report, "".join(report)


@pytest.mark.parametrize("name", CALCULUS)
def test_the_example_of_a_rule_of_the_calculus_makes_it_fire(name: RuleName) -> None:
    example = doctest.DocTestParser().get_doctest(RULES["preamble"] + RULES[name]["example"], {}, name, None, 0)
    doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE).run(example, clear_globs=False)
    assert example.globs["store"].fired[name] > 0


def test_the_rules_of_the_calculus_are_the_registered_ones() -> None:
    explained = [name for name, entry in RULES.items() if name != "preamble" and ".calculus." in entry["where"]]
    assert sorted(explained) == sorted(CALCULUS)


@pytest.mark.parametrize(
    ("name", "where"), [pytest.param(name, entry["where"], id=name) for name, entry in entries() if "where" in entry]
)
def test_places_in_the_source_exist(name: str, where: str) -> None:
    module, _, attribute = where.partition(":")
    found = import_module(module)
    assert not attribute or hasattr(found, attribute), name


# ---------------------------------------------------------------------------------------------- found
@pytest.mark.parametrize(
    ("asked", "name"),
    [
        ("graph-nan", "graph-nan"),
        ("proved", "PROVED"),
        ("Domain", "domain"),
        ("weighted-sums", "weighted-sums"),
        ("limit-nodes", "limit-nodes"),
        ("factor", "factor"),
        ("aten.bmm.default", "aten.bmm.default"),
        ("aten.add_.Tensor", "aten.add_.Tensor"),
        ("bmm", "aten.bmm.default"),
    ],
)
def test_find(asked: str, name: str) -> None:
    assert find(asked).name == name


@pytest.mark.parametrize(
    ("asked", "hint"),
    [
        ("domian", "domain"),
        ("graph-nam", "graph-nan"),
        ("all_reduce", "_c10d_functional.all_reduce.default"),
        ("aten.bmn.default", "aten.bmm.default"),
        ("xyzzy-plugh-42", "`tantamount explain` lists"),
    ],
)
def test_what_is_not_found_has_neighbours(asked: str, hint: str) -> None:
    with pytest.raises(UserError) as problem:
        find(asked)
    assert problem.value.code == "topic-unknown"
    assert repr(asked) in problem.value.found
    assert hint in problem.value.hint


def test_an_operator_shows_what_it_refuses_and_the_functions_beside_it() -> None:
    topic = operator_topic(lookup("aten.matmul.default", ""))
    shape = next(section for section in topic.sections if section.heading == "Shape rule")
    assert ("batch sizes {mine} and {other} do not broadcast",) in shape.rows
    definition = topic.sections[-1]
    assert definition.text.startswith("`tantamount/ops/definitions/contraction.py:")
    assert "def matmul(b: Builder" in definition.code
    assert "def matmul_of(b: Builder" in definition.code


def test_pages() -> None:
    text = page(find("aten.bmm.default"))
    assert text.startswith("# aten.bmm.default\n\n*Operators.* Matrix products and Einstein sums\n")
    assert "| `mat2` | `Tensor` |  |" in text
    assert "```python\n@operator(" in text
    listed = index("error", of_kind("error"))
    assert listed.startswith(f"# {KINDS['error']}\n")
    assert "| [graph-nan](error/graph-nan.md) | A graph has the number NaN |" in listed
