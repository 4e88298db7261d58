"""What every sentence of a diagnosis must be: short, and clear about which program a name belongs to."""

from __future__ import annotations

import re

from tantamount.ir.job import Job
from tantamount.verdict import Mismatch, Report

LONGEST = 120  # characters of a formula in a headline

_PLACE = re.compile(r" \([^()\s]*\.\w+:\d+\)")  # (train.py:12)
_PROSE = re.compile(r"[A-Za-z][a-z]+('s)?[,.:;]?")
_LABEL = "the specification's "
_SAME = (  # two sides of a sentence that read the same
    re.compile(r"\b(?:stands|reads|takes|has|adds) (?P<here>\S+?),? (?:where )?(?P=here) is (?:needed|wanted)"),
    re.compile(r"(?<!\S)(?P<here>\S+) (?:stands|is) where (?P=here) is (?:needed|wanted)"),
    re.compile(r"(?<!\S)(?P<here>\S+) is not (?P=here)(?!\S)"),
    re.compile(r"(?<!\S)(?P<here>\S+) has (?P=here),"),
)
_BETWEEN = re.compile(r" (?:where|is not) ")  # what is there, and what is wanted


def formulas(text: str) -> list[str]:
    """The formulas of a sentence: what stands between words of prose."""
    found: list[str] = []
    words: list[str] = []
    for word in [*_PLACE.sub("", text).split(), "end"]:
        if not _PROSE.fullmatch(word):
            words.append(word)
        elif words:
            found.append(" ".join(words))
            words = []
    return found


def shared_names(job: Job) -> set[str]:
    """The names that tensors of both programs have, but for inputs that are each other's parts."""
    alike = {relation.name for name, relation in job.inputs.items() if relation.name == name}
    theirs = {node.name for node in job.specification.nodes}
    return {name for graph in job.programs for name in graph.by_name if name in theirs} - alike


def unclear(text: str, job: Job) -> list[str]:
    """The names in the part of a sentence that says what is wanted that could be those of either program."""
    wanted = [part for one in _PLACE.sub("", text).split("; ") for part in _BETWEEN.split(one, maxsplit=1)[1:]]
    said = " ".join(wanted).replace(_LABEL, "~")
    names = shared_names(job)
    return [name for name in names if re.search(rf"(?<![\w.~/-]){re.escape(name)}(?![\w.]| of )", said)]


def check_sentences(job: Job, report: Report) -> None:
    """Headlines hold no long formula, and say of names that both programs have whose they are."""
    found = report.mismatch
    if found is None:
        return
    check_headline(found)
    assert not unclear(found.headline, job), found.headline
    for text in (found.headline, found.difference):
        assert not reads_the_same(text), text


def reads_the_same(text: str) -> bool:
    """True if a sentence tells apart what it calls by one name."""
    plain = _PLACE.sub("", text)
    return any(pattern.search(line) for line in plain.splitlines() for pattern in _SAME)


def check_headline(found: Mismatch) -> None:
    """No formula of a headline is long."""
    assert found.headline
    assert max(map(len, formulas(found.headline)), default=0) <= LONGEST, found.headline
