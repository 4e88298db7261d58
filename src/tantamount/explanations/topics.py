"""Topics: what has a name, what it means, and what to do. Read from the tables beside this file."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import fields
from difflib import get_close_matches
from functools import cache
from importlib.resources import files
from itertools import chain

from tantamount.effort import MEMORY, TIMEOUT
from tantamount.errors import UserError
from tantamount.explanations.operators import operator_topic
from tantamount.explanations.topic import Section, Topic
from tantamount.limits import STAGES, Bound, Limits, bounds_table
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
    for topic in (*_errors(), *chain.from_iterable(tables), *map(_bound, bounds_table()), *_stops()):
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
        needed="an error code, a verdict, a kind of difference, an assumption, a rule, a limit or an operator",
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


def _bound(bound: Bound) -> Topic:
    """The topic of one bound of a search, made from its row of the table."""
    scale = {
        "count": "`--effort` multiplies it: `low` by 1/4, `high` by 16, a number by that number.",
        "depth": "`--effort` adds one for every doubling of the effort.",
        "fixed": "`--effort` leaves it as it is.",
    }[bound.scale]
    sections = (
        Section("The limit", f"{bound.sentence} {bound.default} with normal effort. {scale}"),
        Section(_HEADINGS["meaning"], STAGES[bound.stage]),
        Section(_HEADINGS["do"], _RAISE if bound.scale != "fixed" else _FIXED),
    )
    return Topic(bound.topic, "limit", bound.sentence.rstrip("."), sections)


_RAISE = (
    "Nothing, if the verdict is what you expected. Otherwise ask again with `--effort high`, or more. A search that "
    "ends early proves less, never more: no PROVED and no REFUTED rests on it."
)
_FIXED = "Nothing: more of it would be another way to compute, not a longer search."


def _stops() -> Iterator[Topic]:
    """The topics of the limits that end the work on a job."""
    for name, option, what in (
        (TIMEOUT, "--timeout", "The wall-clock time that `--timeout` allows for a job, reading included, was over"),
        (MEMORY, "--memory", "The process held more memory than `--memory` allows"),
    ):
        meaning = (
            "The work ended there. Outputs that were proved by then are PROVED, with what they rest on; an output that "
            "an execution refuted is REFUTED; all others are UNKNOWN, and so is the job, unless one is refuted. The "
            "report says where the work was."
        )
        todo = f"Ask again with a larger `{option}`, or with `--effort low`, which gives up earlier on every question."
        yield Topic(name, "limit", what, (Section(_HEADINGS["meaning"], meaning), Section(_HEADINGS["do"], todo)))


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
