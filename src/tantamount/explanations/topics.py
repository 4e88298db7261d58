"""Topics: what has a name, what it means, and what to do. Read from the tables beside this file."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import fields
from difflib import get_close_matches
from functools import cache
from importlib.resources import files
from itertools import chain

from tantamount.errors import UserError
from tantamount.explanations.operators import operator_topic
from tantamount.explanations.topic import Section, Topic
from tantamount.limits import Limits
from tantamount.ops.table import table

__all__ = ["find", "topics"]

_PACKAGE = "tantamount.explanations"

# The headings of the keys that entries have.
_HEADINGS = {
    "statement": "Statement",
    "meaning": "What it means",
    "argument": "Why it is sound",
    "consequence": "What it leaves open",
    "why": "Why it happens",
    "do": "What to do",
}


@cache
def topics() -> Mapping[str, Topic]:
    """Every topic that is not an operator, by name, kind after kind."""
    found: dict[str, Topic] = {}
    tables = (_table(f"{kind}s", kind) for kind in ("verdict", "difference", "assumption", "rule"))
    for topic in (*_errors(), *chain.from_iterable(tables)):
        found[topic.name] = topic
    return found


def find(name: str) -> Topic:
    """The topic of that name: an error code, a verdict, a kind of difference, an assumption, a rule, an operator
    (``aten.add.Tensor``, or ``add`` where that means one). Raises :class:`UserError` with the names that are near."""
    known = topics()
    exact = known.get(name) or known.get(name.lower()) or known.get(name.upper())
    if exact is not None:
        return exact
    rows = table()
    called = [name] if name in rows else [target for target in rows if name.lower() in target.lower().split(".")]
    if len({id(rows[target]) for target in called}) == 1:
        return operator_topic(rows[called[0]])
    near = called or get_close_matches(name, [*known, *rows], n=5, cutoff=0.6)
    raise UserError(
        "topic-unknown", place="command line", found=f"the name {name!r}" + (", which several have" if called else ""),
        needed="an error code, a verdict, a kind of difference, an assumption, a rule or an operator",
        hint=f"nearest: {', '.join(near[:12])}" if near else "`tantamount explain` lists all but operators",
    )  # fmt: skip


def _read(name: str) -> dict[str, dict[str, str]]:
    return tomllib.loads((files(_PACKAGE) / name).read_text(encoding="utf-8"))


def _errors() -> Iterator[Topic]:
    names = sorted(item.name for item in (files(_PACKAGE) / "errors").iterdir() if item.name.endswith(".toml"))
    for name in names:
        for code, entry in _read(f"errors/{name}").items():
            if code == "limit-NAME":
                yield from (_limit(field.name, entry) for field in fields(Limits))
            else:
                yield _topic(code, "error", entry)


def _limit(name: str, entry: Mapping[str, str]) -> Topic:
    """The topic of one limit, made from what holds for all of them."""
    topic = _topic(f"limit-{name.replace('_', '-')}", "error", entry)
    default, variable = getattr(Limits(), name), f"TANTAMOUNT_LIMIT_{name.upper()}"
    value = Section("The limit", f"`{name}`, {default} unless the variable `{variable}` says otherwise.")
    return Topic(topic.name, topic.kind, f"{topic.title}: {name}", (value, *topic.sections))


def _table(name: str, kind: str) -> Iterator[Topic]:
    entries = _read(f"{name}.toml").items()
    return (_topic(key, kind, entry) for key, entry in entries if key != "preamble")  # of the examples of rules


def _topic(name: str, kind: str, entry: Mapping[str, str]) -> Topic:
    sections = [Section(_HEADINGS[key], entry[key].strip()) for key in _HEADINGS if key in entry]
    if "example" in entry:
        sections.append(Section("Example", code=entry["example"].strip("\n")))
    if "where" in entry:
        sections.append(Section("In the source", f"`{entry['where']}`"))
    return Topic(name, kind, entry["title"], tuple(sections))
