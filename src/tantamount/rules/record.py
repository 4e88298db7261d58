"""The rules that may be used: those with evidence, which is recorded so that it need not be found again.

``library/evidence.toml`` has, for every rule, what proving it gave and a digest of its definition. A rule whose
definition is another one, or that has no entry (a user's), is proved when it is asked for.
"""

from __future__ import annotations

import ast
import hashlib
import inspect
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from importlib import resources
from textwrap import dedent
from typing import Any

from tantamount.rules.evidence import Evidence, evidence
from tantamount.rules.library import rules
from tantamount.rules.rule import Rule

__all__ = ["digest", "document", "known_evidence", "proved_rules"]


def digest(rule: Rule) -> str:
    """A digest of what a rule says: its pattern, examples and code."""
    code = ast.dump(ast.parse(dedent(inspect.getsource(rule.build))))  # however it is laid out
    examples = [(e.shapes, e.attributes, e.dtype, e.dtypes, e.seed) for e in rule.examples]
    said = f"{rule.name}{rule.pattern!r}{examples!r}{code}"
    return hashlib.sha256(said.encode()).hexdigest()[:16]


@cache
def _recorded() -> Mapping[str, Mapping[str, Any]]:
    file = resources.files("tantamount.rules.library").joinpath("evidence.toml")
    return tomllib.loads(file.read_text()) if file.is_file() else {}


def known_evidence(rule: Rule, prove: Callable[[Rule], Evidence] = evidence) -> Evidence:
    """The recorded evidence of a rule, or what proving it gives."""
    found = _recorded().get(rule.name)
    if found is None or found["digest"] != digest(rule):
        return prove(rule)
    return Evidence(rule.name, True, int(found["examples"]), (), tuple(found["conditions"]), str(found["domain"]))


def proved_rules(table: Mapping[str, Rule] | None = None) -> dict[str, Rule]:
    """The rules that are proved, each for the kinds of elements for which it is: integers wrap around, and a rule holds
    for them if it is one of rings, of orders, or says why."""
    found: dict[str, Rule] = {}
    for name, rule in (rules() if table is None else table).items():
        known = known_evidence(rule)
        if known.proved:
            integers = known.domain or rule.integers
            found[name] = rule if integers else replace(rule, kinds=rule.kinds.replace("i", ""))
    return found


def document(table: Mapping[str, Rule]) -> dict[str, Any]:
    """The contents that ``evidence.toml`` should have: every rule proved anew, those that are not left out."""
    entries: dict[str, Any] = {}
    for name, rule in table.items():
        known = evidence(rule)
        if known.proved:
            entries[name] = {
                "digest": digest(rule), "examples": known.examples, "conditions": list(known.conditions),
                "domain": known.domain,
            }  # fmt: skip
    return entries
